//! Cables: propagation delay.
//!
//! Each type has its source's delay per metre; `vf=0.7` is a cable of any other velocity factor.

use std::fmt;
use std::str::FromStr;

use hairpin_record::design::CableType;
use hairpin_record::floor::Class;
use hairpin_units::Picos;
use serde::Deserialize;

use crate::published::published;

/// The speed of light in vacuum in metres per second (SI, exact).
pub const LIGHT: f64 = 299_792_458.0;
/// Longest cable: five times round the Earth.
const MAX_METRES: f64 = 200e6;
/// Delays per metre that differ by at most this round to the same two decimals.
const PRINTED: f64 = 0.005;

/// A cable of a length.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Cable {
    kind: Kind,
    metres: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Published(usize),
    Factor(f64),
}

/// Why a text is not a cable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseCableError {
    /// Not of the form TYPE:LENGTH.
    #[error("\"{0}\" is not a cable: write TYPE:LENGTH, such as twinax:3m, optical:2km or vf=0.7:50cm")]
    Form(String),
    /// No such type.
    #[error("there is no cable \"{0}\": choose from {names}, or give a velocity factor as vf=0.7", names = names())]
    Kind(String),
    /// A signal is faster than light, or does not move.
    #[error("\"{0}\" is not a velocity factor: write a fraction of the speed of light, 0.01 to 1, such as vf=0.66")]
    Factor(String),
    /// The length is invalid.
    #[error("\"{0}\" is not a length: write a number and cm, m or km, such as 3m, up to 200000km")]
    Length(String),
}

fn names() -> String {
    published().cable.iter().map(|cable| cable.name).collect::<Vec<_>>().join(", ")
}

impl FromStr for Cable {
    type Err = ParseCableError;

    fn from_str(text: &str) -> Result<Cable, ParseCableError> {
        let (kind, length) = text.split_once(':').ok_or_else(|| ParseCableError::Form(text.into()))?;
        let kind = match kind.strip_prefix("vf=") {
            Some(factor) => {
                let parsed = factor.parse().ok().filter(|factor: &f64| (0.01..=1.0).contains(factor));
                Kind::Factor(parsed.ok_or_else(|| ParseCableError::Factor(factor.into()))?)
            }
            None => {
                let at = published().cable.iter().position(|cable| cable.name == kind);
                Kind::Published(at.ok_or_else(|| ParseCableError::Kind(kind.into()))?)
            }
        };
        let digits = length.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(length.len());
        let number = length[..digits].parse::<f64>().ok();
        let metres = match &length[digits..] {
            "cm" => number.map(|number| number / 100.0),
            "m" => number,
            "km" => number.map(|number| number * 1000.0),
            _ => None,
        };
        let metres = metres.filter(|metres| *metres <= MAX_METRES).ok_or_else(|| ParseCableError::Length(length.into()))?;
        Ok(Cable { kind, metres })
    }
}

impl TryFrom<String> for Cable {
    type Error = ParseCableError;

    fn try_from(text: String) -> Result<Cable, ParseCableError> {
        text.parse()
    }
}

impl fmt::Display for Cable {
    /// In the form that is parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Published(at) => published().cable[at].name.to_owned(),
            Kind::Factor(factor) => format!("vf={factor}"),
        };
        f.pad(&format!("{kind}:{}m", self.metres))
    }
}

impl Cable {
    /// The propagation delay, to the nearest ps.
    pub fn propagation(&self) -> Picos {
        // Length and velocity factor are bounded: 200,000 km at 0.01 of the speed of light take 67 s.
        Picos::from_ns_f64(self.metres * self.ns_per_m()).unwrap_or(Picos::MAX)
    }

    /// The delay in ns per metre.
    pub fn ns_per_m(&self) -> f64 {
        match self.kind {
            Kind::Published(at) => published().cable[at].ns_per_m,
            Kind::Factor(factor) => from_factor(factor),
        }
    }

    /// The class of the delay: a declared velocity factor is assumed.
    pub fn class(&self) -> Class {
        match self.kind {
            Kind::Published(_) => Class::Derived,
            Kind::Factor(_) => Class::Assumed,
        }
    }

