//! The moments of one way, from program to program, and the stages between them.
//!
//! ```text
//!   Send ─ Queued ─ Started ─ Passed ─ Received ───────────────── Ready ┬──────────────────────────── Copied ─ Returned
//!      │                 │         └─ Redirected (AF_XDP, native) ──┘    └─ Waking ─ Woken ─ Switched ─┤
//!      └ Kicked (rings) ─┘                                                  where the receiver slept   └ Seen (rings) ─ Returned
//!   Send ─ Submitted (io_uring) ─ Queued …                                                       … Copied ─ Completed (io_uring) ─ Returned
//! ```
//! A stage is named by its two ends. If a host lacks a hook, the two stages on either side of it become one, with both
//! names.

/// A moment of one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// The program's stamp before its send call.
    Send,
    /// The ring library's stamp before it notifies the consumer of the TX ring.
    Kicked,
    /// `io_uring_submit_req`: the kernel has taken the request to send out of the ring.
    Submitted,
    /// `net_dev_queue`: the packet enters its device's queue.
    Queued,
    /// `net_dev_start_xmit`: the driver is called.
    Started,
    /// `netif_rx`: the receiving device has put the packet into a CPU's backlog.
    Passed,
    /// `netif_receive_skb`: the receiver's stack has the packet.
    Received,
    /// `xdp_redirect` of a driver: an XDP program has chosen its target, and the packet is in the ring's memory.
    Redirected,
    /// `sk_data_ready`: the message is in the socket's queue or ring.
    Ready,
    /// `sched_waking`: the sleeping receiver is to be woken.
    Waking,
    /// `sched_wakeup`: the receiver is in a run queue.
    Woken,
    /// `sched_switch`: the receiver has a CPU.
    Switched,
    /// `sock_recv_length`: the receive call has the message.
    Copied,
    /// `io_uring_complete`: the completion of the receiving request is in its ring.
    Completed,
    /// The ring library's stamp after it has found the frame's descriptor in the RX ring.
    Seen,
    /// The program's stamp after its receive call.
    Returned,
}

/// A hook: a tracepoint of the kernel, and the BPF program of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    pub name: &'static str,
    /// The function whose entry or end replaces the tracepoint on kernels without it; the BPF program there has its name.
    pub instead: Option<&'static str>,
    /// The moment that it stamps.
    pub moment: Moment,
    /// The kernel's source file and function.
    pub place: &'static str,
    /// The detail that it adds, for the sentence on hosts that lack it.
    pub adds: &'static str,
    /// The paths that pass it.
    pub passes: Passes,
    /// True if `--light` includes it.
    pub light: bool,
}

/// The paths that pass a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// All paths that send packets.
    All,
    /// Paths over kernel sockets.
    Sockets,
    /// All paths between processes of one host.
    Local,
    /// `xdp`.
    Xdp,
    /// `uring-udp` and `uring-tcp`.
    Uring,
    /// All paths with a sleeping receiver.
    Sleepers,
}

