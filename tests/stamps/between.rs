//! Somebody between a client and `hairpin serve` who changes what the server says.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use serde_json::Value;

/// What becomes of the server's words.
pub enum Change {
    /// The server is of an earlier version, which knows no stamps.
    Earlier,
    /// Each half of each report, with its place there.
    Halves(Box<Edit>),
}

type Edit = dyn Fn(&mut Value, usize) + Send + Sync;

/// Bytes of the handshake's preamble, which comes before the frames.
const PREAMBLE: usize = 8;

pub struct Between {
    address: SocketAddr,
}

impl Between {
    /// Takes connections for `server` as long as this process lives.
    pub fn new(server: &str, change: Change) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, server) = (listener.local_addr().expect("its address"), server.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&server).expect("the server");
                let (mut from, mut to) = (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
                let up = thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let _ = down(server, &client, &change);
                let _ = client.shutdown(Shutdown::Both);
                let _ = up.join();
            }
        });
        Between { address }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Passes the server's frames on: length u32, JSON.
fn down(mut server: TcpStream, mut client: &TcpStream, change: &Change) -> io::Result<()> {
    let mut preamble = [0; PREAMBLE];
    server.read_exact(&mut preamble)?;
    client.write_all(&preamble)?;
    loop {
        let mut length = [0; 4];
        server.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_le_bytes(length) as usize];
        server.read_exact(&mut body)?;
        let mut message: Value = serde_json::from_slice(&body).map_err(io::Error::other)?;
        match change {
            Change::Earlier => {
                if let Some(facts) = message.get_mut("facts").and_then(Value::as_object_mut) {
                    facts.remove("stamps").expect("it says that it has them");
                }
            }
            Change::Halves(change) => {
                let halves = message.pointer_mut("/nics/halves").and_then(Value::as_array_mut);
                halves.into_iter().flatten().enumerate().for_each(|(at, half)| change(half, at));
            }
        }
        let body = message.to_string();
        client.write_all(&(body.len() as u32).to_le_bytes())?;
        client.write_all(body.as_bytes())?;
    }
}
