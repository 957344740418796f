//! A histogram of times with three digits of precision from 1 ns to 60 s. Count, minimum, maximum, sum and sum of squares are
//! exact.
//!
//! Quantiles come from [HdrHistogram](http://hdrhistogram.org) and are within 0.1 %. Quantiles are never averaged; histograms are
//! added instead.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use hairpin_units::Quantile;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::run::{Interpolated, Quantiles};

/// Longer times are recorded as this value.
pub const HIGHEST_NS: u64 = 60_000_000_000;

/// The first bytes of HDR V2, compressed and uncompressed, and the length of the uncompressed header.
const COMPRESSED: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
const PLAIN: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];
const HEADER: usize = 40;

/// A distribution of times in ns, in constant memory.
///
/// Made once, it allocates nothing afterwards, so it can be filled inside a measuring loop's pauses. Quantiles are within 0.1 %
/// and are only given if at least ten times lie beyond them; count, minimum, maximum, sum and standard deviation are exact. Never
/// average the quantiles of two histograms: [`add`](Times::add) the histograms.
///
/// ```
/// use hairpin_record::histogram::{Decoded, Times};
/// use hairpin_units::Quantile;
///
/// let mut times = Times::new();
/// (1..=1000).for_each(|us| times.record(us * 1000));
/// let p50 = times.quantile(Quantile::P50).expect("1000 times support a median");
/// assert!((499_000..=501_500).contains(&p50));
/// assert_eq!(times.quantile(Quantile::P999), None); // only one time lies beyond it
///
/// // As text in a record, and back.
/// let read = Decoded::decode(&times.encode())?;
/// assert_eq!((read.count(), read.quantile(Quantile::P50)), (1000, Some(p50)));
/// # Ok::<(), hairpin_record::histogram::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Times {
    hdr: Histogram<u64>,
    min: u64,
    max: u64,
    sum: u128,
    squares: f64,
}

impl Default for Times {
    fn default() -> Times {
        Times::new()
    }
}

/// Why a text could not be decoded as a histogram.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The text is not base64.
    #[error("the histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The data is not HDR V2.
    #[error("the histogram is not HDR V2 compressed: {0}")]
    Hdr(String),
    /// The data is larger than any histogram that Hairpin writes.
    #[error("the histogram is larger than {MAX_ENCODED} bytes")]
    TooLarge,
}

/// The longest base64 text accepted, in bytes; Hairpin never writes a longer one.
pub const MAX_ENCODED: usize = 1 << 20;

// What a loop calls after each block is `#[inline]`: profile `dev` optimises the loop's crate, and not this one.
impl Times {
    /// An empty histogram; allocates all the memory it will ever need.
    pub fn new() -> Times {
        let hdr = Histogram::new_with_bounds(1, HIGHEST_NS, 3).expect("bounds are constants");
        Times { hdr, min: u64::MAX, max: 0, sum: 0, squares: 0.0 }
    }

