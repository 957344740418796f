//! Which rank this process is, and of how many: as its launcher says, or by hand.
//!
//! ```text
//!   srun      SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS
//!   mpirun    OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE         under Slurm too, where Slurm's own variables are those of its daemons
//!   mpiexec   PMI_RANK, PMI_SIZE                                 likewise
//!   a Job     JOB_COMPLETION_INDEX, and --ranks; NODE_NAME is the host
//!   by hand   --rank and --ranks
//! ```

use std::fmt;

/// Most ranks of a mesh: four bytes of a rank's number would allow more, a directory of as many files would not.
pub const MOST: u32 = 65_536;

/// The user's flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// `--rank`.
    pub rank: Option<u32>,
    /// `--ranks`, or the length of `--hosts`.
    pub ranks: Option<u32>,
    /// `--same-host`: ranks started by hand are all on this one.
    pub same_host: bool,
}

/// This process in its mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number, from 0.
    pub rank: u32,
    /// How many there are, 2 at least.
    pub ranks: u32,
    /// The launcher's name for the step or job, such as `1234.0`; `None` without one.
    pub job: Option<String>,
    /// The launcher's name for this host, if it has one.
    pub host: Option<String>,
    /// True if all ranks are on this host, as far as the launcher tells.
    pub one_host: bool,
}

/// Why this process has no place in a mesh.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankError {
    /// Nothing says which rank this is.
    #[error(
        "nothing says which rank this is: start it with `srun hairpin mesh` or `mpirun hairpin mesh`, or with --rank K --ranks N on each host"
    )]
    None,
    /// Two sources disagree.
    #[error("{first} and {second} disagree: leave one out, or take it out of the environment")]
    Conflict {
        /// The first, with its value.
        first: Source,
        /// The other, with its value.
        second: Source,
    },
    /// A rank without the number of ranks, or the other way round.
    #[error("{there} is there and {missing} is not: add --rank K --ranks N, or start it with `srun hairpin mesh`")]
    Half {
        /// The one that is there, with its value.
        there: Source,
        /// The one that is missing.
        missing: String,
    },
    /// A variable that holds no number.
    #[error("{0} is not a number from 0 to {most}: take it out of the environment, and give --rank K --ranks N", most = MOST - 1)]
    NoNumber(Source),
    /// A mesh of one.
    #[error("a mesh takes two ranks at least, and this is the only one: start more, such as `srun -N 8 hairpin mesh`")]
    One,
    /// More ranks than a mesh takes.
    #[error("a mesh takes {MOST} ranks at most, not {0}")]
    Many(u32),
    /// A rank beyond the number of ranks.
    #[error("rank {rank} of {ranks} does not exist: ranks count from 0 to {last}", last = ranks - 1)]
    Beyond { rank: u32, ranks: u32 },
}

/// A variable or a flag, with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    name: String,
    value: String,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if self.name.starts_with('-') { " " } else { "=" };
        write!(f, "{}{between}{}", self.name, self.value)
    }
}

/// A number and its source.
type Said = (u32, Source);

