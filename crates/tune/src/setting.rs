//! A user's request: `NAME=VALUE`, or `NAME@QUEUE=VALUE` for the NAPI instance of one queue.

use std::fmt;
use std::str::FromStr;

use crate::knob::{Control, Knob};
use crate::knobs::{all, knob};
use crate::read::Read;

/// A knob, and the value to set it to.
#[derive(Clone)]
pub struct Setting {
    /// The knob.
    pub knob: &'static Knob,
    /// The way to change it.
    pub control: &'static Control,
    /// The queue whose NAPI instance alone is meant: `rx-2` and the like, or `2`.
    pub queue: Option<String>,
    /// The value, in its canonical form.
    pub value: String,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Setting) -> bool {
        self.name() == other.name() && self.value == other.value
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name(), self.value)
    }
}

/// Why a text is not a valid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// It does not have the form NAME=VALUE.
    #[error("\"{0}\" is not NAME=VALUE, such as rx_usecs=0; `hairpin tune list` names all")]
    Shape(String),
    /// No knob has this name.
    #[error("no setting \"{name}\"{nearest}; `hairpin tune list` names all that can be changed")]
    Unknown {
        name: String,
        /// `: did you mean x?`, or nothing.
        nearest: String,
    },
    /// The knob is only reported.
    #[error("{0} is only reported: it is a fact of this host, or set at boot; see `hairpin tune list {0}`")]
    Reported(String),
    /// The setting is not one of a queue.
    #[error("{0} has no value for one queue: write it without @")]
    NotOfQueue(&'static str),
    /// The text names no queue.
    #[error(
        "\"{queue}\" is no queue: write {name}@rx-2, @tx-2 or @napi-2, as `hairpin tune list {name} -i IF` names them, or @2 for the receive queue"
    )]
    Queue { name: &'static str, queue: String },
    /// The knob does not accept this value.
    #[error("{name} cannot be \"{value}\": it is {values}")]
    Value {
        name: &'static str,
        value: String,
        /// The values that it accepts.
        values: String,
    },
}

impl Setting {
    /// The knob called `name` set to `value`.
    ///
    /// # Errors
    /// No knob that can be changed has this name, or it does not accept this value.
    pub fn new(name: &str, value: &str) -> Result<Setting, SettingError> {
        let (name, queue) = name.split_once('@').map_or((name, None), |(name, queue)| (name, Some(queue)));
        let Some((knob, control)) = knob(name).and_then(|knob| Some((knob, knob.change.as_ref()?))) else {
            return Err(unknown(name));
        };
        let canonical = control.values.canonical(value);
        let value = canonical.ok_or_else(|| SettingError::Value {
            name: knob.name,
            value: value.to_owned(),
            values: control.values.to_string(),
        })?;
        let queue = queue.map(|queue| queue_of(knob, queue)).transpose()?;
        Ok(Setting { knob, control, queue, value })
    }

    /// The knob's name, and the queue if it is of one.
    #[must_use]
    pub fn name(&self) -> String {
        let queue = self.queue.as_ref().map(|queue| format!("@{queue}")).unwrap_or_default();
        format!("{}{queue}", self.knob.name)
    }
}

fn queue_of(knob: &'static Knob, queue: &str) -> Result<String, SettingError> {
    if !matches!(knob.read, Read::Napi(_)) {
        return Err(SettingError::NotOfQueue(knob.name));
    }
    let number = ["rx-", "tx-", "napi-"].iter().find_map(|kind| queue.strip_prefix(kind)).unwrap_or(queue);
    match number.parse::<u32>() {
        Ok(parsed) if parsed.to_string() == number => Ok(queue.to_owned()),
        _ => Err(SettingError::Queue { name: knob.name, queue: queue.to_owned() }),
    }
}

/// The error for a name that no setting has.
#[must_use]
pub fn unknown(name: &str) -> SettingError {
    if knob(name).is_some() {
        return SettingError::Reported(name.to_owned());
    }
    let distance = |other: &str| strsim::damerau_levenshtein(name, other);
    let near = all().filter(|knob| knob.change.is_some()).map(|knob| knob.name).min_by_key(|other| distance(other));
    let near = near.filter(|other| distance(other) <= 2.max(name.len() / 3));
    SettingError::Unknown {
        name: name.to_owned(),
        nearest: near.map(|near| format!(": did you mean {near}?")).unwrap_or_default(),
    }
}

impl FromStr for Setting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Setting, SettingError> {
        let (name, value) = text.split_once('=').ok_or_else(|| SettingError::Shape(text.to_owned()))?;
        Setting::new(name.trim(), value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Setting>().unwrap_err().to_string()
    }

    #[test]
    fn accepts_every_spelling_of_a_value_and_writes_it_one_way() {
        for (text, as_written) in [
            ("rx_usecs=0", "rx_usecs=0"),
            ("tcp_autocorking=off", "tcp_autocorking=0"),
            ("gro=1", "gro=on"),
            ("tcp_rmem_bytes=4096,131072,6291456", "tcp_rmem_bytes=4096 131072 6291456"),
            ("irq_affinity=0,1,2", "irq_affinity=0-2"),
            ("rps_cpus=none", "rps_cpus=none"),
            ("idle_states=all", "idle_states=all"),
            ("rx_usecs=1k", "rx_usecs=1000"),
            ("tcp_rmem_bytes=4Ki,131072,6M", "tcp_rmem_bytes=4096 131072 6000000"),
            ("napi_threaded@2=1", "napi_threaded@2=1"),
            ("gro_flush_timeout_ns@tx-10=20k", "gro_flush_timeout_ns@tx-10=20000"),
        ] {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), as_written);
        }
    }

    #[test]
    fn rejects_unknown_settings_and_suggests_the_nearest() {
        assert!(error("rx_usecs").contains("NAME=VALUE"));
        assert!(error("rx_usec=0").contains("did you mean rx_usecs?"), "{}", error("rx_usec=0"));
        assert!(error("mitigations=off").contains("only reported"));
        assert_eq!(error("gro@0=on"), "gro has no value for one queue: write it without @");
        for queue in ["", "x", "rx-", "rx-02", "+1", "rx-0@1", "-1"] {
            assert!(error(&format!("napi_threaded@{queue}=1")).contains("is no queue: write napi_threaded@rx-2"), "{queue}");
        }
        assert_eq!(error("gro=maybe"), "gro cannot be \"maybe\": it is on or off");
        for text in [
            "rx_usecs=-1",
            "rx_usecs=4294967296",
            "idle_states=some",
            "tcp_rmem_bytes=1,2",
            "qdisc=a b",
            "qdisc=../x",
            "irq_affinity=",
        ] {
            assert!(matches!(text.parse::<Setting>(), Err(SettingError::Value { .. })), "{text}");
        }
    }
}
