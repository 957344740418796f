//! The elements of an SVG picture. All text is escaped here.

use std::fmt::Write;

use hairpin_units::Arrange;

use crate::drawn::plot::{COLOURS, MARKS};
use crate::prose::clean;

/// The colours of Okabe and Ito, which colour-blind readers can tell apart; their yellow is left out as too faint on white, and
/// black comes last.
const PALETTE: [&str; COLOURS] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1a1a1a"];
/// All styles except the lines' colours. The rules for dark screens come last, so that a program without media queries shows the
/// light version.
const STYLE: &str = "\
text{font-family:system-ui,'Segoe UI',Roboto,'Helvetica Neue','DejaVu Sans',sans-serif;font-size:12px;fill:#1a1a1a}\
.paper{fill:#fff}.title{font-size:18px;font-weight:600}.label{font-size:13px;font-weight:600}.small{fill:#555}\
.tick{fill:#555;font-variant-numeric:tabular-nums}.middle{text-anchor:middle}.end{text-anchor:end}\
polyline,path{fill:none;stroke-linejoin:round;stroke-linecap:round}\
.grid{stroke:#e6e6e6}.axis{stroke:#777}.leader{stroke:#999;stroke-dasharray:1 3}\
.line{stroke-width:2}.emulated{stroke-dasharray:7 4}.fit{stroke-width:1.5;stroke-dasharray:0.1 4}.interval{stroke-width:1.2}\
.mark{stroke:#fff;stroke-width:1}.published{stroke:#767676;stroke-width:1.3;fill:none;stroke-dasharray:none}\
polyline.published{stroke-dasharray:2 3}path.published{fill:#fff}.floor{stroke:#767676;stroke-width:1.5;stroke-dasharray:10 3 2 3}\
.floor-area{fill:#767676;fill-opacity:0.15}";
const DARK: &str = "\
text{fill:#e8e8e8}.paper{fill:#14171c}.small,.tick{fill:#a8adb5}.grid{stroke:#2b3038}.axis{stroke:#8b919b}.leader{stroke:#6d737d}\
.mark{stroke:#14171c}.published,.floor{stroke:#a8adb5}path.published{fill:#14171c}.floor-area{fill:#a8adb5}\
polyline.c6,path.interval.c6,path.apart.c6{stroke:#e8e8e8}path.mark.c6{fill:#e8e8e8}polyline.c0,path.interval.c0,path.apart.c0{stroke:#2f8fd0}path.mark.c0{fill:#2f8fd0}path.mark.apart{fill:#14171c}";
/// From one oblique line to the next.
const HATCH: f64 = 5.0;
/// Half the size of a mark.
const HALF: f64 = 5.0;
/// Line spacing within a label, and the gap between two labels.
const LABEL_LEADING: f64 = 15.0;
const APART: f64 = 7.0;

/// The mark at a point. Lines of one colour have different marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Down,
    Cross,
    Star,
}

impl Shape {
    const ALL: [Shape; MARKS] =
        [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond, Shape::Down, Shape::Cross, Shape::Star];

    /// The shape with this number, in turn.
    pub(super) fn of(number: usize) -> Shape {
        Shape::ALL[number % MARKS]
    }

    /// The shape of a published figure.
    pub(super) fn published(figure: usize) -> Shape {
        Shape::of(figure + 3)
    }

