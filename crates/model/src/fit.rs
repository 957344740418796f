//! Fits the RTT of a measured run over message sizes, path by path.

use hairpin_record::fit::of_rows;
use hairpin_record::fit::{FitReport, PathFit};
use hairpin_record::head::Label;
use hairpin_record::run::Run;
use hairpin_units::BitRate;

/// Fits RTT p50 over the mean size of request and reply, for each path of the run. `name` is the run's name; the fitted
/// ns per byte are compared with `rate`.
pub fn of_run(run: &Run, name: &str, rate: Option<BitRate>) -> FitReport {
    let mut paths: Vec<PathFit> = Vec::new();
    for row in &run.results {
        if !paths.iter().any(|path| path.path == row.path) {
            paths.push(path(&row.path, run));
        }
    }
    FitReport { label: Label::of::<FitReport>(), run: name.into(), rate_bit_per_s: rate.map(|rate| rate.0), paths }
}

fn path(path: &str, run: &Run) -> PathFit {
    let found = of_rows(run.results.iter().filter(|row| row.path == path), run.place.clock.least_error_ns());
    PathFit {
        path: path.into(),
        fit: found.fit.ok(),
        why: found.fit.err().map(|error| error.to_string()),
        points: found.points.into_iter().map(|(bytes, ns)| [bytes, ns]).collect(),
        apart: found.apart,
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::run::{Quantiles, Row};

    use super::*;

    fn row(path: &str, bytes: u64, p50: Option<u64>) -> Row {
        Row {
            path: path.into(),
            request_bytes: bytes,
            reply_bytes: bytes,
            rtt_ns: Quantiles { p50, ..Quantiles::default() },
            ..Row::default()
        }
    }

    #[test]
    fn each_path_has_a_fit_or_a_reason() {
        let mut run: Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap();
        run.results = [64, 128, 256, 512].map(|n| row("udp", n, Some(5000 + n))).into();
        run.results.push(row("tcp", 64, Some(6000)));
        // A row without p50, or of a paced run, is not a point.
        run.results.push(row("udp", 1024, None));
        run.results.push(Row { pace_per_s: Some(10.0), ..row("udp", 1024, Some(90_000)) });
        // Different sizes of request and reply count with their mean.
        run.results.push(Row { reply_bytes: 3072, ..row("udp", 1024, Some(7048)) });
        let report = of_run(&run, "latest", "10G".parse().ok());
        assert_eq!(report.rate_bit_per_s, Some(10_000_000_000));
        let [udp, tcp] = &report.paths[..] else { panic!("two paths: {report:?}") };
        assert_eq!(udp.points.last(), Some(&[2048.0, 7048.0]));
        let line = udp.fit.unwrap().line;
        assert!((line.base_ns.value - 5000.0).abs() < 1e-6 && (line.ns_per_byte.value - 1.0).abs() < 1e-9, "{line:?}");
        assert!(tcp.fit.is_none() && tcp.why.as_ref().unwrap().contains("at least 3"), "{tcp:?}");
    }
}
