//! A server of small pages, with limits on everything: connections, bytes, time, and connections accepted per second.
//!
//! HTTP/1.1 with one request per connection, parsed by `httparse`. Usual servers have a thread per connection or need an async
//! runtime. Here one thread waits in poll(2) on all connections, and a slow, silent or greedy peer occupies one slot until its
//! time is over.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Most connections at a time; beyond that the oldest is closed.
const CONNECTIONS: usize = 64;
/// Largest request in bytes; a scraper's has some 500.
const REQUEST: usize = 8 << 10;
/// Most bytes after the request that are read and discarded: closing a connection with unread bytes would lose the answer.
const BEYOND: usize = 64 << 10;
/// Most header lines of a request.
const HEADERS: usize = 64;
/// Longest life of a connection, whatever its state.
const LIFETIME: Duration = Duration::from_secs(5);
/// Most connections accepted …
const BURST: usize = 20;
/// … per window; others wait in the kernel's queue, whose length is limited too.
const WINDOW: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Request<'a> {
    /// The path without the query.
    pub(super) path: &'a str,
    /// The header `Accept`, empty if absent.
    pub(super) accept: &'a str,
}

#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: Arc<[u8]>,
}

impl Answer {
    pub(super) fn text(status: u16, line: &str) -> Answer {
        Answer { status, content_type: "text/plain; charset=utf-8", body: line.as_bytes().into() }
    }

    fn head(&self) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            _ => "Internal Server Error",
        };
        let allow = if self.status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let (status, kind, length) = (self.status, self.content_type, self.body.len());
        format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n"
        )
        .into()
    }
}

