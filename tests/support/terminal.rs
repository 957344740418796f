//! A real terminal (tmux): its screen, its keys, its size, and its state at the end; and one without a size that only writes
//! (script(1)).

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Done, HAIRPIN, Home, LIMIT, can};

/// True if there is a tmux.
pub fn terminals(name: &str) -> bool {
    let here = Command::new("tmux").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success());
    can(name, here, "no tmux here; install it to try the live view on a terminal")
}

/// True if there is a script(1).
pub fn scripts(name: &str) -> bool {
    let here = Command::new("script").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    can(name, here, "needs script(1)")
}

/// All that a command of hairpin writes to a terminal.
pub fn on_terminal(home: &Home, args: &str) -> Done {
    on_terminal_called(home, "xterm-256color", args)
}

/// The same, with this TERM.
pub fn on_terminal_called(home: &Home, term: &str, args: &str) -> Done {
    let mut command = home.command("script");
    command.args(["-qec", &format!("{HAIRPIN} {args}"), "/dev/null"]).env("TERM", term);
    home.spawn(command).done()
}

/// A terminal of 100 by 30 in which a shell command runs; its server ends with this value.
pub struct Terminal<'a> {
    home: &'a Home,
    socket: PathBuf,
}

impl<'a> Terminal<'a> {
    /// `command` is a shell command, whose exit code is printed when it ends.
    pub fn start(home: &'a Home, command: &str) -> Terminal<'a> {
        // The server of the terminal before may still be about to end.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let socket = home.file(&format!("tmux-{}", STARTED.fetch_add(1, Ordering::Relaxed)));
        let terminal = Terminal { home, socket };
        let modes = r"stty -a | tr ' ' '\n' | grep -xE -- '-?(icanon|echo)' | tr '\n' ' '";
        let command = format!("{command}; echo \"ended with $?\"; echo \"modes: $({modes})\"; exec cat");
        terminal.tmux(&["new-session", "-d", "-x", "100", "-y", "30", "sh", "-c", &command]);
        terminal
    }

    pub fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.home.command("tmux");
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null", "-u"]).args(arguments);
        command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        let output = command.output().expect("tmux");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The text on the screen.
    pub fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The text with the lines that have scrolled away.
    pub fn all(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    pub fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Waits until `wanted` accepts the screen, and returns that.
    #[track_caller]
    pub fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let text = self.text();
            if wanted(&text) {
                return text;
            }
            assert!(begun.elapsed() < LIMIT, "no {what} on\n{text}");
            sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    pub fn shows(&self, part: &str) -> String {
        self.until(part, |text| text.contains(part))
    }

    /// Waits for the first figures.
    #[track_caller]
    pub fn measured(&self) -> String {
        let whole = |line: &str| line.starts_with("since start") && line.split_whitespace().count() > 8;
        self.until("figures", |text| text.lines().any(whole))
    }

    /// Waits for the command's end: the exit code, with the terminal as it was before.
    #[track_caller]
    pub fn ended(&self) -> String {
        let (code, all) = self.left();
        assert_eq!(code, "0", "{all}");
        all
    }

    /// The same with any exit code.
    pub fn left(&self) -> (String, String) {
        let text = self.shows("modes: ");
        assert!(text.contains("modes: icanon echo"), "{text}");
        assert_eq!(self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1", "{text}");
        let all = self.all();
        let code = all.lines().find_map(|line| line.strip_prefix("ended with ")).expect("an exit code");
        (code.trim().to_owned(), all)
    }

    /// The hairpin that runs in it: the child of its shell.
    pub fn pid(&self) -> u32 {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).expect("children");
        children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a child")
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let mut command = self.home.command("tmux");
        let _ = command.arg("-S").arg(&self.socket).arg("kill-server").stderr(Stdio::null()).status();
    }
}
