//! The root qdisc of a link: setting a token bucket, and reading the current qdisc.
//!
//! Sources: `include/uapi/linux/pkt_sched.h`, `net/sched/sch_tbf.c`.

use hairpin_units::{BitRate, Bytes};
use neli::consts::nl::NlmF;
use neli::consts::rtnl::{Rtm, Tca};
use neli::err::BuilderError;
use neli::rtnl::{Tcmsg, TcmsgBuilder};
use neli::types::{Buffer, RtBuffer};

use super::{Asked, Netlink, NetlinkError, attribute, text, until_nul};

/// Attributes inside `TCA_OPTIONS` of a tbf (`enum` in `linux/pkt_sched.h`).
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
/// `tc_ratespec.linklayer` for Ethernet: the kernel then computes packet times itself and needs no rate table.
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// Parent of a root qdisc.
const TC_H_ROOT: u32 = 0xffff_ffff;
/// Parent of `ingress` and `clsact`, which stay when the root changes.
const TC_H_INGRESS: u32 = 0xffff_fff1;
/// The handle `1:` of [`Netlink::add_tbf`].
const TBF_HANDLE: u32 = 0x0001_0000;
/// The handle `8a1f:` of [`Netlink::set_root_qdisc`]; numbers from 8000 on are not chosen by hand.
const ROOT_HANDLE: u32 = 0x8a1f_0000;
/// Length of `struct tc_tbf_qopt`: two rate specifications of 12 bytes, then limit, buffer and mtu.
const TBF_QOPT_LEN: usize = 36;
/// Offset of `tc_ratespec.rate`, in bytes per second, in `struct tc_tbf_qopt`.
const TBF_RATE_AT: usize = 8;

/// A token bucket at the root of a link: `rate` on average, `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tbf {
    /// Rate of Ethernet frames, without preamble, FCS and gap.
    pub rate: BitRate,
    /// Bucket size; at least the MTU plus 14, or full-sized frames are dropped. 4 GiB at most.
    pub burst: Bytes,
    /// Bytes that may wait; further ones are dropped. 4 GiB at most.
    pub limit: Bytes,
}

/// A root qdisc, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootQdisc {
    /// The kernel's name, such as `noqueue`, `fq_codel`, `mq` or `tbf`.
    pub kind: String,
    /// The rate of a `tbf`.
    pub rate: Option<BitRate>,
    /// True if the kernel added it by itself: it has no handle.
    pub automatic: bool,
}

impl Netlink {
    /// Puts a token bucket at the root of the link `name`, so that it sends at `tbf.rate` on average.
    ///
    /// # Errors
    /// There is no such link (ENODEV), the kernel lacks tbf (ENOENT), the burst is 0 or the link has another root qdisc
    /// (EINVAL, EEXIST), or this process lacks CAP_NET_ADMIN (EPERM).
    pub fn add_tbf(&self, name: &str, tbf: &Tbf) -> Result<(), NetlinkError> {
        let asked = Asked { operation: "add a tbf to", interface: name };
        let index = self.link(name)?.index;
        let message = tbf_request(index, tbf).map_err(|reason| asked.exchange(reason))?;
        self.request(&asked, Rtm::Newqdisc, NlmF::CREATE | NlmF::EXCL, message, |_| ()).map(drop)
    }

    /// Puts the qdisc `kind` with its default parameters at the root of the link `name`; `None` returns the root to the kernel,
    /// which then adds its own default.
    ///
    /// # Errors
    /// There is no such link (ENODEV), the kernel lacks the qdisc (ENOENT), or this process lacks CAP_NET_ADMIN (EPERM).
    pub fn set_root_qdisc(&self, name: &str, kind: Option<&str>) -> Result<(), NetlinkError> {
        let asked = Asked { operation: "set the qdisc of", interface: name };
        let index = self.link(name)?.index;
        let Some(kind) = kind else {
            let message = qdisc_message(index, 0, TC_H_ROOT, RtBuffer::new()).map_err(|reason| asked.exchange(reason))?;
            return self.request(&asked, Rtm::Delqdisc, NlmF::empty(), message, |_| ()).map(drop);
        };
        let mut attributes = RtBuffer::new();
        attributes.push(attribute(Tca::Kind, text(kind)).map_err(|reason| asked.exchange(reason))?);
        let message = qdisc_message(index, ROOT_HANDLE, TC_H_ROOT, attributes).map_err(|reason| asked.exchange(reason))?;
        self.request(&asked, Rtm::Newqdisc, NlmF::CREATE | NlmF::REPLACE, message, |_| ()).map(drop)
    }

