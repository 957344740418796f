use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

use super::*;

const BYTES: usize = 100;

fn config() -> Config {
    Config {
        receive_bytes: BYTES,
        send_bytes: BYTES,
        send_buffers: 2,
        multishot: None,
        sqpoll: None,
        defer_taskrun: false,
        napi: None,
        zero_copy: false,
        datagrams: true,
    }
}

/// A ring over two sockets, and their peers; `None` where this process may not make rings.
fn open(config: Config) -> Option<(Uring, [UnixDatagram; 2], [UnixDatagram; 2])> {
    if let Err(error) = allowed() {
        println!("skipped: {error}");
        return None;
    }
    let pairs = [UnixDatagram::pair().unwrap(), UnixDatagram::pair().unwrap()];
    pairs.iter().for_each(|(_, peer)| peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap());
    let [(a, peer_a), (b, peer_b)] = pairs;
    let uring = Uring::open(&[a.as_fd(), b.as_fd()], config).unwrap();
    Some((uring, [a, b], [peer_a, peer_b]))
}

fn received(uring: &mut Uring) -> Completion {
    loop {
        match uring.completed() {
            Some(done) if done.what == Done::Received => return done,
            Some(_) => {}
            None => uring.wait(Duration::from_secs(5), None).unwrap(),
        }
    }
}

#[test]
fn messages_go_both_ways_with_every_setting() {
    let kinds = [
        config(),
        Config { multishot: Some(4), ..config() },
        Config { defer_taskrun: true, ..config() },
        Config { sqpoll: Some(crate::thread::allowed_cpus().unwrap()[0]), ..config() },
        Config { datagrams: false, ..config() },
    ];
    for kind in kinds {
        let Some((mut uring, _own, peers)) = open(kind.clone()) else { return };
        [0, 1].into_iter().for_each(|socket| uring.receive(socket, 0, BYTES).unwrap());
        for round in 0..20_u8 {
            let at = usize::from(round % 2);
            peers[at].send(&[round; 7]).unwrap();
            let done = received(&mut uring);
            assert_eq!((done.socket, done.result), (at as u32, 7), "{kind:?}");
            let buffer = done.buffer.unwrap();
            assert_eq!(uring.bytes(buffer)[..7], [round; 7]);
            let answer = uring.free_buffer().expect("a send buffer");
            uring.copy(buffer, 0..7, answer);
            match kind.multishot {
                Some(_) => uring.give_back(buffer),
                None => uring.receive(done.socket, 0, BYTES).unwrap(),
            }
            uring.send(done.socket, answer, 7).unwrap();
            uring.submit().unwrap();
            let mut bytes = [0; BYTES];
            // A completion of the ring may interrupt a receive call of this thread.
            let received = loop {
                match peers[at].recv(&mut bytes) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    received => break received.unwrap(),
                }
            };
            assert_eq!((received, &bytes[..7]), (7, &[round; 7][..]), "{kind:?}");
        }
    }
}

#[test]
fn a_lent_send_comes_back_with_a_word_on_copies() {
    if let Err(error) = allowed() {
        return println!("skipped: {error}");
    }
    // UNIX sockets do not support `zero_copy`.
    let [own, peer] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    own.connect(peer.local_addr().unwrap()).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let opened = Uring::open(&[own.as_fd()], Config { zero_copy: true, ..config() });
    let mut uring = match opened {
        Err(error) if error.source.kind() == io::ErrorKind::Unsupported => return println!("skipped: {error}"),
        opened => opened.unwrap(),
    };
    for round in 0..5_u8 {
        let buffer = uring.free_buffer().expect("a send buffer");
        uring.bytes_mut(buffer)[..7].copy_from_slice(&[round; 7]);
        uring.send(0, buffer, 7).unwrap();
        uring.submit().unwrap();
        let mut bytes = [0; BYTES];
        assert_eq!((peer.recv(&mut bytes).unwrap(), bytes[..7].to_vec()), (7, vec![round; 7]));
        let deadline = std::time::Instant::now() + Duration::from_secs(5);
        while uring.lent_sends().done <= round.into() {
            assert!(std::time::Instant::now() < deadline, "the buffer does not come back");
            if uring.completed().is_none() {
                uring.wait(Duration::from_millis(10), None).unwrap();
            }
        }
    }
    assert_eq!(uring.lent_sends(), LentSends { done: 5, copied: 5 }, "loopback copies");
}

#[test]
fn the_bytes_of_a_lent_buffer_cannot_be_reached() {
    let Some((mut uring, _own, _peers)) = open(config()) else { return };
    uring.receive(0, 0, BYTES).unwrap();
    let panics = |result: std::thread::Result<()>| assert!(result.is_err());
    panics(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(uring.bytes(0).to_vec()))));
    panics(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| uring.receive(0, 0, BYTES).unwrap())));
    panics(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| uring.receive(1, 0, 2 * BYTES).unwrap())));
}

/// Number 2 is a send buffer, and from 2^30 on the user data of a receive would be that of a send.
#[test]
fn only_sockets_of_the_ring_receive() {
    for multishot in [None, Some(4)] {
        let Some((mut uring, _own, _peers)) = open(Config { multishot, datagrams: false, ..config() }) else { return };
        for socket in [2, 1 << 30] {
            let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| uring.receive(socket, 0, 0).unwrap()));
            assert!(asked.is_err(), "{socket} {multishot:?}");
        }
    }
}

#[test]
fn the_buffers_addresses_outlive_a_ring_whose_requests_another_thread_takes() {
    let Some((mut uring, _own, _peers)) = open(Config { sqpoll: Some(crate::thread::allowed_cpus().unwrap()[0]), ..config() })
    else {
        return;
    };
    let at = uring.bytes(0).as_ptr() as usize;
    uring.receive(0, 0, BYTES).unwrap();
    drop(uring);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let is_mapped = maps.lines().any(|line| {
        let (range, _) = line.split_once(' ').unwrap();
        let (begin, end) = range.split_once('-').unwrap();
        let [begin, end] = [begin, end].map(|address| usize::from_str_radix(address, 16).unwrap());
        (begin..end).contains(&at)
    });
    assert!(is_mapped, "{at:x} in {maps}");
}

#[test]
fn a_wait_ends_after_its_time_and_a_dead_peer_is_an_error() {
    let Some((mut uring, _own, peers)) = open(config()) else { return };
    uring.receive(0, 0, BYTES).unwrap();
    uring.wait(Duration::from_millis(5), None).unwrap();
    assert_eq!(uring.completed(), None);
    drop(peers);
    let buffer = uring.free_buffer().unwrap();
    uring.send(1, buffer, 1).unwrap();
    uring.submit().unwrap();
    let done = std::iter::from_fn(|| uring.completed()).find(|done| done.what == Done::Sent).expect("a failed send is seen");
    assert_eq!((done.result, done.buffer), (-libc::ECONNREFUSED, None));
    assert!(uring.free_buffer().is_some() && uring.free_buffer().is_some() && uring.free_buffer().is_none());
}
