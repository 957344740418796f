//! io_uring over the connected sockets of one thread (io_uring(7)): requests and completions, and the buffers that both share
//! with the kernel.
//!
//! ```text
//!   receive, send ─▶ submission queue ── submit, wait ──▶ kernel: registered sockets 0..n
//!                                                           │ writes and reads the buffers
//!   completed ◀──── completion queue ◀──────────────────────┘
//!
//!   buffers   one mapping: [receive 0 │ receive 1 │ … │ send 0 │ send 1 │ … ]
//!             each is the program's, or lent to the kernel from its request to its completion
//! ```
//! A buffer's bytes can be reached only while no request has it. Dropping the ring cancels all open requests; if the kernel
//! cannot confirm that, the memory's addresses outlive the ring.

mod memory;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fixed, Napi as NapiArgument, NapiTracking, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use self::memory::{Memory, Provided};

/// Most buffers of a provided ring (io_uring_register_buf_ring(3)).
const MOST_PROVIDED: u32 = 32_768;
/// Most entries of a submission queue (kernel: `IORING_MAX_ENTRIES`).
const MOST_ENTRIES: u32 = 32_768;
/// An operation of Linux 6.7. Its presence shows that sends can be lent (6.0) with a report of copies (6.2); no operation of 6.2
/// shows that.
const LENT_AND_TOLD: u8 = opcode::FutexWait::CODE;
/// An operation of Linux 5.19, as is IORING_RECVSEND_POLL_FIRST (include/uapi/linux/io_uring.h).
const POLLS_FIRST: u8 = opcode::Socket::CODE;
const POLL_FIRST: u16 = 1;
/// IORING_SEND_ZC_REPORT_USAGE and IORING_NOTIF_USAGE_ZC_COPIED (include/uapi/linux/io_uring.h).
const REPORT_USAGE: u16 = 8;
const COPIED: u32 = 1 << 31;
/// The only group of provided buffers.
const GROUP: u16 = 0;
/// Cancellations per call that collects deferred completions (kernel: at most `IO_LOCAL_TW_DEFAULT_MAX`, 20, per call).
const DEFERRED_AT_ONCE: u32 = 16;
/// `IORING_ENTER_GETEVENTS`.
const IORING_ENTER_GETEVENTS: u32 = 1;
/// The polling thread of `sqpoll` sleeps after this time without a request, in ms.
const POLLER_IDLE_MS: u32 = 1_000;

/// Setup of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a receive buffer.
    pub receive_bytes: usize,
    /// Bytes of a send buffer, and their number.
    pub send_bytes: usize,
    pub send_buffers: u32,
    /// One standing request per socket receives all of its messages, each into a buffer that the kernel chooses. The value is the
    /// number of buffers. Linux 6.0.
    pub multishot: Option<u32>,
    /// A thread of the kernel takes the requests, so that submitting makes no system call (IORING_SETUP_SQPOLL); it runs on this
    /// CPU.
    pub sqpoll: Option<u32>,
    /// Completions are made when the program asks for them, not in an interruption of it (IORING_SETUP_DEFER_TASKRUN, Linux 6.1).
    pub defer_taskrun: bool,
    /// Busy polling of the sockets' devices while the thread waits in the kernel. Linux 6.9.
    pub napi: Option<Napi>,
    /// Sends lend their pages to the network instead of being copied (IORING_OP_SEND_ZC). Linux 6.7.
    pub zero_copy: bool,
    /// Each message is one datagram, so a successful send needs no completion.
    pub datagrams: bool,
}

/// Busy polling by the ring (io_uring_register_napi(3)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Napi {
    /// Time of polling before the thread sleeps, in us.
    pub usecs: u32,
    /// Exactly these contexts instead of those that messages arrived from. Linux 6.13.
    pub ids: Option<Vec<u32>>,
}

/// A step that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}{}", why(.source))]
pub struct UringError {
    pub step: &'static str,
    /// The kernel's error.
    pub source: io::Error,
}