    /// True if the root qdisc of the link `name`, or one below it, was added by a user: it has a handle.
    ///
    /// # Errors
    /// There is no such link (ENODEV).
    pub fn has_own_qdiscs(&self, name: &str) -> Result<bool, NetlinkError> {
        let asked = Asked { operation: "read the qdiscs of", interface: name };
        let index = self.link(name)?.index;
        let message = qdisc_message(index, 0, 0, RtBuffer::new()).map_err(|reason| asked.exchange(reason))?;
        let own = self.request(&asked, Rtm::Getqdisc, NlmF::DUMP, message, |qdisc| {
            i64::from(*qdisc.tcm_ifindex()) == i64::from(index) && is_own(qdisc)
        })?;
        Ok(own.into_iter().any(|own| own))
    }

    /// Reads the root qdisc of the link `name`; `None` if the kernel shows none.
    ///
    /// # Errors
    /// There is no such link (ENODEV).
    pub fn root_qdisc(&self, name: &str) -> Result<Option<RootQdisc>, NetlinkError> {
        let asked = Asked { operation: "read the qdisc of", interface: name };
        let index = self.link(name)?.index;
        let message = qdisc_message(index, 0, 0, RtBuffer::new()).map_err(|reason| asked.exchange(reason))?;
        let all = self.request(&asked, Rtm::Getqdisc, NlmF::DUMP, message, |qdisc| {
            let root = i64::from(*qdisc.tcm_ifindex()) == i64::from(index) && *qdisc.tcm_parent() == TC_H_ROOT;
            root.then(|| root_qdisc_of(qdisc))
        })?;
        Ok(all.into_iter().flatten().next())
    }
}

fn qdisc_message(index: u32, handle: u32, parent: u32, attributes: RtBuffer<Tca, Buffer>) -> Result<Tcmsg, BuilderError> {
    // The kernel's field is a signed integer; an index from the kernel fits.
    let message = TcmsgBuilder::default().tcm_family(0).tcm_ifindex(index.cast_signed()).tcm_info(0);
    Ok(message.tcm_handle(handle).tcm_parent(parent).rtattrs(attributes).build()?)
}

fn tbf_request(index: u32, tbf: &Tbf) -> Result<Tcmsg, BuilderError> {
    let bytes_per_s = tbf.rate.0 / 8;
    let burst = u32::try_from(tbf.burst.0).unwrap_or(u32::MAX);
    let limit = u32::try_from(tbf.limit.0).unwrap_or(u32::MAX);
    let mut options: RtBuffer<u16, Buffer> = RtBuffer::new();
    options.push(attribute(TCA_TBF_PARMS, Buffer::from(tbf_qopt(bytes_per_s, limit).to_vec()))?);
    // In bytes, so that the kernel computes the time itself; `tc_tbf_qopt.buffer` would have to be in scheduler ticks.
    options.push(attribute(TCA_TBF_BURST, burst)?);
    if u32::try_from(bytes_per_s).is_err() {
        options.push(attribute(TCA_TBF_RATE64, bytes_per_s)?);
    }
    let mut attributes = RtBuffer::new();
    attributes.push(attribute(Tca::Kind, text("tbf"))?);
    attributes.push(attribute(Tca::Options, options)?);
    qdisc_message(index, TBF_HANDLE, TC_H_ROOT, attributes)
}

