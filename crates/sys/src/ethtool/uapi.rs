//! Structures and numbers of `include/uapi/linux/ethtool.h`, under the kernel's names.

/// A structure that an ethtool command reads and writes.
///
/// # Safety
/// The type is `repr(C)` with plain integers only, begins with the command as `u32` if the ioctl has several, and is at least as
/// long as the data the kernel reads and writes for every command it is used with.
pub(super) unsafe trait Request {}

const GDRVINFO: u32 = 0x03;
const GCOALESCE: u32 = 0x0e;
const SCOALESCE: u32 = 0x0f;
const GRINGPARAM: u32 = 0x10;
const SRINGPARAM: u32 = 0x11;
pub(super) const GRXCSUM: u32 = 0x14;
pub(super) const GTXCSUM: u32 = 0x16;
pub(super) const GSG: u32 = 0x18;
pub(super) const GTSO: u32 = 0x1e;
pub(super) const STSO: u32 = 0x1f;
pub(super) const GGSO: u32 = 0x23;
pub(super) const SGSO: u32 = 0x24;
pub(super) const GFLAGS: u32 = 0x25;
pub(super) const SFLAGS: u32 = 0x26;
pub(super) const GGRO: u32 = 0x2b;
pub(super) const SGRO: u32 = 0x2c;
const GCHANNELS: u32 = 0x3c;
const GET_TS_INFO: u32 = 0x41;
const SCHANNELS: u32 = 0x3d;
/// `ETH_FLAG_LRO`, in the result of `GFLAGS`.
pub(super) const FLAG_LRO: u32 = 1 << 15;

/// `struct ethtool_value`, for all commands that get or set one number.
#[repr(C)]
pub(super) struct Value {
    pub(super) cmd: u32,
    pub(super) data: u32,
}
const _: () = assert!(size_of::<Value>() == 8);
// SAFETY: repr(C), integers; used with the GET/SET commands above that take a struct ethtool_value of this size.
unsafe impl Request for Value {}

/// `struct ethtool_drvinfo`.
#[repr(C)]
#[derive(Default)]
pub(super) struct DriverInfo {
    cmd: u32,
    pub(super) driver: [u8; 32],
    pub(super) version: [u8; 32],
    pub(super) fw_version: [u8; 32],
    pub(super) bus_info: [u8; 32],
    erom_version: [u8; 32],
    reserved2: [u8; 12],
    n_priv_flags: u32,
    n_stats: u32,
    testinfo_len: u32,
    eedump_len: u32,
    regdump_len: u32,
}
const _: () = assert!(size_of::<DriverInfo>() == 196);
// SAFETY: repr(C), integers; made with GDRVINFO only, whose structure has this size.
unsafe impl Request for DriverInfo {}

impl DriverInfo {
    pub(super) fn get() -> DriverInfo {
        DriverInfo { cmd: GDRVINFO, ..DriverInfo::default() }
    }
}

/// `struct ethtool_coalesce`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Coalesce {
    cmd: u32,
    pub(super) rx_coalesce_usecs: u32,
    pub(super) rx_max_coalesced_frames: u32,
    rx_irq: [u32; 2],
    pub(super) tx_coalesce_usecs: u32,
    pub(super) tx_max_coalesced_frames: u32,
    tx_irq: [u32; 2],
    stats_block_coalesce_usecs: u32,
    pub(super) use_adaptive_rx_coalesce: u32,
    pub(super) use_adaptive_tx_coalesce: u32,
    /// Values for low and high packet rates, and the sampling interval of the rate.
    by_rate: [u32; 11],
}
const _: () = assert!(size_of::<Coalesce>() == 92);
// SAFETY: repr(C), integers; made with GCOALESCE only, whose structure has this size.
unsafe impl Request for Coalesce {}

impl Coalesce {
    pub(super) fn get() -> Coalesce {
        Coalesce { cmd: GCOALESCE, ..Coalesce::default() }
    }

    pub(super) fn read(&self) -> super::Coalesce {
        super::Coalesce {
            rx_usecs: self.rx_coalesce_usecs,
            rx_frames: self.rx_max_coalesced_frames,
            tx_usecs: self.tx_coalesce_usecs,
            tx_frames: self.tx_max_coalesced_frames,
            adaptive_rx: self.use_adaptive_rx_coalesce != 0,
            adaptive_tx: self.use_adaptive_tx_coalesce != 0,
        }
    }

