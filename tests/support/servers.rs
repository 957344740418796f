//! Servers from the distribution that run as long as a test wants.

#![allow(dead_code, reason = "each test program uses a part")]

mod commands;

use std::net::{Ipv4Addr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use self::commands::{program, redis_program};
use super::{Home, Running};

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
    let begun = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "nginx does not listen");
        sleep(Duration::from_millis(10));
    }
    nginx
}
