//! Finds the end of a reply in a stream of bytes: each byte is looked at once, however the stream is cut.
//!
//! A reply is read in tokens, each a line or a number of bytes; after each token the rule names the next one.

use hairpin_plan::request::{ReplyEnd, Request, escaped};

/// The next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// This number of bytes.
    Bytes(usize),
    /// Everything up to this end, the end included.
    Up(To),
    /// Everything until the server closes the connection.
    Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// The rule's delimiter.
    Delimiter,
    /// The end of a line.
    Line,
    /// An empty line.
    EmptyLine,
}

/// The meaning of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The first token of a reply: a length, a head, a line that names a type.
    Head,
    /// The last token of a reply.
    Last,
    /// The length of a chunk.
    ChunkSize,
    /// A chunk, and the end of its line.
    Chunk,
    /// A line after the last chunk.
    Trailer,
    /// A string of RESP, and the end of its line.
    Text,
}

/// The state of reading one reply after the other.
#[derive(Debug)]
pub(super) struct Reader {
    end: ReplyEnd,
    head_alone: bool,
    most: usize,
    /// Bytes in whole tokens.
    at: usize,
    /// No delimiter begins before this byte.
    seen: usize,
    token: Token,
    part: Part,
    /// Values of RESP that are still to come.
    values: u64,
    /// The last head of HTTP, because most replies begin with the same one, and the token after it.
    head: Vec<u8>,
    follows: Option<(Part, Token)>,
}

impl Reader {
    /// For replies to `request`, each of at most `most` bytes.
    pub(super) fn new(request: &Request, most: usize) -> Reader {
        let mut reader = Reader {
            end: request.end.clone(),
            head_alone: request.wants_head_alone(),
            most,
            at: 0,
            seen: 0,
            token: Token::Rest,
            part: Part::Head,
            values: 0,
            head: Vec::new(),
            follows: None,
        };
        reader.begin();
        reader
    }

    /// Begins another reply, however much of this one has come.
    pub(super) fn begin(&mut self) {
        (self.at, self.seen, self.values) = (0, 0, 1);
        (self.part, self.token) = match &self.end {
            ReplyEnd::Bytes(count) => (Part::Last, Token::Bytes(*count)),
            ReplyEnd::Delimiter { .. } => (Part::Head, Token::Up(To::Delimiter)),
            ReplyEnd::Length { width, .. } => (Part::Head, Token::Bytes(*width)),
            ReplyEnd::Http => (Part::Head, Token::Up(To::EmptyLine)),
            ReplyEnd::Resp => (Part::Head, Token::Up(To::Line)),
        };
    }

    /// True if only the end of the connection ends this reply.
    pub(super) fn ends_with_the_connection(&self) -> bool {
        self.token == Token::Rest
    }

    /// The length of the reply whose bytes so far are `bytes`, if it is whole; the next call is for the reply after it. Until
    /// then `bytes` may only grow.
    ///
    /// # Errors
    /// The bytes break the rule; the text says how.
    pub(super) fn whole(&mut self, bytes: &[u8]) -> Result<Option<usize>, String> {
        loop {
            let end = match self.token {
                Token::Bytes(count) => Some(self.at + count).filter(|end| *end <= bytes.len()),
                Token::Up(To::EmptyLine) if self.is_last_head(&bytes[self.at..]) => Some(self.at + self.head.len()),
                Token::Up(to) => self.found(to, bytes),
                Token::Rest => None,
            };
            let Some(end) = end else { return Ok(None) };
            let token = &bytes[self.at..end];
            (self.at, self.seen) = (end, end);
            let Some((part, next)) = self.after(token)? else {
                self.begin();
                return Ok(Some(end));
            };
            if let Token::Bytes(count) = next
                && count > self.most.saturating_sub(end)
            {
                return Err(format!("it says that {count} bytes follow, and a reply has at most {}", self.most));
            }
            (self.part, self.token) = (part, next);
        }
    }

