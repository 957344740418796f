//! Probes: several at one `hairpin serve`, beside each other, and still while another session measures.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{Home, Running, free_port, rows, workers_of};
use hairpin_plan::job::{Address, Job};
use hairpin_session::channel::Channel;
use hairpin_session::handshake::{self, Kind};
use hairpin_session::message::{Answer, Request};
use hairpin_units::Nanos;

/// Over a stream, where a busy host is no loss.
const PROBE: &str = "--path tcp --rate 50 --warmup 1ms";
const SOON: Duration = Duration::from_secs(20);

/// A connection as a probe's, without a run behind it.
fn connect(address: &str, kind: Kind) -> Channel {
    let address: SocketAddr = address.parse().unwrap();
    handshake::connect_as(kind, "127.0.0.1", address.port(), None).unwrap()
}

fn job(pace: Option<f64>) -> Job {
    Job { pace, duration: None, warmup: Nanos::from_millis(1), cookie: 7, ..Job::new("tcp:block".parse().unwrap()) }
}

/// Plans a row; returns where its data goes.
fn plan(channel: &mut Channel, job: Job) -> SocketAddr {
    channel.send(&Request::Plan(Box::new(job))).unwrap();
    match channel.recv::<Answer>(SOON).unwrap() {
        Answer::Ready(Some(Address::Inet(data))) => data,
        other => panic!("{other:?}"),
    }
}

/// A probe with a flow, whose client is this test.
fn by_hand(address: &str) -> (Channel, TcpStream) {
    let mut channel = connect(address, Kind::Probe);
    let mut data = TcpStream::connect(plan(&mut channel, job(Some(100.0)))).unwrap();
    data.set_nodelay(true).unwrap();
    let mut proof = [0; 32];
    proof[..8].copy_from_slice(b"HRPNFLOW");
    proof[8] = 7;
    data.write_all(&proof).unwrap();
    data.read_exact(&mut proof).unwrap();
    channel.send(&Request::Go).unwrap();
    transaction(&mut data);
    (channel, data)
}

fn transaction(data: &mut TcpStream) {
    data.write_all(&[0; 64]).unwrap();
    data.read_exact(&mut [0; 64]).unwrap();
}

/// True if the process is stopped: state T of proc_pid_stat(5).
fn is_frozen(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().rsplit_once(") ").unwrap().1.starts_with('T')
}

fn frozen(serve: &Running) -> usize {
    workers_of(serve.pid()).into_iter().filter(|pid| is_frozen(*pid)).count()
}