/// The file says whether io_uring is switched off (kernel: Documentation/admin-guide/sysctl/kernel.rst).
const DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            "; this kernel has no io_uring, or a filter of system calls (a container's, seccomp(2)) hides it".into()
        }
        Some(libc::EPERM | libc::EACCES) => match std::fs::read_to_string(DISABLED).unwrap_or_default().trim() {
            "2" => "; kernel.io_uring_disabled is 2: sysctl kernel.io_uring_disabled=0 allows it".into(),
            "1" => "; kernel.io_uring_disabled is 1: run as root, or sysctl kernel.io_uring_disabled=0".into(),
            _ => "; a filter of system calls (a container's, seccomp(2)) forbids it".into(),
        },
        Some(libc::ENOMEM) => "; the limit of locked memory may be too low (ulimit -l)".into(),
        _ => String::new(),
    }
}

fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> UringError {
    move |source| UringError { step, source: source.into() }
}

/// Checks that this process may make rings, and that the kernel has the features that every ring here needs (Linux 5.17).
///
/// # Errors
/// The kernel's refusal, with its cause.
pub fn allowed() -> Result<(), UringError> {
    let ring = IoUring::new(1).map_err(step("cannot set up io_uring"))?;
    match ring.params().is_feature_skip_cqe_on_success() && ring.params().is_feature_ext_arg() {
        true => Ok(()),
        false => Err(step("the paths through io_uring take Linux 5.17")(io::ErrorKind::Unsupported)),
    }
}

/// Features that the paths through io_uring can use and this kernel lacks, each with the kernel version that has it.
///
/// # Errors
/// Those of [`allowed`].
pub fn lacking() -> Result<Vec<&'static str>, UringError> {
    allowed()?;
    let ring = IoUring::new(1).map_err(step("cannot set up io_uring"))?;
    let mut probe = Probe::new();
    let probed = ring.submitter().register_probe(&mut probe).is_ok();
    let has = |code: u8| probed && probe.is_supported(code);
    let polls = |tracking| ring.submitter().register_napi(&mut NapiArgument::new().set_tracking(tracking)).is_ok();
    let deferred: io::Result<IoUring> = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(1);
    let all = [
        (deferred.is_ok(), "ring=defer-taskrun (Linux 6.1)"),
        (has(opcode::SendZc::CODE) && has(LENT_AND_TOLD), "send=zero-copy (6.7)"),
        (polls(NapiTracking::Dynamic), "napi=dynamic (6.9)"),
        (ring.params().is_feature_min_timeout(), "wait (6.12)"),
        (polls(NapiTracking::Static), "napi=static (6.13)"),
        (has(opcode::RecvZc::CODE), "zero-copy receive (6.15)"),
    ];
    Ok(all.into_iter().filter(|(there, _)| !there).map(|(_, what)| what).collect())
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The socket's index.
    pub socket: u32,
    /// The buffer, which is the program's again; `None` for an error of a request without one, or of a send whose buffer was back
    /// before, and with multishot for the end of a stream.
    pub buffer: Option<u32>,
    pub what: Done,
    /// Bytes, or the negative error.
    pub result: i32,
}

/// The kind of a completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Sent,
    Received,
    /// The standing request of a socket has ended: its next message takes another [`Uring::receive`].
    Ended,
}

/// A ring with its sockets and buffers. It stays with the thread that opened it: another one could not tell that a cancelled
/// request is over.
///
/// ```compile_fail,E0277
/// fn moved(ring: hairpin_sys::uring::Uring) {
///     std::thread::spawn(move || drop(ring));
/// }
/// ```
pub struct Uring {
    // Dropped before the memory's pages: no queued send is carried out without its bytes.
    ring: IoUring,
    memory: Memory,
    provided: Option<Provided>,
    config: Config,
    sockets: u32,
    /// Receive buffers come first.
    receives: u32,
    /// IORING_RECVSEND_POLL_FIRST where the kernel has it: a message is asked for before it is there, so the first look would
    /// find nothing.
    receive_flags: u16,
    /// True where sends that lend their pages can name registered memory.
    fixed: bool,
    /// Buffers of datagrams queued since the last submission; free once the next submission returns.
    unseen: Vec<u32>,
    /// Number of sends whose completion is still to come.
    visible: u32,
    /// Requests in the queue.
    queued: bool,
    /// A second completion of the entry before: its standing request has ended.
    ended: Option<u32>,
    lent_sends: LentSends,
    /// A buffer of a lent send has come back since the last wait.
    came_back: bool,
}

