//! Path specs: `udp:spin`, `tcp:block,nodelay=off/spin`, `udp:busy-poll,usecs=20/udp:block`.
//!
//! ```text
//!   SPEC = SIDE ['/' SIDE]     SIDE = PATH [':' WORDS] | WORDS     WORDS = WORD {',' WORD}     WORD = POLICY | NAME=VALUE
//! ```
//! The first side is the client's. The server's side inherits the policy if it names none, and on the same path each option that
//! it does not set, except options of a policy that it does not share, and those that need an option which it does not have:
//! `napi-usecs` beside `napi=off`.

use std::fmt;
use std::str::FromStr;

use hairpin_sys::wait::Policy;
use serde::{Deserialize, Serialize};

use crate::option::{
    BUDGET, BUSY_USECS, DEFAULT_USECS, L3, NAPI, NAPI_USECS, OptionDef, Options, PREFER, RING, SUBMIT, SUSPEND_USECS, USECS,
    ValueError, WAIT, ZERO_COPY,
};
use crate::path::{Path, Speaks};
use crate::paths::{PATHS, by_name};

/// The paths of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Spec {
    /// The side that sends requests.
    pub client: SideSpec,
    /// The side that answers.
    pub server: SideSpec,
}

/// The path of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideSpec {
    pub path: &'static Path,
    /// The thread's wait policy.
    pub policy: Policy,
    /// Options given, without those at their default.
    pub options: Options,
}

impl SideSpec {
    /// Protocol of this side.
    pub fn speaks(&self) -> Speaks {
        self.path.speaks(&self.options)
    }

    /// The path's name, plus the protocol if the options change it.
    fn in_words(&self) -> String {
        let (name, speaks) = (self.path.name, self.speaks());
        match speaks == self.path.speaks {
            true => name.into(),
            false => format!("{name} with l3={}", self.options.get(&L3).unwrap_or_default()),
        }
    }

    /// The same path without IP, if it can do that.
    fn below_ip(mut self) -> SideSpec {
        if self.path.takes(&L3) && self.options.get(&L3).is_none() {
            // Cannot fail: "off" is one of the values, and the option is not set yet.
            let _ = self.options.add(&L3, "off");
        }
        self
    }

    fn shaped_as_ptp(mut self) -> Result<SideSpec, SpecError> {
        if !self.path.takes(&L3) {
            return Err(SpecError::Shape(self.path.name));
        }
        self.options.set(&L3, "ptp")?;
        Ok(self)
    }

    /// Time for which the kernel is asked to poll the devices that the sockets' packets come from, in microseconds.
    pub fn device_polling_usecs(&self) -> Option<u32> {
        let in_ring = || self.options.get(&NAPI).map(|_| self.options.number(&NAPI_USECS).unwrap_or(DEFAULT_USECS));
        let busy_poll = (self.policy == Policy::BusyPoll).then(|| self.usecs());
        busy_poll.or_else(|| self.options.number(&BUSY_USECS)).or_else(in_ring)
    }

    /// Polling time of `busy-poll` and `adaptive`, in microseconds.
    pub fn usecs(&self) -> u32 {
        self.options.number(&USECS).unwrap_or(DEFAULT_USECS)
    }
}

