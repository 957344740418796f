//! `xdp`: whole frames over AF_XDP, past the kernel's stack.

use hairpin_packet::af_xdp::AfXdp;
use hairpin_plan::path::LinkKind;
use hairpin_sys::capability::{Capability, may_lock};
use hairpin_sys::netns;

use crate::error::PathError;
use crate::measure::{ClientRun, ServerRun};
use crate::ring;
use crate::runner::{Runner, Support};

pub struct Xdp;

impl Runner for Xdp {
    fn lacks(&self, link: LinkKind) -> Option<&'static str> {
        let all = [Capability::Bpf, Capability::NetAdmin, Capability::NetRaw];
        match (link, netns::can_make()) {
            (LinkKind::Veth, netns::Support::UserNamespace) => Some(
                "an XDP program needs CAP_BPF and CAP_NET_ADMIN outside of any user namespace: run as root, or use --path packet",
            ),
            _ if !all.into_iter().all(Capability::is_effective) => {
                Some("AF_XDP needs CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_IPC_LOCK: run as root, or use --path udp")
            }
            _ if !may_lock(ring::LEAST_MEMORY) => {
                Some("AF_XDP's memory needs CAP_IPC_LOCK or a higher limit (ulimit -l): run as root, or use --path udp")
            }
            _ => None,
        }
    }

    fn probe(&self, link: LinkKind) -> Support {
        match (link, self.lacks(link)) {
            (LinkKind::Loopback, _) => Support::No("loopback has one queue, and both sides would need it: use veth".into()),
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