/// Every hook, in the order in which a way passes them.
pub const HOOKS: &[Hook] = &[
    Hook {
        name: "io_uring_submit_req",
        instead: None,
        moment: Moment::Submitted,
        place: "io_uring/io_uring.c, io_submit_sqe",
        adds: "parts the submission from the send itself",
        passes: Passes::Uring,
        light: false,
    },
    Hook {
        name: "net_dev_queue",
        instead: None,
        moment: Moment::Queued,
        place: "net/core/dev.c, __dev_queue_xmit",
        adds: "parts the send call from the queueing discipline",
        passes: Passes::Sockets,
        light: false,
    },
    Hook {
        name: "net_dev_start_xmit",
        instead: None,
        moment: Moment::Started,
        place: "net/core/dev.c, xmit_one",
        adds: "says when the driver is called",
        passes: Passes::Sockets,
        light: true,
    },
    Hook {
        name: "netif_rx",
        instead: None,
        moment: Moment::Passed,
        place: "net/core/dev.c, netif_rx_internal",
        adds: "parts the driver from the soft interrupt",
        passes: Passes::Local,
        light: false,
    },
    Hook {
        name: "netif_receive_skb",
        instead: None,
        moment: Moment::Received,
        place: "net/core/dev.c, __netif_receive_skb_core",
        adds: "says when the receiver's stack has the packet",
        passes: Passes::All,
        light: true,
    },
    Hook {
        name: "xdp_redirect",
        instead: None,
        moment: Moment::Redirected,
        place: "net/core/filter.c, xdp_do_redirect",
        adds: "says when an XDP program in a driver is done",
        passes: Passes::Xdp,
        light: false,
    },
    Hook {
        name: "sk_data_ready",
        instead: Some("sock_def_readable"),
        moment: Moment::Ready,
        place: "net/core/sock.c, sock_def_readable",
        adds: "says when the message is in the socket's queue",
        passes: Passes::All,
        light: true,
    },
    Hook {
        name: "sched_waking",
        instead: None,
        moment: Moment::Waking,
        place: "kernel/sched/core.c, try_to_wake_up",
        adds: "says when a sleeping receiver is called",
        passes: Passes::Sleepers,
        light: false,
    },
    Hook {
        name: "sched_wakeup",
        instead: None,
        moment: Moment::Woken,
        place: "kernel/sched/core.c, ttwu_do_wakeup",
        adds: "parts the call to the sleeping core from the wait for its CPU",
        passes: Passes::Sleepers,
        light: false,
    },
    Hook {
        name: "sched_switch",
        instead: None,
        moment: Moment::Switched,
        place: "kernel/sched/core.c, __schedule",
        adds: "says when the receiver has a CPU",
        passes: Passes::Sleepers,
        light: true,
    },
    Hook {
        name: "sock_recv_length",
        instead: Some("sock_recvmsg"),
        moment: Moment::Copied,
        place: "net/socket.c, sock_recvmsg_nosec",
        adds: "parts finding and copying the message from the way out of the receive call",
        passes: Passes::Sockets,
        light: false,
    },
    Hook {
        name: "io_uring_complete",
        instead: None,
        moment: Moment::Completed,
        place: "io_uring/io_uring.h, io_fill_cqe_req",
        adds: "says when the completion is in its ring",
        passes: Passes::Uring,
        light: false,
    },
];

/// The route of a path's messages, which decides the moments of its ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Over kernel sockets.
    Sockets,
    /// Over kernel sockets, handed over in io_uring.
    Uring,
    /// Over AF_PACKET rings.
    Packet,
    /// Over AF_XDP rings.
    Xdp,
    /// Over kernel sockets to another host.
    Remote,
    /// Over shared memory: the kernel sees nothing.
    Memory,
}

impl Route {
    /// True if its ways pass this hook.
    pub fn passes(self, hook: &Hook) -> bool {
        match hook.passes {
            Passes::All | Passes::Sleepers => self != Route::Memory,
            Passes::Sockets => matches!(self, Route::Sockets | Route::Uring | Route::Remote),
            Passes::Local => matches!(self, Route::Sockets | Route::Uring | Route::Packet | Route::Xdp),
            Passes::Xdp => self == Route::Xdp,
            Passes::Uring => self == Route::Uring,
        }
    }
}

use Moment::{
    Completed, Copied, Kicked, Passed, Queued, Ready, Received, Redirected, Returned, Seen, Send, Started, Submitted, Switched,
    Waking, Woken,
};

/// The stages between neighbouring moments.
const STAGES: &[(Moment, Moment, &str)] = &[
    (Send, Queued, "send call"),
    (Send, Submitted, "submission"),
    (Submitted, Queued, "send call"),
    (Queued, Started, "qdisc"),
    (Started, Passed, "driver"),
    (Passed, Received, "softirq"),
    (Received, Ready, "stack"),
    (Redirected, Ready, "ring flush"),
    (Ready, Waking, "notify"),
    (Waking, Woken, "wake-up"),
    (Woken, Switched, "run queue"),
    (Switched, Copied, "receive"),
    (Ready, Copied, "receive"),
    (Copied, Returned, "return"),
    (Copied, Completed, "completion"),
    (Completed, Returned, "return"),
];

