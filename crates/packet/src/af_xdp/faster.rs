//! Native or generic mode: finds the faster one by a trial.
//!
//! ```text
//!   a thread of its own, in a network namespace of its own, gone afterwards
//!   ┌─────────────────────────────────────────┐
//!   │  ring ◀──▶ veth ◀═══════▶ veth ◀──▶ ring │   one frame to and fro for a millisecond in each mode
//!   └─────────────────────────────────────────┘
//! ```
//! A trial over veth says nothing about another driver, and a physical device must not send trial frames: there the
//! rule is native mode if the driver supports it.

use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hairpin_sys::netlink::{LinkFacts, Netlink, VethConfig};
use hairpin_sys::netns;
use hairpin_sys::umem::Frame;
use hairpin_wire::raw::ETHERTYPE;

use super::{AfXdp, Queue};
use crate::device::{BackEnd, Config, OpenError};
use crate::filter::Filter;
use crate::granted::Mode;
use crate::io::{Arrival, Kick, PacketIo};

/// A mode, and the reason for it.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) mode: Mode,
    pub(super) why: String,
}

/// Duration of the trial in each mode.
const TRIAL: Duration = Duration::from_millis(1);
/// Round trips to warm up caches, rings and drivers.
const WARM_UP: usize = 16;
/// Most round trips that are kept.
const MOST: usize = 4096;
/// Fewest round trips for a median.
const FEWEST: usize = 16;
/// A trial fails after this long without its frame.
const PATIENCE: Duration = Duration::from_millis(100);
const ENDS: [&str; 2] = ["hp-trial-a", "hp-trial-b"];

/// The faster mode for the interface `link`. The trial over veth is made once per process.
pub(super) fn of(link: &LinkFacts, queues: u32) -> Choice {
    static VETH: OnceLock<Choice> = OnceLock::new();
    match link.kind.as_deref() {
        // drivers/net/veth.c, veth_xmit(): without NAPI at the other end it records no receive queue.
        Some("veth") if queues > 1 => Choice {
            mode: Mode::Native,
            why: "over veth only native mode keeps several queues apart: in generic mode the kernel takes queue 1's frames for queue 0's".into(),
        },
        Some("veth") => VETH.get_or_init(try_veth).clone(),
        _ => Choice {
            mode: Mode::Native,
            why: "native is taken wherever a driver has it, but for veth, where both are tried".into(),
        },
    }
}

fn try_veth() -> Choice {
    let measured = netns::apart(|| -> Result<[Duration; 2], String> {
        Ok([trial(Mode::Native).map_err(|e| e.to_string())?, trial(Mode::Generic).map_err(|e| e.to_string())?])
    });
    match measured {
        Ok(Ok([native, generic])) => {
            let mode = if native < generic { Mode::Native } else { Mode::Generic };
            let (native, generic) = (native.as_nanos(), generic.as_nanos());
            let why = format!(
                "{mode} is faster here: tried over a veth pair of its own on one CPU, a round trip took {native} ns native and {generic} ns generic"
            );
            Choice { mode, why }
        }
        Ok(Err(failed)) => untried(&failed),
        Err(failed) => untried(&failed.to_string()),
    }
}

/// Over veth generic mode was faster wherever it was measured: native mode copies each frame once more there.
fn untried(failed: &str) -> Choice {
    Choice { mode: Mode::Generic, why: format!("generic is the faster one over veth as a rule; a trial here failed: {failed}") }
}

/// The median round trip in `mode`, over a veth pair that the first trial makes.
fn trial(mode: Mode) -> Result<Duration, TrialError> {
    let config = Config {
        filter: Filter::Ethertype(ETHERTYPE),
        mode: Some(mode),
        zero_copy: false,
        ring_entries: 64,
        chunks: 128,
        ..Config::default()
    };
    let netlink = Netlink::open()?;
    if netlink.link(ENDS[0]).is_err() {
        let here = netns::this_thread();
        let pair = VethConfig {
            name: ENDS[0].into(),
            peer_name: ENDS[1].into(),
            mtu: None,
            queues: Some(1),
            tx_queues: None,
            peer_pid: here,
        };
        netlink.create_veth(&pair)?;
        ENDS.iter().try_for_each(|end| netlink.set_up(end))?;
    }
    let mut devices = [AfXdp::open(ENDS[0], &config)?, AfXdp::open(ENDS[1], &config)?];
    let [near, far] = &mut devices;
    let mut rings = [near.ring(0)?, far.ring(0)?];
    near.start()?;
    far.start()?;
    let mut ball = Ball { frames: Vec::with_capacity(1), arrivals: Vec::with_capacity(1) };
    let mut frame = rings[0].pool().take().ok_or(TrialError::Lost)?;
    frame.set_len(64);
    let bytes = rings[0].umem().clone();
    let bytes = bytes.bytes_mut(&mut frame);
    bytes.fill(0);
    bytes[..6].fill(0xff);
    bytes[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    ball.frames.push(frame);
    let mut times = Vec::with_capacity(MOST);
    let end = Instant::now() + TRIAL;
    loop {
        let start = Instant::now();
        ball.cross(&mut rings, 0)?;
        ball.cross(&mut rings, 1)?;
        let now = Instant::now();
        times.push(now - start);
        if times.len() == MOST || (now >= end && times.len() >= WARM_UP + FEWEST) {
            break;
        }
    }
    let times = &mut times[WARM_UP..];
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// The frame of the trial.
struct Ball {
    frames: Vec<Frame>,
    arrivals: Vec<Arrival>,
}

impl Ball {
    /// Sends the frame from one ring and waits for it at the other.
    fn cross(&mut self, rings: &mut [Queue; 2], from: usize) -> Result<(), TrialError> {
        rings[from].tx_batch(&mut self.frames);
        rings[from].kick(Kick::Send)?;
        let give_up = Instant::now() + PATIENCE;
        while rings[1 - from].rx_batch(&mut self.arrivals, 1) == 0 {
            if Instant::now() > give_up {
                return Err(TrialError::Lost);
            }
        }
        self.frames.extend(self.arrivals.drain(..).map(|arrival| arrival.frame));
        Ok(())
    }
}

/// Why a trial failed.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Link(#[from] hairpin_sys::netlink::NetlinkError),
    #[error("a frame could not be sent: {0}")]
    Send(#[from] io::Error),
    #[error("a frame got lost")]
    Lost,
}
