//! `make bench-check`: how often `hairpin check` keeps each of its bounds, out of all of its runs.
//!
//! A check tries a test up to three times, so a run may pass what it failed at first; both are counted. Exit codes: 0 the bound
//! is met, 1 failed, 3 it is missed or unclear.

use std::fmt::Write as _;

use clap::Args;
use hairpin_record::check::{CheckBody, Verdict};
use serde_json::json;

use super::bound::{Limit, of_count, of_rounds, share_text};
use super::hairpin::Tool;
use super::record::{Flags, Stop, write};

/// The share of runs that pass.
const PASSED: Limit = Limit::AtLeast(0.9);

/// How often `hairpin check` keeps each of its bounds, out of all of its runs
#[derive(Args)]
pub(crate) struct Options {
    /// Runs, of four seconds each; 36 that all pass show 90 % (the lower end of 95 %)
    #[arg(long, default_value_t = 40)]
    runs: usize,
    #[command(flatten)]
    flags: Flags,
}

/// Measures; true if the bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let directory = options.flags.directory("check", true)?;
    let tool = Tool { program: options.flags.hairpin.clone(), cpus: None };
    let mut runs = Vec::new();
    let mut lines = String::new();
    for at in 0..options.runs.max(1) {
        let check = tool.check()?.body;
        eprintln!("run {} of {}: {:?}", at + 1, options.runs, check.verdict);
        let _ = writeln!(lines, "{}", json!(check));
        write(&directory.join("runs.jsonl"), &lines)?;
        runs.push(check);
    }
    let text = text(&runs);
    options.flags.table(&directory, text)?;
    let all = counted(&runs, |run| Some(passed(run.verdict)));
    Ok(PASSED.of(of_count(all.0, all.1)).missed())
}

fn passed(verdict: Verdict) -> bool {
    verdict == Verdict::Passed
}

/// Runs that kept a bound, and runs that tried it.
fn counted(runs: &[CheckBody], kept: impl Fn(&CheckBody) -> Option<bool>) -> (usize, usize) {
    let tried: Vec<bool> = runs.iter().filter_map(kept).collect();
    (tried.iter().filter(|kept| **kept).count(), tried.len())
}

fn text(runs: &[CheckBody]) -> String {
    let mut text =
        format!("hairpin check, {} runs: how many kept each bound, with the 95 % interval of that share\n\n", runs.len());
    let mut line = |what: &str, (kept, tried): (usize, usize), beside: String| {
        let _ = writeln!(text, "{what:<46} {:<32} {beside}", share_text(kept, tried));
    };
    let all = counted(runs, |run| Some(passed(run.verdict)));
    let word = PASSED.of(of_count(all.0, all.1));
    line("the whole check", all, format!("bound {} {word}", PASSED.text()));
    let delays = |run: &CheckBody| Some(run.delays.iter().all(|delay| passed(delay.verdict)));
    line("known delays, of up to three tries", counted(runs, delays), String::new());
    line("known delays, at the first try", counted(runs, |run| Some(delays(run)? && run.delay_tries <= 1)), String::new());
    let latencies =
        |run: &CheckBody| (!run.latencies.is_empty()).then(|| run.latencies.iter().all(|latency| passed(latency.verdict)));
    line("known latencies, of up to three tries", counted(runs, latencies), String::new());
    line(
        "known latencies, at the first try",
        counted(runs, |run| Some(latencies(run)? && run.latency_tries <= 1)),
        String::new(),
    );
    line("elapsed time by two clocks", counted(runs, |run| Some(passed(run.elapsed.as_ref()?.verdict))), String::new());
    let errors = |of: fn(&CheckBody) -> Vec<(u64, f64, Verdict)>, what: &str, text: &mut String| {
        let first = runs.first().map(of).unwrap_or_default();
        for (at, (asked, ..)) in first.iter().enumerate() {
            let of_run = |run: &CheckBody| of(run).get(at).filter(|(same, ..)| same == asked).map(|(_, error, _)| *error);
            let found: Vec<f64> = runs.iter().filter_map(of_run).collect();
            let kept = counted(runs, |run| of(run).get(at).map(|(.., verdict)| passed(*verdict)));
            let worst = found.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(f64::NAN);
            let typical =
                of_rounds(&found).map_or("-".to_owned(), |of| format!("{:+.1} ({:+.1} to {:+.1})", of.typical, of.low, of.high));
            let share = share_text(kept.0, kept.1);
            let _ = writeln!(text, "{:<20} {share:<32} error in ns {typical}, worst {worst:+.1}", format!("{what} {asked} ns"));
        }
    };
    text.push('\n');
    errors(|run| run.delays.iter().map(|of| (of.asked_ns, of.error_ns, of.verdict)).collect(), "delay", &mut text);
    errors(|run| run.latencies.iter().map(|of| (of.declared_ns, of.error_ns, of.verdict)).collect(), "latency", &mut text);
    let own: Vec<f64> = runs.iter().map(|run| run.own_cost_ns).collect();
    if let Some(own) = of_rounds(&own) {
        let _ = writeln!(text, "own cost in ns {:.1} ({:.1} to {:.1})", own.typical, own.low, own.high);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(passes: bool, error_ns: f64, tries: u32) -> CheckBody {
        let word = if passes { "passed" } else { "failed" };
        let delay = json!({ "asked_ns": 500, "injected_ns": 481.0, "reported_ns": 481.0 + error_ns, "error_ns": error_ns, "verdict": word });
        serde_json::from_value(json!({
            "verdict": word, "clock": { "source": "tsc", "step_ns": 10.0, "cost_ns": 20.0, "ticks_per_s": 1e9, "drift_ppb": null }, "own_cost_ns": 42.0, "own_cost_least_ns": 40.0,
            "bound_ns": 30, "delays": [delay], "delay_tries": tries, "latency_bound_ns": 20, "latency_tries": 0, "latencies": [],
            "no_latencies": "one CPU",
        }))
        .unwrap()
    }

    #[test]
    fn every_run_counts_and_a_second_try_is_told() {
        let mut runs: Vec<CheckBody> = (0..18).map(|at| run(true, f64::from(at % 3), 1)).collect();
        runs.extend([run(true, 2.0, 2), run(false, -41.0, 3)]);
        let text = text(&runs);
        for part in [
            "the whole check                                19 of 20: 95.0 % (75.1-99.9)     bound 0.90 unclear",
            "known delays, at the first try                 18 of 20: 90.0 % (68.3-98.8)",
            "known latencies, of up to three tries          0 of 0",
            "worst -41.0",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }
}
