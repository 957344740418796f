//! Parses round-trip times in the output of other tools.

/// The figures of a sockperf client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sockperf {
    /// Median RTT.
    pub(crate) p50_ns: f64,
    /// Round trips that it counted.
    pub(crate) observations: u64,
}

/// The text after `key` on the first line that has it.
fn after<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    let rest = text.lines().find_map(|line| Some(line.split_once(key)?.1.trim()));
    rest.ok_or_else(|| format!("its output has no \"{}\"", key.trim()))
}

/// The number that `text` begins with.
fn number(text: &str) -> Result<f64, String> {
    let word = text.split(|c: char| c.is_whitespace() || c == '/' || c == ';').next().unwrap_or(text);
    word.parse().map_err(|_| format!("its output has {word:?} where a number should be"))
}

/// Reads the output of `sockperf ping-pong --full-rtt`. sockperf prints microseconds with three digits after the point.
pub(crate) fn sockperf(text: &str) -> Result<Sockperf, String> {
    // Without --full-rtt the same lines hold half round trips, and the summary says "Latency".
    after(text, "Summary: Round trip is")?;
    let p50_ns = (number(after(text, "percentile 50.000 =")?)? * 1e3).round();
    let total = text.lines().find(|line| line.contains("each percentile contains")).unwrap_or("");
    let observations = number(after(total, "Total ")?)? as u64;
    // A median of a handful of samples means nothing.
    if observations < 100 {
        return Err(format!("it counted only {observations} round trips"));
    }
    Ok(Sockperf { p50_ns, observations })
}

/// Reads the output of `qperf … tcp_lat` or `udp_lat`: the mean round trip in ns. qperf's "latency" is half a mean round trip.
pub(crate) fn qperf(text: &str) -> Result<f64, String> {
    let value = after(text, "latency  =")?;
    let (digits, unit) = value.split_once(' ').ok_or_else(|| format!("its latency {value:?} has no unit"))?;
    let ns = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "sec" => 1e9,
        _ => return Err(format!("its latency {value:?} has a unit that is not known here")),
    };
    Ok(2.0 * ns * number(digits)?)
}

/// Reads the output of `iperf --bounceback`: the mean round trip in ns. The line is headed `BB cnt=avg/min/max/stdev`, in ms.
pub(crate) fn iperf(text: &str) -> Result<f64, String> {
    let heading = after(text, "BB cnt=avg/min/max/stdev");
    heading?;
    let line = text.lines().find(|line| line.trim_end().ends_with("rps")).ok_or("its output has no line of results")?;
    let figures = line.split_whitespace().find_map(|word| Some(word.split_once('=')?.1)).ok_or("its results have no averages")?;
    Ok(number(figures)? * 1e6)
}

/// Reads the output of NPtcp for one size: a round trip in ns, of the trial with the least mean. It prints half of one.
pub(crate) fn netpipe(text: &str) -> Result<f64, String> {
    let line = text.lines().find(|line| line.contains("-->")).unwrap_or("");
    let figure = after(line, "Mbps in")?;
    if !figure.ends_with("usec") {
        return Err(format!("its result {figure:?} is not in usec"));
    }
    Ok(2e3 * number(figure)?)
}

/// Reads the output of `netperf … -- -k MEAN_LATENCY`: the mean round trip in ns; it prints us.
/// (netperf 2.7, "Omni Output Selection": <https://hewlettpackard.github.io/netperf/doc/netperf.html>.)
pub(crate) fn netperf(text: &str) -> Result<f64, String> {
    Ok(1e3 * positive(number(after(text, "MEAN_LATENCY=")?)?)?)
}

/// Reads the output of neper's `tcp_rr` and `udp_rr` with `-p 50`: the median round trip in ns; they print s (`neper_histo_print`
/// of histo.c, github.com/google/neper).
pub(crate) fn neper(text: &str) -> Result<f64, String> {
    Ok(1e9 * positive(number(after(text, "latency_p50=")?)?)?)
}

/// Reads the table of sfnt-pingpong (sfnettest): the median round trip in ns of this size; it prints half of one unless told
/// otherwise.
pub(crate) fn sfnt(text: &str, size: u32) -> Result<f64, String> {
    let times = match after(text, "# reporting:")? {
        "1/2 RTT" => 2.0,
        "RTT" => 1.0,
        other => return Err(format!("it reports {other:?}, which is not known here")),
    };
    let head: Vec<&str> = after(text, "#\tsize")?.split_whitespace().collect();
    let column = head.iter().position(|name| *name == "median").ok_or("its table has no median")? + 1;
    let of_size = |line: &&str| line.split_whitespace().next() == Some(&size.to_string());
    let line = text.lines().find(of_size).ok_or_else(|| format!("its table has no line for {size} bytes"))?;
    Ok(times * number(line.split_whitespace().nth(column).unwrap_or(""))?)
}

