//! The table of sfnt-pingpong (sfnettest): a line per size, half round trips in ns.

use std::fmt::Write;

use hairpin_record::run::Run;

use super::Ping;

/// A table per path. A size without a reply has no line.
pub fn table(run: &Run) -> String {
    let (mut text, mut under) = (String::new(), String::new());
    for row in &run.results {
        let ping = Ping::of(run, row);
        if under != ping.path {
            let _ = writeln!(text, "# hairpin {} to {}\n# percentile=99\n# reporting: 1/2 RTT\n#", ping.path, ping.peer);
            text.push_str("#\tsize\tmean\tmin\tmedian\tmax\t%ile\tstddev\titer\n");
            under = ping.path.clone();
        }
        let rtt = &row.rtt_ns;
        let median = ping.at(rtt.count / 2 + 1);
        let high = ping.at(ping.share(0.99) as u64 + 1);
        let (Some(mean), Some(least), Some(most), Some(median), Some(high)) = (rtt.mean, rtt.min, rtt.max, median, high) else {
            continue;
        };
        let half = |ns: f64| (ns / 2.0) as u64;
        let _ = write!(text, "\t{}\t{}\t{}\t{}", row.request_bytes, half(mean), least / 2, half(median));
        let _ = writeln!(text, "\t{}\t{}\t{}\t{}", most / 2, half(high), half(rtt.stddev.unwrap_or_default()), rtt.count);
    }
    text
}
