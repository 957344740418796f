//! Waiting for a reply, written once over file descriptors: `block`, `poll`, `epoll`, `spin`, `busy-poll` and `adaptive`.
//!
//! ```text
//!   policy      one turn of waiting                                       descriptors
//!   block       receive; the kernel sleeps in it                          one
//!   busy-poll   receive; the kernel polls the device in it, then sleeps   one
//!   poll        poll(2), then receive on each that is ready               any number
//!   epoll       epoll_wait(2), then receive on each that is ready         any number
//!   spin        receive on each in turn, never sleep                      any number
//!   adaptive    spin for a set time, then poll(2)                         any number
//! ```
//! [`Waiting::on`] chooses a policy before the loop; inside, [`Waiting::wait`] calls the path's own receive until it succeeds.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::clock::{AnyClock, Clock, Ticks};
use crate::socket;

mod spin;

pub use spin::Spin;

/// A thread's wait for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Sleep in the receive call.
    Block,
    /// Sleep in poll(2).
    Poll,
    /// Sleep in epoll_wait(2).
    Epoll,
    /// Receive repeatedly, without sleeping.
    Spin,
    /// Let the kernel poll the device in the receive call.
    BusyPoll,
    /// Spin for a while, then sleep in poll(2).
    Adaptive,
}

impl Policy {
    pub const ALL: [Policy; 6] = [Policy::Block, Policy::Poll, Policy::Epoll, Policy::Spin, Policy::BusyPoll, Policy::Adaptive];

    /// Name in a path spec.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Block => "block",
            Policy::Poll => "poll",
            Policy::Epoll => "epoll",
            Policy::Spin => "spin",
            Policy::BusyPoll => "busy-poll",
            Policy::Adaptive => "adaptive",
        }
    }

    /// True if one thread can wait on several descriptors at once.
    pub const fn takes_many(self) -> bool {
        !matches!(self, Policy::Block | Policy::BusyPoll)
    }

    /// True if the thread gives up its core while it waits.
    pub const fn sleeps(self) -> bool {
        !matches!(self, Policy::Spin)
    }

    /// True if `usecs` applies to the policy.
    pub const fn takes_usecs(self) -> bool {
        matches!(self, Policy::BusyPoll | Policy::Adaptive)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Busy polling in epoll_wait(2): the kernel polls the devices that the descriptors' last packets came from before it sleeps
/// (kernel: `struct epoll_params` of include/uapi/linux/eventpoll.h, Linux 6.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpollPolling {
    /// Time of polling before the thread sleeps, in us.
    pub usecs: u32,
    /// Packets of one poll; more than 64 take CAP_NET_ADMIN.
    pub budget: u16,
    /// The device's interrupts stay off as long as the thread comes back to poll.
    pub prefer: bool,
}

/// `_IOW(0x8A, 1, struct epoll_params)`.
const EPIOCSPARAMS: libc::Ioctl = 0x4008_8a01;

/// `struct epoll_params`.
#[repr(C)]
struct EpollParams {
    busy_poll_usecs: u32,
    busy_poll_budget: u16,
    prefer_busy_poll: u8,
    pad: u8,
}

