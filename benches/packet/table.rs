//! Further figures below the cells, for information.

use std::fmt::Write as _;

use super::super::pairs::{Line, table_of};

/// The comparisons with the C program.
pub(crate) const FLOOR: &str = "hairpin / C";
pub(crate) const GAP: &str = "C / sockperf";

/// A table of the cells, and below it those of the comparisons with the C program.
pub(crate) fn cells(lines: &[Line]) -> String {
    let of = |name: &str, heads| {
        let lines: Vec<&Line> = lines.iter().filter(|line| line.compared == name).collect();
        (!lines.is_empty()).then(|| table_of("p50", &lines, heads))
    };
    let tables = [
        of("", ["first", "second"]),
        of(FLOOR, ["hairpin", "C"])
            .map(|table| format!("The shortest C program over the same ring (benches/frames.c).\n{table}")),
        of(GAP, ["C", "sockperf"]),
    ];
    tables.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// Time per frame by frames per kick, and that of xdp-bench.
pub(crate) fn text(curve: &[(u32, f64)], ceiling: Option<&Result<f64, String>>) -> String {
    let mut text = String::from("\nrtt, size: RTT p50; bounce: ns per frame sent back, none lost.\n");
    if !curve.is_empty() {
        let _ = writeln!(text, "\nns per frame sent back, by frames per kick (xdp:spin, the middle of three; no bound):");
        let of = |cell: &dyn Fn(&(u32, f64)) -> String| curve.iter().map(cell).collect::<String>();
        let _ = writeln!(text, "  frames {}", of(&|(batch, _)| format!("{batch:>7}")));
        let _ = writeln!(text, "  ns     {}", of(&|(_, ns)| format!("{ns:>7.0}")));
    }
    match ceiling {
        Some(Ok(ns)) => {
            let _ = writeln!(text, "xdp-bench tx, in the kernel, for information: {ns:.0} ns per frame");
        }
        Some(Err(why)) => {
            // The reason stands last, behind the commands.
            let why = why.rsplit_once("status: ").map_or(why.as_str(), |(_, rest)| rest);
            let _ = writeln!(text, "xdp-bench tx, in the kernel: not measured: {why}");
        }
        None => {}
    }
    text
}
