//! The features that an open was granted, and the reason for every refused one.

use std::fmt;

/// The granted features of a queue pair. A feature that was requested and refused is in [`refused`](Granted::refused)
/// with the reason: there is no silent fallback.
///
/// ```
/// use hairpin_packet::memory;
/// use hairpin_packet::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (near, _far) = memory::pair(&Config { zero_copy: true, ..Config::default() })?;
/// let granted = near.granted();
/// for refused in &granted.refused {
///     println!("{}: {}", refused.feature, refused.why);
/// }
///
/// // A program that cannot do without a feature makes its absence an error.
/// let error = granted.require(Feature::ZeroCopy).unwrap_err();
/// assert_eq!(error.to_string(), "memory-0 queue 0 has no zero-copy: an in-memory pair has no device");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Granted {
    /// The back end: `af_xdp`, `af_packet`, `memory`, `niq`.
    pub back_end: &'static str,
    /// Name of the interface.
    pub interface: String,
    /// The queue on which it receives, from 0.
    pub queue: u32,
    /// The queue on which it sends, which may differ.
    pub send_queue: u32,
    /// Queues of the device; for AF_PACKET the rings that share its frames.
    pub queues: u32,
    /// Place of the XDP program; `None` for back ends without one.
    pub mode: Option<Mode>,
    /// The reason for the mode, if it was chosen and not requested.
    pub mode_why: Option<String>,
    /// True if the device writes straight into the application's memory.
    pub zero_copy: bool,
    /// True if the kernel says when it needs a kick, so that other kicks make no system call.
    pub need_wakeup: bool,
    /// True if the kernel polls the device on behalf of this queue pair.
    pub busy_poll: bool,
    /// True if a frame may span several chunks.
    pub multi_buffer: bool,
    /// The source of receive timestamps, as the kernel and the driver claim it: a frame may still come without one.
    /// `None` without timestamps.
    pub rx_time: Option<TimeSource>,
    /// True if received frames have a hash over their flow.
    pub rx_hash: bool,
    /// True if a received frame comes with the VLAN tag that the device took out of it.
    pub rx_vlan: bool,
    /// The source of the stamps of sent frames, as the kernel and the driver claim it; `None` without stamps. If it is hardware,
    /// a frame may have a stamp of the kernel too.
    pub tx_time: Option<TimeSource>,
    /// The longest frame in bytes, Ethernet header included, FCS not.
    pub longest_frame: usize,
    /// Features that were requested and not granted.
    pub refused: Vec<Refused>,
}

/// Where the kernel runs the XDP program that hands frames to AF_XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// In the driver, before the kernel makes an skb.
    Native,
    /// In the stack, on the skb.
    Generic,
}

/// What takes a timestamp, and by which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeSource {
    /// The device, by its own clock.
    Hardware,
    /// The kernel, by CLOCK_REALTIME.
    Software,
    /// The kernel, when it has done with a sent frame: by CLOCK_TAI, and later than the frame left.
    Completion,
}

impl fmt::Display for TimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimeSource::Hardware => "hardware",
            TimeSource::Software => "software",
            TimeSource::Completion => "completion",
        })
    }
}

/// A feature that can be requested and may be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature {
    /// The XDP program in the driver.
    Native,
    /// The device writes straight into the application's memory.
    ZeroCopy,
    /// The kernel says when it needs a kick.
    NeedWakeup,
    /// The kernel polls the device.
    BusyPoll,
    /// Frames over several chunks.
    MultiBuffer,
    /// Receive timestamps by the device.
    HardwareTime,
    /// A hash over the flow of received frames.
    Hash,
    /// The VLAN tag of received frames, beside the frame.
    Vlan,
    /// Stamps of sent frames by the device.
    HardwareDeparture,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Feature::Native => "native XDP",
            Feature::ZeroCopy => "zero-copy",
            Feature::NeedWakeup => "need_wakeup",
            Feature::BusyPoll => "busy polling",
            Feature::MultiBuffer => "multi-buffer frames",
            Feature::HardwareTime => "hardware receive stamps",
            Feature::Hash => "flow hash",
            Feature::Vlan => "VLAN tag beside the frame",
            Feature::HardwareDeparture => "hardware send stamps",
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Native => "native",
            Mode::Generic => "generic",
        })
    }
}

/// A feature that was requested and not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The feature.
    pub feature: Feature,
    /// Why it was not granted, in words.
    pub why: String,
}

/// The error of [`Granted::require`]: a required feature that was not granted, or was never requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{interface} queue {queue} has no {feature}: {why}")]
pub struct NotGranted {
    /// The interface.
    pub interface: String,
    /// The queue.
    pub queue: u32,
    /// The required feature.
    pub feature: Feature,
    /// The reason.
    pub why: String,
}

impl Granted {
    /// A record without any granted feature, for a back end of the caller's own, which then sets the fields of those that it has.
    pub fn nothing(back_end: &'static str, interface: impl Into<String>) -> Granted {
        Granted {
            back_end,
            interface: interface.into(),
            queue: 0,
            send_queue: 0,
            queues: 1,
            mode: None,
            mode_why: None,
            zero_copy: false,
            need_wakeup: false,
            busy_poll: false,
            multi_buffer: false,
            rx_time: None,
            rx_hash: false,
            rx_vlan: false,
            tx_time: None,
            longest_frame: 0,
            refused: Vec::new(),
        }
    }

    /// True if `feature` was granted.
    pub fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Native => self.mode == Some(Mode::Native),
            Feature::ZeroCopy => self.zero_copy,
            Feature::NeedWakeup => self.need_wakeup,
            Feature::BusyPoll => self.busy_poll,
            Feature::MultiBuffer => self.multi_buffer,
            Feature::HardwareTime => self.rx_time == Some(TimeSource::Hardware),
            Feature::Hash => self.rx_hash,
            Feature::Vlan => self.rx_vlan,
            Feature::HardwareDeparture => self.tx_time == Some(TimeSource::Hardware),
        }
    }

    /// Checks that `feature` was granted.
    ///
    /// # Errors
    /// It was not granted; the error has the reason.
    pub fn require(&self, feature: Feature) -> Result<(), NotGranted> {
        if self.has(feature) {
            return Ok(());
        }
        let refused = self.refused.iter().find(|refused| refused.feature == feature);
        let why =
            refused.map_or_else(|| format!("{} does not offer it, or it was not asked for", self.back_end), |r| r.why.clone());
        Err(NotGranted { interface: self.interface.clone(), queue: self.queue, feature, why })
    }
}