impl EpollPolling {
    fn set_on(self, epoll: &OwnedFd) -> io::Result<()> {
        let params = EpollParams {
            busy_poll_usecs: self.usecs,
            busy_poll_budget: self.budget,
            prefer_busy_poll: self.prefer.into(),
            pad: 0,
        };
        // SAFETY: the kernel reads eight bytes of a local.
        match unsafe { libc::ioctl(epoll.as_raw_fd(), EPIOCSPARAMS, &raw const params) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A word that is not a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a wait policy")]
pub struct NotAPolicy;

impl FromStr for Policy {
    type Err = NotAPolicy;

    fn from_str(text: &str) -> Result<Policy, NotAPolicy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == text).ok_or(NotAPolicy)
    }
}

/// Time limit of a blocking receive, after which the loop checks its deadlines. A time limit sets and removes a timer around
/// every sleep; one of 10 ms made a blocking round trip over loopback 8 % longer on a virtual machine than one of 1 s, one of 100
/// ms 1 %.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Longest sleep of [`for_room`], in ns: after it the caller looks at its deadlines and its stop flag.
pub const ROOM_NS: u64 = 1_000_000;

/// Sleeps until `fd` takes more or is in error, or a signal comes, at most [`ROOM_NS`].
///
/// # Errors
/// That of poll(2).
#[cold]
pub fn for_room(fd: BorrowedFd<'_>) -> io::Result<()> {
    let most = timespec(ROOM_NS);
    or_nothing(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], Some(&most))).map(drop)
}

/// Turns a system call's "would block" into `None`.
#[inline]
pub fn or_nothing<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A wait policy over its descriptors. The policy is a value: the match is one predicted branch per receive, next to a system
/// call or a look at a ring.
pub struct Waiting<'fd>(How<'fd>);

/// `block` and `spin` are inlined into the loop; the others are kept out of line.
enum How<'fd> {
    /// `block` and `busy-poll`: the receive call itself waits, at most [`PATIENCE`] on a socket.
    Block,
    Spin(Spin),
    Apart(Apart<'fd>),
}