/// Reason why a text is not a path spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Unknown path.
    #[error("there is no path \"{name}\"{nearest}; there are: {known}")]
    Path {
        name: String,
        /// ` (did you mean …?)`, or empty.
        nearest: String,
        /// The known paths.
        known: String,
    },
    /// A word that is neither a policy nor an option.
    #[error("\"{word}\" is not a wait policy of {path}{nearest}; there are: {known}")]
    Policy {
        path: &'static str,
        word: String,
        /// ` (did you mean …?)`, or empty.
        nearest: String,
        /// The known policies.
        known: String,
    },
    /// Unknown option.
    #[error("{path} has no option \"{name}\"{nearest}; there are: {known}")]
    Option {
        path: &'static str,
        name: String,
        /// ` (did you mean …?)`, or empty.
        nearest: String,
        /// The known options.
        known: String,
    },
    /// A value that the option does not allow.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// `usecs` with a policy that does not poll for a time.
    #[error("usecs belongs to busy-poll and adaptive, not to {0}")]
    Usecs(Policy),
    /// An option without the policy or option that it needs to have an effect.
    #[error("{option} belongs to {to}")]
    Belongs {
        option: &'static str,
        /// The policies or options that it goes with.
        to: &'static str,
    },
    /// Two policies for one side.
    #[error("\"{0}\" names two wait policies for one side")]
    TwoPolicies(String),
    /// Two sides with different protocols.
    #[error("{client} and {server} do not speak the same, so they cannot be the two sides of one path")]
    Mixed {
        /// The client's path.
        client: String,
        /// The server's path.
        server: String,
    },
    /// A path whose messages cannot have the shape of PTP events.
    #[error("{0} sends no frames of its own, so they have no shape: --probe-shape takes packet or xdp")]
    Shape(&'static str),
    /// No side, or more than two.
    #[error("\"{0}\" is not a path spec: write PATH, PATH:POLICY or CLIENT/SERVER, such as udp:spin/block")]
    Form(String),
}

impl Spec {
    /// The client's side towards a reflector, which has no other side: without IP, if the path can do that.
    pub fn towards_reflector(self) -> Spec {
        let client = self.client.below_ip();
        Spec { server: client.clone(), client }
    }

    /// The same path with frames in the shape of PTP events.
    ///
    /// # Errors
    /// The path of a side that cannot do that.
    pub fn shaped_as_ptp(self) -> Result<Spec, SpecError> {
        Ok(Spec { client: self.client.shaped_as_ptp()?, server: self.server.shaped_as_ptp()? })
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        Spec::parse(text, |path| path.policies)
    }
}

impl Spec {
    /// The same grammar for a verb with wait policies of its own: `policies` gives those it supports on a path, the default
    /// first.
    ///
    /// # Errors
    /// The wrong word, with the known ones.
    pub fn parse(text: &str, policies: Policies) -> Result<Spec, SpecError> {
        let sides: Vec<&str> = text.split('/').collect();
        let (first, second) = match sides[..] {
            [first] => (first, None),
            [first, second] if !second.is_empty() => (first, Some(second)),
            _ => return Err(SpecError::Form(text.into())),
        };
        let client = client_side(first, policies)?;
        let server = match second {
            None => client.clone(),
            Some(second) => server_side(second, &client, policies)?,
        };
        if client.speaks() != server.speaks() {
            return Err(SpecError::Mixed { client: client.in_words(), server: server.in_words() });
        }
        Ok(Spec { client, server })
    }
}

