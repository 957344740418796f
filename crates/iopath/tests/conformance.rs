//! Requirements on every path, checked for each path in the list with each policy that it takes, both sides in this process.

mod crr;
mod pair;
mod udp;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use hairpin_iopath::paths::runner;
use hairpin_iopath::runner::Support;
use hairpin_plan::job::{LocalPort, Sides};
use hairpin_plan::path::Path as Facts;
use hairpin_plan::path::{LinkKind, Speaks};
use hairpin_plan::paths::PATHS;
use hairpin_sys::wait::Policy;
use hairpin_units::Nanos;
use pair::{Pair, job, listening};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// The paths that run over loopback here; the others are printed with the reason. Paths that never run over loopback are tested
/// over veth.
fn paths() -> impl Iterator<Item = &'static Facts> {
    PATHS.iter().copied().filter(|path| match runner(path).probe(LinkKind::Loopback) {
        Support::Yes | Support::Degraded(_) => true,
        Support::No(why) => {
            println!("skipped: {}: {why}", path.name);
            false
        }
    })
}

/// Addresses over which a path can run here.
fn addresses(path: &Facts) -> Vec<IpAddr> {
    let needs_address = !matches!(path.speaks, Speaks::Local(_));
    let mut addresses = vec![V4];
    if needs_address && std::net::UdpSocket::bind((V6, 0)).is_ok() {
        addresses.push(V6);
    } else if needs_address {
        println!("skipped: {} over IPv6, which this host has not", path.name);
    }
    addresses
}

/// Sizes of request and reply, never equal where there is a choice.
fn sizes(path: &Facts) -> Vec<(u32, u32)> {
    match path.fixed_payload() {
        Some(only) => vec![(only, only)],
        None => vec![(1, 2), (16, 9), (1000, 1400)],
    }
}

/// A policy that sleeps, if there is one, and one that does not.
fn first_and_spin(path: &Facts) -> impl Iterator<Item = Policy> {
    let first = path.policies[0];
    std::iter::once(first).chain((first != Policy::Spin).then_some(Policy::Spin))
}

#[test]
fn every_path_measures_with_every_policy() {
    let mut ran = BTreeSet::new();
    let mut case = 0;
    for path in paths() {
        for policy in path.policies {
            for address in addresses(path) {
                for (request, reply) in sizes(path) {
                    case += 1;
                    let mut job = job(&format!("{}:{policy}", path.name));
                    (job.request, job.reply, job.count) = (request, reply, Some(200));
                    let mut pair = Pair::new(job, listening(address));
                    pair.with_neighbour = case % 5 == 0;
                    let what = format!("{}:{policy} {request}/{reply} over {address}", path.name);
                    let (client, server) = pair.run(&what);
                    let (client, server) = (client.expect(&what), server.expect(&what));
                    let recorder = client.recorder.as_ref().expect(&what);
                    assert_eq!(client.error, None, "{what}");
                    assert_eq!(server.error, None, "{what}");
                    assert_eq!(recorder.rtt().count(), 200, "{what}");
                    let mut row = hairpin_record::run::Row::default();
                    recorder.clone().finish(&mut row);
                    assert_eq!((row.transactions, row.rtt_ns.count), (200, 200), "{what}");
                    assert!(row.rtt_ns.min.is_some_and(|least| least > 0), "{what}");
                    let counts = client.counts;
                    // On a busy host a reply may come after the loop has given it up; no other error is allowed.
                    let lossy = path.speaks == Speaks::Udp;
                    assert!(lossy || counts.lost == 0, "{what}: {counts:?}");
                    assert_eq!((counts.duplicates, counts.corrupt, counts.reordered), (0, 0, 0), "{what}");
                    assert!(!client.stopped, "{what}");
                    assert!(server.answered >= 200, "{what}: answered {}", server.answered);
                    assert_eq!((client.side.cpus.len(), server.side.cpus.len()), (1, 1), "{what}");
                    ran.insert((path.name, policy.name()));
                }
            }
        }
    }
    let listed: usize = paths().map(|path| path.policies.len()).sum();
    assert_eq!(ran.len(), listed, "every path and policy in the list has run");
}

#[test]
fn every_path_carries_its_largest_payload() {
    for path in paths() {
        let name = path.name;
        let limit = path.payload_limit(false);
        let mut job = job(name);
        (job.request, job.reply, job.count) = (limit, limit, Some(20));
        job.check(false).expect(name);
        let (client, server) = Pair::new(job, listening(V4)).run(name);
        let (client, server) = (client.expect(name), server.expect(name));
        assert_eq!((client.error, server.error), (None, None), "{name}");
        assert_eq!(client.recorder.expect(name).rtt().count(), 20, "{name}");
    }
}

