//! Room for open descriptors (RLIMIT_NOFILE, getrlimit(2)).

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The hard limit allows fewer descriptors than needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew {
    /// The limit that would do.
    pub needed: u64,
    pub hard: u64,
}

/// Whether this process may open `more` descriptors, perhaps after [`make_room`].
///
/// # Errors
/// The hard limit is too low.
pub fn check_room(more: u64) -> Result<(), TooFew> {
    let limit = getrlimit(Resource::Nofile);
    soft_limit(open(), more, limit.current, limit.maximum).map(drop)
}

/// Raises the soft limit of this process, if need be, so that it may open `more` descriptors.
///
/// # Errors
/// The hard limit is too low.
pub fn make_room(more: u64) -> Result<(), TooFew> {
    let limit = getrlimit(Resource::Nofile);
    let Some(soft) = soft_limit(open(), more, limit.current, limit.maximum)? else { return Ok(()) };
    // Within an unlimited hard limit the kernel still refuses more than fs.nr_open.
    let refused = |_| TooFew { needed: soft, hard: limit.current.unwrap_or(0) };
    setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum: limit.maximum }).map_err(refused)
}

/// The soft limit to set; `None` if it is high enough. A limit of `None` is none.
fn soft_limit(open: u64, more: u64, soft: Option<u64>, hard: Option<u64>) -> Result<Option<u64>, TooFew> {
    let needed = open + more;
    match hard {
        _ if soft.is_none_or(|soft| soft >= needed) => Ok(None),
        Some(hard) if hard < needed => Err(TooFew { needed, hard }),
        _ => Ok(Some(needed)),
    }
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
        assert_eq!(soft_limit(10, 90, Some(100), Some(100)), Ok(None));
        assert_eq!(soft_limit(10, 91, Some(100), Some(4_096)), Ok(Some(101)));
        assert_eq!(soft_limit(10, 91, Some(100), Some(100)), Err(TooFew { needed: 101, hard: 100 }));
        assert_eq!(soft_limit(10, 1 << 40, Some(100), None), Ok(Some((1 << 40) + 10)));
        assert_eq!(soft_limit(10, 1 << 40, None, None), Ok(None));
    }
}