/// `struct tc_tbf_qopt`: rate { cell_log u8, linklayer u8, overhead u16, cell_align i16, mpu u16, rate u32 }, peakrate { the same
/// }, limit u32, buffer u32, mtu u32. Peak rate, buffer and mtu stay 0: no peak rate, and `TCA_TBF_BURST` holds the burst. From 4
/// GB/s on the rate field holds the largest value that fits, and `TCA_TBF_RATE64` the true one.
fn tbf_qopt(bytes_per_s: u64, limit: u32) -> [u8; TBF_QOPT_LEN] {
    let mut qopt = [0; TBF_QOPT_LEN];
    qopt[1] = TC_LINKLAYER_ETHERNET;
    qopt[TBF_RATE_AT..12].copy_from_slice(&u32::try_from(bytes_per_s).unwrap_or(u32::MAX).to_ne_bytes());
    qopt[24..28].copy_from_slice(&limit.to_ne_bytes());
    qopt
}

/// True if a user added the qdisc, and it ends with the root.
fn is_own(qdisc: &Tcmsg) -> bool {
    *qdisc.tcm_handle() != 0 && *qdisc.tcm_parent() != TC_H_INGRESS
}

fn root_qdisc_of(message: &Tcmsg) -> RootQdisc {
    let attributes = message.rtattrs().get_attr_handle();
    let kind = attributes.get_attribute(Tca::Kind).map(|a| until_nul(a.rta_payload().as_ref())).unwrap_or_default();
    let rate = attributes.get_nested_attributes::<u16>(Tca::Options).ok().filter(|_| kind == "tbf").and_then(|options| {
        let rate64 = options.get_attr_payload_as::<u64>(TCA_TBF_RATE64).ok();
        let rate32 = || {
            let qopt = options.get_attribute(TCA_TBF_PARMS)?.rta_payload().as_ref().get(TBF_RATE_AT..12)?.try_into().ok()?;
            Some(u64::from(u32::from_ne_bytes(qopt)))
        };
        rate64.or_else(rate32).map(|bytes_per_s| BitRate(bytes_per_s.saturating_mul(8)))
    });
    RootQdisc { kind, rate, automatic: *message.tcm_handle() == 0 }
}

#[cfg(test)]
mod tests {
    use neli::ToBytes;

    use super::*;

    /// The message's bytes on the wire.
    fn wire(message: &impl ToBytes) -> Vec<u8> {
        let mut buffer = std::io::Cursor::new(Vec::new());
        message.to_bytes(&mut buffer).unwrap();
        buffer.into_inner()
    }

    fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
        haystack.windows(needle.len()).position(|window| window == needle)
    }

    #[test]
    fn a_clsact_is_not_lost_with_the_root() {
        let own = |handle, parent| is_own(&qdisc_message(2, handle, parent, RtBuffer::new()).unwrap());
        assert!(!own(0, TC_H_ROOT), "the kernel's own");
        assert!(own(TBF_HANDLE, TC_H_ROOT) && own(0x0002_0000, TBF_HANDLE | 1));
        assert!(!own(0xffff_0000, TC_H_INGRESS));
    }

    #[test]
    fn a_rate_beyond_32_bits_of_bytes_per_second_goes_into_rate64() {
        let tbf = |rate| Tbf { rate: BitRate(rate), burst: Bytes(3000), limit: Bytes(100_000) };
        let rate64 = |bytes: u64| [&12_u16.to_ne_bytes()[..], &TCA_TBF_RATE64.to_ne_bytes(), &bytes.to_ne_bytes()].concat();
        let slow = wire(&tbf_request(2, &tbf(1_000_000_000)).unwrap());
        assert!(find(&slow, &tbf_qopt(125_000_000, 100_000)).is_some());
        assert!(find(&slow, &rate64(125_000_000)).is_none());
        let fast = wire(&tbf_request(2, &tbf(100_000_000_000)).unwrap());
        assert!(find(&fast, &tbf_qopt(12_500_000_000, 100_000)).is_some());
        assert!(find(&fast, &rate64(12_500_000_000)).is_some());
        assert_eq!(tbf_qopt(12_500_000_000, 0)[8..12], u32::MAX.to_ne_bytes());
    }
}
