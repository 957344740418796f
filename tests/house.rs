//! The rules of the house, checked against cargo's description of the workspace and against the files in it.
//!
//! Dependencies between crates and between modules, the number of compiled measuring loops, test programs,
//! records, names, `forbid(unsafe_code)`, licences of all dependencies, the crate table in
//! docs/architecture.md, the recorded demonstrations, and that every link in the documentation leads somewhere.

mod circles;
mod cluster;
mod demos;
mod figures;
mod instances;
mod path_names;
mod records;
mod rig;
mod surface;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Floor, crate, and the crates that it may depend on (normal and build edges).
const FLOORS: &[(u32, &str, &[&str])] = &[
    (0, "units", &[]),
    (0, "wire", &[]),
    (1, "sys", &["units"]),
    (1, "record", &["units"]),
    (2, "packet", &["units", "wire", "sys"]),
    (2, "tune", &["units", "sys", "record"]),
    (2, "trace", &["units", "sys", "record"]),
    (2, "model", &["units", "wire", "record"]),
    (2, "plan", &["units", "wire", "sys", "record"]),
    (3, "iopath", &["units", "wire", "sys", "record", "packet", "plan"]),
    (3, "report", &["units", "record", "plan"]),
    (4, "session", &["units", "wire", "sys", "record", "packet", "tune", "trace", "model", "plan", "iopath"]),
    (5, "lab", &["units", "wire", "sys", "record", "packet", "tune", "trace", "model", "plan", "iopath", "session"]),
    (6, "mesh", &["units", "sys", "record", "tune", "trace", "plan", "session", "lab"]),
    (
        7,
        "cli",
        &[
            "units", "wire", "sys", "record", "packet", "tune", "trace", "model", "plan", "report", "iopath", "session", "lab",
            "mesh",
        ],
    ),
];

/// The only crate with unsafe code.
const UNSAFE_ALLOWED: &str = "sys";

/// Names that say nothing, and so collect everything.
const NO_NAMES: &[&str] = &["util", "utils", "common", "helpers", "helper", "manager", "misc"];

/// Bytes of records in the tree.
const RUNS_AT_MOST: u64 = 1_500_000;

/// Licences under which code may be linked into a program offered under both MIT and Apache-2.0.
const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "0BSD",
    "CC0-1.0",
    "BSL-1.0",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace's root")
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).current_dir(root()).args(arguments).output().expect("cargo starts");
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo speaks UTF-8")
}

/// Packages as `cargo metadata` tells them.
fn packages(arguments: &[&str]) -> Vec<Value> {
    let text = cargo(&[&["metadata", "--format-version", "1", "--locked", "--offline"], arguments].concat());
    let mut metadata: Value = serde_json::from_str(&text).expect("cargo metadata is JSON");
    match metadata["packages"].take() {
        Value::Array(packages) => packages,
        other => panic!("no packages in cargo metadata: {other}"),
    }
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("a package has a name")
}

/// The workspace's crates: role → roles of its normal and build dependencies within the workspace.
fn house(packages: &[Value]) -> BTreeMap<String, BTreeSet<String>> {
    let role = |name: &str| name.strip_prefix("hairpin-").map(str::to_owned);
    let mut house = BTreeMap::new();
    for package in packages {
        let of = role(name(package)).unwrap_or_else(|| panic!("package {}: every one is called hairpin-<role>", name(package)));
        // `kind` is null for normal dependencies.
        let edges = package["dependencies"].as_array().unwrap().iter().filter(|edge| edge["kind"] != "dev");
        house.insert(of, edges.filter_map(|edge| role(name(edge))).collect());
    }
    house
}

/// Forbidden dependencies in `house`, in words; empty if there are none.
fn broken_floors(house: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut broken = Vec::new();
    for (role, edges) in house {
        let Some((_, _, may)) = FLOORS.iter().find(|(_, listed, _)| listed == role) else {
            broken.push(format!("hairpin-{role} is on no floor: add it to FLOORS and to docs/architecture.md"));
            continue;
        };
        for edge in edges.iter().filter(|edge| !may.contains(&edge.as_str())) {
            broken.push(format!("hairpin-{role} may not depend on hairpin-{edge}; it may on {may:?}"));
        }
    }
    broken
}

