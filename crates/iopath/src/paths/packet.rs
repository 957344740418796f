//! `packet`: whole frames over AF_PACKET, beside the kernel's own stack.

use hairpin_packet::af_packet::AfPacket;
use hairpin_sys::capability::Capability;
use hairpin_sys::netns;
use hairpin_sys::wait::Policy;

use crate::measure::{ClientRun, ServerRun};
use crate::option::{self, OptionDef, Options};
use crate::path::{IoPath, LinkKind, PathError, Speaks, Support};
use crate::ring;

/// The path `packet`.
pub struct Packet;

impl IoPath for Packet {
    fn name(&self) -> &'static str {
        "packet"
    }

    fn summary(&self) -> &'static str {
        "UDP in frames of our own over AF_PACKET rings, beside the kernel's stack"
    }

    fn speaks(&self, options: &Options) -> Speaks {
        ring::speaks(options)
    }

    fn policies(&self) -> &'static [Policy] {
        &[Policy::Block, Policy::Spin, Policy::Adaptive]
    }

    fn options(&self) -> &'static [&'static OptionDef] {
        &[&option::L3, &option::DSCP, &option::USECS]
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
        match (link, netns::can_make()) {
            _ if Capability::NetRaw.is_effective() => None,
            // Inside the user namespace of the veth pair everybody has it.
            (LinkKind::Veth, netns::Support::UserNamespace) => None,
            _ => Some("packet sockets need CAP_NET_RAW: run as root, or use --link veth or --path udp"),
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
