//! An RTT p50 beside its floor, in words.

use hairpin_record::floor::{Floor, Span};
use hairpin_record::run::Origin;
use hairpin_units::{BitRate, Picos};

use crate::figure::{ratio, us_signed};
use crate::prose::clean;

/// An RTT p50 against its floor: RTT, floor, gap.
pub(crate) fn gap(p50: Option<u64>, origin: Origin, floor: &Floor) -> String {
    let link = [Some(BitRate(floor.rate_bit_per_s).to_string()), floor.cable.as_deref().map(clean)];
    let declared = format!("{}, {}", clean(&floor.nic), link.into_iter().flatten().collect::<Vec<_>>().join(", "));
    let Some(p50) = p50 else {
        return format!("floor {} ({declared}); there is no RTT p50 to compare with it", scaled(floor.rtt));
    };
    // A record from elsewhere may contain any time.
    let rtt = Span::point(Picos::from_ns(p50.min(Picos::MAX.0 as u64 / 1000) as i64));
    let beyond = rtt.less(floor.rtt);
    // On an emulated link, the floor is the declared time. An RTT can fall below it if the program's own part took less than was
    // subtracted for it.
    let words = if beyond.high_ns < Picos::ZERO && origin != Origin::Emulated {
        "the RTT is below the floor: this link is not the declared one".into()
    } else {
        let times = floor.rtt.ns.map_or(String::new(), |ns| format!(", {} times the floor", ratio(p50 as f64 / ns.as_ns_f64())));
        format!("gap {}{times}", scaled(beyond))
    };
    format!("RTT p50 {}, floor {} ({declared}), {words}", scaled(rtt), scaled(floor.rtt))
}

/// A time with its unit, for sentences: exact in ns below 1 us, in us above.
fn scaled(span: Span) -> String {
    if span.low_ns.0.abs().max(span.high_ns.0.abs()) < 1_000_000 {
        return format!("{} ns", figure(span));
    }
    match span.ns {
        Some(ns) => format!("{} us", us_signed(ns.as_ns_f64())),
        None => format!("{}..{} us", us_signed(span.low_ns.as_ns_f64()), us_signed(span.high_ns.as_ns_f64())),
    }
}

/// A time in decimal ns without its unit, or both ends of a range.
pub(crate) fn figure(span: Span) -> String {
    match span.ns {
        Some(ns) => decimal(ns),
        None => format!("{}..{}", decimal(span.low_ns), decimal(span.high_ns)),
    }
}

/// Exact below 10 us, to a tenth of a ns above.
pub(crate) fn decimal(time: Picos) -> String {
    let shown = if time.0.abs() < 10_000_000 { time } else { Picos((time.as_ns_f64() * 10.0).round() as i64 * 100) };
    shown.to_string().trim_end_matches(" ns").into()
}
