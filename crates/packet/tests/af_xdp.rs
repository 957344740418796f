//! AF_XDP over veth pairs: both modes, filters beside the kernel's own traffic, everything that can be refused, and everything
//! that can go away under an open ring.
//!
//! ```text
//!   each test, in a namespace of its own ──spawns──▶ "peer": kernel sockets at the other end, in a namespace of its own
//!                                                   "hold": an open device that is killed
//! ```

mod end;
mod metadata;
mod other;
mod pages;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use hairpin_packet::af_xdp::{AfXdp, Queue};
use hairpin_packet::device::{BackEnd, Config, OpenError};
use hairpin_packet::filter::Filter;
use hairpin_packet::granted::{Feature, Mode};
use hairpin_packet::io::{Arrival, PacketIo};
use hairpin_packet::ring::{Ring, RingConfig, Wait};
use hairpin_sys::bpf::XdpState;
use hairpin_sys::clock::MonotonicRaw;
use hairpin_sys::netlink::Netlink;
use hairpin_sys::netns;

use crate::alone::{self, Ended, Part, Test};
use end::{A, B, ETHERTYPE, End, Outcome, PATIENCE, config, contains, equal, errno, frame, ip, numbered, open, pair, pair_with};
use other::{Peer, hold, open_and_tell, peer};

const MODES: [Mode; 2] = [Mode::Generic, Mode::Native];
/// The user "nobody" of all common distributions.
const NOBODY: u32 = 65534;

type Case = (&'static str, fn() -> Outcome);

pub const PART: Part = Part::new("af_xdp", tests).playing(play).side_by_side();

const TESTS: &[Case] = &[
    ("frames of every size cross in both modes", frames_of_every_size_cross),
    ("many frames leave with one kick and none is lost", many_frames_leave_with_one_kick),
    ("rings of any size go on receiving", small_rings_go_on_receiving),
    ("empty frames come back and are counted", empty_frames_come_back),
    ("each of two queues has its own ring", each_of_two_queues_has_its_own_ring),
    (
        "a pool that was exchanged for another queue's is noticed before the kernel writes a frame in hand",
        an_exchanged_pool_is_noticed,
    ),
    ("sending has a queue of its own where one is to spare", sending_has_a_queue_of_its_own),
    ("sending goes on the queue that was asked for", sending_goes_on_the_queue_that_was_asked_for),
    ("a ring without a transmit queue receives, and says that it cannot send", a_ring_without_a_transmit_queue_receives),
    ("the faster mode is found by trying and says so", the_faster_mode_is_found),
    ("nothing comes before start and after stop", nothing_comes_before_start_and_after_stop),
    ("kernel sockets work beside a ring that takes one port", kernel_sockets_work_beside_a_ring),
    ("what is not granted has its reason", refused_features_have_reasons),
    ("an interface is promiscuous as long as all its frames are asked for", an_interface_is_promiscuous),
    ("an interface, a queue and a configuration that do not go are named", open_names_unsupported_features),
    ("a taken queue is refused, and free again once closed", a_taken_queue_is_refused),
    ("a taken queue is named, not the one to send on", a_taken_queue_is_named_not_the_one_to_send_on),
    ("a foreign program is refused by its number", a_foreign_program_is_refused),
    ("missing capabilities are named", missing_capabilities_are_named),
    ("an application that holds all frames loses some and recovers", held_frames_are_counted),
    ("an interface that goes down says so and comes back", an_interface_goes_down_and_comes_back),
    ("an interface that is removed says so", an_interface_is_removed),
    ("frames beyond a chunk are counted after a change of the MTU", a_changed_mtu_is_survived),
    ("frames of several pages cross in both modes", pages::frames_of_several_pages_cross),
    ("frames of several pages come round in order and none is lost", pages::long_frames_come_round),
    ("long frames wait for chunks, and those without a page are counted", pages::held_chunks_leave_long_frames_in_the_ring),
    ("frames beyond several pages are counted after a change of the MTU", pages::frames_beyond_several_pages_are_counted),
    ("short frames take one chunk over any MTU", pages::short_frames_take_one_chunk_over_any_mtu),
    ("the hash of a kernel socket's frames comes with them", metadata::the_hash_of_a_kernel_socket_comes),
    ("metadata comes with frames of any length", metadata::metadata_comes_with_frames_of_any_length),
    ("metadata that is not there has its reason", metadata::metadata_that_is_not_there_has_its_reason),
    (
        "sent frames are stamped when the kernel has done with them",
        metadata::sent_frames_are_stamped_when_the_kernel_has_done_with_them,
    ),
    ("a frame without room for a stamp's request is counted", metadata::a_frame_without_room_for_a_stamps_request_is_counted),
    (
        "stamps of long frames are refused, and unread ones counted",
        metadata::stamps_of_long_frames_are_refused_and_unread_ones_counted,
    ),
    ("a killed process leaves no program, even with a child of its own alive", a_killed_process_leaves_nothing),
];

fn tests() -> Vec<Test> {
    TESTS.iter().map(|(name, test)| Test::new(*name, |_| run(*test))).collect()
}

fn run(test: fn() -> Outcome) -> Ended {
    let reason = match netns::can_make() {
        netns::Support::Privileged => None,
        netns::Support::UserNamespace => {
            Some("AF_XDP needs CAP_BPF, which no user namespace gives: run the tests as root".to_owned())
        }
        netns::Support::No(reason) => Some(reason.to_string()),
    };
    match reason.or_else(|| possible().err().map(|error| error.to_string())) {
        None => netns::enter_new(false).map_err(Box::from).and_then(|_| test()).into(),
        reason => Ended::Skipped(reason),
    }
}

/// Whether this host lets a test have XDP at all: asked in a process of its own.
fn possible() -> Outcome {
    let output = alone::play().arg("try").output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(said.into()) }
}