    fn is_last_head(&self, bytes: &[u8]) -> bool {
        !self.head.is_empty() && bytes.starts_with(&self.head)
    }

    /// The end of the token that goes up to `to`, if it has come.
    fn found(&mut self, to: To, bytes: &[u8]) -> Option<usize> {
        let delimiter: &[u8] = match (to, &self.end) {
            (To::Delimiter, ReplyEnd::Delimiter { delimiter, .. }) => delimiter,
            (To::EmptyLine, _) => b"\r\n\r\n",
            _ => b"\r\n",
        };
        let last = *delimiter.last()?;
        let mut from = self.seen + delimiter.len() - 1;
        while let Some(at) = bytes.get(from..).and_then(|left| left.iter().position(|byte| *byte == last)) {
            from += at + 1;
            if bytes[self.seen..from].ends_with(delimiter) {
                return Some(from);
            }
        }
        self.seen = self.seen.max((bytes.len() + 1).saturating_sub(delimiter.len()));
        None
    }

    /// The token after this one; `None` after the last.
    fn after(&mut self, token: &[u8]) -> Result<Option<(Part, Token)>, String> {
        const LINE: Token = Token::Up(To::Line);
        match (self.part, &self.end) {
            (Part::Head, ReplyEnd::Delimiter { more, .. }) => Ok(last(*more)),
            (Part::Head, ReplyEnd::Length { little, extra, .. }) => {
                let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
                let length = if *little { token.iter().rev().fold(0, add) } else { token.iter().fold(0, add) };
                let left = i128::from(length) + i128::from(*extra);
                let count = usize::try_from(left).map_err(|_| format!("its length prefix is {length}"))?;
                Ok(last(count))
            }
            (Part::Head, ReplyEnd::Http) => {
                if token != self.head {
                    self.follows = self.after_head(token)?;
                    self.head.clear();
                    self.head.extend_from_slice(token);
                }
                Ok(self.follows)
            }
            (Part::Head, ReplyEnd::Resp) => self.after_line(token),
            (Part::Text, _) => Ok((self.values > 0).then_some((Part::Head, LINE))),
            (Part::ChunkSize, _) => match chunk_size(token)? {
                0 => Ok(Some((Part::Trailer, LINE))),
                size => Ok(Some((Part::Chunk, Token::Bytes(size.saturating_add(2))))),
            },
            (Part::Chunk, _) if token.ends_with(b"\r\n") => Ok(Some((Part::ChunkSize, LINE))),
            (Part::Chunk, _) => Err("a chunk of its body has another length than it says".into()),
            (Part::Trailer, _) => Ok((token != b"\r\n").then_some((Part::Trailer, LINE))),
            (Part::Last | Part::Head, _) => Ok(None),
        }
    }

    fn after_head(&self, head: &[u8]) -> Result<Option<(Part, Token)>, String> {
        let status = status(head).ok_or_else(|| format!("it does not begin as HTTP does: {}", start(head)))?;
        if is_interim(status) {
            return Ok(Some((Part::Head, Token::Up(To::EmptyLine))));
        }
        if self.head_alone || matches!(status, 101 | 204 | 304) {
            return Ok(None);
        }
        if field(head, b"transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().ends_with(b"chunked")) {
            return Ok(Some((Part::ChunkSize, Token::Up(To::Line))));
        }
        match field(head, b"content-length") {
            None => Ok(Some((Part::Last, Token::Rest))),
            Some(value) => match number(value) {
                Some(length) => Ok(last(length)),
                None => Err(format!("its Content-Length is {}", start(value))),
            },
        }
    }

