//! The work of a mesh: the same for all its ranks, or they refuse each other.

use std::time::Duration;

use hairpin_plan::job::{Job, Sides};
use hairpin_plan::spec::Spec;
use hairpin_record::mesh;
use hairpin_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::schedule::{Pairs, Schedule};

/// Time that a visit takes beside its warm-up and its measured time: a connection, two processes, the facts of both hosts.
const AROUND: Duration = Duration::from_millis(200);
/// XDP programs that come, and those that go, may keep the links of both hosts of a visit down for this long, as a session takes
/// it: 15 s twice, and the time until TCP tries again.
const LINK_DOWN: Duration = Duration::from_secs(40);
/// A visit that is silent for this long has failed.
const SILENCE: Nanos = Nanos::from_secs(2);

/// The work of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Number of ranks.
    pub ranks: u32,
    /// The choice of pairs, as `--pairs` takes it.
    pub pairs: String,
    /// Visits of each pair.
    pub visits: u32,
    /// The seed of a sample.
    pub seed: u64,
    /// The path, in canonical form.
    pub path: String,
    /// Payload of a request in bytes.
    pub request: u32,
    /// Payload of a reply in bytes.
    pub reply: u32,
    /// Measured time of a visit.
    pub duration: Nanos,
    /// Discarded time before it.
    pub warmup: Nanos,
}

/// Why a setup from elsewhere is not valid.
#[derive(Debug, thiserror::Error)]
#[error("{0}; use the same hairpin for all ranks and for the merge")]
pub struct BadSetup(String);

impl Setup {
    /// The rounds.
    ///
    /// # Errors
    /// A number of ranks or a choice of pairs that no mesh has; only in a setup from elsewhere.
    pub fn schedule(&self) -> Result<Schedule, BadSetup> {
        let pairs: Pairs = self.pairs.parse().map_err(BadSetup)?;
        if !(2..=crate::rank::MOST).contains(&self.ranks) || !(1..=1000).contains(&self.visits) {
            return Err(BadSetup(format!("no mesh has {} ranks and {} visits", self.ranks, self.visits)));
        }
        Ok(Schedule::new(self.ranks, pairs, self.visits, self.seed))
    }

    /// The job of each visit; `cookie` is a random number.
    ///
    /// # Errors
    /// A path that this version does not know; only in a setup from elsewhere.
    pub fn job(&self, cookie: u64, cpus: Sides<Option<u32>>) -> Result<Job, BadSetup> {
        let spec: Spec = self.path.parse().map_err(|error| BadSetup(format!("{}: {error}", self.path)))?;
        Ok(Job {
            request: self.request,
            reply: self.reply,
            duration: Some(self.duration),
            warmup: self.warmup,
            timeout: SILENCE,
            cookie,
            cpus,
            ..Job::new(spec)
        })
    }

    /// Time of a visit, as planned.
    pub fn visit_lasts(&self) -> Duration {
        Duration::from(self.duration) + Duration::from(self.warmup) + AROUND
    }

    /// For how long a host may be out of reach because an XDP program comes or goes; zero on other paths.
    pub fn link_down(&self) -> Duration {
        let may = self.path.parse::<Spec>().is_ok_and(|spec| Job::new(spec).may_take_link_down());
        if may { LINK_DOWN } else { Duration::ZERO }
    }

    /// Time of a visit if links go down as it begins and as it ends.
    pub fn visit_may_last(&self) -> Duration {
        self.visit_lasts() + 2 * self.link_down()
    }

    /// The cost of the mesh, before it begins: `28 pairs, 2 visits, 14 rounds, about 11 s`.
    pub fn cost(&self, schedule: &Schedule) -> String {
        let count = |n: u64, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
        let [whole, most] = [self.visit_lasts(), self.visit_may_last()].map(|lasts| lasts * schedule.rounds());
        let longer = if most > whole { format!(", at most {} if links go down", in_words(most)) } else { String::new() };
        format!(
            "{}, {}, {}, about {}{longer}",
            count(schedule.pair_count(), "pair"),
            count(self.visits.into(), "visit"),
            count(schedule.rounds().into(), "round"),
            in_words(whole)
        )
    }

    /// The schedule as records have it.
    pub fn of_record(&self, schedule: &Schedule) -> mesh::Schedule {
        mesh::Schedule {
            ranks: self.ranks,
            pairs: schedule.pairs().to_string(),
            visits: self.visits,
            rounds: schedule.rounds(),
            seed: self.seed,
            duration_ns: self.duration.0,
            warmup_ns: self.warmup.0,
        }
    }
}

/// A time to the second, or to the minute from two minutes on.
fn in_words(time: Duration) -> String {
    match time.as_millis().div_ceil(1000) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn setup(ranks: u32, pairs: &str) -> Setup {
        Setup {
            ranks,
            pairs: pairs.into(),
            visits: 2,
            seed: 1,
            path: "udp:block/udp:block".into(),
            request: 64,
            reply: 64,
            duration: Nanos::from_millis(500),
            warmup: Nanos::from_millis(50),
        }
    }

    #[test]
    fn the_cost_is_known_before() {
        let cost = |ranks, pairs: &str| {
            let setup = setup(ranks, pairs);
            setup.cost(&setup.schedule().unwrap())
        };
        assert_eq!(cost(8, "all"), "28 pairs, 2 visits, 14 rounds, about 11 s");
        assert_eq!(cost(2, "ring"), "1 pair, 2 visits, 2 rounds, about 2 s");
        assert_eq!(cost(10_000, "sample:20"), "100000 pairs, 2 visits, 40 rounds, about 30 s");
        assert_eq!(cost(1000, "all"), "499500 pairs, 2 visits, 1998 rounds, about 25 min");
    }

    #[test]
    fn a_visit_over_xdp_may_last_longer() {
        let of = |path: &str| {
            let setup = Setup { path: path.into(), ..setup(8, "all") };
            (setup.visit_may_last() - setup.visit_lasts(), setup.cost(&setup.schedule().unwrap()))
        };
        let cost = "28 pairs, 2 visits, 14 rounds, about 11 s";
        assert_eq!(of("packet"), (Duration::ZERO, cost.into()));
        for path in ["xdp", "udp/xdp"] {
            assert_eq!(of(path), (2 * LINK_DOWN, format!("{cost}, at most 19 min if links go down")));
        }
    }

    #[test]
    fn a_setup_from_elsewhere_is_checked() {
        assert!(setup(1, "all").schedule().is_err() && setup(4, "some").schedule().is_err());
        assert!(Setup { visits: 0, ..setup(4, "all") }.schedule().is_err());
        let job = setup(4, "all").job(7, Sides::default()).unwrap();
        assert_eq!(
            (job.cookie, job.duration, job.spec.to_string()),
            (7, Some(Nanos::from_millis(500)), "udp:block/udp:block".into())
        );
        assert!(Setup { path: "upd".into(), ..setup(4, "all") }.job(7, Sides::default()).is_err());
    }
}
