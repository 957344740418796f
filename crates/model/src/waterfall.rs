//! The floor of one frame: a design's stages, plus the differences for another size, rate, cable or hop.
//!
//! ```text
//!   at the published frame, rate and cable         elsewhere
//!   out:  pcie write … phy tx   published          the same
//!   link: cable                 published          the same
//!                                                  + cable, difference            derived
//!                                                  + serialization, difference    derived
//!                                                  + FEC, hops, cables behind them
//!   in:   phy rx … pcie reply   published          the same
//! ```
//! `none` has no published stages, so the wire is added in full. Undeclared parts are not counted, but named in a note.

use hairpin_record::floor::{Class, Counts, Floor, Part, Span, Stage, Window};
use hairpin_record::head::Label;
use hairpin_units::{BitRate, Picos};

use hairpin_wire::framing::{ETHERNET_HEADER, INTERFRAME_GAP, IPV4_HEADER, MIN_FRAME_WITHOUT_FCS, UDP_HEADER, VLAN_TAG};

use crate::cable::Cable;
use crate::design::{NicModel, Stages, Transfer};
use crate::hop::{Forwards, Hop};
use crate::line::{Frame, MAX_FRAME, MAX_RATE, MIN_RATE, frames_per_second, serialization, until_last_bit};
use crate::pcie::{self, Pcie};
use crate::phy::{Code, Fec};
use crate::published::published;

/// The declared path between the two NICs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// The rate; the published one of the design if none is declared.
    pub rate: Option<BitRate>,
    /// The cable; the published one of the design if none is declared.
    pub cable: Option<Cable>,
    /// Error correction.
    pub fec: Fec,
    /// Switches on the way, in order.
    pub hops: Vec<Hop>,
    /// The slot of both NICs.
    pub pcie: Option<Pcie>,
    /// Frames carry a VLAN tag.
    pub tagged: bool,
}

/// The size of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Bytes of the frame without FCS.
    Frame(u64),
    /// Bytes of payload: as a published table counts them, otherwise in UDP over IPv4.
    Payload(u64),
}

impl Size {
    /// The size in the design's unit; `None` for a frame shorter than the design's headers.
    fn of(self, nic: &dyn NicModel) -> Option<u64> {
        match (self, nic.counts()) {
            (Size::Frame(bytes), Counts::Frame) | (Size::Payload(bytes), Counts::Payload) => Some(bytes),
            (Size::Payload(bytes), Counts::Frame) => bytes.checked_add(ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER),
            (Size::Frame(bytes), Counts::Payload) => bytes.checked_sub(nic.frame_bytes(0)),
        }
    }

    fn bytes(self) -> u64 {
        let (Size::Frame(bytes) | Size::Payload(bytes)) = self;
        bytes
    }
}

/// Why a floor cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFloor {
    /// No rate is declared or published.
    #[error("nothing tells the rate of the link: declare it, such as --wire 10G")]
    NoRate,
    /// Not a rate of Ethernet.
    #[error("{0} is not a supported Ethernet rate: 10M to 800G")]
    Rate(BitRate),
    /// The design does not support the size.
    #[error("{asked} bytes of {counts} are nothing that {nic} can carry: a {counts} has {least} to {most} bytes")]
    Size { nic: String, counts: Counts, asked: u64, least: u64, most: u64 },
    /// FEC was requested at a rate that has none.
    #[error("Ethernet has no forward error correction at {0}: leave --fec out")]
    NoFec(BitRate),
    /// PCIe was declared for a design that does not say how frames cross it.
    #[error("{0} does not tell how a frame crosses PCIe, so a PCIe link changes nothing: leave --pcie out")]
    NoPcie(String),
    /// The differences exceed the published stages.
    #[error(
        "the figures of {nic} do not reach so far: its stages less what this link is quicker than the published one leave {left}"
    )]
    TooFar {
        nic: String,
        /// The resulting time.
        left: Picos,
    },
}

