//! `hairpin mesh --engine slurm` with a stand-in for srun, which starts the ranks on this host or ends as Slurm's does;
//! cluster/cases has the real one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Done, HAIRPIN, Home, LIMIT, Running};

/// The ranks of one host, with the last of srun's options before the command. `$ranks` is set, `"$@"` is the command, and `rank
/// K` runs it.
const RANKS: &str = r#"
echo "$@" >"$HOME/line"
while [ "${1#--}" != "$1" ]; do
    case $1 in --ntasks=*) ranks=${1#*=} ;; esac
    shift
done
rank() { k=$1; shift; SLURM_PROCID=$k SLURM_NTASKS=$ranks SLURM_JOB_ID=7 SLURM_STEP_NUM_NODES=1 exec "$@" --same-host; }
"#;

/// A folder with a stand-in for srun, if there is one.
fn home(script: Option<&str>) -> Home {
    let home = Home::new();
    fs::create_dir(home.file("bin")).unwrap();
    if let Some(script) = script {
        fs::write(home.file("bin/srun"), format!("#!/bin/sh\n{RANKS}\n{script}\n")).unwrap();
        fs::set_permissions(home.file("bin/srun"), fs::Permissions::from_mode(0o755)).unwrap();
    }
    home
}

fn start(home: &Home, args: &str) -> Running {
    let mut command = home.command(HAIRPIN);
    command.args(["mesh", "--engine", "slurm", "--duration", "60ms", "--warmup", "10ms"]).args(args.split_whitespace());
    let path = format!("{}:{}", home.file("bin").display(), std::env::var("PATH").unwrap_or_default());
    command.env("PATH", path).env("HOME", home.path());
    home.spawn(command)
}

fn done(script: &str, args: &str) -> (Home, Done) {
    let home = home(Some(script));
    let done = start(&home, args).done();
    (home, done)
}

/// The pairs of a record that have figures.
fn measured(record: &Value) -> usize {
    record["pairs"].as_array().expect("pairs").iter().filter(|pair| pair["rtt_ns"].is_object()).count()
}

#[test]
fn a_job_is_made_and_its_record_printed_and_stored() {
    let ranks =
        r#"for k in 1 2; do (rank $k "$@") & done; echo "srun: job 7 queued and waiting for resources" >&2; (rank 0 "$@"); wait"#;
    let (home, done) = done(ranks, "-N 3 --partition fast --visits 1 --queue 90s --json");
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    assert_eq!((measured(&record), &record["schedule"]["ranks"]), (3, &3.into()));
    assert!(done.err.contains("job 7 queued") && done.err.contains("3 pairs, 1 visit"), "{done:?}");
    let line = fs::read_to_string(home.file("line")).unwrap();
    for part in
        ["--nodes=3", "--ntasks=3", "--partition=fast", "--immediate=90", "--visits 1", "--dir hairpin-mesh-", " --no-store "]
    {
        assert!(line.contains(part), "no {part} in {line}");
    }
    let stored = home.json("runs show latest");
    assert_eq!(stored["pairs"], record["pairs"]);
}

#[test]
fn a_threshold_is_held_here() {
    let ranks = r#"(rank 1 "$@") & (rank 0 "$@"); wait"#;
    let (_, done) = done(ranks, "-N 2 --visits 1 --no-store --fail-if min>1ns");
    assert_eq!((done.code, done.out.contains("RTT p50")), (Some(3), true), "{done:?}");
}

#[test]
fn an_srun_that_stays_after_the_record_is_ended() {
    let ranks = r#"(rank 1 "$@") & (rank 0 "$@"); echo $$ >"$HOME/pid"; exec sleep 1000"#;
    let (home, done) = done(ranks, "-N 2 --visits 1 --no-store --json");
    assert_eq!((done.code, measured(&done.json())), (Some(0), 1));
    let pid = fs::read_to_string(home.file("pid")).unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists(), "srun goes on");
}

