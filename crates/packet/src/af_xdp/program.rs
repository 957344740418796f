//! The XDP program that takes matching frames to the rings: `bpf/xsk.bpf.c`, compiled beforehand.

use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use flate2::read::ZlibDecoder;
use hairpin_sys::bpf::{BpfError, Object, Section, Xdp, XdpLink, XdpMode};

use crate::filter::Filter;
use crate::granted::Mode;

/// `bpf/xsk.bpf.c`, compiled by `scripts/bpf.sh` and packed by `build.rs`.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xsk"));
/// `bpf/xsk_metadata.bpf.c`: the same program, which also puts the device's metadata in front of each frame.
static PACKED_WITH_METADATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xsk_metadata"));
/// The program's name.
const PROGRAM: &str = "hairpin_xsk";
/// The XSKMAP: queue → socket.
const SOCKETS: &str = "sockets";
/// The variable `metadata_paused` of the program with metadata.
const METADATA: &str = ".bss.metadata";

/// The program in the kernel, with its filter and its table of sockets.
pub(super) struct Program(Object);

impl Program {
    /// With `xdp.device` it puts that device's metadata in front of each frame.
    pub(super) fn load(filter: Filter, queues: u32, xdp: Xdp) -> Result<Program, BpfError> {
        let packed = if xdp.device.is_some() { PACKED_WITH_METADATA } else { PACKED };
        let mut object = Vec::new();
        ZlibDecoder::new(packed).read_to_end(&mut object).expect("build.rs packed it");
        Object::load(&object, &constants(filter, xdp.pages), (SOCKETS, queues), xdp).map(Program)
    }

    pub(super) fn attach(&self, interface: u32, mode: Mode) -> Result<XdpLink, BpfError> {
        let mode = match mode {
            Mode::Native => XdpMode::Native,
            Mode::Generic => XdpMode::Generic,
        };
        self.0.attach_xdp(PROGRAM, interface, mode)
    }

    pub(super) fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.0.set_socket(SOCKETS, queue, socket)
    }

    /// The switch of the metadata; for a program that was loaded for a device.
    pub(super) fn pause(&self) -> Result<Pause, BpfError> {
        self.0.section(METADATA).map(Pause)
    }

    /// Switches receiving on or off.
    pub(super) fn run(&self, running: bool) -> Result<(), BpfError> {
        self.0.set_variables(&state(running))
    }

    /// The queue of the last frame since [`Program::run`] that was wanted and found no socket at its queue.
    pub(super) fn astray(&self) -> Result<Option<u32>, BpfError> {
        let state = self.0.get_variables()?;
        Ok(state.last_chunk::<4>().and_then(|one_more| u32::from_ne_bytes(*one_more).checked_sub(1)))
    }

    /// True if the program would take this frame with a socket attached.
    #[cfg(test)]
    fn takes(&self, frame: &[u8]) -> Result<bool, BpfError> {
        self.0.try_xdp(PROGRAM, frame).map(|verdict| verdict != 2)
    }
}

/// Keeps the program from writing metadata for a while.
pub(super) struct Pause(Section);

impl Pause {
    pub(super) fn set(&self, paused: bool) -> io::Result<()> {
        self.0.set(&u32::from(paused).to_ne_bytes())
    }
}

/// `struct state` of the program: whether it runs, and no frame astray.
fn state(running: bool) -> [u8; 8] {
    let [a, b, c, d] = u32::from(running).to_ne_bytes();
    [a, b, c, d, 0, 0, 0, 0]
}

