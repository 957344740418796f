//! `/dev/ptpN`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::{Between, Latched, NicClock};

/// Brackets per request: an interrupt rarely disturbs the narrowest of them, and each takes some 2 us of the device's bus.
const BRACKETS: usize = 9;

/// A structure that a request of `linux/ptp_clock.h` fills.
///
/// # Safety
/// The type consists of integers only, so that any bytes are a value of it, and is the structure of every request that it is used
/// with.
unsafe trait Request {}

// SAFETY: integers; used with PTP_SYS_OFFSET_PRECISE, whose structure it is.
unsafe impl Request for libc::ptp_sys_offset_precise {}
// SAFETY: integers; used with PTP_SYS_OFFSET_EXTENDED, whose structure it is.
unsafe impl Request for libc::ptp_sys_offset_extended {}
// SAFETY: integers; used with PTP_SYS_OFFSET, whose structure it is.
unsafe impl Request for libc::ptp_sys_offset {}

// The sizes that the requests' numbers in the kernel contain.
const _: () = assert!(size_of::<libc::ptp_sys_offset_precise>() == 64);
const _: () = assert!(size_of::<libc::ptp_sys_offset_extended>() == 1216);
const _: () = assert!(size_of::<libc::ptp_sys_offset>() == 832);
const _: () = assert!(BRACKETS <= libc::PTP_MAX_SAMPLES as usize);

/// The character device of a NIC's clock.
#[derive(Debug)]
pub(super) struct CharacterDevice(File);

impl CharacterDevice {
    pub(super) fn open(path: &str) -> io::Result<CharacterDevice> {
        File::open(path).map(CharacterDevice)
    }

    fn ask<T: Request>(&self, number: libc::Ioctl, mut request: T) -> io::Result<T> {
        // SAFETY: the number is that of a request with a T, as `Request` promises, and the T is borrowed mutably for the call.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), number, &raw mut request) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(request),
        }
    }
}

/// A request of zeroes.
fn empty<T: Request>() -> T {
    // SAFETY: integers only, as `Request` promises, so zeroes are a value.
    unsafe { std::mem::zeroed() }
}

fn ns(time: &libc::ptp_clock_time) -> i64 {
    time.sec.saturating_mul(1_000_000_000).saturating_add(i64::from(time.nsec))
}

fn between([before, nic, after]: [&libc::ptp_clock_time; 3]) -> Between {
    Between { before_ns: ns(before), nic_ns: ns(nic), after_ns: ns(after) }
}

impl NicClock for CharacterDevice {
    fn precise(&self) -> io::Result<Latched> {
        let both = self.ask(libc::PTP_SYS_OFFSET_PRECISE, empty::<libc::ptp_sys_offset_precise>())?;
        Ok(Latched { nic_ns: ns(&both.device), raw_ns: ns(&both.sys_monoraw) })
    }

    fn extended(&self) -> io::Result<Vec<Between>> {
        let ask = libc::ptp_sys_offset_extended { n_samples: BRACKETS as u32, ..empty() };
        let read = self.ask(libc::PTP_SYS_OFFSET_EXTENDED, ask)?;
        Ok(read.ts[..BRACKETS].iter().map(|[before, nic, after]| between([before, nic, after])).collect())
    }

    fn plain(&self) -> io::Result<Vec<Between>> {
        let ask = libc::ptp_sys_offset { n_samples: BRACKETS as u32, ..empty() };
        let read = self.ask(libc::PTP_SYS_OFFSET, ask)?;
        Ok((0..BRACKETS).map(|at| between([&read.ts[2 * at], &read.ts[2 * at + 1], &read.ts[2 * at + 2]])).collect())
    }
}
