//! A UDP server is not a reflector: only the proven client gets answers, and no answer is longer than its question before.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use hairpin_plan::job::Address;
use hairpin_sys::shared::Shared;
use hairpin_wire::probe;

use super::V4;
use super::pair::{job, listening, start_server};

/// As in the docs and in `inet`: a word of eight letters, cookie, nonce, zeroes to 32 bytes.
fn proof(word: &[u8; 8], cookie: u64, nonce: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(word);
    bytes[8..16].copy_from_slice(&cookie.to_le_bytes());
    bytes[16..24].copy_from_slice(&nonce.to_le_bytes());
    bytes
}

/// The answer to `message`, if one comes.
fn ask(socket: &UdpSocket, server: SocketAddr, message: &[u8]) -> Option<Vec<u8>> {
    socket.set_read_timeout(Some(Duration::from_millis(40))).unwrap();
    socket.send_to(message, server).unwrap();
    let mut buffer = [0; 70_000];
    match socket.recv_from(&mut buffer) {
        Ok((len, _)) => Some(buffer[..len].to_vec()),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn nobody_but_the_proven_client_is_answered() {
    for spec in ["udp:poll", "udp:poll,connected=off", "udp:block,connected=off"] {
        only_the_proven_client_is_answered(spec);
    }
}

fn only_the_proven_client_is_answered(spec: &str) {
    let mut job = job(spec);
    (job.request, job.reply) = (64, 60_000);
    let stop = Arc::new(Shared::create().unwrap());
    let (address, server) = start_server(&job, listening(V4), &stop, None, "reflector");
    let Address::Inet(address) = address else { panic!("no address") };
    let client = UdpSocket::bind((V4, 0)).unwrap();
    let stranger = UdpSocket::bind((V4, 0)).unwrap();
    let mut request = [0; 64];
    probe::write(&mut request, 0, job.cookie);

    for (what, message) in [
        ("a request before the proof", request.to_vec()),
        ("garbage", vec![0xff; 200]),
        ("nothing", vec![]),
        ("another session's hello", proof(b"HRPNHELO", job.cookie ^ 1, 0).to_vec()),
        ("a hello cut short", proof(b"HRPNHELO", job.cookie, 0)[..24].to_vec()),
        ("a guessed nonce", proof(b"HRPNPROO", job.cookie, 7).to_vec()),
        ("a server's own word", proof(b"HRPNDONE", job.cookie, 0).to_vec()),
    ] {
        assert_eq!(ask(&stranger, address, &message), None, "{what}");
    }

    let challenge = ask(&client, address, &proof(b"HRPNHELO", job.cookie, 0)).expect("a challenge");
    assert_eq!((challenge.len(), &challenge[..8]), (32, &b"HRPNNONC"[..]), "as long as the question");
    let nonce = u64::from_le_bytes(challenge[16..24].try_into().unwrap());
    assert_eq!(ask(&stranger, address, &proof(b"HRPNPROO", job.cookie, nonce)), None, "another address's nonce");
    let done = ask(&client, address, &proof(b"HRPNPROO", job.cookie, nonce)).expect("the flow is taken");
    assert_eq!((done.len(), &done[..8]), (32, &b"HRPNDONE"[..]));

    assert_eq!(ask(&client, address, &request).expect("a reply").len(), 60_000);
    for message in [request.to_vec(), proof(b"HRPNHELO", job.cookie, 0).to_vec(), vec![1; 9000]] {
        assert_eq!(ask(&stranger, address, &message), None, "the flow belongs to the proven address");
    }
    stop.request_stop();
    assert_eq!(server.recv_timeout(Duration::from_secs(5)).unwrap().unwrap().answered, 1);
}