    fn path(self, (x, y): (f64, f64)) -> String {
        let corners = |corners: &[(f64, f64)]| {
            let points: Vec<String> =
                corners.iter().map(|(dx, dy)| format!("{:.1} {:.1}", x + dx * HALF, y + dy * HALF)).collect();
            format!("M{}Z", points.join("L"))
        };
        match self {
            Shape::Circle => {
                let r = HALF * 0.9;
                format!("M{:.1} {y:.1}a{r} {r} 0 1 0 {:.1} 0a{r} {r} 0 1 0 -{:.1} 0Z", x - r, 2.0 * r, 2.0 * r)
            }
            Shape::Square => corners(&[(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)]),
            Shape::Triangle => corners(&[(0.0, -1.1), (1.0, 0.8), (-1.0, 0.8)]),
            Shape::Diamond => corners(&[(0.0, -1.15), (1.15, 0.0), (0.0, 1.15), (-1.15, 0.0)]),
            Shape::Down => corners(&[(0.0, 1.1), (1.0, -0.8), (-1.0, -0.8)]),
            Shape::Cross => {
                let arm = [(-0.35, -1.0), (0.35, -1.0), (0.35, -0.35), (1.0, -0.35), (1.0, 0.35), (0.35, 0.35)];
                let back = arm.map(|(x, y)| (-x, -y));
                corners(&[&arm[..], &back[..]].concat())
            }
            Shape::Star => {
                let ray = |i: u32| {
                    let (angle, length) =
                        (f64::from(i) * std::f64::consts::PI / 5.0, if i.is_multiple_of(2) { 1.3 } else { 0.55 });
                    (angle.sin() * length, -angle.cos() * length)
                };
                corners(&(0..10).map(ray).collect::<Vec<_>>())
            }
        }
    }
}

/// The sign before a label.
pub(super) enum Sign {
    /// The mark of the line's points, with its class.
    Mark(Shape, String),
    /// A piece of the line, with its class.
    Piece(&'static str),
}

/// The name of a line, beside the plot.
pub(super) struct Label {
    /// The end of the line.
    pub(super) anchor: (f64, f64),
    /// The upper edge of the text, once placed.
    pub(super) at: f64,
    /// Class and text.
    pub(super) lines: Vec<(&'static str, String)>,
    pub(super) mark: Sign,
    /// True if a leader connects the anchor and the label.
    pub(super) led: bool,
    pub(super) tooltip: String,
}

impl Label {
    /// Height including the gap to the next label.
    pub(super) fn height(&self) -> f64 {
        self.lines.len() as f64 * LABEL_LEADING + APART
    }
}

/// Places labels in the order of their anchors, each as close to its anchor as the others allow, between `top` and `bottom`.
pub(super) fn place(mut labels: Vec<Label>, top: f64, bottom: f64) -> Vec<Label> {
    labels.arrange_by(|a, b| a.anchor.1.total_cmp(&b.anchor.1));
    let mut free = top;
    for label in &mut labels {
        label.at = (label.anchor.1 - LABEL_LEADING / 2.0).max(free);
        free = label.at + label.height();
    }
    let mut end = bottom + APART;
    for label in labels.iter_mut().rev() {
        label.at = label.at.min(end - label.height());
        end = label.at;
    }
    labels
}

/// An SVG picture under construction.
pub(super) struct Page {
    text: String,
}

impl Page {
    pub(super) fn new(width: f64, height: f64, title: &str, description: &str) -> Page {
        let colours: String = PALETTE
            .iter()
            .enumerate()
            .map(|(i, colour)| {
                format!(
                    "polyline.c{i},path.interval.c{i},path.apart.c{i}{{stroke:{colour}}}path.mark.c{i}{{fill:{colour}}}path.apart.c{i}{{fill:#fff}}"
                )
            })
            .collect();
        let (title, description) = (escape(title), escape(description));
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
             role=\"img\" aria-labelledby=\"title description\">\n\
             <title id=\"title\">{title}</title>\n<desc id=\"description\">{description}</desc>\n\
             <style>{STYLE}{colours}@media (prefers-color-scheme:dark){{{DARK}}}</style>\n\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"
        );
        Page { text }
    }

    pub(super) fn end(self) -> String {
        self.text + "</svg>\n"
    }

    fn put(&mut self, element: std::fmt::Arguments) {
        self.text.write_fmt(element).expect("a String takes everything");
        self.text.push('\n');
    }

    /// Opens a group with a tooltip.
    pub(super) fn open(&mut self, tooltip: &str) {
        self.put(format_args!("<g><title>{}</title>", escape(tooltip)));
    }

    pub(super) fn close(&mut self) {
        self.put(format_args!("</g>"));
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.put(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escape(text)));
    }