#[test]
fn flows_threads_and_requests_in_flight() {
    for (spec, flows, threads, outstanding, size) in [
        ("udp:spin", 4, 2, 8, 100),
        ("udp:block", 2, 2, 4, 100),
        ("udp:spin,connected=off", 1, 1, 8, 100),
        ("udp:block,connected=off/udp:epoll", 1, 1, 4, 1400),
        ("udp:adaptive/udp:block,connected=off", 1, 1, 4, 100),
        ("tcp:epoll/poll", 5, 2, 8, 300),
        ("tcp:block", 1, 1, 8, 10_000),
        ("tcp:epoll,writes=3,quickack=on/spin,writes=2", 2, 2, 8, 300),
        ("uring-udp:spin", 4, 2, 8, 100),
        ("uring-udp:block,recv=multishot", 4, 1, 8, 100),
        ("uring-udp:block,ring=defer-taskrun/udp:epoll", 5, 2, 8, 300),
        ("uring-udp:block,submit=sqpoll", 2, 1, 4, 1400),
        ("uring-tcp:block", 5, 2, 8, 300),
        ("uring-tcp:spin,recv=multishot,ring=defer-taskrun", 1, 1, 8, 10_000),
        ("uring-tcp:block,recv=multishot/block,submit=sqpoll", 3, 1, 8, 65_536),
        ("tcp:poll/uring-tcp:block,wait=20", 2, 1, 8, 10_000),
        ("unix:poll", 3, 1, 5, 1000),
        ("unix:block", 1, 1, 8, 10_000),
        ("unix-dgram:block", 1, 1, 60, 10_000),
        ("unix-dgram:epoll/adaptive", 3, 3, 4, 65_536),
        ("pipe:adaptive", 2, 1, 12, 65_536),
        // Not `block`: here a second thread's own file table holds the other side's ends too, so that a pipe shows no end.
        ("pipe:poll", 2, 2, 40, 5000),
        ("eventfd:poll", 5, 2, 1, 8),
    ] {
        let mut job = job(spec);
        (job.flows, job.threads, job.outstanding, job.request, job.reply) = (flows, threads, outstanding, size, size);
        job.count = Some(401);
        job.check(false).expect(spec);
        let (client, server) = Pair::new(job, listening(V4)).run(spec);
        let (client, server) = (client.expect(spec), server.expect(spec));
        assert_eq!((client.error, server.error), (None, None), "{spec}");
        assert_eq!(client.recorder.expect(spec).rtt().count(), 401, "{spec}");
        assert_eq!((client.counts.duplicates, client.counts.corrupt, client.counts.reordered), (0, 0, 0), "{spec}");
        assert_eq!(client.side.cpus.len(), threads as usize, "{spec}");
    }
}

#[test]
fn a_stop_ends_an_endless_run() {
    for path in paths() {
        for policy in first_and_spin(path) {
            let mut job = job(&format!("{}:{policy}", path.name));
            (job.count, job.duration) = (None, None);
            if path.speaks == Speaks::TcpPerTransaction {
                job.pace = Some(2000.0);
            }
            let mut pair = Pair::new(job, listening(V4));
            pair.stop_client = true;
            let what = format!("{}:{policy}", path.name);
            let began = Instant::now();
            let client = pair.run(&what).0.expect(&what);
            assert!(client.stopped && client.error.is_none(), "{what}: {:?}", client.error);
            assert!(began.elapsed() < Duration::from_secs(3), "{what}");
            assert!(client.recorder.expect(&what).rtt().count() > 0, "{what}");
        }
    }
}

#[test]
fn a_server_that_goes_away_is_an_error_in_time() {
    for path in paths() {
        for policy in first_and_spin(path) {
            let mut job = job(&format!("{}:{policy}", path.name));
            (job.count, job.duration, job.timeout) = (None, None, Nanos::from_millis(1500));
            if path.speaks == Speaks::TcpPerTransaction {
                job.pace = Some(2000.0);
            }
            let mut pair = Pair::new(job, listening(V4));
            pair.stop_server = true;
            let what = format!("{}:{policy}", path.name);
            let began = Instant::now();
            let client = pair.run(&what).0.expect(&what);
            let error = client.error.unwrap_or_else(|| panic!("{what}: the client has not noticed"));
            assert!(began.elapsed() < Duration::from_secs(4), "{what}: {error}");
            assert!(!client.stopped, "{what}: {error}");
            assert!(client.recorder.expect(&what).rtt().count() > 0, "{what}: what was measured stands");
        }
    }
}

