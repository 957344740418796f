//! The declared link between two NICs: `--wire 10G,twinax:3m,niq`, or a flag for each part.

use std::fmt;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use hairpin_model::cable::Cable;
use hairpin_model::hop::Hop;
use hairpin_model::nic::Nic;
use hairpin_model::pcie::Pcie;
use hairpin_model::phy::Fec;
use hairpin_model::waterfall::{Link, NoFloor, floor};
use hairpin_session::plan::Target;
use hairpin_units::BitRate;

use crate::exit::Failure;

/// The declared link between the two NICs.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Declared link")]
pub struct Declared {
    /// The link, for its floor: its rate, cable, NIC design at both ends and what else it has, in any order, such as
    /// 10G,twinax:3m,niq; `hairpin floor --help` has each part
    #[arg(long, value_name = "RATE,CABLE,NIC", conflicts_with_all = ["link_rate", "cable", "nic", "hops", "fec", "pcie", "vlan"])]
    pub wire: Option<Wire>,
    /// Rate of the link, 10M to 800G; the published one of the NIC design if not given
    #[arg(long, value_name = "RATE", hide = true)]
    pub link_rate: Option<BitRate>,
    /// Cable and length: coax, twisted-pair, optical, twinax or vf=FACTOR, such as twinax:3m
    #[arg(long, value_name = "TYPE:LENGTH", hide = true)]
    pub cable: Option<Cable>,
    /// NIC design at both ends.
    #[arg(
        long,
        value_name = "NIC",
        hide = true,
        help = "NIC design at both ends: niq, dma, sniffer10g, dna-82599, sun-fire-6800, none (the wire alone, the default) or FILE.toml"
    )]
    pub nic: Option<Nic>,
    /// A switch on the way, repeatable: cut-through:LATENCY or store-and-forward:LATENCY, and the cable behind it, such as
    /// cut-through:300ns,twinax:2m
    #[arg(long = "hop", value_name = "HOP", hide = true)]
    pub hops: Vec<Hop>,
    /// Forward error correction: on or off; if not given, on at rates where every PHY has it (50G, 200G, 400G, 800G)
    #[arg(long, value_name = "on|off", value_enum, hide = true)]
    pub fec: Option<Switch>,
    /// PCIe link of both NICs, such as gen3x8
    #[arg(long, value_name = "genGxLANES", hide = true)]
    pub pcie: Option<Pcie>,
    /// Frames carry a VLAN tag
    #[arg(long, hide = true)]
    pub vlan: bool,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

impl Declared {
    /// True if any of it was declared.
    pub fn is_any(&self) -> bool {
        self.wire.is_some() || self.nic.is_some() || self.link() != Link::default()
    }

    /// The NIC design; only the wire if none was declared.
    pub fn nic(&self) -> Result<Nic, Failure> {
        let declared = self.wire.as_ref().map_or(&self.nic, |wire| &wire.nic);
        declared.clone().map_or_else(|| "none".parse().map_err(Failure::usage), Ok)
    }

    /// The link in the form of the model.
    pub fn link(&self) -> Link {
        if let Some(wire) = &self.wire {
            return wire.link.clone();
        }
        let fec = match self.fec {
            None => Fec::AsTheRate,
            Some(Switch::On) => Fec::On,
            Some(Switch::Off) => Fec::Off,
        };
        let (cable, hops) = (self.cable.clone(), self.hops.clone());
        Link { rate: self.link_rate, cable, fec, hops, pcie: self.pcie, tagged: self.vlan }
    }

    /// Refuses, before anything is measured, a link without a rate: no interface of this host tells that of loopback or veth.
    pub fn check(&self, target: &Target) -> Result<(), Failure> {
        if !self.is_any() || !matches!(target, Target::Link(_)) {
            return Ok(());
        }
        match floor(self.nic()?.model(), None, &self.link()) {
            Err(error @ (NoFloor::NoRate | NoFloor::Rate(_) | NoFloor::NoFec(_))) => Err(Failure::usage(error)),
            _ => Ok(()),
        }
    }
}

