//! netperf 2.7: the lines of its TCP_RR, UDP_RR and TCP_CRR, its `-k` keys, and its `-o` CSV with the histogram of `-v 2`.

use std::fmt::Write;

use hairpin_plan::path::Speaks;

use super::Ping;

/// A result: key of `-k`, heading of `-o`, value.
type Field = (&'static str, &'static str, String);

/// netperf's word for a figure that it did not measure.
const UNKNOWN: &str = "-1";

/// Rows of its histogram: each ten times the one before, from 1 us, in ten buckets.
const HISTOGRAM: [&str; 8] =
    ["UNIT_USEC", "TEN_USEC", "HUNDRED_USEC", "UNIT_MSEC", "TEN_MSEC", "HUNDRED_MSEC", "UNIT_SEC", "TEN_SEC"];

/// The lines without a test-specific option, then the keys.
pub fn classic(text: &mut String, ping: &Ping) {
    let (row, seconds) = (ping.row, ping.seconds());
    let sizes = format!("{:<8} {:<7} {seconds:<8.2} {:<10.2}", row.request_bytes, row.reply_bytes, row.transactions_per_s);
    banner(text, ping);
    text.push_str(
        "Local /Remote\nSocket Size   Request  Resp.   Elapsed  Trans.\nSend   Recv   Size     Size    Time     Rate         \n",
    );
    text.push_str("bytes  Bytes  bytes    bytes   secs.    per sec   \n\n");
    let _ = writeln!(text, "{UNKNOWN:<6} {UNKNOWN:<6} {sizes}\n{UNKNOWN:<6} {UNKNOWN:<6}");
    for (key, _, value) in fields(ping) {
        let _ = writeln!(text, "{key}={value}");
    }
}

/// The lines of `-o`, and of `-v 2`.
pub fn csv(text: &mut String, ping: &Ping) {
    let fields = fields(ping);
    let line = |of: fn(&Field) -> &str| fields.iter().map(of).collect::<Vec<_>>().join(",");
    banner(text, ping);
    let _ = writeln!(text, "{}\n{}\n\nHistogram of request/response times", line(|field| field.1), line(|field| &field.2));
    let mut counts = [[0; 10]; HISTOGRAM.len()];
    let mut beyond = 0;
    for (ns, often) in ping.times.counts() {
        let us = ns / 1_000;
        let at = us.checked_ilog10().unwrap_or_default();
        match counts.get_mut(at as usize) {
            Some(buckets) => buckets[(us / 10u64.pow(at)) as usize] += often,
            None => beyond += often,
        }
    }
    for (name, buckets) in HISTOGRAM.iter().zip(counts) {
        let buckets = buckets.map(|often| format!(": {often:>4}"));
        let _ = writeln!(text, "{name:<14}{}", buckets.concat());
    }
    let _ = writeln!(text, ">100_SECS: {beyond}\nHIST_TOTAL:      {}", ping.times.count());
}

fn banner(text: &mut String, ping: &Ping) {
    let exchange = if ping.speaks == Some(Speaks::TcpPerTransaction) { "Connect/Request/Response" } else { "REQUEST/RESPONSE" };
    let Ping { row, path, protocol, peer, .. } = ping;
    let burst = row.outstanding.saturating_sub(1);
    let _ = writeln!(
        text,
        "MIGRATED {protocol} {exchange} TEST from 0.0.0.0 () port 0 AF_UNSPEC to {peer} () port 0 AF_UNSPEC : hairpin {path} : first burst {burst}"
    );
}