    pub(super) fn write(&mut self, to: &super::Coalesce) {
        self.cmd = SCOALESCE;
        self.rx_coalesce_usecs = to.rx_usecs;
        self.rx_max_coalesced_frames = to.rx_frames;
        self.tx_coalesce_usecs = to.tx_usecs;
        self.tx_max_coalesced_frames = to.tx_frames;
        self.use_adaptive_rx_coalesce = to.adaptive_rx.into();
        self.use_adaptive_tx_coalesce = to.adaptive_tx.into();
    }
}

/// `struct ethtool_ringparam`.
#[repr(C)]
#[derive(Default)]
pub(super) struct RingParameters {
    cmd: u32,
    pub(super) rx_max_pending: u32,
    rx_mini_max_pending: u32,
    rx_jumbo_max_pending: u32,
    pub(super) tx_max_pending: u32,
    pub(super) rx_pending: u32,
    rx_mini_pending: u32,
    rx_jumbo_pending: u32,
    pub(super) tx_pending: u32,
}
const _: () = assert!(size_of::<RingParameters>() == 36);
// SAFETY: repr(C), integers; made with GRINGPARAM only, whose structure has this size.
unsafe impl Request for RingParameters {}

impl RingParameters {
    pub(super) fn get() -> RingParameters {
        RingParameters { cmd: GRINGPARAM, ..RingParameters::default() }
    }

    pub(super) fn read(&self) -> super::Rings {
        super::Rings { rx: self.rx_pending, tx: self.tx_pending, max_rx: self.rx_max_pending, max_tx: self.tx_max_pending }
    }

    pub(super) fn write(&mut self, to: &super::Rings) {
        self.cmd = SRINGPARAM;
        self.rx_pending = to.rx;
        self.tx_pending = to.tx;
    }
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Channels {
    cmd: u32,
    pub(super) max_rx: u32,
    pub(super) max_tx: u32,
    max_other: u32,
    pub(super) max_combined: u32,
    pub(super) rx_count: u32,
    pub(super) tx_count: u32,
    other_count: u32,
    pub(super) combined_count: u32,
}
const _: () = assert!(size_of::<Channels>() == 36);
// SAFETY: repr(C), integers; made with GCHANNELS only, whose structure has this size.
unsafe impl Request for Channels {}

impl Channels {
    pub(super) fn get() -> Channels {
        Channels { cmd: GCHANNELS, ..Channels::default() }
    }

    pub(super) fn read(&self) -> super::Channels {
        super::Channels {
            rx: self.rx_count,
            tx: self.tx_count,
            combined: self.combined_count,
            max_rx: self.max_rx,
            max_tx: self.max_tx,
            max_combined: self.max_combined,
        }
    }

    pub(super) fn write(&mut self, to: &super::Channels) {
        self.cmd = SCHANNELS;
        self.rx_count = to.rx;
        self.tx_count = to.tx;
        self.combined_count = to.combined;
    }
}

/// `struct ethtool_ts_info`.
#[repr(C)]
#[derive(Default)]
pub(super) struct StampsInfo {
    cmd: u32,
    pub(super) so_timestamping: u32,
    pub(super) phc_index: i32,
    pub(super) tx_types: u32,
    tx_reserved: [u32; 3],
    pub(super) rx_filters: u32,
    rx_reserved: [u32; 3],
}
const _: () = assert!(size_of::<StampsInfo>() == 44);
// SAFETY: repr(C), integers; made with GET_TS_INFO only, whose structure has this size.
unsafe impl Request for StampsInfo {}

impl StampsInfo {
    pub(super) fn get() -> StampsInfo {
        StampsInfo { cmd: GET_TS_INFO, ..StampsInfo::default() }
    }
}

/// `SIOCSHWTSTAMP` and `SIOCGHWTSTAMP` of `include/uapi/linux/sockios.h`.
pub(super) const SIOCSHWTSTAMP: u32 = 0x89b0;
pub(super) const SIOCGHWTSTAMP: u32 = 0x89b1;

/// `struct hwtstamp_config` of `include/uapi/linux/net_tstamp.h`: without a command, since the ioctl's number selects it.
#[repr(C)]
#[derive(Default)]
pub(super) struct HwtstampConfig {
    pub(super) flags: i32,
    pub(super) tx_type: i32,
    pub(super) rx_filter: i32,
}
const _: () = assert!(size_of::<HwtstampConfig>() == 12);
// SAFETY: repr(C), integers; made for the two ioctls above only, whose structure has this size.
unsafe impl Request for HwtstampConfig {}
