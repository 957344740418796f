//! Figures as text: times in us, rates, payloads, ratios.

use hairpin_record::run::Row;

/// A time in us: to the nanosecond below 10 us, with four significant digits up to 10,000 us, whole above.
pub(crate) fn us(ns: f64) -> String {
    match ns / 1e3 {
        x if x < 9.9995 => format!("{x:.3}"),
        x if x < 99.995 => format!("{x:.2}"),
        x if x < 999.95 => format!("{x:.1}"),
        x => format!("{x:.0}"),
    }
}

/// A time with its unit: three significant digits, whole below 1 us.
pub(crate) fn time(ns: f64) -> String {
    scaled([ns], ns)
}

/// The ends of a range of times, in the unit of the upper one: `7.91-8.30 us`; each in its own if the lower one would lose its
/// digits.
pub(crate) fn time_range(low: f64, high: f64) -> String {
    let unit = |text: &str| text.rsplit(' ').next().map(str::to_owned);
    let (own, both) = (time(low), scaled([low, high], high));
    if low > 0.0 && high > 100.0 * low && unit(&own) != unit(&both) { format!("{own} - {}", time(high)) } else { both }
}

/// Times in the unit that suits `largest`.
fn scaled<const N: usize>(ns: [f64; N], largest: f64) -> String {
    let (scale, unit) = match largest.abs() {
        x if x < 999.5 => (1.0, "ns"),
        x if x < 999.5e3 => (1e3, "us"),
        x if x < 999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let three = |ns: f64| match ns / scale {
        // Records from elsewhere may have any magnitude.
        x if x.is_nan() => "?".into(),
        x if x.abs() >= 1e6 => format!("{x:.1e}"),
        x if scale == 1.0 => format!("{x:.0}"),
        x if x.abs() < 9.995 => format!("{x:.2}"),
        x if x.abs() < 99.95 => format!("{x:.1}"),
        x => format!("{x:.0}"),
    };
    let text = ns.map(three).join("-");
    if text == "?" { text } else { format!("{text} {unit}") }
}

/// The times in a sentence, each with its name; the unit is repeated only where it changes.
pub(crate) fn times<'w>(all: impl IntoIterator<Item = (f64, &'w str)>) -> Vec<String> {
    let mut last = String::new();
    let one = |(ns, what): (f64, &str)| {
        let text = time(ns);
        let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
        let shown = if unit == last { number.to_owned() } else { text.clone() };
        last = unit.to_owned();
        format!("{shown} {what}")
    };
    all.into_iter().map(one).collect()
}

/// A time in the unit that suits `largest`, without that unit.
pub(crate) fn beside(ns: f64, largest: f64) -> String {
    let text = scaled([ns], largest);
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Events per second with three significant digits.
pub(crate) fn per_second(per_s: f64) -> String {
    match per_s {
        x if x < 999.5 => format!("{}/s", rate(x)),
        x if x < 999.5e3 => format!("{} k/s", ratio(x / 1e3)),
        x => format!("{} M/s", ratio(x / 1e6)),
    }
}

/// A mean from a record in us, formatted as [`us`]. It may have any sign and magnitude, and takes at most 8 columns.
pub(crate) fn us_signed(ns: f64) -> String {
    let (sign, size) = (if ns < 0.0 { "-" } else { "" }, ns.abs());
    match size {
        ns if ns.is_nan() => "?".into(),
        size if size < 1e10 || (size < 1e11 && ns > 0.0) => format!("{sign}{}", us(size)),
        ns => format!("{sign}{:.1e}", ns / 1e3),
    }
}

/// A time in us with three digits, for a sentence.
pub(crate) fn us_short(ns: f64) -> String {
    match ns / 1e3 {
        x if !(0.0..1e7).contains(&x) => us_signed(ns),
        x if x < 9.995 => format!("{x:.2}"),
        x if x < 99.95 => format!("{x:.1}"),
        x => format!("{x:.0}"),
    }
}

/// A share in whole percent, for a sentence; never 0 for a share above 0.
pub(crate) fn percent_short(share: f64) -> String {
    match share * 100.0 {
        x if x <= 0.0 => "0".into(),
        x if x < 1.0 => "<1".into(),
        x if x < 1e4 => format!("{x:.0}"),
        x => format!("{x:.0e}"),
    }
}

/// A rate in 1/s: whole from 100 on, one decimal below, three below 1.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        x if x >= 99.95 || x == 0.0 => format!("{x:.0}"),
        x if x >= 0.9995 => format!("{x:.1}"),
        x => format!("{x:.3}"),
    }
}

