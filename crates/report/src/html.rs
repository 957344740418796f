//! The report as one HTML file: the page built from `web/` and checked in, with the view embedded.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::ZlibDecoder;

use crate::drawn::told;
use crate::view::View;

/// The page without a view, packed by `build.rs`.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let mut page = String::new();
    let mut packed = ZlibDecoder::new(&include_bytes!(concat!(env!("OUT_DIR"), "/page"))[..]);
    packed.read_to_string(&mut page).expect("build.rs packed it, as a test holds");
    page
});
/// The placeholder that the view replaces.
const PLACE: &str = "<script type=\"application/json\" id=\"view\">null</script>";

/// The page with this view. The view cannot close its script element or open another: `<`, `>` and `&` are escaped, and so are
/// the two line separators that JSON allows in a string but older JavaScript does not.
pub fn html(view: &View) -> String {
    let json = told(view).to_string();
    let (before, after) = PAGE.split_once(PLACE).expect("the page has a place for the view, as a test holds");
    let mut page = String::with_capacity(PAGE.len() + json.len() + json.len() / 8);
    page.push_str(before);
    page.push_str(PLACE.trim_end_matches("null</script>"));
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => page.push_str(&format!("\\u{:04x}", c as u32)),
            c => page.push(c),
        }
    }
    page.push_str("</script>");
    page.push_str(after);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_place_for_the_view() {
        assert!(*PAGE == include_str!("../web/dist/report.html"));
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        assert_eq!(PAGE.matches("id=\"view\"").count(), 1);
    }

    #[test]
    fn no_text_of_a_view_leaves_its_script() {
        let text = "</script><script>alert(1)</script><!-- & \u{2028}\u{2029} \" \\";
        let view = View { made: text.into(), ..View::default() };
        let page = html(&view);
        assert_eq!(page.matches("<script").count(), PAGE.matches("<script").count());
        let json = page.split_once("id=\"view\">").unwrap().1.split_once("</script>").unwrap().0;
        assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(json).unwrap()["made"], text);
    }
}
