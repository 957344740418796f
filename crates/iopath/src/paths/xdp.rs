//! `xdp`: whole frames over AF_XDP, past the kernel's stack.

use hairpin_packet::af_xdp::AfXdp;
use hairpin_sys::capability::Capability;
use hairpin_sys::netns;
use hairpin_sys::wait::Policy;

use crate::measure::{ClientRun, ServerRun};
use crate::option::{self, OptionDef, Options};
use crate::path::{IoPath, LinkKind, PathError, Speaks, Support};
use crate::ring;

/// The path `xdp`.
pub struct Xdp;

impl IoPath for Xdp {
    fn name(&self) -> &'static str {
        "xdp"
    }

    fn summary(&self) -> &'static str {
        "UDP in frames of our own over AF_XDP rings, past the kernel's stack"
    }

    fn speaks(&self, options: &Options) -> Speaks {
        ring::speaks(options)
    }

    fn policies(&self) -> &'static [Policy] {
        &[Policy::Block, Policy::Spin, Policy::BusyPoll, Policy::Adaptive]
    }

    fn options(&self) -> &'static [&'static OptionDef] {
        &[&option::L3, &option::QUEUE, &option::SEND_QUEUE, &option::MODE, &option::ZERO_COPY, &option::DSCP, &option::USECS]
    }

    fn payload_limit(&self, ipv6: bool) -> u32 {
        ring::payload_limit(ipv6)
    }

    fn headers_in_mtu(&self, options: &Options, ipv6: bool) -> Option<u32> {
        Some(ring::headers(options, ipv6))
    }

    fn max_threads(&self) -> u32 {
        1
    }

    fn waits_on_all(&self) -> bool {
        true
    }

    fn lacks(&self, link: LinkKind) -> Option<&'static str> {
        let all = [Capability::Bpf, Capability::NetAdmin, Capability::NetRaw];
        match (link, netns::can_make()) {
            (LinkKind::Veth, netns::Support::UserNamespace) => Some(
                "an XDP program needs CAP_BPF and CAP_NET_ADMIN outside of any user namespace: run as root, or use --path packet",
            ),
            _ if all.into_iter().all(Capability::is_effective) => None,
            _ => Some("AF_XDP needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW: run as root, or use --path udp"),
        }
    }

    fn probe(&self, link: LinkKind) -> Support {
        match (link, self.lacks(link)) {
            (LinkKind::Loopback, _) => {
                Support::No("loopback has one queue, and both sides would need it: use --link veth".into())
            }
            (_, Some(why)) => Support::No(why.into()),
            _ => Support::Yes,
        }
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        ring::ping::<AfXdp>(run)
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        ring::answer::<AfXdp>(run)
    }
}
