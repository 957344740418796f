//! The emulated NIC between two processes, the second of which is another user's if this one is root's.
//!
//! ```text
//!   this program ── creates its ports ── descriptors over the child's standard input ─▶ itself as nobody: opens them, sends back
//! ```

use std::error::Error;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hairpin_packet::clock::{MonotonicRaw, Tsc};
use hairpin_packet::niq::{Config, Delay, Port, Timing};
use hairpin_packet::ring::{Injected, Received, Ring, RingConfig, Wait};
use hairpin_sys::fdpass;
use hairpin_units::Picos;

use crate::alone::{self, Part, Test};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type NiqRing = Ring<Port, MonotonicRaw>;
type Waiting = (&'static str, fn(&Config, Wait) -> Outcome);

/// Far longer than anything takes.
const LONG_MS: i32 = 5_000;
/// nobody, as most systems number it.
const NOBODY: u32 = 65_534;

const TESTS: &[Waiting] = &[
    ("frames come back from another process", come_back),
    ("a process that is killed ends a sleep", killed),
    ("another process makes no port of what it should not", refused),
];

pub const PART: Part = Part::new("niq", tests).playing(|arguments| match arguments {
    ["child", wait] => Some(child(wait).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)),
    _ => None,
});

fn tests() -> Vec<Test> {
    let of = |(name, test): &'static Waiting| {
        [Wait::Spin, Wait::Block].map(|wait| {
            Test::new(format!("{name} ({wait:?})"), move |_| {
                test(&Config { ring_entries: 64, chunks: 128, ..Config::default() }, wait)
            })
        })
    };
    TESTS.iter().flat_map(of).collect()
}

/// A child that opens the shared memory it is sent, and sends frames back until the other side is gone.
fn child(wait: &str) -> Outcome {
    let wait = if wait == "spin" { Wait::Spin } else { Wait::Block };
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (timed, descriptors) = fdpass::recv_fds(&socket, fdpass::MAX_FDS)?;
    let timing = if timed == 1 { Some(timing()?) } else { None };
    let config = Config { chunks: 128, timing, ..Config::default() };
    let port = Port::open(descriptors, &config)?.pop().ok_or("no port")?;
    let ring = Ring::new(port, MonotonicRaw, RingConfig { wait, ..RingConfig::default() });
    fdpass::send_fds(&socket, &[], 0)?;
    while let Ok(Received::Got(frame)) = ring.recv(LONG_MS) {
        let _full = frame.send_back()?;
    }
    Ok(())
}

fn timing() -> Outcome<Timing> {
    let us = |us: i64| Picos(1_000_000 * us);
    Ok(Timing::new(Tsc::calibrate()?, 9_000, |_| Delay { out: us(2), link: us(1), rest: us(3) })?)
}

struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A child with these descriptors, another user's if this process may do that and that user may run this program.
fn spawn(descriptors: Vec<OwnedFd>, timed: bool, wait: Wait) -> Outcome<(Other, UnixStream)> {
    let (here, there) = UnixStream::pair()?;
    let mut command = alone::play();
    command
        .args(["child", if wait == Wait::Spin { "spin" } else { "block" }])
        .stdin(Stdio::from(OwnedFd::from(there)))
        .stdout(Stdio::null());
    let child = match command.uid(NOBODY).spawn() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            println!("niq: as another user: SKIPPED: {error}");
            command.uid(rustix::process::geteuid().as_raw()).spawn()?
        }
        spawned => spawned?,
    };
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    fdpass::send_fds(&here, &borrowed, timed.into())?;
    here.set_read_timeout(Some(Duration::from_millis(LONG_MS as u64)))?;
    Ok((Other(child), here))
}

fn joined(config: &Config, wait: Wait) -> Outcome<(Other, NiqRing)> {
    let (mut ports, descriptors) = Port::create(config)?;
    let (other, socket) = spawn(descriptors, config.timing.is_some(), wait)?;
    fdpass::recv_fds(&socket, 0)?;
    let port = ports.pop().ok_or("no port")?;
    Ok((other, Ring::new(port, MonotonicRaw, RingConfig { wait, ..RingConfig::default() })))
}

fn come_back(config: &Config, wait: Wait) -> Outcome {
    let timed = Config { timing: Some(timing()?), ..config.clone() };
    for config in [config, &timed] {
        let (mut other, ring) = joined(config, wait)?;
        for len in (60..200).chain(8_990..=9_000) {
            let sent: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            if ring.sender().inject(&sent)? != Injected::Sent {
                return Err("the ring is full".into());
            }
            match ring.recv(LONG_MS)? {
                Received::Got(frame) if frame[..] == sent => {}
                other => return Err(format!("{len} bytes: {other:?}").into()),
            }
        }
        if wait == Wait::Spin && ring.with_io(|io| io.wake_ups()) > 0 {
            return Err("a spinning process was woken".into());
        }
        drop(ring);
        // It ends, because this side is gone.
        if !other.0.wait()?.success() {
            return Err("the other process failed".into());
        }
    }
    Ok(())
}

fn killed(config: &Config, _: Wait) -> Outcome {
    let (mut other, ring) = joined(config, Wait::Block)?;
    other.0.kill()?;
    let start = Instant::now();
    match ring.recv(LONG_MS) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NETDOWN.raw_os_error()) => {}
        outcome => return Err(format!("{outcome:?} after {:?}", start.elapsed()).into()),
    }
    // Frames without a receiver stay in the ring, and nothing hangs.
    let mut sent = 0;
    while sent < 1_000 && ring.sender().inject(&[1; 60])? == Injected::Sent {
        sent += 1;
    }
    let counted = ring.counters().io.tx_frames;
    if counted == u64::from(config.ring_entries) { Ok(()) } else { Err(format!("{counted} frames in the ring").into()) }
}

fn refused(config: &Config, wait: Wait) -> Outcome {
    let (_ports, mut descriptors) = Port::create(config)?;
    descriptors.truncate(1);
    let (mut other, socket) = spawn(descriptors, false, wait)?;
    // It ends without an answer.
    match fdpass::recv_fds(&socket, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        answer => return Err(format!("{answer:?}").into()),
    }
    if other.0.wait()?.success() { Err("it opened a port".into()) } else { Ok(()) }
}