#[test]
fn another_sessions_client_is_not_answered() {
    for path in paths() {
        let mut job = job(path.name);
        job.timeout = Nanos::from_millis(300);
        let size = path.fixed_payload().unwrap_or(64);
        (job.request, job.reply, job.count) = (size, size, Some(5));
        let mut pair = Pair::new(job, listening(V4));
        pair.wrong_cookie = true;
        let (client, server) = pair.run(path.name);
        let failed = client.as_ref().map_or(true, |found| found.error.is_some());
        assert!(failed, "{}: {:?}", path.name, client.map(|found| found.counts));
        assert_eq!(server.map_or(0, |found| found.answered), 0, "{}", path.name);
    }
}

#[test]
fn a_schedule_is_kept() {
    for spec in ["udp:block", "tcp:spin", "pipe:poll", "memory", "eventfd", "tcp-crr"] {
        let mut job = job(spec);
        (job.pace, job.count) = (Some(1000.0), Some(60));
        let (client, _) = Pair::new(job, listening(V4)).run(spec);
        let client = client.expect(spec);
        assert_eq!(client.error, None, "{spec}");
        let recorder = client.recorder.expect(spec);
        let mut row = hairpin_record::run::Row::default();
        recorder.finish(&mut row);
        assert_eq!(row.transactions, 60, "{spec}");
        assert!(row.duration_ns >= 55_000_000, "{spec}: 60 requests at 1000/s in {} ns", row.duration_ns);
        assert!(row.rtt_from_due_ns.is_some_and(|from_due| from_due.count == 60), "{spec}");
    }
}

#[test]
fn threads_share_the_pace_and_the_count() {
    let mut job = job("udp:spin");
    (job.flows, job.threads, job.count, job.pace) = (2, 2, Some(101), Some(2000.0));
    let (client, _) = Pair::new(job, listening(V4)).run("two threads");
    let recorder = client.unwrap().recorder.unwrap();
    assert_eq!(recorder.rtt().count(), 101);
    assert!(recorder.measured_ns() >= 45_000_000, "2000/s over both threads, not each: {} ns", recorder.measured_ns());
}

#[test]
fn source_ports_are_as_asked() {
    for (spec, local_port, flows, ports) in [
        ("udp:spin", LocalPort::Rotate(3), 3, vec![16_384, 16_385, 16_386]),
        ("tcp:poll", LocalPort::Rotate(2), 2, vec![16_384, 16_385]),
        ("udp:poll", LocalPort::Fixed(23_456), 2, vec![23_456, 23_457]),
    ] {
        let mut job = job(spec);
        (job.local_port, job.flows, job.count) = (local_port, flows, Some(50));
        let client = Pair::new(job, listening(V4)).run(spec).0.expect(spec);
        assert_eq!(client.side.flow_facts.iter().map(|facts| facts.local_port).collect::<Vec<_>>(), ports, "{spec}");
    }
}

#[test]
fn two_sides_with_full_buffers_do_not_wait_for_each_other_for_ever() {
    let mut job = job("unix:block");
    (job.request, job.reply, job.outstanding, job.timeout) = (65_536, 65_536, 60, Nanos::from_millis(300));
    let began = Instant::now();
    let (client, server) = Pair::new(job, listening(V4)).run("full buffers");
    let errors = [client.unwrap().error, server.unwrap().error];
    let cause = errors.iter().flatten().any(|error| error.contains("lower --outstanding"));
    assert!(cause && began.elapsed() < Duration::from_secs(4), "{errors:?}");
}

#[test]
fn a_cpu_that_is_not_there_is_named() {
    let mut job = job("pipe");
    job.cpus = Sides { client: Some(4000), server: None };
    let error = Pair::new(job, listening(V4)).run("cpu 4000").0.expect_err("CPU 4000 does not exist");
    assert!(error.contains("4000"), "{error}");
}

#[test]
fn every_path_and_policy_has_its_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for path in PATHS {
        let page = docs.join(format!("paths/{}.md", path.name));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(text.starts_with(&format!("# `{}`", path.name)), "{}", page.display());
        for policy in path.policies {
            assert!(text.contains("all six") || text.contains(&format!("`{policy}`")), "{} names {policy}", page.display());
        }
        for option in path.options {
            let named = text.contains(&format!("`{}`", option.name)) || option.name == "usecs";
            assert!(named, "{} names {}", page.display(), option.name);
        }
    }
    for policy in Policy::ALL {
        let page = docs.join(format!("policies/{policy}.md"));
        assert!(page.is_file(), "{}", page.display());
    }
}
