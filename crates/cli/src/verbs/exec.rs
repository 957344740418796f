//! `hairpin exec`: an unmodified program with settings for low latency.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

use hairpin_lab::exec::{self, Ended, LackingSocket, News, Outcome, SIGNALS, Settings};
use hairpin_sys::host::RealHost;
use hairpin_sys::signal::Signals;
use hairpin_tune::has_idle_states;

use crate::exit::{Failure, say};
use crate::flags::{whole, whole_in};

/// Run an unmodified program with the settings that are a process's or a socket's own, and prove that its sockets have them.
#[derive(Debug, clap::Args)]
pub struct Exec {
    /// Microseconds for which a receive call polls the device before it sleeps (SO_BUSY_POLL)
    #[arg(long, value_name = "US", value_parser = whole_in(0..=1_000_000u32))]
    busy_poll: Option<u32>,
    /// Segments leave at once (TCP_NODELAY)
    #[arg(long)]
    nodelay: bool,
    /// Segments are acknowledged at once (TCP_QUICKACK, after each receive call)
    #[arg(long)]
    quickack: bool,
    /// The CPU of all its threads
    #[arg(long, value_name = "N", value_parser = whole::<u32>)]
    cpu: Option<u32>,
    /// Hold the host's cores off deep idle states while it runs (/dev/cpu_dma_latency at 0); needs root
    #[arg(long)]
    hold_idle: bool,
    /// Give sockets that lack an option that option from outside: those of static programs and of Go
    #[arg(long)]
    set_live: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Exec {
    /// Runs the program and returns its exit code.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let Exec { busy_poll, nodelay, quickack, cpu, hold_idle, set_live, command } = self;
        let signals = Signals::block(SIGNALS).map_err(Failure::failed)?;
        let read_back = busy_poll.is_some() || nodelay;
        let settings = Settings { busy_poll, nodelay, quickack, cpu, hold_idle, set_live };
        // The demand is held all the same, for a driver that comes later.
        let is_heeded = has_idle_states(&RealHost);
        if hold_idle && !is_heeded {
            say("hairpin exec: --hold-idle has no effect here: without a cpuidle driver the kernel heeds no such demand");
        }
        let told = Settings { hold_idle: hold_idle && is_heeded, ..settings };
        let ended = exec::run(&command, settings, &signals, &mut |news| match news {
            // A setting that nobody reads back needs no look.
            News::Unseen if !read_back && !set_live => {}
            news => tell(news, told),
        })
        .map_err(|error| match error.of_the_program() {
            Some(code) => Failure::with_code(&error, code),
            None => Failure::blamed(&error, error.blame()),
        })?;
        let Ended { status, seen, left } = ended;
        if read_back && seen.sockets == 0 && seen.closed == 0 && !seen.unseen && left.is_empty() {
            let rest: String = of_the_whole(told).iter().map(|part| format!("; {part}")).collect();
            say(format_args!(
                "hairpin exec: no internet socket was seen, so nothing is proven; the first look is a second after the start{rest}"
            ));
        }
        if seen.not_polled > 0 {
            say(format_args!(
                "hairpin exec: {} of {} sockets are to poll, and the device that they receive from has no NAPI id: busy polling is not in force there",
                seen.not_polled, seen.sockets
            ));
        }
        if seen.closed > 0 {
            say(format_args!(
                "hairpin exec: processes that do not let their sockets be read: {}; run as their user, or as root",
                seen.closed
            ));
        }
        if seen.without > 0 {
            let hint = if set_live { "" } else { "; --set-live sets it from outside" };
            say(format_args!("hairpin exec: {} of {} sockets seen lack an option{hint}", seen.without, seen.sockets));
        }
        let lost = [
            (read_back || set_live).then_some("sockets that are made there from now on are not looked at"),
            told.hold_idle.then_some("idle states are no longer held off"),
        ];
        let lost: Vec<&str> = lost.into_iter().flatten().collect();
        if !left.is_empty() && !lost.is_empty() {
            say(format_args!("hairpin exec: {}: {}; run the program in the foreground", background(&left), lost.join(", and ")));
        }
        Ok(ExitCode::from(exec::exit_code(status)))
    }
}

