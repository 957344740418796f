//! The replies of one flow: where each ends, and which request it answers. Replies of a stream come in the order of their
//! requests.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock};

use hairpin_plan::request::Request;
use hairpin_record::own_request::OwnRequest;
use hairpin_wire::probe;

use super::reader::{Reader, first_line, is_error, start};
use crate::error::counted;

/// Most bytes of a reply …
const MOST: usize = 1 << 20;
/// … and of the buffers of all flows together, unless each then has less than `LEAST`, the room for a head of HTTP.
const TOGETHER: usize = 256 << 20;
const LEAST: usize = 16 << 10;

/// The loop's probe header, which a reply brings back.
pub(crate) type Header = [u8; probe::LEN];

/// The requests in flight on a flow, and the bytes that have come back.
pub(crate) struct Replies {
    reader: Reader,
    buffer: Vec<u8>,
    /// The first byte that belongs to no whole reply yet, and the end of the bytes that have come.
    from: usize,
    have: usize,
    asked: VecDeque<Header>,
    ever_asked: bool,
}

impl Replies {
    /// For one of `flows` flows with at most `outstanding` requests in flight each.
    pub(crate) fn new(request: &Request, flows: usize, outstanding: u32) -> Replies {
        let most = (TOGETHER / flows.max(1)).clamp(LEAST, MOST);
        Replies {
            reader: Reader::new(request, most),
            // Pages that no reply reaches are never touched.
            buffer: vec![0; most],
            from: 0,
            have: 0,
            asked: VecDeque::with_capacity(outstanding as usize),
            ever_asked: false,
        }
    }

    /// A request was sent.
    #[inline(always)]
    pub(crate) fn asked(&mut self, header: Header) {
        self.asked.push_back(header);
        self.ever_asked = true;
    }

    /// True if no reply is expected.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// Bytes of a reply that is not whole.
    pub(crate) fn begun(&self) -> usize {
        self.have - self.from
    }

    /// The start of the reply that is not whole.
    pub(crate) fn start(&self) -> String {
        start(&self.buffer[self.from..self.have])
    }

    /// Forgets all bytes and requests, because another connection begins.
    pub(crate) fn clear(&mut self) {
        (self.from, self.have) = (0, 0);
        self.asked.clear();
        self.reader.begin();
    }

    /// Room for the next bytes.
    #[inline(always)]
    pub(crate) fn room(&mut self) -> io::Result<&mut [u8]> {
        if self.from == self.have {
            (self.from, self.have) = (0, 0);
        } else if self.have > self.buffer.len() / 2 {
            self.make_room()?;
        }
        Ok(&mut self.buffer[self.have..])
    }

    #[cold]
    fn make_room(&mut self) -> io::Result<()> {
        // Each byte is moved a few times at most: a quarter of the buffer lies between two moves, or the end of a reply.
        if self.from > self.buffer.len() / 4 || (self.have == self.buffer.len() && self.from > 0) {
            self.buffer.copy_within(self.from..self.have, 0);
            (self.from, self.have) = (0, self.have - self.from);
        }
        if self.have == self.buffer.len() {
            let most = self.buffer.len();
            return Err(strange(format!(
                "no end of the reply within {most} bytes: does --reply name it? It begins {}",
                start(&self.buffer)
            )));
        }
        Ok(())
    }

    /// `len` more bytes have come.
    #[inline(always)]
    pub(crate) fn came(&mut self, len: usize) {
        self.have += len;
    }

    /// The next whole reply: the header of its request, and its bytes.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> io::Result<Option<(Header, &[u8])>> {
        let begun = &self.buffer[self.from..self.have];
        if begun.is_empty() {
            return Ok(None);
        }
        if self.asked.is_empty() {
            return Err(self.unasked());
        }
        match self.reader.whole(begun) {
            Ok(None) => Ok(None),
            Ok(Some(len)) => {
                let from = self.from;
                self.from += len;
                let Some(header) = self.asked.pop_front() else { return Ok(None) };
                if self.asked.is_empty() && self.from < self.have {
                    return Err(self.unasked());
                }
                Ok(Some((header, &self.buffer[from..from + len])))
            }
            Err(why) => Err(strange(format!("the reply is not one that --reply allows: {why}"))),
        }
    }

    /// The reply that ends with the connection, if one may: the header of its request, and its bytes.
    pub(crate) fn closed(&mut self) -> Option<(Header, &[u8])> {
        if !self.reader.ends_with_the_connection() {
            return None;
        }
        let header = self.asked.pop_front()?;
        Some((header, &self.buffer[self.from..self.have]))
    }

    /// True if only the end of the connection ends the reply that has begun.
    pub(crate) fn ends_with_the_connection(&self) -> bool {
        self.reader.ends_with_the_connection()
    }

    #[cold]
    fn unasked(&self) -> io::Error {
        strange(match self.ever_asked {
            false => greeting(&self.buffer[self.from..self.have]),
            true => format!(
                "the server sent {} more than the reply: {}; it answers more than once, or --reply ends the reply too early",
                counted(self.begun() as u64, "byte"),
                self.start()
            ),
        })
    }
}