    /// The source of the delay.
    pub fn source(&self) -> String {
        match self.kind {
            Kind::Published(at) => format!("{:.2} ns/m, {}", self.ns_per_m(), published().cable[at].source),
            Kind::Factor(factor) => {
                format!("{:.3} ns/m: 1 / ({factor} × speed of light), the factor as declared", self.ns_per_m())
            }
        }
    }

    /// An inconsistency in the source, if there is one.
    pub fn misfit(&self) -> Option<String> {
        let Kind::Published(at) = self.kind else { return None };
        let row = &published().cable[at];
        let derived = from_factor(row.velocity_factor);
        ((derived - row.ns_per_m).abs() > PRINTED).then(|| {
            format!(
                "{}: the published {:.2} ns/m is inconsistent with its own velocity factor of {}, which gives {derived:.2}; the published delay is used",
                row.name, row.ns_per_m, row.velocity_factor
            )
        })
    }
}

/// Every type of cable with a published delay.
pub fn types() -> Vec<CableType> {
    let of = |row: &crate::published::Cable| CableType {
        name: row.name.to_owned(),
        ns_per_m: row.ns_per_m,
        source: format!("{:.2} ns/m, {}", row.ns_per_m, row.source),
    };
    published().cable.iter().map(of).collect()
}

/// ns per metre at a share of the speed of light.
fn from_factor(factor: f64) -> f64 {
    1e9 / (factor * LIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cable(text: &str) -> Cable {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_published_cable() {
        for (name, factor, ns_per_m, fits) in [
            ("coax", 0.65, 5.13, true),
            ("twisted-pair", 0.59, 5.65, true),
            ("optical", 0.66, 5.05, true),
            ("twinax", 0.65, 5.10, false),
        ] {
            let metre = cable(&format!("{name}:1m"));
            assert_eq!(metre.propagation(), Picos::from_ns_f64(ns_per_m).unwrap(), "{name}");
            assert_eq!(metre.misfit().is_none(), fits, "{name}");
            let derived = cable(&format!("vf={factor}:1m")).ns_per_m();
            assert_eq!(format!("{derived:.2}") == format!("{ns_per_m:.2}"), fits, "{name}: {derived}");
        }
        assert_eq!(published().cable.len(), 4);
        let told = cable("twinax:3m").misfit().unwrap();
        assert!(told.contains("5.10") && told.contains("0.65") && told.contains("5.13"), "{told}");
    }

    #[test]
    fn lengths_are_exact_to_a_picosecond() {
        assert_eq!(cable("twinax:3m").propagation(), Picos(15_300));
        assert_eq!(cable("optical:2km").propagation(), Picos(10_100_000));
        assert_eq!(cable("coax:50cm").propagation(), Picos(2_565));
        assert_eq!(cable("coax:0m").propagation(), Picos::ZERO);
        assert_eq!(cable("vf=1:29979245.8m").propagation(), Picos(100_000_000_000));
    }

    #[test]
    fn cables_survive_writing_and_reading() {
        for text in ["twinax:3m", "optical:0.5m", "vf=0.72:12.5m"] {
            assert_eq!(cable(text).to_string(), text);
        }
        assert_eq!(cable("twinax:70cm").to_string(), "twinax:0.7m");
    }

    #[test]
    fn rejects_malformed_cables() {
        let error = |text: &str| text.parse::<Cable>().unwrap_err();
        assert!(matches!(error("twinax"), ParseCableError::Form(_)));
        assert_eq!(
            error("string:3m").to_string(),
            "there is no cable \"string\": choose from coax, twisted-pair, optical, twinax, or give a velocity factor as vf=0.7"
        );
        for text in ["vf=0:1m", "vf=1.1:1m", "vf=-1:1m", "vf=NaN:1m", "vf=:1m"] {
            assert!(matches!(error(text), ParseCableError::Factor(_)), "{text}");
        }
        for text in ["twinax:3", "twinax:m", "twinax:-3m", "twinax:3mm", "twinax:1e9m", "twinax:300000km", "twinax:"] {
            assert!(matches!(error(text), ParseCableError::Length(_)), "{text}");
        }
    }
}