    /// Records one time; allocates nothing.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.hdr.saturating_record(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        self.sum += u128::from(ns);
        self.squares += (ns as f64) * (ns as f64);
    }

    /// Records `count` times of `ns`; allocates nothing.
    pub fn record_n(&mut self, ns: u64, count: u64) {
        self.hdr.saturating_record_n(ns, count);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        self.sum += u128::from(ns) * u128::from(count);
        self.squares += (ns as f64) * (ns as f64) * count as f64;
    }

    /// Adds another histogram.
    #[inline]
    pub fn add(&mut self, other: &Times) {
        self.hdr.add(&other.hdr).expect("both have the same bounds");
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Removes all times but keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.hdr.reset();
        (self.min, self.max, self.sum, self.squares) = (u64::MAX, 0, 0, 0.0);
    }

    /// Copies another histogram; allocates nothing.
    pub fn set_to(&mut self, other: &Times) {
        self.clear();
        self.add(other);
    }

    /// Becomes the difference between `now` and `before`, an earlier state of the same histogram; allocates nothing. The exact
    /// minimum and maximum of the difference are unknown: both become the ends of their buckets, to three digits.
    pub fn set_to_difference(&mut self, now: &Times, before: &Times) {
        self.set_to(now);
        // A later state contains all counts of an earlier one.
        self.hdr.subtract(&before.hdr).expect("the earlier state is one of the same histogram");
        (self.sum, self.squares) = (now.sum - before.sum, (now.squares - before.squares).max(0.0));
        if self.hdr.is_empty() {
            return self.clear();
        }
        let ends = (self.hdr.lowest_equivalent(self.hdr.min()), self.hdr.highest_equivalent(self.hdr.max()));
        (self.min, self.max) = (ends.0.clamp(now.min, now.max), ends.1.clamp(now.min, now.max));
    }

    /// Number of recorded times.
    #[inline]
    pub fn count(&self) -> u64 {
        self.hdr.len()
    }

    /// The largest time; 0 if the histogram is empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The undisturbed time in ns: the first decile, or the minimum with fewer than 100 times; 0 if the histogram is empty.
    pub fn typical(&self) -> u64 {
        match self.count() {
            0 => 0,
            1..100 => self.min,
            _ => self.hdr.value_at_quantile(0.1).clamp(self.min, self.max),
        }
    }

    /// The share of times up to and including `ns`; 1 if the histogram is empty.
    pub fn share_up_to(&self, ns: u64) -> f64 {
        self.hdr.quantile_below(ns)
    }

    /// The quantile in ns; `None` if fewer than ten times lie beyond it, or if it lies among times beyond [`HIGHEST_NS`].
    #[inline]
    pub fn quantile(&self, q: Quantile) -> Option<u64> {
        let ns = q.is_supported_by(self.count()).then(|| self.hdr.value_at_quantile(q.get()))?;
        (self.max <= HIGHEST_NS || ns < HIGHEST_NS).then(|| ns.clamp(self.min, self.max))
    }

    /// p50, p99 and p99.9, interpolated between the steps of the clock and of the buckets; `None` if there are too few times even
    /// for the median.
    #[inline]
    pub fn interpolated(&self) -> Option<Interpolated> {
        let asked = [Quantile::P50, Quantile::P99, Quantile::P999];
        let counts =
            self.hdr.iter_recorded().map(|step| (self.hdr.lowest_equivalent(step.value_iterated_to()), step.count_at_value()));
        let mut found = between(counts, self.count(), asked);
        for (ns, q) in found.iter_mut().zip(asked) {
            *ns = ns.filter(|_| self.quantile(q).is_some()).map(|ns| (ns * 1e3).round() / 1e3);
        }
        let [p50, p99, p999] = found;
        p50.map(|p50| Interpolated { p50: Some(p50), p99, p999 })
    }

    /// The summary that a record stores, in ns. Mean and standard deviation are rounded to a tenth.
    pub fn quantiles(&self) -> Quantiles {
        let count = self.count();
        if count == 0 {
            return Quantiles::default();
        }
        let mean = self.sum as f64 / count as f64;
        let variance = (self.squares / count as f64 - mean * mean).max(0.0);
        Quantiles {
            count,
            min: Some(self.min),
            mean: Some(tenths(mean)),
            stddev: Some(tenths(variance.sqrt())),
            p50: self.quantile(Quantile::P50),
            p90: self.quantile(Quantile::P90),
            p99: self.quantile(Quantile::P99),
            p999: self.quantile(Quantile::P999),
            max: Some(self.max),
        }
    }

    /// Encodes as HDR V2, deflated, base64: the form of a record's histograms, which [`Decoded::decode`] and other HdrHistogram
    /// libraries read. The exact minimum, maximum and sum are not in it.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.hdr, &mut bytes).expect("a Vec takes every byte");
        BASE64.encode(bytes)
    }
}

