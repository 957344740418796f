//! The output of `hairpin check`: how near the known times were, the instrument's own cost, its clock against another; in detail
//! a row per injected delay, and a row per emulated NIC latency.

use hairpin_record::check::{Check, Delay, Elapsed, Latency, Verdict};
use hairpin_units::Nanos;

use crate::cell::Cell;
use crate::doc::{Column, Data, Doc, Show, Shown, Table};
use crate::next;
use crate::options::Options;
use crate::prose::clean;
use crate::style::Tone;

impl Show for Check {
    fn doc(&self, options: &Options) -> Doc {
        let mut doc = Doc::default();
        let (tone, sentence) = match self.verdict {
            Verdict::Passed => (Tone::Heading, passed(self)),
            Verdict::Failed => (Tone::Error, format!("{}; {}", missed(self), trust(self))),
        };
        doc.verdict(format!("{}: ", word(self.verdict)), sentence, word(self.verdict), tone);
        let clock = &self.clock;
        let [own, least] = [self.own_cost_ns, self.own_cost_least_ns];
        doc.lead(
            "own cost    ",
            format!("{own:.1} ns per transaction, both stamps included ({least:.1} ns in the quickest block)"),
        );
        let (cost, step) = (clock.cost_ns, clock.step_ns);
        doc.lead(
            "clock       ",
            format!("{}: a pair of stamps costs {cost:.1} ns; it moves in steps of {step:.1} ns", clock.source),
        );
        self.elapsed.iter().for_each(|elapsed| doc.lead("elapsed     ", kept_time(elapsed)));
        // A table with a failure is part of the answer.
        let mut rest = Doc::default();
        let part = if self.delays.iter().any(|delay| delay.verdict == Verdict::Failed) { &mut doc } else { &mut rest };
        part.gap();
        part.table(delays(self));
        let part = if self.latencies.iter().any(|latency| latency.verdict == Verdict::Failed) { &mut doc } else { &mut rest };
        latencies(part, self);
        rest.gap();
        rest.text("Own cost: over a path that does nothing. No error is known better than to one step of the clock.");
        doc.part(Shown::Full, rest);
        let mut end = Doc::default();
        let then = match self.verdict {
            Verdict::Passed => "hairpin ping loopback",
            Verdict::Failed => "hairpin tune check",
        };
        next::show(&mut end, &[then.to_owned(), "(-v: all)".to_owned()], options);
        doc.part(Shown::Brief, end);
        doc.data = Some(data(self));
        doc
    }
}

/// Errors up to `NOISE` times the bound count as host noise rather than a wrong clock.
const NOISE: f64 = 10.0;

/// The figures that remain valid after a failed check.
fn trust(check: &Check) -> String {
    let kept_time = check.elapsed.as_ref().is_none_or(|elapsed| elapsed.verdict == Verdict::Passed);
    let delay = worst(check.delays.iter().map(|delay| delay.error_ns));
    let latency = worst(check.latencies.iter().map(|latency| latency.error_ns));
    let noisy = delay <= NOISE * check.bound_ns as f64 && latency <= NOISE * check.latency_bound_ns.max(1) as f64;
    let tells = check.delays.first().is_none_or(|least| delay < least.injected_ns / 2.0);
    if kept_time && noisy && tells {
        return format!("until it passes, take no difference below {:.0} ns from this host for real", delay.max(latency).ceil());
    }
    "trust no figure from this host while it does so, and look at its clock".into()
}

/// One line per known delay or latency.
fn data(check: &Check) -> Data {
    let line = |test: &str, known: f64, reported: f64, error: f64, bound: u64, verdict: Verdict| {
        [test.into(), known.into(), reported.into(), error.into(), bound.into(), word(verdict).into()]
    };
    let delay =
        |delay: &Delay| line("delay", delay.injected_ns, delay.reported_ns, delay.error_ns, check.bound_ns, delay.verdict);
    let latency =
        |found: &Latency| line("latency", found.sum_ns, found.measured_ns, found.error_ns, check.latency_bound_ns, found.verdict);
    let names = "test known_ns reported_ns error_ns bound_ns verdict";
    Data::table(names, check.delays.iter().map(delay).chain(check.latencies.iter().map(latency)))
}

fn delays(check: &Check) -> Table {
    let titles = ["injected ns", "reported ns", "error ns"].map(Column::figures);
    let columns = [Column::words("delay")].into_iter().chain(titles).chain([Column::words("verdict")]).collect();
    let row = |delay: &Delay| {
        vec![
            Nanos(delay.asked_ns).to_string().into(),
            Cell::Fixed(delay.injected_ns, 1),
            Cell::Fixed(delay.reported_ns, 1),
            format!("{:+.1}", delay.error_ns).into(),
            word(delay.verdict).into(),
        ]
    };
    Table::new(columns, 1, check.delays.iter().map(row))
}

