//! Path specs of packet rings as `bounce` and `stream` take them: the ring, its wait policy and its own options.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hairpin_packet::device::{Config, Favour};
use hairpin_packet::granted::{Feature, Mode};
use hairpin_packet::ring::Wait;
use hairpin_plan::option::{FAVOUR, MODE, OptionDef, USECS, ZERO_COPY};
use hairpin_plan::path::{Path, Route};
use hairpin_plan::paths::{PACKET, XDP};
use hairpin_plan::spec::{SideSpec, Spec, SpecError};
use hairpin_sys::wait::Policy;
use serde::{Deserialize, Serialize};

/// Wait policies of a ring without round trips; the first is the default.
const POLICIES: [Policy; 4] = [Policy::Spin, Policy::BusyPoll, Policy::Block, Policy::Adaptive];
/// Options of the ring itself; the others belong to the frames of a round trip, or are flags of the verb.
const OPTIONS: [&OptionDef; 4] = [&MODE, &ZERO_COPY, &FAVOUR, &USECS];

/// A kind of packet ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackEndName {
    /// AF_XDP.
    Xdp,
    /// AF_PACKET.
    Packet,
}

impl BackEndName {
    /// All kinds, the fastest first.
    pub const ALL: [BackEndName; 2] = [BackEndName::Xdp, BackEndName::Packet];

    fn path(self) -> &'static Path {
        match self {
            BackEndName::Xdp => &XDP,
            BackEndName::Packet => &PACKET,
        }
    }

    fn names() -> String {
        BackEndName::ALL.map(|back_end| back_end.path().name).join(", ")
    }
}

/// One side: a ring, its policy, its options. The device chooses missing options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IoSpec {
    pub back_end: BackEndName,
    side: SideSpec,
}

/// Why a text is not an [`IoSpec`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The path has no packet rings.
    #[error("there is no packet ring \"{0}\"; there are: {known}", known = BackEndName::names())]
    BackEnd(String),
    /// The spec cannot be parsed.
    #[error(transparent)]
    Spec(SpecError),
    /// The option exists only for round trips.
    #[error("{io} has no option \"{name}\" here; there are: {known}")]
    Option {
        /// The path.
        io: &'static str,
        /// The option given.
        name: &'static str,
        /// The options that exist.
        known: String,
    },
}

impl TryFrom<SideSpec> for IoSpec {
    type Error = IoError;

    fn try_from(side: SideSpec) -> Result<IoSpec, IoError> {
        let back_end = match side.path.route {
            Route::XdpRing => BackEndName::Xdp,
            Route::PacketRing => BackEndName::Packet,
            _ => return Err(IoError::BackEnd(side.path.name.into())),
        };
        let known = || OPTIONS.iter().filter(|def| side.path.takes(def)).map(|def| def.name);
        if let Some((name, _)) = side.options.iter().find(|(name, _)| !known().any(|known| known == *name)) {
            return Err(IoError::Option { io: side.path.name, name, known: known().collect::<Vec<_>>().join(", ") });
        }
        Ok(IoSpec { back_end, side })
    }
}

impl IoSpec {
    pub fn policy(&self) -> Policy {
        self.side.policy
    }

    /// The configuration of the device; the caller sets filter and sizes.
    pub fn config(&self) -> Config {
        let options = &self.side.options;
        Config {
            mode: match options.get(&MODE) {
                Some("native") => Some(Mode::Native),
                Some("generic") => Some(Mode::Generic),
                _ => None,
            },
            zero_copy: options.get(&ZERO_COPY) != Some("off"),
            busy_poll_us: (self.side.policy == Policy::BusyPoll).then(|| self.side.usecs()),
            favour: if options.get(&FAVOUR) == Some("rate") { Favour::Rate } else { Favour::Delay },
            ..Config::default()
        }
    }

    /// Features asked for by name: without one of them the ring is refused.
    pub fn required(&self) -> impl Iterator<Item = Feature> {
        let by_name = [(&MODE, "native", Feature::Native), (&ZERO_COPY, "on", Feature::ZeroCopy)];
        by_name.into_iter().filter(|(def, value, _)| self.side.options.get(def) == Some(value)).map(|(.., feature)| feature)
    }

    /// The wait policy of a receive.
    pub fn wait(&self) -> Wait {
        match self.side.policy {
            Policy::BusyPoll => Wait::BusyPoll,
            Policy::Block | Policy::Poll | Policy::Epoll => Wait::Block,
            Policy::Adaptive => Wait::Adaptive { spin: Duration::from_micros(self.side.usecs().into()) },
            Policy::Spin => Wait::Spin,
        }
    }
}