/// Interpolated quantiles. `times` are (ns, number of times) pairs, ascending, with `count` times in total; `asked` must ascend
/// too. A quantile is `None` if fewer than ten times lie beyond it.
///
/// ```
/// use hairpin_record::histogram::between;
/// use hairpin_units::Quantile;
///
/// // Ten times of 100 ns and ten of 200 ns: too few for p99.
/// assert_eq!(between([(100, 10), (200, 10)], 20, [Quantile::P50, Quantile::P99]), [Some(150.0), None]);
/// ```
///
/// A clock has steps, and a histogram has buckets. Each time therefore stands for the space up to the midpoints to its
/// neighbours, and the quantile is interpolated within that space. This reveals a shift of less than a step, because the shares
/// of two steps change.
pub fn between<const N: usize>(
    times: impl IntoIterator<Item = (u64, u64)>,
    count: u64,
    asked: [Quantile; N],
) -> [Option<f64>; N] {
    let mut found = [None; N];
    let mut times = times.into_iter().peekable();
    let (mut below, mut before, mut at) = (0.0, None, 0);
    while let Some((ns, often)) = times.next() {
        let (here, often) = (ns as f64, often as f64);
        while at < N && asked[at].get() * count as f64 <= below + often {
            let middle = |other: Option<f64>| other.map_or(here, |other| f64::midpoint(other, here));
            let (low, high) = (middle(before), middle(times.peek().map(|(next, _)| *next as f64)));
            let rank = asked[at].get() * count as f64;
            found[at] = asked[at].is_supported_by(count).then(|| low + (high - low) * ((rank - below) / often).clamp(0.0, 1.0));
            at += 1;
        }
        if at == N {
            break;
        }
        (below, before) = (below + often, Some(here));
    }
    found
}

/// A histogram read from a record, in ns. Unlike [`Times`] it has no exact minimum, maximum or sum: those are fields of the
/// record.
///
/// The quantiles of several rows or runs together are those of their added histograms:
///
/// ```
/// use hairpin_record::histogram::{Decoded, Times};
/// use hairpin_units::Quantile;
///
/// let row = |ns: u64| {
///     let mut times = Times::new();
///     (0..1000).for_each(|_| times.record(ns));
///     times.encode()
/// };
/// let mut sum = Decoded::empty();
/// for histogram in [row(5_000), row(5_000), row(9_000)] {
///     sum.add(&Decoded::decode(&histogram)?);
/// }
/// assert_eq!(sum.count(), 3_000);
/// let p50 = sum.quantile(Quantile::P50).expect("3000 times support a median");
/// assert!((4_995..=5_005).contains(&p50));
/// assert!(sum.quantile(Quantile::P90) > Some(8_990));
/// # Ok::<(), hairpin_record::histogram::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoded(Histogram<u64>);

impl Decoded {
    /// Decodes the output of [`Times::encode`]. The text may come from anywhere: its claimed lengths are checked before memory is
    /// allocated.
    ///
    /// # Errors
    /// The text is not base64, not a compressed HDR V2 histogram, or larger than [`MAX_ENCODED`].
    pub fn decode(text: &str) -> Result<Decoded, DecodeError> {
        if text.len() > MAX_ENCODED {
            return Err(DecodeError::TooLarge);
        }
        let hdr: Histogram<u64> = Deserializer::new()
            .deserialize(&mut inflate(&BASE64.decode(text)?)?.as_slice())
            .map_err(|e| DecodeError::Hdr(e.to_string()))?;
        // The sum of all counts saturates; a saturated one would overflow in every quantile.
        if hdr.len() == u64::MAX {
            return Err(DecodeError::Hdr("more than 2^64 times".into()));
        }
        Ok(Decoded(hdr))
    }

    /// An empty histogram, as the start of a sum.
    pub fn empty() -> Decoded {
        Decoded(Times::new().hdr)
    }

    /// Adds another histogram. It is ignored if the total would exceed 2^64 times, which takes a forged histogram.
    pub fn add(&mut self, other: &Decoded) {
        if self.0.len().checked_add(other.0.len()).is_some_and(|sum| sum < u64::MAX) {
            self.0.add(&other.0).expect("both have the same bounds");
        }
    }