#[test]
fn crates_depend_only_on_floors_below() {
    let house = house(&packages(&["--no-deps"]));
    assert!(house.contains_key("cli"));
    assert_eq!(broken_floors(&house), Vec::<String>::new());
}

#[test]
fn the_table_itself_has_no_sibling_and_no_upward_edge() {
    for (floor, role, may) in FLOORS {
        for edge in *may {
            let below = FLOORS.iter().find(|(_, listed, _)| listed == edge).unwrap_or_else(|| panic!("{edge} is not listed")).0;
            assert!(below < *floor, "{role} on floor {floor} may use {edge} on floor {below}");
        }
    }
}

#[test]
fn a_wrong_edge_is_noticed() {
    let edges = |role: &str, to: &[&str]| BTreeMap::from([(role.to_owned(), to.iter().map(|&s| s.to_owned()).collect())]);
    assert_eq!(broken_floors(&edges("sys", &["units"])), Vec::<String>::new());
    assert_eq!(broken_floors(&edges("sys", &["record"])).len(), 1, "a sibling");
    assert_eq!(broken_floors(&edges("units", &["cli"])).len(), 1, "nothing depends on cli");
    assert_eq!(broken_floors(&edges("attic", &[])).len(), 1, "a crate on no floor");
}

#[test]
fn a_folder_is_named_after_its_role() {
    for package in packages(&["--no-deps"]) {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let folder = manifest.strip_prefix(root()).expect("inside the workspace").parent().unwrap();
        let role = name(&package).strip_prefix("hairpin-").unwrap_or(name(&package));
        assert_eq!(folder, Path::new("crates").join(role), "package {}", name(&package));
    }
}

#[test]
fn unsafe_code_is_forbidden_everywhere_but_in_sys() {
    for package in packages(&["--no-deps"]) {
        if name(&package).strip_prefix("hairpin-") == Some(UNSAFE_ALLOWED) {
            continue;
        }
        for target in package["targets"].as_array().unwrap() {
            let kinds = target["kind"].as_array().unwrap();
            if !kinds.iter().any(|kind| kind == "lib" || kind == "bin") {
                continue;
            }
            let source = target["src_path"].as_str().unwrap();
            let text = fs::read_to_string(source).unwrap_or_else(|e| panic!("{source}: {e}"));
            let forbidden = text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]");
            assert!(forbidden, "{source} lacks #![forbid(unsafe_code)]: unsafe code lives in hairpin-{UNSAFE_ALLOWED} alone");
        }
    }
}

/// The files of tests below `folder` that no file declares as a module; `roots` are the programs.
fn forgotten(folder: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    let declares = |parent: &Path, stem: &str| {
        fs::read_to_string(parent)
            .is_ok_and(|text| text.lines().any(|line| line.trim_start_matches("pub ") == format!("mod {stem};")))
    };
    let is_forgotten = |file: &PathBuf| {
        let (inside, stem) = (file.parent().unwrap(), file.file_stem().unwrap().to_str().unwrap());
        let (of, name) = if stem == "mod" {
            (inside.parent().unwrap(), inside.file_name().unwrap().to_str().unwrap())
        } else {
            (inside, stem)
        };
        let parents = if of == folder { roots.to_vec() } else { vec![of.with_extension("rs"), of.join("mod.rs")] };
        !roots.contains(file) && !parents.iter().any(|parent| declares(parent, name))
    };
    files(folder).into_iter().filter(|file| file.extension().is_some_and(|e| e == "rs") && is_forgotten(file)).collect()
}

/// Test programs of all crates beside those of their own modules.
const PROGRAMS_AT_MOST: usize = 18;

