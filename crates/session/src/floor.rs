//! The declared floor beside a measured row, from the user's declarations and the host's facts of its own
//! interface; notes name the assumptions.
//!
//! ```text
//!   flags ──▶ Declared ─┐
//!   facts: link speed, PCIe, MTU, TCP timestamps ─┼──▶ frame, link ──▶ model ──▶ Floor, or why there is none
//!   job: path, payload ─┘
//! ```

use std::net::Ipv6Addr;

use hairpin_model::cable;
use hairpin_model::design::Transfer;
use hairpin_model::nic::{Nic, built_in};
use hairpin_model::pcie::Pcie;
use hairpin_model::phy::{Code, Fec};
use hairpin_model::waterfall::{Link, Size, add_handshake, floor, round_trip};
use hairpin_plan::job::{Emulated, FrameTimes, Job};
use hairpin_plan::path::Speaks;
use hairpin_plan::spec::SideSpec;
use hairpin_record::design::Design;
use hairpin_record::explain::{Explain, Explained};
use hairpin_record::floor::{Counts, Floor, Part};
use hairpin_record::run::{HostFacts, Row};
use hairpin_record::warning::Warning;
use hairpin_units::{BitRate, Picos};
use hairpin_wire::framing::{ETHERNET_HEADER, IPV4_HEADER, IPV6_HEADER, MIN_FRAME_WITHOUT_FCS, TCP_HEADER, UDP_HEADER, VLAN_TAG};
use serde_json::Value;

/// The timestamp option of TCP with its padding (RFC 7323).
const TCP_TIMESTAMPS: u64 = 12;

/// Bytes of headers that the path `niq` puts before the payload.
const NIQ_HEADERS: u64 = ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER;

/// Drivers of interfaces whose claimed rate is not that of a wire.
const WITHOUT_A_WIRE: [&str; 5] = ["bonding", "bridge", "team", "tun", "veth"];

/// The user's declarations.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The NIC design at both ends.
    pub nic: Nic,
    pub link: Link,
}

/// Facts of the real link.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub client: &'a HostFacts,
    /// The server's host, if it tells.
    pub server: Option<&'a HostFacts>,
    pub mtu: Option<u64>,
    /// Both ends are on this host, so its interface says nothing about a wire.
    pub one_host: bool,
    /// Traffic is IPv6.
    pub ipv6: bool,
}

impl Declared {
    /// The floor of a job's round trip.
    ///
    /// # Errors
    /// The reason for a missing floor.
    pub fn of(&self, job: &Job, known: Known<'_>) -> Result<Floor, String> {
        if job.own.is_some() {
            return Err("the length of the replies is the server's own, and a floor takes it beforehand".into());
        }
        let mut notes = Vec::new();
        let headers = headers(&job.spec.client, known, &mut notes)?;
        let (request, reply) = (u64::from(job.request), u64::from(job.reply));
        if let Some(mtu) = known.mtu.filter(|mtu| request.max(reply) + headers - ETHERNET_HEADER > *mtu) {
            return Err(format!("a payload of {} bytes does not fit one frame of this link (MTU {mtu})", request.max(reply)));
        }
        let nic = self.nic.model();
        let size = |payload: u64| match nic.counts() {
            Counts::Frame => Size::Frame(self.padded(payload + headers)),
            Counts::Payload => Size::Payload(payload),
        };
        let mut link = self.link.clone();
        if !known.one_host {
            self.ask(&mut link, known.client, [request, reply].map(|payload| self.padded(payload + headers)), &mut notes);
        }
        let mut floor = round_trip(nic, size(request), size(reply), &link).map_err(|error| error.to_string())?;
        if job.spec.client.speaks() == Speaks::TcpPerTransaction {
            // A published half round trip includes the way to the programs, which a handshake does not take.
            if floor.stages.iter().any(|stage| stage.part == Part::Whole) {
                notes.push("the handshake, one more round trip, is not counted".into());
            } else {
                add_handshake(&mut floor, nic, size(0), &link).map_err(|error| error.to_string())?;
            }
        }
        floor.notes.splice(..0, notes);
        Ok(floor)
    }

