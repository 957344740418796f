//! A client sends any bytes and closes: a server without key lets in only the one right preamble, a server with a key nobody.
#![no_main]

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use hairpin_session::handshake::{Admission, VERSION, accept};
use hairpin_session::key::Key;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let bytes = &bytes[..bytes.len().min(64 << 10)];
    let key = Key::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").expect("32 zero bytes");
    for key in [None, Some(&key)] {
        let (mut peer, ours) = UnixStream::pair().expect("a socketpair");
        peer.write_all(bytes).expect("room in the buffer");
        peer.shutdown(Shutdown::Write).expect("an open socket");
        let accepted = accept(ours, Admission { key, gives_way: None });
        let [low, high] = VERSION.to_le_bytes();
        let plain = bytes.starts_with(&[b'H', b'R', b'P', b'N', low, high, 0]) && bytes.len() >= 8;
        assert_eq!(accepted.is_ok(), plain && key.is_none());
    }
});
