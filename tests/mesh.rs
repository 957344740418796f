//! `hairpin mesh`: ranks over loopback, started by hand, and all that may become of one of them.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Done, HAIRPIN, Home, LIMIT, Running, free_port};

/// Short visits, all ranks on this host.
const QUICK: &str = "--same-host --duration 100ms --warmup 10ms";

/// Starts a rank of a mesh in the folder `m`.
fn start(home: &Home, rank: u32, ranks: u32, more: &str) -> Running {
    home.start(&format!("mesh --rank {rank} --ranks {ranks} --dir m {QUICK} {more}"))
}

/// Starts all ranks, each with `more`; rank 0 prints JSON.
fn all(home: &Home, ranks: u32, more: &str) -> Vec<Running> {
    (0..ranks).map(|rank| start(home, rank, ranks, &format!("{more} {}", if rank == 0 { "--json" } else { "" }))).collect()
}

/// The record that rank 0 printed, once every rank has ended well.
fn record(ranks: Vec<Running>) -> Value {
    let done: Vec<Done> = ranks.into_iter().map(Running::done).collect();
    for rank in &done[1..] {
        assert_eq!((rank.code, rank.out.as_str()), (Some(0), ""), "{rank:?}");
    }
    assert_eq!(done[0].code, Some(0), "{:?}", done[0]);
    done[0].json()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Pairs with figures.
fn measured(record: &Value) -> Vec<(u64, u64)> {
    let with_figures = list(&record["pairs"]).iter().filter(|pair| pair["rtt_ns"].is_object());
    with_figures.map(|pair| (pair["a"].as_u64().unwrap(), pair["b"].as_u64().unwrap())).collect()
}

/// The reasons of the visits of a pair that are missing.
fn missing(record: &Value, a: u64, b: u64) -> Vec<String> {
    let pair = list(&record["pairs"]).iter().find(|pair| pair["a"] == a && pair["b"] == b).expect("a pair of the schedule");
    list(&pair["visits"]).iter().filter_map(|visit| visit["missing"].as_str().map(str::to_owned)).collect()
}

/// All reasons of a record.
fn reasons(record: &Value) -> Vec<&str> {
    let visits = list(&record["pairs"]).iter().flat_map(|pair| list(&pair["visits"]));
    visits.filter_map(|visit| visit["missing"].as_str()).collect()
}

/// Waits until a rank has written this many visits.
fn until_visits(home: &Home, rank: u32, visits: usize) {
    let (file, begun) = (home.file(&format!("m/pairs-{rank}.jsonl")), Instant::now());
    while fs::read_to_string(&file).unwrap_or_default().lines().count() < visits {
        assert!(begun.elapsed() < LIMIT, "rank {rank} writes no visit");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn four_ranks_are_six_pairs_and_a_record() {
    let home = Home::new();
    let record = record(all(&home, 4, ""));
    assert_eq!((&record["schema"], &record["interrupted"]), (&"hairpin.mesh/1".into(), &false.into()));
    assert_eq!(measured(&record), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], "{:?}", reasons(&record));
    assert_eq!((&record["schedule"]["rounds"], &record["schedule"]["pairs"]), (&6.into(), &"all".into()));
    for pair in list(&record["pairs"]) {
        let (visits, mut transactions) = (list(&pair["visits"]), 0);
        assert_eq!((&visits[0]["client"], &visits[1]["client"]), (&pair["a"], &pair["b"]), "the sides are exchanged");
        for visit in visits {
            assert!(visit["missing"].is_null() && !visit["histogram"].as_str().unwrap().is_empty(), "{visit}");
            transactions += visit["rtt_ns"]["count"].as_u64().unwrap();
        }
        assert!(transactions > 0 && pair["rtt_ns"]["count"] == transactions, "{pair}");
    }
    for (rank, of) in list(&record["ranks"]).iter().enumerate() {
        assert_eq!(of["rank"], rank);
        assert!(of["address"].as_str().unwrap().starts_with("127.0.0.1:") && of["facts"]["kernel_release"].is_string(), "{of}");
    }
    assert_eq!(list(&record["ranks"]).len(), 4);
    assert!(list(&record["missing"]).is_empty());
    // Every rank has an effect with its interval; whether a busy host's ranks are alike is not told here.
    assert_eq!(list(&record["effects"]).len(), 4, "{}", record["effects"]);
    for effect in list(&record["effects"]) {
        let [low, ratio, high] = ["low", "ratio", "high"].map(|name| effect[name].as_f64().unwrap());
        assert!(low <= ratio && ratio <= high && effect["subject"]["rank"].is_u64(), "{effect}");
    }
    assert!(!home.file("m/key").exists(), "the key outlives the mesh");

    // It is stored, and the files alone make the same.
    let shown = home.hairpin("runs show latest");
    assert!(shown.out.contains("6 of 6 pairs measured") && shown.out.contains("RTT p50 of each pair"), "{shown:?}");
    let merged = home.json("mesh merge m --no-store");
    assert_eq!(merged["pairs"], record["pairs"]);
    assert_eq!(home.hairpin("mesh merge m --no-store --fail-if min>1ns").code, Some(3));
    assert_eq!(home.hairpin("mesh merge m --no-store --fail-if min<1ns").code, Some(0));
    let csv = home.hairpin("mesh merge m --no-store --format csv");
    assert_eq!((csv.out.lines().count(), csv.out.starts_with("started,mesh,a,b,host_a")), (7, true), "{csv:?}");
    // What scripts ask for.
    let picked = home.json("mesh merge m --no-store --pick 3 --parquet .");
    assert_eq!((list(&picked["picked"]["ranks"]).len(), &picked["picked"]["exact"]), (3, &true.into()), "{}", picked["picked"]);
    assert!(home.file(&format!("{}.parquet", record["id"].as_str().unwrap())).exists());
    home.hairpin("mesh merge m --no-store --parquet .").fails(1, &["is there already"]);
    // The verdict is the same where nothing can be stored.
    let mut unstored = home.command(HAIRPIN);
    unstored.args("mesh merge m --parquet . --fail-if min>1ns".split(' ')).env("HAIRPIN_RUNS", "/dev/null/runs");
    home.spawn(unstored).done().fails(3, &["the run was not stored", "is there already"]);
    let too_few = home.hairpin("mesh merge m --no-store --pick 5");
    too_few.fails(2, &["pick between 1 and 4"]);
    assert!(too_few.out.contains("6 of 6 pairs measured"), "what was measured is not lost: {too_few:?}");
    assert_eq!(home.hairpin("mesh merge m --no-store --fail-if node>1000x").code, Some(0));
    assert_eq!(home.hairpin("mesh merge m --no-store --fail-if node>0.001x").code, Some(3));
    let drained = home.hairpin("mesh merge m --no-store --drain");
    assert_eq!((drained.code, drained.out.lines().count()), (Some(0), 1), "{drained:?}");
    // A folder takes one mesh.
    home.hairpin(&format!("mesh --rank 0 --ranks 4 --dir m {QUICK}")).fails(2, &["holds an earlier mesh", "--dir"]);
}

#[test]
fn a_list_of_hosts_takes_no_shared_folder() {
    let home = Home::new();
    let ports = [free_port(), free_port()];
    fs::write(home.file("key"), "7".repeat(64)).unwrap();
    let rank = |rank: u32, more: &str| {
        let hosts = format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
        home.start(&format!("mesh --rank {rank} --hosts {hosts} --dir m{rank} --key-file key {QUICK} {more}"))
    };
    let (second, first) = (rank(1, ""), rank(0, "--json --parquet ."));
    let record = record(vec![first, second]);
    assert_eq!((measured(&record), list(&record["ranks"]).len()), (vec![(0, 1)], 2));
    assert!(missing(&record, 0, 1).is_empty() && !home.file("m0/rank-1.json").exists());
    // The next mesh of these hosts has another id.
    let id = record["id"].as_str().unwrap();
    assert!(id.starts_with("listed-20") && home.file(&format!("{id}.parquet")).exists(), "{id}");
    assert_eq!(home.json("mesh merge m0 --no-store")["id"], id);
}

#[test]
fn a_rank_that_never_starts_costs_its_pairs() {
    let home = Home::new();
    let ranks = [0, 1, 2].map(|rank| start(&home, rank, 4, if rank == 0 { "--wait 3s --json" } else { "--wait 3s" }));
    let record = record(ranks.into());
    assert_eq!(measured(&record), [(0, 1), (0, 2), (1, 2)]);
    for rank in 0..3 {
        let reasons = missing(&record, rank, 3);
        assert!(reasons.len() == 2 && reasons.iter().all(|why| why.contains("rank 3 never started")), "{reasons:?}");
    }
    assert_eq!(record["missing"][0]["rank"], 3);
    let drained = home.hairpin("mesh merge m --no-store --drain");
    assert!(drained.code == Some(0) && !drained.out.contains("rank"), "{drained:?}");
    assert!(drained.err.contains("--drain leaves out rank 3"), "{drained:?}");
}

#[test]
fn a_rank_that_is_killed_costs_the_rest_of_its_pairs() {
    let home = Home::new();
    let mut ranks = all(&home, 3, "--visits 3");
    until_visits(&home, 2, 1);
    let killed = ranks.pop().unwrap();
    killed.signal("KILL");
    let record = record(ranks);
    assert!(measured(&record).contains(&(0, 1)) && missing(&record, 0, 1).is_empty(), "{record}");
    let lost = [missing(&record, 0, 2), missing(&record, 1, 2)].concat();
    assert!(!lost.is_empty() && lost.len() < 6, "what it had measured is there: {lost:?}");
    assert!(lost.iter().all(|why| why.contains("rank 2")), "{lost:?}");
    assert_eq!((&record["missing"][0]["rank"], list(&record["ranks"]).len()), (&2.into(), 3));
}

#[test]
fn without_rank_0_the_others_keep_their_pairs_and_merge_makes_the_record() {
    let home = Home::new();
    let mut ranks = all(&home, 3, "--visits 3");
    until_visits(&home, 0, 1);
    ranks.remove(0).signal("KILL");
    for rank in ranks {
        let done = rank.done();
        assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{done:?}");
        assert!(done.err.contains("rank 0 has gone") && done.err.contains("hairpin mesh merge m"), "{done:?}");
    }
    let record = home.json("mesh merge m --no-store");
    assert!(measured(&record).contains(&(1, 2)) && missing(&record, 1, 2).is_empty(), "{record}");
    let lost = [missing(&record, 0, 1), missing(&record, 0, 2)].concat();
    assert!(!lost.is_empty() && lost.len() < 6, "{lost:?}");
}

#[test]
fn another_key_costs_the_pairs_of_its_rank() {
    let home = Home::new();
    fs::write(home.file("other"), "3".repeat(64)).unwrap();
    let ranks = [(0, "--json"), (1, ""), (2, "--key-file other")].map(|(rank, more)| start(&home, rank, 3, more));
    let done: Vec<Done> = ranks.into_iter().map(Running::done).collect();
    assert_eq!(done.iter().map(|done| done.code).collect::<Vec<_>>(), [Some(0); 3], "{done:?}");
    let record = done[0].json();
    assert_eq!(measured(&record), [(0, 1)]);
    for other in [0, 1] {
        let reasons = missing(&record, other, 2);
        assert!(!reasons.is_empty() && reasons.iter().all(|why| why.contains("another key")), "{record}");
    }
    assert!(done[2].err.contains("rank 0 has another key"), "{:?}", done[2]);
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let home = Home::new();
    let ranks = all(&home, 3, "--visits 100");
    until_visits(&home, 0, 2);
    ranks.iter().for_each(|rank| rank.signal("INT"));
    let record = record(ranks);
    assert_eq!(record["interrupted"], true);
    assert!(!measured(&record).is_empty());
    assert!(record.to_string().contains("the mesh was ended before it"));
}

#[test]
fn wrong_lines_are_answered_in_a_sentence() {
    let home = Home::new();
    home.hairpin("mesh").fails(2, &["nothing says which rank this is", "srun hairpin mesh", "--rank K --ranks N"]);
    home.hairpin("mesh --rank 0 --ranks 1").fails(2, &["two ranks at least"]);
    home.hairpin("mesh --rank 0").fails(2, &["--rank 0 is there and --ranks is not"]);
    home.hairpin("mesh --rank 0 --ranks 2 --pairs some").fails(2, &["all, ring, neighbours or sample:K"]);
    home.hairpin("mesh --rank 0 --ranks 2 --fail-if p99").fails(2, &["'p99 > 40us'"]);
    home.hairpin("mesh --rank 0 --ranks 2 -p unix").fails(2, &["unix"]);
    home.hairpin("mesh --rank 0 --ranks 2 --listen 0.0.0.0").fails(2, &["--listen 0.0.0.0 means all addresses", "--hosts"]);
    home.hairpin("mesh --rank 0 --ranks 2 --explain -p tcp-crr")
        .fails(2, &["tcp-crr", "explain follows tcp, udp, uring-tcp and uring-udp"]);
    home.hairpin("mesh --rank 0 --ranks 2 --hosts n[1-").fails(2, &["--hosts", "[1-3,7]"]);
    home.hairpin("mesh --rank 0 --ranks 3 --hosts n[1-2] --key-file key").fails(2, &["2 hosts"]);
    home.hairpin("mesh --rank 0 --ranks 2 --hosts a,b").fails(2, &["--key-file"]);
    home.hairpin("mesh --rank 0 --ranks 3 --hosts a,b --key-file key").fails(2, &["2 hosts"]);
    home.hairpin("mesh --rank 0 --ranks 2 --parquet nowhere").fails(1, &["cannot store the mesh in nowhere"]);
    home.hairpin("mesh merge .").fails(2, &["holds no mesh"]);
    home.hairpin("mesh --rank 1 --ranks 2 --wait 10ms").fails(1, &["rank 1: rank 0 did not begin", "--dir"]);
    let mut command = home.command(HAIRPIN);
    command.args(["mesh", "--rank", "1", "--ranks", "2"]).env("SLURM_PROCID", "0").env("SLURM_NTASKS", "2");
    home.spawn(command).done().fails(2, &["SLURM_PROCID=0 and --rank 1 disagree"]);
}

#[test]
fn ranks_of_one_host_are_refused_unless_that_is_meant() {
    let home = Home::new();
    let rank = |rank: u32| home.start(&format!("mesh --rank {rank} --ranks 2 --dir m --listen 127.0.0.1"));
    for done in [rank(0), rank(1)].map(Running::done) {
        done.fails(2, &["ranks 0, 1 are all on host", "--same-host"]);
    }
}

#[test]
fn other_flags_are_another_mesh() {
    let home = Home::new();
    let first = start(&home, 0, 2, "--wait 300ms");
    let begun = Instant::now();
    while !home.file("m/rank-0.json").exists() {
        assert!(begun.elapsed() < LIMIT, "rank 0 does not begin");
        sleep(Duration::from_millis(10));
    }
    home.hairpin(&format!("mesh --rank 1 --ranks 2 --dir m {QUICK} --size 65"))
        .fails(2, &["rank 1: ", "other flags than rank 0"]);
    first.done().fails(1, &["no pair was measured"]);
}
