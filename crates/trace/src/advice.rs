//! Advice: a sentence, and every name of a setting in it, so that a test can look each up.

/// A setting, by the name under which it is set or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A knob of the host: its page is docs/knobs.md.
    Knob(&'static str),
    /// An option of a path: path, option.
    Option(&'static str, &'static str),
    /// A wait policy.
    Policy(&'static str),
    /// A flag of `hairpin ping`.
    Flag(&'static str),
    /// A key of `--link veth`.
    Link(&'static str),
}

impl Name {
    /// As it stands in a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Name::Knob(name) | Name::Option(_, name) | Name::Policy(name) | Name::Flag(name) | Name::Link(name) => name,
        }
    }
}

/// Advice to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    pub text: &'static str,
    /// The settings that it names.
    pub names: &'static [Name],
}

impl Advice {
    /// The text for a host with or without a cpuidle driver. Without one no demand is heeded (`cpuidle_idle_call` of
    /// kernel/sched/idle.c), and of advice that names one the last clause is left, which is about wait policies.
    pub(crate) fn for_host(self, has_idle_driver: bool) -> &'static str {
        let takes_driver = self.names.contains(&Name::Knob("cpu_dma_latency_us"));
        match self.text.rsplit_once("; ") {
            Some((_, last)) if takes_driver && !has_idle_driver => last,
            _ => self.text,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::causes::KINDS;
    use crate::detectors::DETECTORS;

    #[test]
    fn without_a_cpuidle_driver_no_demand_is_advised() {
        let causes = KINDS.iter().map(|kind| kind.advice);
        let mut changed = 0;
        for advice in causes.chain(DETECTORS.iter().map(|detector| detector.advice())) {
            let without = advice.for_host(false);
            for word in ["cpu_dma_latency_us", "idle_states", "guest_halt_poll_ns"] {
                assert!(!without.contains(word), "{without}");
            }
            assert_eq!(advice.for_host(true), advice.text);
            changed += u32::from(without != advice.text);
        }
        assert_eq!(changed, 3, "a cause, and two detectors");
    }

    #[test]
    fn the_names_are_exactly_the_settings_in_the_sentence() {
        let causes = KINDS.iter().map(|kind| (kind.name, kind.advice));
        for (of, advice) in causes.chain(DETECTORS.iter().map(|detector| (detector.name(), detector.advice()))) {
            assert!(!advice.names.is_empty(), "{of}: nothing to set");
            let words: Vec<&str> =
                advice.text.split([' ', ',', ';', ':', '(', ')', '.']).map(|word| word.trim_end_matches('=')).collect();
            let words: Vec<&str> = words.iter().map(|word| word.split_once('=').map_or(*word, |(name, _)| name)).collect();
            for name in advice.names {
                assert!(words.contains(&name.text()), "{of}: {:?} is not in: {}", name, advice.text);
            }
            for word in words.iter().filter(|word| word.contains('_') || word.starts_with("--")) {
                assert!(advice.names.iter().any(|name| name.text() == *word), "{of}: {word} is not in the advice's names");
            }
        }
    }
}