impl From<BackEndName> for IoSpec {
    /// With the default policy and no options.
    fn from(back_end: BackEndName) -> IoSpec {
        let side = SideSpec { path: back_end.path(), policy: POLICIES[0], options: Default::default() };
        IoSpec { back_end, side }
    }
}

impl FromStr for IoSpec {
    type Err = IoError;

    fn from_str(text: &str) -> Result<IoSpec, IoError> {
        IoPair::from_str(text).map(|pair| pair.client)
    }
}

impl fmt::Display for IoSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.side.fmt(f)
    }
}

impl TryFrom<String> for IoSpec {
    type Error = IoError;

    fn try_from(text: String) -> Result<IoSpec, IoError> {
        text.parse()
    }
}

impl From<IoSpec> for String {
    fn from(spec: IoSpec) -> String {
        spec.to_string()
    }
}

/// Both sides of a stream: client, then server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoPair {
    pub client: IoSpec,
    /// The server's spec; equal to the client's if not given.
    pub server: IoSpec,
}

impl IoPair {
    /// The same spec on both sides.
    pub fn same(io: IoSpec) -> IoPair {
        IoPair { client: io.clone(), server: io }
    }
}

impl FromStr for IoPair {
    type Err = IoError;

    fn from_str(text: &str) -> Result<IoPair, IoError> {
        let spec = Spec::parse(text, |_| &POLICIES).map_err(|error| match error {
            SpecError::Path { name, .. } => IoError::BackEnd(name),
            other => IoError::Spec(other),
        })?;
        Ok(IoPair { client: spec.client.try_into()?, server: spec.server.try_into()? })
    }
}

impl fmt::Display for IoPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.client, self.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_parse_and_print() {
        for (text, canonical) in [
            ("xdp", "xdp:spin"),
            ("packet:block", "packet:block"),
            ("xdp:busy-poll,usecs=20", "xdp:busy-poll,usecs=20"),
            ("xdp:mode=generic,zerocopy=off,adaptive", "xdp:adaptive,mode=generic,zero-copy=off"),
            ("packet:favour=rate", "packet:spin,favour=rate"),
        ] {
            let spec: IoSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), canonical);
            assert_eq!(canonical.parse(), Ok(spec));
        }
        // As in every path spec, the server inherits the policy.
        assert_eq!("packet:block/xdp".parse::<IoPair>().unwrap().to_string(), "packet:block/xdp:block");
        assert_eq!("xdp:spin/packet:block".parse::<IoPair>().unwrap().to_string(), "xdp:spin/packet:block");
        assert_eq!("xdp:block".parse::<IoPair>().unwrap().to_string(), "xdp:block/xdp:block");
    }

    #[test]
    fn mistakes_list_existing_names() {
        for (text, part) in [
            ("dpdk", "there are: xdp, packet"),
            ("", "no packet ring \"\""),
            ("udp:spin", "no packet ring \"udp\""),
            ("xdp:queue=3", "xdp has no option \"queue\" here; there are: mode, zero-copy, usecs"),
            ("xdp:poll", "not a wait policy of xdp; there are: spin, busy-poll, block, adaptive"),
            ("xdp:spin,block", "two wait policies"),
            ("packet:mode=native", "packet has no option \"mode\"; there are: l3, favour, dscp, usecs"),
            ("xdp:favour=rate", "xdp has no option \"favour\""),
            ("xdp:mode=fast", "mode takes native|generic"),
            ("xdp:usecs=20", "usecs belongs to busy-poll and adaptive, not to spin"),
            ("xdp:busy-poll,usecs=0", "usecs takes 1..1000000"),
        ] {
            let message = text.parse::<IoSpec>().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn words_become_requests_to_a_device() {
        let spec: IoSpec = "xdp:busy-poll,mode=native,zerocopy=off".parse().unwrap();
        let config = spec.config();
        assert_eq!((config.mode, config.zero_copy, config.busy_poll_us), (Some(Mode::Native), false, Some(50)));
        assert_eq!(spec.wait(), Wait::BusyPoll);
        let required = |text: &str| text.parse::<IoSpec>().unwrap().required().collect::<Vec<_>>();
        assert_eq!(required("xdp:mode=native,zero-copy=on"), [Feature::Native, Feature::ZeroCopy]);
        assert!(["xdp", "packet", "xdp:mode=generic,zero-copy=off"].iter().all(|text| required(text).is_empty()));
        let spec: IoSpec = "packet:adaptive,usecs=7,favour=rate".parse().unwrap();
        assert_eq!((spec.config().favour, spec.config().busy_poll_us), (Favour::Rate, None));
        assert_eq!(spec.wait(), Wait::Adaptive { spin: Duration::from_micros(7) });
    }
}
