use hairpin_record::head::TOOL;

use super::*;
use crate::meeting::tests::card;
use crate::setup::tests::setup;
use crate::visit::tests::measured;

fn hello(rank: u32, ask: Ask) -> Hello {
    Hello { mesh: "m".into(), tool: TOOL.into(), setup: setup(4, "all"), rank, ask }
}

/// The reply of rank 1, whether a session follows, and the client's channel.
fn answered(gate: &RankGate, hello: &Hello) -> (Reply, Entry, Channel) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut client, mut server) = (Channel::plain(ours), Channel::plain(theirs));
    client.send(hello).unwrap();
    let entry = gate.enter(&mut server);
    (client.recv(HEARS_WITHIN).unwrap(), entry, client)
}

fn reply(gate: &RankGate, hello: &Hello) -> Reply {
    answered(gate, hello).0
}

fn visit(rank: u32, round: u32) -> Hello {
    hello(rank, Ask::Visit { round })
}

#[test]
fn exactly_the_partner_of_the_slot_comes_in() {
    let gate = RankGate::new(hello(1, Ask::Where)).unwrap();
    let soon = Duration::from_secs(1);
    assert!(matches!(reply(&gate, &visit(0, 1)), Reply::NotYet { round: 0, .. }));
    gate.moves_to(2, Some(3), soon);
    assert_eq!(reply(&gate, &visit(0, 1)), Reply::Past { round: 2 });
    assert!(matches!(reply(&gate, &visit(3, 4)), Reply::NotYet { round: 2, again_ms: 500.. }), "after the present visit");
    assert!(matches!(reply(&gate, &visit(0, 2)), Reply::Refused { .. }));
    assert_eq!(reply(&gate, &hello(0, Ask::Where)), Reply::Here { round: 2 });

    let (come, Entry::Session(pass), client) = answered(&gate, &visit(3, 2)) else { panic!("no session") };
    assert_eq!(come, Reply::Come);
    assert_eq!(reply(&gate, &visit(3, 2)), Reply::Past { round: 2 }, "once");
    assert!(gate.guest_since().is_some() && gate.ended().is_none() && !gate.close());
    drop((pass, client));
    assert!(gate.guest_since().is_none() && gate.ended().is_some());
    assert_eq!(reply(&gate, &visit(3, 2)), Reply::Past { round: 2 });

    // As a client it lets nobody in.
    gate.moves_to(3, None, soon);
    assert_eq!(reply(&gate, &visit(2, 3)), Reply::Past { round: 3 });
    gate.moves_to(4, Some(2), soon);
    assert!(gate.close());
    assert_eq!(reply(&gate, &visit(2, 4)), Reply::Past { round: 4 }, "given up");
}

/// The wait that a rank is told.
fn again_ms(reply: Reply) -> u64 {
    let Reply::NotYet { again_ms, .. } = reply else { panic!("{reply:?}") };
    again_ms
}

#[test]
fn a_visit_that_begins_late_is_left_alone_to_its_end() {
    let hour = Duration::from_secs(3600);
    let gate = RankGate::new(hello(1, Ask::Where)).unwrap();
    let slot_is_over = |gate: &RankGate| gate.0.state().until = Instant::now();
    // As the server, from when its client comes in.
    gate.moves_to(2, Some(3), hour);
    slot_is_over(&gate);
    assert_eq!(again_ms(reply(&gate, &visit(0, 3))), 20);
    let (_, Entry::Session(_pass), _client) = answered(&gate, &visit(3, 2)) else { panic!("no session") };
    assert_eq!(again_ms(reply(&gate, &visit(0, 3))), 2_000);
    // As the client, from when it is let in.
    gate.moves_to(3, None, hour);
    slot_is_over(&gate);
    gate.begins();
    assert_eq!(again_ms(reply(&gate, &visit(0, 4))), 2_000);
}

#[test]
fn many_ranks_ask_rank_0_less_often_than_few() {
    let asked = |ranks: u32| {
        let with_ranks = |hello: Hello| Hello { setup: setup(ranks, "all"), ..hello };
        let gate = RankGate::new(with_ranks(hello(0, Ask::Where))).unwrap();
        again_ms(reply(&gate, &with_ranks(hello(2, Ask::Deliver))))
    };
    assert_eq!([3, 64, 10_000].map(asked), [20, 320, 500]);
}

#[test]
fn a_rank_that_has_ended_its_slots_is_not_past_further_ones() {
    let gate = RankGate::new(hello(1, Ask::Where)).unwrap();
    // As `Station::ends` leaves it after round 6.
    gate.moves_to(7, None, Duration::ZERO);
    let slots = &crate::judge::slots(&[(1, 3)], 6, 2)[&3];
    assert!(matches!(reply(&gate, &visit(3, slots[0].round)), Reply::NotYet { round: 7, .. }), "{slots:?}");
    assert_eq!(reply(&gate, &visit(3, 6)), Reply::Past { round: 7 });
}

