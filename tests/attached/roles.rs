//! More parts that the test program plays when it is started again: servers with a fault each, and a proxy.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::thread;
use std::time::Duration;

use hairpin_sys::thread::current_cpu;
use rustix::net::{AddressFamily, SocketType};

use super::SIZE;

/// Bytes of a reply that waits for its reader.
pub const HUGE: usize = 16 << 20;
/// Time that a slow request takes: twice as long as a connection that is idle keeps its place.
pub const SLOW_FOR: Duration = Duration::from_secs(2);

/// The address of a server on Unix sockets.
pub fn unix_address(number: u16) -> SocketAddr {
    SocketAddr::from_abstract_name(format!("hairpin-attached-{number}")).expect("an address")
}

/// Plays a role until it is killed; false if `role` is unknown.
pub fn play(role: &str, port: u16) -> bool {
    let (role, rest) = role.split_once(':').unwrap_or((role, ""));
    match role {
        // The reply in two writes, with Nagle as the kernel has it, or without.
        "serve-parts" | "serve-parts-nodelay" => serve(port, role == "serve-parts-nodelay", |stream| {
            read(stream)?;
            stream.write_all(&[7; SIZE / 2])?;
            stream.write_all(&[7; SIZE / 2])
        }),
        // More than the sockets of both sides hold.
        "serve-huge" => serve(port, false, |stream| {
            read(stream)?;
            stream.write_all(&vec![7; HUGE])
        }),
        // A message more than was asked for, as the tickets of TLS 1.3 are: it answers the client's last word of the handshake.
        "serve-tickets" => serve(port, true, |stream| {
            read(stream)?;
            stream.write_all(&[7; SIZE])
        }),
        "proxy" => {
            let behind: u16 = rest.parse().expect("the port behind it");
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("its port");
            println!("ready");
            while let Ok((mut front, _)) = listener.accept() {
                let mut back = TcpStream::connect((Ipv4Addr::LOCALHOST, behind)).expect("who is behind it");
                [&front, &back].into_iter().for_each(|stream| stream.set_nodelay(true).expect("nodelay"));
                let mut once = || {
                    back.write_all(&read(&mut front)?)?;
                    front.write_all(&read(&mut back)?)
                };
                while once().is_ok() {}
            }
        }
        // A word of its own accord, long after the last reply, as TLS has it before the end.
        "serve-farewell" => serve(port, true, |stream| {
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            match read(stream) {
                Ok(_) => stream.write_all(&[7; SIZE]),
                Err(silence) => stream.write_all(&[7; SIZE / 2]).and(Err(silence)),
            }
        }),
        // A request of nines is answered when the thread has come to another CPU.
        "serve-until-moved" => serve(port, true, |stream| {
            if read(stream)?[0] == 9 {
                let cpu = current_cpu();
                println!("spinning");
                while current_cpu() == cpu {}
            }
            stream.write_all(&[7; SIZE])
        }),
        // A connection for each request; one of nines takes `SLOW_FOR`.
        "serve-slow" => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("its port");
            println!("ready");
            while let Ok((mut stream, _)) = listener.accept() {
                thread::spawn(move || {
                    stream.set_nodelay(true)?;
                    if read(&mut stream)?[0] == 9 {
                        thread::sleep(SLOW_FOR);
                    }
                    stream.write_all(&[7; SIZE])
                });
            }
        }
        // Another datagram some time after each reply.
        "serve-unasked" => answer(port, |socket, bytes, from| {
            socket.send_to(bytes, from)?;
            thread::sleep(Duration::from_millis(50));
            socket.send_to(bytes, from)
        }),
        "serve-late" => answer(port, |socket, bytes, from| {
            thread::sleep(Duration::from_millis(20));
            socket.send_to(bytes, from)
        }),
        // Once somebody has connected: from sockets of which each has a chosen address, and every other one a chosen port, five
        // requests from each.
        "ask-bound" => {
            let server: u16 = rest.parse().expect("the server's port");
            let start = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("its port");
            println!("ready");
            let _started = start.accept().expect("the start");
            for chosen in [false, true].into_iter().cycle() {
                let mut socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
                if chosen {
                    let free = socket.local_addr().expect("its address");
                    drop(socket);
                    socket = UdpSocket::bind(free).expect("a port that is free");
                }
                for _ in 0..5 {
                    socket.send_to(&[1; SIZE], (Ipv4Addr::LOCALHOST, server)).expect("sent");
                    socket.recv(&mut [0; SIZE]).expect("a reply");
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
        // Once somebody has connected: a connection from a port of its own, and then requests to a server on the same port of
        // another address.
        "ask-from" => {
            let (shared, behind) = rest.split_once(':').expect("two ports");
            let at = |host: u8, port: &str| SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, host), port.parse().expect("a port"));
            let start = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("its port");
            println!("ready");
            let _started = start.accept().expect("the start");
            let first = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
            rustix::net::bind(&first, &at(1, shared)).expect("a port that is free here");
            rustix::net::connect(&first, &at(1, behind)).expect("connected");
            let mut stream = TcpStream::connect(at(2, shared)).expect("connected");
            stream.set_nodelay(true).expect("nodelay");
            while stream.write_all(&[1; SIZE]).and_then(|()| read(&mut stream)).is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        }
        // Takes its CPU for good.
        "hold" => {
            println!("ready");
            loop {
                std::hint::spin_loop();
            }
        }
        "serve-unix" => {
            let listener = UnixListener::bind_addr(&unix_address(port)).expect("its address");
            println!("ready");
            while let Ok((mut stream, _)) = listener.accept() {
                let mut bytes = [0; SIZE];
                while stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes)).is_ok() {}
            }
        }
        _ => return false,
    }
    true
}

fn serve(port: u16, nodelay: bool, answer: impl Fn(&mut TcpStream) -> std::io::Result<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("its port");
    println!("ready");
    while let Ok((mut stream, _)) = listener.accept() {
        if nodelay {
            stream.set_nodelay(true).expect("nodelay");
        }
        while answer(&mut stream).is_ok() {}
    }
}

fn answer(port: u16, each: impl Fn(&UdpSocket, &[u8], std::net::SocketAddr) -> std::io::Result<usize>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).expect("its port");
    println!("ready");
    let mut bytes = [0; SIZE];
    while let Ok((got, from)) = socket.recv_from(&mut bytes) {
        let _ = each(&socket, &bytes[..got], from);
    }
}

fn read(stream: &mut TcpStream) -> std::io::Result<[u8; SIZE]> {
    let mut bytes = [0; SIZE];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
