//! A NIC design: the stages of a frame on its way out and in, and the conditions under which they hold.

use hairpin_record::floor::{Counts, PublishedRow, Stage};
use hairpin_units::BitRate;

use crate::cable::Cable;
use crate::line::Frame;

/// A NIC design: the stages that a frame passes.
pub trait NicModel: Send + Sync {
    fn name(&self) -> &str;
    /// One sentence about the design.
    fn about(&self) -> &str;
    /// The unit of its sizes: payload or frame.
    fn counts(&self) -> Counts;
    /// The frame of a size, without FCS.
    fn frame_bytes(&self, size: u64) -> u64;
    /// The published size, or the first of several.
    fn published_size(&self) -> Option<u64>;
    /// The stages of a size and the conditions under which they hold. A size beyond the published ones gets the nearest
    /// stages.
    fn stages(&self, size: u64) -> Stages;
    /// Notes on its figures.
    fn notes(&self) -> &[String];
}

/// Stages, and the conditions under which they hold unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stages {
    /// Stages in the order of the frame's way.
    pub stages: Vec<Stage>,
    /// The conditions; `None` for a design without figures, to which the wire is added in full.
    pub reference: Option<Reference>,
    /// Way of a frame's bytes into and out of the NIC.
    pub transfer: Transfer,
    /// The row of a published table, if the size is one of its rows.
    pub row: Option<PublishedRow>,
    /// The limit of the published figure, for a size beyond it.
    pub note: Option<String>,
}

/// The conditions of published stages.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The frame.
    pub frame: Frame,
    /// The link's rate.
    pub rate: BitRate,
    /// The cable, if the source names it.
    pub cable: Option<Cable>,
}

/// Way of a frame's bytes into and out of a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transfer {
    /// Unknown, or not over PCIe.
    #[default]
    Unknown,
    /// Inside the command itself: the frame's length makes no difference.
    Inline,
    /// By DMA from and to the host's memory: a longer frame takes longer on PCIe.
    Dma,
}

impl<N: NicModel + ?Sized> NicModel for &N {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn about(&self) -> &str {
        (**self).about()
    }

    fn counts(&self) -> Counts {
        (**self).counts()
    }

    fn frame_bytes(&self, size: u64) -> u64 {
        (**self).frame_bytes(size)
    }

    fn published_size(&self) -> Option<u64> {
        (**self).published_size()
    }

    fn stages(&self, size: u64) -> Stages {
        (**self).stages(size)
    }

    fn notes(&self) -> &[String] {
        (**self).notes()
    }
}