/// `struct wanted` of the program: kind, whether frames have several pages, and two numbers in host order.
fn constants(filter: Filter, pages: bool) -> [u8; 8] {
    let (kind, first, last): (u16, u16, u16) = match filter {
        Filter::All => (0, 0, 0),
        Filter::Ethertype(number) => (1, number, 0),
        Filter::Udp { first, last } => (2, first, last),
    };
    let mut bytes = [0; 8];
    for (place, number) in bytes.chunks_exact_mut(2).zip([kind, u16::from(pages), first, last]) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io::Write;
    use std::os::fd::AsFd;

    use hairpin_sys::netlink::Netlink;
    use hairpin_sys::netns;
    use hairpin_sys::xsk::{Memory, Options, Socket};

    use super::*;

    const FILTERS: [&str; 4] = ["all", "ethertype:0x0800", "udp:7-9", "udp:8"];

    /// Almost correct frames: UDP over IPv4 or IPv6, each with some bytes changed and cut somewhere; some
    /// followed by `behind` bytes.
    fn frames(behind: usize) -> Vec<Vec<u8>> {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let mut frames = Vec::new();
        for turn in 0..4000 {
            let mut frame = vec![2; 12];
            if turn % 5 == 0 {
                frame.extend([[0x81, 0], [0x88, 0xa8]][turn / 5 % 2]);
                frame.extend([0, 5]);
            }
            if turn % 2 == 0 {
                frame.extend([8, 0, 0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            } else {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 17, 64]);
                frame.extend([1; 32]);
            }
            frame.extend([0, 1, 0, 8, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
            if turn % 3 != 0 {
                for _ in 0..1 + next() % 2 {
                    // Lengths, versions and ports depend on the low bytes.
                    let at = 12 + next() as usize % (frame.len() - 12);
                    frame[at] = if next() % 2 == 0 { next() as u8 } else { frame[at].wrapping_add(1) };
                }
            }
            if turn % 4 == 0 {
                frame.truncate(14 + next() as usize % (frame.len() - 13));
            }
            if turn % 7 == 0 {
                frame.resize(frame.len() + behind, 0);
            }
            frames.push(frame);
        }
        frames
    }

    #[test]
    fn the_program_agrees_with_the_filter_on_any_bytes() {
        let done = netns::apart(|| -> Result<(), Box<dyn Error + Send + Sync>> {
            Netlink::open()?.set_up("lo")?;
            // Nothing is attached: the kernel runs the program over one frame after the other, as if they came on queue 0 of
            // loopback.
            let options =
                Options { entries: 4, zero_copy: false, few_chunks: false, send_on: None, metadata: 0, departures: false };
            let socket = Socket::open(Memory::new(8, 2048)?, 1, 0, options)?;
            for (text, pages) in FILTERS.iter().flat_map(|text| [(text, false), (text, true)]) {
                let filter: Filter = text.parse()?;
                let program = Program::load(filter, 1, Xdp { pages, device: None })?;
                let mut frames = frames(if pages { 8000 } else { 300 });
                if pages {
                    // Its lengths say that it is all there: the program sees the first page only.
                    let mut whole = vec![2; 12];
                    whole.extend([8, 0, 0x45, 0, 0x1f, 0x48, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
                    whole.extend([0, 1, 0, 8, 0x1f, 0x34, 0, 0]);
                    whole.resize(14 + 0x1f48, 9);
                    frames.extend([whole[..14 + 0x1f47].to_vec(), whole]);
                }
                let taken = |frame: &Vec<u8>| program.takes(frame).expect("a run of the program");
                program.set_socket(0, socket.as_fd())?;
                assert!(!frames.iter().any(taken), "{text} {pages}: nothing before it is switched on");
                program.run(true)?;
                let mut count = 0;
                for frame in &frames {
                    assert_eq!(taken(frame), filter.takes(frame), "{text} {pages}: {frame:02x?}");
                    count += usize::from(taken(frame));
                }
                assert!(count > 100, "{text} {pages}: {count} of {} frames are taken", frames.len());
            }
            Ok(())
        });
        match done {
            Ok(done) => done.unwrap(),
            Err(error) if std::env::var("HAIRPIN_MUST_RUN").as_deref() == Ok("1") => panic!("{error}"),
            // Written past the test harness, which hides the output of passed tests.
            Err(error) => {
                let _ = writeln!(io::stderr(), "the XDP program and its filter: SKIPPED: {error}");
            }
        }
    }
}
