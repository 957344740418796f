//! An echo service and a client that asks it, in this process.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, spawn};
use std::time::Duration;

/// A client that goes on until the value is dropped; the service goes on until the process ends.
pub struct Asked(Arc<AtomicBool>);

impl Asked {
    pub fn start(port: u16) -> Asked {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("its port");
        spawn(move || listener.incoming().flatten().for_each(|stream| drop(spawn(|| echo(stream)))));
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        spawn(move || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
            let mut bytes = [0; 64];
            while !until.load(Ordering::Relaxed) && stream.write_all(&bytes).and_then(|()| stream.read_exact(&mut bytes)).is_ok()
            {
                // The cores are for the measurement.
                sleep(Duration::from_micros(100));
            }
        });
        Asked(over)
    }
}

fn echo(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
