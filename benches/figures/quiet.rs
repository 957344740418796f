//! Whether the host is quiet enough to measure on.

use std::thread::sleep;
use std::time::Duration;

use hairpin_sys::host::RealHost;
use hairpin_sys::thread::allowed_cpus;
use hairpin_tune::activity::{Activity, CoreActivity};

/// The most CPU time that others may use, in percent.
pub(crate) const MOST: f64 = 5.0;
/// The length of a look …
const LOOK: Duration = Duration::from_secs(2);
/// … and the number of looks, as what a part or a build leaves behind ends soon.
const LOOKS: usize = 5;

/// The share of the CPU time that others use, in percent, once it is at most [`MOST`]; if it stays above that, an error, or with
/// `go_on` the last share.
pub(crate) fn wait(go_on: bool) -> Result<f64, String> {
    judged((0..LOOKS).map(|_| look()), go_on)
}

fn judged(looks: impl Iterator<Item = Result<f64, String>>, go_on: bool) -> Result<f64, String> {
    let mut last = 0.0;
    for found in looks {
        last = found?;
        if last <= MOST {
            return Ok(last);
        }
    }
    if go_on {
        return Ok(last);
    }
    Err(format!(
        "other programs use {last:.0} % of the CPU time, and {MOST:.0} % may be (over 2 s, looked {LOOKS} times): end them (`top` shows which) and run make figures \
         again, or go on all the same with BUSY=1"
    ))
}

/// This process sleeps meanwhile, so all CPU time is used by others.
fn look() -> Result<f64, String> {
    let cpus = allowed_cpus().map_err(|e| format!("the CPUs of this process: {e}"))?;
    let before = CoreActivity::read(&RealHost, &cpus);
    sleep(LOOK);
    share(&CoreActivity::read(&RealHost, &cpus).since(&before), cpus.len())
}

fn share(found: &Activity, cpus: usize) -> Result<f64, String> {
    // Time that the hypervisor took is used by others too.
    let used = found.busy_ns.zip(found.steal_ns).map(|(busy, steal)| busy + steal);
    let used = used.ok_or_else(|| format!("whether the host is busy is not known: {}", found.unread.join("; ")))?;
    Ok(100.0 * used as f64 / (LOOK.as_nanos() as f64 * cpus.max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(looks: &[f64], go_on: bool) -> Result<f64, String> {
        judged(looks.iter().map(|share| Ok(*share)), go_on)
    }

    #[test]
    fn a_busy_host_is_refused_unless_told_to_go_on() {
        assert_eq!(found(&[3.0, 90.0], false), Ok(3.0));
        assert_eq!(found(&[90.0, 4.9, 80.0], false), Ok(4.9), "it has become quiet");
        let why = found(&[90.0, 37.4], false).unwrap_err();
        assert!(why.contains("use 37 % of the CPU time, and 5 % may be") && why.contains("BUSY=1"), "{why}");
        assert_eq!(found(&[90.0, 37.4], true), Ok(37.4));
    }

    #[test]
    fn stolen_time_counts_and_an_unknown_count_is_not_zero() {
        let of = |busy_ns, steal_ns| Activity { busy_ns, steal_ns, unread: vec!["no /proc/stat".into()], ..Activity::default() };
        assert_eq!(share(&of(Some(100_000_000), Some(300_000_000)), 2), Ok(10.0));
        assert!(share(&of(None, None), 2).unwrap_err().ends_with("not known: no /proc/stat"));
    }
}
