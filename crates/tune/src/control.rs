//! How a setting is changed, and what a person should know before: mechanism, expected effect, cost, risk, reference, what it needs.
//!
//! ```text
//!   Knob::spots ──► where its values stand here ──┐
//!   Control     ──► values it may have, form, ────┴──► plan ──► [Change]
//!                   what people should know
//! ```
//! A control is one item: a line in the table of its subject, under the name of its knob. What has a knob and no control is only reported:
//! facts, and settings that are made at boot (isolcpus, nohz_full, mitigations, idle=).

mod coalescing;
mod network;
mod power;
mod queues;
mod scheduler;
mod tcp;

use std::fmt;

use hairpin_sys::device::Attribute;

use crate::change::{Address, Form};
use crate::cpulist;

/// How one setting is changed.
#[derive(Debug)]
pub struct Control {
    /// The knob's name.
    pub name: &'static str,
    /// What the kernel or the device does differently.
    pub mechanism: &'static str,
    /// What is to be expected of it. Not measured here.
    pub effect: &'static str,
    /// What it costs.
    pub cost: &'static str,
    /// What may go wrong.
    pub risk: &'static str,
    /// What must be there for it to exist.
    pub needs: &'static str,
    /// Where it is described.
    pub reference: &'static str,
    /// The values it may be given.
    pub values: Values,
    /// How its files stand for values.
    pub form: Form,
    /// True if it is put back at once and can neither cut the network nor stop a service.
    pub safe: bool,
    /// The value for lowest latency; `None` where there is none, or it depends.
    pub latency: Option<&'static str>,
    /// The value that saves power.
    pub power: Option<&'static str>,
    /// The value for throughput.
    pub throughput: Option<&'static str>,
    /// How much of a blocking round trip with one request in flight is at stake, as an order of magnitude from the reference; 0 where it is seen in
    /// the tail or under load only.
    pub stake_ns: u64,
}

impl Control {
    /// What most of them have in common. Its texts are empty: each says its own (a test looks).
    const PLAIN: Control = Control {
        name: "",
        mechanism: "",
        effect: "",
        cost: "",
        risk: "None to function.",
        needs: "",
        reference: "",
        values: Values::OnOff,
        form: Form::Words,
        safe: true,
        latency: None,
        power: None,
        throughput: None,
        stake_ns: 0,
    };

    /// True for what lasts only as long as a process holds it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.name == "cpu_dma_latency_us"
    }

    /// True for what an interface has, not the host.
    #[must_use]
    pub fn is_of_interface(&self) -> bool {
        [coalescing::CONTROLS, queues::CONTROLS].into_iter().flatten().any(|control| control.name == self.name)
    }

    /// The value of a profile.
    #[must_use]
    pub fn of_profile(&self, profile: Profile) -> Option<&'static str> {
        match profile {
            Profile::Latency => self.latency,
            Profile::Power => self.power,
            Profile::Throughput => self.throughput,
        }
    }
}

/// What a host is set up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Shortest round trips.
    Latency,
    /// Least power.
    Power,
    /// Most bytes.
    Throughput,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 3] = [Profile::Latency, Profile::Power, Profile::Throughput];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Profile::Latency => "latency",
            Profile::Power => "power",
            Profile::Throughput => "throughput",
        }
    }
}

/// The values that a setting may be given.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// A whole number from the first to the second.
    Number(i64, i64),
    /// A whole number from 0 on, or `all`.
    NumberOrAll,
    /// Several whole numbers, parted by commas or blanks.
    Numbers(usize),
    /// `on` or `off`, which the kernel writes as 1 and 0.
    Flag,
    /// `on` or `off`, as the kernel has it.
    OnOff,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A word; the kernel knows which there are.
    Word(&'static str),
    /// A list of CPUs.
    Cpus,
    /// A list of CPUs, or `none`.
    CpusOrNone,
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Number(least, most) if *most == i64::MAX => write!(f, "a whole number from {least} on"),
            Values::Number(least, most) => write!(f, "a whole number from {least} to {most}"),
            Values::NumberOrAll => f.write_str("a whole number, or all"),
            Values::Numbers(count) => write!(f, "{count} whole numbers with commas between"),
            Values::Flag | Values::OnOff => f.write_str("on or off"),
            Values::Words(words) => f.write_str(&words.join(", ")),
            Values::Word(which) => f.write_str(which),
            Values::Cpus => f.write_str("a list of CPUs such as 0-3,8"),
            Values::CpusOrNone => f.write_str("a list of CPUs such as 2-3, or none"),
        }
    }
}