    fn after_line(&mut self, line: &[u8]) -> Result<Option<(Part, Token)>, String> {
        let bad = || format!("it is not of the Redis protocol: {}", start(line));
        let value = line.get(1..line.len() - 2).unwrap_or_default();
        let several = |times: u64| number(value).map_or(0, |count| (count as u64).saturating_mul(times));
        let is_none = value == b"-1";
        self.values -= 1;
        match line[0] {
            b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => {}
            b'$' | b'!' | b'=' if is_none => {}
            b'$' | b'!' | b'=' => {
                let length = number(value).ok_or_else(bad)?;
                return Ok(Some((Part::Text, Token::Bytes(length.saturating_add(2)))));
            }
            b'*' | b'~' | b'>' | b'%' if number(value).is_none() && !is_none => return Err(bad()),
            b'*' | b'~' | b'>' => self.values = self.values.saturating_add(several(1)),
            b'%' => self.values = self.values.saturating_add(several(2)),
            _ => return Err(bad()),
        }
        Ok((self.values > 0).then_some((Part::Head, Token::Up(To::Line))))
    }
}

/// The last token, if it has any bytes.
fn last(count: usize) -> Option<(Part, Token)> {
    (count > 0).then_some((Part::Last, Token::Bytes(count)))
}

/// A whole number in decimal digits.
fn number(digits: &[u8]) -> Option<usize> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| usize::from(byte - b'0'));
    let add = |sum: usize, byte: &u8| sum.checked_mul(10)?.checked_add(digit(byte)?);
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

fn chunk_size(line: &[u8]) -> Result<usize, String> {
    let digits = line.split(|byte| matches!(byte, b';' | b'\r' | b' ')).next().unwrap_or_default();
    let add = |sum: usize, byte: &u8| sum.checked_mul(16)?.checked_add(char::from(*byte).to_digit(16)? as usize);
    let size = if digits.is_empty() { None } else { digits.iter().try_fold(0, add) };
    size.ok_or_else(|| format!("a chunk of its body has no length: {}", start(line)))
}

/// The status code in the head of a reply over HTTP/1.
fn status(head: &[u8]) -> Option<usize> {
    number(head.strip_prefix(b"HTTP/1.")?.get(2..5)?)
}

/// True for an interim reply, which comes before the one that was asked for (RFC 9110, section 15.2).
fn is_interim(status: usize) -> bool {
    (100..200).contains(&status) && status != 101
}

/// Length of the interim replies of HTTP at the start of `bytes`; one that nothing follows does not count.
fn interim(bytes: &[u8]) -> usize {
    const END: &[u8] = b"\r\n\r\n";
    let mut at = 0;
    while status(&bytes[at..]).is_some_and(is_interim)
        && let Some(len) = bytes[at..].windows(END.len()).position(|end| end == END)
        && at + len + END.len() < bytes.len()
    {
        at += len + END.len();
    }
    at
}

/// The value of a field in the head of a reply over HTTP/1.
fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let line = |line: &'a [u8]| {
        let (found, value) = line.split_at_checked(name.len())?;
        found.eq_ignore_ascii_case(name).then_some(value)?.strip_prefix(b":").map(<[u8]>::trim_ascii)
    };
    head.split(|byte| *byte == b'\n').find_map(line)
}

/// Most characters of a reply's first line that are kept.
pub(super) const FIRST_LINE: usize = 60;

/// The bytes of `reply` up to the end of its first line, of which at most `FIRST_LINE` are kept; interim replies of HTTP before
/// that line are included.
pub(super) fn first_line(reply: &[u8]) -> &[u8] {
    let from = interim(reply);
    let line = reply[from..].iter().take(FIRST_LINE);
    let end = from + line.clone().position(|byte| *byte == b'\n').map_or(line.len(), |at| at + 1);
    &reply[..end]
}

/// The first line in `bytes`, for a message; over HTTP that of the final reply.
pub(super) fn start(bytes: &[u8]) -> String {
    let line = &first_line(bytes)[interim(bytes)..];
    escaped(line.strip_suffix(b"\r\n").or(line.strip_suffix(b"\n")).unwrap_or(line))
}

