//! `hairpin floor`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hairpin_lab::records;
use hairpin_model::compare::compare;
use hairpin_model::fit::of_run;
use hairpin_model::nic::Nic;
use hairpin_model::waterfall::{self, Size};
use hairpin_record::floor::{self, Floor as Record};
use hairpin_record::head::Label;
use hairpin_report::{Options, Tool, floor_pingpong};
use hairpin_units::{Picos, list, parse_duration};

use crate::exit::{Failure, say};
use crate::output::{Format, Output, PINGPONG, formats, options, print, store_of};
use crate::verbs::floor_pcie::FloorPcie;
use crate::wire::Declared;

/// Compute the lower bound of latency from physics and the declared hardware
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(mut_arg("format", |arg| arg.value_parser(formats(|form| form == PINGPONG))))]
#[command(mut_arg("link_rate", |arg| arg.alias("rate").hide(false)), mut_arg("cable", |arg| arg.hide(false)), mut_arg("nic", |arg| arg.hide(false)))]
#[command(mut_arg("hops", |arg| arg.hide(false)), mut_arg("fec", |arg| arg.hide(false)), mut_arg("pcie", |arg| arg.hide(false)))]
#[command(mut_arg("vlan", |arg| arg.hide(false)))]
pub struct Floor {
    #[command(subcommand)]
    probe: Option<Probe>,
    /// Bytes of the frame without FCS, one or several; the design's published size if not given, else 60
    #[arg(long, value_name = "LIST", value_parser = lengths, conflicts_with = "sizes")]
    frame: Option<Lengths>,
    /// Bytes of payload, one or several: as a published table counts them, else in UDP over IPv4
    #[arg(short = 's', long, alias = "size", value_name = "LIST", value_parser = lengths)]
    sizes: Option<Lengths>,
    /// A second NIC design, side by side with the first
    #[arg(long, value_name = "NIC", conflicts_with = "explain")]
    compare: Option<Nic>,
    /// A sentence for each stage, with its source
    #[arg(long)]
    explain: bool,
    /// Fit a measured run over its sizes: base time, ns per byte, and the step where a new mechanism starts
    #[arg(long, value_name = "RUN", conflicts_with_all = ["frame", "sizes", "compare", "explain", "wire", "cable", "nic", "hops", "fec", "pcie", "vlan"])]
    fit: Option<String>,
    /// The least TCP window that fills the link: its rate times the RTT, the floor's own or one that is given, such as
    /// --window=1ms
    #[arg(
        long,
        value_name = "RTT",
        num_args = 0..=1,
        require_equals = true,
        value_parser = rtt,
        conflicts_with_all = ["compare", "fit"]
    )]
    window: Option<Option<Picos>>,
    #[command(flatten)]
    declared: Declared,
    #[command(flatten)]
    output: Output,
}

/// Lengths in bytes.
#[derive(Clone, Debug)]
struct Lengths(Vec<u64>);

fn lengths(text: &str) -> Result<Lengths, String> {
    list::parse(text).map(Lengths).map_err(|error| error.to_string())
}

fn rtt(text: &str) -> Result<Picos, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    let known = Picos::from_ns_f64(time.0 as f64).filter(|rtt| *rtt > Picos::ZERO);
    known.ok_or_else(|| "an RTT is 1ns to 1000s".to_owned())
}

/// A part of the floor that can be measured.
#[derive(Debug, Subcommand)]
enum Probe {
    /// Measure the time in which the CPU reads 4 bytes of a PCI device; without --device, the cost of a NIC
    /// driver's steps over memory
    ///
    /// Nothing is written, but reading a register may have an effect on its device (clear a counter, acknowledge an interrupt):
    /// name one that its manual calls safe to read.
    Pcie(FloorPcie),
}

impl Floor {
    /// Prints the floor. Only a probe measures anything.
    pub fn run(self) -> Result<ExitCode, Failure> {
        if let Some(Probe::Pcie(probe)) = self.probe {
            return probe.run();
        }
        let lines = self.output.form() == PINGPONG;
        if lines && (self.fit.is_some() || self.compare.is_some() || self.explain || self.window.is_some()) {
            return Err(Failure::usage(
                "--format pingpong has a line per size and no more: it cannot be used with --fit, --compare, --explain or --window",
            ));
        }
        match (&self.fit, &self.compare) {
            (Some(run), _) => self.fitted(run)?,
            (None, Some(other)) => self.compared(other)?,
            (None, None) => self.plain()?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The sizes given; without any, the design's own.
    fn asked(&self) -> Vec<Option<Size>> {
        match (&self.frame, &self.sizes) {
            (Some(Lengths(all)), _) => all.iter().map(|n| Some(Size::Frame(*n))).collect(),
            (_, Some(Lengths(all))) => all.iter().map(|n| Some(Size::Payload(*n))).collect(),
            (None, None) => vec![None],
        }
    }

    fn floor(&self, nic: &Nic, size: Option<Size>) -> Result<Record, Failure> {
        waterfall::floor(nic.model(), size, &self.declared.link()).map_err(Failure::usage)
    }

    fn plain(&self) -> Result<(), Failure> {
        let nic = self.declared.nic()?;
        let floors: Result<Vec<Record>, Failure> = self.asked().into_iter().map(|size| self.floor(&nic, size)).collect();
        let mut sizes = floor::Sizes { label: Label::of::<floor::Sizes>(), floors: floors? };
        if let Some(rtt) = self.window {
            let [one] = &mut sizes.floors[..] else { return Err(Failure::usage("--window takes one size")) };
            one.window = Some(waterfall::window(one, rtt));
        }
        if self.output.form() == PINGPONG {
            say(format_args!("{}; from published and derived figures, nothing was measured", Tool::SnfPingpong.note()));
            let payloads = self.sizes.as_ref().map(|Lengths(all)| all.as_slice()).unwrap_or_default();
            return print(&floor_pingpong(&sizes, payloads));
        }
        match &sizes.floors[..] {
            [one] => self.output.print_with(one, &Options { detail: self.explain.into(), ..options() }),
            _ if self.explain && self.output.form() != Format::Json => Err(Failure::usage("--explain takes one size")),
            _ => self.output.print(&sizes),
        }
    }

    fn compared(&self, other: &Nic) -> Result<(), Failure> {
        let [size] = self.asked()[..] else { return Err(Failure::usage("--compare takes one size")) };
        self.output.print(&compare(self.floor(&self.declared.nic()?, size)?, self.floor(other, size)?))
    }

    fn fitted(&self, run: &str) -> Result<(), Failure> {
        let found = records::load(&store_of(run)?, run).map_err(Failure::failed)?;
        let name = records::kept_as(&found, run);
        let (_, record) = records::run_of(found, "fit").map_err(Failure::failed)?;
        self.output.print(&of_run(&record, &name, self.declared.link().rate))
    }
}