#[test]
fn without_rank_0s_record_the_files_are_merged() {
    let ranks = r#"(rank 1 "$@") & (rank 0 "$@") >/dev/null; wait; exit 1"#;
    let (_, done) = done(ranks, "-N 2 --visits 1 --no-store --json");
    assert_eq!((done.code, measured(&done.json())), (Some(0), 1), "{done:?}");
    assert!(done.err.contains("rank 0 gave no record"), "{done:?}");
    // Rank 1 was the server alone, which tells of nothing.
    assert_eq!(done.json()["missing"], Value::Array(vec![]));
    let nothing = "echo 'hairpin: rank 1: no' >&2; exit 1";
    self::done(nothing, "-N 2").1.fails(1, &["the job ended without a record: hairpin: rank 1: no"]);
}

#[test]
fn ctrl_c_reaches_the_ranks() {
    // As srun does it: the signal goes on to the ranks, and it stays until they have ended. A shell's background commands take no
    // SIGINT, nor does a shell that was started with it ignored, as tests in the background are.
    let ranks = r#"
        [ -n "$AGAIN" ] || AGAIN=1 exec env --default-signal=INT sh "$0" $(cat "$HOME/line")
        (rank 1 "$@") & one=$!
        (rank 0 "$@") & zero=$!
        trap 'kill -TERM $one $zero' INT
        while kill -0 $zero 2>/dev/null; do wait $zero; done"#;
    let home = home(Some(ranks));
    let running = start(&home, "-N 2 --visits 500 --dir m --no-store --json");
    let begun = Instant::now();
    while fs::read_to_string(home.file("m/pairs-0.jsonl")).unwrap_or_default().lines().count() < 1 {
        assert!(begun.elapsed() < LIMIT, "no visit is made: {}", running.err());
        sleep(Duration::from_millis(10));
    }
    running.signal("INT");
    let done = running.done();
    assert_eq!(done.code, Some(0), "{done:?}");
    let record = done.json();
    assert_eq!((&record["interrupted"], measured(&record)), (&true.into(), 1));
}

#[test]
fn what_slurm_refuses_is_one_sentence() {
    let lone = home(None);
    let mut command = lone.command(HAIRPIN);
    command.args(["mesh", "--engine", "slurm", "-N", "2"]).env("PATH", lone.file("bin"));
    lone.spawn(command).done().fails(4, &["there is no srun on this host", "mpirun"]);

    let refuses = r#"echo "srun: error: invalid partition specified: no" >&2
        echo "srun: error: Unable to allocate resources: Invalid partition name specified" >&2
        exit "$SLURM_EXIT_ERROR""#;
    let (_, refused) = done(refuses, "-N 2 --partition no");
    refused.fails(4, &["Slurm does not take the job (invalid partition specified: no)", "sinfo -s"]);
    let waits = r#"echo "srun: job 7 queued and waiting for resources" >&2
        echo "srun: error: Unable to allocate resources: Requested nodes are busy" >&2
        exit "$SLURM_EXIT_IMMEDIATE""#;
    let (_, late) = done(waits, "-N 2 --partition slow --queue 3s");
    late.fails(4, &["the job of 2 nodes did not start within 3 s in partition slow (Requested nodes are busy)", "--queue"]);
    for one in [&refused, &late] {
        assert_eq!(
            one.err.lines().filter(|line| line.starts_with("hairpin: ") && !line.contains("queued")).count(),
            1,
            "{one:?}"
        );
    }
}

#[test]
fn wrong_lines_are_answered() {
    let home = home(None);
    home.hairpin("mesh --engine slurm").fails(2, &["--nodes"]);
    home.hairpin("mesh --engine slurm -N 1").fails(2, &["2"]);
    home.hairpin("mesh --engine slurm -N 2 --rank 0").fails(2, &["--rank"]);
    home.hairpin("mesh --partition p --rank 0 --ranks 2").fails(2, &["--engine"]);
    home.hairpin("mesh --engine pbs -N 2").fails(2, &["slurm"]);
}
