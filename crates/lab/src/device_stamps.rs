//! The stamps of a network device: those that it claims (ethtool), its clock, and those seen on a link of Hairpin's own.
//!
//! ```text
//!   the device        ETHTOOL_GET_TS_INFO ─▶ claimed         /dev/ptpN ─▶ two readings: bracket, rate        only read
//!   Hairpin's link    veth pair in namespaces of its own ─▶ datagrams whose sockets ask for stamps ─▶ seen   vanishes with its processes
//! ```
//! A stamp counts as seen where one came, not where a flag promises it. Nothing is sent over the device itself.

use std::thread;
use std::time::Duration;

use hairpin_plan::job::{Job, Sides};
use hairpin_plan::paths::UDP;
use hairpin_plan::spec::{Spec, SpecError};
use hairpin_record::device::{DeviceStamps, NicClock, OwnLink, StampClaim};
use hairpin_record::split::{Layer, Way};
use hairpin_session::error::RunError;
use hairpin_session::link::LinkSpec;
use hairpin_session::plan::{Plan, Target};
use hairpin_session::side::SideError;
use hairpin_session::testbed::{RowEnd, Testbed};
use hairpin_session::watch::NoWatcher;
use hairpin_session::worker::choose_clock;
use hairpin_sys::clock::{AnyClock, Clock};
use hairpin_sys::ethtool::{Claims, Ethtool, EthtoolError, Filter};
use hairpin_sys::netns;
use hairpin_sys::phc::{Phc, PhcError};
use hairpin_sys::shared::{Packet, Stamps, Which};
use hairpin_sys::signal::Signals;
use hairpin_trace::phc::Span;
use hairpin_units::Nanos;

/// Time between the two readings of a NIC's clock.
const BETWEEN: Duration = Duration::from_millis(50);
/// Round trips of a probe. The kernel begins to stamp incoming packets a moment after a socket asks (from a work queue), so that
/// the first of them have none.
const ROUND_TRIPS: u64 = 500;
/// Drivers that stamp one sent packet at a time, by their sources (`__IGB_PTP_TX_IN_PROGRESS` and the like in
/// drivers/net/ethernet/intel).
const ONE_AT_A_TIME: &[&str] = &["e1000e", "igb", "ixgbe", "i40e"];
/// How to see the stamps of a device.
pub const TO_SEE: &str = "hairpin ping HOST --hw-stamps";

/// Reads the device's claims and its clock, and probes a link of Hairpin's own. Nothing is changed on the host.
///
/// # Errors
/// There is no such interface.
pub fn of(interface: &str, signals: &Signals) -> Result<DeviceStamps, EthtoolError> {
    let ethtool = Ethtool::open()?;
    let driver = ethtool.driver_info(interface)?.map(|info| info.driver);
    let claims = ethtool.claims(interface)?;
    let clock = choose_clock().0;
    let (nic, no_clock) = match claims.and_then(Claims::clock) {
        None => (None, Some(NO_CLOCK.to_owned())),
        Some(index) => match read(index, &clock) {
            Ok(found) => (Some(found), None),
            Err(why) => (None, Some(why.to_string())),
        },
    };
    // Loopback is every program's own, so that stamps seen there are seen on the device.
    let is_loopback = interface == LOOPBACK;
    let (own_link, no_own_link) = match seen(is_loopback, signals) {
        Ok(seen) => (Some(seen), None),
        Err(why) => (None, Some(why)),
    };
    let seen = own_link.as_ref().filter(|_| is_loopback);
    Ok(DeviceStamps {
        interface: interface.to_owned(),
        stamps: stamps(claims, driver.as_deref(), seen),
        driver,
        rx_filters: claims.into_iter().flat_map(Claims::filters).map(|filter| filter.name().to_owned()).collect(),
        clock: nic,
        no_clock,
        own_link,
        no_own_link,
    })
}

const LOOPBACK: &str = "lo";
/// Why a device without a clock has none.
const NO_CLOCK: &str = "the device names no clock (PHC): hardware stamps, if any, cannot be placed on the program's clock";