/// Answers until the process ends. `listener` must be non-blocking.
pub(super) fn serve(listener: &TcpListener, answer: &mut dyn FnMut(&Request<'_>) -> Answer) {
    let mut server = Server { connections: Vec::new(), window: Instant::now(), taken: 0 };
    // poll(2) fails only for lack of memory.
    while server.turn(listener, answer).is_ok() {}
}

struct Server {
    /// Oldest first.
    connections: Vec<Connection>,
    window: Instant,
    /// Connections accepted in the current window.
    taken: usize,
}

impl Server {
    /// Waits for events and handles them.
    fn turn(&mut self, listener: &TcpListener, answer: &mut dyn FnMut(&Request<'_>) -> Answer) -> io::Result<()> {
        let now = Instant::now();
        if now.duration_since(self.window) >= WINDOW {
            (self.window, self.taken) = (now, 0);
        }
        let taking = self.taken < BURST;
        let mut fds: Vec<PollFd<'_>> =
            self.connections.iter().map(|one| PollFd::from_borrowed_fd(one.stream.as_fd(), one.awaits())).collect();
        if taking {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        let next = self.connections.iter().map(|one| one.ends).chain((!taking).then(|| self.window + WINDOW)).min();
        let limit = next.map(|at| at.saturating_duration_since(now));
        let limit = limit.map(|limit| Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() });
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let somebody_came = taking && ready.pop() == Some(true);
        let now = Instant::now();
        let mut ready = ready.into_iter();
        self.connections.retain_mut(|one| {
            let ready = ready.next().unwrap_or(false);
            now < one.ends && (!ready || one.step(answer))
        });
        if somebody_came {
            self.take(listener, now);
        }
        Ok(())
    }

    fn take(&mut self, listener: &TcpListener, now: Instant) {
        while self.taken < BURST {
            match listener.accept() {
                Ok((stream, _)) => {
                    self.taken += 1;
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if self.connections.len() == CONNECTIONS {
                        self.connections.remove(0);
                    }
                    self.connections.push(Connection { stream, ends: now + LIFETIME, does: Does::Read(Vec::new()) });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Usually a connection that was gone before accept(2). If no descriptor is left, the oldest connection gives up
                // its own; nothing more is accepted in this window.
                Err(error) => {
                    if error.kind() != io::ErrorKind::ConnectionAborted && !self.connections.is_empty() {
                        self.connections.remove(0);
                    }
                    self.taken = BURST;
                }
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    ends: Instant,
    does: Does,
}

enum Does {
    /// Reads the request.
    Read(Vec<u8>),
    /// Sends the answer: head, body, and bytes of both sent so far.
    Write(Vec<u8>, Arc<[u8]>, usize),
    /// Waits for the peer to close, as long as it sends no more than this many bytes.
    Drain(usize),
}

impl Connection {
    fn awaits(&self) -> PollFlags {
        match self.does {
            Does::Read(_) | Does::Drain(_) => PollFlags::IN,
            Does::Write(..) => PollFlags::OUT,
        }
    }

    /// Advances as far as possible; false if the connection is over.
    fn step(&mut self, answer: &mut dyn FnMut(&Request<'_>) -> Answer) -> bool {
        let mut room = [0; 1024];
        if let Does::Drain(left) = &mut self.does {
            return match self.stream.read(&mut room) {
                Ok(read) => {
                    *left = left.saturating_sub(read);
                    read > 0 && *left > 0
                }
                Err(error) => again(&error),
            };
        }
        if let Does::Read(bytes) = &mut self.does {
            match self.stream.read(&mut room) {
                Ok(0) => return false,
                Ok(read) => bytes.extend_from_slice(&room[..read]),
                Err(error) => return again(&error),
            }
            let Some((answer, body)) = reply(bytes, answer) else { return true };
            let rest: Arc<[u8]> = if body { Arc::clone(&answer.body) } else { Arc::new([]) };
            self.does = Does::Write(answer.head(), rest, 0);
        }
        let Does::Write(head, body, out) = &mut self.does else { return true };
        while *out < head.len() + body.len() {
            let rest = if *out < head.len() { &head[*out..] } else { &body[*out - head.len()..] };
            match self.stream.write(rest) {
                Ok(written) => *out += written,
                Err(error) => return again(&error),
            }
        }
        self.does = Does::Drain(BEYOND);
        self.stream.shutdown(Shutdown::Write).is_ok()
    }
}

/// True if the connection can go on later.
fn again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The answer to a request, and whether to send its body; `None` while the request is incomplete.
fn reply(bytes: &[u8], answer: &mut dyn FnMut(&Request<'_>) -> Answer) -> Option<(Answer, bool)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < REQUEST => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Some((Answer::text(431, "the request is too long\n"), true));
        }
        Err(_) => return Some((Answer::text(400, "this is not an HTTP request\n"), true)),
    }
    let body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Some((Answer::text(405, "only GET and HEAD\n"), true)),
    };
    let path = request.path.unwrap_or("/");
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let accept = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("accept"));
    let accept = accept.and_then(|header| std::str::from_utf8(header.value).ok()).unwrap_or("");
    Some((answer(&Request { path, accept }), body))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// Serves pages of this size until the test program ends.
    fn serving(size: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            serve(&listener, &mut |request| match request.path {
                "/metrics" => Answer { status: 200, content_type: "text/plain", body: vec![b'm'; size].into() },
                _ => Answer::text(404, "no\n"),
            });
        });
        address
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn requests_and_replies() {
        let address = serving(3);
        for (request, status, body) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK", "mmm"),
            ("GET /metrics?name=x HTTP/1.0\r\n\r\n", "200 OK", "mmm"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK", ""),
            ("GET /other HTTP/1.1\r\n\r\n", "404 Not Found", "no\n"),
            ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405 Method Not Allowed", "only GET and HEAD\n"),
            ("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "400 Bad Request", "this is not an HTTP request\n"),
        ] {
            let text = ask(address, request.as_bytes());
            let (head, got) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request:?}: {text:?}"));
            assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:?}: {head}");
            assert_eq!(got, body, "{request:?}");
        }
        assert!(ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n").contains("Content-Length: 3\r\n"));
    }

    #[test]
    fn a_request_that_does_not_end_is_refused() {
        let address = serving(3);
        let long = format!("GET /metrics HTTP/1.1\r\nA: {}", "a".repeat(REQUEST));
        assert!(ask(address, long.as_bytes()).starts_with("HTTP/1.1 431 "));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(HEADERS + 1));
        assert!(ask(address, many.as_bytes()).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn silent_and_slow_peers_keep_nobody_waiting() {
        // More than a socket's buffers can hold.
        let address = serving(32 << 20);
        let mut deaf = TcpStream::connect(address).unwrap();
        deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let silent: Vec<TcpStream> = (0..2 * CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let text = ask(address, b"GET /other HTTP/1.1\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 404 "), "{text}");
        drop((deaf, silent));
    }

    #[test]
    fn large_page_arrives_whole() {
        let text = ask(serving(5 << 20), b"GET /metrics HTTP/1.1\r\n\r\n");
        assert_eq!(text.split_once("\r\n\r\n").map(|(_, body)| body.len()), Some(5 << 20));
    }
}