/// The same where a path has no queueing discipline, no receive call, or no packets at all.
const SHORTER: &[(Route, Moment, Moment, &str)] = &[
    (Route::Packet, Send, Kicked, "fill"),
    (Route::Xdp, Send, Kicked, "fill"),
    (Route::Memory, Send, Kicked, "fill"),
    (Route::Packet, Kicked, Passed, "kick + driver"),
    (Route::Xdp, Kicked, Passed, "kick + driver"),
    (Route::Xdp, Kicked, Redirected, "kick + driver + softirq + xdp program"),
    (Route::Xdp, Received, Ready, "xdp program"),
    // A spinning receiver may have the message before the hook fires.
    (Route::Sockets, Received, Copied, "stack + receive"),
    (Route::Remote, Received, Copied, "stack + receive"),
    (Route::Uring, Send, Queued, "submission + send call"),
    (Route::Uring, Received, Copied, "stack + task work"),
    (Route::Uring, Ready, Copied, "task work"),
    (Route::Uring, Switched, Copied, "task work"),
    (Route::Uring, Copied, Returned, "completion + return"),
    (Route::Remote, Started, Received, OUTSIDE),
    (Route::Packet, Received, Seen, "stack + ring"),
    (Route::Xdp, Received, Seen, "xdp program + ring"),
    (Route::Xdp, Redirected, Seen, "ring flush + ring"),
    (Route::Packet, Ready, Seen, "ring"),
    (Route::Packet, Switched, Seen, "ring"),
    (Route::Xdp, Ready, Seen, "ring"),
    (Route::Xdp, Switched, Seen, "ring"),
    (Route::Memory, Kicked, Seen, "ring"),
    (Route::Packet, Seen, Returned, "receive"),
    (Route::Xdp, Seen, Returned, "receive"),
    (Route::Memory, Seen, Returned, "receive"),
    // A device with its own NAPI uses no backlog.
    (Route::Sockets, Started, Received, "driver + softirq"),
    (Route::Uring, Started, Received, "driver + softirq"),
    (Route::Memory, Send, Returned, "ring"),
];

/// The time outside two hosts, both ways together: the part of the RTT that the stamps of both hosts, each on its own
/// clock, do not cover.
pub const OUTSIDE: &str = "outside";
/// The server's stamps: receive returned → send entered.
pub const TURN_AROUND: &str = "turn-around";

/// The name of the stage between two moments of a way that are neighbours among the stamped ones. `slept`: the receiver
/// slept; `missing`: moments without a hook, because this host lacks it or it was not requested. `None` if a moment
/// between them should have been stamped but was not passed, so that nothing explains the interval.
pub fn stage(route: Route, from: Moment, to: Moment, slept: bool, missing: &[Moment]) -> Option<String> {
    let direct = |a: Moment, b: Moment| {
        let shorter = SHORTER.iter().find(|(on, from, to, _)| (*on, *from, *to) == (route, a, b)).map(|(.., name)| *name);
        shorter.or_else(|| STAGES.iter().find(|(from, to, _)| (*from, *to) == (a, b)).map(|(.., name)| *name))
    };
    if let Some(name) = direct(from, to) {
        return Some(name.to_owned());
    }
    let mut names: Vec<&str> = Vec::new();
    let mut at = from;
    for next in way(route, slept).into_iter().filter(|moment| (from..=to).contains(moment)).skip_while(|moment| *moment <= from) {
        // Between two hosts a moment that was not stamped counts as missing: the other host's hooks are unknown.
        if next < to && !missing.contains(&next) && route != Route::Remote {
            return None;
        }
        names.push(direct(at, next)?);
        at = next;
    }
    names.dedup();
    (at == to).then(|| names.join(" + "))
}

/// The moments of a way, in order.
pub fn way(route: Route, slept: bool) -> Vec<Moment> {
    let sleep: &[Moment] = if slept { &[Waking, Woken, Switched] } else { &[] };
    match route {
        Route::Sockets => [&[Send, Queued, Started, Passed, Received, Ready][..], sleep, &[Copied, Returned]].concat(),
        Route::Uring => {
            [&[Send, Submitted, Queued, Started, Passed, Received, Ready][..], sleep, &[Copied, Completed, Returned]].concat()
        }
        Route::Packet | Route::Xdp => [&[Send, Kicked, Passed, Received, Ready][..], sleep, &[Seen, Returned]].concat(),
        Route::Remote => [&[Send, Queued, Started, Received, Ready][..], sleep, &[Copied, Returned]].concat(),
        Route::Memory => vec![Send, Kicked, Seen, Returned],
    }
}