#[test]
fn a_session_that_outlives_its_round_leaves_the_next_alone() {
    let gate = RankGate::new(hello(1, Ask::Where)).unwrap();
    gate.moves_to(1, Some(0), Duration::ZERO);
    let (_, Entry::Session(pass), _client) = answered(&gate, &visit(0, 1)) else { panic!("no session") };
    gate.moves_to(2, Some(2), Duration::ZERO);
    let (_, Entry::Session(_next), _other) = answered(&gate, &visit(2, 2)) else { panic!("no session") };
    drop(pass);
    assert!(gate.ended().is_none() && gate.guest_since().is_some());
}

#[test]
fn others_are_told_why_they_do_not_belong_here() {
    let gate = RankGate::new(hello(1, Ask::Where)).unwrap();
    gate.moves_to(1, Some(0), Duration::ZERO);
    let own = visit(0, 1);
    for (other, part) in [
        (Hello { tool: "hairpin 9.9.9".into(), ..own.clone() }, "rank 0 is hairpin 9.9.9"),
        (Hello { mesh: "other".into(), ..own.clone() }, "another mesh"),
        (Hello { setup: setup(4, "ring"), ..own.clone() }, "different flags"),
        // As of a rank that asks itself, and of one more rank than there are.
        (Hello { rank: 1, ..own.clone() }, "both are rank 1"),
        (Hello { rank: 4, ..own.clone() }, "no rank 4"),
    ] {
        let Reply::Refused { why } = reply(&gate, &other) else { panic!("{part}") };
        assert!(why.contains(part), "{why}");
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut client, mut server) = (Channel::plain(ours), Channel::plain(theirs));
    client.send(&hairpin_session::message::Request::Facts { threads: 1 }).unwrap();
    assert!(matches!(gate.enter(&mut server), Entry::Over));
    let Answer::Failed(failure) = client.recv(HEARS_WITHIN).unwrap() else { panic!("no reason") };
    assert!(failure.message.contains("hairpin serve"), "{}", failure.message);
}

#[test]
fn deliveries_are_taken_whole_once_rank_0_is_done() {
    let gate = RankGate::new(hello(0, Ask::Where)).unwrap();
    assert!(matches!(reply(&gate, &hello(2, Ask::Deliver)), Reply::NotYet { .. }));
    gate.collects();
    let deliver = |pieces: Vec<Delivery>, is_taken: bool| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut client, mut server) = (Channel::plain(ours), Channel::plain(theirs));
        client.send(&hello(2, Ask::Deliver)).unwrap();
        pieces.iter().for_each(|piece| client.send(piece).unwrap());
        std::thread::scope(|scope| {
            let served = scope.spawn(|| matches!(gate.enter(&mut server), Entry::Over));
            assert_eq!(client.recv::<Reply>(HEARS_WITHIN).unwrap(), Reply::Take);
            if is_taken {
                assert_eq!(client.recv::<Reply>(HEARS_WITHIN).unwrap(), Reply::Taken);
            }
            drop(client);
            assert!(served.join().unwrap());
        });
    };
    let visits = vec![measured((2, 3), 1, 10_000, 500), measured((0, 1), 1, 10_000, 500)];
    deliver(vec![Delivery::Visits(visits.clone())], false);
    assert!(gate.delivered().is_empty(), "torn");
    let too_many = vec![visits[0].clone(); 4 * (2 + FURTHER) + 1];
    deliver(vec![Delivery::Visits(too_many), Delivery::End], false);
    assert!(gate.delivered().is_empty(), "more than there are");
    deliver(vec![Delivery::Card(Box::new(card(2, 4))), Delivery::Visits(visits.clone()), Delivery::End], true);
    assert_eq!(gate.delivered(), BTreeSet::from([2]));
    assert!(matches!(reply(&gate, &hello(2, Ask::More)), Reply::NotYet { .. }));
    let slot = Slot { round: 9, visit: 3, partner: 3, client: true, explain: false };
    gate.tells(BTreeMap::from([(2, vec![slot])]));
    assert_eq!(reply(&gate, &hello(2, Ask::More)), Reply::Slots(vec![slot]));
    assert_eq!(reply(&gate, &hello(3, Ask::More)), Reply::Slots(vec![]));
    assert_eq!(gate.fetched(), BTreeSet::from([2, 3]));
    let found = gate.take();
    assert_eq!(found.visits[&2], visits[..1], "of others it tells nothing");
    assert_eq!(found.cards[&2], card(2, 4));
}