/// The floor of one way with a design at both ends. Without a size: the design's published size, or the shortest frame.
///
/// # Errors
/// A declared part does not exist, or the design does not support the size.
pub fn floor(nic: &dyn NicModel, asked: Option<Size>, link: &Link) -> Result<Floor, NoFloor> {
    let size = match asked {
        Some(asked) => sized(nic, asked)?,
        None => nic.published_size().unwrap_or(MIN_FRAME_WITHOUT_FCS),
    };
    let frame = Frame { len: nic.frame_bytes(size), tagged: link.tagged };
    let design = nic.stages(size);
    let rate = link.rate.or(design.reference.as_ref().map(|at| at.rate)).ok_or(NoFloor::NoRate)?;
    if !(MIN_RATE..=MAX_RATE).contains(&rate) {
        return Err(NoFloor::Rate(rate));
    }
    let mut notes: Vec<String> = nic.notes().iter().chain(&design.note).cloned().collect();
    let mut between = wire(&design, frame, rate, link, &mut notes);
    between.extend(fec(&design, rate, link, &mut notes)?);
    between.extend(hops(frame, rate, link, &mut notes));
    let unchanged = between.is_empty();
    let crossing = crossing(nic, &design, frame, link, &mut notes)?;
    let inward = design.stages.iter().position(|stage| stage.part == Part::In).unwrap_or(design.stages.len());
    let mut stages = design.stages;
    stages.splice(inward..inward, between);
    if let Some([out, back]) = crossing {
        let first_link = stages.iter().position(|stage| stage.part != Part::Out).unwrap_or(stages.len());
        stages.insert(first_link, out);
        stages.push(back);
    }
    let total: Span = stages.iter().map(|stage| stage.time).sum();
    if total.low_ns <= Picos::ZERO {
        return Err(NoFloor::TooFar { nic: nic.name().into(), left: total.low_ns });
    }
    let rtt = total + total;
    // Figures that include an unnamed cable do not change with the declared one.
    let cable = match &design.reference {
        Some(at) => at.cable.as_ref().map(|published| link.cable.as_ref().unwrap_or(published)),
        None => link.cable.as_ref(),
    };
    Ok(Floor {
        label: Label::of::<Floor>(),
        nic: nic.name().into(),
        about: nic.about().into(),
        counts: nic.counts(),
        size_bytes: size,
        frame_bytes: frame.len,
        wire_bytes: frame.wire_bytes(),
        rate_bit_per_s: rate.0,
        cable: cable.map(Cable::to_string),
        total_ns: total.ns,
        total_low_ns: total.low_ns,
        total_high_ns: total.high_ns,
        rtt,
        transactions_per_s: per_second(rtt),
        line_rate_frames_per_s: frames_per_second(frame, rate),
        stages,
        published: design.row.filter(|_| unchanged),
        notes,
        window: None,
    })
}

/// The smallest TCP window that fills a floor's link: rate × RTT, with the floor's own RTT or a declared one. Headers
/// and gaps take part of the rate, so that many bytes of payload suffice.
pub fn window(floor: &Floor, declared: Option<Picos>) -> Window {
    let rtt = declared.map_or(floor.rtt, Span::point);
    // bit/s × ps / 8 / 10^12, rounded up.
    let bytes = |time: Picos| {
        let bits = u128::from(floor.rate_bit_per_s) * u128::try_from(time.0).unwrap_or(0);
        u64::try_from(bits.div_ceil(8_000_000_000_000)).unwrap_or(u64::MAX)
    };
    let class = if declared.is_some() { Class::Assumed } else { Class::Derived };
    Window { rtt, declared: declared.is_some(), low_bytes: bytes(rtt.low_ns), high_bytes: bytes(rtt.high_ns), class }
}

/// The floor of a request and a reply of different sizes: the stages are the request's, the RTT is one way of each.
///
/// # Errors
/// As [`floor`], for either size.
pub fn round_trip(nic: &dyn NicModel, request: Size, reply: Size, link: &Link) -> Result<Floor, NoFloor> {
    let mut there = floor(nic, Some(request), link)?;
    if request != reply {
        let back = floor(nic, Some(reply), link)?;
        there.rtt = there.one_way() + back.one_way();
        there.transactions_per_s = per_second(there.rtt);
        there.notes.push(format!(
            "the stages are those of the request; the reply is of {} bytes, and its own one way is in the RTT",
            back.size_bytes
        ));
        there.notes.extend(back.notes.into_iter().filter(|note| !there.notes.contains(note)).collect::<Vec<_>>());
    }
    Ok(there)
}

/// Adds the handshake of a connection to a floor's RTT: one more round trip, of two frames of `size`.
///
/// # Errors
/// As [`floor`], for this size.
pub fn add_handshake(there: &mut Floor, nic: &dyn NicModel, size: Size, link: &Link) -> Result<(), NoFloor> {
    let handshake = floor(nic, Some(size), link)?;
    there.rtt = there.rtt + handshake.rtt;
    there.transactions_per_s = per_second(there.rtt);
    there.notes.push(format!(
        "the RTT holds the handshake too, one more round trip, of frames without payload: at least {}",
        handshake.rtt.low_ns
    ));
    there.notes.extend(handshake.notes.into_iter().filter(|note| !there.notes.contains(note)).collect::<Vec<_>>());
    Ok(())
}