    /// The latency that the emulated NIC adds to a job's frames; `None` if nothing with a latency was declared.
    ///
    /// # Errors
    /// Why this latency cannot be emulated.
    pub fn emulated(&self, job: &Job) -> Result<Option<Emulated>, String> {
        let nic = self.nic.model();
        if nic.name() == "none" && self.link.rate.is_none() && self.link.cable.is_none() {
            return Ok(None);
        }
        let times = |payload: u32| {
            let payload = u64::from(payload);
            let size = match nic.counts() {
                Counts::Frame => Size::Frame(self.padded(payload + NIQ_HEADERS)),
                Counts::Payload => Size::Payload(payload),
            };
            let floor = floor(nic, Some(size), &self.link).map_err(|error| error.to_string())?;
            let whole = floor.stages.iter().any(|stage| stage.part == Part::Whole);
            Ok::<_, String>((whole, frame_times(&floor)?))
        };
        let ((whole, request), (_, reply)) = (times(job.request)?, times(job.reply)?);
        Ok(Some(Emulated { nic: nic.name().into(), whole, request, reply }))
    }

    /// The frame without FCS and tag as it is sent: with padding, which a tag replaces.
    fn padded(&self, frame: u64) -> u64 {
        frame.max(MIN_FRAME_WITHOUT_FCS - if self.link.tagged { VLAN_TAG } else { 0 })
    }

    /// Fills in missing declarations from the host's facts about its interface.
    fn ask(&self, link: &mut Link, client: &HostFacts, frames: [u64; 2], notes: &mut Vec<String>) {
        if link.rate.is_none() {
            let driver = client.facts.get("driver").and_then(Value::as_str);
            let speed = client.facts.get("link_speed_mbit_per_s").and_then(Value::as_u64);
            // An interface without a driver has no device.
            let speed = speed.filter(|_| driver.is_some_and(|driver| !WITHOUT_A_WIRE.contains(&driver)));
            link.rate = speed.and_then(|mbit| mbit.checked_mul(1_000_000)).map(BitRate);
            notes.push(match link.rate {
                Some(rate) => {
                    format!("the rate of {rate} is what the client's interface says; cables and switches are as declared")
                }
                None => "the client's interface does not say its rate".into(),
            });
            // Every PHY of the rate corrects errors, but a claimed rate proves no PHY.
            if link.fec == Fec::AsTheRate && link.rate.and_then(Code::of).is_some_and(Code::always) {
                link.fec = Fec::Off;
                notes.push("error correction is counted only at a declared rate, or with --fec on".into());
            }
        }
        let nic = self.nic.model();
        let transfers = frames.map(|frame| nic.stages(frame).transfer);
        let moves =
            nic.counts() == Counts::Frame && transfers.contains(&Transfer::Dma) && !transfers.contains(&Transfer::Unknown);
        if link.pcie.is_none() && moves {
            let speed = client.facts.get("pcie_gt_per_s").and_then(Value::as_f64);
            let lanes = client.facts.get("pcie_lanes").and_then(Value::as_u64);
            link.pcie = speed.zip(lanes).and_then(|(speed, lanes)| Pcie::negotiated(speed, lanes));
            if let Some(pcie) = link.pcie {
                notes.push(format!(
                    "the PCIe link, {pcie}, is what the client's interface says; the server's is taken to be alike"
                ));
            }
        }
    }
}

/// Puts the floor of a declared link beside a row, or the reason why there is none.
pub fn beside(row: &mut Row, declared: Option<&Declared>, job: &Job, known: Known<'_>) {
    match declared.map(|declared| declared.of(job, known)) {
        None => {}
        Some(Ok(floor)) => row.floor = Some(Box::new(floor)),
        Some(Err(why)) => row.warnings.push(Warning::NoFloor { why }.note()),
    }
}

