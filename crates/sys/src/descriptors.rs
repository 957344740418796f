//! Room for open descriptors (RLIMIT_NOFILE, getrlimit(2)).

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The hard limit allows fewer descriptors than needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew {
    /// The limit that would do.
    pub needed: u64,
    /// The hard limit, or fs.nr_open where that is lower.
    pub hard: u64,
    /// fs.nr_open is too low too, so that nobody may raise the hard limit as far as needed.
    pub by_host: bool,
}

/// Whether this process may open `more` descriptors, perhaps after [`make_room`].
///
/// # Errors
/// The hard limit is too low.
pub fn check_room(more: u64) -> Result<(), TooFew> {
    let limit = getrlimit(Resource::Nofile);
    soft_limit(open(), more, limit.current, limit.maximum, nr_open()).map(drop)
}

/// Raises the soft limit of this process, if need be, so that it may open `more` descriptors.
///
/// # Errors
/// The hard limit is too low.
pub fn make_room(more: u64) -> Result<(), TooFew> {
    let limit = getrlimit(Resource::Nofile);
    let nr_open = nr_open();
    let Some(soft) = soft_limit(open(), more, limit.current, limit.maximum, nr_open)? else { return Ok(()) };
    let hard = hard_limit(limit.maximum, nr_open);
    let refused = |_| TooFew { needed: soft, hard: hard.unwrap_or(0), by_host: false };
    setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum: hard }).map_err(refused)
}

/// The hard limit in force. fs.nr_open may have been lowered below the one of this process: the kernel then opens no more than
/// that, and refuses to set any limit together with a higher hard one (`do_prlimit`, `expand_files`).
fn hard_limit(maximum: Option<u64>, nr_open: Option<u64>) -> Option<u64> {
    maximum.into_iter().chain(nr_open).min()
}

/// The soft limit to set; `None` if it is high enough. A limit of `None` is none.
fn soft_limit(
    open: u64,
    more: u64,
    soft: Option<u64>,
    maximum: Option<u64>,
    nr_open: Option<u64>,
) -> Result<Option<u64>, TooFew> {
    let needed = open + more;
    match hard_limit(maximum, nr_open) {
        Some(hard) if hard < needed => Err(TooFew { needed, hard, by_host: nr_open.is_some_and(|most| most < needed) }),
        _ if soft.is_none_or(|soft| soft >= needed) => Ok(None),
        _ => Ok(Some(needed)),
    }
}

/// Most descriptors of any process of this host (proc_sys_fs(5)).
fn nr_open() -> Option<u64> {
    fs::read_to_string("/proc/sys/fs/nr_open").ok()?.trim().parse().ok()
}

/// Descriptors open now.
fn open() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_rises_as_far_as_needed_and_the_hard_one_allows() {
        assert_eq!(soft_limit(10, 90, Some(100), Some(100), None), Ok(None));
        assert_eq!(soft_limit(10, 91, Some(100), Some(4_096), None), Ok(Some(101)));
        assert_eq!(soft_limit(10, 1 << 40, Some(100), None, None), Ok(Some((1 << 40) + 10)));
        assert_eq!(soft_limit(10, 1 << 40, None, None, None), Ok(None));
    }

    #[test]
    fn a_limit_of_the_host_is_told_from_one_of_the_process() {
        let few = |by_host| Err(TooFew { needed: 101, hard: 100, by_host });
        assert_eq!(soft_limit(10, 91, Some(100), Some(100), None), few(false));
        assert_eq!(soft_limit(10, 91, Some(100), Some(100), Some(101)), few(false));
        assert_eq!(soft_limit(10, 91, Some(1_024), Some(1_024), Some(100)), few(true), "fs.nr_open was lowered");
        assert_eq!(soft_limit(10, 91, Some(50), Some(100), Some(100)), few(true), "both are too low");
    }

    #[test]
    fn the_hard_limit_is_at_most_that_of_the_host() {
        assert_eq!(hard_limit(Some(524_288), Some(65_536)), Some(65_536));
        assert_eq!(hard_limit(Some(4_096), Some(65_536)), Some(4_096));
        assert_eq!(hard_limit(None, Some(65_536)), Some(65_536));
        assert_eq!(hard_limit(Some(4_096), None), Some(4_096));
    }
}