/// Sequential round trips per second, at the upper and at the lower end.
fn per_second(rtt: Span) -> [f64; 2] {
    [rtt.high_ns, rtt.low_ns].map(|rtt| 1e9 / rtt.as_ns_f64())
}

/// A size in the design's unit, if the design supports it.
fn sized(nic: &dyn NicModel, asked: Size) -> Result<u64, NoFloor> {
    let most = MAX_FRAME - nic.frame_bytes(0);
    asked.of(nic).filter(|size| (1..=most).contains(size) && asked.bytes() > 0).ok_or_else(|| {
        // Both limits in the requested unit: headers are subtracted or added.
        let (counts, shift) = match (asked, nic.counts()) {
            (Size::Frame(_), Counts::Frame) => (Counts::Frame, 0),
            (Size::Payload(_), Counts::Payload) => (Counts::Payload, 0),
            (Size::Frame(_), Counts::Payload) => (Counts::Frame, -(nic.frame_bytes(0) as i64)),
            (Size::Payload(_), Counts::Frame) => (Counts::Payload, (ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER) as i64),
        };
        let least = if shift < 0 { 1 - shift } else { 1 };
        let nic = nic.name().into();
        NoFloor::Size { nic, counts, asked: asked.bytes(), least: least as u64, most: (most as i64 - shift) as u64 }
    })
}

/// A computed stage.
fn derived(name: String, time: Picos, source: String, what: &str) -> Stage {
    Stage { name, part: Part::Link, time: Span::point(time), class: Class::Derived, source, what: what.into() }
}

/// Cable and serialization: in full without published stages, otherwise the difference to their conditions.
fn wire(design: &Stages, frame: Frame, rate: BitRate, link: &Link, notes: &mut Vec<String>) -> Vec<Stage> {
    const CABLE: &str = "The signal travels down the cable.";
    const SERIALIZATION: &str = "The frame's bits go out one behind the other, with preamble, padding, FCS and gap.";
    let framing = |frame: Frame, rate| format!("{} bytes at {rate}", frame.wire_bytes());
    let mut stages = Vec::new();
    let Some(at) = &design.reference else {
        let source = format!("{}; IEEE 802.3", framing(frame, rate));
        stages.push(derived("serialization".into(), serialization(frame, rate), source, SERIALIZATION));
        match &link.cable {
            Some(cable) => {
                notes.extend(cable.misfit());
                let stage = derived("cable".into(), cable.propagation(), format!("{cable}: {}", cable.source()), CABLE);
                stages.push(Stage { class: cable.class(), ..stage });
            }
            None => notes.push("no cable is declared, so propagation is not counted (--cable twinax:3m)".into()),
        }
        return stages;
    };
    match (&at.cable, &link.cable) {
        (Some(published), Some(declared)) if published != declared => {
            notes.extend(declared.misfit());
            let source = format!("{declared} instead of {published}: {}", declared.source());
            let time = declared.propagation() - published.propagation();
            let what = "The signal travels down more cable, or less, than in the published figure.";
            let stage = derived("cable, difference".into(), time, source, what);
            stages.push(Stage { class: declared.class().max(published.class()), ..stage });
        }
        (None, Some(declared)) => notes.push(format!(
            "the published figures contain a cable that their source does not tell, so {declared} is not counted on top"
        )),
        (Some(published), _) => notes.extend(published.misfit()),
        (None, None) => {}
    }
    let time = serialization(frame, rate) - serialization(at.frame, at.rate);
    if time != Picos::ZERO {
        let source = format!("{} instead of {}; IEEE 802.3", framing(frame, rate), framing(at.frame, at.rate));
        let what = "The frame's bits take more time on the line, or less, than those of the published frame.";
        stages.push(derived("serialization, difference".into(), time, source, what));
    }
    stages
}

