//! The store: meshes are read back as written, merge exactly, and stay small.

use std::time::Instant;

use hairpin_record::histogram::Times;

use super::read::visits;
use super::*;

fn began(days: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000 + days * 86_400)
}

fn visit(a: &str, b: &str, number: u32, times: &[u64]) -> StoredVisit {
    let mut found = Times::new();
    times.iter().for_each(|ns| found.record(*ns));
    let buckets = Decoded::decode(&found.encode()).unwrap().buckets().collect();
    let client = if number % 2 == 1 { a } else { b };
    StoredVisit {
        path: "tcp:block/tcp:block".into(),
        a: a.into(),
        b: b.into(),
        client: client.into(),
        visit: number,
        request_bytes: 64,
        reply_bytes: 128,
        buckets,
    }
}

/// Times around `typical`, reproducible, with a tail.
fn times(typical: u64, count: u64) -> Vec<u64> {
    (0..count).map(|n| typical + (n * 7919) % (typical / 4) + if n % 97 == 0 { typical * (n % 13) } else { 0 }).collect()
}

fn store(dir: &Path, id: &str, days: u64, visits: &[StoredVisit]) -> PathBuf {
    let mut writer = MeshWriter::create(dir, id, began(days)).unwrap();
    visits.iter().for_each(|visit| writer.add(visit).unwrap());
    writer.finish().unwrap()
}

fn read(path: &Path) -> Vec<StoredVisit> {
    visits(path).unwrap().collect::<Result<_, _>>().unwrap()
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

#[test]
fn visits_are_read_back_over_several_groups_and_nothing_else_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let long: Vec<(u64, u64)> = (1..=GROUP as u64 + 10).map(|upper| (upper, upper % 7 + 1)).collect();
    let mut stored = vec![visit("n1", "n2", 1, &times(25_000, 2000)), visit("n1", "n2", 2, &times(24_000, 2000))];
    stored.push(StoredVisit { buckets: long, ..visit("n1", "n3", 1, &[]) });
    stored.push(visit("knoten-ä", "n3", u32::MAX, &[1, 60_000_000_000, 90_000_000_000]));
    let path = store(dir.path(), "20261126-a.1", 0, &stored);
    assert_eq!(path, dir.path().join("20261126-a.1.parquet"));
    assert_eq!(entries(dir.path()), 1);
    assert_eq!(read(&path), stored);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o600, 0o600);
    store(dir.path(), "b", 7, &stored[..1]);
    assert_eq!((entries(dir.path()), read(&path)), (2, stored), "another mesh is another file");
}

#[test]
fn merged_rows_are_the_merged_histogram() {
    let dir = tempfile::tempdir().unwrap();
    let all: Vec<Vec<u64>> = (0..6).map(|n| times(20_000 + 777 * n, 5000)).collect();
    let mut whole = Times::new();
    all.iter().flatten().for_each(|ns| whole.record(*ns));
    let whole = Decoded::decode(&whole.encode()).unwrap();
    let stored: Vec<StoredVisit> = all.iter().zip(1..).map(|(times, number)| visit("n1", "n2", number, times)).collect();
    let paths = [store(dir.path(), "a", 0, &stored[..2]), store(dir.path(), "b", 1, &stored[2..])];
    let read: Vec<StoredVisit> = paths.iter().flat_map(|path| read(path)).collect();
    let by_rows = Decoded::from_buckets(read.iter().flat_map(|visit| visit.buckets.iter().copied()));
    let mut by_histograms = Decoded::empty();
    read.iter().for_each(|visit| by_histograms.add(&visit.times()));
    assert!(by_rows.counts().eq(whole.counts()) && by_histograms.counts().eq(whole.counts()));
    assert_eq!(by_rows.count(), 30_000);
    assert_eq!(by_rows.quantile(hairpin_units::Quantile::P99), whole.quantile(hairpin_units::Quantile::P99));
}

