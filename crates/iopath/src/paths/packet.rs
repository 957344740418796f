//! `packet`: whole frames over AF_PACKET, beside the kernel's stack.

use hairpin_packet::af_packet::AfPacket;
use hairpin_plan::path::LinkKind;
use hairpin_sys::capability::Capability;
use hairpin_sys::netns;

use crate::error::PathError;
use crate::measure::{ClientRun, ServerRun};
use crate::ring;
use crate::runner::{Runner, Support};

pub struct Packet;

impl Runner for Packet {
    fn lacks(&self, link: LinkKind) -> Option<&'static str> {
        match (link, netns::can_make()) {
            _ if Capability::NetRaw.is_effective() => None,
            // In the user namespace of the veth pair every process has the capability.
            (LinkKind::Veth, netns::Support::UserNamespace) => None,
            _ => Some("packet sockets need CAP_NET_RAW: run as root, or use veth or --path udp"),
        }
    }

    fn probe(&self, link: LinkKind) -> Support {
        self.lacks(link).map_or(Support::Yes, |why| Support::No(why.into()))
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        ring::ping::<AfPacket>(run)
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        ring::answer::<AfPacket>(run)
    }
}
