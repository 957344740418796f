//! The clock of a NIC (PTP hardware clock, PHC), read beside the program's clock.
//!
//! ```text
//!   PTP_SYS_OFFSET_PRECISE     the device latches both clocks at one moment      NIC = CLOCK_MONOTONIC_RAW
//!   PTP_SYS_OFFSET_EXTENDED    the driver reads around the NIC's register        system ─ NIC ─ system, several times
//!   PTP_SYS_OFFSET             the kernel reads around the driver's call         system ─ NIC ─ system ─ NIC ─ … ─ system
//!                                                                                └─ bracket ─┘
//!   program's clock ─ kernel's clock ─ program's clock    [reading above]    program's clock ─ kernel's clock ─ program's clock
//! ```
//! The first that the device has is used. Of several brackets the narrowest counts: the NIC's clock was read somewhere inside, so
//! a [`Point`] is right to within half its width.
//!
//! Reading changes nothing, and takes permission to read `/dev/ptpN`. Sources: `include/uapi/linux/ptp_clock.h`,
//! `drivers/ptp/ptp_chardev.c`, `Documentation/driver-api/ptp.rst`.

mod character_device;
mod fake;

use std::fmt;
use std::io;

use rustix::time::ClockId;

use crate::clock::{Bracket, Clock, Ticks, bracket};

use self::character_device::CharacterDevice;
pub use self::fake::FakeNicClock;

/// The time of another clock at one tick of the program's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The tick of the program's clock.
    pub ticks: Ticks,
    /// The other clock's time at that tick, in ns of its own epoch.
    pub nic_ns: u64,
    /// Width of the bracket around the reading, in ns: `nic_ns` is wrong by half of it at most.
    pub width_ns: u64,
}

impl Point {
    /// CLOCK_REALTIME, the clock of the kernel's own packet stamps, as if it were a NIC's clock.
    pub fn of_realtime<C: Clock>(clock: &C) -> Point {
        let Bracket { middle, ns, width } = bracket(clock, ClockId::Realtime);
        Point { ticks: Ticks(middle), nic_ns: ns, width_ns: in_ns(width.max(clock.step()), clock.rate()) }
    }
}

/// A request of the kernel for both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `PTP_SYS_OFFSET_PRECISE`.
    Precise,
    /// `PTP_SYS_OFFSET_EXTENDED`.
    Extended,
    /// `PTP_SYS_OFFSET`.
    Plain,
}

impl Method {
    /// All, the best first.
    pub const ALL: [Method; 3] = [Method::Precise, Method::Extended, Method::Plain];
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Precise => "PTP_SYS_OFFSET_PRECISE",
            Method::Extended => "PTP_SYS_OFFSET_EXTENDED",
            Method::Plain => "PTP_SYS_OFFSET",
        })
    }
}

/// Both clocks at one moment, as the device latched them, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latched {
    pub nic_ns: i64,
    /// CLOCK_MONOTONIC_RAW.
    pub raw_ns: i64,
}

/// The NIC's clock between two readings of CLOCK_REALTIME, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    pub before_ns: i64,
    pub nic_ns: i64,
    pub after_ns: i64,
}

/// A NIC's clock as the kernel offers it. A request that the device lacks fails with EOPNOTSUPP.
pub trait NicClock: fmt::Debug + Send {
    /// One reading by [`Method::Precise`].
    ///
    /// # Errors
    /// The errors of ioctl(2).
    fn precise(&self) -> io::Result<Latched>;
    /// Several readings by [`Method::Extended`].
    ///
    /// # Errors
    /// The errors of ioctl(2).
    fn extended(&self) -> io::Result<Vec<Between>>;
    /// Several readings by [`Method::Plain`].
    ///
    /// # Errors
    /// The errors of ioctl(2).
    fn plain(&self) -> io::Result<Vec<Between>>;
}

/// Why a NIC's clock cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PhcError {
    /// The device file does not exist.
    #[error(
        "the NIC's clock {path} does not exist: the driver has none, or this container's /dev lacks it (pass --device {path})"
    )]
    Absent { path: String },
    /// The device file may not be read.
    #[error("cannot open the NIC's clock {path}: {source}; run as root, or let this user read it (udev rule or chmod)")]
    Denied { path: String, source: io::Error },
    /// The device file cannot be opened for another reason.
    #[error("cannot open the NIC's clock {path}: {source}")]
    Open { path: String, source: io::Error },
    /// The kernel offers no way to read it beside the system's clock.
    #[error("the NIC's clock {path} cannot be read beside the system's: {}", refused(.why))]
    NoMethod {
        path: String,
        /// Every way, with the reason.
        why: Vec<(Method, io::Error)>,
    },
    /// A reading failed.
    #[error("cannot read the NIC's clock {path} by {method}: {source}")]
    Read { path: String, method: Method, source: io::Error },
    /// The system's time of day was set during each of several tries.
    #[error("cannot read the NIC's clock {path}: CLOCK_REALTIME, beside which it is read, is being set again and again")]
    Moving { path: String },
    /// The clock shows a time before 1970.
    #[error("the NIC's clock {path} shows a time before 1970 ({ns} ns): set it, or restart ptp4l or phc2sys")]
    Before1970 { path: String, ns: i64 },
}

fn refused(why: &[(Method, io::Error)]) -> String {
    why.iter().map(|(method, error)| format!("{method}: {error}")).collect::<Vec<_>>().join("; ")
}

/// Tries of a reading while the time of day is being set, or the device is busy.
const TRIES: u32 = 4;
/// The time of day was set if it and the program's clock differ by more than this over a reading, in ns, …
const MOVED_NS: f64 = 1_000.0;
/// … and by more than this part of it: the kernel slews by 500 ppm at most (adjtimex(2)).
const SLEWED: f64 = 1e-3;