/// Tools print 0 or -1 of what they did not measure.
fn positive(value: f64) -> Result<f64, String> {
    if value > 0.0 { Ok(value) } else { Err(format!("it printed {value}, which is no time")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKPERF: &str = "\
sockperf: \x1b[2;35m== version #3.7-no.git == \x1b[0m
sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)

[ 0] IP = 127.0.0.1       PORT = 21111 # UDP
sockperf: Warmup stage (sending a few dummy messages)...
sockperf: Starting test...
sockperf: Test end (interrupted by timer)
sockperf: Test ended
sockperf: [Total Run] RunTime=1.001 sec; Warm up time=400 msec; SentMessages=1197; ReceivedMessages=1196
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=0.552 sec; SentMessages=635; ReceivedMessages=635
sockperf: \x1b[2;35m====> avg-rtt=869.144 (std-dev=2238.057)\x1b[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Round trip is 869.144 usec
sockperf: \x1b[2;35mTotal 635 observations\x1b[0m; each percentile contains 6.35 observations
sockperf: ---> <MAX> observation = 15405.961
sockperf: ---> percentile 99.999 = 15405.961
sockperf: ---> percentile 99.000 = 11678.028
sockperf: ---> percentile 75.000 =  218.349
sockperf: ---> percentile 50.000 =  204.208
sockperf: ---> percentile 25.000 =  199.315
sockperf: ---> <MIN> observation =  187.691
";

    const IPERF: &str = "\
------------------------------------------------------------
Client connecting to 127.0.0.1, TCP port 20502 with pid 3965 (1 flows)
Write buffer size: 64.0 Byte
Bounce-back test (size=64.0 Byte) (server hold req=0 usecs & tcp_quickack)
TOS set to 0x0 and nodelay (Nagle off)
TCP window size: 16.0 KByte (default)
------------------------------------------------------------
[  1] local 127.0.0.1%lo port 49024 connected with 127.0.0.1 port 20502 (bb w/quickack len/hold=64/0) (sock=3) (icwnd/mss/irtt=319/32741/27) (ct=0.08 ms) on 2026-11-20 12:38:17 (UTC)
[ ID] Interval            Transfer    Bandwidth         BB cnt=avg/min/max/stdev         Rtry  Cwnd/RTT    RPS
[  1] 0.0000-1.0022 sec  1.77 MBytes  14.8 Mbits/sec    14463=0.068/0.007/2.743/0.036 ms    0  576K/282 us    14615 rps
[  1] 0.0000-1.0022 sec BB8(f)-PDF: bin(w=100us):cnt(14463)=1:14239,2:202,3:9,4:5,5:1 (5.00/95.00/99.7%=1/1/2,Outliers=0,obl/obu=0/0)
";

    #[test]
    fn sockperf_3_7() {
        assert_eq!(sockperf(SOCKPERF), Ok(Sockperf { p50_ns: 204_208.0, observations: 635 }));
    }

    #[test]
    fn half_round_trips_of_sockperf_are_refused() {
        let half = SOCKPERF.replace("Round trip is", "Latency is");
        assert_eq!(sockperf(&half), Err("its output has no \"Summary: Round trip is\"".to_owned()));
    }

    #[test]
    fn a_sockperf_that_measured_nothing_is_an_error() {
        let few = SOCKPERF.replace("635 observations", "7 observations");
        assert_eq!(sockperf(&few), Err("it counted only 7 round trips".to_owned()));
        let cut = SOCKPERF.split("Test end").next().unwrap();
        assert!(sockperf(cut).is_err());
        assert!(sockperf(&SOCKPERF.replace("204.208", "nan?")).unwrap_err().contains("nan?"));
    }

    #[test]
    fn qperf_0_4_11() {
        assert_eq!(qperf("udp_lat:\n    latency  =  33.2 us\n"), Ok(66_400.0));
        assert_eq!(qperf("tcp_lat:\n    latency  =  36004 ns\n"), Ok(72_008.0));
        assert!(qperf("tcp_lat:\n    latency  =  3 fortnights\n").is_err());
        assert!(qperf("failed to connect").is_err());
    }

    #[test]
    fn iperf_2_1_8() {
        assert_eq!(iperf(IPERF), Ok(68_000.0));
        assert!(iperf(IPERF.split("[  1] 0.0000").next().unwrap()).is_err());
        assert!(iperf("connect failed").is_err());
    }

    #[test]
    fn nptcp_3_7_2() {
        let text = "Send and receive buffers are 16384 and 131072 bytes\n(A bug in Linux doubles the requested buffer sizes)\n\
                    Now starting the main loop\n  0:      64 bytes   5000 times -->     17.12 Mbps in      28.52 usec\n";
        assert_eq!(netpipe(text), Ok(57_040.0));
        assert!(netpipe(&text.replace("usec", "msec")).is_err());
        assert!(netpipe("NetPIPE: read: error encountered, errno=104").is_err());
    }

    #[test]
    fn halves_and_units_of_tools_that_are_not_here() {
        assert_eq!(netperf("THROUGHPUT=29910.20\nMEAN_LATENCY=33.27\n").map(f64::round), Ok(33_270.0));
        assert!(netperf("MEAN_LATENCY=-1.00\n").unwrap_err().contains("no time"));
        assert_eq!(neper("latency_mean=0.000033100\nlatency_p50=0.000031400\n").map(f64::round), Ok(31_400.0));
        assert!(neper("latency_mean=0.000033100\n").is_err());
        let table = "# reporting: 1/2 RTT\n#\tsize\tmean\tmin\tmedian\tmax\n\t64\t3120\t2700\t3050\t41000\n";
        assert_eq!(sfnt(table, 64), Ok(6_100.0));
        assert_eq!(sfnt(&table.replace("1/2 RTT", "RTT"), 64), Ok(3_050.0));
        assert!(sfnt(table, 14).is_err() && sfnt(&table.replace("1/2 RTT", "one-way"), 64).is_err());
    }
}
