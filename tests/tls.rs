//! Requests over TLS to openssl's `s_server`, which answers each line with its bytes in reverse, with a certificate that the test
//! makes. `make test-tls` builds the command with the feature.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use crate::support::servers::{self, program};
use crate::support::{Home, Running, can, free_port, rows, warnings};
use serde_json::Value;

const ASK: &str = "--request text:ping\\n --until \\n --tls --count 300 --warmup 20ms";

fn has_openssl(test: &str) -> bool {
    can(test, program("openssl").is_some(), "openssl is not installed")
}

/// A certificate for `localhost` and its key, signed by itself.
fn certificate(home: &Home) -> (PathBuf, PathBuf) {
    let (certificate, key) = (home.file("certificate.pem"), home.file("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]);
    openssl.args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]);
    let made = openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate).output().expect("openssl");
    assert!(made.status.success(), "{made:?}");
    (certificate, key)
}

/// `s_server` on this port with more flags, ready.
fn server(home: &Home, port: u16, more: &[&str]) -> Running {
    let (certificate, key) = (home.file("certificate.pem"), home.file("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl
        .args(["s_server", "-rev", "-accept", &format!("127.0.0.1:{port}")])
        .arg("-cert")
        .arg(certificate)
        .arg("-key")
        .arg(key)
        .args(more);
    let mut running = home.spawn(openssl);
    running.until("ACCEPT");
    running
}

fn agreed(row: &Value) -> &str {
    row["own_request"]["tls"].as_str().expect("what was agreed")
}

/// The number of handshakes of this name.
fn handshakes(row: &Value, name: &str) -> u64 {
    row["parts_ns"][name]["count"].as_u64().unwrap_or(0)
}

#[test]
fn handshakes_are_apart_and_an_earlier_session_is_taken_up() {
    if !has_openssl("tls: s_server") {
        return;
    }
    let home = Home::new();
    let (certificate, _) = certificate(&home);
    let ca = certificate.display();
    for (more, version) in [(&[][..], "TLS 1.3 TLS13_"), (&["-tls1_2"][..], "TLS 1.2 TLS_ECDHE_ECDSA_")] {
        let port = free_port();
        let mut server = server(&home, port, more);
        let at = format!("echo:localhost:{port}");
        for policy in ["tcp", "tcp:spin", "tcp:epoll"] {
            let record = home.json(&format!("ping {at} -p {policy} --outstanding 4 {ASK} --tls-ca {ca} --no-store"));
            let row = &rows(&record)[0];
            assert_eq!(
                (&row["transactions"], &row["reply_bytes"], &row["own_request"]["first_reply"]),
                (&300.into(), &5.into(), &"gnip".into())
            );
            assert!(agreed(row).starts_with(version), "{row}");
            assert_eq!((handshakes(row, "handshake"), handshakes(row, "resumed handshake")), (1, 0), "{policy}: {row}");
        }
        // Long replies, several of which come in one piece.
        std::fs::write(home.file("long"), [&[b'x'; 12_000][..], b"\n"].concat()).expect("a request");
        let long =
            format!("--request @{} --until \\n --tls --tls-ca {ca} --count 300 --warmup 20ms", home.file("long").display());
        let record = home.json(&format!("ping {at} -p tcp:epoll --outstanding 4 {long} --no-store"));
        assert_eq!((&rows(&record)[0]["transactions"], &rows(&record)[0]["reply_bytes"]), (&300.into(), &12_001.into()));
        let record = home.json(&format!("ping {at} -p tcp-crr {ASK} --tls-ca {ca} --no-store"));
        let row = &rows(&record)[0];
        let (full, resumed) = (handshakes(row, "handshake"), handshakes(row, "resumed handshake"));
        assert!(full == 1 && resumed >= 300, "{full} full and {resumed} resumed: {row}");
        // Each RTT holds its handshake, which is in neither of the other parts.
        let figure = |of: &Value, name: &str| of[name].as_f64().expect("a figure");
        let mean = |name: &str| figure(&row["parts_ns"][name], "mean");
        let rest = figure(&row["rtt_ns"], "mean") - mean("connect") - mean("exchange");
        assert!(rest >= figure(&row["parts_ns"]["resumed handshake"], "min"), "{rest} ns of {row}");
        let table = home.hairpin(&format!("ping {at} -p tcp-crr {ASK} --tls-ca {ca} --no-store -v"));
        let text = table.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains(version) && text.contains("(handshake: 1, mean ") && text.contains("; resumed handshake: "),
            "{}",
            table.out
        );
        server.kill();
    }
}

#[test]
fn nginx_answers_over_https() {
    if !has_openssl("tls: nginx") || !can("tls: nginx", program("nginx").is_some(), "nginx is not here") {
        return;
    }
    let home = Home::new();
    let (certificate, key) = certificate(&home);
    let (ca, key, port) = (certificate.display(), key.display(), free_port());
    let _nginx = servers::nginx(&home, port, &format!(" ssl; ssl_certificate {ca}; ssl_certificate_key {key}"));
    for (path, connections) in [("tcp", 1), ("tcp:epoll --flows 3 --outstanding 4", 3), ("tcp-crr", 300)] {
        let record = home.json(&format!(
            "ping echo:localhost:{port} -p {path} --request http-get --tls --tls-ca {ca} --count 300 --warmup 20ms --no-store"
        ));
        let row = &rows(&record)[0];
        assert_eq!(
            (&row["own_request"]["first_reply"], &row["own_request"]["errors"]),
            (&"HTTP/1.1 200 OK".into(), &0.into()),
            "{row}"
        );
        assert!(row["transactions"] == 300 && agreed(row).starts_with("TLS 1."), "{path}: {row}");
        // Of TLS 1.2 a ticket comes with the first handshake, and each later connection takes that session up.
        let (full, resumed) = (handshakes(row, "handshake"), handshakes(row, "resumed handshake"));
        assert!(
            full >= 1 && full + resumed >= connections && (path != "tcp-crr" || resumed >= 300),
            "{full} full, {resumed} resumed: {row}"
        );
    }
    // Asked without TLS it says so in HTTP: an error.
    let plain =
        home.json(&format!("ping echo:localhost:{port} -p tcp-crr --request http-get --count 20 --warmup 1ms --no-store"));
    assert_eq!(rows(&plain)[0]["own_request"]["first_error"], "HTTP/1.1 400 Bad Request", "{plain}");
}

#[test]
fn load_compare_and_sweep_go_over_tls() {
    if !has_openssl("tls: load, compare, sweep") {
        return;
    }
    let home = Home::new();
    let (certificate, _) = certificate(&home);
    let port = free_port();
    let _server = server(&home, port, &[]);
    let ask = format!(
        "echo:localhost:{port} --request text:ping\\n --until \\n --tls --tls-ca {} --no-store --json",
        certificate.display()
    );
    let load = home.hairpin(&format!("load {ask} --rate 1000 --duration 300ms --warmup 10ms")).json();
    let curve = &rows(&load)[0];
    assert_eq!((&load["error"], &curve["reply_bytes"]), (&Value::Null, &5.into()), "{load}");
    assert!(curve["rates"][0]["rtt_from_due_ns"]["count"].as_u64() >= Some(290), "{curve}");
    let ask = ask.replace("--until", "--reply");
    let compare = home.hairpin(&format!("compare {ask} --for 500ms -- tcp:spin -- tcp:block -- tcp-crr")).json();
    let arms = compare["arms"].as_array().expect("arms");
    assert_eq!((&compare["error"], arms.len()), (&Value::Null, 3), "{compare}");
    assert!(
        arms.iter().all(|arm| arm["transactions"].as_u64() > Some(0) && arm["lost"] == 0 && arm["reply_bytes"] == 5),
        "{compare}"
    );
    let sweep = home.hairpin(&format!("sweep {ask} -p tcp:epoll --vary outstanding=1,4 --for 500ms")).json();
    let cells = sweep["cells"].as_array().expect("cells");
    assert_eq!((&sweep["error"], cells.len()), (&Value::Null, 2), "{sweep}");
}

#[test]
fn certificates_and_alerts_are_said_in_a_sentence() {
    if !has_openssl("tls: certificates") {
        return;
    }
    let home = Home::new();
    let (certificate, _) = certificate(&home);
    let ca = certificate.display();
    let port = free_port();
    let _server = server(&home, port, &[]);
    let at = format!("echo:127.0.0.1:{port}");
    // By address, and the certificate has a name.
    home.hairpin(&format!("ping {at} {ASK} --tls-ca {ca}"))
        .fails(1, &["the server's certificate does not hold", "--tls-name NAME"]);
    home.hairpin(&format!("ping {at} {ASK} --tls-name localhost --tls-ca {ca}")).fails(0, &[]);
    home.hairpin(&format!("ping {at} {ASK} --tls-name localhost")).fails(1, &["UnknownIssuer", "--tls-ca FILE"]);
    let record = home.json(&format!("ping {at} {ASK} --tls-insecure --no-store"));
    assert!(warnings(&rows(&record)[0]).contains(&"certificate-unchecked"), "{record:#}");
    home.hairpin(&format!("ping {at} {ASK} --tls-ca {}", home.file("none.pem").display()))
        .fails(2, &["--tls-ca", "No such file"]);
    home.hairpin(&format!("ping {at} {ASK} --tls-ca {}", home.file("key.pem").display()))
        .fails(1, &["has no certificates to trust"]);
    home.hairpin(&format!("ping {at} {ASK} --tls-insecure -p tcp:writes=2")).fails(2, &["leave out writes=N"]);
    home.hairpin(&format!("ping echo:/no/such.sock {ASK} --tls-insecure")).fails(2, &["--tls goes over TCP"]);
    home.hairpin("ping loopback --tls").fails(2, &["--request"]);

    let strict = free_port();
    let _strict = server(&home, strict, &["-Verify", "1", "-verify_return_error"]);
    home.hairpin(&format!("ping echo:127.0.0.1:{strict} {ASK} --tls-insecure")).fails(1, &["with the alert CertificateRequired"]);
}

/// A service that `play`s on each connection; its port.
fn service(play: impl Fn(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("its port").port();
    spawn(move || listener.incoming().flatten().for_each(play));
    port
}

#[test]
fn a_server_without_tls_a_silent_one_and_one_that_ends_are_told_apart() {
    let home = Home::new();
    let ask = |port: u16, more: &str| home.hairpin(&format!("ping echo:127.0.0.1:{port} {ASK} --tls-insecure {more}"));
    let plain = service(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        sleep(Duration::from_millis(200));
    });
    ask(plain, "").fails(1, &["what the server sent is no TLS"]);
    let silent = service(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let begun = Instant::now();
    ask(silent, "--timeout 300ms").fails(1, &["does not answer in the handshake of TLS"]);
    assert!(begun.elapsed() < Duration::from_secs(60), "it hung");
    let closing = service(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
    });
    ask(closing, "").fails(1, &["in the handshake of TLS"]);
    if !has_openssl("tls: a server that ends") {
        return;
    }
    certificate(&home);
    let port = free_port();
    let mut server = server(&home, port, &[]);
    let killed = spawn(move || {
        sleep(Duration::from_millis(700));
        server.kill();
    });
    let done = home.hairpin(&format!(
        "ping echo:127.0.0.1:{port} --request text:ping\\n --until \\n --tls --tls-insecure -t 20s --warmup 20ms --no-store"
    ));
    killed.join().expect("the server was ended");
    done.fails(1, &["the server closed the connection"]);
    assert!(done.out.contains("gnip") || done.out.contains("tcp:block"), "what was measured until then is kept: {done:?}");
}