/// This process's place, from the environment and the user's flags.
pub fn identify(given: Given, variable: &dyn Fn(&str) -> Option<String>) -> Result<Identity, RankError> {
    let by_hand = |name: &str, value: u32| (value, Source { name: name.into(), value: value.to_string() });
    let number = |name: &str| -> Result<Option<Said>, RankError> {
        let Some(value) = variable(name) else { return Ok(None) };
        let source = Source { name: name.into(), value };
        match source.value.trim().parse().ok().filter(|number| *number <= MOST) {
            Some(number) => Ok(Some((number, source))),
            None => Err(RankError::NoNumber(source)),
        }
    };
    let launched = |rank: &str, ranks: &str| Ok::<_, RankError>((number(rank)?, number(ranks)?));
    let openmpi = launched("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")?;
    let pmi = launched("PMI_RANK", "PMI_SIZE")?;
    // mpirun and mpiexec start their daemons with srun, which leaves its variables to the ranks.
    let slurm = match openmpi.0.is_some() || pmi.0.is_some() {
        true => (None, None),
        false => {
            let of_step = number("SLURM_STEP_NUM_TASKS")?;
            let rank = number("SLURM_PROCID")?;
            let ranks =
                if rank.is_none() { None } else { of_step.map_or_else(|| number("SLURM_NTASKS"), |said| Ok(Some(said)))? };
            (rank, ranks)
        }
    };
    let kubernetes = (number("JOB_COMPLETION_INDEX")?, None);
    let hand = (given.rank.map(|rank| by_hand("--rank", rank)), given.ranks.map(|ranks| by_hand("--ranks", ranks)));
    let by_launcher = openmpi.0.is_some() || pmi.0.is_some() || slurm.0.is_some();
    let all = [openmpi, pmi, slurm, kubernetes, hand];
    let rank = agreed(all.iter().filter_map(|(rank, _)| rank.clone()))?;
    let ranks = agreed(all.iter().filter_map(|(_, ranks)| ranks.clone()))?;
    let ((rank, _), (ranks, _)) = match (rank, ranks) {
        (None, None) => return Err(RankError::None),
        (Some(rank), Some(ranks)) => (rank, ranks),
        (Some((_, there)), None) => return Err(RankError::Half { there, missing: "--ranks".into() }),
        (None, Some((_, there))) => return Err(RankError::Half { there, missing: "--rank".into() }),
    };
    match ranks {
        0 | 1 => return Err(RankError::One),
        ranks if ranks > MOST => return Err(RankError::Many(ranks)),
        ranks if rank >= ranks => return Err(RankError::Beyond { rank, ranks }),
        _ => {}
    }
    let all_here = |ranks_here: &str| number(ranks_here).ok().flatten().is_some_and(|(here, _)| here == ranks);
    let step = |name: &str| number(name).ok().flatten().map(|(number, _)| number);
    // The daemons of mpirun, and the shell it was typed in, are steps of other sizes, and leave their variables to the ranks.
    let one_node = step("SLURM_STEP_NUM_NODES") == Some(1) && step("SLURM_STEP_NUM_TASKS").is_none_or(|tasks| tasks == ranks);
    Ok(Identity {
        rank,
        ranks,
        // A shell within an allocation has the job's number, but ranks by hand may be in other shells too.
        job: if by_launcher { job(variable) } else { None },
        host: variable("SLURMD_NODENAME").or_else(|| variable("JOB_COMPLETION_INDEX").and_then(|_| variable("NODE_NAME"))),
        one_host: match by_launcher {
            // Open MPI's and Hydra's.
            true => all_here("OMPI_COMM_WORLD_LOCAL_SIZE") || all_here("MPI_LOCALNRANKS") || one_node,
            false => given.same_host,
        },
    })
}

/// The value on which all sources that give one agree.
fn agreed(said: impl IntoIterator<Item = Said>) -> Result<Option<Said>, RankError> {
    let mut said = said.into_iter();
    let Some((value, first)) = said.next() else { return Ok(None) };
    match said.find(|(other, _)| *other != value) {
        Some((_, second)) => Err(RankError::Conflict { first, second }),
        None => Ok(Some((value, first))),
    }
}

