//! Servers from the distribution that run as long as a test wants.

#![allow(dead_code, reason = "each test program uses a part")]

mod commands;

use std::env;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use self::commands::{program, redis_program};
use super::{Home, Running, root};

/// Redis on this port of loopback, ready.
pub fn redis(home: &Home, port: u16) -> Running {
    let mut redis = home.spawn(commands::redis(home.path(), port));
    redis.until("Ready to accept connections");
    redis
}

/// A server that takes its workers along only if it is asked to end.
pub struct Master(Option<Running>);

impl Master {
    pub fn pid(&self) -> u32 {
        self.0.as_ref().expect("it runs").pid()
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        if let Some(master) = self.0.take() {
            master.signal("TERM");
            let _ = master.done();
        }
    }
}

/// nginx on this port of loopback, ready.
pub fn nginx(home: &Home, port: u16, how: &str) -> Master {
    let nginx = Master(Some(home.spawn(commands::nginx(home.path(), port, how))));
    wait_for("nginx", port);
    nginx
}

/// Waits until the server listens.
fn wait_for(server: &str, port: u16) {
    let begun = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{server} does not listen");
        sleep(Duration::from_millis(10));
    }
}

/// True if it starts: a program that was unpacked may lack a library.
fn starts(mut program: Command) -> bool {
    program.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

pub fn has_memcached() -> bool {
    starts(Command::new("memcached"))
}

/// memcached on this port of loopback, ready.
pub fn memcached(home: &Home, port: u16) -> Running {
    let mut command = Command::new("memcached");
    // It refuses to run as root unless it is told as whom to go on.
    command.args(["-u", "nobody", "-l", "127.0.0.1", "-p", &port.to_string()]);
    let memcached = home.spawn(command);
    wait_for("memcached", port);
    memcached
}

/// The folder of PostgreSQL's programs. Debian has one for each version: `lib/postgresql/VERSION/bin` beside a folder of the PATH.
pub fn postgres_programs() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let versions = env::split_paths(&path).filter_map(|folder| fs::read_dir(folder.parent()?.join("lib/postgresql")).ok());
    let mut folders = versions.flatten().flatten().map(|version| version.path().join("bin"));
    folders.find(|folder| ["initdb", "postgres"].iter().all(|name| starts(ordinary(&folder.join(name)))))
}

/// A program that refuses to run as root: as the user nobody if this is root, with the right to enter root's folders.
fn ordinary(program: &Path) -> Command {
    if !root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]).arg(program);
    command
}

/// PostgreSQL without TLS, with a cluster of its own in this home, on this port of loopback, ready.
pub fn postgres(home: &Home, port: u16) -> Master {
    let (programs, cluster) = (postgres_programs().expect("PostgreSQL is here"), home.file("cluster"));
    let mut initdb = ordinary(&programs.join("initdb"));
    initdb.args(["--no-locale", "--no-sync", "--auth=trust", "-D"]).arg(&cluster);
    let made = home.spawn(initdb).done();
    assert_eq!(made.code, Some(0), "{made:?}");
    let mut command = ordinary(&programs.join("postgres"));
    command.args(["-F", "-h", "127.0.0.1", "-k", "", "-p", &port.to_string(), "-D"]).arg(&cluster);
    let mut postgres = home.spawn(command);
    postgres.until("ready to accept connections");
    Master(Some(postgres))
}