/// Counts of sends whose pages were lent to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LentSends {
    /// Sends that the network is done with.
    pub done: u64,
    /// Those of `done` that the kernel copied nevertheless.
    pub copied: u64,
}

impl Uring {
    /// A ring over `sockets`, which are blocking ones.
    ///
    /// # Errors
    /// The kernel refuses the ring, or a feature of `config`; the error names the step.
    pub fn open(sockets: &[BorrowedFd<'_>], config: Config) -> Result<Uring, UringError> {
        let count = sockets.len() as u32;
        let receives = config.multishot.map_or(count, |buffers| buffers.next_power_of_two().min(MOST_PROVIDED));
        let entries = (count + config.send_buffers).next_power_of_two().min(MOST_ENTRIES);
        let mut builder = IoUring::builder();
        // Twice the requests that can be open: no completion is ever held back.
        builder.setup_clamp().setup_cqsize(2 * (receives + count + config.send_buffers).next_power_of_two());
        match (config.sqpoll, config.defer_taskrun) {
            // Else it would inherit the CPU of this thread (Linux 6.2), or run on any.
            (Some(cpu), _) => {
                builder.setup_sqpoll(POLLER_IDLE_MS).setup_sqpoll_cpu(cpu);
            }
            (None, true) => {
                builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
            }
            (None, false) => {}
        }
        let what = match (config.sqpoll, config.defer_taskrun) {
            (Some(_), _) => "cannot set up io_uring with submit=sqpoll",
            (_, true) => "cannot set up io_uring with ring=defer-taskrun (Linux 6.1)",
            _ => "cannot set up io_uring",
        };
        let ring = builder.build(entries).map_err(step(what))?;
        let fds: Vec<RawFd> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
        ring.submitter().register_files(&fds).map_err(step("cannot register the sockets with io_uring"))?;
        let memory = Memory::new(receives, config.receive_bytes, config.send_buffers, config.send_bytes)
            .map_err(step("cannot map the buffers of io_uring"))?;
        let mut this = Uring {
            ring,
            memory,
            provided: None,
            sockets: count,
            receives,
            receive_flags: 0,
            fixed: false,
            unseen: Vec::with_capacity(config.send_buffers as usize),
            visible: 0,
            queued: false,
            ended: None,
            lent_sends: LentSends::default(),
            came_back: false,
            config,
        };
        let mut probe = Probe::new();
        let probed = this.ring.submitter().register_probe(&mut probe).is_ok();
        let has = |code: u8| probed && probe.is_supported(code);
        if this.config.zero_copy && !(has(opcode::SendZc::CODE) && has(LENT_AND_TOLD)) {
            return Err(step("send=zero-copy takes Linux 6.7")(io::ErrorKind::Unsupported));
        }
        if has(POLLS_FIRST) {
            this.receive_flags = POLL_FIRST;
        }
        if this.config.multishot.is_some() {
            let provided = Provided::new(receives).map_err(step("cannot map the ring of provided buffers"))?;
            // SAFETY: the mapping holds `receives` entries and lives as long as this, or longer.
            unsafe { this.ring.submitter().register_buf_ring_with_flags(provided.address(), receives as u16, GROUP, 0) }
                .map_err(step("cannot register provided buffers for recv=multishot (Linux 6.0)"))?;
            this.provided = Some(provided);
            (0..receives).for_each(|buffer| this.provide(buffer));
        }
        // SAFETY: the mapping lives as long as this, or longer.
        this.fixed = this.config.zero_copy && unsafe { this.ring.submitter().register_buffers(&[this.memory.all()]) }.is_ok();
        if let Some(napi) = this.config.napi.clone() {
            this.poll_devices(&napi)?;
        }
        Ok(this)
    }

    fn poll_devices(&self, napi: &Napi) -> Result<(), UringError> {
        let submitter = self.ring.submitter();
        let tracking = if napi.ids.is_some() { NapiTracking::Static } else { NapiTracking::Dynamic };
        let mut ask = NapiArgument::new().set_busy_poll_timeout(napi.usecs).set_prefer_busy_poll(true).set_tracking(tracking);
        submitter.register_napi(&mut ask).map_err(step(match tracking {
            NapiTracking::Static => "cannot ask io_uring for napi=static (Linux 6.13)",
            _ => "cannot ask io_uring for napi=dynamic (Linux 6.9)",
        }))?;
        for id in napi.ids.iter().flatten() {
            submitter.register_napi_add_id(*id).map_err(step("cannot add a NAPI context to io_uring"))?;
        }
        Ok(())
    }

    /// Counts of the sends of `zero_copy`.
    pub fn lent_sends(&self) -> LentSends {
        self.lent_sends
    }

    /// True if a buffer of a lent send has come back since the last wait: such a wait may have ended without a message.
    #[inline(always)]
    pub fn has_got_back(&self) -> bool {
        self.came_back
    }

    /// True if sends lend memory that is not registered because the limit of locked memory (ulimit -l) is too low.
    pub fn lends_unregistered(&self) -> bool {
        self.config.zero_copy && !self.fixed
    }

    /// True if a wait can collect completions for a minimum time before it returns (Linux 6.12).
    pub fn has_min_timeout(&self) -> bool {
        self.ring.params().is_feature_min_timeout()
    }

    /// The bytes of a buffer that no request has.
    ///
    /// # Panics
    /// A request has it.
    #[inline(always)]
    pub fn bytes(&self, buffer: u32) -> &[u8] {
        self.memory.bytes(buffer)
    }

    /// The bytes of a send buffer, which the kernel only reads.
    ///
    /// # Panics
    /// It is a receive buffer.
    pub fn sent_bytes(&self, buffer: u32) -> &[u8] {
        self.memory.sent(buffer)
    }

    /// The bytes of a buffer that no request has.
    ///
    /// # Panics
    /// A request has it.
    #[inline(always)]
    pub fn bytes_mut(&mut self, buffer: u32) -> &mut [u8] {
        self.memory.bytes_mut(buffer)
    }

    /// Copies bytes of a buffer to the begin of another one; no request has either.
    ///
    /// # Panics
    /// A request has one of them, they are the same, or one is shorter.
    #[inline(always)]
    pub fn copy(&mut self, from: u32, range: Range<usize>, to: u32) {
        self.memory.copy(from, range, to);
    }

    /// A send buffer that no request has.
    #[inline(always)]
    pub fn free_buffer(&mut self) -> Option<u32> {
        self.memory.free_send()
    }

    /// Asks for the next message of a socket: into its receive buffer from byte `from` to byte `to`, or, with multishot, for all
    /// its messages.
    ///
    /// # Errors
    /// The queue is full, and the kernel takes nothing from it.
    ///
    /// # Panics
    /// There is no such socket, a request has the buffer, or the range is not in it.
    #[inline(always)]
    pub fn receive(&mut self, socket: u32, from: usize, to: usize) -> io::Result<()> {
        assert!(socket < self.sockets, "no such socket");
        if self.provided.is_some() {
            let entry = opcode::RecvMulti::new(Fixed(socket), GROUP).build().user_data(Tag::Receive.of(socket, 0));
            // SAFETY: the kernel writes only into provided buffers, which are lent.
            return unsafe { self.push(&entry) };
        }
        let (at, len) = self.memory.lend(socket, from, to);
        let entry = opcode::Recv::new(Fixed(socket), at, len).ioprio(self.receive_flags).build();
        // SAFETY: the range is lent to this request, and its memory outlives it.
        unsafe { self.push(&entry.user_data(Tag::Receive.of(socket, socket))) }
    }

    /// Gives a received buffer back, after its last use.
    #[inline(always)]
    pub fn give_back(&mut self, buffer: u32) {
        if self.provided.is_some() && buffer < self.receives {
            self.provide(buffer);
        }
    }

    fn provide(&mut self, buffer: u32) {
        let (at, len) = self.memory.lend(buffer, 0, self.config.receive_bytes);
        if let Some(provided) = &mut self.provided {
            provided.add(at, len, buffer as u16);
        }
    }

    /// Asks to send the first `len` bytes of a send buffer, without ever waiting for room: a full socket is an error of the
    /// completion.
    ///
    /// # Errors
    /// The queue is full, and the kernel takes nothing from it.
    ///
    /// # Panics
    /// A request has the buffer, or it is shorter.
    #[inline(always)]
    pub fn send(&mut self, socket: u32, buffer: u32, len: usize) -> io::Result<()> {
        assert!(buffer >= self.receives, "not a send buffer");
        let (at, bytes) = self.memory.lend(buffer, 0, len);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let mut entry = match self.config.zero_copy {
            true => {
                let send = opcode::SendZc::new(Fixed(socket), at, bytes).flags(flags).zc_flags(REPORT_USAGE);
                send.buf_index(self.fixed.then_some(0)).build()
            }
            // Sockets take RWF_NOWAIT, which a send of registered memory would need, only since Linux 6.4.
            false => opcode::Send::new(Fixed(socket), at, bytes).flags(flags).build(),
        };
        // A send that does not wait is over when the submitting call returns; only an error still completes.
        match self.sends_unseen() {
            true => {
                entry = entry.flags(squeue::Flags::SKIP_SUCCESS);
                self.unseen.push(buffer);
            }
            false => self.visible += 1,
        }
        // SAFETY: the range is lent to this request, and its memory outlives it.
        unsafe { self.push(&entry.user_data(Tag::Send.of(socket, buffer))) }
    }

    /// # Safety
    /// The entry's buffer is lent to it, and stays mapped until it is completed.
    #[inline(always)]
    unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        self.queued = true;
        // SAFETY: as this function's.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit()?;
            if self.config.sqpoll.is_some() {
                self.ring.submitter().squeue_wait()?;
            }
        }
        Ok(())
    }

    /// True if requests wait for [`Uring::submit`] or [`Uring::wait`].
    #[inline(always)]
    pub fn has_queued(&self) -> bool {
        self.queued
    }

    /// Hands the queued requests to the kernel.
    ///
    /// # Errors
    /// Those of io_uring_enter(2).
    #[inline(always)]
    pub fn submit(&mut self) -> io::Result<()> {
        let done = self.ring.submitter().submit();
        self.submitted(done)
    }

    /// Lets deferred completions be made, if the kernel has some for this thread.
    ///
    /// # Errors
    /// Those of io_uring_enter(2).
    #[inline(always)]
    pub fn run_deferred(&mut self) -> io::Result<()> {
        if self.config.defer_taskrun && self.ring.submission().taskrun() { self.submit() } else { Ok(()) }
    }

    /// Hands the queued requests to the kernel and sleeps until a message has arrived or `limit` has passed; with `least`, in us,
    /// it collects messages for that time before a single one is enough.
    ///
    /// # Errors
    /// Those of io_uring_enter(2); neither the end of `limit` nor a signal is an error.
    #[inline(always)]
    pub fn wait(&mut self, limit: Duration, least: Option<u32>) -> io::Result<()> {
        self.came_back = false;
        let limit = Timespec::from(limit);
        let mut arguments = SubmitArgs::new().timespec(&limit);
        if let Some(usecs) = least {
            arguments = arguments.min_wait_usec(usecs);
        }
        // Sends that complete visibly do so within this call, and are no message.
        let want = 1 + self.visible as usize;
        let done = self.ring.submitter().submit_with_args(want, &arguments);
        match self.submitted(done) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Ok(()),
            done => done,
        }
    }

    #[inline(always)]
    fn submitted(&mut self, done: io::Result<usize>) -> io::Result<()> {
        let left = self.ring.submission().len();
        if left == 0 {
            // Without the polling thread, the kernel has carried out every send by now.
            self.unseen.drain(..).for_each(|buffer| self.memory.back(buffer));
            self.queued = false;
        }
        match done {
            // The completion queue is full: the caller takes completions before it makes more requests.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
            done => done.map(drop),
        }
    }

    #[inline(always)]
    fn sends_unseen(&self) -> bool {
        self.config.datagrams && self.config.sqpoll.is_none() && !self.config.zero_copy
    }

    /// The next completed request.
    #[inline(always)]
    pub fn completed(&mut self) -> Option<Completion> {
        if let Some(socket) = self.ended.take() {
            return Some(Completion { socket, buffer: None, what: Done::Ended, result: 0 });
        }
        let (tag, socket, buffer, flags, result) = loop {
            let entry = self.ring.completion().next()?;
            let (tag, socket, buffer) = Tag::split(entry.user_data());
            if !cqueue::notif(entry.flags()) {
                break (tag, socket, buffer, entry.flags(), entry.result());
            }
            self.network_is_done(buffer, entry.result());
        };
        let (what, buffer) = match (tag, self.provided.is_some()) {
            // An error of a send whose buffer was back when the submission returned; by now another request may have it.
            (Tag::Send, _) if self.sends_unseen() => (Done::Sent, None),
            (Tag::Send, _) => (Done::Sent, Some(buffer)),
            (Tag::Receive, false) => (Done::Received, Some(buffer)),
            (Tag::Receive, true) => {
                let chosen = cqueue::buffer_select(flags).map(u32::from).filter(|buffer| *buffer < self.receives);
                if !cqueue::more(flags) {
                    match chosen {
                        Some(_) => self.ended = Some(socket),
                        None => {
                            // A datagram without bytes ends a standing request too.
                            let is_end = result == 0 && !self.config.datagrams;
                            let what = if is_end { Done::Received } else { Done::Ended };
                            return Some(Completion { socket, buffer: None, what, result });
                        }
                    }
                }
                (Done::Received, chosen)
            }
        };
        match buffer {
            // The network still has the pages; a second completion follows.
            Some(_) if what == Done::Sent && cqueue::more(flags) => self.visible -= 1,
            Some(buffer) => {
                self.visible -= u32::from(what == Done::Sent);
                self.memory.back(buffer);
            }
            None => {}
        }
        Some(Completion { socket, buffer, what, result })
    }

    /// The second completion of a lent send.
    #[inline(never)]
    fn network_is_done(&mut self, buffer: u32, usage: i32) {
        self.lent_sends.done += 1;
        self.lent_sends.copied += u64::from(usage.cast_unsigned() & COPIED != 0);
        self.came_back = true;
        self.memory.back(buffer);
    }
}

