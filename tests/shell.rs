//! Completions in a bash that somebody types into.

use std::os::unix::fs::symlink;

use crate::support::alone::{self, Listed, Part};
use crate::support::terminal::{Terminal, terminals};
use crate::support::{HAIRPIN, Home};

pub const PART: Part = Part::new("shell", || alone::listed(TESTS));

const TESTS: &[Listed] = &[("tab_completes_what_there_is_now", tab_completes_what_there_is_now)];

fn tab_completes_what_there_is_now(name: &str) -> bool {
    if !terminals(name) {
        return false;
    }
    let home = Home::new();
    symlink(HAIRPIN, home.file("hairpin")).expect("a link");
    home.hairpin("ping loopback -p udp -c 20 --warmup 1ms -q").fails(0, &[]);
    let id = home.json("runs list")["runs"][0]["id"].as_str().expect("an id").to_owned();
    let shell = format!("PATH={}:$PATH PS1='> ' bash --norc --noprofile -i", home.path().display());
    let terminal = Terminal::start(&home, &shell);
    terminal.shows(">");
    terminal.press(&["source <(hairpin completions bash); complete -p hairpin", "Enter"]);
    terminal.shows("-F _hairpin hairpin");
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
