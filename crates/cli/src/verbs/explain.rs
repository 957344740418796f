//! `hairpin explain`.

use std::process::ExitCode;

use clap::Args;
use hairpin_lab::explain::{self, How};
use hairpin_lab::floor;
use hairpin_lab::ping::Plan;

use crate::exit::Failure;
use crate::flags::{Mirror, Where, Work};
use crate::output::print;
use crate::verbs::floor::Declared;
use crate::verbs::ping::{Teller, signals};

/// Say where the time of a round trip goes
#[derive(Debug, Args)]
pub struct Explain {
    #[command(flatten)]
    to: Where,
    /// IPv6 on --link loopback and --link veth
    #[arg(short = '6', long)]
    ipv6: bool,
    #[command(flatten)]
    work: Work,
    /// Four hooks in each direction instead of all: less detail, and less disturbance
    #[arg(long)]
    light: bool,
    /// Print the N slowest transactions event by event
    #[arg(long, value_name = "N", default_value_t = 0)]
    timeline: usize,
    /// The whole record as JSON (hairpin.explain/1)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    declared: Declared,
}

impl Explain {
    /// Measures with and without hooks in turn, and prints.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let signals = signals()?;
        let mirror = Mirror { interface: None, rewrite: None, dst_mac: None };
        let target = self.to.target(None, mirror, &self.work.paths)?;
        let rows = self.work.jobs(true, target.kind(), false)?;
        let floor = self.declared.is_any().then(|| self.declared.nic().map(|nic| floor::Declared { nic, link: self.declared.link() }));
        let plan = Plan {
            target,
            ipv6: self.ipv6,
            rows,
            raw: None,
            shown: hairpin_report::PERCENTILES.into(),
            floor: floor.transpose()?,
            command: std::env::args().collect(),
        };
        let how = How { light: self.light, timelines: self.timeline };
        let found = explain::run(&plan, how, &signals, &mut Teller::new(false))?;
        print(&(serde_json::to_string_pretty(&found).unwrap_or_default() + "\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}
