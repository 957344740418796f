//! Requests of the user's own to servers that know nothing of Hairpin: real ones, and small ones of the test's own that
//! misbehave.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::support::servers::{self, faulty, program, service, service_at, tells_once};
use crate::support::{Done, HAIRPIN, Home, can, free_port, rows, warnings};
use serde_json::Value;

const QUICK: &str = "--count 300 --warmup 5ms";

/// Calls `answer` for every request of two bytes.
fn answering(answer: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> u16 {
    service(move |mut stream| {
        let mut request = [0; 2];
        while stream.read_exact(&mut request).is_ok() {
            answer(&mut stream);
        }
    })
}

/// The fact of the only row.
fn own(record: &Value) -> &Value {
    &rows(record)[0]["own_request"]
}

fn has_redis(test: &str) -> bool {
    can(test, servers::redis_program().is_some(), "neither redis-server nor redis-tools is installed")
}

/// The replies that Redis counts for a command.
fn counted_by_redis(port: u16, command: &str) -> u64 {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("redis");
    stream.write_all(b"INFO commandstats\r\nQUIT\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("its counters");
    let calls = text.split_once(&format!("cmdstat_{command}:calls=")).map_or("0", |(_, rest)| rest);
    calls.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number")
}

#[test]
fn redis_answers_as_often_as_is_counted_and_it_counts_the_same() {
    if !has_redis("requests: redis") {
        return;
    }
    let home = Home::new();
    let port = free_port();
    let _redis = servers::redis(&home, port);
    let socket = home.file("redis.sock");
    let (at, socket) = (format!("echo:127.0.0.1:{port}"), socket.display());
    let mut replies = 0;
    for line in [
        format!("ping {at} --request redis-ping"),
        format!("ping {at} -p tcp:spin --request redis-ping --rate 5k"),
        format!("ping {at} -p tcp:epoll --flows 4 --outstanding 16 --request redis-ping"),
        format!("ping {at} -p tcp:writes=3 --request redis-ping"),
        format!("ping {at} -p tcp-crr --request redis-ping"),
        format!("ping --echo unix:{socket} --request redis-ping"),
        format!("ping echo:{socket} -p unix:poll --flows 2 --threads 2 --request redis-ping"),
    ] {
        let record = home.json(&format!("{line} {QUICK} --no-store"));
        let row = &rows(&record)[0];
        assert_eq!(
            (&row["request_bytes"], &row["reply_bytes"], &row["transactions"]),
            (&14.into(), &7.into(), &300.into()),
            "{line}"
        );
        let own = own(&record);
        assert_eq!((&own["request"], &own["until"]), (&"redis-ping".into(), &"resp".into()));
        assert_eq!((&own["first_reply"], &own["differing"], &own["errors"]), (&"+PONG".into(), &0.into(), &0.into()), "{line}");
        replies += own["replies"].as_u64().expect("a count");
        assert_eq!(replies, counted_by_redis(port, "ping"), "{line}");
        assert!(row["rtt_ns"]["p50"].as_u64() > Some(1000), "{line}: {}", row["rtt_ns"]);
        let (sent, due) = (&row["rtt_ns"], &row["rtt_from_due_ns"]);
        assert_eq!(due.is_object(), line.contains("--rate"), "{line}: {due}");
        if due.is_object() {
            assert!(due["count"] == 300 && due["p50"].as_u64() >= sent["p50"].as_u64(), "{line}: {due} and {sent}");
        }
    }
    // The same bytes from a file.
    let file = home.file("ask");
    fs::write(&file, "*1\r\n$4\r\nPING\r\n").expect("a file");
    let asked = format!("@{}", file.display());
    let record = home.json(&format!("ping {at} --request {asked} --until resp {QUICK} --no-store"));
    let of_file = own(&record);
    assert_eq!((&of_file["request"], &of_file["first_reply"]), (&asked.as_str().into(), &"+PONG".into()));
    assert_eq!(rows(&record)[0]["request_bytes"], 14);
    assert_eq!(replies + of_file["replies"].as_u64().expect("a count"), counted_by_redis(port, "ping"));
    // From due and from sent.
    for to in [&at, &format!("echo:{socket}")] {
        // A busy host sends some of the 300 after the end.
        let are_all = (0..3).any(|_| {
            let record =
                home.json(&format!("load {to} --request redis-get --rate 1000 --duration 300ms --warmup 10ms --no-store"));
            let curve = &rows(&record)[0];
            assert_eq!((&curve["request_bytes"], &curve["reply_bytes"]), (&26.into(), &5.into()), "the key is not there");
            curve["rates"][0]["rtt_from_due_ns"]["count"].as_u64() >= Some(290)
        });
        assert!(are_all, "{to}: at most 289 of 300 requests, three times");
    }
    // An error is an answer, and no success.
    let done = home.hairpin(&format!(r"ping {at} --request text:NOSUCH\r\n --until resp {QUICK} --json"));
    let record = done.json();
    assert_eq!(own(&record)["errors"], own(&record)["replies"]);
    assert!(warnings(&rows(&record)[0]).contains(&"error-replies"), "{record}");
    let shown = home.hairpin("runs show latest -v");
    assert!(shown.out.contains("the first \"-ERR unknown command"), "{shown:?}");
}

#[test]
fn compare_and_sweep_ask_redis_over_tcp_and_over_its_unix_socket() {
    if !has_redis("requests: compare and sweep") {
        return;
    }
    let home = Home::new();
    let port = free_port();
    let _redis = servers::redis(&home, port);
    // All run at once, as the test judges no time.
    let mut begun = Vec::new();
    for (at, path) in [(format!("127.0.0.1:{port}"), "tcp"), (home.file("redis.sock").display().to_string(), "unix")] {
        let ask = format!("echo:{at} --request redis-ping --for 200ms --no-store --json");
        for (parts, line) in [
            ("arms", format!("compare {ask} -- {path}:poll -- {path}:block")),
            ("cells", format!("sweep {ask} -p {path}:epoll --vary outstanding=1,4")),
        ] {
            begun.push((parts, home.start(&line)));
        }
    }
    for (parts, running) in begun {
        let record = running.done().json();
        let measured = record[parts].as_array().expect(parts);
        assert_eq!((&record["error"], measured.len()), (&Value::Null, 2), "{record}");
        for part in measured {
            assert!(part["transactions"].as_u64() > Some(0), "{record}");
            assert_eq!((&part["lost"], &part["request_bytes"], &part["reply_bytes"]), (&0.into(), &14.into(), &7.into()));
        }
    }
}

#[test]
fn memcached_tells_its_version() {
    if !can("requests: memcached", servers::has_memcached(), "memcached is not here, or lacks a library") {
        return;
    }
    let home = Home::new();
    let port = free_port();
    let _memcached = servers::memcached(&home, port);
    for path in ["tcp", "tcp:epoll --flows 3 --outstanding 4", "tcp-crr"] {
        let record = home.json(&format!("ping echo:127.0.0.1:{port} -p {path} --request memcached-version {QUICK} --no-store"));
        let own = own(&record);
        assert!(own["first_reply"].as_str().is_some_and(|first| first.starts_with("VERSION ")), "{path}: {own}");
        assert_eq!((&own["differing"], &own["errors"]), (&0.into(), &0.into()), "{path}");
    }
}

#[test]
fn postgresql_answers_an_ssl_request_once_a_connection() {
    let here = servers::postgres_programs().is_some();
    if !can("requests: PostgreSQL", here, "PostgreSQL is not here, lacks a library, or cannot be run by an ordinary user") {
        return;
    }
    let home = Home::new();
    let port = free_port();
    let _postgres = servers::postgres(&home, port);
    let ask = format!("ping echo:127.0.0.1:{port} --request postgres-ssl-request --count 100 --warmup 1ms --no-store");
    let record = home.json(&ask);
    let row = &rows(&record)[0];
    assert!(row["path"].as_str().is_some_and(|path| path.starts_with("tcp-crr")), "{row}");
    assert_eq!((&row["transactions"], &row["request_bytes"], &row["reply_bytes"]), (&100.into(), &8.into(), &1.into()));
    assert_eq!((&own(&record)["first_reply"], &own(&record)["differing"]), (&"N".into(), &0.into()), "it has no TLS");
    // Asked again, it reads the message of a protocol that it does not know.
    let done = home.hairpin(&format!("{ask} -p tcp"));
    tells_once(&done, " bytes more than the reply: ");
    assert!(done.err.contains("FATAL"), "{done:?}");
}

/// A message of FIX 4.4, with its length and its checksum.
fn fix(body: &str) -> String {
    let message = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
    let sum: u32 = message.bytes().map(u32::from).sum();
    format!("{message}10={:03}\x01", sum % 256)
}

/// Answers TestRequests, and closes the connection on any other message or one whose length or checksum is wrong.
fn accept_fix(stream: TcpStream) {
    let (mut from, mut to) = (BufReader::new(stream.try_clone().expect("the stream")), stream);
    let mut message = Vec::new();
    while from.read_until(1, &mut message).is_ok_and(|len| len > 0) {
        let text = String::from_utf8_lossy(&message).into_owned();
        let Some((fields, _)) = text.rsplit_once("\x0110=") else { continue };
        let body = fields.splitn(3, '\x01').nth(2).map(|body| format!("{body}\x01")).unwrap_or_default();
        let id = body.split('\x01').find_map(|field| field.strip_prefix("112="));
        let Some(id) = id.filter(|_| text == fix(&body) && body.starts_with("35=1\x01")) else { return };
        let reply = fix(&format!("35=0\x0134=2\x0149=SERVER\x0152=20260101-00:00:00\x0156=HAIRPIN\x01112={id}\x01"));
        if to.write_all(reply.as_bytes()).is_err() {
            return;
        }
        message.clear();
    }
}

#[test]
fn a_fix_acceptor_answers_the_test_request_by_a_heartbeat() {
    let home = Home::new();
    let port = service(accept_fix);
    let record = home.json(&format!("ping echo:127.0.0.1:{port} --request fix-heartbeat {QUICK} --no-store"));
    let own = own(&record);
    assert!(own["first_reply"].as_str().is_some_and(|first| first.contains(r"\x0135=0\x01")), "{own}");
    assert_eq!((&own["differing"], &rows(&record)[0]["transactions"]), (&0.into(), &300.into()), "{own}");
}

#[test]
fn nginx_answers_on_a_connection_that_stays_and_on_one_for_each_request() {
    if !can("requests: nginx", program("nginx").is_some(), "nginx is not here") {
        return;
    }
    let home = Home::new();
    let port = free_port();
    let _nginx = servers::nginx(&home, port, "");
    let at = format!("echo:127.0.0.1:{port}");
    for path in ["tcp", "tcp:epoll --flows 3 --outstanding 4", "tcp-crr"] {
        let record = home.json(&format!("ping {at} -p {path} --request http-get {QUICK} --no-store"));
        let row = &rows(&record)[0];
        assert_eq!((&own(&record)["first_reply"], &own(&record)["errors"]), (&"HTTP/1.1 200 OK".into(), &0.into()), "{path}");
        assert!(row["reply_bytes"].as_u64() > Some(100), "head and body: {row}");
    }
    let mut command = home.command(HAIRPIN);
    let missing = r"text:GET /missing HTTP/1.1\r\nHost: a\r\n\r\n";
    command.args(["ping", &at, "--request", missing, "--until", "http", "--count", "50", "--json", "--no-store"]);
    let record = home.spawn(command).done().json();
    assert_eq!(
        (&own(&record)["first_error"], &own(&record)["first_reply"]),
        (&"HTTP/1.1 404 Not Found".into(), &"HTTP/1.1 404 Not Found".into())
    );
    assert!(warnings(&rows(&record)[0]).contains(&"error-replies"));
    // The end of the connection ends the reply: one connection for each.
    let old = r"text:GET / HTTP/1.0\r\n\r\n";
    for (path, code, part) in
        [("tcp-crr", 0, "HTTP/1.1 200 OK"), ("tcp", 1, "one that answers once a connection takes --path tcp-crr")]
    {
        let mut command = home.command(HAIRPIN);
        command.args(["ping", &at, "-p", path, "--request", old, "--until", "http", "--count", "50", "-v", "--no-store"]);
        let done = home.spawn(command).done();
        assert_eq!(done.code, Some(code), "{path}: {done:?}");
        assert!(done.out.contains(part) || done.err.contains(part), "{path}: {done:?}");
    }
}

#[test]
fn every_rule_finds_the_end_of_replies_that_come_in_pieces() {
    let home = Home::new();
    for (until, reply) in [
        ("5", &b"abcde"[..]),
        (r"\r\n", b"VERSION 1\r\n"),
        (r"\x0110=+4", b"8=FIX\x0135=0\x0110=123\x01"),
        ("length-prefix:2", b"\0\x03abc"),
        ("length-prefix:4le-4", b"\x07\0\0\0abc"),
        ("resp", b"*2\r\n$1\r\na\r\n:7\r\n"),
        ("http", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    ] {
        let port = answering(move |stream| {
            let (first, second) = reply.split_at(reply.len() / 2);
            stream.write_all(first).and_then(|()| stream.write_all(second)).expect("sent");
        });
        let line = format!(r"ping echo:127.0.0.1:{port} --request hex:0d0a --until {until} --count 50 --warmup 1ms --no-store");
        let record = home.json(&line);
        let row = &rows(&record)[0];
        assert_eq!((&row["request_bytes"], &row["reply_bytes"]), (&2.into(), &reply.len().into()), "{until}");
        assert_eq!(own(&record)["until"], until);
    }
}

/// Answers requests without a body.
fn serve_http(stream: TcpStream) {
    let (from, mut to) = (BufReader::new(stream.try_clone().expect("the stream")), stream);
    for line in from.lines().map_while(Result::ok) {
        if line.is_empty() && to.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npong\n").is_err() {
            return;
        }
    }
}

/// Answers a request of PostgreSQL's protocol once a connection, as a server without TLS does.
fn refuse_tls(mut stream: TcpStream) {
    let mut request = [0; 8];
    if stream.read_exact(&mut request).is_ok() && request == [0, 0, 0, 8, 4, 210, 22, 47] {
        let _ = stream.write_all(b"N");
    }
}

#[test]
fn presets_go_in_load_and_compare_too() {
    let home = Home::new();
    let [http, postgres] = [service(serve_http), service(refuse_tls)];
    let load = format!("load echo:127.0.0.1:{http} --request http-get --rate 200,400 --duration 200ms --warmup 10ms");
    let sides = "-- tcp-crr --rate 1k -- tcp-crr:poll --rate 1k";
    let compare = format!("compare echo:127.0.0.1:{postgres} --request postgres-ssl-request --for 300ms");
    let [load, compare] =
        [(load, ""), (compare, sides)].map(|(line, end)| home.start(&format!("{line} --no-store --json {end}")));
    let load = load.done().json();
    let curve = &rows(&load)[0];
    assert_eq!(
        (&load["error"], &curve["request_bytes"], &curve["reply_bytes"]),
        (&Value::Null, &35.into(), &43.into()),
        "{load}"
    );
    assert_eq!((&own(&load)["first_reply"], &own(&load)["errors"]), (&"HTTP/1.1 200 OK".into(), &0.into()), "{load}");
    let rates = curve["rates"].as_array().expect("rates");
    assert!(rates.len() == 2 && rates.iter().all(|rate| rate["transactions"].as_u64() > Some(0)), "{load}");
    let compare = compare.done().json();
    let arms = compare["arms"].as_array().expect("arms");
    assert_eq!((&compare["error"], arms.len()), (&Value::Null, 2), "{compare}");
    for arm in arms {
        assert_eq!((&arm["request_bytes"], &arm["reply_bytes"], &arm["lost"]), (&8.into(), &1.into(), &0.into()), "{compare}");
        assert_eq!((&arm["own_request"]["first_reply"], &arm["own_request"]["differing"]), (&"N".into(), &0.into()), "{compare}");
    }
}

/// The last words of a server after 40 replies of two bytes, whether it closes the connection then, and how that is told: it
/// closes in the middle of a reply, does not end it, answers twice in one piece, or says nothing.
const FAULTS: [(&str, bool, &str); 4] = [
    ("part", true, "the server closed the connection (4 bytes into a reply, after 40 whole ones"),
    ("endless", false, "7 bytes of a reply came and not its end within 300ms: endless"),
    ("b\nc\n", false, "the server sent 2 bytes more than the reply: c;"),
    ("", false, "no reply within 300ms: is the request whole?"),
];

/// As many replies as TCP sends before the first is acknowledged (10 segments, RFC 6928): the kernel of a server drops any others
/// when it resets the connection.
const IN_FLIGHT: &str = "--outstanding 8";

/// Plays a server that answers as many requests of two bytes by `b\n`, then begins a reply, and closes the connection with half a
/// request unread.
fn leaving<S: Read + Write + 'static>(replies: usize) -> impl Fn(S) + Send + Sync + 'static {
    move |mut stream: S| {
        let mut request = [0; 2];
        for _ in 0..replies {
            if stream.read_exact(&mut request).and_then(|()| stream.write_all(b"b\n")).is_err() {
                return;
            }
        }
        let _ = stream.read_exact(&mut [0; 3]).and_then(|()| stream.write_all(b"part"));
    }
}

/// Plays a server that speaks first.
fn greets<S: Read + Write>(mut stream: S) {
    let _ = stream.write_all(b"220 mail\r\n").and_then(|()| stream.read_to_end(&mut Vec::new()).map(drop));
}

#[test]
fn a_server_that_misbehaves_is_named_and_what_was_measured_is_kept() {
    let home = Home::new();
    let ask = |port: u16, more: &str| -> Done {
        home.hairpin(&format!(
            r"ping echo:127.0.0.1:{port} --request text:a\n --until \n --timeout 300ms --json --no-store {more}"
        ))
    };
    for (last, closes, part) in FAULTS {
        let port = service(faulty::<TcpStream>(0, 40, last, closes));
        let done = ask(port, "--count 1000 --warmup 0s");
        tells_once(&done, part);
        assert!(rows(&done.json())[0]["transactions"].as_u64() > Some(20), "{part}: {done:?}");
    }
    // HTTP servers close a connection after a number of requests.
    let port = service(|mut stream| {
        let mut request = [0; 2];
        for _ in 0..40 {
            let reply = b"HTTP/1.1 204 No Content\r\n\r\n";
            stream.read_exact(&mut request).and_then(|()| stream.write_all(reply)).expect("a round trip");
        }
    });
    let line = format!("ping echo:127.0.0.1:{port} --request hex:0d0a --until http --count 1000 --warmup 0s --no-store");
    tells_once(&home.hairpin(&line), "Apache after MaxKeepAliveRequests: raise that");
    // The server's first reply is longer than any may be.
    let flood = answering(|stream| while stream.write_all(&[b'x'; 4096]).is_ok() {});
    tells_once(&ask(flood, ""), "no end of the reply within 1048576 bytes: does --reply name it? It begins xxx");
    // It never says a thing.
    tells_once(&ask(answering(|_| {}), ""), "no reply within 300ms: is the request whole?");
    // It answers twice, in two pieces.
    let twice = answering(|stream| {
        stream.write_all(b"b\n").expect("sent");
        sleep(Duration::from_millis(2));
        let _ = stream.write_all(b"c\n");
    });
    tells_once(&ask(twice, "--count 30 --warmup 0s"), "bytes more than the reply: ");
    // It does not speak the protocol.
    let mut command = home.command(HAIRPIN);
    let port = answering(|stream| _ = stream.write_all(b"SSH-2.0-x\r\n\r\n"));
    command.args(["ping", &format!("echo:127.0.0.1:{port}"), "--request", "hex:0d0a", "--until", "http", "--no-store"]);
    tells_once(&home.spawn(command).done(), "it does not begin as HTTP does: SSH-2.0-x");
    // Nobody is there.
    tells_once(&ask(free_port(), ""), "nothing listens there: start the server");
    let done = home.hairpin("ping echo:/nowhere.sock --request redis-ping");
    tells_once(&done, "cannot connect to the UNIX socket /nowhere.sock");
}

#[test]
fn a_server_that_misbehaves_is_named_over_its_unix_socket_and_by_tcp_crr() {
    let home = Home::new();
    for (nth, (last, closes, part)) in FAULTS.into_iter().enumerate() {
        let socket = home.file(&format!("{nth}.sock"));
        service_at(&socket, faulty::<UnixStream>(0, 40, last, closes));
        // Its first connection only hears it out.
        let port = service(faulty::<TcpStream>(41, 0, last, closes));
        let ask = |at: &str| {
            home.start(&format!(
                r"ping echo:{at} --request text:a\n --until \n --timeout 300ms --count 1000 --warmup 0s --json --no-store"
            ))
        };
        for running in [ask(&socket.display().to_string()), ask(&format!("127.0.0.1:{port} -p tcp-crr"))] {
            let done = running.done();
            tells_once(&done, part);
            assert!(!done.err.contains("--path tcp-crr"), "of no use here: {done:?}");
            assert!(rows(&done.json())[0]["transactions"].as_u64() > Some(20), "{part}: {done:?}");
        }
    }
}

#[test]
fn a_server_that_misbehaves_while_further_requests_wait_is_named_as_well() {
    let home = Home::new();
    for (nth, (last, closes, part)) in FAULTS.into_iter().enumerate() {
        // A second answer passes for that of the next request.
        let part = if last == "b\nc\n" { FAULTS[3].2 } else { part };
        let socket = home.file(&format!("{nth}.sock"));
        service_at(&socket, faulty::<UnixStream>(0, 40, last, closes));
        let port = service(faulty::<TcpStream>(0, 40, last, closes));
        let begun = [socket.display().to_string(), format!("127.0.0.1:{port}")].map(|at| {
            home.start(&format!(
                r"ping echo:{at} --request text:a\n --until \n {IN_FLIGHT} --timeout 300ms --count 1000 --warmup 0s --json --no-store"
            ))
        });
        for running in begun {
            let done = running.done();
            tells_once(&done, part);
            assert!(rows(&done.json())[0]["transactions"].as_u64() >= Some(40), "{part}: {done:?}");
        }
    }
}

#[test]
fn a_reset_is_told_with_the_replies_that_came_before_it_and_none_of_them_is_lost() {
    let home = Home::new();
    let ask = |line: &str, at: &str, more: &str| {
        home.start(&format!(r"{line} echo:{at} --request text:a\n --reply \n --warmup 0s --json --no-store {more}"))
    };
    let mut begun = Vec::new();
    for policy in ["block", "epoll", "spin"] {
        let socket = home.file(&format!("{policy}.sock"));
        service_at(&socket, leaving::<UnixStream>(40));
        let port = service(leaving::<TcpStream>(40));
        let more = |path: &str| format!("-p {path}:{policy} {IN_FLIGHT} --count 1000");
        begun.push((40, ask("ping", &socket.display().to_string(), &more("unix"))));
        begun.push((40, ask("ping", &format!("127.0.0.1:{port}"), &more("tcp"))));
    }
    // Its room for requests in flight is 64.
    let port = service(leaving::<TcpStream>(5));
    begun.push((5, ask("load", &format!("127.0.0.1:{port}"), "--rate 1k --duration 300ms")));
    for (whole, running) in begun {
        let done = running.done();
        tells_once(&done, &format!("the server closed the connection (4 bytes into a reply, after {whole} whole ones: "));
        assert!(done.err.contains("(os error "), "{done:?}");
        if whole == 40 {
            assert_eq!(rows(&done.json())[0]["transactions"], whole, "{done:?}");
        }
    }
}

#[test]
fn a_server_that_greets_or_closes_before_it_is_asked_is_refused_on_every_path_and_by_every_verb() {
    let home = Home::new();
    let [greets_at, closes_at] = ["greets.sock", "closes.sock"].map(|name| home.file(name));
    service_at(&greets_at, greets::<UnixStream>);
    service_at(&closes_at, drop);
    let greeting = ("the server sent 10 bytes before it was asked: 220 mail;", service(greets), greets_at);
    let closing = ("the server closed the connection before it was asked", service(drop), closes_at);
    for (part, port, socket) in [greeting, closing] {
        let (tcp, unix) = (format!("127.0.0.1:{port}"), socket.display().to_string());
        for (verb, at, more) in [
            ("ping", &tcp, "-p tcp"),
            ("ping", &tcp, "-p tcp-crr"),
            ("ping", &unix, ""),
            ("load", &tcp, "--rate 1k --duration 200ms"),
            ("compare", &tcp, "--for 9s -- tcp:poll -- tcp:block"),
        ] {
            let line = format!(r"{verb} echo:{at} --request text:a\n --reply \n --timeout 300ms --no-store {more}");
            // A busy server may greet or close later than that is waited for.
            let done = (0..5).map(|_| home.hairpin(&line)).find(|done| done.err.contains(part));
            tells_once(&done.unwrap_or_else(|| panic!("not \"{part}\": {line}")), part);
        }
    }
}

#[test]
fn load_compare_and_sweep_name_the_fault_and_keep_what_was_measured() {
    let home = Home::new();
    let closed = "the server closed the connection (4 bytes into a reply, after 5 whole ones)";
    let endless = "7 bytes of a reply came and not its end within 1s: endless";
    let (more, silent) = ("the server sent 2 bytes more than the reply: c;", "no reply within 1s: is the request whole?");
    let rates = "--rate 1k,2k --outstanding 1 --duration 200ms --warmup 0s --timeout 1s";
    let sides = "--for 9s --timeout 1s -- tcp:poll -- tcp:block";
    // With a store, the rounds until then would be kept too, and one more line would say how to go on.
    let cells = "--for 9s -p tcp:poll -p tcp:block --no-store";
    let mut begun = Vec::new();
    // All at once. A rate has a connection, and a round two; two rounds come before the first that counts.
    for (verb, flags, sound, last, closes, part) in [
        ("load", rates, 1, "part", true, closed),
        ("load", rates, 1, "", false, silent),
        ("load", rates, 1, "endless", false, endless),
        ("load", "--outstanding 1 --duration 200ms --warmup 0s", 0, "b\nc\n", false, more),
        ("compare", sides, 6, "part", true, closed),
        ("compare", sides, 0, "", false, silent),
        ("compare", sides, 6, "endless", false, endless),
        ("sweep", cells, 6, "b\nc\n", false, more),
        ("sweep", cells, 0, "part", true, closed),
    ] {
        let port = service(faulty::<TcpStream>(sound, 5, last, closes));
        let line = format!(r"{verb} echo:127.0.0.1:{port} --request text:a\n --reply \n --json {flags}");
        begun.push((verb, sound > 0, part, home.start(&line)));
    }
    for (verb, has_some, part, running) in begun {
        let done = running.done();
        tells_once(&done, part);
        assert_eq!(done.err.contains("stored as "), has_some && verb != "sweep", "{verb}: {done:?}");
        if !has_some {
            assert!(done.out.is_empty(), "{verb}: {done:?}");
            continue;
        }
        let record = done.json();
        assert!(record["error"].as_str().is_some_and(|error| error.contains(part)), "{verb}: {record}");
        let kept = match verb {
            "load" => &record["results"][0]["rates"],
            "compare" => &record["arms"],
            _ => &record["cells"],
        };
        let kept = kept.as_array().expect(verb);
        let measured = kept.iter().filter(|one| one["transactions"].as_u64() > Some(0));
        assert_eq!((kept.len(), measured.count()), (2, 2), "{verb}: {record}");
        if verb != "load" {
            assert_eq!(record["design"]["rounds"], 1, "{verb}: {record}");
        }
    }
}

#[test]
fn replies_that_begin_otherwise_are_counted_where_the_rule_tells_no_error() {
    let home = Home::new();
    let port = service(|mut stream| {
        let mut request = [0; 2];
        for n in 0.. {
            let reply = if n % 2 == 0 { &b"OK\n"[..] } else { b"SORRY\n" };
            if stream.read_exact(&mut request).and_then(|()| stream.write_all(reply)).is_err() {
                return;
            }
        }
    });
    let record =
        home.json(&format!(r"ping echo:127.0.0.1:{port} --request text:a\n --until \n --count 100 --warmup 0s --no-store"));
    let own = own(&record);
    let (replies, differing) = (own["replies"].as_u64().expect("a count"), own["differing"].as_u64().expect("a count"));
    assert_eq!((differing, &own["shortest_bytes"], &own["longest_bytes"]), (replies / 2, &3.into(), &6.into()), "{own}");
    assert!(warnings(&rows(&record)[0]).contains(&"replies-differ"));
}

#[test]
fn a_request_that_cannot_be_asked_is_refused_before_anything_is_sent() {
    let home = Home::new();
    for (line, code, part) in [
        ("load echo:127.0.0.1:9 --request postgres-ssl-request --rate 100", 2, "use ping --rate, or --path tcp if the server"),
        (r"ping echo:127.0.0.1:9 --request text:PING\r\n", 2, "does not say where its reply ends: write --reply N"),
        ("ping echo:127.0.0.1:9 --request redis-pong", 2, "no preset; there are fix-heartbeat, http-get, memcached-version"),
        ("ping echo:127.0.0.1:9 --request hex:0 --until 1", 2, "pairs of hexadecimal digits"),
        ("ping echo:127.0.0.1:9 --request text: --until 1", 2, "without a byte"),
        ("ping echo:127.0.0.1:9 --request @/nothing --until 1", 2, "cannot read the request /nothing"),
        ("ping echo:127.0.0.1:9 --request redis-ping --until length-prefix:3", 2, "write length-prefix:1, 2, 4 or 8"),
        ("ping echo:127.0.0.1:9 --request 64", 2, "--request 64 takes --reply M as well"),
        ("ping echo:127.0.0.1:9 --request 64 --reply http", 2, "--request 64 takes --reply M in bytes, not http"),
        ("ping loopback --request redis-ping", 2, "asks a server that is there: write echo:HOST:PORT"),
        ("ping echo:127.0.0.1:9 -p udp --request redis-ping", 2, "--request takes --path tcp, tcp-crr, unix"),
        ("ping echo:127.0.0.1:9 -p tcp-crr:closes=server --request redis-ping", 2, "leave out closes"),
        ("ping echo:127.0.0.1:9 -p tcp:poll --flows 257 --request text:a --until 1Mi", 2, "at most 1044495 bytes"),
        ("ping echo:127.0.0.1:9 -p unix --request redis-ping", 2, "write the socket's own path"),
        ("ping echo:/a.sock -p tcp --request redis-ping", 2, "tcp does not lead to the UNIX socket /a.sock: use --path unix"),
        ("ping echo:/a.sock -p unix", 2, "takes a --request of its protocol"),
        ("ping echo:unix: --request redis-ping", 2, "write the path of a socket"),
        ("ping echo:127.0.0.1:9 --request redis-ping --verify", 2, "--verify compares what Hairpin has filled in"),
        ("ping echo:127.0.0.1:9 --request redis-ping --hw-stamps", 2, "--request has none"),
        ("ping echo:127.0.0.1:9 --request redis-ping --size 64", 2, "cannot be used with"),
    ] {
        home.hairpin(line).fails(code, &[part]);
    }
    assert!(!home.runs().exists(), "a run of nothing was stored");
}

#[test]
fn a_users_own_presets_join_those_that_come_with_it() {
    let home = Home::new();
    let folder = home.file("config");
    fs::create_dir_all(folder.join("hairpin")).expect("a folder");
    let with = |text: &str, words: &[&str]| {
        fs::write(folder.join("hairpin/requests.toml"), text).expect("a file");
        let mut command: Command = home.command(HAIRPIN);
        command.env("XDG_CONFIG_HOME", &folder).args(words);
        home.spawn(command).done()
    };
    let port = answering(|stream| _ = stream.write_all(b"b\n"));
    let text = format!("[mine]\nrequest = 'text:a\\n'\nuntil = '\\n'\nport = {port}\nabout = 'the words of a test'\n");
    let done = with(&text, &["ping", "echo:127.0.0.1", "--request", "mine", "--count", "20", "--no-store", "--json"]);
    assert_eq!((done.code, &own(&done.json())["first_reply"]), (Some(0), &"b".into()), "{done:?}");
    let listed = with(&text, &["help", "requests"]).out;
    assert!(listed.contains("redis-ping") && listed.contains("the words of a test"), "{listed}");
    // In place of one that comes with it, and over its path.
    let text = format!("[redis-ping]\nrequest = 'text:a\\n'\nuntil = '\\n'\nport = {port}\npath = 'tcp-crr'\n");
    let quick = ["--count", "20", "--warmup", "1ms", "--no-store", "--json"];
    let record = with(&text, &[&["ping", "echo:127.0.0.1", "--request", "redis-ping"][..], &quick].concat()).json();
    let row = &rows(&record)[0];
    assert!(row["path"].as_str().is_some_and(|path| path.starts_with("tcp-crr")), "{row}");
    assert_eq!((&row["request_bytes"], &own(&record)["first_reply"]), (&2.into(), &"b".into()));
    let listed = with(&text, &["help", "requests"]).out;
    let of_its_name: Vec<&str> = listed.lines().filter(|line| line.starts_with("  redis-ping ")).collect();
    assert!(matches!(of_its_name[..], [one] if one.contains("tcp-crr")), "{listed}");
    let done = with("[redis-ping]\nrequest = 7\n", &["ping", "echo:127.0.0.1", "--request", "redis-ping"]);
    done.fails(2, &["hairpin/requests.toml:1: redis-ping: request takes a text"]);
    let done = with("# [\"my page\"]\n\n[\"my page\"]\nrequest = 7\n", &["ping", "echo:127.0.0.1", "--request", "my page"]);
    done.fails(2, &["hairpin/requests.toml:3: my page: request takes a text"]);
    let mut nowhere = home.command(HAIRPIN);
    nowhere.env("XDG_CONFIG_HOME", "/dev/null").args(["help", "requests"]);
    let done = home.spawn(nowhere).done();
    assert!(done.code == Some(0) && done.out.contains("redis-ping"), "{done:?}");
}

#[test]
fn a_run_is_printed_in_the_lines_of_netperf_with_a_request_and_without() {
    let home = Home::new();
    let port = answering(|stream| _ = stream.write_all(b"bcd\n"));
    let asked = format!(r"ping echo:127.0.0.1:{port} --request text:a\n --until \n");
    for line in [asked.as_str(), "ping loopback -p tcp --request 2 --reply 4"] {
        let done = home.hairpin(&format!("{line} -o netperf --count 50 --warmup 1ms --no-store"));
        done.fails(0, &["netperf's latency is the RTT in us"]);
        assert!(done.out.starts_with("MIGRATED TCP REQUEST/RESPONSE TEST "), "{line}: {done:?}");
        for field in ["REQUEST_SIZE=2", "RESPONSE_SIZE=4"] {
            assert!(done.out.lines().any(|text| text == field), "{line}: no {field}: {done:?}");
        }
        assert!(!done.out.contains("_LATENCY=-1"), "{line}: {done:?}");
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn a_build_without_tls_names_the_one_that_has_it() {
    let home = Home::new();
    for verb in ["ping", "load -r 1k", "compare -p tcp -p tcp-crr", "sweep -p tcp --vary flows=1,2"] {
        home.hairpin(&format!("{verb} echo:localhost:7 --request redis-ping --tls"))
            .fails(4, &["this build has no TLS", "--features tls"]);
    }
}