    /// The quantile in ns; `None` if fewer than ten times lie beyond it, or if it lies at the end of the range, where all longer
    /// times are counted.
    pub fn quantile(&self, q: Quantile) -> Option<u64> {
        q.is_supported_by(self.0.len()).then(|| self.0.value_at_quantile(q.get())).filter(|ns| *ns < HIGHEST_NS)
    }

    /// The share of times up to and including `ns`; 1 if the histogram is empty.
    pub fn share_up_to(&self, ns: u64) -> f64 {
        self.0.quantile_below(ns)
    }

    /// Number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// (ns, number of times) of every bucket with times, ascending: ns is its lower edge, the recorded time to three digits.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|step| (self.0.lowest_equivalent(step.value_iterated_to()), step.count_at_value()))
    }

    /// (upper edge in ns, number of times) of every bucket with times, ascending. [`Decoded::from_buckets`] makes the same
    /// histogram of them.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|step| (self.0.highest_equivalent(step.value_iterated_to()), step.count_at_value()))
    }

    /// The histogram of (upper edge in ns, number of times) pairs in any order; the same edge may come several times. Those
    /// beyond the range count in the last bucket. A pair is ignored if the total would exceed 2^64 times, which takes a forged
    /// histogram.
    #[must_use]
    pub fn from_buckets(buckets: impl IntoIterator<Item = (u64, u64)>) -> Decoded {
        let mut sum = Decoded::empty();
        for (upper_ns, often) in buckets {
            if sum.0.len().checked_add(often).is_some_and(|total| total < u64::MAX) {
                sum.0.saturating_record_n(upper_ns, often);
            }
        }
        sum
    }
}

/// Decompresses an encoded histogram. The deserializer allocates whatever length the header claims (up to 4 GiB), so the claimed
/// length must match the data.
fn inflate(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let bad = |what: &str| DecodeError::Hdr(what.into());
    let zlib = bytes.strip_prefix(&COMPRESSED).and_then(|rest| rest.get(4..)).ok_or_else(|| bad("it does not begin like one"))?;
    let mut inner = Vec::new();
    let unpacked = ZlibDecoder::new(zlib).take(MAX_ENCODED as u64 + 1).read_to_end(&mut inner);
    unpacked.map_err(|e| DecodeError::Hdr(e.to_string()))?;
    if inner.len() > MAX_ENCODED {
        return Err(DecodeError::TooLarge);
    }
    let (head, counts) = inner.split_first_chunk::<HEADER>().ok_or_else(|| bad("it ends inside its header"))?;
    if !head.starts_with(&PLAIN) || head[4..8] != (counts.len() as u32).to_be_bytes() {
        return Err(bad("its length is not what it claims"));
    }
    // Precision and range determine how much memory the counts take; Hairpin writes only one combination.
    if head[12..32] != bounds() {
        return Err(bad("its range is not 1 ns to 60 s with three digits"));
    }
    Ok(inner)
}

/// Precision, lowest and highest value, as in the header of every histogram that Hairpin writes.
fn bounds() -> [u8; 20] {
    let mut bounds = [0; 20];
    bounds[..4].copy_from_slice(&3u32.to_be_bytes());
    bounds[4..12].copy_from_slice(&1u64.to_be_bytes());
    bounds[12..].copy_from_slice(&HIGHEST_NS.to_be_bytes());
    bounds
}

