//! Cases that tests of this crate and of the page read, for figures that both compute.

/// Holds `tests/data/<name>.json` to these cases; `HAIRPIN_BLESS=1` writes it.
pub(crate) fn held<T: serde::Serialize>(name: &str, cases: &T) {
    let text = serde_json::to_string_pretty(cases).unwrap() + "\n";
    let file = format!("{}/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("HAIRPIN_BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "HAIRPIN_BLESS=1 writes it");
}
