//! Converts OpenMetrics text to the text format 0.0.4.
//!
//! ```text
//!   # TYPE hairpin_lost counter   ─▶  # TYPE hairpin_lost_total counter        the type belongs to the name of the samples
//!   # TYPE hairpin_build info     ─▶  # TYPE hairpin_build_info gauge          there is no type `info`
//!   # UNIT …, # EOF               ─▶  nothing
//! ```

use std::collections::HashMap;

/// The same metrics in the older format.
pub(super) fn plain(open: &str) -> String {
    let kinds: HashMap<&str, &str> = open.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let renamed = |name: &str| match kinds.get(name) {
        Some(&"counter") => format!("{name}_total"),
        Some(&"info") => format!("{name}_info"),
        _ => name.to_owned(),
    };
    let mut page = String::with_capacity(open.len());
    for line in open.lines() {
        let about = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '));
        let line = match about {
            None if line.starts_with('#') => continue,
            None => line.to_owned(),
            Some(("HELP", rest)) => {
                let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
                // Quotes are not escaped here.
                format!("# HELP {} {}", renamed(name), help.replace("\\\"", "\""))
            }
            Some(("TYPE", rest)) => {
                let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
                let kind = match kind {
                    "counter" | "gauge" | "histogram" | "summary" => kind,
                    "info" | "stateset" => "gauge",
                    _ => "untyped",
                };
                format!("# TYPE {} {kind}", renamed(name))
            }
            Some(_) => continue,
        };
        page.push_str(&line);
        page.push('\n');
    }
    page
}
