//! A NIC design's share of a round trip, by part. The cable is separate, so that the floor can be drawn at any cable length.
//!
//! ```text
//!   floor of a request and its reply ──▶ Design: parts, both ways together
//!                                          └ cable: fixed_ns + 2 × metres × ns per metre
//! ```

use hairpin_units::Picos;
use serde::Serialize;

use crate::floor::{Class, Floor};

/// Stages of a floor that are its cable.
const CABLE: [&str; 2] = ["cable", "cable, difference"];

/// The floor of a round trip, request and reply together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Design {
    /// Name of the NIC design, such as `niq`.
    pub name: String,
    /// The design in a sentence.
    pub about: String,
    /// Rate and frame in words, such as `10Gbit/s, a frame of 60 bytes`.
    pub link: String,
    /// Cable type and length as in the floor; empty if its figures do not tell it.
    pub over: String,
    /// In the order of the request's way, each for both ways together. They add up to the floor of the RTT.
    pub parts: Vec<DesignPart>,
    /// The part that depends on the cable; `None` where the figures hold a cable that cannot be told apart.
    pub cable: Option<DesignCable>,
}

/// A part of a design's round trip.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DesignPart {
    /// Name of the stage.
    pub name: String,
    /// Lower and upper end, equal unless the source gives an interval; negative only for a derived difference.
    pub ns: [f64; 2],
    /// The weakest class among its figures.
    pub class: Class,
    /// The source of the figure.
    pub source: String,
}

/// The cable of a design, whose type and length may be replaced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DesignCable {
    /// Its place among the parts.
    pub part: usize,
    /// Its type: the [`CableType`] of this name.
    pub kind: String,
    /// Its length in metres, one way.
    pub metres: f64,
    /// Round-trip time of a cable of length 0: not 0 where a source rounds, as with 15 ns for 3 m at 5.10 ns/m.
    pub fixed_ns: f64,
}

/// A type of cable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CableType {
    /// Its name, as in `twinax:3m`.
    pub name: String,
    /// Propagation delay one way, in ns per metre.
    pub ns_per_m: f64,
    /// The source of the delay.
    pub source: String,
}

impl Design {
    /// The design behind a floor. Its cable can be replaced if it is one of `cables`.
    pub fn of(floor: &Floor, cables: &[CableType]) -> Design {
        let mut parts: Vec<DesignPart> = Vec::new();
        for stage in &floor.stages {
            let name = if CABLE.contains(&stage.name.as_str()) { CABLE[0] } else { &stage.name };
            let ns = [stage.time.low_ns, stage.time.high_ns].map(both_ways);
            match parts.iter_mut().find(|part| part.name == name) {
                Some(part) => {
                    part.ns = [part.ns[0] + ns[0], part.ns[1] + ns[1]];
                    part.class = part.class.max(stage.class);
                    part.source = format!("{}; {}", part.source, stage.source);
                }
                None => parts.push(DesignPart { name: name.into(), ns, class: stage.class, source: stage.source.clone() }),
            }
        }
        let cable = parts.iter().position(|part| part.name == CABLE[0]).and_then(|part| {
            let (kind, length) = floor.cable.as_deref()?.split_once(':')?;
            let metres: f64 = length.trim_end_matches('m').parse().ok()?;
            let known = cables.iter().find(|cable| cable.name == kind)?;
            // To the picosecond, as the model counts.
            let fixed_ns = ((parts[part].ns[0] - 2.0 * metres * known.ns_per_m) * 1e3).round() / 1e3;
            Some(DesignCable { part, kind: kind.into(), metres, fixed_ns })
        });
        // The stages are those of the request.
        let ends = [(floor.rtt.low_ns, floor.total_low_ns), (floor.rtt.high_ns, floor.total_high_ns)];
        let beyond = ends.map(|(rtt, one_way)| rtt.as_ns_f64() - both_ways(one_way));
        if beyond != [0.0, 0.0] {
            let source = "the reply is of another size than the request".into();
            parts.push(DesignPart { name: "reply, difference".into(), ns: beyond, class: Class::Derived, source });
        }
        let link = format!("{}, a frame of {} bytes", hairpin_units::BitRate(floor.rate_bit_per_s), floor.frame_bytes);
        let over = floor.cable.clone().filter(|_| parts.iter().any(|part| part.name == CABLE[0])).unwrap_or_default();
        Design { name: floor.nic.clone(), about: floor.about.clone(), link, over, parts, cable }
    }

    /// Lower and upper end of the round trip's floor.
    pub fn ns(&self) -> [f64; 2] {
        [0, 1].map(|end| self.parts.iter().map(|part| part.ns[end]).sum())
    }
}

fn both_ways(one_way: Picos) -> f64 {
    2.0 * one_way.as_ns_f64()
}
