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

    fn probe(&self, link: LinkKind) -> Support {
        // Inside the user namespace that a veth pair may need everybody has CAP_NET_RAW over it.
        match (link, netns::can_make()) {
            (LinkKind::Veth, netns::Support::UserNamespace) => Support::Yes,
            _ if Capability::NetRaw.is_effective() => Support::Yes,
            _ => Support::No("packet sockets need CAP_NET_RAW: run as root, or use --link veth or --path udp".into()),
        }
    }

    fn ping(&self, run: &mut ClientRun<'_>) -> Result<(), PathError> {
        ring::ping::<AfPacket>(run)
    }

    fn echo(&self, run: &mut ServerRun<'_>) -> Result<(), PathError> {
        ring::answer::<AfPacket>(run)
    }
}
