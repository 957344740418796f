//! The summary lines of sockperf 3.7, as of its `ping-pong` and `under-load`: half round trips in us.

use std::fmt::Write;

use super::Ping;

const PERCENTILES: [f64; 8] = [0.99999, 0.9999, 0.999, 0.99, 0.90, 0.75, 0.50, 0.25];

pub fn print(text: &mut String, ping: &Ping) {
    let (row, rtt) = (ping.row, &ping.row.rtt_ns);
    let mut say = |line: String| {
        let _ = writeln!(text, "sockperf: {line}");
    };
    say(format!("== hairpin {}, {} bytes to {} ==", ping.path, row.request_bytes, ping.peer));
    let (Some(mean), Some(least), Some(most)) = (rtt.mean, rtt.min, rtt.max) else {
        return say("No messages were received from the server. Is the server down?".into());
    };
    let half_us = |ns: f64| ns / 2e3;
    let average = half_us(mean);
    say("========= Printing statistics for Server No: 0".into());
    say(format!(
        "[Valid Duration] RunTime={:.3} sec; SentMessages={}; ReceivedMessages={}",
        ping.seconds(),
        row.transactions + row.lost,
        row.transactions
    ));
    say(format!("====> avg-latency={average:.3} (std-dev={:.3})", half_us(rtt.stddev.unwrap_or_default())));
    say(format!(
        "# dropped messages = {}; # duplicated messages = {}; # out-of-order messages = {}",
        row.lost, row.duplicates, row.reordered
    ));
    say(format!("Summary: Latency is {average:.3} usec"));
    say(format!("Total {} observations; each percentile contains {:.2} observations", rtt.count, ping.share(0.01)));
    say(format!("---> <MAX> observation = {:8.3}", half_us(most as f64)));
    for share in PERCENTILES {
        if let Some(ns) = ping.at((ping.share(share) + 0.5) as u64) {
            say(format!("---> percentile {:6.3} = {:8.3}", share * 100.0, half_us(ns)));
        }
    }
    say(format!("---> <MIN> observation = {:8.3}", half_us(least as f64)));
}
