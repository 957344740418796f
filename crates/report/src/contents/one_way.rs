//! The one-way delays of a row.

use hairpin_record::one_way::{self, SignedTimes};
use hairpin_units::Quantile as Q;

use crate::one_way::{faults, sentence};
use crate::prose::{capital, clean};
use crate::view::{Delay, OneWay};

pub(super) fn one_way(found: &one_way::OneWay) -> OneWay {
    let said = std::iter::once(sentence(found)).chain(faults(found));
    OneWay {
        said: said.map(|words| format!("{}.", capital(&clean(&words)))).collect(),
        delays: vec![
            delay("request", &found.request_ns, found.bound_ns),
            delay("reply", &found.reply_ns, found.bound_ns),
            // An offset of the clocks adds to one way and is taken off the other.
            delay("request - reply", &found.asymmetry_ns, 2.0 * found.bound_ns),
        ],
    }
}

fn delay(way: &str, times: &SignedTimes, bound_ns: f64) -> Delay {
    let supported = |q: Q, ns: Option<i64>| ns.filter(|_| q.is_supported_by(times.count));
    Delay {
        way: way.into(),
        count: times.count,
        p50_ns: supported(Q::P50, times.p50),
        p99_ns: supported(Q::P99, times.p99),
        bound_ns: Some(bound_ns).filter(|ns| ns.is_finite()),
    }
}
