//! The experimental method: arms measured in short blocks, interleaved in random order, and the results of
//! their pairs.
//!
//! ```text
//!   rounds    one block of every arm in random order, again and again         switch   the change to the host before a block, if any
//!   stands    the real blocks: rows on testbeds that stay up                 states   which blocks saw the same distance between the two cores
//!   figures   a block's quantiles, and of several together                    verdict  pairs ─▶ ratios with intervals ─▶ one word
//! ```
//! Rounds, states, figures and verdict use no clock and no socket: the tests run them over simulated blocks.

pub(crate) mod figures;
pub mod outside;
pub(crate) mod random;
pub(crate) mod rounds;
pub(crate) mod stands;
pub(crate) mod states;
pub(crate) mod verdict;

pub use self::rounds::{NoSwitch, Switch};

use std::time::Duration;

use hairpin_plan::job::Job;
use hairpin_record::experiment::ArmBlock;

use hairpin_session::floor::Declared;
use hairpin_session::plan::Target;
use hairpin_sys::stack::Library;

/// Receives the progress of an experiment, between its blocks.
pub trait BlockWatcher {
    /// The arms, given by the user as `_given`, are measured in turn from now on, for `_lasts`.
    fn begins(&mut self, _given: &[String], _lasts: Duration) {}
    /// A block of the arm with this index is over.
    fn block(&mut self, _arm: usize, _block: &ArmBlock) {}
}

/// Ignores all progress.
pub struct NoBlockWatcher;
impl BlockWatcher for NoBlockWatcher {}

/// An alternative to compare: one way to do the work.
#[derive(Debug)]
pub struct Arm {
    /// The user's text for it.
    pub given: String,
    /// The other side.
    pub target: Target,
    /// Use IPv6 on a link on this host.
    pub ipv6: bool,
    /// The library that takes the place of the kernel's sockets, as in [`hairpin_session::plan::Plan`].
    pub stack: Option<Library>,
    /// The job; the experiment sets duration and warm-up to those of a block.
    pub job: Job,
    /// The declared latency that the path `niq` emulates.
    pub floor: Option<Declared>,
    /// Bulk TCP streams that fill the link during its blocks.
    pub bulk: u32,
}
