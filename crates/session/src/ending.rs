//! Requests of the user to end: the first asks for what was measured so far, a second one does not wait for it.

use std::fs;
use std::time::{Duration, Instant};

use hairpin_sys::signal::{SIGHUP, SIGINT, SIGTERM};

/// Nobody presses Ctrl-C again within this time.
const AT_ONCE: Duration = Duration::from_millis(200);

/// True if a signal that came `now` belongs to the request that came `first`: timeout(1) sends one to its child and one to its
/// process group, and a terminal that closes may send SIGHUP at any time again.
pub fn repeats(first: Option<Instant>, signal: i32, now: Instant) -> bool {
    first.is_some_and(|first| signal == SIGHUP || now.duration_since(first) < AT_ONCE)
}

/// True if a signal that asks this process to end waits to be read: they are blocked while a verb measures.
pub fn is_asked() -> bool {
    // Masks of the pending signals of the first thread and of the process (proc_pid_status(5)).
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let masks = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")));
    let pending = masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).fold(0, |all, mask| all | mask);
    [SIGHUP, SIGINT, SIGTERM].iter().any(|signal| pending >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_at_once_are_one_request_to_end() {
        let first = Instant::now();
        let [at_once, later] = [1, 300].map(|ms| first + Duration::from_millis(ms));
        assert!(!repeats(None, SIGINT, first) && !repeats(None, SIGHUP, first));
        assert!(repeats(Some(first), SIGINT, at_once) && repeats(Some(first), SIGHUP, later));
        assert!(!repeats(Some(first), SIGINT, later), "the second Ctrl-C of somebody who does not want to wait");
    }
}