/// Most processes named in the line about those left in the background.
const NAMED: usize = 3;

fn background(left: &[(u32, String)]) -> String {
    let named: Vec<String> = left.iter().take(NAMED).map(|(pid, name)| format!("{name} (pid {pid})")).collect();
    let more = left.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let has = if left.len() == 1 { "has" } else { "have" };
    format!("{}{more} {has} gone into the background", named.join(", "))
}

fn tell(news: &News, settings: Settings) {
    // If settings are read back from sockets, the line comes once there are sockets.
    let read_back = settings.busy_poll.is_some() || settings.nodelay;
    let whole = of_the_whole(settings).join("; ");
    match news {
        News::Started if read_back || whole.is_empty() => {}
        News::Started => say(format_args!("hairpin exec: {whole}")),
        News::Lacks(found) => lacks(found),
        News::InForce { sockets, options } => say(format_args!("hairpin exec: {}", in_force(*sockets, options, settings))),
        News::Unseen => say(
            "hairpin exec: sockets can be neither looked at nor given an option from outside: that needs Linux 5.6 or newer (pidfd_getfd)",
        ),
    }
}

/// The settings of all threads and of the host, and the option that cannot be read back, as the kernel resets it.
fn of_the_whole(settings: Settings) -> Vec<String> {
    let parts = [
        settings.quickack.then(|| "TCP_QUICKACK set after each receive call".into()),
        settings.cpu.map(|cpu| format!("all threads on CPU {cpu}")),
        settings.hold_idle.then(|| "deep idle states held off".into()),
    ];
    parts.into_iter().flatten().collect()
}

/// The options in force, in one line.
fn in_force(sockets: u64, options: &BTreeMap<&'static str, u64>, settings: Settings) -> String {
    let called = |option: &str| match option {
        "busy-poll" => "SO_BUSY_POLL".to_owned(),
        "nodelay" => "TCP_NODELAY".to_owned(),
        other => other.to_owned(),
    };
    let on = |count: u64| if count == sockets { String::new() } else { format!(" on {count}") };
    let options: Vec<String> = options.iter().map(|(option, count)| called(option) + &on(*count)).collect();
    let s = if sockets == 1 { "" } else { "s" };
    let parts = [format!("{sockets} socket{s}: {} in force", options.join(", "))];
    parts.into_iter().chain(of_the_whole(settings)).collect::<Vec<_>>().join("; ")
}

fn lacks(found: &LackingSocket) {
    for (option, outcome) in &found.lacked {
        let outcome = match outcome {
            Outcome::Left => "lacks it".into(),
            Outcome::Set => "lacked it, and has it now".into(),
            Outcome::Refused(why) => format!("lacks it, and does not take it: {why}"),
        };
        say(format_args!(
            "hairpin exec: {option}: {} (pid {}), descriptor {}, {}: {outcome}",
            found.name, found.pid, found.fd, found.what
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_what_took_effect() {
        let told =
            |sockets, options: &[(&'static str, u64)], settings| in_force(sockets, &options.iter().copied().collect(), settings);
        let quickack = Settings { quickack: true, ..Settings::default() };
        assert_eq!(
            told(1, &[("nodelay", 1)], quickack),
            "1 socket: TCP_NODELAY in force; TCP_QUICKACK set after each receive call"
        );
        let whole = Settings { cpu: Some(2), hold_idle: true, ..Settings::default() };
        assert_eq!(of_the_whole(whole), ["all threads on CPU 2", "deep idle states held off"]);
        assert_eq!(
            told(3, &[("busy-poll", 3), ("nodelay", 2)], Settings::default()),
            "3 sockets: SO_BUSY_POLL, TCP_NODELAY on 2 in force"
        );
    }
}