/// Every design of the program at the frames of an explained path: at the rate that was declared for it, else at the design's
/// published one, else at 10G; over 3 m of twinax. A design that cannot carry the frames is left out.
pub fn designs(record: &Explain, result: &Explained) -> Vec<Design> {
    let payload = |bytes: u64| u32::try_from(bytes).ok();
    let (Ok(spec), Some(request), Some(reply)) =
        (result.path.parse(), payload(result.request_bytes), payload(result.reply_bytes))
    else {
        return Vec::new();
    };
    let job = Job { request, reply, ..Job::new(spec) };
    let ipv6 = record.place.link.peer.as_deref().is_some_and(is_ipv6)
        || record.head.command.iter().any(|word| ["-6", "--ipv6"].contains(&word.as_str()));
    // The host is not asked: a design is compared with others over one link.
    let (client, server) = (&record.place.hosts.client, record.place.hosts.server.as_ref());
    let known = Known { client, server, mtu: None, one_host: true, ipv6 };
    let cables = cable::types();
    let of = |name: &str| {
        let floor = |rate: Option<BitRate>| {
            let link = Link { rate, cable: "twinax:3m".parse().ok(), ..Link::default() };
            Declared { nic: name.parse().ok()?, link }.of(&job, known).ok()
        };
        let declared = result.floor.as_ref().map(|floor| BitRate(floor.rate_bit_per_s));
        let found = declared.and_then(|rate| floor(Some(rate))).or_else(|| floor(None)).or_else(|| floor("10G".parse().ok()))?;
        Some(Design::of(&found, &cables))
    };
    built_in().iter().filter_map(|nic| of(nic.name())).collect()
}

/// True for an address of IPv6, alone or in brackets before a port.
fn is_ipv6(peer: &str) -> bool {
    peer.starts_with('[') || peer.parse::<Ipv6Addr>().is_ok()
}

/// The stages of a floor in the form that the device takes.
fn frame_times(floor: &Floor) -> Result<FrameTimes, String> {
    let total = floor.total_ns.ok_or_else(|| {
        let (nic, low, high) = (&floor.nic, floor.total_low_ns, floor.total_high_ns);
        format!("{nic} takes {low} to {high} one way, and a device takes one time: give a NIC file with points, not intervals")
    })?;
    let out: Picos = floor.stages.iter().filter(|stage| stage.part == Part::Out).filter_map(|stage| stage.time.ns).sum();
    let bits = i64::try_from(floor.wire_bytes * 8).unwrap_or(i64::MAX);
    // An Ethernet rate is at least 10 Mbit/s, so this fits; and it is not zero, since there is a floor.
    let link_ps = (i128::from(bits) * 1_000_000_000_000 / i128::from(floor.rate_bit_per_s.max(1))) as i64;
    Ok(FrameTimes { out_ps: out.0, link_ps, rest_ps: total.0 - out.0 })
}

/// Bytes of headers that a path puts before the payload of a frame.
fn headers(side: &SideSpec, known: Known<'_>, notes: &mut Vec<String>) -> Result<u64, String> {
    let ip = if known.ipv6 { IPV6_HEADER } else { IPV4_HEADER };
    // A path that builds its own frames knows its headers.
    if let Some(headers) = side.path.headers_in_mtu(&side.options, known.ipv6) {
        return Ok(ETHERNET_HEADER + u64::from(headers));
    }
    match side.path.speaks(&side.options) {
        Speaks::Udp => Ok(ETHERNET_HEADER + ip + UDP_HEADER),
        Speaks::Tcp | Speaks::TcpPerTransaction => {
            let options = match has_timestamps(known) {
                Some(false) => 0,
                Some(true) => TCP_TIMESTAMPS,
                None => {
                    notes.push("whether TCP carries timestamps is not known; they are not counted".into());
                    0
                }
            };
            Ok(ETHERNET_HEADER + ip + TCP_HEADER + options)
        }
        Speaks::Raw(_) => Ok(ETHERNET_HEADER),
        Speaks::Local(_) => Err("this path never leaves the host, so no wire bounds it".into()),
    }
}

