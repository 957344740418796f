//! NIC designs: the stages of a frame of n bytes on its way out and in, each with a time and a source.
//!
//! | name | design |
//! |---|---|
//! | `niq` | inline up to 60 bytes in one 64-byte line; larger by descriptor and DMA |
//! | `dma` | descriptor ring, doorbell and DMA |
//! | `none` | the wire alone |
//! | `sniffer10g`, `dna-82599`, `sun-fire-6800` | published tables of whole half round trips |
//!
//! All but `none` are files in `data/nic/`, in the same format as users' own ([`crate::nic_file`]).

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use flate2::read::ZlibDecoder;
use hairpin_record::floor::Counts;

pub use crate::design::{NicModel, Reference, Stages, Transfer};
use crate::nic_file::{LoadError, NicFile, load, parse};

/// A design by name or from a file, as given on a command line.
#[derive(Clone)]
pub struct Nic(Arc<dyn NicModel>);

impl Nic {
    /// The design.
    pub fn model(&self) -> &dyn NicModel {
        &*self.0
    }
}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

/// Why a text does not name a design.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No built-in design has this name.
    #[error("there is no NIC design \"{name}\": choose from {known}, or give a file as FILE.toml", known = names())]
    Unknown { name: String },
    /// The file.
    #[error(transparent)]
    File(#[from] LoadError),
}

fn names() -> String {
    built_in().iter().map(|nic| nic.name()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Nic {
    type Err = OpenError;

    /// Parses a name, or a file if the text ends in `.toml` or contains a slash.
    fn from_str(text: &str) -> Result<Nic, OpenError> {
        if text.ends_with(".toml") || text.contains('/') {
            return Ok(Nic(Arc::new(load(Path::new(text))?)));
        }
        find(text).map(|nic| Nic(Arc::new(nic))).ok_or_else(|| OpenError::Unknown { name: text.into() })
    }
}

/// The wire alone: no host, no NIC.
struct Wire;

impl NicModel for Wire {
    fn name(&self) -> &str {
        "none"
    }

    fn about(&self) -> &str {
        "the wire alone: serialization, cable and hops; host, NIC, MAC and PHY take no time"
    }

    fn counts(&self) -> Counts {
        Counts::Frame
    }

    fn frame_bytes(&self, size: u64) -> u64 {
        size
    }

    fn published_size(&self) -> Option<u64> {
        None
    }

    fn stages(&self, _size: u64) -> Stages {
        Stages::default()
    }

    fn notes(&self) -> &[String] {
        &[]
    }
}

/// The built-in designs, `none` last.
pub fn built_in() -> Vec<&'static dyn NicModel> {
    let files = files().iter().map(|file| file as &dyn NicModel);
    files.chain([&Wire as &dyn NicModel]).collect()
}

/// The files in `data/nic/`.
pub fn files() -> &'static [NicFile] {
    static FILES: LazyLock<Vec<NicFile>> = LazyLock::new(|| {
        // Packed by build.rs; the tests parse each.
        let mut texts = String::new();
        let packed = &include_bytes!(concat!(env!("OUT_DIR"), "/nics"))[..];
        ZlibDecoder::new(packed).read_to_string(&mut texts).expect("build.rs packed texts");
        texts.split_terminator('\0').map(|text| parse(text).expect("data/nic holds sound files")).collect()
    });
    &FILES
}

/// The built-in design of this name.
pub fn find(name: &str) -> Option<&'static dyn NicModel> {
    built_in().into_iter().find(|nic| nic.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_design_is_a_name_or_a_file() {
        assert_eq!("niq".parse::<Nic>().unwrap().model().name(), "niq");
        assert_eq!(
            "x710".parse::<Nic>().unwrap_err().to_string(),
            "there is no NIC design \"x710\": choose from niq, dma, sniffer10g, dna-82599, sun-fire-6800, none, or give a file as FILE.toml"
        );
        assert!(matches!("/nonexistent".parse::<Nic>(), Err(OpenError::File(_))));
        assert!(matches!("nonexistent.toml".parse::<Nic>(), Err(OpenError::File(_))));
    }
}
