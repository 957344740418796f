//! One setting of a host that affects round trips: its description, its reading and its change, all in one
//! entry.

use std::fmt;

use hairpin_record::tune::Finding;
use hairpin_sys::host::Host;
use serde_json::Value;

use crate::change::{Address, Change, Form};
use crate::cpulist;
use crate::place::Place;
use crate::read::Read;
use crate::reading::Reading;
use crate::values::Values;

/// Looks for a finding on this host.
pub type Look = fn(&dyn Host, &Place<'_>) -> Option<Finding>;
/// Time at stake on this host, in nanoseconds of a blocking round trip.
pub type StakeHere = fn(&dyn Host, &Place<'_>) -> Option<u64>;
/// The present state in words, from the wanted value and the changes that it needs.
pub type InWords = fn(&str, &[Change]) -> Option<String>;
/// Finds the places for a canonical value.
pub type FindSpots = fn(&dyn Host, &Place<'_>, &str) -> Result<Vec<Spot>, String>;

/// One setting of a host that affects round trips.
pub struct Knob {
    /// The name of the fact in the record, of the setting on the command line, and of the section in `docs/knobs.md`: the
    /// kernel's own word in snake case, with the unit where the kernel's word has none.
    pub name: &'static str,
    /// A description in one line.
    pub summary: &'static str,
    pub read: Read,
    /// Notes for readers of `docs/knobs.md` on the reading, beside the file's path.
    pub source: &'static str,
    /// Why it affects a round trip.
    pub why: &'static str,
    /// Shell commands that show the same; empty if printing the file is all there is to do.
    pub look: &'static str,
    /// The way to change it; `None` if it is only reported.
    pub change: Option<Control>,
    /// A finding of `tune check` that does not follow from the values of the profile latency: for settings
    /// made at boot, and for settings without a value that is always right.
    pub finding: Option<Look>,
}

impl Knob {
    /// Defaults: only reported, without a finding. Name, summary, reading and reason are each knob's own.
    pub(crate) const FACT: Knob = Knob {
        name: "",
        summary: "",
        read: Read::By(|_, _| Ok(None)),
        source: "",
        why: "",
        look: "",
        change: None,
        finding: None,
    };

    /// Reads the value. Writes nothing.
    pub fn read(&self, host: &dyn Host, place: &Place<'_>) -> Reading {
        self.read.value(host, place).into()
    }

    /// The value, if it can be read.
    pub(crate) fn value(&self, host: &dyn Host, place: &Place<'_>) -> Option<Value> {
        self.read.value(host, place).ok().flatten()
    }

    /// Every place that holds the setting, and the text to write there for `value`, which is canonical. For the CPUs of `place`,
    /// or every online CPU if it names none. Empty if the knob is only reported, or this host has no such thing. Writes nothing.
    ///
    /// # Errors
    /// The place that could not be read.
    pub fn spots(&self, host: &dyn Host, place: &Place<'_>, value: &str) -> Result<Vec<Spot>, String> {
        match self.change.as_ref().map(|change| change.write) {
            None => Ok(Vec::new()),
            Some(Write::At(spots)) => spots(host, place, value),
            Some(Write::WhereRead { form, encode }) => {
                let addresses = self.read.addresses(host, place, form)?;
                Ok(addresses.into_iter().map(|address| Spot { address, to: encode(value) }).collect())
            }
        }
    }
}

/// A finding about a setting made at boot.
pub(crate) fn at_boot(name: &str, now: String, better: &str, effect: &str, cost: &str, fix: impl Into<String>) -> Finding {
    Finding {
        name: name.to_owned(),
        now,
        better: better.to_owned(),
        effect: effect.to_owned(),
        stake_ns: 0,
        cost: cost.to_owned(),
        fix: fix.into(),
        or: None,
        at_boot: true,
    }
}

impl fmt::Debug for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The change of a knob. A knob without one is only reported: facts, and settings made at boot (isolcpus,
/// nohz_full, mitigations, idle=).
pub struct Control {
    /// The objects it applies to.
    pub scope: Scope,
    /// Whether it belongs to a network namespace.
    pub network: Network,
    /// Lifetime of a change.
    pub lasts: Lasts,
    /// The values it accepts.
    pub values: Values,
    /// Place and format of a written value.
    pub write: Write,
    /// Its effect on the kernel or the device.
    pub mechanism: &'static str,
    /// The effect to expect, not measured on this host.
    pub effect: &'static str,
    pub cost: &'static str,
    pub risk: &'static str,
    /// Requirements on the host, and rights.
    pub needs: &'static str,
    /// Documentation of it.
    pub reference: &'static str,
    /// True if a change replaces the interrupts: it is made first, and the places of other settings are found afterwards.
    pub remakes_interrupts: bool,
    /// True if it takes effect and is reverted at once, and can neither cut the network nor stop a service.
    pub safe: bool,
    /// The value for lowest latency; `None` if there is none, or it depends.
    pub latency: Option<&'static str>,
    /// The value that saves power.
    pub power: Option<&'static str>,
    /// The value for throughput.
    pub throughput: Option<&'static str>,
    /// The share of a blocking round trip with one request in flight that is at stake, as an order of magnitude from the
    /// reference; 0 where the effect shows in the tail or under load only.
    pub stake_ns: u64,
    /// `stake_ns` from facts of this host, if these say more than the reference.
    pub stake_here: Option<StakeHere>,
    /// Puts the present state into words, where the value alone would not be understood.
    pub state: Option<InWords>,
    /// The knob with the same effect that lasts only while a process holds it: one of the two is enough.
    pub while_held: Option<&'static Knob>,
}

impl Control {
    /// Defaults. The texts are empty: each control brings its own.
    pub(crate) const PLAIN: Control = Control {
        scope: Scope::Host,
        network: Network::None,
        lasts: Lasts::UntilReverted,
        values: Values::OnOff,
        write: Write::WORDS,
        mechanism: "",
        effect: "",
        cost: "",
        risk: "None to function.",
        needs: "",
        reference: "",
        remakes_interrupts: false,
        safe: true,
        latency: None,
        power: None,
        throughput: None,
        stake_ns: 0,
        stake_here: None,
        state: None,
        while_held: None,
    };

    /// True if a change lasts only as long as a process holds it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lasts == Lasts::WhileHeld
    }

    /// True for a setting of an interface.
    #[must_use]
    pub fn is_of_interface(&self) -> bool {
        self.scope == Scope::Interface
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

/// The objects that a setting applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole host, or its network namespace.
    Host,
    /// The CPUs named with `--cpus`, or every online CPU.
    Cpus,
    /// The interface named with `-i`.
    Interface,
}

/// How network namespaces share a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Not a setting of the network stack.
    None,
    /// The network stack has one value for all namespaces.
    Shared,
    /// Every namespace has a value of its own, of its stack or of an interface in it.
    Own,
}

/// Lifetime of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// Until it is reverted, or the host boots.
    UntilReverted,
    /// While a process keeps a file open.
    WhileHeld,
}

/// Place and format of a written value.
#[derive(Clone, Copy)]
pub enum Write {
    /// The place that is read.
    WhereRead {
        /// Format of the value in a file's text, to compare two texts.
        form: Form,
        /// From the canonical value to the text that is written.
        encode: fn(&str) -> String,
    },
    /// At the places that this function finds for a canonical value.
    At(FindSpots),
}

impl Write {
    /// The value itself.
    pub(crate) const WORDS: Write = Write::WhereRead { form: Form::Words, encode: str::to_owned };
    /// One word of those that the file lists.
    pub(crate) const CHOICE: Write = Write::WhereRead { form: Form::Choice, encode: str::to_owned };
    /// A list of CPUs as a mask; `none` is the empty mask.
    pub(crate) const CPU_MASK: Write = Write::WhereRead {
        form: Form::CpuMask,
        encode: |value| {
            let cpus = if value == "none" { Vec::new() } else { cpulist::parse(value).unwrap_or_default() };
            cpulist::format_mask(&cpus)
        },
    };
}

/// One place on this host, and the text to write there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub address: Address,
    pub to: String,
}

/// Goal of a host's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Shortest round trips.
    Latency,
    /// Least power.
    Power,
    /// Most bytes per second.
    Throughput,
}

impl Profile {
    pub const ALL: [Profile; 3] = [Profile::Latency, Profile::Power, Profile::Throughput];

    /// The name, as typed on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Profile::Latency => "latency",
            Profile::Power => "power",
            Profile::Throughput => "throughput",
        }
    }
}