/// The clock of a NIC, open for reading.
#[derive(Debug)]
pub struct Phc {
    index: u32,
    clock: Box<dyn NicClock>,
    method: Method,
    passed_over: Vec<(Method, io::Error)>,
}

impl Phc {
    /// Opens `/dev/ptp<index>`, and finds the best way to read it.
    ///
    /// # Errors
    /// [`PhcError`]: the device file does not exist, may not be read, or cannot be read beside the system's clock.
    pub fn open(index: u32) -> Result<Phc, PhcError> {
        let path = path_of(index);
        let opened = CharacterDevice::open(&path).map_err(|source| match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => PhcError::Absent { path: path.clone() },
            Some(libc::EACCES | libc::EPERM) => PhcError::Denied { path: path.clone(), source },
            _ => PhcError::Open { path: path.clone(), source },
        });
        Phc::over(index, Box::new(opened?))
    }

    /// The same over any clock, such as a [`FakeNicClock`].
    ///
    /// # Errors
    /// [`PhcError::NoMethod`]: it cannot be read beside the system's clock.
    pub fn over(index: u32, clock: Box<dyn NicClock>) -> Result<Phc, PhcError> {
        let mut passed_over = Vec::new();
        for method in Method::ALL {
            let ask = || samples(&*clock, method);
            // Drivers claim cross stamps that the host lacks, so only a reading shows whether they work.
            let read = (1..TRIES).fold(ask(), |read, _| if read.as_ref().is_err_and(passes) { ask() } else { read });
            match read {
                Ok(_) => return Ok(Phc { index, clock, method, passed_over }),
                Err(error) => passed_over.push((method, error)),
            }
        }
        Err(PhcError::NoMethod { path: path_of(index), why: passed_over })
    }

    /// The number of its device file.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The method by which it is read.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Better methods that the device lacks, each with the kernel's error.
    pub fn passed_over(&self) -> &[(Method, io::Error)] {
        &self.passed_over
    }

    /// Reads it and the program's clock: some 20 us, most of it for the NIC's bus.
    ///
    /// # Errors
    /// [`PhcError`]: the device refuses, for example because it was removed, or the system's time of day is set meanwhile.
    pub fn point<C: Clock>(&self, clock: &C) -> Result<Point, PhcError> {
        let beside = if self.method == Method::Precise { ClockId::MonotonicRaw } else { ClockId::Realtime };
        let failed = |source| PhcError::Read { path: path_of(self.index), method: self.method, source };
        let mut busy = None;
        for _ in 0..TRIES {
            let before = bracket(clock, beside);
            let read = match samples(&*self.clock, self.method) {
                Ok(read) => read,
                Err(source) if passes(&source) => {
                    busy = Some(source);
                    continue;
                }
                Err(source) => return Err(failed(source)),
            };
            let after = bracket(clock, beside);
            let (by_program, moved) = moved(&before, &after, clock.rate());
            if moved > MOVED_NS + SLEWED * by_program {
                continue;
            }
            let Some(narrowest) = narrowest(&read) else { continue };
            let nic_ns = u64::try_from(narrowest.nic_ns)
                .map_err(|_| PhcError::Before1970 { path: path_of(self.index), ns: narrowest.nic_ns })?;
            let middle_ns = narrowest.before_ns + (narrowest.after_ns - narrowest.before_ns) / 2;
            let ago = (after.ns as i64 - middle_ns) as f64 * clock.rate();
            let own = in_ns(after.width.max(clock.step()), clock.rate());
            let width_ns = (narrowest.after_ns - narrowest.before_ns) as u64 + own + 2 * moved.ceil() as u64;
            return Ok(Point { ticks: Ticks(after.middle.saturating_add_signed(-(ago.round() as i64))), nic_ns, width_ns });
        }
        Err(busy.map_or_else(|| PhcError::Moving { path: path_of(self.index) }, failed))
    }
}

/// True for an error of a device that is asked by another program too, or whose answer came too late.
fn passes(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIMEDOUT | libc::EBUSY | libc::EAGAIN))
}

/// The time between two readings by the program's clock, and by how much that by the kernel's clock differs, in ns.
fn moved(before: &Bracket, after: &Bracket, rate: f64) -> (f64, f64) {
    // As floats, times of day would be wrong by up to 128 ns each.
    let since = |earlier: u64, later: u64| later.wrapping_sub(earlier).cast_signed() as f64;
    let by_program = since(before.middle, after.middle) / rate;
    (by_program, (since(before.ns, after.ns) - by_program).abs())
}

fn path_of(index: u32) -> String {
    format!("/dev/ptp{index}")
}

fn in_ns(ticks: u64, rate: f64) -> u64 {
    (ticks as f64 / rate).ceil() as u64
}

/// Readings by one method, each between two of the system's clock; the bracket has no width where the device latches both.
fn samples(clock: &dyn NicClock, method: Method) -> io::Result<Vec<Between>> {
    match method {
        Method::Precise => {
            let Latched { nic_ns, raw_ns } = clock.precise()?;
            Ok(vec![Between { before_ns: raw_ns, nic_ns, after_ns: raw_ns }])
        }
        Method::Extended => clock.extended(),
        Method::Plain => clock.plain(),
    }
}

/// The narrowest bracket. Brackets that end before they begin are left out: the time of day was set back in them.
fn narrowest(all: &[Between]) -> Option<Between> {
    let sound = all.iter().filter(|one| one.after_ns >= one.before_ns);
    sound.min_by_key(|one| one.after_ns - one.before_ns).copied()
}

#[cfg(test)]
mod tests;
