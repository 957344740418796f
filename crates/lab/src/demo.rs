//! The rows of `hairpin demo`: every path and policy that this host supports, over loopback and veth, and `udp:block` at three
//! rates.

use hairpin_iopath::paths::runner;
use hairpin_iopath::runner::Support;
use hairpin_plan::job::Job;
use hairpin_plan::path::LinkKind;
use hairpin_plan::paths::{PACED, PATHS};
use hairpin_plan::spec::Spec;
use hairpin_sys::netns;
use hairpin_sys::wait::Policy;
use hairpin_units::Nanos;

use hairpin_session::link::{LinkSpec, VethSpec};

/// Time limit of the whole demonstration, without set-up.
const WHOLE: Nanos = Nanos::from_secs(36);
/// Shortest duration of a row.
const LEAST: Nanos = Nanos::from_millis(200);
/// Rates of `udp:block` with the duration that each needs for a median: twenty samples.
const PACES: [(f64, Nanos); 2] = [(10.0, Nanos::from_millis(2_300)), (1000.0, Nanos::from_millis(1_000))];
/// Time that a row takes besides its measured time: warm-up, connecting, reports.
const OVERHEAD: Nanos = Nanos::from_millis(140);
/// Time discarded at the start of each row.
const WARMUP: Nanos = Nanos::from_millis(80);

#[derive(Debug)]
pub struct Part {
    pub link: LinkSpec,
    pub rows: Vec<Job>,
}

/// The rows of the demonstration, and those left out with the reason.
#[derive(Debug)]
pub struct Demo {
    pub parts: Vec<Part>,
    /// `path over link: why not`.
    pub skipped: Vec<String>,
}

/// Plans the demonstration from a job with the defaults; replaces its path, times and pace. Only reads.
pub fn plan(template: &Job) -> Demo {
    let mut skipped = Vec::new();
    let mut parts = Vec::new();
    for link in [LinkSpec::Loopback, LinkSpec::Veth(VethSpec::default())] {
        if let (LinkSpec::Veth(_), netns::Support::No(why)) = (&link, netns::can_make()) {
            skipped.push(format!("every path over veth: {why}"));
            continue;
        }
        let rows = rows(&link, template, &mut skipped);
        parts.push(Part { link, rows });
    }
    share_time(&mut parts);
    Demo { parts, skipped }
}

fn rows(link: &LinkSpec, template: &Job, skipped: &mut Vec<String>) -> Vec<Job> {
    let mut rows = Vec::new();
    for path in PATHS {
        match runner(path).probe(link.kind()) {
            // Paths that never leave a host are not listed for veth; paths that this user lacks a right for are.
            Support::No(_) if link.kind() == LinkKind::Veth && runner(path).lacks(link.kind()).is_none() => continue,
            Support::No(why) => {
                skipped.push(format!("{} over {}: {why}", path.name, link.name()));
                continue;
            }
            Support::Yes | Support::Degraded(_) => {}
        }
        for policy in path.policies {
            let Ok(spec) = format!("{}:{policy}", path.name).parse::<Spec>() else { continue };
            let size = path.fixed_payload().unwrap_or(template.request.min(path.payload_limit(false)));
            let job = Job { spec, request: size, reply: size, warmup: WARMUP, ..template.clone() };
            if link.kind() == LinkKind::Loopback && *path == PACED && *policy == Policy::Block {
                rows.extend(PACES.map(|(per_s, duration)| Job { pace: Some(per_s), duration: Some(duration), ..job.clone() }));
            }
            rows.push(job);
        }
    }
    rows
}

/// Gives every row without a duration an equal share of the time left.
fn share_time(parts: &mut [Part]) {
    let all = || parts.iter().flat_map(|part| &part.rows);
    let fixed: u64 = all().filter(|job| job.pace.is_some()).filter_map(|job| job.duration).map(|duration| duration.0).sum();
    let overhead = all().count() as u64 * OVERHEAD.0;
    let open = all().filter(|job| job.pace.is_none()).count() as u64;
    let share = Nanos(WHOLE.0.saturating_sub(fixed + overhead) / open.max(1)).max(LEAST);
    for job in parts.iter_mut().flat_map(|part| &mut part.rows).filter(|job| job.pace.is_none()) {
        job.duration = Some(share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_and_policy_once_in_forty_seconds() {
        let demo = plan(&hairpin_plan::job::Job::new("udp".parse().unwrap()));
        let loopback = &demo.parts[0].rows;
        for path in PATHS.iter().filter(|path| !matches!(runner(path).probe(LinkKind::Loopback), Support::No(_))) {
            for policy in path.policies {
                let spec: Spec = format!("{}:{policy}", path.name).parse().unwrap();
                let count = loopback.iter().filter(|job| job.spec == spec && job.pace.is_none()).count();
                assert_eq!(count, 1, "{spec}");
            }
        }
        let whole: u64 = demo.parts.iter().flat_map(|part| &part.rows).map(|job| job.duration.unwrap().0 + OVERHEAD.0).sum();
        assert!(whole <= 40_000_000_000, "{whole}");
        assert!(demo.parts.iter().flat_map(|part| &part.rows).all(|job| job.duration.unwrap() >= LEAST));
        assert_eq!(loopback.iter().filter(|job| job.pace.is_some()).count(), 2);
    }
}