/// A figure with at most four significant digits, whole from 1,000 on.
pub(crate) fn decimals(x: f64) -> String {
    match x {
        x if x >= 999.95 || x == 0.0 => format!("{x:.0}"),
        x if x >= 99.995 => format!("{x:.1}"),
        x if x >= 9.9995 => format!("{x:.2}"),
        x => format!("{x:.3}"),
    }
}

/// A share in percent with three significant digits; never 0 for a share above 0.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        x if x <= 0.0 => "0".into(),
        x if x < 0.01 => "<0.01".into(),
        x if x < 9.995 => format!("{x:.2}"),
        x => format!("{x:.1}"),
    }
}

/// A share that was asked for, in percent: 7 of 0.07, without the noise of binary fractions.
pub(crate) fn asked_percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

/// A confidence in percent, with more decimals where two would say 100.
pub(crate) fn confidence(share: f64) -> String {
    let places = if (0.99994..1.0).contains(&share) { 4 } else { 2 };
    format!("{:.places$}", share * 100.0)
}

/// A requested rate, in its shortest exact form.
pub(crate) fn pace(per_s: f64) -> String {
    format!("{per_s}/s")
}

/// Bytes of the request, and of the reply if different.
pub(crate) fn payload(row: &Row) -> String {
    payloads(row.request_bytes, row.reply_bytes)
}

/// As [`payload`], for any record; 0 bytes of reply stand for an unknown length.
pub(crate) fn payloads(request_bytes: u64, reply_bytes: u64) -> String {
    if reply_bytes == request_bytes || reply_bytes == 0 {
        request_bytes.to_string()
    } else {
        format!("{request_bytes}/{reply_bytes}")
    }
}

/// A ratio with three significant digits.
pub(crate) fn ratio(x: f64) -> String {
    match x {
        x if x < 9.995 => format!("{x:.2}"),
        x if x < 99.95 => format!("{x:.1}"),
        x => format!("{x:.0}"),
    }
}

/// A ratio near 1, to a tenth of a percent. Ratios in records from elsewhere may have any magnitude.
pub(crate) fn fine_ratio(x: f64) -> String {
    match x {
        x if x.abs() >= 1e9 => format!("{x:.1e}"),
        x if x < 9.9995 => format!("{x:.3}"),
        x if x < 99.95 => format!("{x:.1}"),
        x => format!("{x:.0}"),
    }
}