/// The launcher's name for the step or job, as part of a file's name.
fn job(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let step = |job: String| variable("SLURM_STEP_ID").map_or(job.clone(), |step| format!("{job}.{step}"));
    let of_mpi = || variable("OMPI_COMM_WORLD_RANK").and_then(|_| variable("PMIX_NAMESPACE"));
    let name = variable("OMPI_MCA_ess_base_jobid").or_else(of_mpi).or_else(|| variable("SLURM_JOB_ID").map(step))?;
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).take(64).collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: Given, variables: &[(&str, &str)]) -> Result<Identity, RankError> {
        identify(given, &|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    fn hand(rank: u32, ranks: u32) -> Given {
        Given { rank: Some(rank), ranks: Some(ranks), ..Given::default() }
    }

    const SLURM: [(&str, &str); 6] = [
        ("SLURM_PROCID", "3"),
        ("SLURM_NTASKS", "8"),
        ("SLURM_JOB_ID", "1234"),
        ("SLURM_STEP_ID", "0"),
        ("SLURMD_NODENAME", "n4"),
        ("SLURM_STEP_NUM_NODES", "8"),
    ];

    #[test]
    fn each_launcher_says_which_rank_this_is() {
        let found = of(Given::default(), &SLURM).unwrap();
        assert_eq!((found.rank, found.ranks, found.job.as_deref(), found.host.as_deref()), (3, 8, Some("1234.0"), Some("n4")));
        assert!(!found.one_host);
        let mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "4")];
        let found = of(Given::default(), &mpi).unwrap();
        assert_eq!((found.rank, found.ranks, found.one_host), (1, 4, true));
        let newer = [&mpi[..], &[("PMIX_NAMESPACE", "prterun-n1-77@1")]].concat();
        assert_eq!(of(Given::default(), &newer).map(|found| found.job), Ok(Some("prterun-n1-77-1".into())));
        let found = of(Given::default(), &[("PMI_RANK", "2"), ("PMI_SIZE", "3")]).unwrap();
        assert_eq!((found.rank, found.ranks, found.job), (2, 3, None));
        let of_job = Given { ranks: Some(4), ..Given::default() };
        let found = of(of_job, &[("JOB_COMPLETION_INDEX", "2"), ("NODE_NAME", "n7")]).unwrap();
        assert_eq!((found.rank, found.host.as_deref()), (2, Some("n7")));
        assert_eq!(of(hand(0, 2), &[("NODE_NAME", "n7")]).map(|found| found.host), Ok(None), "of no Job");
        assert_eq!(of(hand(0, 2), &[]).map(|found| (found.rank, found.ranks)), Ok((0, 2)));
        assert_eq!(of(hand(0, 2), &[("SLURM_JOB_ID", "7")]).map(|found| found.job), Ok(None), "by hand");
        // A step has fewer tasks than its job.
        let step = [&SLURM[..], &[("SLURM_STEP_NUM_TASKS", "4")]].concat();
        assert_eq!(of(Given::default(), &step).map(|found| found.ranks), Ok(4));
    }

    #[test]
    fn mpirun_counts_more_than_the_slurm_around_it() {
        let both = [&SLURM[..], &[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "16")]].concat();
        assert_eq!(of(Given::default(), &both).map(|found| (found.rank, found.ranks)), Ok((1, 16)));
    }

    #[test]
    fn only_the_step_of_all_ranks_tells_that_they_are_on_one_host() {
        let of_step = |tasks: &'static str, more: &[(&str, &str)]| {
            let step = [("SLURM_STEP_NUM_NODES", "1"), ("SLURM_STEP_NUM_TASKS", tasks)];
            of(Given::default(), &[&step[..], more].concat()).map(|found| found.one_host)
        };
        let mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "1")];
        assert_eq!(of_step("1", &mpi), Ok(false), "the step of a daemon on its node");
        let hydra = |here| of_step("1", &[("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", here)]);
        assert_eq!([hydra("1"), hydra("2")], [Ok(false), Ok(true)]);
        assert_eq!(of_step("4", &[("SLURM_PROCID", "3")]), Ok(true));
        assert_eq!(of_step("2", &[("PMI_RANK", "1"), ("PMI_SIZE", "2")]), Ok(true), "srun --mpi=pmi2");
    }

    #[test]
    fn a_conflict_names_both() {
        let said = of(hand(1, 8), &SLURM).unwrap_err().to_string();
        assert!(said.starts_with("SLURM_PROCID=3 and --rank 1 disagree: "), "{said}");
        let said = of(Given { ranks: Some(4), ..Given::default() }, &SLURM).unwrap_err().to_string();
        assert!(said.starts_with("SLURM_NTASKS=8 and --ranks 4 disagree: "), "{said}");
        assert_eq!(of(hand(3, 8), &SLURM).map(|found| found.rank), Ok(3), "they agree");
    }

    #[test]
    fn a_missing_or_impossible_number_is_named() {
        let said = |given, variables: &[(&str, &str)]| of(given, variables).unwrap_err().to_string();
        assert!(said(Given::default(), &[]).contains("`srun hairpin mesh`"));
        assert!(said(hand(0, 1), &[]).contains("two ranks at least"));
        assert!(said(hand(4, 4), &[]).contains("0 to 3"));
        assert!(
            said(Given::default(), &[("JOB_COMPLETION_INDEX", "2")])
                .contains("JOB_COMPLETION_INDEX=2 is there and --ranks is not")
        );
        assert!(said(Given { ranks: Some(4), ..Given::default() }, &[]).contains("--ranks 4 is there and --rank is not"));
        assert!(said(Given::default(), &[("PMI_RANK", "x"), ("PMI_SIZE", "2")]).contains("PMI_RANK=x is not a number"));
        assert!(said(hand(0, MOST + 1), &[]).contains("65536"));
        // An allocation is no step: its shell has the number of tasks, and no rank.
        assert_eq!(of(Given::default(), &[("SLURM_NTASKS", "8")]), Err(RankError::None));
    }
}
