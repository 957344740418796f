//! Devices told to stamp packets, for as long as a run lasts.
//!
//! ```text
//!   claims and present setting (read) ─▶ journal ─▶ hardware_timestamping=on|ptp ─▶ run ─▶ as it was; after a crash `hairpin tune revert`
//! ```

use std::fmt;

use hairpin_sys::ethtool::{Claims, Ethtool, Filter, Stamping};
use hairpin_sys::host::Host;
use hairpin_tune::change::Change;
use hairpin_tune::journal::{About, Journal};
use hairpin_tune::{Place, Setting, Tuning, plan};

use crate::knobs::KnobError;

/// The setting of `hairpin tune`.
const KNOB: &str = "hardware_timestamping";
/// Its value for PTP's events alone.
const PTP: &str = "ptp";

/// Devices that stamp until this is dropped.
#[derive(Default)]
pub struct StampingDevices<'h> {
    tuning: Option<Tuning<'h>>,
}

impl<'h> StampingDevices<'h> {
    /// Switches the stamps of each interface on, where it has them in both directions and they are off. Returns a sentence for
    /// each that was switched, or could not be; none for a device without hardware stamps, and for one that stamps already.
    pub fn on(host: &'h dyn Host, journal: &Journal, interfaces: &[String], about: &About) -> (StampingDevices<'h>, Vec<String>) {
        let asked: Vec<(&String, &str)> = interfaces.iter().filter_map(|name| Some((name, value_for(name)?))).collect();
        let (mut said, mut of, mut all) = (Vec::new(), Vec::new(), Vec::new());
        let cannot = |name: &str, why: &dyn fmt::Display| format!("{name} stamps no packets, and could not be told to: {why}");
        for (name, value) in asked {
            match changes(host, name, value) {
                Ok(changes) => {
                    of.extend(changes.iter().map(|_| (name, value)));
                    all.extend(changes);
                }
                Err(why) => said.push(cannot(name, &why)),
            }
        }
        if all.is_empty() {
            return (StampingDevices::default(), said);
        }
        let mut tuning = match journal.begin(host, all, about) {
            Ok(tuning) => tuning,
            Err(why) => {
                said.extend(of.iter().map(|(name, _)| cannot(name, &why)));
                return (StampingDevices::default(), said);
            }
        };
        said.extend(of.iter().enumerate().map(|(change, (name, value))| match tuning.on(change) {
            Ok(()) if *value == PTP => {
                format!("{name} stamps PTP's events ({KNOB}={PTP}) until this ends: --probe-shape ptp sends such")
            }
            Ok(()) => format!("{name} stamps every packet ({KNOB}={value}) until this ends"),
            Err(why) => cannot(name, &why),
        }));
        (StampingDevices { tuning: Some(tuning) }, said)
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// The settings that could not be restored: the journal keeps them for `hairpin tune revert`.
    pub fn off(self) -> Result<(), KnobError> {
        let Some(Err(left)) = self.tuning.map(Tuning::restore) else { return Ok(()) };
        Err(KnobError::Left(left.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))
    }
}

/// The value to set; `None` where the device has no stamps of both directions, or stamps already.
fn value_for(interface: &str) -> Option<&'static str> {
    let ethtool = Ethtool::open().ok()?;
    wanted(ethtool.claims(interface).ok()??, ethtool.stamping(interface).ok()??)
}

fn wanted(claims: Claims, now: Stamping) -> Option<&'static str> {
    let has = claims.hardware_out() && claims.hardware_in();
    let is_on = now.tx_type != 0 && now.rx_filter != 0;
    (has && !is_on).then(|| if claims.filters().any(|filter| filter == Filter::All) { "on" } else { PTP })
}

fn changes(host: &dyn Host, interface: &str, value: &str) -> Result<Vec<Change>, String> {
    let setting = Setting::new(KNOB, value).map_err(|error| error.to_string())?;
    plan(host, &Place { cpus: &[], interface: Some(interface) }, &[setting]).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_told_to_stamp_if_it_can_and_does_not_yet() {
        let off = Stamping { flags: 0, tx_type: 0, rx_filter: 0 };
        // SOF_TIMESTAMPING_TX_HARDWARE, RX_HARDWARE, RAW_HARDWARE.
        let claims = |flags, rx_filters| Claims::new(flags, 0, 0b11, rx_filters);
        assert_eq!(wanted(claims(0b100_0101, 0b11), off), Some("on"));
        assert_eq!(wanted(claims(0b100_0101, 1 << 12), off), Some("ptp"), "an 82576");
        assert_eq!(wanted(claims(0b100_0101, 0b11), Stamping { tx_type: 1, rx_filter: 12, ..off }), None);
        assert_eq!(wanted(claims(0b100_0101, 0b11), Stamping { tx_type: 1, ..off }), Some("on"), "of one direction");
        assert_eq!(wanted(claims(0b100_0100, 0b11), off), None, "none out");
    }
}
