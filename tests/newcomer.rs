//! From bare `hairpin` to a setting that helps: each command is one that the screen before it names.

use std::fs;

use crate::support::alone::{Ended, Part, Test};
use crate::support::{Done, Home, root};

pub const PART: Part =
    Part::new("newcomer", || vec![Test::new("each_screen_names_the_next_command", |_| each_screen_names_the_next_command())]);

/// Most commands from the first screen to a setting that helps.
const COMMANDS: usize = 5;
/// Tries of `tune try`, as hosts have moods.
const TRIES: u32 = 4;

/// A printed command without sudo, and with the flags that make it short and answer its question.
fn run(home: &Home, command: &str, tries: u32) -> Done {
    let words =
        command.trim_start_matches("sudo ").strip_prefix("hairpin").unwrap_or_else(|| panic!("no command: {command}")).trim();
    let more = match words.split(' ').next() {
        Some("ping") => "--duration 300ms".to_owned(),
        Some("explain") => "--duration 1s".to_owned(),
        _ if words.starts_with("tune try") => format!("--duration {}s --yes", 4 << tries),
        _ => String::new(),
    };
    let words = words.replace("COMMAND", "true").replace("tune apply", "tune apply --yes");
    let done = home.hairpin(&format!("{words} {more}"));
    assert_eq!(done.code, Some(0), "{command}: {done:?}");
    assert!(done.out.lines().count() <= 24 && done.out.lines().all(|line| line.chars().count() <= 80), "{command}: {}", done.out);
    done
}

/// The command that a screen names; on the front screen, the one for this host alone.
fn named(screen: &str) -> Option<String> {
    let next = |line: &str| line.strip_prefix("next  ").map(str::to_owned);
    let front = |line: &str| line.contains("this host with itself").then(|| line.trim().to_owned());
    let line = screen.lines().find_map(|line| next(line).or_else(|| front(line)))?;
    line.split("  ").next().map(str::to_owned)
}

fn each_screen_names_the_next_command() -> Ended {
    if !root() || !fs::exists("/dev/cpu_dma_latency").unwrap_or(false) {
        return Ended::Skipped(Some("hooks and settings of the host take root and /dev/cpu_dma_latency".into()));
    }
    let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_default();
    if ["", "none"].contains(&driver.trim()) {
        return Ended::Unshown("a host without a cpuidle driver has no setting that helps everywhere");
    }
    let home = Home::new();
    let mut typed = vec!["hairpin".to_owned()];
    let mut screens: Vec<String> = Vec::new();
    let mut tries = 0;
    while typed.len() <= COMMANDS {
        let command = typed.last().expect("a command");
        let screen = run(&home, command, tries).out;
        let next = named(&screen);
        // The effect of a setting can stay unclear on a busy host.
        if command.contains("tune try") && !screen.starts_with("worth having: ") {
            tries += 1;
            if tries < TRIES {
                continue;
            }
            return Ended::Unshown("no setting helped here");
        }
        screens.push(screen);
        match next {
            Some(next) => typed.push(next),
            None => break,
        }
    }
    assert!((4..=COMMANDS).contains(&typed.len()), "{typed:?}");
    let all = screens.join("\n");
    for part in ["RTT p50", "waking the other side", "worth having: cpu_dma_latency_us=0"] {
        assert!(all.contains(part), "no \"{part}\" after {typed:?}:\n{all}");
    }
    Ended::Passed
}