fn play(arguments: &[&str]) -> Option<ExitCode> {
    let done = match arguments {
        ["try"] => netns::enter_new(false).map_err(Box::from).and_then(|_| can_open()),
        ["peer"] => peer(),
        ["hold"] => hold(),
        ["open"] => open_and_tell(),
        _ => return None,
    };
    Some(done.map_or_else(
        |error| {
            println!("error {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    ))
}

fn can_open() -> Outcome {
    pair(1, None)?;
    open(A, Mode::Generic, 1).map(drop)
}

fn frames_of_every_size_cross() -> Outcome {
    pair(1, Some(3000))?;
    for mode in MODES {
        let (mut a, mut b) = (open(A, mode, 1)?, open(B, mode, 1)?);
        equal("longest frame", a.device.granted().longest_frame, 3014)?;
        let (mut bytes, sizes) = (0, [60, 61, 64, 127, 128, 1500, 1514, 1515, 3013, 3014]);
        for size in sizes {
            a.send(0, &[frame(size)])?;
            let came = b.receive(0, 1)?;
            equal("bytes", &came[0], &frame(size))?;
            b.send(0, &came)?;
            equal("bytes back", &a.receive(0, 1)?[0], &frame(size))?;
            bytes += size as u64;
        }
        for end in [&mut a, &mut b] {
            let (counted, frames) = (end.rings[0].counters(), sizes.len() as u64);
            let all = (counted.rx_frames, counted.rx_bytes, counted.tx_frames, counted.tx_bytes, counted.lost());
            equal("counters", all, (frames, bytes, frames, bytes, 0))?;
        }
    }
    Ok(())
}

fn many_frames_leave_with_one_kick() -> Outcome {
    pair(1, None)?;
    for mode in MODES {
        let (mut a, mut b) = (open(A, mode, 1)?, open(B, mode, 1)?);
        // More than a system call sends unless it is told otherwise, and often enough for every index and chunk to come round.
        for turn in 0..50_u8 {
            let frames: Vec<_> = (0..100).map(|i| numbered(turn, i)).collect();
            a.send(0, &frames)?;
            equal("order", &b.receive(0, frames.len())?, &frames)?;
        }
        equal("lost", (a.rings[0].counters().lost(), b.rings[0].counters().lost()), (0, 0))?;
        equal("chunks that came back", a.rings[0].pool().available() > a.rings[0].pool().chunks() / 2, true)?;
    }
    Ok(())
}

fn small_rings_go_on_receiving() -> Outcome {
    pair(1, None)?;
    for mode in MODES {
        let mut a = open(A, mode, 1)?;
        for ring_entries in [2, 8, 16, 32] {
            let mut b = End::of(B, &Config { ring_entries, chunks: 64, ..config(mode) }, 1)?;
            // The fill ring has at least half of its chunks at any time.
            let at_once = (ring_entries / 2) as u8;
            for turn in 0..20_u8 {
                let frames: Vec<_> = (0..at_once).map(|i| numbered(turn, i)).collect();
                a.send(0, &frames)?;
                equal("order", &b.receive(0, frames.len())?, &frames)?;
            }
            equal("lost", b.rings[0].counters().lost(), 0)?;
        }
    }
    Ok(())
}

/// The kernel skips an entry of length 0 and never gives its chunk back, so 16 of them would fill the ring for good.
fn empty_frames_come_back() -> Outcome {
    pair(1, Some(9000))?;
    for longest_frame in [Some(1514), None] {
        let small = Config { ring_entries: 16, chunks: 64, longest_frame, ..config(Mode::Generic) };
        let (mut a, mut b) = (End::of(A, &small, 1)?, End::of(B, &small, 1)?);
        let lent = a.rings[0].pool().lent();
        for _ in 0..40 {
            a.send(0, &[Vec::new()])?;
        }
        equal("lent", a.rings[0].pool().lent(), lent)?;
        a.send(0, &[frame(60), Vec::new(), frame(61)])?;
        equal("what arrived", b.receive(0, 2)?, vec![frame(60), frame(61)])?;
        equal("invalid", a.rings[0].counters().tx_invalid, 41)?;
    }
    Ok(())
}

fn each_of_two_queues_has_its_own_ring() -> Outcome {
    pair(2, None)?;
    // Not in generic mode, where veth records no receive queue; so with two queues native is taken without a trial.
    let config = Config { mode: None, ..config(Mode::Native) };
    let (mut a, mut b) = (End::of(A, &config, 2)?, End::of(B, &config, 2)?);
    equal("mode", a.device.granted().mode, Some(Mode::Native))?;
    contains(a.device.granted().mode_why.as_deref().unwrap_or_default(), "keeps several queues apart")?;
    equal("refusals of the second ring", &a.rings[1].granted().refused, &a.rings[0].granted().refused)?;
    for queue in [0, 1, 0, 1] {
        equal("queue", a.rings[queue].granted().queue as usize, queue)?;
        a.send(queue, &[numbered(queue as u8, 1)])?;
        equal("the frame", b.receive(queue, 1)?, vec![numbered(queue as u8, 1)])?;
        b.none(1 - queue)?;
    }
    Ok(())
}

/// A pool exchanged between two queues would mix up their chunks while the kernel still writes to some of
/// them.
fn an_exchanged_pool_is_noticed() -> Outcome {
    pair(2, None)?;
    let config = Config { filter: Filter::Ethertype(ETHERTYPE), ..config(Mode::Generic) };
    for send in [false, true] {
        let (mut a, mut b) = (End::of(A, &config, 2)?, End::of(B, &config, 2)?);
        a.send(0, &[frame(60)])?;
        let [one, other] = &mut b.rings[..] else { return Err("two rings were opened".into()) };
        std::mem::swap(one.pool(), other.pool());
        let mut frames = Vec::from_iter(one.pool().take());
        let give_up = Instant::now() + PATIENCE;
        let noticed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while Instant::now() < give_up {
                if send {
                    one.tx_batch(&mut frames);
                }
                one.rx_batch(&mut Vec::new(), 1);
                other.rx_batch(&mut Vec::new(), 1);
            }
        }));
        let said = noticed.err().and_then(|panic| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        contains(&said.unwrap_or_default(), "exchanged for another")?;
    }
    Ok(())
}

fn sending_has_a_queue_of_its_own() -> Outcome {
    pair_with(1, 2, Some(9000))?;
    let config = Config { filter: Filter::Ethertype(ETHERTYPE), ..Config::default() };
    for longest_frame in [Some(1514), None] {
        let config = Config { longest_frame, ..config.clone() };
        let (mut a, mut b) = (End::of(A, &config, 1)?, End::of(B, &config, 1)?);
        for end in [&a, &b] {
            let granted = end.rings[0].granted();
            equal("mode and queues", (granted.mode, granted.queue, granted.send_queue), (Some(Mode::Generic), 0, 1))?;
        }
        for turn in 0..50_u8 {
            let frames: Vec<_> = (0..100).map(|i| numbered(turn, i)).collect();
            a.send(0, &frames)?;
            equal("order", &b.receive(0, frames.len())?, &frames)?;
            b.send(0, &frames[..1])?;
            equal("back", &a.receive(0, 1)?[0], &frames[0])?;
        }
        if longest_frame.is_none() {
            a.send(0, &[frame(9000)])?;
            equal("a frame of several pages", &b.receive(0, 1)?[0], &frame(9000))?;
        }
        for end in [&mut a, &mut b] {
            equal("lost", end.rings[0].counters().lost(), 0)?;
        }
    }
    // Native mode wants as many receive queues as the peer has transmit queues.
    [A, B].iter().try_for_each(|end| ip(&["link", "set", end, "mtu", "1500"]))?;
    let error = AfXdp::open(A, &Config { mode: Some(Mode::Native), ..config }).map(|_| ()).unwrap_err().to_string();
    contains(&error, "fewer receive queues than its peer has transmit queues")
}

fn sending_goes_on_the_queue_that_was_asked_for() -> Outcome {
    pair(2, None)?;
    // Native veth hands a frame to the receive queue that has the number of its transmit queue.
    let sends_on = |queue| Config { send_queue: Some(queue), ..config(Mode::Native) };
    let open = |end: &str, receives, sends| -> Outcome<(AfXdp, Queue)> {
        let mut device = AfXdp::open(end, &sends_on(sends))?;
        let ring = device.ring(receives)?;
        device.start()?;
        Ok((device, ring))
    };
    let ((a, from), (b, to)) = (open(A, 0, 1)?, open(B, 1, 0)?);
    let (mut a, mut b) = (End { rings: vec![from], device: a }, End { rings: vec![to], device: b });
    for turn in 0..50 {
        a.send(0, &[numbered(turn, 1)])?;
        equal("there", b.receive(0, 1)?, vec![numbered(turn, 1)])?;
        b.send(0, &[numbered(turn, 2)])?;
        equal("back", a.receive(0, 1)?, vec![numbered(turn, 2)])?;
    }
    equal("send queue", a.rings[0].granted().send_queue, 1)?;
    equal("lost", (a.rings[0].counters().lost(), b.rings[0].counters().lost()), (0, 0))?;
    drop((a, b));
    let refused = open(A, 0, 2).map(|_| ()).unwrap_err().to_string();
    contains(&refused, "has queues 0 to 1, not 2")
}

fn a_ring_without_a_transmit_queue_receives() -> Outcome {
    pair_with(2, 1, None)?;
    for mode in MODES {
        let (mut a, mut b) = (open(A, mode, 2)?, open(B, mode, 2)?);
        let error = a.send(1, &[frame(60)]).unwrap_err().to_string();
        contains(&error, "has no transmit queue of this ring's number")?;
        a.send(0, &[frame(61)])?;
        equal("from the queue that there is", b.receive(0, 1)?, vec![frame(61)])?;
    }
    Ok(())
}

fn the_faster_mode_is_found() -> Outcome {
    pair(1, None)?;
    let config = Config { filter: Filter::Ethertype(ETHERTYPE), ..Config::default() };
    let start = Instant::now();
    let first = AfXdp::open(A, &config)?;
    let (tried, granted) = (start.elapsed(), first.granted().clone());
    let why = granted.mode_why.clone().ok_or("no reason for the mode")?;
    contains(&why, "is faster here: tried over a veth pair")?;
    if granted.mode == Some(Mode::Generic) {
        contains(&granted.require(Feature::Native).unwrap_err().to_string(), &why)?;
    }
    let start = Instant::now();
    equal("the second time", AfXdp::open(B, &config)?.granted().mode_why.as_deref(), Some(why.as_str()))?;
    println!("af_xdp: {why}; opening took {tried:?} with the trial, {:?} without", start.elapsed());
    let names: Vec<_> = Netlink::open()?.links()?.into_iter().map(|link| link.name).collect();
    equal("links after the trial", names.len(), 3)
}

fn nothing_comes_before_start_and_after_stop() -> Outcome {
    pair(1, None)?;
    for mode in MODES {
        let (mut a, mut b) = (open(A, mode, 1)?, open(B, mode, 1)?);
        b.device.stop()?;
        a.send(0, &[frame(60)])?;
        b.none(0)?;
        b.device.start()?;
        a.send(0, &[frame(61)])?;
        equal("after start", b.receive(0, 1)?, vec![frame(61)])?;
        b.device.stop()?;
        a.send(0, &[frame(62)])?;
        b.none(0)?;
    }
    Ok(())
}

fn kernel_sockets_work_beside_a_ring() -> Outcome {
    for mode in MODES {
        let mut peer = Peer::linked()?;
        // The peer has no XDP program: native receive works without one.
        let config = Config { filter: "udp:7000".parse()?, mode: Some(mode), ..Config::default() };
        let mut device = AfXdp::open(A, &config)?;
        let mut rings = vec![device.ring(0)?];
        device.start()?;
        let mut here = End { device, rings: std::mem::take(&mut rings) };
        let udp = UdpSocket::bind("198.18.0.1:0")?;
        udp.set_read_timeout(Some(PATIENCE))?;
        peer.ask("udp-echo 7001")?;
        let mut stream = BufReader::new(peer.connect()?);
        for turn in 0..20_u8 {
            udp.send_to(&[turn; 100], "198.18.0.2:7001")?;
            let mut reply = [0; 200];
            let length = udp.recv(&mut reply)?;
            equal("UDP beside", &reply[..length], &[turn; 100][..])?;
            stream.get_mut().write_all(&[turn; 40_000])?;
            let mut back = vec![0; 40_000];
            stream.read_exact(&mut back)?;
            equal("TCP beside", back.iter().all(|byte| *byte == turn), true)?;
            peer.ask("udp-to 198.18.0.1:7000 wanted")?;
            let came = here.receive(0, 1)?;
            equal("the wanted frame's payload", &came[0][42..48], b"wanted")?;
        }
        here.none(0)?;
        equal("lost", here.rings[0].counters().lost(), 0)?;
        // The peer's namespace goes a while after the peer.
        ip(&["link", "delete", A])?;
    }
    Ok(())
}

fn refused_features_have_reasons() -> Outcome {
    pair(1, None)?;
    let mut a = open(A, Mode::Generic, 1)?;
    let granted = a.rings[0].granted().clone();
    equal(
        "granted",
        (granted.zero_copy, granted.need_wakeup, granted.busy_poll, granted.multi_buffer),
        (false, false, false, false),
    )?;
    equal("longest", granted.longest_frame, 1514)?;
    for (feature, why) in [
        (Feature::ZeroCopy, "generic XDP works on the kernel's copy"),
        (Feature::NeedWakeup, "the system call itself sends"),
        (Feature::MultiBuffer, "not asked for"),
        (Feature::HardwareTime, "not asked for"),
        (Feature::Hash, "not asked for"),
        (Feature::Vlan, "not asked for"),
        (Feature::HardwareDeparture, "not asked for"),
    ] {
        contains(&granted.require(feature).err().ok_or("it is there")?.to_string(), why)?;
    }
    a.send(0, &[frame(60)])?;
    drop(a);
    let native = End::of(A, &Config { busy_poll_us: Some(20), ..config(Mode::Native) }, 1)?;
    contains(&native.rings[0].granted().require(Feature::BusyPoll).unwrap_err().to_string(), "no NAPI context to poll")?;
    contains(
        &native.rings[0].granted().require(Feature::ZeroCopy).unwrap_err().to_string(),
        "has no zero-copy: its driver has none",
    )?;
    // Loopback's driver knows no native XDP, and nothing is tried there.
    let lo = AfXdp::open("lo", &Config { filter: Filter::Ethertype(ETHERTYPE), ..Config::default() })?;
    equal("loopback", lo.granted().mode, Some(Mode::Generic))?;
    contains(&lo.granted().require(Feature::Native).unwrap_err().to_string(), "the driver of lo has no native XDP")
}

fn an_interface_is_promiscuous() -> Outcome {
    pair(1, None)?;
    let promiscuous = || -> Outcome<bool> {
        let flags = std::fs::read_to_string(format!("/sys/class/net/{A}/flags"))?;
        // IFF_PROMISC of linux/if.h.
        Ok(u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16)? & 0x100 != 0)
    };
    for (filter, asked, expected) in
        [(Filter::All, false, true), (Filter::Ethertype(ETHERTYPE), true, true), (Filter::Ethertype(ETHERTYPE), false, false)]
    {
        let device = AfXdp::open(A, &Config { filter, promiscuous: asked, ..config(Mode::Generic) })?;
        equal("while it is open", promiscuous()?, expected)?;
        drop(device);
        equal("afterwards", promiscuous()?, false)?;
    }
    Ok(())
}

fn open_names_unsupported_features() -> Outcome {
    pair(2, Some(9000))?;
    let config = Config { mode: Some(Mode::Generic), ..Config::default() };
    let refusal =
        |interface: &str, config: &Config| AfXdp::open(interface, config).err().map(|e| e.to_string()).unwrap_or_default();
    contains(&refusal("hp-none", &config), "there is no interface hp-none")?;
    contains(&refusal(A, &Config { ring_entries: 1000, ..config.clone() }), "a power of two")?;
    contains(&refusal(A, &Config { chunks: 2048, ..config.clone() }), "more chunks")?;
    let mut device = AfXdp::open(A, &config)?;
    contains(&device.ring(2).err().ok_or("a third queue")?.to_string(), "hp-a has queues 0 to 1, not 2")?;
    drop(device);
    ip(&["link", "set", A, "down"])?;
    contains(&refusal(A, &config), "hp-a is down: ip link set hp-a up")
}

fn a_taken_queue_is_refused() -> Outcome {
    pair(1, None)?;
    let mut a = open(A, Mode::Generic, 1)?;
    let error = a.device.ring(0).err().ok_or("a second ring on one queue")?;
    equal("which error", matches!(error, OpenError::QueueTaken { queue: 0, .. }), true)?;
    for _ in 0..5 {
        a.rings.clear();
        a.rings.push(a.device.ring(0)?);
    }
    let mut b = open(B, Mode::Generic, 1)?;
    b.send(0, &[frame(60)])?;
    equal("through the new ring", a.receive(0, 1)?, vec![frame(60)])
}

fn a_taken_queue_is_named_not_the_one_to_send_on() -> Outcome {
    pair(2, None)?;
    let mut device = AfXdp::open(A, &Config { send_queue: Some(1), ..config(Mode::Generic) })?;
    let _ring = device.ring(0)?;
    match device.ring(0).err().ok_or("a second ring on one queue")? {
        OpenError::QueueTaken { queue, .. } => equal("which queue", queue, 0),
        other => Err(format!("another error: {other}").into()),
    }
}

fn a_foreign_program_is_refused() -> Outcome {
    pair(1, None)?;
    for mode in MODES {
        let first = open(A, mode, 1)?;
        let state = XdpState::of(Netlink::open()?.link(A)?.index)?;
        let id = state.native.or(state.generic).ok_or("no program is attached")?;
        for wanted in [None, Some(Mode::Native), Some(Mode::Generic)] {
            match AfXdp::open(A, &Config { mode: wanted, ..Config::default() }) {
                Err(OpenError::ForeignProgram { interface, id: theirs, mode: there }) => {
                    equal("whose", (interface.as_str(), theirs, there), (A, id, mode))?;
                }
                Err(other) => return Err(format!("another error: {other}").into()),
                Ok(_) => return Err("two programs".into()),
            }
        }
        drop(first);
        drop(open(A, mode, 1)?);
    }
    Ok(())
}

fn missing_capabilities_are_named() -> Outcome {
    pair(1, None)?;
    let output = alone::play().arg("open").uid(NOBODY).gid(NOBODY).current_dir("/").output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    contains(&said, "on hp-a needs CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_IPC_LOCK: run as root")?;
    // Root with these three and no other: it may make no namespace to try the modes in.
    let three = ["--bounding-set=-all,+bpf,+net_admin,+net_raw", "--inh-caps=-all"];
    let output = Command::new("setpriv").args(three).arg(env::current_exe()?).args(["play", "open"]).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    contains(&said, "generic is the faster one over veth as a rule; a trial here failed: cannot make a network namespace")
}

fn held_frames_are_counted() -> Outcome {
    pair(1, None)?;
    let small = Config { ring_entries: 64, chunks: 128, ..config(Mode::Generic) };
    let mut a = open(A, Mode::Generic, 1)?;
    let mut b = End::of(B, &small, 1)?;
    let mut held: Vec<Arrival> = Vec::with_capacity(256);
    for i in 0..200_u8 {
        a.send(0, &[numbered(0, i)])?;
        b.rings[0].rx_batch(&mut held, 256);
    }
    equal("held", held.len(), 128)?;
    let counted = b.rings[0].counters();
    equal("no chunk, and no other loss", (counted.rx_no_chunk, counted.lost()), (72, 72))?;
    let ring = &mut b.rings[0];
    held.drain(..).for_each(|arrival| ring.pool().give(arrival.frame));
    b.none(0)?;
    for i in 0..200_u8 {
        a.send(0, &[numbered(1, i)])?;
        equal("after giving back", b.receive(0, 1)?, vec![numbered(1, i)])?;
    }
    equal("no more loss", b.rings[0].counters().lost(), 72)
}

fn an_interface_goes_down_and_comes_back() -> Outcome {
    pair(1, None)?;
    for mode in MODES {
        let (mut a, mut b) = (open(A, mode, 1)?, open(B, mode, 1)?);
        ip(&["link", "set", A, "down"])?;
        equal("send", errno(a.send(0, &[frame(60)])), Some(libc::ENETDOWN))?;
        equal("receive", a.receive_error(), Some(libc::ENETDOWN))?;
        ip(&["link", "set", A, "up"])?;
        // The frames that waited in the TX ring leave now.
        a.kick(0)?;
        equal("the frame that waited", b.receive(0, 1)?, vec![frame(60)])?;
        b.send(0, &[frame(64)])?;
        equal("the other way", a.receive(0, 1)?, vec![frame(64)])?;
        // The other end of a veth that is down takes nothing: each frame is lost, and counted.
        ip(&["link", "set", B, "down"])?;
        a.send(0, &[frame(60)])?;
        a.send(0, &vec![frame(60); 40])?;
        equal("lost on the way out, and kept", (a.rings[0].counters().tx_dropped, a.rings[0].counters().tx_busy), (41, 0))?;
        ip(&["link", "set", B, "up"])?;
        a.send(0, &[frame(61)])?;
        equal("after the other end came back", b.receive(0, 1)?, vec![frame(61)])?;
        equal("lost on the way out", a.rings[0].counters().tx_dropped, 41)?;
    }
    Ok(())
}

fn an_interface_is_removed() -> Outcome {
    for mode in MODES {
        pair(1, None)?;
        let mut a = open(A, mode, 1)?;
        ip(&["link", "delete", B])?;
        equal("send", errno(a.send(0, &[frame(60)])), Some(libc::ENXIO))?;
        equal("receive", a.receive_error(), Some(libc::ENXIO))?;
        a.device.stop()?;
        // poll(2) says nothing of it, so a receiver that sleeps asks now and then.
        let asleep = RingConfig { wait: Wait::Block, ..RingConfig::default() };
        let ring = Ring::new(a.rings.remove(0), MonotonicRaw, asleep);
        equal("a sleeping receive", ring.recv(-1).err().and_then(|error| error.raw_os_error()), Some(libc::ENXIO))?;
    }
    Ok(())
}

fn a_changed_mtu_is_survived() -> Outcome {
    pair(1, None)?;
    let mut b = open(B, Mode::Generic, 1)?;
    for end in [A, B] {
        ip(&["link", "set", end, "mtu", "3400"])?;
    }
    let mut a = open(A, Mode::Generic, 1)?;
    a.send(0, &[frame(1792), frame(1793), frame(3400), frame(60)])?;
    equal("what fits its chunks", b.receive(0, 2)?, vec![frame(1792), frame(60)])?;
    b.none(0)?;
    equal("dropped", b.rings[0].counters().rx_dropped, 2)
}

fn a_killed_process_leaves_nothing() -> Outcome {
    pair(1, None)?;
    let index = Netlink::open()?.link(A)?.index;
    for _ in 0..3 {
        let mut held = alone::play().arg("hold").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(held.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
        let child: i32 = line.trim().strip_prefix("holding ").ok_or(line.clone())?.parse()?;
        let state = XdpState::of(index)?;
        equal("a program while it lives", state.native.is_some() || state.generic.is_some(), true)?;
        held.kill()?;
        held.wait()?;
        let gone = Instant::now() + PATIENCE;
        while XdpState::of(index).map(|state| (state.native, state.generic))? != (None, None) {
            if Instant::now() > gone {
                return Err("the program of a killed process is still there".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        let child = rustix::process::Pid::from_raw(child).ok_or("no child")?;
        rustix::process::kill_process(child, rustix::process::Signal::KILL)?;
        drop(open(A, Mode::Generic, 1)?);
    }
    Ok(())
}
