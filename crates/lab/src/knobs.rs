//! Settings of the host as part of an arm: on for its blocks, off for the blocks of others, all restored at the end.
//!
//! ```text
//!   settings of every arm ─▶ plan (reads) ─▶ journal ─▶ block of arm B: its changes on ─▶ block of arm A: off ─▶ … ─▶ restored, or kept
//! ```
//! Between two switches it sums up the cores' time in idle states with an exit latency: there a setting may
//! increase latency as much as it saves.

use std::io::ErrorKind;
use std::net::ToSocketAddrs;
use std::time::Instant;

use hairpin_plan::path::LinkKind;
use hairpin_sys::host::Host;
use hairpin_tune::change::{Change, Trouble};
use hairpin_tune::journal::{About, Journal, JournalError};
use hairpin_tune::knob::Network;
use hairpin_tune::plan::PlanError;
use hairpin_tune::{Place, Setting, Tuning, network_of, plan, residency};

use crate::experiment::Switch;
use hairpin_session::address::{interface_of, local_address_towards};
use hairpin_session::error::Blame;
use hairpin_session::plan::Target;

/// Why an arm cannot have its settings.
#[derive(Debug, thiserror::Error)]
pub enum KnobError {
    /// This host lacks the setting, or it cannot be read.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The traffic does not pass the object of the setting.
    #[error(
        "{0} is a setting of this network namespace, and over veth the traffic is in namespaces of its own: try it over loopback, or to a HOST"
    )]
    OutOfReach(String),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A setting that was to stay is refused now; everything is restored.
    #[error("the settings are not kept, and all are put back: {0}")]
    Refused(Trouble),
    /// Some settings could not be restored.
    #[error("not everything could be put back: {0}; try `hairpin tune revert`")]
    Left(String),
}

/// The interface of this host that leads to a target; `None` for a link of Hairpin's own.
pub fn interface_towards(target: &Target) -> Option<String> {
    match target {
        Target::Link(_) | Target::Socket(_) => None,
        Target::Reflector(reflector) => Some(reflector.interface.clone()),
        Target::Host { host, port, .. } | Target::Echo { host, port } => {
            let address = (host.as_str(), *port).to_socket_addrs().ok()?.next()?;
            interface_of(local_address_towards(address)?)
        }
    }
}

impl KnobError {
    /// The exit code's kind.
    pub fn blame(&self) -> Blame {
        match self {
            KnobError::Plan(plan) if plan.is_missing() => Blame::Missing,
            KnobError::Plan(_) | KnobError::OutOfReach(_) => Blame::Usage,
            KnobError::Journal(JournalError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => Blame::Missing,
            KnobError::Journal(_) | KnobError::Refused(_) | KnobError::Left(_) => Blame::Failed,
        }
    }
}

/// The settings of all arms, in one entry of the journal.
pub struct Knobs<'h> {
    host: &'h dyn Host,
    tuning: Tuning<'h>,
    /// By arm: the indices of its changes in the tuning.
    arms: Vec<Vec<usize>>,
    /// The arm whose settings are on, since when, and the cores' deep idle time then in ns.
    since: Option<(usize, Instant, Option<u64>)>,
    /// By arm: elapsed time, and time of all cores together in deep idle states, in ns.
    spent: Vec<(u64, u64)>,
    cores: u64,
}

/// The changes that an arm's settings make on this host, for traffic to `target`. Only reads.
///
/// # Errors
/// This host lacks a setting, a value could not be read, or the traffic does not pass the object of the setting.
pub fn changes(host: &dyn Host, place: &Place<'_>, target: &Target, settings: &[Setting]) -> Result<Vec<Change>, KnobError> {
    let changes = plan(host, place, settings)?;
    let own = target.kind() == LinkKind::Veth;
    match changes.iter().find(|change| own && network_of(change) == Network::Own) {
        Some(change) => Err(KnobError::OutOfReach(change.knob.clone())),
        None => Ok(changes),
    }
}