fn fields(ping: &Ping) -> Vec<Field> {
    let row = ping.row;
    let (rtt, rate) = (&row.rtt_ns, row.transactions_per_s);
    let known = |value: Option<u64>| value.map_or(UNKNOWN.into(), |value| value.to_string());
    let whole_us = |ns: Option<f64>| known(ns.map(|ns| ns as u64 / 1_000));
    let us = |ns: Option<f64>| ns.map_or("-1.00".into(), |ns| format!("{:.2}", ns / 1e3));
    let at = |share: f64| whole_us(ping.at((ping.share(share) as u64).max(1)));
    let in_flight = f64::from(row.flows) * f64::from(row.outstanding);
    let (client, server) = row.tcp.as_ref().map_or((None, None), |tcp| (Some(&tcp.client), tcp.server.as_ref()));
    let mut fields = vec![
        ("PROTOCOL", "Protocol", ping.protocol.clone()),
        ("CONFIDENCE_LEVEL", "Confidence Level Percent", "0".into()),
        ("CONFIDENCE_INTERVAL", "Confidence Width Target", "-1.000000".into()),
        ("CONFIDENCE_ITERATION", "Confidence Iterations Run", "1".into()),
        // Before the throughput: scripts that take any key with that word keep the last one.
        ("THROUGHPUT_CONFID", "Throughput Confidence Width (%)", "-1.000".into()),
        ("ELAPSED_TIME", "Elapsed Time (sec)", format!("{:.2}", ping.seconds())),
        ("THROUGHPUT", "Throughput", format!("{rate:.2}")),
        ("THROUGHPUT_UNITS", "Throughput Units", "Trans/s".into()),
        ("REQUEST_SIZE", "Request Size Bytes", row.request_bytes.to_string()),
        ("RESPONSE_SIZE", "Response Size Bytes", row.reply_bytes.to_string()),
        ("LOCAL_CPU_UTIL", "Local CPU Util %", "-1.00".into()),
        ("LOCAL_CPU_METHOD", "Local CPU Util Method", "U".into()),
        ("LOCAL_SD", "Local Service Demand", "-1.000".into()),
        ("REMOTE_CPU_UTIL", "Remote CPU Util %", "-1.00".into()),
        ("REMOTE_CPU_METHOD", "Remote CPU Util Method", "U".into()),
        ("REMOTE_SD", "Remote Service Demand", "-1.000".into()),
        ("TRANSACTION_RATE", "Transaction Rate Tran/s", format!("{rate:.3}")),
        (
            "RT_LATENCY",
            "Round Trip Latency usec/tran",
            if rate > 0.0 { format!("{:.3}", in_flight * 1e6 / rate) } else { "-1.000".into() },
        ),
        ("BURST_SIZE", "Initial Burst Requests", row.outstanding.saturating_sub(1).to_string()),
        ("LOCAL_TRANSPORT_RETRANS", "Local Transport Retransmissions", known(client.map(|side| side.retransmitted))),
        ("REMOTE_TRANSPORT_RETRANS", "Remote Transport Retransmissions", known(server.map(|side| side.retransmitted))),
        ("TRANSPORT_MSS", "Transport MSS bytes", known(client.map(|side| side.mss.into()))),
        ("MIN_LATENCY", "Minimum Latency Microseconds", known(rtt.min.map(|ns| ns / 1_000))),
        ("MAX_LATENCY", "Maximum Latency Microseconds", known(rtt.max.map(|ns| ns / 1_000))),
        ("P50_LATENCY", "50th Percentile Latency Microseconds", at(0.5)),
        ("P90_LATENCY", "90th Percentile Latency Microseconds", at(0.9)),
        ("P99_LATENCY", "99th Percentile Latency Microseconds", at(0.99)),
        ("MEAN_LATENCY", "Mean Latency Microseconds", us(rtt.mean)),
        ("STDDEV_LATENCY", "Stddev Latency Microseconds", us(rtt.stddev)),
    ];
    // A datagram is one call on either side; the number of calls for a stream's message is not known.
    if ping.speaks == Some(Speaks::Udp) {
        fields.push(("LOCAL_SEND_CALLS", "Local Send Calls", (row.transactions + row.lost).to_string()));
        fields.push(("REMOTE_RECV_CALLS", "Remote Recv Calls", row.transactions.to_string()));
    }
    fields
}