/// The wait policies supported on a path; the first is the default.
pub type Policies = fn(&'static Path) -> &'static [Policy];

fn client_side(text: &str, policies: Policies) -> Result<SideSpec, SpecError> {
    let (name, words) = text.split_once(':').map_or((text, None), |(name, words)| (name, Some(words)));
    let path = find_path(name)?;
    let default = policies(path)[0];
    match words {
        None => Ok(SideSpec { path, policy: default, options: Options::default() }),
        Some(words) => read_words(path, words, policies(path), default, &Options::default()),
    }
}

fn server_side(text: &str, client: &SideSpec, policies: Policies) -> Result<SideSpec, SpecError> {
    let (name, words) = text.split_once(':').map_or((text, None), |(name, words)| (name, Some(words)));
    // A lone word is a path, or otherwise words for the client's path.
    let (path, words) = match (by_name(name), words) {
        (Some(path), words) => (path, words),
        (None, Some(_)) => (find_path(name)?, words),
        (None, None) if is_nearly_a_path(text) => (find_path(text)?, None),
        (None, None) => (client.path, Some(text)),
    };
    let same = path.name == client.path.name;
    let policies = policies(path);
    let inherited = if policies.contains(&client.policy) { client.policy } else { policies[0] };
    let from = if same { client.options.clone() } else { Options::default() };
    match words {
        None => Ok(SideSpec { path, policy: inherited, options: from }),
        Some(words) => read_words(path, words, policies, inherited, &from),
    }
}

/// Adds the client's options that the server's words do not name, except those that would have no effect there.
fn inherit(
    path: &'static Path,
    mut options: Options,
    client: &Options,
    named: &[&'static str],
    policy: Policy,
) -> Result<Options, ValueError> {
    let next = |options: &Options| {
        path.options.iter().copied().find_map(|def| {
            let value = client.get(def)?;
            let is_missing = !named.contains(&def.name) && options.get(def).is_none();
            (is_missing && is_inherited(def, policy, client, options)).then_some((def, value))
        })
    };
    // One option may have an effect only once another is there.
    while let Some((def, value)) = next(&options) {
        options.add(def, value)?;
    }
    Ok(options)
}

/// True if a server's side with this policy and these options inherits a client's option that it does not name.
fn is_inherited(def: &OptionDef, policy: Policy, client: &Options, server: &Options) -> bool {
    [client, server].iter().all(|options| belongs_to(def.name, policy, options).is_none())
}

/// The side that `words` describe; it inherits from these options.
fn read_words(
    path: &'static Path,
    words: &str,
    policies: &[Policy],
    default: Policy,
    from: &Options,
) -> Result<SideSpec, SpecError> {
    let mut options = Options::default();
    let mut named = Vec::new();
    let mut policy = None;
    for word in words.split(',') {
        match word.split_once('=') {
            Some((name, value)) => {
                let def = find_option(path, name)?;
                options.add(def, value)?;
                named.push(def.name);
            }
            None => {
                let found = word.parse::<Policy>().ok().filter(|found| policies.contains(found));
                let found = found.ok_or_else(|| unknown_policy(path, policies, word))?;
                if policy.replace(found).is_some() {
                    return Err(SpecError::TwoPolicies(words.into()));
                }
            }
        }
    }
    let policy = policy.unwrap_or(default);
    let options = inherit(path, options, from, &named, policy)?;
    if options.get(&USECS).is_some() && !policy.takes_usecs() {
        return Err(SpecError::Usecs(policy));
    }
    let out_of_place = options.iter().find_map(|(option, _)| Some((option, belongs_to(option, policy, &options)?)));
    match out_of_place {
        Some((option, to)) => Err(SpecError::Belongs { option, to }),
        None => Ok(SideSpec { path, policy, options }),
    }
}

/// The policies or options that `option` needs to have an effect; `None` if they are there.
fn belongs_to(option: &str, policy: Policy, options: &Options) -> Option<&'static str> {
    let sqpoll = options.get(&SUBMIT) == Some("sqpoll");
    let polls_in_epoll = policy == Policy::Epoll && options.get(&BUSY_USECS).is_some();
    let (is_missing, to) = match option {
        name if name == USECS.name => (!policy.takes_usecs(), "busy-poll and adaptive"),
        name if name == BUSY_USECS.name => (policy != Policy::Epoll, "epoll"),
        name if name == BUDGET.name || name == PREFER.name => {
            (policy != Policy::BusyPoll && !polls_in_epoll, "busy-poll, and to epoll with busy-usecs")
        }
        name if name == SUSPEND_USECS.name => {
            (!polls_in_epoll || options.get(&PREFER) != Some("on"), "epoll with busy-usecs and prefer=on")
        }
        name if name == WAIT.name => (policy != Policy::Block, "block"),
        name if name == RING.name => (sqpoll, "submit=call: with sqpoll the kernel's thread makes the completions"),
        name if name == NAPI.name => (
            policy == Policy::Spin && !sqpoll,
            "block or submit=sqpoll: a thread that spins never waits in the kernel, which polls then",
        ),
        name if name == NAPI_USECS.name => {
            let polls = options.get(&NAPI).is_some() && belongs_to(NAPI.name, policy, options).is_none();
            (!polls, "napi=dynamic and napi=static")
        }
        _ => return None,
    };
    is_missing.then_some(to)
}

/// True for a word that is one slip away from a path's name, and not from a policy's.
fn is_nearly_a_path(word: &str) -> bool {
    let is_near = |name: &str| strsim::damerau_levenshtein(word, name) <= 1;
    PATHS.iter().any(|path| is_near(path.name)) && !Policy::ALL.iter().any(|policy| is_near(policy.name()))
}

fn find_path(name: &str) -> Result<&'static Path, SpecError> {
    let names: Vec<&str> = PATHS.iter().map(|path| path.name).collect();
    by_name(name).ok_or_else(|| SpecError::Path { name: name.into(), nearest: nearest(name, &names), known: names.join(", ") })
}