/// A quantile's name: `p99.9`, with as many decimals as its nines need, and one more.
pub(crate) fn quantile(q: f64) -> String {
    let nines = (-(1.0 - q).max(1e-12).log10() - 1e-9).ceil();
    let places = (nines - 2.0).max(0.0) as usize + 1;
    let text = format!("{:.places$}", q * 100.0);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The duration of an experiment.
pub(crate) fn seconds(s: f64) -> String {
    match s {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6_000.0 => format!("{:.0} min", s / 60.0),
        s if s < 360_000.0 => format!("{:.0} h", s / 3_600.0),
        _ => "days".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_four_digits() {
        let shown: Vec<String> = [0.0, 52.0, 4_951.0, 2_475.5, 9_999.6, 14_703.0, 143_312.0, 999_960.0, 5e9].map(us).into();
        assert_eq!(shown, ["0.000", "0.052", "4.951", "2.475", "10.00", "14.70", "143.3", "1000", "5000000"]);
    }

    #[test]
    fn times_and_rates_have_the_unit_of_their_size() {
        let shown: Vec<String> = [0.0, 52.0, 999.6, 3_351.0, 75_660.0, 999_600.0, 27_571_000.0, 5e9].map(time).into();
        assert_eq!(shown, ["0 ns", "52 ns", "1.00 us", "3.35 us", "75.7 us", "1.00 ms", "27.6 ms", "5.00 s"]);
        assert_eq!([time(1e206), time(f64::NAN), beside(-1e300, 5.0)], ["1.0e197 s", "?", "-1.0e300"]);
        assert_eq!([time_range(990.0, 1_010.0), time_range(61.0, 64.0)], ["0.99-1.01 us", "61-64 ns"]);
        assert_eq!([17.25, 28_540.0, 128_000.0, 2.5e6].map(per_second), ["17.2/s", "28.5 k/s", "128 k/s", "2.50 M/s"]);
    }

    #[test]
    fn a_unit_is_written_once() {
        let all = [(42_040.0, "typical"), (201_000.0, "slow"), (4_015_000.0, "mean")];
        assert_eq!(times(all), ["42.0 us typical", "201 slow", "4.01 ms mean"]);
        assert_eq!([beside(10_400.0, 1.5e6), beside(7_170.0, 13_200.0)], ["0.01", "7.17"]);
    }

    #[test]
    fn means_of_any_sign_and_size_are_shown() {
        let shown: Vec<String> = [-52.0, 9.9e9, u64::MAX as f64, -1e300, f64::NEG_INFINITY, f64::NAN].map(us_signed).into();
        assert_eq!(shown, ["-0.052", "9900000", "1.8e16", "-1.0e297", "-inf", "?"]);
    }

    #[test]
    fn bit_rates_and_shares() {
        assert_eq!([0.0, 0.6721, 12.345, 545.9, 12_345.6].map(decimals), ["0", "0.672", "12.35", "545.9", "12346"]);
        assert_eq!([0.0, 1e-9, 0.0123, 0.5, 1.0].map(percent), ["0", "<0.01", "1.23", "50.0", "100.0"]);
    }

    #[test]
    fn percentages_are_as_asked_for_and_never_100_without_doubt() {
        assert_eq!([0.07, 0.29, 0.02, 0.005, 0.0].map(asked_percent), [7.0, 29.0, 2.0, 0.5, 0.0]);
        assert_eq!([0.95, 0.995, 0.999_975, 1.0].map(confidence), ["95.00", "99.50", "99.9975", "100.00"]);
    }

    #[test]
    fn rates_and_ratios() {
        assert_eq!([0.0, 0.0172, 9.98, 99.96, 199_660.2].map(rate), ["0", "0.017", "10.0", "100", "199660"]);
        assert_eq!([10.0, 1000.0, 0.5].map(pace), ["10/s", "1000/s", "0.5/s"]);
        assert_eq!([1.5, 12.345, 99.96].map(ratio), ["1.50", "12.3", "100"]);
    }

    #[test]
    fn the_page_has_the_same_figures() {
        let times =
            [0.0, 0.25, 9.0, 67.2, 999.4, 999.7, 1_000.0, 4_951.0, 12_345.0, 142_500.0, 143_500.0, 999_960.0, 5_123_000.0, 5e9];
        let more = [-52.0, -4_951.0, 17_250.0, 1.8e19, 1e206];
        let ratios = [0.0, 0.1, 0.9995, 1.0845, 9.9996, 12.25, 99.96, 1234.5, 2e9];
        let shares = [0.0, 1e-9, 0.00005, 0.0123, 0.5, 0.125, 0.0995, 1.0];
        let quantiles = [0.0, 0.01, 0.5, 0.75, 0.9, 0.975, 0.985875, 0.99, 0.999, 0.9999, 0.99999, 0.9999999, 1.0];
        let told = |values: &[f64], of: &dyn Fn(f64) -> String| values.iter().map(|x| (*x, of(*x))).collect::<Vec<_>>();
        let cases = serde_json::json!({
            "time": told(&[&times[..], &more].concat(), &time),
            "ratio": told(&ratios, &fine_ratio),
            "share": told(&shares, &|x| format!("{} %", percent(x))),
            "quantile": told(&quantiles, &quantile),
        });
        crate::shared::held("figures", &cases);
    }
}
