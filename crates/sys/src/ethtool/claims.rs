//! A device's claims about its stamps (`ETHTOOL_GET_TS_INFO`): flags, the clock, and the packets that it can tell apart.
//!
//! A claim is no stamp: drivers leave flags out, set too many, or stamp one packet at a time. Sources:
//! `include/uapi/linux/net_tstamp.h`, `Documentation/networking/timestamping.rst`.

/// `HWTSTAMP_TX_ON`.
const TX_ON: u32 = 1;

/// A device's claims about its stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    flags: u32,
    clock: Option<u32>,
    tx_types: u32,
    rx_filters: u32,
}

impl Claims {
    /// From the fields of `struct ethtool_ts_info`.
    pub fn new(flags: u32, phc_index: i32, tx_types: u32, rx_filters: u32) -> Claims {
        Claims { flags, clock: u32::try_from(phc_index).ok(), tx_types, rx_filters }
    }

    fn has(self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Stamps sent packets in software, just before the hardware takes them.
    pub fn software_out(self) -> bool {
        self.has(libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE)
    }

    /// The kernel's stack stamps received packets; it does so for every device.
    pub fn software_in(self) -> bool {
        self.has(libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE)
    }

    /// Stamps sent packets in hardware, if the sender asks.
    pub fn hardware_out(self) -> bool {
        self.has(libc::SOF_TIMESTAMPING_TX_HARDWARE) && self.tx_types & (1 << TX_ON) != 0
    }

    /// Stamps received packets in hardware, at least some.
    pub fn hardware_in(self) -> bool {
        self.has(libc::SOF_TIMESTAMPING_RX_HARDWARE) && self.filters().next().is_some()
    }

    /// Hands hardware stamps to sockets as they are (`SOF_TIMESTAMPING_RAW_HARDWARE`). Without this flag the driver, by its own
    /// claim, stamps but reports no stamps.
    pub fn raw_hardware(self) -> bool {
        self.has(libc::SOF_TIMESTAMPING_RAW_HARDWARE)
    }

    /// The number of its clock, `/dev/ptpN`.
    pub fn clock(self) -> Option<u32> {
        self.clock
    }

    /// The received packets that it can stamp; the kernel's "none" is left out.
    pub fn filters(self) -> impl Iterator<Item = Filter> {
        Filter::ALL.into_iter().filter(move |filter| self.rx_filters >> filter.number() & 1 == 1)
    }
}

/// The received packets that a device stamps (`enum hwtstamp_rx_filters`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Every packet.
    All,
    /// The requested packets and some others; a driver's answer, not a request.
    Some,
    /// Packets of PTP version 1 over UDP: events, Sync, Delay_Req.
    PtpV1(Layer, Event),
    /// Packets of PTP version 2.
    PtpV2(Layer, Event),
    /// Packets of NTP.
    Ntp,
}

/// The layer on which a device looks for PTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// UDP, port 319.
    Udp,
    /// Ethernet, type 88F7.
    Ethernet,
    /// Both.
    Any,
}

/// The messages of PTP that a device tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Any,
    Sync,
    DelayReq,
}

impl Filter {
    /// All, by their number.
    const ALL: [Filter; 15] = {
        use Event::{Any, DelayReq, Sync};
        [
            Filter::All,
            Filter::Some,
            Filter::PtpV1(Layer::Udp, Any),
            Filter::PtpV1(Layer::Udp, Sync),
            Filter::PtpV1(Layer::Udp, DelayReq),
            Filter::PtpV2(Layer::Udp, Any),
            Filter::PtpV2(Layer::Udp, Sync),
            Filter::PtpV2(Layer::Udp, DelayReq),
            Filter::PtpV2(Layer::Ethernet, Any),
            Filter::PtpV2(Layer::Ethernet, Sync),
            Filter::PtpV2(Layer::Ethernet, DelayReq),
            Filter::PtpV2(Layer::Any, Any),
            Filter::PtpV2(Layer::Any, Sync),
            Filter::PtpV2(Layer::Any, DelayReq),
            Filter::Ntp,
        ]
    };

    /// `HWTSTAMP_FILTER_*`.
    pub fn number(self) -> u32 {
        // 0 is `HWTSTAMP_FILTER_NONE`.
        Filter::ALL.iter().position(|filter| *filter == self).map_or(0, |at| at as u32 + 1)
    }

    /// The kernel's name, as ethtool(8) prints it.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 15] = [
            "all",
            "some",
            "ptpv1-l4-event",
            "ptpv1-l4-sync",
            "ptpv1-l4-delay-req",
            "ptpv2-l4-event",
            "ptpv2-l4-sync",
            "ptpv2-l4-delay-req",
            "ptpv2-l2-event",
            "ptpv2-l2-sync",
            "ptpv2-l2-delay-req",
            "ptpv2-event",
            "ptpv2-sync",
            "ptpv2-delay-req",
            "ntp-all",
        ];
        NAMES[self.number() as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags of `enum` in `linux/net_tstamp.h`.
    const TX_HARDWARE: u32 = 1;
    const TX_SOFTWARE: u32 = 1 << 1;
    const RX_HARDWARE: u32 = 1 << 2;
    const RX_SOFTWARE: u32 = 1 << 3;
    const SOFTWARE: u32 = 1 << 4;
    const RAW_HARDWARE: u32 = 1 << 6;

    #[test]
    fn an_82576_claims_ptp_alone() {
        let all = TX_HARDWARE | TX_SOFTWARE | RX_HARDWARE | RX_SOFTWARE | SOFTWARE | RAW_HARDWARE;
        // HWTSTAMP_FILTER_NONE, _PTP_V1_L4_SYNC, _PTP_V1_L4_DELAY_REQ, _PTP_V2_EVENT.
        let claims = Claims::new(all, 0, 0b11, 1 | 1 << 4 | 1 << 5 | 1 << 12);
        assert!(claims.software_out() && claims.software_in() && claims.hardware_out() && claims.hardware_in());
        assert!(claims.raw_hardware());
        let names: Vec<&str> = claims.filters().map(Filter::name).collect();
        assert_eq!((claims.clock(), &names[..]), (Some(0), &["ptpv1-l4-sync", "ptpv1-l4-delay-req", "ptpv2-event"][..]));
    }

    #[test]
    fn a_flag_alone_is_no_claim() {
        let claims = Claims::new(TX_HARDWARE | RX_HARDWARE, -1, 1, 1);
        assert!(!claims.hardware_out(), "it has no type but off");
        assert!(!claims.hardware_in(), "it has no filter but none");
        assert_eq!((claims.clock(), claims.raw_hardware()), (None, false));
        assert!(!Claims::new(TX_SOFTWARE, -1, 0, 0).software_out(), "it reports no software stamps");
    }

    #[test]
    fn filters_have_the_kernels_numbers() {
        assert_eq!(Filter::All.number(), libc::HWTSTAMP_FILTER_ALL);
        assert_eq!(Filter::PtpV2(Layer::Any, Event::Any).number(), libc::HWTSTAMP_FILTER_PTP_V2_EVENT);
        assert_eq!(Filter::PtpV2(Layer::Ethernet, Event::DelayReq).number(), libc::HWTSTAMP_FILTER_PTP_V2_L2_DELAY_REQ);
        assert_eq!(Filter::Ntp.number(), libc::HWTSTAMP_FILTER_NTP_ALL);
        let numbers: Vec<u32> = Filter::ALL.iter().map(|filter| filter.number()).collect();
        assert_eq!(numbers, (1..=15).collect::<Vec<u32>>());
    }
}