/// The message about bytes that came before any request.
pub(super) fn greeting(bytes: &[u8]) -> String {
    format!(
        "the server sent {} before it was asked: {}; a greeting would be taken for the first reply",
        counted(bytes.len() as u64, "byte"),
        start(bytes)
    )
}

#[cold]
pub(crate) fn strange(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Counts of a thread's replies, and the first of each kind.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The first line of the first reply to any thread.
    first_of_all: Arc<OnceLock<Vec<u8>>>,
    /// The same, at hand.
    first: Vec<u8>,
    first_len: usize,
    first_is_error: bool,
    first_error: Option<String>,
    replies: u64,
    shortest: usize,
    longest: usize,
    differing: u64,
    errors: u64,
}

impl Tally {
    /// For another thread of the same run.
    pub(crate) fn beside(&self) -> Tally {
        Tally { first_of_all: Arc::clone(&self.first_of_all), ..Tally::default() }
    }

    /// Counts a reply.
    #[inline(always)]
    pub(crate) fn count(&mut self, request: &Request, reply: &[u8]) {
        self.replies += 1;
        if self.replies > 1 && reply.starts_with(&self.first) && (self.shortest..=self.longest).contains(&reply.len()) {
            self.errors += u64::from(self.first_is_error);
            return;
        }
        self.count_other(request, reply);
    }

    /// Counts the first reply, or one that differs from it.
    #[cold]
    fn count_other(&mut self, request: &Request, reply: &[u8]) {
        let is_error = is_error(&request.end, reply);
        if self.replies == 1 {
            self.first.clone_from(self.first_of_all.get_or_init(|| first_line(reply).to_vec()));
            let is_first = reply.starts_with(&self.first);
            self.first_is_error = if is_first { is_error } else { super::reader::is_error(&request.end, &self.first) };
            self.first_len = reply.len();
            (self.shortest, self.longest) = (reply.len(), reply.len());
        }
        self.shortest = self.shortest.min(reply.len());
        self.longest = self.longest.max(reply.len());
        self.differing += u64::from(!reply.starts_with(&self.first));
        self.errors += u64::from(is_error);
        if is_error && self.first_error.is_none() {
            self.first_error = Some(start(reply));
        }
    }

