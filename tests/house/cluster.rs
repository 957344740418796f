//! The cases of cluster/ and their page, docs/mesh.md. No node is started here.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use hairpin_mesh::setup::Setup;
use hairpin_units::Nanos;

use super::root;

fn page() -> String {
    fs::read_to_string(root().join("docs/mesh.md")).expect("docs/mesh.md")
}

/// The cells of the table's rows that begin with this.
fn rows<'a>(page: &'a str, after: &str) -> Vec<Vec<&'a str>> {
    let table = page.lines().skip_while(|line| !line.starts_with(after)).skip(2).take_while(|line| line.starts_with('|'));
    table.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn every_case_has_a_head_and_stands_in_the_page() {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(root().join("cluster/cases")).expect("cluster/cases") {
        let file = entry.expect("an entry").path();
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).expect("a case");
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(head.iter().any(|line| line.starts_with("# limit: ")), "{name} has no limit");
        let says = Command::new("sh").arg("-n").arg(&file).output().expect("sh");
        assert!(says.status.success(), "{name}: {}", String::from_utf8_lossy(&says.stderr));
        names.insert((name, head[0].trim_start_matches("# ").to_owned()));
    }
    let page = page();
    let said = rows(&page, "| case |").into_iter().map(|row| (row[0].trim_matches('`').to_owned(), row[1].to_owned()));
    assert_eq!(said.collect::<BTreeSet<_>>(), names, "the table in docs/mesh.md (left) and the titles of cluster/cases (right)");
}

#[test]
fn the_table_of_costs_is_that_of_the_schedule() {
    let page = page();
    let rows = rows(&page, "| nodes |");
    assert_eq!(rows.iter().map(|row| row[0]).collect::<BTreeSet<_>>(), BTreeSet::from(["8", "64", "1,000", "10,000"]));
    for row in rows {
        let setup = Setup {
            ranks: row[0].replace(',', "").parse().expect("a number of nodes"),
            pairs: row[1].trim_matches('`').into(),
            visits: 2,
            seed: 1,
            path: "udp/block".into(),
            request: 64,
            reply: 64,
            duration: Nanos::from_millis(500),
            warmup: Nanos::from_millis(50),
        };
        let schedule = setup.schedule().expect("a schedule");
        let visits = schedule.slots(0).count();
        let told = format!("{}, 2 visits, {} rounds, about {}", pairs(row[2]), row[3].replace(',', ""), row[5]);
        assert_eq!(told, setup.cost(&schedule), "{row:?}");
        assert_eq!(row[4].replace(',', ""), visits.to_string(), "visits of a rank in {row:?}");
        let bytes = schedule.pair_count() * 2 * BYTES_OF_A_VISIT;
        assert_eq!(row[6], size(bytes), "{row:?}");
    }
}

/// As the page says it.
const BYTES_OF_A_VISIT: u64 = 2_000;

fn pairs(cell: &str) -> String {
    format!("{} pairs", cell.replace(',', ""))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.0} GB", bytes as f64 / 1e9),
    }
}
