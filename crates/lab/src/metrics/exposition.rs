//! Encodes the metrics in the forms that scrapers accept: text, and protobuf with a native histogram.

use std::fmt;

use hairpin_record::histogram::Decoded;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, NativeHistogram, NativeHistogramBuckets, NoLabelSet, prometheus_protobuf, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use super::State;
use super::plain::plain;
use super::series::{Distribution, Labels, Series};

/// The native histogram's resolution: 2^5 buckets per factor of two, each 2.2 % wide.
const SCHEMA: i32 = 5;
/// Times below this are in the zero bucket; a TSC cannot resolve half a nanosecond.
const ZERO_S: f64 = 5e-10;
/// Bounds of the classic histogram in ns: 1, 2, 5 per factor of ten, from 100 ns to 10 s.
const BOUNDS_NS: [u64; 25] = [
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// An exposition format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// The default: text format 0.0.4.
    Plain,
    OpenMetrics,
    /// Protobuf, the only form with a native histogram.
    Protobuf,
}

impl Form {
    /// The format that a scraper prefers, from its header `Accept`.
    pub(super) fn accepted(accept: &str) -> Form {
        let mut best = (Form::Plain, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(|part| part.trim().to_ascii_lowercase());
            let kind = parts.next().unwrap_or_default();
            let parts: Vec<String> = parts.collect();
            let has = |name: &str, value: &str| parts.iter().any(|part| part.split_once('=') == Some((name, value)));
            let form = match kind.as_str() {
                "application/vnd.google.protobuf"
                    if has("proto", "io.prometheus.client.metricfamily") && has("encoding", "delimited") =>
                {
                    Form::Protobuf
                }
                "application/openmetrics-text" => Form::OpenMetrics,
                "text/plain" => Form::Plain,
                _ => continue,
            };
            let quality = parts.iter().find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok()).unwrap_or(1.0);
            if quality > best.1 {
                best = (form, quality);
            }
        }
        best.0
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Form::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Form::Protobuf => "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
        }
    }
}

pub(super) fn encode(state: State, form: Form) -> Result<Vec<u8>, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposed(state)));
    match form {
        Form::Plain | Form::OpenMetrics => {
            let mut page = String::new();
            text::encode(&mut page, &registry)?;
            Ok(if form == Form::Plain { plain(&page) } else { page }.into_bytes())
        }
        Form::Protobuf => prometheus_protobuf::encode_to_vec(&registry).map_err(|_| fmt::Error),
    }
}

#[derive(Debug)]
struct Exposed(State);

/// A counter: name, description, unit, value.
type Counter = (&'static str, &'static str, Option<Unit>, fn(&Series) -> f64);

impl Collector for Exposed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let State { series, measuring, last_snapshot_s, .. } = &self.0;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        encoder.encode_descriptor("hairpin_build", "The version of hairpin.", None, MetricType::Info)?.encode_info(&version)?;
        encoder
            .encode_descriptor(
                "hairpin_measuring",
                "1 while a row is measured, 0 before, between and after, and in a pause.",
                None,
                MetricType::Gauge,
            )?
            .encode_gauge(&i64::from(*measuring))?;
        if let Some(at_s) = last_snapshot_s {
            let help = "When the last snapshot came, in seconds since 1970.";
            let unit = Some(&Unit::Seconds);
            encoder.encode_descriptor("hairpin_last_snapshot_timestamp", help, unit, MetricType::Gauge)?.encode_gauge(at_s)?;
        }
        let all: Vec<(&Labels, &Distribution)> = series.iter().map(|(labels, series)| (labels, &series.totals.rtt)).collect();
        times(
            &mut encoder,
            "hairpin_rtt",
            "RTT: the client's send call entered until the reply is in the caller's buffer.",
            &all,
        )?;
        let all: Vec<(&Labels, &Distribution)> =
            series.iter().filter_map(|(labels, series)| Some((labels, series.totals.from_due.as_deref()?))).collect();
        if !all.is_empty() {
            let help = "From the time a paced request was due until the reply is in the caller's buffer; an unanswered request counts with the time it had waited.";
            times(&mut encoder, "hairpin_rtt_from_due", help, &all)?;
        }
        let counters: [Counter; 6] = [
            ("hairpin_transactions", "Requests answered.", None, |series| series.totals.transactions as f64),
            ("hairpin_sent", "Requests sent.", None, |series| series.totals.sent as f64),
            ("hairpin_lost", "Requests never answered in time.", None, |series| series.totals.lost as f64),
            ("hairpin_late", "Replies that came after their request was given up.", None, |series| series.totals.late as f64),
            ("hairpin_measured", "Time measured, without the gaps between blocks.", Some(Unit::Seconds), |series| {
                series.totals.measured_ns as f64 / 1e9
            }),
            (
                "hairpin_paused",
                "Time for which the probe waited for a session that measured at its server.",
                Some(Unit::Seconds),
                |series| series.totals.paused_ns as f64 / 1e9,
            ),
        ];
        for (name, help, unit, value) in counters {
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
            for (labels, series) in series {
                metric.encode_family(&labels.pairs())?.encode_counter::<NoLabelSet, f64, f64>(&value(series), None)?;
            }
        }
        incidents(&mut encoder, series)?;
        cpu(&mut encoder, series)?;
        gauges(&mut encoder, series)
    }
}