/// The codeword of the last link, less the one that the published figures hold; a switch's codeword is in its latency, which RFC
/// 1242 counts from the bits at its input port.
fn fec(design: &Stages, rate: BitRate, link: &Link, notes: &mut Vec<String>) -> Result<Option<Stage>, NoFloor> {
    let published = design.reference.as_ref().map(|at| at.rate);
    // All PHYs of some rates correct errors, so the figures published there hold it.
    let held = published.and_then(Code::of).filter(|code| code.always());
    let code = match (link.fec, Code::of(rate)) {
        (Fec::On, None) => return Err(NoFloor::NoFec(rate)),
        (fec, _) if published == Some(rate) && (fec == Fec::AsTheRate || held.is_some()) => return Ok(None),
        (Fec::Off, _) | (_, None) => None,
        (Fec::AsTheRate, Some(code)) if !code.always() => {
            if rate.0 > 10_000_000_000 {
                notes.push(format!("whether a link of {rate} corrects errors depends on its PHY; it is not counted (--fec on)"));
            }
            None
        }
        (_, code) => code,
    };
    let [block, held_block] = [code, held].map(|code| code.map_or(Picos::ZERO, Code::block));
    if block == held_block {
        return Ok(None);
    }
    let of_switches = if link.hops.is_empty() { "" } else { "; that of a switch is in its latency" };
    let clause = |code: Option<Code>| code.map_or("no error correction", |code| code.clause);
    let (name, clauses) = match held {
        None => ("FEC", clause(code).to_owned()),
        Some(_) => ("FEC, difference", format!("{} instead of {}", clause(code), clause(held))),
    };
    let what = "A receiver can correct a codeword only when all of it is in.";
    let source = format!("{clauses}; decoding itself is not counted{of_switches}");
    Ok(Some(derived(name.into(), block - held_block, source, what)))
}

/// Switches on the way, and the cables behind them.
fn hops(frame: Frame, rate: BitRate, link: &Link, notes: &mut Vec<String>) -> Vec<Stage> {
    let mut stages = Vec::new();
    for (i, hop) in link.hops.iter().enumerate() {
        let number = i + 1;
        let what = match hop.forwards {
            Forwards::CutThrough => "A switch sends the frame on while it still comes in.",
            Forwards::StoreAndForward => "A switch looks at the frame once it is all in.",
        };
        let declared =
            derived(format!("hop {number}: {}", hop.forwards), hop.latency, "as declared; RFC 1242 section 3.8".into(), what);
        stages.push(Stage { class: Class::Assumed, ..declared });
        if hop.forwards == Forwards::StoreAndForward {
            let source = format!("{} bytes up to the last bit at {rate}; IEEE 802.3", frame.wire_bytes() - INTERFRAME_GAP);
            let time = until_last_bit(frame, rate);
            stages.push(derived(
                format!("hop {number}: frame in"),
                time,
                source,
                "The switch takes in the whole frame before it sends it on.",
            ));
        }
        match &hop.cable {
            Some(cable) => {
                notes.extend(cable.misfit().filter(|misfit| !notes.contains(misfit)));
                let source = format!("{cable}: {}", cable.source());
                let what = "The signal travels down the cable behind the switch.";
                let stage = derived(format!("hop {number}: cable"), cable.propagation(), source, what);
                stages.push(Stage { class: cable.class(), ..stage });
            }
            None => {
                notes.push(format!("no cable is declared behind hop {number}, so it is not counted (--hop KIND:LATENCY,CABLE)"))
            }
        }
    }
    stages
}

/// The difference on PCIe, out and in, for a frame of another length than the published one.
fn crossing(
    nic: &dyn NicModel,
    design: &Stages,
    frame: Frame,
    link: &Link,
    notes: &mut Vec<String>,
) -> Result<Option<[Stage; 2]>, NoFloor> {
    let at = match (design.transfer, &design.reference) {
        (Transfer::Dma, Some(at)) => at.frame.len,
        (Transfer::Inline, _) => return Ok(None),
        _ if link.pcie.is_some() => return Err(NoFloor::NoPcie(nic.name().into())),
        _ => return Ok(None),
    };
    // A short frame is padded before it crosses.
    let shortest = MIN_FRAME_WITHOUT_FCS - if frame.tagged { VLAN_TAG } else { 0 };
    let [len, at] = [frame.len, at].map(|len| len.max(shortest));
    if len == at {
        return Ok(None);
    }
    let Some(slot) = link.pcie else {
        notes.push(format!(
            "a frame of other than the published {at} bytes also takes another time on PCIe; no PCIe link is declared, so that is not counted (--pcie gen3x8)"
        ));
        return Ok(None);
    };
    let tlp = &published().tlp;
    notes.push(format!("{slot}: {}; {}; {}", tlp.label, tlp.class, tlp.source));
    let source = format!("{len} bytes instead of {at} over {slot}; {}", pcie::SOURCE);
    let stage =
        |name: &str, part, time, what| Stage { part, class: Class::Assumed, ..derived(name.into(), time, source.clone(), what) };
    let out = stage(
        "pcie read, difference",
        Part::Out,
        slot.read(len) - slot.read(at),
        "The NIC fetches more bytes, or fewer, than in the published figure.",
    );
    let back = stage(
        "pcie write, difference",
        Part::In,
        slot.posted_write(len) - slot.posted_write(at),
        "The NIC writes more bytes, or fewer, than in the published figure.",
    );
    Ok(Some([out, back]))
}