impl Uring {
    /// Cancels each socket's receive by its user data. A cancellation of all at once searches all requests for each one: 5 s with
    /// 20,000.
    fn cancel_receives(&self) {
        for socket in 0..self.sockets {
            let data = Tag::Receive.of(socket, if self.provided.is_some() { 0 } else { socket });
            // A socket without a receive gives an error here. The cancellation of all, which follows, shows any other error.
            let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::user_data(data));
            if self.config.defer_taskrun && socket % DEFERRED_AT_ONCE == 0 {
                // SAFETY: nothing is submitted and no argument passed.
                let _ = unsafe { self.ring.submitter().enter::<()>(0, 0, IORING_ENTER_GETEVENTS, None) };
            }
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.cancel_receives();
        // Requests that were never submitted hold no memory. Once all others are cancelled the kernel no longer touches the
        // memory (Linux 6.0).
        let ended =
            self.ring.submitter().register_sync_cancel(Some(Timespec::from(Duration::from_secs(1))), CancelBuilder::any());
        let none_left = match ended {
            Ok(()) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENOENT),
        };
        // The polling thread may still take a queued request, or be about to carry out a cancelled one. Closing the ring ends
        // both, but later, and the kernel tells nobody when (`io_ring_ctx_wait_and_kill`, `io_ring_exit_work`).
        if self.config.sqpoll.is_some() || !none_left {
            self.memory.leak();
            self.provided.iter_mut().for_each(Provided::leak);
        }
    }
}

/// The kind of a request, in its 64 bits of user data: `kind, socket, buffer`, of 4, 30 and 30 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Receive,
    Send,
}

const FIELD: u64 = (1 << 30) - 1;

impl Tag {
    #[inline(always)]
    fn of(self, socket: u32, buffer: u32) -> u64 {
        let kind = u64::from(self == Tag::Send);
        kind << 60 | u64::from(socket) << 30 | u64::from(buffer)
    }

    #[inline(always)]
    fn split(data: u64) -> (Tag, u32, u32) {
        let tag = if data >> 60 == 0 { Tag::Receive } else { Tag::Send };
        (tag, (data >> 30 & FIELD) as u32, (data & FIELD) as u32)
    }
}
