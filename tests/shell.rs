//! Completions in interactive shells.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::support::alone::{self, Listed, Part};
use crate::support::terminal::{Terminal, terminals};
use crate::support::{HAIRPIN, Home, can};

pub const PART: Part = Part::new("shell", || alone::listed(TESTS)).side_by_side();

const TESTS: &[Listed] = &[
    ("tab_completes_what_there_is_now_in_bash", in_bash),
    ("tab_completes_what_there_is_now_in_zsh", in_zsh),
    ("tab_completes_what_there_is_now_in_fish", in_fish),
];

fn in_bash(name: &str) -> bool {
    let ready = ("source <(hairpin completions bash); complete -p hairpin", "-F _hairpin hairpin");
    completes(name, "bash", "PS1='> ' bash --norc --noprofile -i", ready)
}

/// As installed, in a folder of its functions.
fn in_zsh(name: &str) -> bool {
    let line = "hairpin completions zsh > _hairpin; fpath=($PWD $fpath); autoload -U compinit; compinit -u -D; echo ready: $_comps[hairpin]";
    completes(name, "zsh", "PS1='> ' zsh -f -i", (line, "ready: _hairpin"))
}

fn in_fish(name: &str) -> bool {
    let line = "function fish_prompt; echo '> '; end; hairpin completions fish > one.fish; source one.fish; echo ready: (complete -c hairpin | count)";
    completes(name, "fish", "fish --no-config", (line, "ready: 1"))
}

/// Types into a shell: `ready` is the first line, and the text that it shows.
fn completes(name: &str, program: &str, shell: &str, ready: (&str, &str)) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !terminals(name) || !can(name, there, &format!("no {program} here; install it to try its completions")) {
        return false;
    }
    let home = Home::new();
    symlink(HAIRPIN, home.file("hairpin")).expect("a link");
    home.hairpin("ping loopback -p udp -c 20 --warmup 1ms -q").fails(0, &[]);
    let id = home.json("runs list")["runs"][0]["id"].as_str().expect("an id").to_owned();
    let folder = home.path().display();
    let terminal = Terminal::start(&home, &format!("cd {folder}; PATH={folder}:$PATH {shell}"));
    terminal.until("prompt", |text| text.contains(['>', '#', '$']));
    terminal.press(&[ready.0, "Enter"]);
    terminal.shows(ready.1);
    for (typed, then) in [
        ("hairpin exp", "> hairpin explain "),
        ("hairpin ping loo", "> hairpin ping loopback "),
        ("hairpin ping loopback -p udp:sp", "> hairpin ping loopback -p udp:spin "),
        ("hairpin tune try veth --knob cpu_dma", "> hairpin tune try veth --knob cpu_dma_latency_us="),
        ("hairpin report 2", &format!("> hairpin report {id} ")),
    ] {
        terminal.press(&[typed, "Tab"]);
        // A word behind it shows whether a space was set.
        terminal.press(&["x"]);
        terminal.shows(&format!("{then}x"));
        terminal.press(&["C-u"]);
    }
    terminal.press(&["exit 0", "Enter"]);
    terminal.ended();
    true
}