/// Reads a NIC's clock twice.
fn read(index: u32, clock: &AnyClock) -> Result<NicClock, PhcError> {
    let phc = Phc::open(index)?;
    let first = phc.point(clock)?;
    thread::sleep(BETWEEN);
    let second = phc.point(clock)?;
    let span = Span::new(first, second, clock.rate());
    Ok(NicClock {
        index,
        method: phc.method().to_string(),
        width_ns: first.width_ns.max(second.width_ns),
        lacks: phc.passed_over().iter().map(|(method, why)| format!("{method}: {why}")).collect(),
        rate_ppb: span.map(|span| span.ppb()),
        rate_error_ppb: span.map(|span| (first.width_ns + second.width_ns) as f64 / 2.0 / span.length_ns() * 1e9),
    })
}

/// Each direction and layer; `seen` is a probe over the device itself.
fn stamps(claims: Option<Claims>, driver: Option<&str>, seen: Option<&OwnLink>) -> Vec<StampClaim> {
    let told = claims.is_some();
    let claims = claims.unwrap_or_default();
    let row = |direction, layer, claimed: bool, notes: Vec<String>| {
        let seen = seen.map(|seen| match (direction, layer) {
            (Way::Out, Layer::Software) => seen.software_out > 0,
            (Way::In, Layer::Software) => seen.software_in > 0,
            _ => false,
        });
        let mut why = notes;
        match seen {
            _ if !told => why = vec!["the driver says nothing of stamps".into()],
            None if claimed => why.push("only claimed: nothing was sent over the device".into()),
            Some(false) if claimed => why.push("claimed, and none came".into()),
            _ => {}
        }
        StampClaim { direction, layer, claimed, seen, why: why.join("; ") }
    };
    vec![
        row(Way::Out, Layer::Hardware, claims.hardware_out(), hardware_out(claims, driver)),
        row(Way::In, Layer::Hardware, claims.hardware_in(), hardware_in(claims, driver)),
        row(
            Way::Out,
            Layer::Software,
            claims.software_out(),
            if claims.software_out() {
                Vec::new()
            } else {
                vec!["the driver takes no stamps of what it sends (skb_tx_timestamp)".into()]
            },
        ),
        row(Way::In, Layer::Software, claims.software_in(), Vec::new()),
    ]
}

/// Claimed hardware stamps that no socket is handed.
const NOT_REPORTED: &str = "the driver claims to stamp, and not to hand the stamps to sockets (no RAW_HARDWARE)";

fn hardware_out(claims: Claims, driver: Option<&str>) -> Vec<String> {
    if !claims.hardware_out() {
        return vec!["the driver claims none".into()];
    }
    let mut notes = Vec::new();
    if !claims.raw_hardware() {
        notes.push(NOT_REPORTED.to_owned());
    }
    if let Some(driver) = driver.filter(|driver| ONE_AT_A_TIME.contains(driver)) {
        notes.push(format!("{driver} stamps one packet at a time: one that is sent before the last stamp was read gets none"));
    }
    notes
}

fn hardware_in(claims: Claims, driver: Option<&str>) -> Vec<String> {
    if !claims.hardware_in() {
        return vec!["the driver claims none".into()];
    }
    let mut notes = Vec::new();
    if !claims.raw_hardware() {
        notes.push(NOT_REPORTED.to_owned());
    }
    let filters: Vec<Filter> = claims.filters().collect();
    if !filters.contains(&Filter::All) {
        let names: Vec<&str> = filters.iter().map(|filter| filter.name()).collect();
        let one = if driver == Some("igb") { ", one at a time" } else { "" };
        notes.push(format!("only packets of its filters ({}){one}: others get no stamp, whatever is asked", names.join(", ")));
    }
    notes
}

/// Sends datagrams over a link of this program's own, whose sockets ask for stamps; or says why it cannot.
fn seen(over_loopback: bool, signals: &Signals) -> Result<OwnLink, String> {
    let loopback = over_loopback || matches!(netns::can_make(), netns::Support::No(_));
    let link = if loopback { LinkSpec::Loopback } else { LinkSpec::Veth(Default::default()) };
    probe(link, signals).map_err(|error| error.to_string())
}