#[test]
fn a_mesh_is_stored_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let one = visit("n1", "n2", 1, &times(25_000, 2000));
    let mut dropped = MeshWriter::create(dir.path(), "a", began(0)).unwrap();
    dropped.add(&one).unwrap();
    assert!(!dir.path().join("a.parquet").exists());
    drop(dropped);
    assert_eq!(entries(dir.path()), 0);
    // Two begin and one ends first.
    let mut late = MeshWriter::create(dir.path(), "a", began(0)).unwrap();
    late.add(&visit("n3", "n4", 1, &[5])).unwrap();
    let path = store(dir.path(), "a", 0, std::slice::from_ref(&one));
    let error = late.finish().unwrap_err().to_string();
    assert!(error.contains("a.parquet is there already"), "{error}");
    assert!(matches!(MeshWriter::create(dir.path(), "a", began(0)), Err(StoreError::There { .. })));
    assert_eq!((read(&path), entries(dir.path())), (vec![one], 1));
}

#[test]
fn a_full_disk_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = MeshWriter::create(dir.path(), "a", began(0)).unwrap();
    // The kernel's own full disk in the place of the file.
    let columns = Arc::new(parse_message_type(COLUMNS).unwrap());
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    writer.writer = SerializedFileWriter::new(full, columns, Arc::default()).unwrap();
    let one = visit("n1", "n2", 1, &times(25_000, 2000));
    let error = writer.add(&one).and_then(|()| writer.finish()).unwrap_err().to_string();
    assert!(error.contains("No space left") && error.contains("free some space"), "{error}");
    assert_eq!(entries(dir.path()), 0);
}

#[test]
fn bad_ids_folders_and_files_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    for id in ["", ".a", "a/b", "../a", "a b", "ä", &"a".repeat(201)] {
        assert!(matches!(MeshWriter::create(dir.path(), id, began(0)), Err(StoreError::Id { .. })), "{id}");
    }
    let none = dir.path().join("none");
    let errors = [MeshWriter::create(&none, "a", began(0)).map(drop), check(&none)].map(|done| done.unwrap_err().to_string());
    for error in errors {
        assert!(error.contains("No such file") && error.contains("name a directory"), "{error}");
    }
    check(dir.path()).unwrap();
    assert_eq!(entries(dir.path()), 0);
    let told = |path: &Path| visits(path).err().unwrap().to_string();
    assert!(told(&dir.path().join("none")).contains("No such file"));
    let path = dir.path().join("text");
    fs::write(&path, "no Parquet").unwrap();
    assert!(told(&path).contains("no Parquet file"));
    let columns = Arc::new(parse_message_type("message other { required int64 n; }").unwrap());
    SerializedFileWriter::new(File::create(&path).unwrap(), columns, Arc::default()).unwrap().into_inner().unwrap();
    assert!(told(&path).contains("is no stored mesh"));
}

#[test]
fn damaged_files_end_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = store(dir.path(), "a", 0, &[visit("n1", "n2", 1, &times(25_000, 2000))]);
    let whole = fs::read(&path).unwrap();
    for length in [0, 4, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(visits(&path).is_err(), "{length} bytes of {}", whole.len());
    }
}