/// Comparison of the two clocks over the whole check.
fn kept_time(elapsed: &Elapsed) -> String {
    let s = |ns: u64| ns as f64 / 1e9;
    format!(
        "{:.6} s by this clock, {:.6} s by {}: {:+.1} ppm, of {:.0} allowed; {}",
        s(elapsed.clock_ns),
        s(elapsed.other_ns),
        clean(&elapsed.against),
        elapsed.error_ppm,
        elapsed.bound_ppm,
        word(elapsed.verdict)
    )
}

/// The largest absolute error, in ns.
fn worst(errors: impl Iterator<Item = f64>) -> f64 {
    errors.map(f64::abs).fold(0.0, f64::max)
}

/// The number of tries, if there was more than one.
fn at_try(tries: u32) -> String {
    if tries > 1 { format!(" at try {tries}") } else { String::new() }
}

fn passed(check: &Check) -> String {
    let delays = format!(
        "known delays within {:.1} ns{}; bound {}",
        worst(check.delays.iter().map(|delay| delay.error_ns)),
        at_try(check.delay_tries),
        check.bound_ns
    );
    // A test that was skipped has passed nothing.
    if let Some(why) = &check.no_latencies {
        return format!("{delays}; known latencies were not measured: {}", clean(why));
    }
    if check.latencies.is_empty() {
        return delays;
    }
    let latencies = worst(check.latencies.iter().map(|latency| latency.error_ns));
    let (bound, at_try) = (check.latency_bound_ns, at_try(check.latency_tries));
    format!("{delays}; known latencies within {latencies:.1} ns{at_try}; bound {bound}")
}

/// The emulated NIC's rows, or the reason it was skipped.
fn latencies(doc: &mut Doc, check: &Check) {
    if let Some(why) = &check.no_latencies {
        doc.gap();
        doc.lead("emulated    ", format!("no NIC of a known latency was measured: {}", clean(why)));
    } else if !check.latencies.is_empty() {
        doc.gap();
        doc.text(
            "RTT p50 in ns over the emulated NIC, 60-byte frames: 2 x declared one way + turn-around + the program's own time",
        );
        doc.gap();
        let titles = ["turn-around", "own", "sum", "measured", "error"].map(Column::figures);
        let columns = [Column::words("one way")].into_iter().chain(titles).chain([Column::words("verdict")]).collect();
        let row = |latency: &Latency| {
            vec![
                format!("{} ns", latency.declared_ns).into(),
                Cell::Fixed(latency.turnaround_ns, 1),
                Cell::Fixed(latency.own_ns, 1),
                Cell::Fixed(latency.sum_ns, 1),
                Cell::Fixed(latency.measured_ns, 1),
                format!("{:+.1}", latency.error_ns).into(),
                word(latency.verdict).into(),
            ]
        };
        doc.table(Table::new(columns, 1, check.latencies.iter().map(row)));
    }
}

/// Number and size of the misreported delays and latencies.
fn missed(check: &Check) -> String {
    let failed = |verdicts: &mut dyn Iterator<Item = Verdict>| verdicts.filter(|verdict| *verdict == Verdict::Failed).count();
    let delays = failed(&mut check.delays.iter().map(|delay| delay.verdict));
    let latencies = failed(&mut check.latencies.iter().map(|latency| latency.verdict));
    let in_tries = |tries: u32| if tries > 1 { format!(" in any of {tries} tries") } else { String::new() };
    let worst_delay = worst(check.delays.iter().map(|delay| delay.error_ns));
    let worst_latency = worst(check.latencies.iter().map(|latency| latency.error_ns));
    let wrong = check.elapsed.iter().filter(|elapsed| elapsed.verdict == Verdict::Failed);
    let mut said: Vec<String> = wrong
        .map(|elapsed| {
            let (ppm, allowed) = (elapsed.error_ppm, elapsed.bound_ppm);
            format!("the clock is {ppm:+.0} ppm off {}, and {allowed:.0} are allowed", clean(&elapsed.against))
        })
        .collect();
    if delays > 0 {
        let of = format!("{delays} of {} delays were not reported within {} ns", check.delays.len(), check.bound_ns);
        said.push(format!("{of}{}: known delays are within {worst_delay:.1} ns", in_tries(check.delay_tries)));
    }
    if latencies > 0 {
        let of = format!(
            "{latencies} of {} round trips over a known latency were not within {} ns of it",
            check.latencies.len(),
            check.latency_bound_ns
        );
        said.push(format!("{of}{}: they are within {worst_latency:.1} ns", in_tries(check.latency_tries)));
    }
    if said.is_empty() {
        said.push(format!("the clock moves in steps of {:.1} ns, too coarse for the shortest delay", check.clock.step_ns));
    }
    said.join(", and ")
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
    }
}
