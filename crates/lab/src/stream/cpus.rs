//! Chooses the CPUs for the threads of both sides.

use hairpin_plan::job::Sides;
use hairpin_sys::thread;
use hairpin_sys::wait::Policy;

use super::{StreamError, StreamPlan, Target};
use hairpin_session::pinnable::{choices, counted_from, refused};
use hairpin_session::side::SideError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cpus {
    pub(super) client: Vec<u32>,
    pub(super) server: Vec<u32>,
}

impl Cpus {
    /// The CPUs asked for, or the first ones that this process may use.
    ///
    /// # Errors
    /// A CPU is not allowed, or a policy that sleeps has fewer CPUs than queues.
    pub(super) fn choose(plan: &StreamPlan) -> Result<Cpus, StreamError> {
        let allowed = thread::allowed_cpus().map_err(SideError::from)?;
        let asked: Vec<u32> = [plan.cpus.client, plan.cpus.server].into_iter().flatten().collect();
        if let Some((cpu, allowed)) = refused(&asked, &choices(&asked, &allowed)) {
            return Err(StreamError::Cpu { cpu, allowed });
        }
        let two = matches!(plan.target, Target::Veth(_));
        let chosen = Cpus::of(&allowed, plan.queues, plan.cpus, two);
        for ask in &plan.rows {
            for (io, cpus) in [(&ask.io.client, &chosen.client), (&ask.io.server, &chosen.server)] {
                if (cpus.len() as u32) < plan.queues && !matches!(io.policy(), Policy::Spin | Policy::BusyPoll) {
                    return Err(StreamError::Sleeps { io: io.to_string(), queues: plan.queues, cpus: cpus.len() });
                }
            }
        }
        Ok(chosen)
    }

    /// One CPU per queue, as far as they suffice for both sides; the server's come after the client's.
    fn of(allowed: &[u32], queues: u32, asked: Sides<Option<u32>>, two: bool) -> Cpus {
        let of = |first: Option<u32>, side: usize| {
            let choices = choices(first.as_slice(), allowed);
            let most = if two { (choices.len() / 2).max(1) } else { choices.len() };
            let threads = most.min(queues as usize);
            let first = first.unwrap_or(choices[side * threads % choices.len()]);
            counted_from(first, threads, &choices)
        };
        Cpus { client: of(asked.client, 0), server: of(asked.server, 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_cpus_of_their_own_where_there_are_enough() {
        let none = Sides { client: None, server: None };
        let of = |allowed: &[u32], queues, asked, two| {
            let Cpus { client, server } = Cpus::of(allowed, queues, asked, two);
            (client, server)
        };
        assert_eq!(of(&[0, 1], 1, none, true), (vec![0], vec![1]));
        assert_eq!(of(&[0, 1], 2, none, true), (vec![0], vec![1]));
        assert_eq!(of(&[0, 1, 4, 5], 2, none, true), (vec![0, 1], vec![4, 5]));
        assert_eq!(of(&[3], 2, none, true), (vec![3], vec![3]));
        assert_eq!(of(&[0, 1, 2], 2, none, false).0, [0, 1]);
        assert_eq!(of(&[0, 1, 2, 3], 1, Sides { client: Some(2), server: Some(3) }, true), (vec![2], vec![3]));
    }
}