/// A histogram of 20,000 round trips around 25 us: a bell of 5 % with a tail, in the buckets of an HDR histogram of three digits.
fn buckets(seed: u64) -> Vec<(u64, u64)> {
    let middle = 1500 + seed % 40;
    let bell = (0..2048u64).filter_map(|at| {
        let away = (at as f64 - middle as f64) / 78.0;
        let mean = 20_000.0 / (78.0 * 2.507) * (-away * away / 2.0).exp() + if at > middle { 0.3 } else { 0.0 };
        // Counts scatter as by chance (the mixing of SplitMix64).
        let mut bits = (seed << 16 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let chance = ((bits ^ (bits >> 27)) % 1000) as f64 / 1000.0;
        let n = (mean + (chance - 0.5) * 2.0 * (3.0 * mean).sqrt()).round();
        (n >= 1.0).then_some((at * 16 + 15, n as u64))
    });
    bell.collect()
}

/// 1,000 hosts with 20 partners each are 10,000 pairs of two visits each. To take a second, one pair in 20 is written; all of
/// them take 20 times as much or less, as groups of rows are independent and only the files' ends are shared.
#[test]
fn a_thousand_hosts_with_twenty_partners_stay_small() {
    of_a_thousand_hosts::<20>();
}

/// `cargo test --release -p hairpin-mesh -- --ignored --nocapture all_of_a_thousand`
#[test]
#[ignore = "ten times as long; it prints the figures of docs/mesh-store.md"]
fn all_of_a_thousand_hosts_stay_small() {
    of_a_thousand_hosts::<1>();
}

/// One pair in `PART`.
fn of_a_thousand_hosts<const PART: u64>() {
    const PAIRS: u64 = 10_000;
    const MOST: u64 = 100_000_000;
    let dir = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let mut rows = 0;
    let mut path = None;
    let memory = allocation_counter::measure(|| {
        let mut writer = MeshWriter::create(dir.path(), "large", began(0)).unwrap();
        for pair in (0..PAIRS).step_by(PART as usize) {
            let (a, b) =
                (format!("node{:04}.cluster", pair / 10), format!("node{:04}.cluster", (pair / 10 + pair % 10 * 49 + 1) % 1000));
            for number in 1..=2 {
                let buckets = buckets(pair * 2 + u64::from(number));
                rows += buckets.len() as u64;
                writer.add(&StoredVisit { buckets, ..visit(&a, &b, number, &[]) }).unwrap();
            }
        }
        path = Some(writer.finish().unwrap());
    });
    let size = fs::metadata(path.as_ref().unwrap()).unwrap().len();
    println!("{rows} rows, {size} bytes, {} bytes of memory at most, {:?}", memory.bytes_max, start.elapsed());
    assert!(rows > PAIRS / PART * 2 * 300, "{rows} rows are no histograms of 20,000 round trips");
    assert!(size * PART < MOST, "{size} bytes for a part of {PART}");
    // The index of a row group stays in memory; all else is reused.
    assert!(memory.bytes_max < 64 << 20, "{} bytes", memory.bytes_max);
    let reading = allocation_counter::measure(|| {
        let read: u64 = visits(path.as_ref().unwrap()).unwrap().map(|visit| visit.unwrap().buckets.len() as u64).sum();
        assert_eq!(read, rows);
    });
    println!("{} bytes of memory at most to read, {:?}", reading.bytes_max, start.elapsed());
    assert!(reading.bytes_max < 64 << 20, "{} bytes", reading.bytes_max);
}

/// Two meshes of eight hosts, eight days apart; n2 to n5 got slower, and their ranks the other way round.
fn week() -> [(&'static str, u64, Vec<StoredVisit>); 2] {
    let mesh = |slow: u64, is_turned: bool| {
        let pairs = (1..=8u64).flat_map(|a| (a + 1..=8).map(move |b| (a, b)));
        let visits = pairs.flat_map(|(a, b)| (1..=2).map(move |number| (a, b, number)));
        let one = |(a, b, number): (u64, u64, u32)| {
            let typical = if (a, b) == (2, 5) { slow } else { 25_000 + 100 * a + 10 * b };
            let (one, other) = if is_turned { (b, a) } else { (a, b) };
            visit(&format!("n{one}"), &format!("n{other}"), number, &times(typical, 400))
        };
        visits.map(one).collect()
    };
    [("mesh-1", 0, mesh(25_250, false)), ("mesh-2", 8, mesh(40_000, true))]
}

/// The store that the tests of `docs/mesh-store.md` read; `HAIRPIN_BLESS=1` writes it.
#[test]
fn the_store_of_the_python_tests_is_as_written_now() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/tests/data/mesh-store");
    for (id, days, stored) in week() {
        let path = dir.join(format!("{id}.parquet"));
        if std::env::var_os("HAIRPIN_BLESS").is_some() {
            fs::create_dir_all(&dir).unwrap();
            let _ = fs::remove_file(&path);
            store(&dir, id, days, &stored);
        }
        assert!(read(&path) == stored, "{} is not what is written now: run this test with HAIRPIN_BLESS=1", path.display());
    }
}