fn find_option(path: &'static Path, name: &str) -> Result<&'static OptionDef, SpecError> {
    let names: Vec<&str> = path.options.iter().map(|def| def.name).collect();
    let name = option_name(name);
    path.options.iter().copied().find(|def| def.name == name).ok_or_else(|| SpecError::Option {
        path: path.name,
        name: name.into(),
        nearest: nearest(name, &names),
        known: if names.is_empty() { "none".into() } else { names.join(", ") },
    })
}

/// The name of an option, also in the original spelling of bounce and stream.
fn option_name(name: &str) -> &str {
    if name == "zerocopy" { ZERO_COPY.name } else { name }
}

fn unknown_policy(path: &'static Path, policies: &[Policy], word: &str) -> SpecError {
    let names: Vec<&str> = policies.iter().map(|policy| policy.name()).collect();
    SpecError::Policy { path: path.name, word: word.into(), nearest: nearest(word, &names), known: names.join(", ") }
}

fn nearest(word: &str, known: &[&str]) -> String {
    let close = known.iter().map(|name| (strsim::damerau_levenshtein(word, name), name)).min();
    close.filter(|(distance, _)| *distance <= 2).map_or(String::new(), |(_, name)| format!(" (did you mean {name}?)"))
}

impl fmt::Display for SideSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path.name, self.policy)?;
        self.options.iter().try_for_each(|(name, value)| write!(f, ",{name}={value}"))
    }
}

impl fmt::Display for Spec {
    /// Canonical form: both sides written out, without options at their default, except those that the server would otherwise
    /// inherit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.client, self.server)?;
        if self.client.path.name != self.server.path.name {
            return Ok(());
        }
        let (client, server) = (&self.client.options, &self.server.options);
        let options = self.client.path.options.iter();
        options
            .filter(|def| is_inherited(def, self.server.policy, client, server))
            .filter(|def| client.get(def).is_some() && server.get(def).is_none())
            .try_for_each(|def| write!(f, ",{}={}", def.name, def.default))
    }
}

impl From<Spec> for String {
    fn from(spec: Spec) -> String {
        spec.to_string()
    }
}

impl TryFrom<String> for Spec {
    type Error = SpecError;