enum Apart<'fd> {
    Poll(Poll<'fd>),
    /// Level-triggered.
    Epoll(Epoll),
    /// `adaptive`: spins for `ticks`, then sleeps in poll(2).
    Adaptive {
        spin: Spin,
        ticks: u64,
        poll: Poll<'fd>,
    },
    /// `block` on a ring whose interrupt must be requested by a look.
    Interrupt(Poll<'fd>),
}

impl<'fd> Waiting<'fd> {
    /// Prepares the descriptors for a policy; `usecs` is the spinning time of `adaptive`.
    ///
    /// # Errors
    /// Several descriptors for a policy that waits on one; a descriptor that cannot be set to the required mode.
    pub fn on(policy: Policy, usecs: u32, clock: AnyClock, fds: &[BorrowedFd<'fd>]) -> Result<Waiting<'fd>, WaitError> {
        if !policy.takes_many() && fds.len() > 1 {
            return Err(WaitError::OneOnly { policy, count: fds.len() });
        }
        let prepare = |source: io::Error| WaitError::Prepare { policy, source };
        for fd in fds {
            set_nonblocking(*fd, policy.takes_many()).map_err(prepare)?;
            // A pipe or eventfd has no timeout; there only a signal ends the wait.
            match socket::set_receive_timeout(fd, PATIENCE) {
                Err(error) if error.raw_os_error() != Some(Errno::NOTSOCK.raw_os_error()) => return Err(prepare(error)),
                _ => {}
            }
        }
        let spin = Spin::new(clock, fds.len());
        Ok(Waiting(match policy {
            Policy::Block | Policy::BusyPoll => How::Block,
            Policy::Spin => How::Spin(spin),
            Policy::Poll => How::Apart(Apart::Poll(Poll::new(clock, fds))),
            Policy::Epoll => How::Apart(Apart::Epoll(Epoll::new(clock, fds).map_err(prepare)?)),
            Policy::Adaptive => How::adaptive(spin, usecs, Poll::new(clock, fds)),
        }))
    }

    /// `epoll` with busy polling.
    ///
    /// # Errors
    /// The kernel has no such parameters (Linux 6.9), or refuses their values.
    pub fn on_polling_epoll(polling: EpollPolling, clock: AnyClock, fds: &[BorrowedFd<'fd>]) -> Result<Waiting<'fd>, WaitError> {
        let prepare = |source: io::Error| WaitError::Prepare { policy: Policy::Epoll, source };
        for fd in fds {
            set_nonblocking(*fd, true).map_err(prepare)?;
        }
        let epoll = Epoll::new(clock, fds).map_err(prepare)?;
        polling.set_on(&epoll.epoll).map_err(|source| WaitError::Polling { source })?;
        Ok(Waiting(How::Apart(Apart::Epoll(epoll))))
    }

    /// The policy for a thread that receives from a ring with one wake-up descriptor, without system calls while the ring has
    /// entries. `spin` stays `spin`; `adaptive` and `busy-poll` become `adaptive`, as the attempt itself does the kernel's
    /// polling; every other policy becomes poll(2).
    pub fn on_ring(policy: Policy, usecs: u32, clock: AnyClock, ring: BorrowedFd<'fd>) -> Waiting<'fd> {
        let (spin, poll) = (Spin::new(clock, 1), Poll::new(clock, &[ring]));
        Waiting(match policy {
            Policy::Spin => How::Spin(spin),
            Policy::Adaptive | Policy::BusyPoll => How::adaptive(spin, usecs, poll),
            Policy::Block | Policy::Poll | Policy::Epoll => How::Apart(Apart::Poll(poll)),
        })
    }

    /// `spin` on one ring.
    pub fn spin(clock: AnyClock) -> Waiting<'fd> {
        Waiting(How::Spin(Spin::new(clock, 1)))
    }

    /// `block` on one ring whose receiver requests an interrupt when the ring is empty: looks, then sleeps until the descriptor
    /// is readable.
    pub fn for_interrupt(clock: AnyClock, ring: BorrowedFd<'fd>) -> Waiting<'fd> {
        Waiting(How::Apart(Apart::Interrupt(Poll::new(clock, &[ring]))))
    }

    /// True if the thread gives up its core in [`wait`](Waiting::wait).
    pub fn sleeps(&self) -> bool {
        !matches!(self.0, How::Spin(_))
    }

    /// Calls `attempt(i)` for the descriptors that may be ready until it succeeds. `Ok(None)` from an attempt means that nothing
    /// has arrived; `Ok(None)` from here means that `until` has passed or a signal came, so that the caller can check its
    /// deadlines and its stop flag.
    ///
    /// # Errors
    /// The errors of `attempt`, and of poll(2) and epoll_wait(2).
    #[inline(always)]
    pub fn wait<T>(&mut self, until: Ticks, mut attempt: impl FnMut(usize) -> io::Result<Option<T>>) -> io::Result<Option<T>> {
        match &mut self.0 {
            How::Block => attempt(0),
            How::Spin(spin) => spin.wait(until, &mut attempt),
            How::Apart(apart) => apart.wait(until, &mut attempt),
        }
    }

    /// The spinning policy, for a loop that makes the attempts itself, so that both compile into one loop; `None` for every other
    /// policy.
    #[inline(always)]
    pub fn spinning(&mut self) -> Option<&mut Spin> {
        match &mut self.0 {
            How::Spin(spin) => Some(spin.begin()),
            How::Block | How::Apart(_) => None,
        }
    }
}

impl<'fd> How<'fd> {
    fn adaptive(spin: Spin, usecs: u32, poll: Poll<'fd>) -> How<'fd> {
        let ticks = poll.clock.to_ticks(u64::from(usecs) * 1000);
        How::Apart(Apart::Adaptive { spin, ticks, poll })
    }
}

/// An attempt on a descriptor, behind a table: policies that sleep are compiled once for all paths.
type Attempt<'a, T> = &'a mut dyn FnMut(usize) -> io::Result<Option<T>>;

impl Apart<'_> {
    #[inline(never)]
    fn wait<T>(&mut self, until: Ticks, attempt: Attempt<'_, T>) -> io::Result<Option<T>> {
        match self {
            Apart::Poll(poll) => poll.wait(until, attempt),
            Apart::Epoll(epoll) => epoll.wait(until, attempt),
            Apart::Adaptive { spin, ticks, poll } => {
                let spin_until = poll.clock.now().plus(*ticks).min(until);
                match spin.wait(spin_until, attempt)? {
                    None => poll.wait(until, attempt),
                    found => Ok(found),
                }
            }
            Apart::Interrupt(poll) => loop {
                if let Some(found) = attempt(0)? {
                    return Ok(Some(found));
                }
                // The descriptor of a closed peer stays readable.
                if poll.clock.now() >= until || !poll.sleep(until)? {
                    return Ok(None);
                }
            },
        }
    }
}

struct Poll<'fd> {
    clock: AnyClock,
    fds: Vec<PollFd<'fd>>,
    next: usize,
}

impl<'fd> Poll<'fd> {
    fn new(clock: AnyClock, fds: &[BorrowedFd<'fd>]) -> Poll<'fd> {
        let fds: Vec<_> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let next = fds.len();
        Poll { clock, fds, next }
    }

    fn sleep(&mut self, until: Ticks) -> io::Result<bool> {
        let left = timespec(self.clock.to_ns(until.since(self.clock.now())));
        Ok(or_nothing(poll(&mut self.fds, Some(&left)))?.is_some_and(|ready| ready > 0))
    }

    fn scan<T>(&mut self, attempt: Attempt<'_, T>) -> io::Result<Option<T>> {
        while self.next < self.fds.len() {
            let at = self.next;
            self.next += 1;
            // An error or hang-up counts as ready: the receive then reports it.
            if !self.fds[at].revents().is_empty()
                && let Some(found) = attempt(at)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    #[inline]
    fn wait<T>(&mut self, until: Ticks, attempt: Attempt<'_, T>) -> io::Result<Option<T>> {
        let mut slept = false;
        loop {
            if let Some(found) = self.scan(attempt)? {
                return Ok(Some(found));
            }
            // Only now, so that a message that came while this core stood still past `until` is taken. A descriptor stays ready
            // if no attempt consumes its error, such as that of a packet socket whose interface is gone.
            if slept && self.clock.now() >= until {
                return Ok(None);
            }
            if !self.sleep(until)? {
                return Ok(None);
            }
            (self.next, slept) = (0, true);
        }
    }
}

struct Epoll {
    clock: AnyClock,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    ready: usize,
    next: usize,
}

impl Epoll {
    fn new(clock: AnyClock, fds: &[BorrowedFd<'_>]) -> io::Result<Epoll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (at, fd) in fds.iter().enumerate() {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN)?;
        }
        let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        Ok(Epoll { clock, epoll, events: vec![none; fds.len().clamp(1, 64)], ready: 0, next: 0 })
    }

    #[inline]
    fn wait<T>(&mut self, until: Ticks, attempt: Attempt<'_, T>) -> io::Result<Option<T>> {
        let mut slept = false;
        loop {
            while self.next < self.ready {
                let at = self.events[self.next].data.u64() as usize;
                self.next += 1;
                if let Some(found) = attempt(at)? {
                    return Ok(Some(found));
                }
            }
            // As in `Poll`.
            if slept && self.clock.now() >= until {
                return Ok(None);
            }
            let left = timespec(self.clock.to_ns(until.since(self.clock.now())));
            let ready = or_nothing(epoll::wait(&self.epoll, &mut self.events[..], Some(&left)))?;
            (self.ready, self.next, slept) = (ready.unwrap_or(0), 0, true);
            if self.ready == 0 {
                return Ok(None);
            }
        }
    }
}

/// Reason why a policy cannot wait on these descriptors.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// Several descriptors for a policy that sleeps in the receive call.
    #[error(
        "{policy} waits on one descriptor per thread, and there are {count}: use :poll, :epoll, :spin or :adaptive, or as many --threads as --flows"
    )]
    OneOnly {
        policy: Policy,
        /// Number of descriptors.
        count: usize,
    },
    /// The kernel does not let epoll poll devices as asked.
    #[error("cannot set busy polling of epoll: {source}{}", polling_needs(.source))]
    Polling {
        /// The kernel's error.
        source: io::Error,
    },
    /// A descriptor could not be set to the required mode.
    #[error("cannot prepare a descriptor for {policy}: {source}")]
    Prepare {
        policy: Policy,
        /// The kernel's error.
        source: io::Error,
    },
}

fn polling_needs(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOTTY | libc::EINVAL) => "; it takes Linux 6.9",
        Some(libc::EPERM) => "; a budget above 64 packets takes CAP_NET_ADMIN: run as root",
        _ => "",
    }
}

fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let flags = fcntl_getfl(fd)?;
    let wanted = if on { flags | OFlags::NONBLOCK } else { flags - OFlags::NONBLOCK };
    if wanted != flags {
        fcntl_setfl(fd, wanted)?;
    }
    Ok(())
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::clock::MonotonicRaw;

    const CLOCK: AnyClock = AnyClock::Raw(MonotonicRaw);

    fn receive_all(mut wait: Waiting<'_>, sockets: &[UnixDatagram], count: usize) -> Vec<(usize, u8)> {
        let mut found = Vec::new();
        while found.len() < count {
            let until = CLOCK.now().plus(2_000_000_000);
            let mut byte = [0];
            let one = wait.wait(until, |i| {
                let got = rustix::net::recv(&sockets[i], &mut byte[..], rustix::net::RecvFlags::empty());
                Ok(or_nothing(got)?.map(|_| i))
            });
            match one.unwrap() {
                Some(i) => found.push((i, byte[0])),
                None => break,
            }
        }
        found
    }

    /// Ticks until a wait of 3 ms gives up.
    fn gives_up_after(mut wait: Waiting<'_>) -> u64 {
        let start = CLOCK.now();
        let nothing = wait.wait(start.plus(3_000_000), |_| Ok(None::<()>)).unwrap();
        assert!(nothing.is_none());
        CLOCK.now().since(start)
    }

    #[test]
    fn an_epoll_with_busy_polling_receives() {
        let (one, other) = UnixDatagram::pair().unwrap();
        let sockets = [one];
        let polling = EpollPolling { usecs: 40, budget: 16, prefer: true };
        match Waiting::on_polling_epoll(polling, CLOCK, &[sockets[0].as_fd()]) {
            Ok(wait) => {
                other.send(&[9]).unwrap();
                assert_eq!(receive_all(wait, &sockets, 1), [(0, 9)]);
            }
            Err(error) => assert!(error.to_string().contains("6.9"), "{error}"),
        }
    }

    #[test]
    fn every_policy_receives_waiting_frames_and_times_out() {
        for policy in Policy::ALL {
            let count = if policy.takes_many() { 3 } else { 1 };
            let (ours, theirs): (Vec<_>, Vec<_>) = (0..count).map(|_| UnixDatagram::pair().unwrap()).unzip();
            for (i, socket) in theirs.iter().enumerate() {
                socket.send(&[i as u8]).unwrap();
                socket.send(&[10 + i as u8]).unwrap();
            }
            let fds: Vec<_> = ours.iter().map(|s| s.as_fd()).collect();
            let mut found = receive_all(Waiting::on(policy, 50, CLOCK, &fds).unwrap(), &ours, 2 * count);
            found.sort_unstable();
            let expected: Vec<_> = (0..count).flat_map(|i| [(i, i as u8), (i, 10 + i as u8)]).collect();
            assert_eq!(found, expected, "{policy}");
        }
    }

    #[test]
    fn epoll_tries_no_descriptor_but_the_ready_one() {
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..50).map(|_| UnixDatagram::pair().unwrap()).unzip();
        let fds: Vec<_> = ours.iter().map(|s| s.as_fd()).collect();
        let mut wait = Waiting::on(Policy::Epoll, 0, CLOCK, &fds).unwrap();
        theirs[37].send(&[1]).unwrap();
        let mut tried = Vec::new();
        let found = wait.wait(CLOCK.now().plus(2_000_000_000), |at| {
            tried.push(at);
            Ok((at == 37).then_some(at))
        });
        assert_eq!((found.unwrap(), tried), (Some(37), vec![37]));
    }

    #[test]
    fn a_wait_ends_when_its_time_has_passed() {
        for policy in Policy::ALL.into_iter().filter(|p| p.takes_many()) {
            let (ours, _theirs) = UnixDatagram::pair().unwrap();
            let waited = gives_up_after(Waiting::on(policy, 100, CLOCK, &[ours.as_fd()]).unwrap());
            assert!(waited >= 3_000_000, "{policy} gave up after {waited} ns");
        }
    }

    #[test]
    fn waits_whose_time_has_passed_lead_to_an_attempt() {
        for policy in Policy::ALL.into_iter().filter(|p| p.takes_many()) {
            let (ours, theirs) = UnixDatagram::pair().unwrap();
            let mut wait = Waiting::on(policy, 0, CLOCK, &[ours.as_fd()]).unwrap();
            theirs.send(&[1]).unwrap();
            assert_eq!(wait.wait(Ticks(0), |at| Ok(Some(at))).unwrap(), Some(0), "{policy}");
        }
    }

    #[test]
    fn a_ring_is_waited_on_by_every_policy_and_by_its_interrupt() {
        let waits = Policy::ALL.map(Some).into_iter().chain([None]);
        for policy in waits {
            let (ours, theirs) = UnixDatagram::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs.send(&[1]).unwrap();
            theirs.send(&[2]).unwrap();
            let sockets = [ours];
            let ring = sockets[0].as_fd();
            let wait = || match policy {
                Some(policy) => Waiting::on_ring(policy, 50, CLOCK, ring),
                None => Waiting::for_interrupt(CLOCK, ring),
            };
            assert_eq!(receive_all(wait(), &sockets, 2), [(0, 1), (0, 2)], "{policy:?}");
            assert!(gives_up_after(wait()) >= 3_000_000, "{policy:?}");
        }
    }

    #[test]
    fn room_is_waited_for_within_a_bound() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        while ours.send(&[0; 1024]).is_ok() {}
        let start = CLOCK.now();
        for_room(ours.as_fd()).unwrap();
        assert!(CLOCK.now().since(start) >= ROOM_NS / 2);
        theirs.set_nonblocking(true).unwrap();
        while theirs.recv(&mut [0; 1024]).is_ok() {}
        for_room(ours.as_fd()).unwrap();
        assert!(ours.send(&[0; 1024]).is_ok());
    }

    #[test]
    fn the_interrupt_of_a_side_that_has_ended_does_not_hold_the_caller() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        drop(theirs);
        assert!(gives_up_after(Waiting::for_interrupt(CLOCK, ours.as_fd())) >= 3_000_000);
    }

    #[test]
    fn a_descriptor_that_stays_ready_does_not_hold_the_caller() {
        for policy in [Policy::Block, Policy::Adaptive] {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            drop(theirs);
            assert!(gives_up_after(Waiting::on_ring(policy, 50, CLOCK, ours.as_fd())) >= 3_000_000, "{policy:?}");
            assert!(gives_up_after(Waiting::on(Policy::Epoll, 0, CLOCK, &[ours.as_fd()]).unwrap()) >= 3_000_000);
        }
    }

    #[test]
    fn block_refuses_several_descriptors() {
        let (a, b) = UnixDatagram::pair().unwrap();
        let refused = Waiting::on(Policy::Block, 0, CLOCK, &[a.as_fd(), b.as_fd()]).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains(":poll, :epoll"), "{refused}");
    }

    #[test]
    fn policies_read_back_their_names() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        assert!("sleep".parse::<Policy>().is_err());
    }
}