fn tenths(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn summary_of_known_times() {
        let mut times = Times::new();
        (1..=10_000).for_each(|n| times.record(n * 1000));
        let q = times.quantiles();
        assert_eq!((q.count, q.min, q.max), (10_000, Some(1000), Some(10_000_000)));
        assert_eq!(q.mean, Some(5_000_500.0));
        for (got, want) in [(q.p50, 5e6), (q.p90, 9e6), (q.p99, 9.9e6), (q.p999, 9.99e6)] {
            assert!((got.unwrap() as f64 / want - 1.0).abs() < 1e-3, "{got:?} {want}");
        }
    }

    #[test]
    fn a_quantile_among_times_that_were_too_long_is_not_told() {
        let mut times = Times::new();
        (0..10_000).for_each(|n| times.record(if n < 100 { 600_000_000_000 } else { 1_000 }));
        let found = times.quantiles();
        assert_eq!((found.p90, found.p99, found.p999, found.max), (Some(1_000), Some(1_000), None, Some(600_000_000_000)));
        assert_eq!(times.interpolated().map(|found| found.p999), Some(None));
        let read = Decoded::decode(&times.encode()).unwrap();
        assert_eq!([Quantile::P99, Quantile::P999].map(|q| read.quantile(q)), [Some(1_000), None]);
        let mut longest = Times::new();
        (0..1_000).for_each(|_| longest.record(HIGHEST_NS));
        assert_eq!(longest.quantile(Quantile::P50), Some(HIGHEST_NS));
    }

    #[test]
    fn quantiles_lie_between_the_steps_of_the_clock() {
        // Half the times at 100 and half at 110: the median lies between and moves with the shares.
        let median = |often: u64| {
            let mut times = Times::new();
            for (ns, often) in [(90, 100), (100, often), (110, 1000 - often), (120, 100)] {
                (0..often).for_each(|_| times.record(ns));
            }
            times.interpolated().unwrap().p50.unwrap()
        };
        assert!((median(500) - 105.0).abs() < 1e-9);
        assert!((median(490) - median(500) - 0.2).abs() < 0.05 && median(510) < median(500));
        let mut few = Times::new();
        (0..999).for_each(|_| few.record(100));
        assert_eq!(few.interpolated(), Some(Interpolated { p50: Some(100.0), p99: None, p999: None }));
        few.record(100);
        assert_eq!(few.interpolated().unwrap().p99, Some(100.0));
        assert_eq!(Times::new().interpolated(), None);
        assert_eq!(between([(100, 10), (200, 10)], 20, [Quantile::P50, Quantile::P99]), [Some(150.0), None]);
    }

    #[test]
    fn recorded_times_are_counted() {
        let mut times = Times::new();
        [7, 7, 900, 5_001].into_iter().for_each(|ns| times.record(ns));
        let counts: Vec<(u64, u64)> = Decoded::decode(&times.encode()).unwrap().counts().collect();
        assert_eq!(counts, [(7, 2), (900, 1), (5_000, 1)]);
    }

    #[test]
    fn unsupported_quantiles_are_blank() {
        let mut times = Times::new();
        assert_eq!(times.quantiles(), Quantiles::default());
        (0..999).for_each(|_| times.record(5));
        let q = times.quantiles();
        assert_eq!((q.p50, q.p90, q.p99, q.p999), (Some(5), Some(5), None, None));
    }

    #[test]
    fn a_time_beyond_the_range_keeps_its_exact_maximum() {
        let mut times = Times::new();
        (0..20).for_each(|_| times.record(HIGHEST_NS * 2));
        assert_eq!(times.quantiles().max, Some(HIGHEST_NS * 2));
        times.clear();
        assert_eq!(times.count(), 0);
    }

    #[test]
    fn difference_holds_samples_since_the_snapshot() {
        let (mut times, mut before, mut since) = (Times::new(), Times::new(), Times::new());
        (1..=1000).for_each(|n| times.record(n));
        since.set_to_difference(&times, &before);
        assert_eq!(since.quantiles(), times.quantiles(), "nothing was before");
        before.set_to(&times);
        since.set_to_difference(&times, &before);
        assert_eq!(since.quantiles(), Quantiles::default(), "nothing came since");
        (0..100).for_each(|_| times.record(500));
        since.set_to_difference(&times, &before);
        let found = since.quantiles();
        assert_eq!(
            (found.count, found.min, found.p50, found.max, found.mean),
            (100, Some(500), Some(500), Some(500), Some(500.0))
        );
        assert_eq!(found.stddev, Some(0.0));
        times.record(HIGHEST_NS * 2);
        since.set_to_difference(&times, &before);
        assert_eq!(since.quantiles().count, 101);
    }

    proptest! {
        #[test]
        fn buckets_make_the_histogram_they_came_from(
            one in prop::collection::vec(1u64..=HIGHEST_NS * 2, 0..200),
            two in prop::collection::vec(1u64..100_000, 0..200),
        ) {
            let decoded = |found: &[u64]| {
                let mut times = Times::new();
                found.iter().for_each(|ns| times.record(*ns));
                Decoded::decode(&times.encode()).unwrap()
            };
            let (one, two) = (decoded(&one), decoded(&two));
            prop_assert!(one.buckets().zip(one.counts()).all(|((upper, n), (lower, m))| lower <= upper && upper - lower <= upper / 1000 && n == m));
            let mut sum = Decoded::empty();
            sum.add(&one);
            sum.add(&two);
            let merged = Decoded::from_buckets(two.buckets().chain(one.buckets()));
            prop_assert!(merged.counts().eq(sum.counts()));
            prop_assert!(merged.buckets().eq(sum.buckets()));
        }
    }

    #[test]
    fn forged_buckets_do_no_harm() {
        let forged = Decoded::from_buckets([(u64::MAX, 3), (0, 2), (5, u64::MAX), (7, 1)]);
        assert_eq!((forged.count(), forged.buckets().next()), (6, Some((0, 2))));
    }

    #[test]
    fn decoded_histograms_add_up() {
        let (mut all, mut one, mut two) = (Times::new(), Times::new(), Times::new());
        for n in 1..2000 {
            all.record(n * 37);
            if n % 3 == 0 { one.record(n * 37) } else { two.record(n * 37) }
        }
        let decode = |times: &Times| Decoded::decode(&times.encode()).unwrap();
        let mut sum = Decoded::empty();
        sum.add(&decode(&one));
        sum.add(&decode(&two));
        assert!(sum.counts().eq(decode(&all).counts()));
    }

    #[test]
    fn garbage_is_refused() {
        assert!(matches!(Decoded::decode("***"), Err(DecodeError::Base64(_))));
        assert!(matches!(Decoded::decode("AAAA"), Err(DecodeError::Hdr(_))));
        assert!(matches!(Decoded::decode(&"A".repeat(MAX_ENCODED + 1)), Err(DecodeError::TooLarge)));
    }

    #[test]
    fn a_hostile_text_neither_claims_memory_nor_overflows() {
        let claims_4_gib = "HISTFAAAAB54nJNpmSz8gQEOmKE0IxDz/nCPYLBHkkQGAL9/BQ4=";
        let counts_overflow = concat!(
            "HISTFAAAAKt4nO1ROwrCQBCdfaOsIGELSw2eQ1JYegXBg4i9N/AAYm3tCTxAKo8gtoqNpflskX8C+UKyb97OzhtmZ2AWx9OMSN7I",
            "P6y9cGj8Nltav33honBWuE5gS9xHeLJrL3YNfETUvgIPgX0yCgammvE8L6CTxAKo8gtoqNpflskX8C3iH+I4HAKttmZ2AWxSw2C9",
            "GH1YRY3AAApflskX8C+UKybCdfasRY3iH+I4HAKt",
        );
        for text in [claims_4_gib, counts_overflow] {
            assert!(matches!(Decoded::decode(text), Err(DecodeError::Hdr(_))));
        }
    }

    proptest! {
        #[test]
        fn encoding_keeps_quantiles(times in prop::collection::vec(1u64..HIGHEST_NS, 20..200)) {
            let mut histogram = Times::new();
            times.iter().for_each(|t| histogram.record(*t));
            let decoded = Decoded::decode(&histogram.encode()).unwrap();
            prop_assert_eq!(decoded.count(), times.len() as u64);
            let (a, b) = (decoded.quantile(Quantile::P50).unwrap(), histogram.quantile(Quantile::P50).unwrap());
            prop_assert!((a as f64 / b as f64 - 1.0).abs() < 1e-3);
        }
    }
}