#[test]
fn a_crate_has_two_test_programs_at_most_and_no_file_is_forgotten() {
    let mut folders: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for package in packages(&["--no-deps"]) {
        for target in package["targets"].as_array().unwrap().iter().filter(|target| target["kind"][0] == "test") {
            let source = Path::new(target["src_path"].as_str().unwrap()).canonicalize().unwrap();
            assert!(
                ["main.rs", "alone.rs"].contains(&source.file_name().unwrap().to_str().unwrap()),
                "{}: make it a module of main.rs, or of alone.rs if its tests run one at a time",
                source.display()
            );
            folders.entry(source.parent().unwrap().to_owned()).or_default().push(source);
        }
    }
    assert!(folders.contains_key(&root().join("tests")), "{folders:?}");
    let programs: usize = folders.values().map(Vec::len).sum();
    assert!(
        programs <= PROGRAMS_AT_MOST,
        "{programs} test programs, {PROGRAMS_AT_MOST} may be: each is linked with the whole of its crate"
    );
    let forgotten: Vec<PathBuf> = folders.iter().flat_map(|(folder, roots)| forgotten(folder, roots)).collect();
    assert_eq!(forgotten, Vec::<PathBuf>::new(), "modules of no test program");
}

#[test]
fn a_forgotten_file_of_tests_is_noticed() {
    let place = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("main.rs", "mod a;\n"),
        ("a.rs", "pub mod b;\n"),
        ("a/b.rs", ""),
        ("a/c.rs", ""),
        ("d.rs", "mod a;\n"),
        ("e/mod.rs", ""),
    ] {
        let file = place.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).and_then(|()| fs::write(&file, text)).expect("a file");
    }
    let mut found = forgotten(place.path(), &[place.path().join("main.rs")]);
    found.sort();
    assert_eq!(found, ["a/c.rs", "d.rs", "e/mod.rs"].map(|name| place.path().join(name)));
}

#[test]
fn no_folder_or_module_has_a_name_that_says_nothing() {
    for path in files(&root().join("crates")) {
        for part in path.strip_prefix(root()).unwrap().iter() {
            let stem = Path::new(part).file_stem().unwrap().to_str().unwrap();
            assert!(!NO_NAMES.contains(&stem), "{}: name it after what it does", path.display());
        }
    }
}

#[test]
fn architecture_names_exactly_the_crates_that_exist() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).expect("docs/architecture.md");
    // Rows of the crate table: `| 2 | `tune` | …`.
    let mut named = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", floor, role, ..] = cells[..]
            && let Ok(floor) = floor.parse::<u32>()
        {
            named.insert(role.trim_matches('`').to_owned(), floor);
        }
    }
    let floor = |role: &str| FLOORS.iter().find(|(_, listed, _)| *listed == role).map_or(u32::MAX, |row| row.0);
    let house = house(&packages(&["--no-deps"]));
    let exist: BTreeMap<String, u32> = house.into_keys().map(|role| (role.clone(), floor(&role))).collect();
    assert_eq!(named, exist, "the table in docs/architecture.md (left) and the crates with their floors (right)");
}

/// True if a licence expression (SPDX, or cargo's old `A/B`) can be met with [`LICENCES`] alone.
fn allowed(expression: &str) -> bool {
    // OR binds weaker than AND; parentheses go from the inside out, each replaced by a licence that is, or is not, allowed.
    let mut expression = expression.replace('/', " OR ");
    while let Some(close) = expression.find(')') {
        let Some(open) = expression[..close].rfind('(') else { return false };
        let verdict = if allowed(&expression[open + 1..close]) { LICENCES[0] } else { "none" };
        expression.replace_range(open..=close, verdict);
    }
    expression.split(" OR ").any(|all| all.split(" AND ").all(|one| LICENCES.contains(&one.trim())))
}

#[test]
fn licence_expressions_are_understood() {
    for good in [
        "MIT",
        "MIT OR Apache-2.0",
        "MIT/Apache-2.0",
        "GPL-3.0 OR MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR Apache-2.0",
        "(Apache-2.0 OR MIT) AND (BSD-3-Clause OR GPL-2.0)",
    ] {
        assert!(allowed(good), "{good}");
    }
    for bad in ["", "GPL-3.0", "MPL-2.0", "MIT AND GPL-2.0", "(MIT OR Apache-2.0) AND MPL-2.0", "MIT)"] {
        assert!(!allowed(bad), "{bad}");
    }
}

