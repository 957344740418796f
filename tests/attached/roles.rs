//! More parts that the test program plays when it is started again: servers with a fault each, and a proxy.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::SIZE;

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

fn read(stream: &mut TcpStream) -> std::io::Result<[u8; SIZE]> {
    let mut bytes = [0; SIZE];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
