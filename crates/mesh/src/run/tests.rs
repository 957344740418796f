use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;

use hairpin_plan::job::Sides;
use hairpin_record::head::TOOL;

use super::*;
use crate::setup::tests::setup;

/// A rank of the mesh in `dir` that begins its slots now.
pub(crate) fn station<'a>(dir: &Path, rank: u32, setup: Setup, signals: &'a Signals) -> Station<'a> {
    let hello = Hello { mesh: "m".into(), tool: TOOL.into(), setup: setup.clone(), rank, ask: Ask::Where };
    Station {
        schedule: setup.schedule().unwrap(),
        job: setup.job(1, Sides::default()).unwrap(),
        peers: Peers::in_directory(dir.into()),
        key: Key::generate().unwrap(),
        gate: RankGate::new(hello.clone()).unwrap(),
        visits: Visits::new(dir, rank),
        signals,
        wait: Duration::ZERO,
        apart: Duration::ZERO,
        say: &|_: String| {},
        begun: Instant::now(),
        given_up: HashMap::new(),
        hello,
        setup,
    }
}

#[test]
fn ranks_that_begin_apart_have_that_much_longer_and_no_more_silence() {
    let (dir, signals) = (tempfile::tempdir().unwrap(), Signals::block(&[]).unwrap());
    let mut station = station(dir.path(), 0, setup(4, "all"), &signals);
    let (deadline, patience) = (station.deadline(3), station.late_start(station.begun));
    station.apart = Duration::from_secs(30);
    assert_eq!(station.deadline(3) - deadline, Duration::from_secs(30));
    assert_eq!((station.late_start(station.begun), patience), (PATIENCE, PATIENCE));
}

#[test]
fn a_visit_over_xdp_outlasts_links_that_go_down() {
    let (dir, signals) = (tempfile::tempdir().unwrap(), Signals::block(&[]).unwrap());
    let slot = Slot { round: 2, visit: 1, partner: 1, client: true, explain: false };
    let limits = |path: &str| {
        let station = station(dir.path(), 0, Setup { path: path.into(), ..setup(4, "all") }, &signals);
        let times = [station.session_limit(slot), station.patience(), station.deadline(2) - station.begun];
        times.map(|time| time.as_millis())
    };
    assert_eq!(limits("udp"), [3_750, 3_000, 8_000]);
    assert_eq!(limits("xdp"), [83_750, 43_000, 328_000]);
}

#[test]
fn a_rank_that_stood_still_does_not_blame_its_partner() {
    let ended = |took_ms: u64, outcome: Outcome| {
        let watch = Watch::of(true, Duration::from_millis(took_ms), Duration::from_secs(3));
        outcome.unless_stood_still(2, watch)
    };
    for (took_ms, expected) in
        [(3_900, ("rank 5 was lost in mid-visit", true)), (4_100, ("rank 2 stood still in mid-visit", false))]
    {
        let lost = Outcome::Missing("rank 5 was lost in mid-visit".into(), true);
        let Outcome::Missing(why, given_up) = ended(took_ms, lost) else { panic!("it has failed") };
        assert_eq!((why.as_str(), given_up), expected);
    }
    assert!(matches!(ended(4_100, Outcome::Measured(Box::default())), Outcome::Measured(_)));
    assert!(matches!(ended(4_100, Outcome::Interrupted(None)), Outcome::Interrupted(None)));
}

#[test]
fn the_watchdog_ends_a_connection_that_outlives_its_time() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let channel = Channel::plain(ours);
    assert_eq!(Watchdog::over(&channel, Duration::from_secs(3_600)).unwrap().call_off(), Watch::default());
    let watchdog = Watchdog::over(&channel, Duration::from_millis(1)).unwrap();
    assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0, "its end");
    assert!(watchdog.call_off().bitten);
}
