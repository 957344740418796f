//! A switch between the two ends, cut-through or store-and-forward, and the cable behind it.
//!
//! Latency as RFC 1242 section 3.8 defines it: for a bit-forwarding (cut-through) device from the first bit in to the
//! first bit out, for a store-and-forward device from the last bit in to the first bit out; the latter also adds the
//! frame's own time.

use std::fmt;
use std::str::FromStr;

use hairpin_units::Picos;

use crate::cable::{Cable, ParseCableError};

/// Longest latency of a switch.
const MAX_LATENCY: Picos = Picos::from_ns(1_000_000_000);

/// One hop.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    pub forwards: Forwards,
    /// Its latency as RFC 1242 defines it for its kind.
    pub latency: Picos,
    /// The cable from it to the next hop or to the receiver; not counted if unknown.
    pub cable: Option<Cable>,
}

/// Forwarding mode of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwards {
    /// Forwards a frame while it is still arriving.
    CutThrough,
    /// Receives the whole frame before forwarding it.
    StoreAndForward,
}

impl fmt::Display for Forwards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Forwards::CutThrough => "cut-through",
            Forwards::StoreAndForward => "store-and-forward",
        })
    }
}

/// Why a text is not a hop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseHopError {
    /// Not of the form `KIND:LATENCY[,CABLE]`.
    #[error("\"{0}\" is not a hop: write cut-through:LATENCY or store-and-forward:LATENCY, such as cut-through:300ns,twinax:2m")]
    Form(String),
    /// The latency is invalid.
    #[error("\"{0}\" is not a hop latency: write a number and ns, us or ms, up to 1s")]
    Latency(String),
    /// The cable behind it is invalid.
    #[error(transparent)]
    Cable(#[from] ParseCableError),
}

impl FromStr for Hop {
    type Err = ParseHopError;

    fn from_str(text: &str) -> Result<Hop, ParseHopError> {
        let bad = || ParseHopError::Form(text.into());
        let (hop, cable) = text.split_once(',').map_or((text, None), |(hop, cable)| (hop, Some(cable)));
        let (kind, time) = hop.split_once(':').ok_or_else(bad)?;
        let forwards = match kind {
            "cut-through" => Forwards::CutThrough,
            "store-and-forward" => Forwards::StoreAndForward,
            _ => return Err(bad()),
        };
        let latency = latency(time).ok_or_else(|| ParseHopError::Latency(time.into()))?;
        Ok(Hop { forwards, latency, cable: cable.map(str::parse).transpose()? })
    }
}

/// A time to the picosecond. It has a unit: a bare number means seconds elsewhere, which is never meant for a switch.
fn latency(text: &str) -> Option<Picos> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let unit = match &text[digits..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let number: f64 = text[..digits].parse().ok()?;
    Picos::from_ns_f64(number * unit).filter(|time| *time <= MAX_LATENCY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_hops_and_rejects_mistakes() {
        let hop: Hop = "cut-through:300ns,twinax:2m".parse().unwrap();
        assert_eq!((hop.forwards, hop.latency), (Forwards::CutThrough, Picos(300_000)));
        assert_eq!(hop.cable, Some("twinax:2m".parse().unwrap()));
        let hop: Hop = "store-and-forward:5us".parse().unwrap();
        assert_eq!((hop.forwards, hop.latency, hop.cable), (Forwards::StoreAndForward, Picos(5_000_000), None));
        assert_eq!("cut-through:0.4ns".parse::<Hop>().unwrap().latency, Picos(400));
        assert_eq!("cut-through:1s".parse::<Hop>().unwrap().latency, MAX_LATENCY);
        for text in ["", "cut-through", "tunnel:5ns", "300ns"] {
            assert!(matches!(text.parse::<Hop>(), Err(ParseHopError::Form(_))), "{text}");
        }
        for text in ["cut-through:", "cut-through:300", "cut-through:-3ns", "cut-through:2s"] {
            assert!(matches!(text.parse::<Hop>(), Err(ParseHopError::Latency(_))), "{text}");
        }
        assert!(matches!("cut-through:3ns,rope:2m".parse::<Hop>(), Err(ParseHopError::Cable(_))));
    }
}