#[test]
fn every_dependency_may_be_used_under_mit_and_apache() {
    // The dependencies on this machine; sources of packages for other systems are not downloaded.
    let version = cargo(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("cargo -vV names the host");
    let packages = packages(&["--filter-platform", host]);
    assert!(packages.len() > FLOORS.len(), "dependencies are part of the metadata");
    let refused: Vec<String> = packages
        .iter()
        .map(|package| (name(package), package["license"].as_str().unwrap_or("")))
        .filter(|(_, licence)| !allowed(licence))
        .map(|(name, licence)| format!("{name}: {licence:?}"))
        .collect();
    assert_eq!(refused, Vec::<String>::new(), "not usable under MIT and under Apache-2.0");
}

/// Every file below `folder`, build outputs, fetched packages and version control left out.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("a directory entry").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if !path.is_dir() {
            found.push(path);
        } else if !["target", "node_modules"].contains(&name.as_str()) && !name.starts_with('.') {
            found.extend(files(&path));
        }
    }
    found
}

#[test]
fn records_are_compressed_and_few() {
    // Text files left by a benchmark are not checked in.
    let text = ["json", "jsonl"];
    let ignored = fs::read_to_string(root().join(".gitignore")).expect(".gitignore");
    assert!(text.iter().all(|ending| ignored.lines().any(|line| line == format!("/runs/**/*.{ending}"))), "{ignored}");
    let is_text = |file: &PathBuf| file.extension().is_some_and(|ending| text.iter().any(|text| ending == *text));
    let kept = files(&root().join("runs")).into_iter().filter(|file| !is_text(file));
    let bytes: u64 = kept.map(|file| file.metadata().expect("its size").len()).sum();
    assert!(bytes <= RUNS_AT_MOST, "runs/ has {bytes} bytes, and may have {RUNS_AT_MOST}: take old records out");
}

/// Packages compiled for a selection of packages and edges, each with its features, except build
/// dependencies.
fn compiled(selection: &[&str]) -> BTreeSet<String> {
    let form = ["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p} [{f}]"];
    let text = cargo(&[&form, selection].concat());
    text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn command_and_tests_share_compiled_crates() {
    let command = compiled(&["--package", "hairpin-cli", "--edges", "normal,no-proc-macro"]);
    let tests = compiled(&["--workspace", "--edges", "normal,dev,no-proc-macro"]);
    let twice: Vec<&String> = command.difference(&tests).collect();
    assert!(
        twice.is_empty(),
        "compiled once for `make demo` and, with other features, for `make test`: name them in crates/cli/Cargo.toml: {twice:?}"
    );
}

/// The lines outside fenced blocks.
fn unfenced(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Targets of `[text](target)`, outside code.
fn links(text: &str) -> Vec<String> {
    let without_code = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let prose: Vec<String> = unfenced(text).map(without_code).collect();
    let prose = prose.join("\n");
    let after = prose.split("](").skip(1);
    after.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// The anchors that forges make from headings: lower case, punctuation gone, spaces to hyphens.
fn anchors(text: &str) -> BTreeSet<String> {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let headings = unfenced(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn every_link_in_the_documentation_leads_somewhere() {
    let root = root();
    let mut pages = files(&root.join("docs"));
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    let mut dead = Vec::new();
    for page in pages.iter().filter(|page| page.extension().is_some_and(|e| e == "md")) {
        let text = fs::read_to_string(page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        for target in links(&text).iter().filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').map_or((target.as_str(), None), |(file, anchor)| (file, Some(anchor)));
            let file = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let has = |anchor| fs::read_to_string(&file).is_ok_and(|text| anchors(&text).contains(anchor));
            if !file.exists() || !anchor.is_none_or(has) {
                dead.push(format!("{}: {target}", page.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert_eq!(dead, Vec::<String>::new(), "links that lead nowhere");
}

#[test]
fn links_and_anchors_are_found_outside_code_only() {
    let page = "# A sample's way\n[a](x.md#b) and `[c](d)`\n```\n# no heading\n[e](f)\n```\n[`g`](h.md)\n";
    assert_eq!(links(page), ["x.md#b", "h.md"]);
    assert_eq!(anchors(page), BTreeSet::from(["a-samples-way".to_owned()]));
}