type All = std::collections::BTreeMap<Labels, Series>;

/// Encodes one histogram of times, classic and native.
fn times(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    all: &[(&Labels, &Distribution)],
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (labels, of) in all {
        let (classic, native) = (classic(&of.times), Native::of(&of.times));
        let none = None::<&std::collections::HashMap<usize, Exemplar<NoLabelSet, f64>>>;
        metric.encode_family(&labels.pairs())?.encode_histogram_with_native(
            of.sum_ns / 1e9,
            of.times.count(),
            &classic,
            none,
            native.buckets(),
        )?;
    }
    Ok(())
}

fn cpu(encoder: &mut DescriptorEncoder<'_>, all: &All) -> Result<(), fmt::Error> {
    let help = "User and system time of a side's worker; that of a server on another host when its row ends.";
    let mut metric = encoder.encode_descriptor("hairpin_cpu", help, Some(&Unit::Seconds), MetricType::Counter)?;
    for (labels, series) in all {
        for (side, ns) in [("client", Some(series.totals.client_ns)), ("server", series.totals.server_ns)] {
            let Some(ns) = ns else { continue };
            let labels = [labels.pairs(), vec![("side", side.into())]].concat();
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, f64, f64>(&(ns as f64 / 1e9), None)?;
        }
    }
    Ok(())
}

/// Encodes the incidents; only runs with `--explain-above` have them.
fn incidents(encoder: &mut DescriptorEncoder<'_>, all: &All) -> Result<(), fmt::Error> {
    let caught = || all.iter().filter_map(|(labels, series)| Some((labels, series, series.totals.incidents.as_ref()?)));
    if caught().next().is_none() {
        return Ok(());
    }
    let help = "Round trips above the limit of --explain-above, by their main cause.";
    let mut metric = encoder.encode_descriptor("hairpin_incidents", help, None, MetricType::Counter)?;
    for (labels, _, by_cause) in caught() {
        for (cause, count) in by_cause {
            let labels = [labels.pairs(), vec![("cause", cause.clone())]].concat();
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, f64, f64>(&(*count as f64), None)?;
        }
    }
    let help = "Round trips above that limit without a line in the file of incidents.";
    let mut metric = encoder.encode_descriptor("hairpin_incidents_without_line", help, None, MetricType::Counter)?;
    for (labels, series, _) in caught() {
        metric
            .encode_family(&labels.pairs())?
            .encode_counter::<NoLabelSet, f64, f64>(&(series.totals.without_line as f64), None)?;
    }
    Ok(())
}

fn gauges(encoder: &mut DescriptorEncoder<'_>, all: &All) -> Result<(), fmt::Error> {
    let help = "Cache-line round trip between the cores of both sides, the largest of the last interval.";
    let mut metric = encoder.encode_descriptor("hairpin_core_rtt", help, Some(&Unit::Seconds), MetricType::Gauge)?;
    for (labels, series) in all {
        if let Some(ns) = series.core_rtt_ns {
            metric.encode_family(&labels.pairs())?.encode_gauge(&(ns as f64 / 1e9))?;
        }
    }
    let help =
        "1 for each way in which the figures of the last minute, or of a finished row, may mislead, by the warning's code.";
    let mut metric = encoder.encode_descriptor("hairpin_warnings", help, None, MetricType::Gauge)?;
    for (labels, series) in all {
        for code in &series.warnings {
            metric.encode_family(&[labels.pairs(), vec![("code", code.clone())]].concat())?.encode_gauge(&1_i64)?;
        }
    }
    Ok(())
}