/// A link in one word.
#[derive(Clone, Debug)]
pub struct Wire {
    nic: Option<Nic>,
    link: Link,
}

/// Why a text is no link.
#[derive(Debug)]
pub struct NotAWire(String);

impl fmt::Display for NotAWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAWire {}

impl FromStr for Wire {
    type Err = NotAWire;

    fn from_str(text: &str) -> Result<Wire, NotAWire> {
        let mut wire = Wire { nic: None, link: Link::default() };
        let mut parts = text.split(',').peekable();
        while let Some(part) = parts.next() {
            let twice =
                || NotAWire(format!("\"{part}\" is the second of its kind: a link has one rate, one cable and one NIC design"));
            let bad = |error: &dyn fmt::Display| NotAWire(error.to_string());
            let link = &mut wire.link;
            if let Ok(rate) = part.parse::<BitRate>() {
                fill(&mut link.rate, rate).ok_or_else(twice)?;
            } else if part.starts_with("cut-through:") || part.starts_with("store-and-forward:") {
                // A cable that follows is the one behind the switch.
                let behind = parts.next_if(|next| next.parse::<Cable>().is_ok());
                let hop = behind.map_or_else(|| part.to_owned(), |cable| format!("{part},{cable}"));
                link.hops.push(hop.parse().map_err(|error: hairpin_model::hop::ParseHopError| bad(&error))?);
            } else if part.contains(':') {
                fill(&mut link.cable, part.parse().map_err(|error: hairpin_model::cable::ParseCableError| bad(&error))?)
                    .ok_or_else(twice)?;
            } else if let Ok(pcie) = part.parse::<Pcie>() {
                fill(&mut link.pcie, pcie).ok_or_else(twice)?;
            } else {
                match part {
                    "vlan" => link.tagged = true,
                    "fec" | "fec=on" => link.fec = Fec::On,
                    "fec=off" => link.fec = Fec::Off,
                    _ => {
                        let nic = part.parse::<Nic>().map_err(|error| {
                            NotAWire(format!("\"{part}\" is no part of a link: write a rate (10G), a cable (twinax:3m) or a NIC design; {error}"))
                        })?;
                        fill(&mut wire.nic, nic).ok_or_else(twice)?;
                    }
                }
            }
        }
        Ok(wire)
    }
}

/// Fills a place that is free.
fn fill<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str) -> Result<(Option<String>, Link), String> {
        let wire: Wire = text.parse().map_err(|error: NotAWire| error.to_string())?;
        Ok((wire.nic.map(|nic| nic.model().name().to_owned()), wire.link))
    }

    #[test]
    fn a_link_is_one_word() {
        let (nic, link) = wire("10G,twinax:3m,niq").unwrap();
        assert_eq!(nic.as_deref(), Some("niq"));
        assert_eq!(link, Link { rate: "10G".parse().ok(), cable: "twinax:3m".parse().ok(), ..Link::default() });
        let (nic, link) = wire("dma,gen3x8,25G,cut-through:300ns,twinax:2m,optical:20m,vlan,fec=off").unwrap();
        assert_eq!((nic.as_deref(), link.pcie, link.tagged, link.fec), (Some("dma"), "gen3x8".parse().ok(), true, Fec::Off));
        assert_eq!((link.hops, link.cable), (vec!["cut-through:300ns,twinax:2m".parse().unwrap()], "optical:20m".parse().ok()));
    }

    #[test]
    fn a_wrong_part_is_named() {
        for (text, part) in [
            ("10G,25G", "\"25G\" is the second of its kind"),
            ("10G,niq,dma", "\"dma\" is the second"),
            ("10G,copper:3m", "copper"),
            ("10G,nic7", "\"nic7\" is no part of a link"),
            ("", "is no part of a link"),
        ] {
            let error = wire(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
