//! How `bounce` and `stream` receive and send: a back end, a wait policy and options, as on the command line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hairpin_packet::device::{Config, Favour};
use hairpin_packet::granted::Mode;
use hairpin_packet::ring::Wait;
use hairpin_sys::wait::Policy;
use serde::{Deserialize, Serialize};

/// Policies of rings; the first is the default.
const POLICIES: [Policy; 4] = [Policy::Spin, Policy::BusyPoll, Policy::Block, Policy::Adaptive];
/// How long the kernel polls, or the thread spins, where `usecs` does not say.
const USECS: u32 = 50;

/// A way to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackEndName {
    /// AF_XDP.
    Xdp,
    /// AF_PACKET.
    Packet,
}

impl BackEndName {
    /// Every one, the fastest first.
    pub const ALL: [BackEndName; 2] = [BackEndName::Xdp, BackEndName::Packet];

    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            BackEndName::Xdp => "xdp",
            BackEndName::Packet => "packet",
        }
    }
}

/// One side: back end, policy, options. What is not given is the back end's own choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IoSpec {
    /// The back end.
    pub back_end: BackEndName,
    /// What the thread does until a frame is there.
    pub policy: Policy,
    /// `native` or `generic`, if asked for.
    pub mode: Option<Mode>,
    /// `zerocopy=off` does without.
    pub zero_copy: bool,
    /// With `favour=rate` frames are handed over in blocks.
    pub rate: bool,
    /// For busy-poll and adaptive.
    pub usecs: Option<u32>,
}

/// Why a text is no [`IoSpec`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// No such back end.
    #[error("there is no packet io \"{0}\"; there are: xdp, packet")]
    BackEnd(String),
    /// A word that is neither a policy nor an option.
    #[error("\"{word}\" is no wait policy of {io}; there are: spin, busy-poll, block, adaptive")]
    Policy {
        /// The back end.
        io: &'static str,
        /// What was given.
        word: String,
    },
    /// Two policies.
    #[error("\"{0}\" names two wait policies")]
    TwoPolicies(String),
    /// No such option.
    #[error("{io} has no option \"{name}\"; there are: {known}")]
    Option {
        /// The back end.
        io: &'static str,
        /// What was given.
        name: String,
        /// Those that exist.
        known: &'static str,
    },
    /// A value that the option does not take.
    #[error("{name}={value}: {name} takes {takes}")]
    Value {
        /// The option.
        name: String,
        /// What was given.
        value: String,
        /// What it takes.
        takes: &'static str,
    },
    /// `usecs` with a policy that does not poll for a time.
    #[error("usecs belongs to busy-poll and adaptive, not to {0}")]
    Usecs(Policy),
}

impl FromStr for IoSpec {
    type Err = IoError;

    fn from_str(text: &str) -> Result<IoSpec, IoError> {
        let (name, words) = text.split_once(':').map_or((text, None), |(name, words)| (name, Some(words)));
        let back_end = BackEndName::ALL.into_iter().find(|back_end| back_end.name() == name);
        let back_end = back_end.ok_or_else(|| IoError::BackEnd(name.into()))?;
        let mut spec = IoSpec::from(back_end);
        let mut policy = None;
        for word in words.into_iter().flat_map(|words| words.split(',')) {
            match word.split_once('=') {
                Some((name, value)) => spec.set(name, value)?,
                None => {
                    let found = word.parse().ok().filter(|found| POLICIES.contains(found));
                    let found = found.ok_or_else(|| IoError::Policy { io: back_end.name(), word: word.into() })?;
                    if policy.replace(found).is_some() {
                        return Err(IoError::TwoPolicies(text.into()));
                    }
                }
            }
        }
        spec.policy = policy.unwrap_or(spec.policy);
        if spec.usecs.is_some() && !spec.policy.takes_usecs() {
            return Err(IoError::Usecs(spec.policy));
        }
        Ok(spec)
    }
}

impl IoSpec {
    fn set(&mut self, name: &str, value: &str) -> Result<(), IoError> {
        let bad = |takes| IoError::Value { name: name.into(), value: value.into(), takes };
        match (self.back_end, name) {
            (BackEndName::Xdp, "mode") => {
                self.mode = Some(match value {
                    "native" => Mode::Native,
                    "generic" => Mode::Generic,
                    _ => return Err(bad("native|generic")),
                });
            }
            (BackEndName::Xdp, "zerocopy") => self.zero_copy = switch(value).ok_or_else(|| bad("on|off"))?,
            (BackEndName::Packet, "favour") => {
                self.rate = match value {
                    "rate" => true,
                    "delay" => false,
                    _ => return Err(bad("delay|rate")),
                };
            }
            (_, "usecs") => {
                let usecs = value.parse().ok().filter(|usecs| (1..=1_000_000).contains(usecs));
                self.usecs = Some(usecs.ok_or_else(|| bad("1..1000000"))?);
            }
            (BackEndName::Xdp, _) => {
                return Err(IoError::Option { io: "xdp", name: name.into(), known: "mode, zerocopy, usecs" });
            }
            (BackEndName::Packet, _) => {
                return Err(IoError::Option { io: "packet", name: name.into(), known: "favour, usecs" });
            }
        }
        Ok(())
    }