impl<'h> Knobs<'h> {
    /// Writes the arms' changes to the journal; changes nothing yet.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn begin(host: &'h dyn Host, journal: &Journal, arms: Vec<Vec<Change>>, about: &About) -> Result<Knobs<'h>, KnobError> {
        let mut all: Vec<Change> = Vec::new();
        let numbered = arms.into_iter().map(|changes| {
            let number = |change: Change| {
                all.iter().position(|known| *known == change).unwrap_or_else(|| {
                    all.push(change);
                    all.len() - 1
                })
            };
            changes.into_iter().map(number).collect()
        });
        let arms: Vec<Vec<usize>> = numbered.collect();
        let cores = residency::cores(host).len().max(1) as u64;
        Ok(Knobs { host, tuning: journal.begin(host, all, about)?, arms, since: None, spent: Vec::new(), cores })
    }

    pub fn of(&self, arm: usize) -> Vec<&Change> {
        self.arms[arm].iter().filter_map(|index| self.tuning.changes().get(*index)).collect()
    }

    /// Defines new arms over the same changes; each one combines several of the old arms.
    pub fn regroup(&mut self, arms: &[Vec<usize>]) {
        let together = |of: &Vec<usize>| {
            let mut all: Vec<usize> = of.iter().flat_map(|arm| self.arms[*arm].iter().copied()).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        self.arms = arms.iter().map(together).collect();
    }

    /// Makes an arm's changes once and reverts them.
    ///
    /// # Errors
    /// This host refuses a change.
    pub fn rehearse(&mut self, arm: usize) -> Result<(), Trouble> {
        let made = self.make(arm);
        let back = self.make_none();
        made.and(back)
    }

    fn make(&mut self, arm: usize) -> Result<(), Trouble> {
        first_of(self.tuning.all_off_but(&self.arms[arm]))?;
        self.arms[arm].iter().try_for_each(|index| self.tuning.on(*index))
    }

    fn make_none(&mut self) -> Result<(), Trouble> {
        first_of(self.tuning.all_off_but(&[]))
    }

    /// Adds up the time and the deep idle time of the current arm.
    fn account(&mut self) {
        let Some((arm, since, idle)) = self.since.take() else { return };
        if self.spent.len() <= arm {
            self.spent.resize(arm + 1, (0, 0));
        }
        if let Some((before, now)) = idle.zip(residency::deep_ns(self.host)) {
            self.spent[arm].0 += u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.spent[arm].1 += now.saturating_sub(before);
        }
    }

    /// By arm: the share of all cores' time in idle states with an exit latency, since the last call; `None` if the kernel does
    /// not count it.
    pub fn deep_idle(&mut self, arms: usize) -> Vec<Option<f64>> {
        self.account();
        let mut spent = std::mem::take(&mut self.spent);
        spent.resize(arms, (0, 0));
        spent.into_iter().map(|(time, deep)| (time > 0).then(|| deep as f64 / (time * self.cores) as f64)).collect()
    }

    /// Leaves the changes of an arm in force, with their entry in the journal, so that they can be reverted.
    ///
    /// # Errors
    /// This host refuses a change, or the journal cannot be written; everything is restored then.
    pub fn keep(mut self, arm: usize) -> Result<(), KnobError> {
        if let Err(why) = self.make(arm) {
            self.restore()?;
            return Err(KnobError::Refused(why));
        }
        Ok(self.tuning.keep()?)
    }

    /// # Errors
    /// A setting could not be restored.
    pub fn restore(self) -> Result<(), KnobError> {
        self.tuning.restore().map_err(|left| KnobError::Left(left.iter().map(Trouble::to_string).collect::<Vec<_>>().join("; ")))
    }
}

fn first_of(left: Vec<Trouble>) -> Result<(), Trouble> {
    left.into_iter().next().map_or(Ok(()), Err)
}

impl Switch for Knobs<'_> {
    fn to(&mut self, arm: usize) -> Result<(), String> {
        self.account();
        self.make(arm).map_err(|why| why.to_string())?;
        self.since = Some((arm, Instant::now(), residency::deep_ns(self.host)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::host::FakeHost;

    #[test]
    fn a_setting_that_the_traffic_does_not_pass_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with("/proc/sys/net/ipv4/tcp_autocorking", "1\n")
            .with("/proc/sys/net/core/busy_read", "0\n");
        let of = |link: &str, setting: &str| {
            let target = Target::Link(link.parse().unwrap());
            changes(&host, &Place::default(), &target, &[setting.parse().unwrap()]).map(|changes| changes.len())
        };
        assert!(matches!(of("veth", "tcp_autocorking=0"), Err(KnobError::OutOfReach(_))));
        assert!(matches!((of("loopback", "tcp_autocorking=0"), of("veth", "busy_read_us=50")), (Ok(1), Ok(1))));
    }
}
