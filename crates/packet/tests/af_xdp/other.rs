//! Other processes: kernel sockets at the far end, and devices that are held open or cannot be opened.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use hairpin_packet::af_xdp::AfXdp;
use hairpin_packet::device::{BackEnd, Config};
use hairpin_packet::granted::Mode;
use hairpin_packet::io::PacketIo;
use hairpin_sys::netlink::{Netlink, VethConfig};
use hairpin_sys::netns;

use super::end::{A, B, Outcome, PATIENCE, config, open};
use crate::alone;

/// Kernel sockets at the other end of a pair, in a namespace of their own.
pub struct Peer {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it before any device is open, and links it to this process.
    pub fn linked() -> Outcome<Peer> {
        let mut child = alone::play().arg("peer").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let commands = child.stdin.take().ok_or("no stdin")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let mut peer = Peer { child, commands, answers };
        peer.ask("enter")?;
        let netlink = Netlink::open()?;
        let pid = peer.child.id();
        let config =
            VethConfig { name: A.into(), peer_name: B.into(), mtu: None, queues: Some(1), tx_queues: None, peer_pid: pid };
        netlink.create_veth(&config)?;
        netlink.set_up(A)?;
        netlink.add_address(A, "198.18.0.1".parse()?, 24)?;
        peer.ask("up")?;
        Ok(peer)
    }

    pub fn ask(&mut self, command: &str) -> Outcome<String> {
        writeln!(self.commands, "{command}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim().split_once(' ') {
            Some(("ok", answer)) => Ok(answer.into()),
            _ => Err(format!("the peer, asked {command:?}: {line:?}").into()),
        }
    }

    /// A TCP connection to the peer, which echoes.
    pub fn connect(&mut self) -> Outcome<TcpStream> {
        self.ask("tcp-echo 7002")?;
        let stream = TcpStream::connect("198.18.0.2:7002")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn peer() -> Outcome {
    for line in io::stdin().lines() {
        let line = line?;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["enter"] => drop(netns::enter_new(false)?),
            ["up"] => {
                let netlink = Netlink::open()?;
                netlink.set_up(B)?;
                netlink.add_address(B, "198.18.0.2".parse()?, 24)?;
            }
            ["udp-echo", port] => {
                let socket = UdpSocket::bind(format!("198.18.0.2:{port}"))?;
                thread::spawn(move || {
                    let mut bytes = [0; 2048];
                    while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                        let _ = socket.send_to(&bytes[..length], from);
                    }
                });
            }
            ["tcp-echo", port] => {
                let listener = TcpListener::bind(format!("198.18.0.2:{port}"))?;
                thread::spawn(move || {
                    let Ok((mut stream, _)) = listener.accept() else { return };
                    let mut bytes = [0; 4096];
                    while let Ok(length @ 1..) = stream.read(&mut bytes) {
                        if stream.write_all(&bytes[..length]).is_err() {
                            break;
                        }
                    }
                });
            }
            ["udp-to", to, text] => drop(UdpSocket::bind("198.18.0.2:0")?.send_to(text.as_bytes(), to)?),
            _ => return Err(format!("unknown command {line:?}").into()),
        }
        println!("ok done");
    }
    Ok(())
}

/// Holds a device open until it is killed, with a child that outlives it.
pub fn hold() -> Outcome {
    let _end = open(A, Mode::Generic, 1)?;
    let child = Command::new("sleep").arg("60").stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    println!("holding {}", child.id());
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Opens a device that is small enough for any limit of locked memory, and tells why its mode was taken.
pub fn open_and_tell() -> Outcome {
    let config = Config { mode: None, ring_entries: 512, chunks: 1024, ..config(Mode::Generic) };
    let mut device = AfXdp::open(A, &config)?;
    let ring = device.ring(0)?;
    println!("{}", ring.granted().mode_why.as_deref().unwrap_or_default());
    Ok(())
}