    fn try_from(text: String) -> Result<Spec, SpecError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        text.parse::<Spec>().map_or_else(|error| error.to_string(), |spec| spec.to_string())
    }

    #[test]
    fn sides_inherit() {
        for (text, form) in [
            ("tcp", "tcp:block/tcp:block"),
            ("udp:spin/block", "udp:spin/udp:block"),
            ("udp:spin/udp", "udp:spin/udp:spin"),
            ("tcp:spin,quickack=on", "tcp:spin,quickack=on/tcp:spin,quickack=on"),
            ("tcp:quickack=on/spin", "tcp:block,quickack=on/tcp:spin,quickack=on"),
            ("tcp:nodelay=on,quickack=kernel", "tcp:block/tcp:block"),
            ("tcp:nodelay=off/nodelay=on", "tcp:block,nodelay=off/tcp:block,nodelay=on"),
            ("udp:adaptive,usecs=20/block", "udp:adaptive,usecs=20/udp:block"),
            ("udp:adaptive,usecs=20/adaptive,usecs=9", "udp:adaptive,usecs=20/udp:adaptive,usecs=9"),
            ("memory", "memory:spin/memory:spin"),
            (
                "udp:epoll,busy-usecs=50,prefer=on,suspend-usecs=9/block",
                "udp:epoll,busy-usecs=50,prefer=on,suspend-usecs=9/udp:block",
            ),
            (
                "udp:epoll,busy-usecs=50,prefer=on/prefer=off",
                "udp:epoll,busy-usecs=50,prefer=on/udp:epoll,busy-usecs=50,prefer=off",
            ),
            (
                "udp:epoll,busy-usecs=50,prefer=on,suspend-usecs=20k/epoll",
                "udp:epoll,busy-usecs=50,prefer=on,suspend-usecs=20000/udp:epoll,busy-usecs=50,prefer=on,suspend-usecs=20000",
            ),
            ("xdp:zerocopy=off", "xdp:block,zero-copy=off/xdp:block,zero-copy=off"),
            ("xdp:zero-copy=on/zerocopy=off", "xdp:block,zero-copy=on/xdp:block,zero-copy=off"),
            ("uring-udp:block,napi=dynamic,napi-usecs=20/spin", "uring-udp:block,napi=dynamic,napi-usecs=20/uring-udp:spin"),
            (
                "uring-udp:napi=dynamic,napi-usecs=20/napi=off",
                "uring-udp:block,napi=dynamic,napi-usecs=20/uring-udp:block,napi=off",
            ),
            (
                "uring-udp:napi=dynamic,napi-usecs=20/napi=static",
                "uring-udp:block,napi=dynamic,napi-usecs=20/uring-udp:block,napi=static,napi-usecs=20",
            ),
            (
                "udp:epoll,busy-usecs=50,prefer=on,suspend-usecs=9/prefer=off",
                "udp:epoll,busy-usecs=50,prefer=on,suspend-usecs=9/udp:epoll,busy-usecs=50,prefer=off",
            ),
            (
                "udp:epoll,busy-usecs=50,budget=9,prefer=on,suspend-usecs=9/busy-usecs=0",
                "udp:epoll,budget=9,busy-usecs=50,prefer=on,suspend-usecs=9/udp:epoll,busy-usecs=0",
            ),
            ("uring-udp:ring=defer-taskrun/submit=sqpoll", "uring-udp:block,ring=defer-taskrun/uring-udp:block,submit=sqpoll"),
        ] {
            assert_eq!(canonical(text), form, "{text}");
            assert_eq!(canonical(form), form, "{text}");
        }
    }

    #[test]
    fn mistakes_list_existing_and_similar_names() {
        for (text, part) in [
            ("tpc", "there is no path \"tpc\" (did you mean tcp?); there are: tcp, tcp-crr, udp"),
            ("udp:spni", "\"spni\" is not a wait policy of udp (did you mean spin?)"),
            ("udp:nodelay=on", "udp has no option \"nodelay\""),
            ("tcp:nodly=on", "(did you mean nodelay?)"),
            ("tcp:dscp=64", "dscp=64: dscp takes 0..63"),
            ("tcp:spin,block", "two wait policies"),
            ("udp:spin,usecs=5", "usecs belongs to busy-poll and adaptive, not to spin"),
            ("udp:epoll,busy-usecs=50,suspend-usecs=9", "suspend-usecs belongs to epoll with busy-usecs and prefer=on"),
            ("udp:busy-poll,prefer=on,suspend-usecs=9", "suspend-usecs belongs to epoll with busy-usecs and prefer=on"),
            ("uring-udp:napi=dynamic/napi=off,napi-usecs=20", "napi-usecs belongs to napi=dynamic and napi=static"),
            ("udp/tcp", "udp and tcp do not speak the same"),
            ("pipe/eventfd", "do not speak the same"),
            ("memory:block", "not a wait policy of memory"),
            ("udp:spin/x", "\"x\" is not a wait policy of udp"),
            ("xdp:spin/upd", "there is no path \"upd\" (did you mean udp?)"),
            ("xdp:spin/spi", "\"spi\" is not a wait policy of xdp (did you mean spin?)"),
            ("udp//", "is not a path spec"),
            ("", "there is no path \"\""),
            ("udp/", "is not a path spec"),
        ] {
            let message = canonical(text);
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn parsing_is_canonical_after_one_pass(text in "(tcp|udp|unix|pipe)?(:(spin|block|poll|adaptive|usecs=9|mss=99|dscp=1)(,(spin|nodelay=off|sndbuf=4K))?)?(/(tcp|spin|poll|quickack=on))?") {
            if let Ok(spec) = text.parse::<Spec>() {
                let form = spec.to_string();
                prop_assert_eq!(&form.parse::<Spec>().unwrap(), &spec, "{}", form);
            }
        }

        #[test]
        fn nothing_panics(text in ".{0,40}") {
            let _ = text.parse::<Spec>();
        }
    }
}