fn probe(link: LinkSpec, signals: &Signals) -> Result<OwnLink, RunError> {
    let name = link.name();
    let path = || UDP.name.to_owned();
    let spec: Spec =
        UDP.name.parse().map_err(|error: SpecError| RunError::Unsupported { path: path(), why: error.to_string() })?;
    let job = Job {
        count: Some(ROUND_TRIPS),
        duration: None,
        warmup: Nanos::from_millis(20),
        traced: true,
        socket_stamps: true,
        ..Job::new(spec)
    };
    let plan = Plan {
        target: Target::Link(link),
        ipv6: false,
        stack: None,
        rows: vec![job.clone()],
        raw: None,
        shown: Vec::new(),
        floor: None,
        command: Vec::new(),
    };
    let area = || Stamps::create().map_err(|error| RunError::Side(SideError::from(error)));
    let stamps = Sides { client: area()?, server: area()? };
    stamps.client.want_packets(true);
    stamps.server.want_packets(true);
    let mut testbed = Testbed::set_up(&plan, Some(&stamps))?;
    let measured = testbed.row(&job, 0, signals, &mut NoWatcher).map_err(|end| match end {
        RowEnd::Interrupted => RunError::Interrupted,
        RowEnd::Failed(error) => error,
    })?;
    if let Some(why) = measured.client.error {
        return Err(RunError::Row { path: path(), why });
    }
    let of = |side: &Stamps| side.packets_since(0).0;
    let count = |packets: &[Packet], which| packets.iter().filter(|packet| packet.which == which).count() as u64;
    let (client, server) = (of(&stamps.client), of(&stamps.server));
    let both = |which| count(&client, which) + count(&server, which);
    Ok(OwnLink {
        link: name.into(),
        packets: 2 * measured.client.exchanges,
        software_out: both(Which::SoftwareOut),
        software_in: both(Which::SoftwareIn),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags of `linux/net_tstamp.h`: TX_HARDWARE, TX_SOFTWARE, RX_HARDWARE, RX_SOFTWARE, SOFTWARE, RAW_HARDWARE.
    const ALL: u32 = 0b101_1111;
    const RAW: u32 = 1 << 6;

    fn of(claims: Option<Claims>, driver: &str) -> Vec<(bool, Option<bool>, String)> {
        let rows = stamps(claims, Some(driver), None);
        rows.into_iter().map(|row| (row.claimed, row.seen, row.why)).collect()
    }

    #[test]
    fn a_claim_is_shown_with_its_limits() {
        // Filters: none, PTP version 2 events.
        let rows = of(Some(Claims::new(ALL, 0, 0b11, 1 | 1 << 12)), "igb");
        assert_eq!(rows.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), [(true, None); 4]);
        assert!(rows[0].2.starts_with("igb stamps one packet at a time: "), "{}", rows[0].2);
        assert!(rows[1].2.starts_with("only packets of its filters (ptpv2-event), one at a time: "), "{}", rows[1].2);
        assert!(rows.iter().all(|row| row.2.ends_with("only claimed: nothing was sent over the device")), "{rows:?}");
        // Filters: none, all.
        let rows = of(Some(Claims::new(ALL & !RAW, 0, 0b11, 0b11)), "ena");
        assert!(rows[0].2.starts_with(NOT_REPORTED) && rows[1].2.starts_with(NOT_REPORTED), "{rows:?}");
        assert!(!rows[1].2.contains("filters"), "{}", rows[1].2);
    }

    #[test]
    fn stamps_without_a_claim_have_the_reason() {
        let software = 0b1_1010;
        let rows = of(Some(Claims::new(software, -1, 0, 0)), "veth");
        assert_eq!(rows[0], (false, None, "the driver claims none".into()));
        assert_eq!((rows[1].0, rows[2].0, rows[3].0), (false, true, true));
        let rows = of(None, "old");
        assert!(rows.iter().all(|row| *row == (false, None, "the driver says nothing of stamps".into())), "{rows:?}");
        let rows = of(Some(Claims::new(0b1_1000, -1, 0, 0)), "virtio_net");
        assert_eq!(rows[2], (false, None, "the driver takes no stamps of what it sends (skb_tx_timestamp)".into()));
    }

    #[test]
    fn a_stamp_that_was_promised_and_did_not_come_is_not_seen() {
        let probe = OwnLink { link: "loopback".into(), packets: 1_000, software_out: 0, software_in: 990 };
        let rows = stamps(Some(Claims::new(0b1_1010, -1, 0, 0)), None, Some(&probe));
        let found: Vec<_> = rows.iter().map(|row| (row.claimed, row.seen, row.why.as_str())).collect();
        assert_eq!(found[2], (true, Some(false), "claimed, and none came"));
        assert_eq!(found[3], (true, Some(true), ""));
        assert_eq!(found[0], (false, Some(false), "the driver claims none"));
    }
}