    /// Adds the counts of another thread.
    pub(crate) fn add(&mut self, other: Tally) {
        if self.replies == 0 {
            *self = other;
            return;
        }
        if other.replies == 0 {
            return;
        }
        self.differing += other.differing;
        self.replies += other.replies;
        self.shortest = self.shortest.min(other.shortest);
        self.longest = self.longest.max(other.longest);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    /// Replies that came whole.
    pub(crate) fn replies(&self) -> u64 {
        self.replies
    }

    /// For the record; `None` if no reply came.
    pub(crate) fn record(&self, request: &Request) -> Option<OwnRequest> {
        (self.replies > 0).then(|| OwnRequest {
            request: request.name.clone(),
            until: request.end.to_string(),
            replies: self.replies,
            first_reply: start(&self.first),
            first_bytes: self.first_len as u64,
            shortest_bytes: self.shortest as u64,
            longest_bytes: self.longest as u64,
            differing: self.differing,
            errors: self.errors,
            first_error: self.first_error.clone(),
            tls: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::own_request::reader::FIRST_LINE;

    use super::*;

    fn request(end: &str) -> Request {
        Request { name: "x".into(), bytes: b"x".into(), end: end.parse().unwrap(), tls: None }
    }

    fn take(replies: &mut Replies, bytes: &[u8]) {
        replies.room().unwrap()[..bytes.len()].copy_from_slice(bytes);
        replies.came(bytes.len());
    }

    #[test]
    fn replies_answer_their_requests_in_turn() {
        let mut replies = Replies::new(&request(r"\n"), 1, 4);
        (1..=3).for_each(|n| replies.asked([n; 16]));
        take(&mut replies, b"one\ntwo\nth");
        let mut found = Vec::new();
        while let Some((header, reply)) = replies.next().unwrap() {
            found.push((header[0], reply.to_vec()));
        }
        assert_eq!(found, [(1, b"one\n".to_vec()), (2, b"two\n".to_vec())]);
        assert_eq!((replies.begun(), replies.is_idle()), (2, false));
        take(&mut replies, b"ree\n");
        assert_eq!(replies.next().unwrap(), Some(([3; 16], &b"three\n"[..])));
        assert!(replies.is_idle() && replies.next().unwrap().is_none());
    }

    #[test]
    fn bytes_that_nobody_asked_for_are_an_error() {
        let mut replies = Replies::new(&request(r"\n"), 1, 1);
        take(&mut replies, b"220 mail\r\n");
        let why = replies.next().unwrap_err().to_string();
        assert!(why.starts_with("the server sent 10 bytes before it was asked: 220 mail;"), "{why}");
        let mut replies = Replies::new(&request(r"\n"), 1, 1);
        replies.asked([0; 16]);
        take(&mut replies, b"once\ntwice\n");
        let why = replies.next().unwrap_err().to_string();
        assert!(why.starts_with("the server sent 6 bytes more than the reply: twice; it answers more than once"), "{why}");
    }

    #[test]
    fn a_reply_without_an_end_fills_the_buffer_and_no_more() {
        let mut replies = Replies::new(&request(r"\n"), 100_000, 1);
        replies.asked([0; 16]);
        let mut got = 0;
        let why = loop {
            assert!(replies.next().unwrap().is_none());
            match replies.room() {
                Ok(room) => {
                    let len = room.len().min(1000);
                    room[..len].fill(b'x');
                    replies.came(len);
                    got += len;
                }
                Err(why) => break why.to_string(),
            }
        };
        assert_eq!(got, LEAST);
        assert!(why.starts_with("no end of the reply within 16384 bytes: does --reply name it? It begins xxx"), "{why}");
    }

    #[test]
    fn a_reply_of_the_most_bytes_may_follow_a_small_one_in_the_same_piece() {
        let mut replies = Replies::new(&request(r"\n"), 100_000, 2);
        (1..=2).for_each(|n| replies.asked([n; 16]));
        let bytes = [&b"a\n"[..], &[b'x'; LEAST - 1], b"\n"].concat();
        let (mut sent, mut whole) = (0, Vec::new());
        while whole.len() < 2 {
            let room = replies.room().unwrap();
            let len = room.len().min(bytes.len() - sent);
            room[..len].copy_from_slice(&bytes[sent..sent + len]);
            replies.came(len);
            sent += len;
            while let Some((_, reply)) = replies.next().unwrap() {
                whole.push(reply.len());
            }
        }
        assert_eq!(whole, [2, LEAST]);
    }

    #[test]
    fn many_replies_go_through_a_buffer_of_their_size() {
        let mut replies = Replies::new(&request("1000"), 100_000, 8);
        let (mut sent, mut whole) = (0usize, 0usize);
        while whole < 500 {
            while replies.asked.len() < 8 {
                replies.asked([0; 16]);
            }
            let room = replies.room().unwrap();
            let len = room.len().min(777).min((whole + 7) * 1000 - sent);
            room[..len].fill(b'y');
            replies.came(len);
            sent += len;
            while replies.next().unwrap().is_some() {
                whole += 1;
            }
        }
    }

    #[test]
    fn replies_are_counted_by_their_first_line() {
        let request = request("resp");
        let mut one = Tally::default();
        for reply in [&b"+OK\r\n"[..], b"+OK\r\n", b"-ERR a\r\n", b"+OK\r\n", b"$2\r\nab\r\n"] {
            one.count(&request, reply);
        }
        // Another thread's replies are compared with the same first line.
        let mut other = one.beside();
        for reply in [&b"-ERR b\r\n"[..], b"-ERR c\r\n", b"+OK\r\n"] {
            other.count(&request, reply);
        }
        assert_eq!((other.replies, other.errors, other.differing), (3, 2, 2));
        one.add(other);
        let record = one.record(&request).unwrap();
        assert_eq!((record.replies, record.errors, record.differing), (8, 3, 4));
        assert_eq!((record.first_reply.as_str(), record.first_error.as_deref()), ("+OK", Some("-ERR a")));
        assert_eq!((record.shortest_bytes, record.longest_bytes, record.first_bytes), (5, 8, 5));
        assert_eq!(first_line(&[b'x'; 99]).len(), FIRST_LINE);
    }
}