    pub(super) fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        self.put(format_args!("<polyline class=\"{class}\" points=\"{}\"/>", listed(points.iter())));
    }

    pub(super) fn area<'a>(&mut self, points: impl Iterator<Item = &'a (f64, f64)>, class: &str) {
        self.put(format_args!("<polygon class=\"{class}\" points=\"{}\"/>", listed(points)));
    }

    /// An interval bar with caps.
    pub(super) fn interval(&mut self, x: f64, low: f64, high: f64, class: &str) {
        let (left, width) = (x - 3.0, 6.0);
        self.put(format_args!(
            "<path class=\"{class}\" d=\"M{left:.1} {high:.1}h{width}M{left:.1} {low:.1}h{width}M{x:.1} {low:.1}V{high:.1}\"/>"
        ));
    }

    pub(super) fn mark(&mut self, at: (f64, f64), shape: Shape, class: &str, tooltip: &str) {
        let path = shape.path(at);
        if tooltip.is_empty() {
            self.put(format_args!("<path class=\"{class}\" d=\"{path}\"/>"));
        } else {
            self.put(format_args!("<path class=\"{class}\" d=\"{path}\"><title>{}</title></path>", escape(tooltip)));
        }
    }

    /// A filled rectangle.
    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        self.put(format_args!("<path class=\"{class}\" d=\"M{x:.1} {y:.1}h{width:.2}v{height:.1}h-{width:.2}Z\"/>"));
    }

    /// The outline of a rectangle, with oblique lines in it.
    pub(super) fn hatched(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        let mut path = format!("M{x:.1} {y:.1}h{width:.2}v{height:.1}h-{width:.2}Z");
        let steps = ((width + height) / HATCH).ceil() as usize;
        for step in 1..steps {
            // The line from the lower edge to the upper one, cut off at the sides.
            let begins = step as f64 * HATCH - height;
            let (from, to) = ((-begins).max(0.0), (width - begins).min(height));
            if to > from {
                path += &format!("M{:.1} {:.1}l{:.1} -{:.1}", x + begins + from, y + height - from, to - from, to - from);
            }
        }
        self.put(format_args!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    /// The text of a placed label, its sign, and a leader from the end of its line.
    pub(super) fn label(&mut self, label: &Label, x: f64) {
        let y = label.at + LABEL_LEADING / 2.0;
        self.open(&label.tooltip);
        let (from, to) = ((label.anchor.0 + 7.0, label.anchor.1), (x - 12.0, y));
        if label.led {
            self.polyline(&[from, to], "leader");
        }
        match &label.mark {
            Sign::Mark(shape, class) => self.mark((x, y), *shape, class, ""),
            Sign::Piece(class) => self.polyline(&[(x - 9.0, y), (x + 7.0, y)], class),
        }
        for (i, (class, line)) in label.lines.iter().enumerate() {
            self.text(x + 12.0, y + 4.5 + i as f64 * LABEL_LEADING, class, line);
        }
        self.close();
    }
}

fn listed<'a>(points: impl Iterator<Item = &'a (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

/// Escapes text for XML content or an attribute. Characters that XML forbids become U+FFFD.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in clean(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{FFFE}' | '\u{FFFF}' => escaped.push('\u{FFFD}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_pushed_apart_and_stay_within() {
        let label = |y: f64| Label {
            anchor: (0.0, y),
            at: 0.0,
            lines: vec![("label", "x".into()); 2],
            mark: Sign::Piece("floor"),
            led: true,
            tooltip: String::new(),
        };
        let placed = place(vec![label(390.0), label(100.0), label(388.0), label(101.0)], 90.0, 400.0);
        for pair in placed.windows(2) {
            assert!(pair[1].at >= pair[0].at + pair[0].height() - 1e-9);
        }
        assert!(placed[0].at >= 90.0 && placed[3].at + placed[3].height() <= 400.0 + APART);
        assert_eq!(placed[0].anchor.1, 100.0);
    }

    #[test]
    fn text_cannot_leave_its_element() {
        assert_eq!(escape("<script>'a'&\"b\"\u{1b}\u{FFFE}"), "&lt;script&gt;&#39;a&#39;&amp;&quot;b&quot;\u{FFFD}\u{FFFD}");
    }
}
