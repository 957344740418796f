//! Further figures below the cells, for information.

use std::fmt::Write as _;

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
