//! A peer sends any bytes and closes: every receive ends in a message or an error, and there are no more messages than bytes.
#![no_main]

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hairpin_session::channel::{Channel, RecvError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // As much as fits into a socket's buffer, so that one thread is enough.
    let bytes = &bytes[..bytes.len().min(64 << 10)];
    let (mut peer, ours) = UnixStream::pair().expect("a socketpair");
    peer.write_all(bytes).expect("room in the buffer");
    peer.shutdown(Shutdown::Write).expect("an open socket");
    let mut channel = Channel::plain(ours);
    let mut received = 0;
    loop {
        match channel.try_recv::<serde_json::Value>() {
            Ok(Some(_)) | Err(RecvError::Malformed { .. }) => received += 1,
            Ok(None) => panic!("the stream has ended, so something must have come of it"),
            Err(RecvError::Timeout(_) | RecvError::Forged | RecvError::Io(_)) => panic!("cannot be"),
            Err(RecvError::Closed | RecvError::Truncated | RecvError::Oversized { .. }) => break,
        }
        assert!(received * 4 <= bytes.len());
    }
    assert!(channel.buffered());
    assert!(channel.recv::<serde_json::Value>(Duration::ZERO).is_err());
});