    /// What is asked of the device; filter and sizes are the caller's.
    pub fn config(&self) -> Config {
        Config {
            mode: self.mode,
            zero_copy: self.zero_copy,
            busy_poll_us: (self.policy == Policy::BusyPoll).then(|| self.usecs.unwrap_or(USECS)),
            favour: if self.rate { Favour::Rate } else { Favour::Delay },
            ..Config::default()
        }
    }

    /// What a receive does until a frame is there.
    pub fn wait(&self) -> Wait {
        match self.policy {
            Policy::BusyPoll => Wait::BusyPoll,
            Policy::Block | Policy::Poll | Policy::Epoll => Wait::Block,
            Policy::Adaptive => Wait::Adaptive { spin: Duration::from_micros(self.usecs.unwrap_or(USECS).into()) },
            Policy::Spin => Wait::Spin,
        }
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

impl fmt::Display for IoSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.back_end.name(), self.policy)?;
        if let Some(mode) = self.mode {
            write!(f, ",mode={mode}")?;
        }
        if !self.zero_copy {
            f.write_str(",zerocopy=off")?;
        }
        if self.rate {
            f.write_str(",favour=rate")?;
        }
        self.usecs.map_or(Ok(()), |usecs| write!(f, ",usecs={usecs}"))
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
    /// The client's.
    pub client: IoSpec,
    /// The server's; the client's if it was not given.
    pub server: IoSpec,
}

impl From<BackEndName> for IoSpec {
    /// With the default policy and nothing else asked for.
    fn from(back_end: BackEndName) -> IoSpec {
        IoSpec { back_end, policy: POLICIES[0], mode: None, zero_copy: true, rate: false, usecs: None }
    }
}

impl IoPair {
    /// Both sides alike.
    pub fn same(io: IoSpec) -> IoPair {
        IoPair { client: io.clone(), server: io }
    }
}

impl FromStr for IoPair {
    type Err = IoError;

    fn from_str(text: &str) -> Result<IoPair, IoError> {
        let (client, server) = text.split_once('/').unwrap_or((text, text));
        Ok(IoPair { client: client.parse()?, server: server.parse()? })
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
            ("xdp:mode=generic,zerocopy=off,adaptive", "xdp:adaptive,mode=generic,zerocopy=off"),
            ("packet:favour=rate", "packet:spin,favour=rate"),
        ] {
            let spec: IoSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), canonical);
            assert_eq!(canonical.parse(), Ok(spec));
        }
        assert_eq!("packet:block/xdp".parse::<IoPair>().unwrap().to_string(), "packet:block/xdp:spin");
        assert_eq!("xdp:block".parse::<IoPair>().unwrap().to_string(), "xdp:block/xdp:block");
    }

    #[test]
    fn slips_say_what_there_is() {
        for (text, part) in [
            ("dpdk", "there are: xdp, packet"),
            ("", "no packet io \"\""),
            ("xdp:poll", "no wait policy of xdp; there are: spin, busy-poll, block, adaptive"),
            ("xdp:spin,block", "two wait policies"),
            ("packet:mode=native", "packet has no option \"mode\"; there are: favour, usecs"),
            ("xdp:favour=rate", "there are: mode, zerocopy, usecs"),
            ("xdp:mode=fast", "mode takes native|generic"),
            ("xdp:usecs=20", "usecs belongs to busy-poll and adaptive, not to spin"),
            ("xdp:busy-poll,usecs=0", "usecs takes 1..1000000"),
        ] {
            let message = text.parse::<IoSpec>().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn words_become_what_is_asked_of_a_device() {
        let spec: IoSpec = "xdp:busy-poll,mode=native,zerocopy=off".parse().unwrap();
        let config = spec.config();
        assert_eq!((config.mode, config.zero_copy, config.busy_poll_us), (Some(Mode::Native), false, Some(USECS)));
        assert_eq!(spec.wait(), Wait::BusyPoll);
        let spec: IoSpec = "packet:adaptive,usecs=7,favour=rate".parse().unwrap();
        assert_eq!((spec.config().favour, spec.config().busy_poll_us), (Favour::Rate, None));
        assert_eq!(spec.wait(), Wait::Adaptive { spin: Duration::from_micros(7) });
    }
}
