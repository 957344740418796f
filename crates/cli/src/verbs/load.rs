//! `hairpin load`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use hairpin_lab::bulk::streams;
use hairpin_lab::load::{self, How, Rates, Schedule};
use hairpin_model::nic::Nic;
use hairpin_plan::job::NicStamps;
use hairpin_plan::paths::PATHS;
use hairpin_session::floor;
use hairpin_session::plan::Plan;
use hairpin_units::{list, parse_decimal};

use crate::exit::{Failure, both};
use crate::flags::{self, ALL, Whole, WorkFlags, cookie, hw_stamps, whole};
use crate::line;
use crate::output::{Keep, Output};
use crate::place::{Mirror, Where, ipv6_has_effect};
use crate::progress::Offers;
use crate::verbs::knobs::stamping_towards;
use crate::verbs::ping::signals;
use crate::wire::Declared;

/// The help of --rate.
const RATE: &str = "Requests per second over all flows, a row each: 1000,2000 or 1k..64kx2 or 10k..100k+10k; default: 10 % to 110 % of a closed loop's rate";

/// The help of --for.
const WHOLE: &str = "Measured time of the whole run, in equal parts for its rates; a rate that is measured again adds its part";

/// Measure round trips against the rate at which requests are due
#[derive(Debug, Args)]
#[command(mut_arg("duration", |arg| arg.default_value("2s").help("Measured time of each rate")))]
#[command(mut_arg("outstanding", |arg| arg.default_value("64").help("Room for requests in flight per flow, as far as the path has it; one that finds none waits, and its due time is kept")))]
#[command(mut_arg("rate", |arg| arg.value_name("LIST").value_parser(rates).help(RATE)))]
#[command(mut_arg("forever", |arg| arg.hide(true)))]
#[command(mut_arg("whole", |arg| arg.help(WHOLE).conflicts_with("replay")))]
pub struct Load {
    #[command(flatten)]
    to: Where,
    #[command(flatten)]
    mirror: Mirror,
    /// The key that `hairpin serve` printed, in a file
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// IPv6 on loopback and veth
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Schedule of requests: at a fixed interval, or with exponential intervals as from many users
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Arrivals::Fixed)]
    schedule: Arrivals,
    /// With --schedule poisson: the same intervals again for the same number; a random one if not given
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    seed: Option<u64>,
    /// Replay a recording: a file of lines time,size in seconds and bytes; --size is then that of the replies
    #[arg(long, value_name = "CSV", conflicts_with_all = ["rate", "schedule", "seed", "request", "sizes", "duration", "count"])]
    replay: Option<PathBuf>,
    /// Fill the same link with N TCP streams meanwhile
    #[arg(long, value_name = "tcp:N", value_parser = streams)]
    bulk: Option<u32>,
    /// After each rate, how much of the RTT is either host's and how much the wire's, by stamps of the NICs, else of the kernel:
    /// one request in flight at the same rate for a second; all transactions, or N per second
    #[arg(long, value_name = "N/s", num_args = 0..=1, require_equals = true, default_missing_value = ALL, value_parser = hw_stamps, conflicts_with = "replay")]
    hw_stamps: Option<NicStamps>,
    /// The NIC design that the path niq is to emulate, as `hairpin floor --nic` takes it, at its published rate
    #[arg(long, value_name = "NIC")]
    nic: Option<Nic>,
    #[command(flatten)]
    work: WorkFlags,
    #[command(flatten)]
    whole: Whole,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    output: Output,
}

/// Schedule of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arrivals {
    /// One every interval
    Fixed,
    /// Exponential intervals
    Poisson,
}

impl Load {
    /// Measures, and prints the curves.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let signals = signals()?;
        let (output, keep) = (self.output, self.keep);
        let (plan, how) = self.plan()?;
        let devices = stamping_towards(&plan.target, how.stamps.is_some());
        let mut progress = Offers::new();
        let load = load::run(plan, &how, &signals, &mut progress);
        progress.clear();
        let left = devices.off().map_err(Failure::failed);
        let load = match load {
            Ok(load) => load,
            Err(error) => return both(Err(error.into()), left),
        };
        both(keep.after(output.print(&load), &load), left)?;
        Ok(load.head.error.map_or(ExitCode::SUCCESS, |error| Failure::failed(error).report()))
    }

    fn plan(mut self) -> Result<(Plan, How), Failure> {
        if self.work.forever {
            return Err(Failure::usage("every rate is offered for a while: use --duration"));
        }
        if self.seed.is_some() && self.schedule != Arrivals::Poisson {
            return Err(Failure::usage("--seed belongs to --schedule poisson"));
        }
        let schedule = match (self.replay, self.schedule, self.seed) {
            (Some(file), ..) => Schedule::Replay(file),
            (None, Arrivals::Fixed, _) => Schedule::Fixed,
            (None, Arrivals::Poisson, Some(seed)) => Schedule::Poisson(seed),
            // Most JSON readers represent integers exactly up to 53 bits only.
            (None, Arrivals::Poisson, None) => Schedule::Poisson(cookie()? >> 11),
        };
        let rates = self.work.rate.take().map_or(Rates::Found, |flags::Rates(rates)| Rates::Listed(rates));
        let target = self.to.target(self.key_file, self.mirror, &self.work)?;
        self.work.lead_to(&target);
        let mut rows = self.work.jobs(line::was_given("duration"), &target, false)?;
        if let Some(whole) = self.whole.whole {
            let each = rates.share(whole, rows.len());
            rows.iter_mut().for_each(|row| row.duration = Some(each));
        }
        ipv6_has_effect(self.ipv6, &rows)?;
        if self.nic.is_some() && !rows.iter().any(|row| row.spec.client.path.emulates) {
            let names = PATHS.iter().filter(|path| path.emulates).map(|path| path.name).collect::<Vec<_>>().join(" or ");
            let why = format!("--nic is what the path {names} emulates: add -p {names}, or leave --nic out");
            return Err(Failure::usage(why));
        }
        let declared = Declared { nic: self.nic, ..Declared::default() };
        let floor = declared.is_any().then(|| declared.nic().map(|nic| floor::Declared { nic, link: declared.link() }));
        let plan = Plan {
            target,
            ipv6: self.ipv6,
            stack: None,
            rows,
            raw: None,
            shown: hairpin_report::PERCENTILES.into(),
            floor: floor.transpose()?,
            command: line::typed(),
        };
        let (bulk, fits_room) = (self.bulk.unwrap_or(0), !line::was_given("outstanding"));
        Ok((plan, How { rates, schedule, bulk, stamps: self.hw_stamps, fits_room }))
    }
}

/// Parses `1000,2k`, `0.5` and `1k..64kx2`.
fn rates(text: &str) -> Result<flags::Rates, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        match parse_decimal(part) {
            Some(rate) => all.push(rate),
            None => all.extend(list::parse(part).map_err(|error| error.to_string())?.into_iter().map(|rate| rate as f64)),
        }
    }
    match all.iter().find(|rate| !(1e-4..=1e7).contains(*rate)) {
        Some(rate) => Err(format!("{rate} is not a rate: 0.0001 to 10000000 requests per second")),
        None => Ok(flags::Rates(all)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_grammars() {
        assert_eq!(rates("1k..8000x2,9000").unwrap().0, [1000.0, 2000.0, 4000.0, 8000.0, 9000.0]);
        assert_eq!(rates("0.5,2.5k").unwrap().0, [0.5, 2500.0]);
        for text in ["", "0", "-5", "0.00001", "10000001", "1000..x2", "fast"] {
            assert!(rates(text).is_err(), "{text}");
        }
    }
}