impl Values {
    /// The value as it is written; `None` if it is none of these.
    #[must_use]
    pub fn canonical(&self, text: &str) -> Option<String> {
        let text = text.trim();
        let flag = match text {
            "on" | "1" | "true" | "yes" => Some(true),
            "off" | "0" | "false" | "no" => Some(false),
            _ => None,
        };
        let word = |text: &str| {
            !text.is_empty() && text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        };
        match self {
            Values::Number(least, most) => text.parse().ok().filter(|n: &i64| n >= least && n <= most).map(|n| n.to_string()),
            Values::NumberOrAll if text == "all" => Some(text.to_owned()),
            Values::NumberOrAll => text.parse().ok().map(|n: u32| n.to_string()),
            Values::Numbers(count) => {
                let parts: Vec<&str> = text.split([',', ' ', '\t']).filter(|part| !part.is_empty()).collect();
                (parts.len() == *count && parts.iter().all(|part| part.parse::<u64>().is_ok())).then(|| parts.join(" "))
            }
            Values::Flag => flag.map(|on| if on { "1" } else { "0" }.to_owned()),
            Values::OnOff => flag.map(|on| if on { "on" } else { "off" }.to_owned()),
            Values::Words(words) => words.iter().find(|word| **word == text).map(|word| (*word).to_owned()),
            Values::Word(_) => word(text).then(|| text.to_owned()),
            Values::Cpus => cpulist::parse(text).ok().filter(|cpus| !cpus.is_empty()).map(|cpus| cpulist::format(&cpus)),
            Values::CpusOrNone if text == "none" => Some(text.to_owned()),
            Values::CpusOrNone => Values::Cpus.canonical(text),
        }
    }
}

/// A place of a knob on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// A file.
    File(String),
    /// A file of an idle state that a core needs this long to leave.
    IdleState {
        /// Its path.
        path: String,
        /// The exit latency.
        latency_us: i64,
    },
    /// A setting of a device.
    Device(String, Attribute),
    /// A file to be held open.
    Held(String),
    /// The controllers of a cgroup's children.
    Controller(String),
    /// A cgroup of its own.
    Partition(String),
}

impl Spot {
    /// Where it stands.
    #[must_use]
    pub fn address(&self, form: Form) -> Address {
        match self {
            Spot::File(path) | Spot::IdleState { path, .. } => Address::File { path: path.clone(), form },
            Spot::Device(interface, attribute) => Address::Device { interface: interface.clone(), attribute: *attribute },
            Spot::Held(path) => Address::Held { path: path.clone() },
            Spot::Controller(path) => Address::Controller { path: path.clone() },
            Spot::Partition(path) => Address::Partition { path: path.clone() },
        }
    }

    /// What is to be written there for `value`, which is canonical. Pure.
    #[must_use]
    pub fn target(&self, control: &Control, value: &str) -> String {
        match self {
            // intel_pstate says it the other way round.
            Spot::File(path) if path.ends_with("/no_turbo") => if value == "1" { "0" } else { "1" }.to_owned(),
            // No tolerance at all is written as n/a, and 0 means any (Documentation/ABI/testing/sysfs-devices-power).
            Spot::File(path) if path.ends_with("/pm_qos_resume_latency_us") && value == "0" => "n/a".to_owned(),
            Spot::File(path) if path.ends_with("/pm_qos_resume_latency_us") && value == "-1" => "0".to_owned(),
            Spot::File(_) if control.form == Form::CpuMask => {
                cpulist::format_mask(&if value == "none" { Vec::new() } else { cpulist::parse(value).unwrap_or_default() })
            }
            Spot::IdleState { latency_us, .. } => {
                let enabled = value == "all" || value.parse().is_ok_and(|most: i64| *latency_us <= most);
                if enabled { "0" } else { "1" }.to_owned()
            }
            Spot::Device(_, Attribute::Stamping) => {
                if value == "on" { "tx=1,rx=1,flags=0" } else { "tx=0,rx=0,flags=0" }.to_owned()
            }
            Spot::Controller(_) => if value == "none" { "off" } else { "on" }.to_owned(),
            _ => value.to_owned(),
        }
    }
}

/// Every setting that can be changed, by subject.
pub static CONTROLS: &[&[Control]] =
    &[power::CONTROLS, scheduler::CONTROLS, network::CONTROLS, tcp::CONTROLS, coalescing::CONTROLS, queues::CONTROLS];

/// Every setting that can be changed, by subject.
pub fn controls() -> impl Iterator<Item = &'static Control> {
    CONTROLS.iter().copied().flatten()
}

/// How the knob of this name is changed; `None` if it is only reported.
#[must_use]
pub fn control(name: &str) -> Option<&'static Control> {
    controls().find(|control| control.name == name)
}