/// Counts by upper bound in s, not cumulative; the last has no bound.
fn classic(rtt: &Decoded) -> Vec<(f64, u64)> {
    let bounds = BOUNDS_NS.iter().map(|ns| *ns as f64 / 1e9).chain([f64::INFINITY]);
    let mut buckets: Vec<(f64, u64)> = bounds.map(|bound| (bound, 0)).collect();
    for (ns, count) in rtt.counts() {
        buckets[BOUNDS_NS.partition_point(|bound| *bound < ns)].1 += count;
    }
    buckets
}

/// A native histogram: spans of non-empty buckets, and their counts as differences.
#[derive(Debug, Default)]
pub(super) struct Native {
    zero: u64,
    spans: Vec<(i32, u32)>,
    deltas: Vec<i64>,
}

impl Native {
    pub(super) fn of(rtt: &Decoded) -> Native {
        let mut counts = std::collections::BTreeMap::<i32, u64>::new();
        let mut native = Native::default();
        for (ns, count) in rtt.counts() {
            let seconds = ns as f64 / 1e9;
            if seconds <= ZERO_S {
                native.zero += count;
            } else {
                // Bucket i holds values above 2^((i - 1) / 2^SCHEMA) up to 2^(i / 2^SCHEMA).
                *counts.entry((seconds.log2() * f64::from(1 << SCHEMA)).ceil() as i32).or_default() += count;
            }
        }
        let (mut next, mut before) = (0, 0);
        for (index, count) in counts {
            match native.spans.last_mut() {
                Some((_, length)) if index == next => *length += 1,
                _ => native.spans.push((index - next, 1)),
            }
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            native.deltas.push(count - before);
            (next, before) = (index + 1, count);
        }
        native
    }

    fn buckets(&self) -> NativeHistogram<'_> {
        NativeHistogram {
            schema: SCHEMA,
            zero_threshold: ZERO_S,
            zero_count: self.zero,
            negative: NativeHistogramBuckets { spans: &[], deltas: &[] },
            positive: NativeHistogramBuckets { spans: &self.spans, deltas: &self.deltas },
            created: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::histogram::Times;

    use super::*;

    fn decoded(times: &[u64]) -> Decoded {
        let mut all = Times::new();
        times.iter().for_each(|ns| all.record(*ns));
        Decoded::decode(&all.encode()).unwrap()
    }

    #[test]
    fn native_buckets_are_those_of_the_specification() {
        // 2^-20 s is 953.67 ns, the boundary between buckets -640 and -639.
        let native = Native::of(&decoded(&[0, 953, 954, 954, 975, 1_000_000_000]));
        assert_eq!(native.zero, 1);
        assert_eq!(native.spans, [(-640, 3), (637, 1)], "three neighbours, then bucket 0 after 637 empty ones");
        assert_eq!(native.deltas, [1, 1, -1, 0]);
        let empty = Native::of(&Decoded::empty());
        assert_eq!((empty.spans.len(), empty.deltas.len(), empty.zero), (0, 0, 0));
    }

    #[test]
    fn classic_buckets_hold_everything_once() {
        let buckets = classic(&decoded(&[100, 101, 200, 1_500, 20_000_000_000]));
        assert_eq!(buckets.len(), 26);
        assert_eq!(&buckets[..5], [(1e-7, 1), (2e-7, 2), (5e-7, 0), (1e-6, 0), (2e-6, 1)]);
        assert_eq!(buckets[25], (f64::INFINITY, 1));
    }

    #[test]
    fn the_form_is_the_one_that_the_scraper_prefers() {
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        for (accept, form) in [
            ("", Form::Plain),
            ("*/*", Form::Plain),
            ("text/plain", Form::Plain),
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5,*/*;q=0.1",
                Form::OpenMetrics,
            ),
            (
                &format!("{protobuf},application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"),
                Form::Protobuf,
            ),
            (&format!("{protobuf};q=0.2, application/openmetrics-text;q=0.8"), Form::OpenMetrics),
            ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text", Form::Plain),
            ("application/openmetrics-text;q=nan,;;;,q=", Form::Plain),
        ] {
            assert_eq!(Form::accepted(accept), form, "{accept}");
        }
    }
}