impl Moment {
    /// All of them, in order.
    pub const ALL: [Moment; 16] = [
        Send, Kicked, Submitted, Queued, Started, Passed, Received, Redirected, Ready, Waking, Woken, Switched, Copied,
        Completed, Seen, Returned,
    ];

    /// True if a hook stamps it, false if the program does.
    pub fn is_hook(self) -> bool {
        !matches!(self, Moment::Send | Moment::Kicked | Moment::Seen | Moment::Returned)
    }

    /// The hook's name, or the program's own stamp.
    pub fn name(self) -> &'static str {
        match self {
            Moment::Send => "send call",
            Moment::Kicked => "kick",
            Moment::Seen => "descriptor seen",
            Moment::Returned => "receive returned",
            other => HOOKS.iter().find(|hook| hook.moment == other).map_or("", |hook| hook.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(route: Route, from: Moment, to: Moment, slept: bool, missing: &[Moment]) -> Option<String> {
        stage(route, from, to, slept, missing)
    }

    #[test]
    fn a_way_has_seven_stages_or_ten_if_the_receiver_slept() {
        for (route, slept, count) in [
            (Route::Sockets, false, 7),
            (Route::Sockets, true, 10),
            (Route::Uring, false, 9),
            (Route::Uring, true, 12),
            (Route::Packet, false, 6),
            (Route::Xdp, false, 6),
            (Route::Xdp, true, 9),
            (Route::Memory, false, 3),
        ] {
            let moments = way(route, slept);
            let names: Vec<_> = moments.windows(2).map(|pair| name(route, pair[0], pair[1], slept, &[]).unwrap()).collect();
            assert_eq!(names.len(), count, "{names:?}");
            let joint = names.iter().filter(|name| name.contains('+')).count();
            assert_eq!(joint, usize::from(matches!(route, Route::Packet | Route::Xdp)), "{names:?}");
            let mut once = names.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), count, "each name once: {names:?}");
        }
    }

    #[test]
    fn a_missing_hook_joins_two_stages_but_a_skipped_one_is_residual() {
        let joint = name(Route::Sockets, Send, Started, false, &[Queued]);
        assert_eq!(joint.as_deref(), Some("send call + qdisc"));
        let joint = name(Route::Sockets, Started, Ready, false, &[Passed, Received]);
        assert_eq!(joint.as_deref(), Some("driver + softirq + stack"));
        assert_eq!(name(Route::Sockets, Ready, Returned, false, &[Copied]).as_deref(), Some("receive + return"));
        assert_eq!(name(Route::Sockets, Switched, Returned, true, &[Copied]).as_deref(), Some("receive + return"));
        assert_eq!(
            name(Route::Sockets, Ready, Switched, true, &[Woken, Waking]).as_deref(),
            Some("notify + wake-up + run queue")
        );
        assert_eq!(name(Route::Sockets, Queued, Passed, false, &[]), None);
        assert_eq!(name(Route::Sockets, Send, Started, false, &[Passed]), None);
    }

    #[test]
    fn every_stage_has_its_page() {
        let names = STAGES.iter().map(|(.., name)| *name).chain(SHORTER.iter().map(|(.., name)| *name)).chain([TURN_AROUND]);
        for name in names.flat_map(|joint| joint.split(" + ")) {
            let page = format!("{}/../../docs/stages/{}.md", env!("CARGO_MANIFEST_DIR"), name.replace(' ', "-"));
            let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{name} has no page: {error}"));
            assert!(text.starts_with(&format!("# `{name}`")), "{name}: its page is about something else");
        }
    }

    #[test]
    fn hooks_are_in_order_and_unique() {
        assert!(HOOKS.windows(2).all(|pair| pair[0].moment < pair[1].moment));
        for hook in HOOKS {
            assert_eq!(hook.moment.name(), hook.name);
        }
    }
}
