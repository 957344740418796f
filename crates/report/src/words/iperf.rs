//! The report of `iperf -c HOST --bounceback` of iperf 2.2: whole round trips in ms.

use std::fmt::Write;

use super::Ping;

const BYTES: [&str; 5] = ["Byte", "KByte", "MByte", "GByte", "TByte"];
const BITS: [&str; 5] = ["bit", "Kbit", "Mbit", "Gbit", "Tbit"];

pub fn print(text: &mut String, ping: &Ping) {
    let (row, rtt) = (ping.row, &ping.row.rtt_ns);
    let (sent, received) = ((row.transactions + row.lost) * row.request_bytes, row.transactions * row.reply_bytes);
    let both = (sent + received) as f64;
    let (seconds, ms) = (ping.seconds(), |ns: Option<f64>| ns.unwrap_or_default() / 1e6);
    let rule = "-".repeat(60);
    let _ = writeln!(
        text,
        "{rule}\nClient connecting to {}, {} by hairpin {}\nBounceback test (request/reply size = {}/{} Byte)\n{rule}",
        ping.peer, ping.protocol, ping.path, row.request_bytes, row.reply_bytes
    );
    // Without counters of TCP iperf prints fewer columns.
    let (heading, tcp) = match &row.tcp {
        Some(tcp) => ("         Rtry  Cwnd(pkts)/RTT(var)", format!(" {:4}   -(-)/-(-)", tcp.client.retransmitted)),
        None => ("", String::new()),
    };
    let _ = writeln!(
        text,
        "[ ID] Interval            Transfer    Bandwidth         BB cnt=avg/min/max/stdev{heading}   Tx/Rx bytes  RPS(avg)"
    );
    let rps = rtt.mean.filter(|mean| *mean > 0.0).map_or(0.0, |mean| 1e9 / mean);
    let _ = writeln!(
        text,
        "[  1] 0.0000-{seconds:.4} sec  {}s  {}s/sec    {}={:.3}/{:.3}/{:.3}/{:.3} ms{tcp}    Tx={} Rx={}  RPS={rps:.*}",
        scaled(both, 1024.0, BYTES),
        scaled(if seconds > 0.0 { both * 8.0 / seconds } else { 0.0 }, 1000.0, BITS),
        rtt.count,
        ms(rtt.mean),
        ms(rtt.min.map(|ns| ns as f64)),
        ms(rtt.max.map(|ns| ns as f64)),
        ms(rtt.stddev),
        bytes(sent),
        bytes(received),
        usize::from(rps < 10.0)
    );
}

fn bytes(count: u64) -> String {
    if count == 0 { "0".into() } else { scaled(count as f64, 1024.0, BYTES) }
}

/// The number in four places.
fn scaled(mut number: f64, step: f64, units: [&str; 5]) -> String {
    let mut unit = 0;
    while number >= step && unit + 1 < units.len() {
        (number, unit) = (number / step, unit + 1);
    }
    let digits = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    format!("{number:4.digits$} {}", units[unit])
}
