//! The load that a bouncer is measured with: a window of frames that go out, come back, and go out again.
//!
//! ```text
//!   generator, client's CPU and namespace               bouncer, server's CPU and namespace
//!   W frames ── AF_XDP ──▶ peer0 ─── veth ───▶ peer1 ──▶ hairpin │ testpmd │ xdp-bench
//!            ◀────────────────────────────────────────────┘
//! ```
//! At most W frames are under way and W is less than every ring, so a bouncer that is too slow makes the generator wait and loses
//! nothing; a frame that does not come back is counted as lost.

use std::io;
use std::time::{Duration, Instant};

use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::device::{BackEnd, Config, Favour};
use hairpin_packet::filter::Filter;
use hairpin_packet::io::{Kick, PacketIo};
use hairpin_sys::umem::Frame;
use hairpin_wire::raw::ETHERTYPE;
use serde::{Deserialize, Serialize};

/// Where in a frame its number lies; bouncers swap nothing behind the Ethernet header of a frame that is no IP.
const NUMBER_AT: usize = 32;
/// Time limit for a bouncer to begin.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);

/// The load to send.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) interface: String,
    pub(crate) to: [u8; 6],
    pub(crate) from: [u8; 6],
    /// Bytes of a frame, without FCS.
    pub(crate) frame: usize,
    /// Frames under way at most.
    pub(crate) window: usize,
    /// Counted time.
    pub(crate) ms: u64,
}

/// The result of a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Came {
    /// Frames that came back in the counted time.
    pub(crate) frames: u64,
    pub(crate) seconds: f64,
    /// Frames that never came back.
    pub(crate) lost: u64,
    /// The mode granted to the generator's own ring.
    pub(crate) mode: String,
}

impl Came {
    pub(crate) fn ns_per_frame(&self) -> f64 {
        self.seconds * 1e9 / self.frames as f64
    }
}

struct Window<P> {
    ring: P,
    load: Load,
    arrivals: Vec<hairpin_packet::io::Arrival>,
    out: Vec<Frame>,
    next: u64,
    under_way: usize,
    came: u64,
}

/// Sends `load` through AF_XDP and counts the returned frames.
pub(crate) fn generate(load: Load) -> Result<Came, String> {
    let config = Config { filter: Filter::Ethertype(ETHERTYPE), favour: Favour::Rate, ..Config::default() };
    let mut device = AfXdp::open(&load.interface, &config).map_err(|e| e.to_string())?;
    let ring = device.ring(0).map_err(|e| e.to_string())?;
    device.start().map_err(|e| e.to_string())?;
    let mode = ring.granted().mode.map_or_else(|| "-".to_owned(), |mode| mode.to_string());
    let mut window =
        Window { ring, arrivals: Vec::with_capacity(256), out: Vec::with_capacity(256), next: 0, under_way: 0, came: 0, load };
    window.wait_for_bouncer().map_err(|e| format!("no frame came back: {e}"))?;
    let mut came = window.flood().map_err(|e| e.to_string())?;
    came.mode = mode;
    Ok(came)
}

impl<P: PacketIo> Window<P> {
    fn frame(&mut self) -> Option<Frame> {
        let mut frame = self.ring.pool().take()?;
        frame.set_len(self.load.frame);
        let bytes = self.ring.umem().bytes_mut(&mut frame);
        bytes.fill(0);
        bytes[..6].copy_from_slice(&self.load.to);
        bytes[6..12].copy_from_slice(&self.load.from);
        bytes[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
        bytes[NUMBER_AT..NUMBER_AT + 8].copy_from_slice(&self.next.to_le_bytes());
        self.next += 1;
        Some(frame)
    }

    /// Tops the window up.
    fn send(&mut self, most: usize) -> io::Result<()> {
        while self.under_way + self.out.len() < most {
            let Some(frame) = self.frame() else { break };
            self.out.push(frame);
        }
        self.under_way += self.ring.tx_batch(&mut self.out);
        self.ring.kick(Kick::Send)?;
        Ok(())
    }

    /// Takes the frames that have come back.
    fn receive(&mut self) -> usize {
        let n = self.ring.rx_batch(&mut self.arrivals, 64);
        for arrival in self.arrivals.drain(..) {
            self.ring.pool().give(arrival.frame);
        }
        self.under_way = self.under_way.saturating_sub(n);
        self.came += n as u64;
        n
    }

    /// Sends one frame at a time, until some have come back.
    fn wait_for_bouncer(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        while self.came < 100 {
            if begun.elapsed() > BEGIN_WITHIN {
                return Err(io::Error::other("the bouncer did not begin in time"));
            }
            self.under_way = 0;
            self.send(1)?;
            let sent = Instant::now();
            while self.receive() == 0 && sent.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        }
        self.drain();
        Ok(())
    }

    /// Receives until no frame has come for 20 ms.
    fn drain(&mut self) {
        let mut last = Instant::now();
        while last.elapsed() < Duration::from_millis(20) {
            if self.receive() > 0 {
                last = Instant::now();
            }
        }
    }

    fn flood(&mut self) -> Result<Came, io::Error> {
        let (warm, counted) = (Duration::from_millis(100), Duration::from_millis(self.load.ms));
        let numbered = self.next;
        (self.under_way, self.came) = (0, 0);
        let mut last = Instant::now();
        let mut begun: Option<(Instant, u64)> = None;
        let start = last;
        let (frames, seconds) = loop {
            self.send(self.load.window)?;
            let now = Instant::now();
            if self.receive() > 0 {
                last = now;
            } else if now.duration_since(last) > Duration::from_millis(50) {
                // The missing frames will not come back: a new window.
                self.under_way = 0;
                last = now;
            }
            match begun {
                None if now.duration_since(start) >= warm => begun = Some((now, self.came)),
                Some((at, came)) if now.duration_since(at) >= counted => {
                    break (self.came - came, now.duration_since(at).as_secs_f64());
                }
                _ => {}
            }
        };
        self.drain();
        let sent = self.next - numbered - self.out.len() as u64;
        let lost = sent.checked_sub(self.came).ok_or_else(|| {
            let more = self.came - sent;
            io::Error::other(format!(
                "{more} frames more came back than were sent: late ones of the attempt before; measure again"
            ))
        })?;
        Ok(Came { frames, seconds, lost, mode: String::new() })
    }
}