/// True if TCP carries timestamps: both ends have to offer them (RFC 7323, section 3.2).
fn has_timestamps(known: Known<'_>) -> Option<bool> {
    let of = |facts: &HostFacts| facts.facts.get("tcp_timestamps").and_then(Value::as_u64).map(|value| value > 0);
    match (of(known.client), known.server.and_then(of)) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (client, server) => client.and(server),
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::floor::Span;
    use hairpin_units::Picos;
    use serde_json::json;

    use super::*;

    fn job(spec: &str) -> Job {
        Job::new(spec.parse().unwrap())
    }

    fn declared(nic: &str, link: Link) -> Declared {
        Declared { nic: nic.parse().unwrap(), link }
    }

    fn facts(facts: &[(&str, Value)]) -> HostFacts {
        HostFacts { facts: facts.iter().map(|(name, fact)| (name.to_string(), fact.clone())).collect(), ..HostFacts::default() }
    }

    fn sized(spec: &str, request: u32, reply: u32) -> Job {
        Job { request, reply, ..job(spec) }
    }

    fn known(client: &HostFacts) -> Known<'_> {
        Known { client, server: Some(client), mtu: Some(1500), one_host: false, ipv6: false }
    }

    #[test]
    fn the_frame_is_that_of_the_path() {
        let ten = Link { rate: "10G".parse().ok(), ..Link::default() };
        let none = declared("none", ten);
        for (spec, stamps, ipv6, frame) in [
            ("udp", 1, false, 14 + 20 + 8 + 100),
            ("udp", 1, true, 14 + 40 + 8 + 100),
            ("tcp", 1, false, 14 + 20 + 20 + 12 + 100),
            ("tcp", 0, false, 14 + 20 + 20 + 100),
            ("packet", 1, false, 14 + 20 + 8 + 100),
            ("xdp", 1, true, 14 + 40 + 8 + 100),
        ] {
            let client = facts(&[("tcp_timestamps", json!(stamps))]);
            let floor = none.of(&sized(spec, 100, 100), Known { ipv6, ..known(&client) }).unwrap();
            assert_eq!(floor.frame_bytes, frame, "{spec}");
        }
        let unread = none.of(&sized("tcp", 100, 100), known(&facts(&[]))).unwrap();
        assert!(unread.notes[0].contains("timestamps"), "{:?}", unread.notes);
        // One end alone offers them; of the other nothing may be known.
        let [on, off] = [1, 0].map(|stamps| facts(&[("tcp_timestamps", json!(stamps))]));
        for (server, notes) in [(Some(&off), 0), (None, 1)] {
            let floor = none.of(&sized("tcp", 100, 100), Known { server, ..known(&on) }).unwrap();
            let told = floor.notes.iter().filter(|note| note.contains("timestamps")).count();
            assert_eq!((floor.frame_bytes, told), (14 + 20 + 20 + 100, notes), "{server:?}");
        }
        // A payload of 18 bytes over UDP makes the shortest frame.
        let niq = declared("niq", Link::default());
        let floor = niq.of(&sized("udp", 18, 22), Known { one_host: true, ..known(&facts(&[])) }).unwrap();
        assert_eq!((floor.total_ns, floor.rtt.ns), (Some(Picos::from_ns(1989)), Some(Picos::from_ns(1989 + 3059))));
    }

    #[test]
    fn undeclared_facts_come_from_the_interface() {
        let client = facts(&[
            ("driver", json!("ice")),
            ("link_speed_mbit_per_s", json!(25_000)),
            ("pcie_gt_per_s", json!(8.0)),
            ("pcie_lanes", json!(8)),
        ]);
        let dma = declared("dma", Link::default());
        let floor = dma.of(&sized("udp", 1000, 1000), known(&client)).unwrap();
        assert_eq!(floor.rate_bit_per_s, 25_000_000_000);
        assert!(floor.stages.iter().any(|stage| stage.name == "pcie read, difference" && stage.source.contains("gen3x8")));
        // A declared value wins over the host's; a link of this host is not asked, so the published rate stands.
        let own = declared("dma", Link { rate: "40G".parse().ok(), ..Link::default() });
        assert_eq!(own.of(&sized("udp", 22, 22), known(&client)).unwrap().rate_bit_per_s, 40_000_000_000);
        let here = dma.of(&sized("udp", 22, 22), Known { one_host: true, ..known(&client) }).unwrap();
        assert_eq!(here.rate_bit_per_s, 10_000_000_000);
        // A design without DMA uses no PCIe link.
        assert!(declared("sniffer10g", Link::default()).of(&sized("udp", 64, 64), known(&client)).is_ok());
        // The request goes inline, the reply by DMA.
        let reply = declared("niq", Link::default()).of(&sized("udp", 18, 1000), known(&client)).unwrap();
        assert!(reply.notes.iter().any(|note| note.contains("gen3x8")), "{:?}", reply.notes);
        // Padding crosses PCIe too, and a tag replaces some of it.
        let rtt = |payload: u32| dma.of(&sized("udp", payload, payload), known(&client)).unwrap().rtt;
        assert_eq!(rtt(1), rtt(18));
        let tagged = declared("none", Link { tagged: true, ..Link::default() });
        assert_eq!(tagged.of(&sized("udp", 1, 1), known(&client)).unwrap().wire_bytes, 84);
    }

    #[test]
    fn a_claimed_rate_is_that_of_a_wire_or_none() {
        let claims = |driver: Option<&str>, mbit: u64| {
            let driver = driver.map(|driver| ("driver", json!(driver)));
            facts(&driver.into_iter().chain([("link_speed_mbit_per_s", json!(mbit))]).collect::<Vec<_>>())
        };
        let niq = declared("niq", Link::default());
        let of = |client: &HostFacts| niq.of(&sized("udp", 18, 18), known(client)).unwrap();
        for driver in WITHOUT_A_WIRE.map(Some).into_iter().chain([None]) {
            let floor = of(&claims(driver, 25_000));
            assert_eq!(floor.rate_bit_per_s, 10_000_000_000, "{driver:?}");
            assert!(floor.notes.contains(&"the client's interface does not say its rate".into()), "{:?}", floor.notes);
        }
        // Every PHY of 400G corrects errors: counted where that rate is declared.
        let claimed = of(&claims(Some("ice"), 400_000));
        let fec = |floor: &Floor| floor.stages.iter().any(|stage| stage.name == "FEC");
        assert!(!fec(&claimed) && claimed.notes.iter().any(|note| note.contains("only at a declared rate")), "{claimed:?}");
        let link = Link { rate: "400G".parse().ok(), ..Link::default() };
        assert!(fec(&declared("niq", link).of(&sized("udp", 18, 18), known(&claims(Some("ice"), 400_000))).unwrap()));
    }

    #[test]
    fn a_connection_per_transaction_begins_with_a_handshake() {
        let ten = Link { rate: "10G".parse().ok(), ..Link::default() };
        let client = facts(&[("tcp_timestamps", json!(0))]);
        let of = |nic: &str, spec: &str| declared(nic, ten.clone()).of(&sized(spec, 100, 100), known(&client)).unwrap();
        let (standing, each) = (of("none", "tcp"), of("none", "tcp-crr"));
        // SYN and SYN-ACK without payload are the shortest frames: 67.2 ns each.
        assert_eq!(each.rtt, standing.rtt + Span::point(Picos(134_400)));
        assert_eq!(each.total_ns, standing.total_ns);
        // The published half round trips reach the programs.
        let whole = of("sniffer10g", "tcp-crr");
        assert_eq!(whole.rtt, of("sniffer10g", "tcp").rtt);
        assert!(whole.notes.iter().any(|note| note.contains("handshake") && note.contains("not counted")), "{:?}", whole.notes);
    }

    /// A round trip of `udp` over veth with nothing but its sizes.
    fn explained(payload: u64) -> (Explain, Explained) {
        let result = Explained { path: "udp/udp".into(), request_bytes: payload, reply_bytes: payload, ..Explained::default() };
        let empty = json!({"schema": "hairpin.explain/1", "tool": "", "missing": [], "results": [],
            "hosts": {"client": {"hostname": "a"}, "server": null},
            "link": {"kind": "veth", "interface": null, "mtu": null, "peer": null},
            "clock": {"source": "tsc", "cost_ns": 1.0, "step_ns": 1.0, "ticks_per_s": 1e9, "drift_ppb": null}});
        (serde_json::from_value(empty).unwrap(), result)
    }

    #[test]
    fn every_design_stands_beside_an_explained_path_and_takes_another_cable_as_the_model_does() {
        let (record, result) = explained(18);
        let all = designs(&record, &result);
        let names: Vec<&str> = all.iter().map(|design| design.name.as_str()).collect();
        assert_eq!(names, built_in().iter().map(|nic| nic.name()).collect::<Vec<_>>());
        assert_eq!((all[0].ns(), all[0].over.as_str()), ([3978.0, 3978.0], "twinax:3m"), "1989 ns there and back");
        let here = HostFacts::default();
        for design in &all {
            let Some(cable) = &design.cable else {
                assert!(!["niq", "dma", "none"].contains(&design.name.as_str()), "{design:?}");
                continue;
            };
            for kind in cable::types() {
                let rate = (design.name == "none").then_some("10G").and_then(|rate| rate.parse().ok());
                let link = Link { rate, cable: format!("{}:250m", kind.name).parse().ok(), ..Link::default() };
                let floor =
                    declared(&design.name, link).of(&sized("udp", 18, 18), Known { one_host: true, ..known(&here) }).unwrap();
                let own = design.parts[cable.part].ns[0];
                let chosen = design.ns()[0] - own + cable.fixed_ns + 2.0 * 250.0 * kind.ns_per_m;
                assert!(
                    (chosen - floor.rtt.ns.unwrap().as_ns_f64()).abs() < 0.01,
                    "{} over {}: {chosen}",
                    design.name,
                    kind.name
                );
            }
        }
        // A payload that no design can carry, and a path that never leaves the host.
        assert!(designs(&record, &explained(60_000).1).is_empty());
        assert!(designs(&record, &Explained { path: "pipe/pipe".into(), ..explained(18).1 }).is_empty());
    }

    #[test]
    fn the_frames_of_designs_have_the_headers_of_the_peers_address() {
        let (mut record, result) = explained(18);
        for (peer, frame) in [
            ("192.0.2.1:24444", 60),
            ("server:24444", 60),
            ("2001:db8::1", 80),
            ("[2001:db8::1]:24444", 80),
            ("[fe80::1%eth0]:24444", 80),
        ] {
            record.place.link.peer = Some(peer.into());
            let link = &designs(&record, &result)[0].link;
            assert!(link.contains(&format!("a frame of {frame} bytes")), "{peer}: {link}");
        }
    }

    #[test]
    fn a_reply_of_another_size_is_a_part_of_its_own() {
        let floor =
            declared("niq", Link::default()).of(&sized("udp", 18, 22), Known { one_host: true, ..known(&facts(&[])) }).unwrap();
        let design = Design::of(&floor, &cable::types());
        assert_eq!(design.ns(), [1989.0 + 3059.0; 2]);
        assert_eq!(design.parts.last().map(|part| (part.name.as_str(), part.ns[0])), Some(("reply, difference", 1070.0)));
    }

    #[test]
    fn missing_floor_has_a_reason() {
        let none = declared("none", Link::default());
        let why = |job: &Job| none.of(job, known(&facts(&[]))).unwrap_err();
        assert!(why(&sized("udp", 64, 64)).contains("nothing tells the rate"));
        assert!(why(&sized("pipe", 64, 64)).contains("never leaves the host"));
        assert!(why(&sized("udp", 64, 1473)).contains("does not fit one frame"));
    }
}