/// Waits until `count` workers are stopped: each has to run once more to take the signal, and waits for that on a busy host.
fn until_frozen(serve: &Running, count: usize) {
    let begun = Instant::now();
    while frozen(serve) != count {
        assert!(begun.elapsed() < SOON, "{} of {count} are frozen", frozen(serve));
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn three_probes_stand_still_while_a_session_measures_and_lose_nothing() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let mut probes: Vec<Running> = (0..3).map(|_| home.start(&format!("ping {address} {PROBE} --forever -o jsonl"))).collect();
    probes.iter_mut().for_each(|probe| probe.until("\"transactions\""));
    assert!(serve.err().contains("probe begins, 3 of at most 64"), "{}", serve.err());

    let measuring = home.start(&format!("ping {address} --path udp --rate 1000 --forever --warmup 1ms --json"));
    serve.until("probes: 3 wait for it, 0 were closed");
    probes.iter_mut().for_each(|probe| probe.until(&format!("waits: a measuring session runs on {address}")));
    // The probes' workers cannot run, and so answer nothing; the fourth measures.
    until_frozen(&serve, 3);
    assert_eq!(workers_of(serve.pid()).len(), 4);
    sleep(Duration::from_secs(1));
    assert_eq!(frozen(&serve), 3);
    // Another measuring session is told to wait, as ever.
    home.hairpin(&format!("ping {address} --path udp --count 3"))
        .fails(1, &["busy with another session until its client ends it"]);
    measuring.signal("INT");
    assert_eq!(measuring.done().code, Some(0));

    for probe in &mut probes {
        probe.until("goes on after ");
    }
    for probe in probes {
        probe.signal("INT");
        let done = probe.done();
        assert_eq!(done.code, Some(0), "{done:?}");
        let run: serde_json::Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
        let row = &rows(&run)[0];
        let (paused, gap) = (row["paused_ns"].as_u64().unwrap(), row["gap_ns"].as_u64().unwrap());
        assert!(paused >= 1_000_000_000 && gap >= paused, "{row}");
        assert_eq!((&row["lost"], &row["late"], &run["error"]), (&0.into(), &0.into(), &serde_json::Value::Null), "{row}");
        let silences = row["silences"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(silences.iter().all(|silence| silence["length_ns"].as_u64().unwrap() < paused), "the pause is no silence: {row}");
        // 50 and more would have been due in the pause; a busy host delays a few between blocks.
        assert!(row["due"]["left_out"].as_u64().unwrap() < 25, "nor are its requests left out: {row}");
    }
    let begun = Instant::now();
    while !workers_of(serve.pid()).is_empty() {
        assert!(begun.elapsed() < SOON, "{}", serve.err());
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_row_is_measured_only_when_the_probe_has_said_that_it_stands_still() {
    let home = Home::new();
    let (serve, address) = home.serve("");
    let (mut probe, mut data) = by_hand(&address);
    let mut measuring = connect(&address, Kind::Measuring);
    measuring.send(&Request::Plan(Box::new(Job { duration: Some(Nanos::from_secs(30)), ..job(None) }))).unwrap();
    let told = probe.recv::<Answer>(SOON).unwrap();
    let Answer::Pause(Some(left)) = told else { panic!("{told:?}") };
    assert!((Nanos::from_secs(25)..=Nanos::from_secs(31)).contains(&left), "{left}");
    assert_eq!(measuring.try_recv::<Answer>().unwrap(), None, "the probe still moves");
    transaction(&mut data);
    probe.send(&Request::Paused).unwrap();
    assert!(matches!(measuring.recv::<Answer>(SOON).unwrap(), Answer::Ready(_)));
    until_frozen(&serve, 1);
    // A request that the probe sends all the same is answered once the probe may go on.
    data.write_all(&[0; 64]).unwrap();
    data.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert_eq!(data.read(&mut [0; 64]).unwrap_err().kind(), ErrorKind::WouldBlock);
    // A probe that comes now is told to come again, and so is one between two rows.
    let mut next = connect(&address, Kind::Probe);
    assert!(matches!(next.recv::<Answer>(SOON).unwrap(), Answer::Pause(Some(_))));
    drop(measuring);
    assert_eq!(probe.recv::<Answer>(SOON).unwrap(), Answer::Resume);
    data.set_read_timeout(Some(SOON)).unwrap();
    data.read_exact(&mut [0; 64]).unwrap();
    transaction(&mut data);
}

#[test]
fn a_probe_that_does_not_stand_still_is_closed_and_keeps_nobody_waiting() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let (_probe, _data) = by_hand(&address);
    let done = home.hairpin(&format!("ping {address} --path udp --count 20 --warmup 1ms"));
    assert_eq!(done.code, Some(0), "{done:?}");
    serve.until("probes: 0 wait for it, 1 were closed");
    serve.until("probe ends: it did not stand still for the session that measures");
}

#[test]
fn a_probe_that_floods_gets_its_burst_and_no_more() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let (mut probe, mut data) = by_hand(&address);
    data.set_read_timeout(Some(SOON)).unwrap();
    let mut answered = 0;
    while answered < 100_000 && data.write_all(&[0; 64]).is_ok() && data.read_exact(&mut [0; 64]).is_ok() {
        answered += 1;
    }
    // A burst of 15 s' worth and 32 more; and what the rate allows meanwhile.
    assert!((1_500..10_000).contains(&answered), "{answered}");
    serve.until("probe ends: the client sends more requests than it said");
    let told = probe.recv::<Answer>(SOON).unwrap();
    let Answer::Server(report) = told else { panic!("{told:?}") };
    assert!(report.error.unwrap().contains("more requests than it said"));

    // Messages instead of requests.
    let mut probe = connect(&address, Kind::Probe);
    while probe.send(&Request::Beat).is_ok() {}
    serve.until("probe ends: it sends too many messages");
}

#[test]
fn a_probe_gets_what_a_probe_may_have() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let mut probe = connect(&address, Kind::Probe);
    for not in [
        job(None),
        job(Some(100.5)),
        Job { spec: "tcp:spin".parse().unwrap(), ..job(Some(10.0)) },
        Job { spec: "packet".parse().unwrap(), ..job(Some(10.0)) },
        Job { traced: true, ..job(Some(10.0)) },
    ] {
        probe.send(&Request::Plan(Box::new(not))).unwrap();
        let answer = probe.recv::<Answer>(SOON).unwrap();
        let Answer::Failed(failure) = answer else { panic!("{answer:?}") };
        assert!(failure.message.contains("at most 100 requests per second") || failure.message.contains("packet"), "{failure:?}");
    }
    plan(&mut probe, job(Some(100.0)));
    for ask in [Request::Hooks(true), Request::Stamps(1), Request::Times] {
        let mut probe = connect(&address, Kind::Probe);
        probe.send(&ask).unwrap();
        let answer = probe.recv::<Answer>(SOON).unwrap();
        let Answer::Failed(failure) = answer else { panic!("{ask:?}: {answer:?}") };
        assert_eq!(failure.message, "the server ended the session: a probe has no hooks, stamps and times of day");
        assert!(probe.recv::<Answer>(SOON).is_err(), "{ask:?}");
    }
    serve.until("probe ends: a probe has no hooks, stamps and times of day");
    // A client that sends more, or waits busily, measures alone, as ever.
    for flags in ["--rate 200", "--rate 50 --path udp:spin", ""] {
        let done = home.hairpin(&format!("ping {address} {flags} --count 3 --warmup 1ms"));
        assert_eq!(done.code, Some(0), "{flags}: {done:?}");
    }
    assert_eq!(serve.err().matches("session begins").count(), 3, "{}", serve.err());
}

#[test]
fn a_full_server_says_so_and_leaves_nothing_behind() {
    let home = Home::new();
    let (mut serve, address) = home.serve("");
    let probes: Vec<Channel> = (0..64).map(|_| connect(&address, Kind::Probe)).collect();
    serve.until("probe begins, 64 of at most 64");
    let full = home.hairpin(&format!("ping {address} {PROBE} --count 3"));
    full.fails(1, &["this server serves 64 probes already; run again when one has ended"]);
    let workers = workers_of(serve.pid());
    assert_eq!(workers.len(), 64);
    // Measuring sessions have a place of their own.
    assert_eq!(home.hairpin(&format!("ping {address} --path udp --count 3 --warmup 1ms")).code, Some(0));
    // Those that a busy host does not let stand still in time are closed.
    serve.until(" wait for it, ");
    // Its descriptors stay within the limit that a shell gives.
    let open = fs::read_dir(format!("/proc/{}/fd", serve.pid())).unwrap().count();
    assert!(open < 900, "{open} descriptors");
    serve.signal("INT");
    assert_eq!(serve.done().code, Some(0));
    drop(probes);
    let begun = Instant::now();
    while workers.iter().any(|pid| Path::new(&format!("/proc/{pid}/exe")).exists()) {
        assert!(begun.elapsed() < SOON, "workers outlive their server");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_probe_that_comes_while_a_session_measures_waits_and_goes_in_then() {
    let home = Home::new();
    let (serve, address) = home.serve("");
    let mut measuring = connect(&address, Kind::Measuring);
    plan(&mut measuring, job(None));
    let mut probe = home.start(&format!("ping {address} {PROBE} --count 5"));
    let mut given_up = home.start(&format!("ping {address} {PROBE} --forever"));
    probe.until("waits: a measuring session runs on ");
    given_up.until("waits: a measuring session runs on ");
    assert!(workers_of(serve.pid()).len() == 1, "nothing of it runs there");
    given_up.signal("INT");
    given_up.done().fails(1, &["stopped before anything was measured"]);
    drop(measuring);
    let done = probe.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.contains("goes on after "), "{done:?}");
}

#[test]
fn silent_probes_that_have_to_wait_are_bounded_in_number() {
    let home = Home::new();
    let (serve, address) = home.serve("");
    let mut measuring = connect(&address, Kind::Measuring);
    plan(&mut measuring, job(None));
    let [low, high] = handshake::VERSION.to_le_bytes();
    let preamble = [b'H', b'R', b'P', b'N', low, high, 0, Kind::Probe as u8];
    let silent: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut stream = TcpStream::connect(&*address).unwrap();
            stream.write_all(&preamble).unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {
        // 8 of an address are heard out at once; the others are for the server itself and the session.
        let threads = fs::read_dir(format!("/proc/{}/task", serve.pid())).unwrap().count();
        assert!(threads < 30, "{threads} threads");
        sleep(Duration::from_millis(5));
    }
    drop(silent);
    let mut next = connect(&address, Kind::Probe);
    assert!(matches!(next.recv::<Answer>(SOON).unwrap(), Answer::Pause(_)));
}

/// Its measured time is that of the flags, whatever the pause.
#[test]
fn a_probe_with_a_duration_has_it_in_full() {
    let home = Home::new();
    let (_serve, address) = home.serve("");
    let mut probe = home.start(&format!("ping {address} {PROBE} --duration 2s -o jsonl"));
    probe.until("\"transactions\"");
    let mut measuring = connect(&address, Kind::Measuring);
    plan(&mut measuring, job(None));
    sleep(Duration::from_millis(1500));
    assert!(probe.goes_on());
    drop(measuring);
    let done = probe.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let run: serde_json::Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
    let row = &rows(&run)[0];
    assert!(row["paused_ns"].as_u64().unwrap() >= 1_500_000_000, "{row}");
    let transactions = row["transactions"].as_u64().unwrap();
    assert!((80..=100).contains(&transactions), "50/s for 2 s: {row}");
}

#[test]
fn too_few_data_ports_are_named() {
    let home = Home::new();
    let port = free_port();
    let (_serve, address) = home.serve(&format!("--data-ports {port}-{port}"));
    let mut first = home.start(&format!("ping {address} --path udp --rate 50 --forever -o jsonl"));
    first.until("\"transactions\"");
    let second = home.hairpin(&format!("ping {address} --path udp --rate 50 --count 1"));
    second.fails(1, &[&format!("no data port of {port} to {port} is free"), "--data-ports"]);
}