/// True if the reply says that the server refused the request, as far as the rule tells: an error of RESP, a status of HTTP from
/// 400 on, and after a delimiter an error of memcached or Redis.
pub(super) fn is_error(end: &ReplyEnd, reply: &[u8]) -> bool {
    match end {
        ReplyEnd::Resp => matches!(reply.first(), Some(b'-' | b'!')),
        ReplyEnd::Http => status(&reply[interim(reply)..]).is_some_and(|status| status >= 400),
        ReplyEnd::Delimiter { .. } => {
            ["ERROR", "CLIENT_ERROR", "SERVER_ERROR", "-ERR"].into_iter().any(|word| reply.starts_with(word.as_bytes()))
        }
        ReplyEnd::Bytes(_) | ReplyEnd::Length { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reader(end: &str, request: &[u8]) -> Reader {
        Reader::new(&Request { name: String::new(), bytes: request.into(), end: end.parse().unwrap(), tls: None }, 1 << 20)
    }

    /// The lengths of the replies in `stream`, which comes in parts that end at `cuts`.
    fn lengths(mut reader: Reader, stream: &[u8], cuts: &[usize]) -> Result<Vec<usize>, String> {
        let (mut from, mut found) = (0, Vec::new());
        for cut in cuts.iter().copied().chain([stream.len()]) {
            while let Some(length) = reader.whole(&stream[from..cut])? {
                from += length;
                found.push(length);
            }
        }
        Ok(found)
    }

    /// A rule, a request, and replies to it one after the other.
    type Exchange = (&'static str, &'static [u8], &'static [&'static [u8]]);

    const REPLIES: &[Exchange] = &[
        ("3", b"", &[b"abc", b"\r\n\0"]),
        (r"\r\n", b"", &[b"VERSION 1.6\r\n", b"\r\n", b"\r\r\n"]),
        (r"\x0110=+4", b"", &[b"8=FIX\x0135=0\x0110=123\x01", b"\x0110=12\x01\x01"]),
        ("aab", b"", &[b"aaaab", b"aab"]),
        ("length-prefix:2", b"", &[b"\0\x03abc", b"\0\0", b"\0\x01x"]),
        ("length-prefix:4le-4", b"", &[b"\x06\0\0\0ab", b"\x04\0\0\0"]),
        (
            "http",
            b"GET",
            &[
                b"HTTP/1.1 200 OK\r\ncontent-LENGTH:  5\r\n\r\nhello",
                b"HTTP/1.1 200 OK\r\ncontent-LENGTH:  5\r\n\r\nagain",
                b"HTTP/1.1 200 OK\r\ncontent-LENGTH:  4\r\n\r\nless",
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nab\r\n\r\n0\r\nA: b\r\n\r\n",
                b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
            ],
        ),
        ("http", b"HEAD / HTTP/1.1\r\n\r\n", &[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"HTTP/1.1 404 No\r\n\r\n"]),
        (
            "resp",
            b"",
            &[
                b"+PONG\r\n",
                b"-ERR no\r\n",
                b":7\r\n",
                b"$5\r\na\r\nbc\r\n",
                b"$-1\r\n",
                b"$0\r\n\r\n",
                b"*-1\r\n",
                b"*0\r\n",
                b"*3\r\n$1\r\na\r\n*2\r\n:1\r\n+x\r\n%1\r\n+k\r\n_\r\n",
            ],
        ),
    ];

    #[test]
    fn replies_end_where_the_rule_says() {
        for (end, request, replies) in REPLIES {
            let wanted: Vec<usize> = replies.iter().map(|reply| reply.len()).collect();
            let stream = replies.concat();
            let bytewise: Vec<usize> = (0..stream.len()).collect();
            for cuts in [&[][..], &bytewise] {
                assert_eq!(lengths(reader(end, request), &stream, cuts).as_ref(), Ok(&wanted), "{end}");
            }
        }
    }

    #[test]
    fn a_reply_that_breaks_the_rule_is_an_error_that_says_why() {
        for (end, bytes, part) in [
            ("http", &b"SSH-2.0-x\r\n\r\n"[..], "does not begin as HTTP does: SSH-2.0-x"),
            ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n", "its Content-Length is 1x"),
            ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "its Content-Length is 9999"),
            (
                "http",
                b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n",
                "2000000 bytes follow, and a reply has at most 1048576",
            ),
            ("http", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "a chunk of its body has no length: xyz"),
            ("http", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", "another length than it says"),
            ("http", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "bytes follow"),
            ("resp", b"PONG\r\n", "not of the Redis protocol: PONG"),
            ("resp", b"\r\n", "not of the Redis protocol"),
            ("resp", b"$x\r\n", "not of the Redis protocol: $x"),
            ("resp", b"*?\r\n", "not of the Redis protocol: *?"),
            ("resp", b"$18446744073709551615\r\n", "bytes follow"),
            ("length-prefix:1-2", b"\x01", "its length prefix is 1"),
            ("length-prefix:8", b"\xff\xff\xff\xff\xff\xff\xff\xff", "bytes follow"),
        ] {
            let found = reader(end, b"").whole(bytes);
            assert!(found.as_ref().is_err_and(|why| why.contains(part)), "{end}: {found:?}");
        }
        let mut close = reader("http", b"GET");
        assert_eq!(close.whole(b"HTTP/1.0 200 OK\r\n\r\nhello"), Ok(None));
        assert!(close.ends_with_the_connection());
    }

    #[test]
    fn an_error_is_told_by_the_rule() {
        for (end, reply, wanted) in [
            ("resp", &b"-NOAUTH Authentication required.\r\n"[..], true),
            ("resp", b"+PONG\r\n", false),
            ("http", b"HTTP/1.1 404 Not Found\r\n\r\n", true),
            ("http", b"HTTP/1.1 301 Moved\r\n\r\n", false),
            ("http", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\n\r\n", true),
            ("http", b"HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", false),
            ("http", b"HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 403 no reply\r\n\r\n", false),
            (r"\r\n", b"SERVER_ERROR out of memory\r\n", true),
            (r"\r\n", b"VERSION 1\r\n", false),
            ("1", b"E", false),
        ] {
            assert_eq!(is_error(&end.parse().unwrap(), reply), wanted, "{}", start(reply));
        }
        assert_eq!(start(b"-ERR \x1b[2J\r\nmore"), r"-ERR \x1b[2J");
        assert_eq!(start(&[b'x'; 99]).len(), FIRST_LINE);
    }

    #[test]
    fn the_line_of_a_reply_after_interim_ones_is_that_of_the_final_one() {
        let interim = &b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload, </b.css>; rel=preload\r\n\r\n"[..];
        let reply = [interim, b"HTTP/1.1 404 Not Found\r\n\r\n"].concat();
        assert_eq!(start(&reply), "HTTP/1.1 404 Not Found");
        assert_eq!(first_line(&reply), &reply[..reply.len() - 2]);
        assert_eq!(start(first_line(&reply)), "HTTP/1.1 404 Not Found");
        assert_eq!(start(interim), "HTTP/1.1 103 Early Hints", "nothing follows");
    }

    proptest! {
        #[test]
        fn the_cuts_of_a_stream_change_nothing(which in 0..REPLIES.len(), mut cuts in prop::collection::vec(0usize..400, 0..12)) {
            let (end, request, replies) = REPLIES[which];
            let stream = replies.concat();
            cuts.iter_mut().for_each(|cut| *cut %= stream.len());
            cuts.sort_unstable();
            prop_assert_eq!(lengths(reader(end, request), &stream, &cuts), lengths(reader(end, request), &stream, &[]));
        }

        #[test]
        fn any_bytes_are_read_alike_however_they_are_cut(which in 0..REPLIES.len(), stream in prop::collection::vec(prop::sample::select(b"\r\n:$*+-0129aHTP/. \0".to_vec()), 1..80), cut in 0usize..80) {
            let (end, request, _) = REPLIES[which];
            let whole = lengths(reader(end, request), &stream, &[]);
            prop_assert_eq!(lengths(reader(end, request), &stream, &[cut.min(stream.len())]), whole);
        }
    }
}
