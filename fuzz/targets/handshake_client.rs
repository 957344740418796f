//! A server sends any bytes and closes: a client with a key never accepts a server without it.
#![no_main]

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use hairpin_session::handshake::greet;
use hairpin_session::key::Key;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let bytes = &bytes[..bytes.len().min(64 << 10)];
    let key = Key::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").expect("32 zero bytes");
    for key in [None, Some(&key)] {
        let (mut peer, ours) = UnixStream::pair().expect("a socketpair");
        peer.write_all(bytes).expect("room in the buffer");
        peer.shutdown(Shutdown::Write).expect("an open socket");
        match greet(ours, "server", key) {
            Ok(_) => assert!(key.is_none()),
            Err(e) => assert!(!e.to_string().chars().any(char::is_control)),
        }
    }
});
