//! A request of the user's own to a server of another program, and the rule that says where a reply ends.
//!
//! ```text
//!   --request text:PING\r\n │ hex:0000000804d2162f │ @FILE │ PRESET       --until 7 │ '\r\n' │ '\x0110=+4' │ length-prefix:4 │ http │ resp
//! ```
//! [`presets`] has the requests with names.

pub mod presets;

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;

use hairpin_units::parse_number;
use serde::{Deserialize, Serialize};

/// Most bytes of a request: as many as the payload of a stream.
pub const MOST: usize = 65_536;
/// Most bytes of a reply …
const MOST_REPLY: u64 = 1 << 20;
/// … and of the replies of all flows together, unless that leaves a flow less than `LEAST_REPLY`.
const MOST_TOGETHER: u64 = 256 << 20;
const LEAST_REPLY: u64 = 16 << 10;

/// The bytes of every request, and the rule for the end of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// As the user wrote it: a preset's name, or the bytes.
    pub name: String,
    pub bytes: Vec<u8>,
    pub end: ReplyEnd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// TLS between the bytes and the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tls {
    /// The server's name, as its certificate has it.
    pub name: String,
    /// The certificates to trust, in PEM; without it those that the system trusts.
    pub ca: Option<PathBuf>,
    /// True if any certificate is accepted.
    pub insecure: bool,
}

impl Request {
    /// True if the reply is a head alone, though the head announces a body: `HEAD` of HTTP (RFC 9110, section 9.3.2).
    #[must_use]
    pub fn wants_head_alone(&self) -> bool {
        self.bytes.starts_with(b"HEAD ")
    }
}

/// The rule that says where a reply ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ReplyEnd {
    /// After this number of bytes.
    Bytes(usize),
    /// With these bytes, and `more` after them.
    Delimiter { delimiter: Vec<u8>, more: usize },
    /// After as many bytes as the first ones say, and `extra` more or fewer.
    Length { width: usize, little: bool, extra: i64 },
    /// As HTTP/1.1 says (RFC 9112, section 6.3).
    Http,
    /// As the protocol of Redis says, RESP.
    Resp,
}

/// Most bytes of a reply where `flows` share the room for replies. The measuring loop has the same limits of its own.
#[must_use]
pub fn most_of_reply(flows: u32) -> u64 {
    (MOST_TOGETHER / u64::from(flows.max(1))).clamp(LEAST_REPLY, MOST_REPLY)
}

impl ReplyEnd {
    /// True for a protocol whose replies show whether they are errors.
    #[must_use]
    pub fn tells_errors(&self) -> bool {
        matches!(self, ReplyEnd::Http | ReplyEnd::Resp)
    }
}

/// The prefix of a rule by length.
const LENGTH: &str = "length-prefix:";

impl FromStr for ReplyEnd {
    type Err = String;

    fn from_str(text: &str) -> Result<ReplyEnd, String> {
        if let Some(rule) = text.strip_prefix(LENGTH) {
            return length(rule).ok_or_else(|| {
                format!("\"{text}\" is not a length: write {LENGTH}1, 2, 4 or 8, then le for little endian, then +N or -N if the length counts other bytes than those after it, such as {LENGTH}4le-4")
            });
        }
        match text {
            "" => return Err("a reply that ends with nothing has no end".into()),
            "http" => return Ok(ReplyEnd::Http),
            "resp" => return Ok(ReplyEnd::Resp),
            _ => {}
        }
        if let Ok(count) = parse_number(text) {
            return match count {
                1..=MOST_REPLY => Ok(ReplyEnd::Bytes(count as usize)),
                _ => Err(format!("a reply of {count} bytes: write 1 to {MOST_REPLY}")),
            };
        }
        let counted = text.rsplit_once('+').and_then(|(delimiter, more)| Some((delimiter, more.parse().ok()?)));
        let (delimiter, more) = counted.filter(|(delimiter, _)| !delimiter.is_empty()).unwrap_or((text, 0u64));
        if more > MOST_REPLY {
            return Err(format!("{more} bytes after a delimiter: write at most {MOST_REPLY}"));
        }
        Ok(ReplyEnd::Delimiter { delimiter: unescaped(delimiter)?, more: more as usize })
    }
}

/// Parses `4`, `2le`, `4be-4`.
fn length(rule: &str) -> Option<ReplyEnd> {
    let (rule, extra) = match rule.find(['+', '-']) {
        Some(at) => (&rule[..at], rule[at..].parse::<i32>().ok()?),
        None => (rule, 0),
    };
    let (width, little) = match (rule.strip_suffix("le"), rule.strip_suffix("be")) {
        (Some(width), _) => (width, true),
        (_, Some(width)) => (width, false),
        _ => (rule, false),
    };
    let width = width.parse().ok().filter(|width| matches!(width, 1 | 2 | 4 | 8))?;
    Some(ReplyEnd::Length { width, little, extra: extra.into() })
}

impl fmt::Display for ReplyEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyEnd::Bytes(count) => write!(f, "{count}"),
            ReplyEnd::Delimiter { delimiter, more } => {
                // A plus sign would begin the count, and some words are rules.
                let mut text = escaped(delimiter).replace('+', "\\x2b");
                if text.parse().as_ref() != Ok(&ReplyEnd::Delimiter { delimiter: delimiter.clone(), more: 0 }) {
                    text = delimiter.iter().map(|byte| format!("\\x{byte:02x}")).collect();
                }
                match more {
                    0 => f.write_str(&text),
                    more => write!(f, "{text}+{more}"),
                }
            }
            ReplyEnd::Length { width, little, extra } => {
                write!(f, "{LENGTH}{width}{}", if *little { "le" } else { "" })?;
                if *extra == 0 { Ok(()) } else { write!(f, "{extra:+}") }
            }
            ReplyEnd::Http => f.write_str("http"),
            ReplyEnd::Resp => f.write_str("resp"),
        }
    }
}

impl From<ReplyEnd> for String {
    fn from(end: ReplyEnd) -> String {
        end.to_string()
    }
}

impl TryFrom<String> for ReplyEnd {
    type Error = String;

    fn try_from(text: String) -> Result<ReplyEnd, String> {
        text.parse()
    }
}

/// The bytes of `text:…`, `hex:…` or `@FILE`; `None` for another word.
///
/// # Errors
/// Says what is wrong with the text or the file.
pub fn bytes_of(word: &str) -> Option<Result<Vec<u8>, String>> {
    let bytes = match (word.strip_prefix("text:"), word.strip_prefix("hex:"), word.strip_prefix('@')) {
        (Some(text), ..) => unescaped(text),
        (_, Some(digits), _) => unhexed(digits),
        (.., Some(file)) => contents(file),
        _ => return None,
    };
    Some(bytes.and_then(|bytes| match bytes.len() {
        0 => Err("a request without a byte asks nothing".into()),
        1..=MOST => Ok(bytes),
        _ => Err(format!("a request has at most {MOST} bytes")),
    }))
}

fn contents(file: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(file).and_then(|open| open.take(MOST as u64 + 1).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| format!("cannot read the request {file}: {error}"))
}

fn unhexed(digits: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| pair.try_into().ok().and_then(byte_of));
    pairs.collect::<Option<Vec<u8>>>().ok_or_else(|| "hex: takes pairs of hexadecimal digits, such as hex:0d0a".into())
}

fn byte_of(pair: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()
}

/// The bytes of a text with `\r`, `\n`, `\t`, `\0`, `\\` and `\xHH` in it.
fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut left = text.bytes();
    let mut bytes = Vec::with_capacity(text.len());
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'\\' => match left.next() {
                Some(b'r') => b'\r',
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'0') => 0,
                Some(b'\\') => b'\\',
                Some(b'x') => {
                    let pair = [left.next().unwrap_or_default(), left.next().unwrap_or_default()];
                    byte_of(pair).ok_or("\\x takes two hexadecimal digits, such as \\x01")?
                }
                _ => return Err(format!("\"{text}\" has a \\ before something else than r, n, t, 0, \\ or xHH")),
            },
            plain => plain,
        });
    }
    Ok(bytes)
}

/// The bytes as a text that `unescaped` takes.
#[must_use]
pub fn escaped(bytes: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'\r' => "\\r".into(),
        b'\n' => "\\n".into(),
        b'\t' => "\\t".into(),
        b'\\' => "\\\\".into(),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    bytes.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rule_is_read_and_written() {
        let delimiter = |delimiter: &[u8], more| ReplyEnd::Delimiter { delimiter: delimiter.into(), more };
        for (text, end) in [
            ("7", ReplyEnd::Bytes(7)),
            ("4Ki", ReplyEnd::Bytes(4096)),
            ("1.5k", ReplyEnd::Bytes(1_500)),
            (r"\r\n+100000", delimiter(b"\r\n", 100_000)),
            (r"\r\n", delimiter(b"\r\n", 0)),
            (r"\x0110=+4", delimiter(b"\x0110=", 4)),
            ("END", delimiter(b"END", 0)),
            ("+", delimiter(b"+", 0)),
            ("a+b", delimiter(b"a+b", 0)),
            ("length-prefix:4", ReplyEnd::Length { width: 4, little: false, extra: 0 }),
            ("length-prefix:2le-2", ReplyEnd::Length { width: 2, little: true, extra: -2 }),
            ("length-prefix:8be+16", ReplyEnd::Length { width: 8, little: false, extra: 16 }),
            ("http", ReplyEnd::Http),
            ("resp", ReplyEnd::Resp),
        ] {
            assert_eq!(text.parse().as_ref(), Ok(&end), "{text}");
            assert_eq!(end.to_string().parse(), Ok(end), "{text}");
        }
        for text in [
            "",
            "0",
            "2Mi",
            "length-prefix:3",
            "length-prefix:",
            "length-prefix:4x",
            r"\q",
            r"\x0",
            "length-prefix:4+",
            "END+2000000",
        ] {
            assert!(text.parse::<ReplyEnd>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_request_is_text_or_digits_or_a_file() {
        let of = |word: &str| bytes_of(word).unwrap();
        assert_eq!(of(r"text:PING\r\n\x00\0\\").unwrap(), b"PING\r\n\0\0\\");
        assert_eq!(of("hex:00 0aFF").unwrap(), [0, 10, 255]);
        for (word, part) in [
            ("text:", "without a byte"),
            ("hex:0", "pairs of hexadecimal digits"),
            ("hex:0g", "pairs of hexadecimal digits"),
            (r"text:\", "something else than r, n"),
            ("@/proc/nothing", "cannot read the request /proc/nothing: No such file"),
            ("@/dev/zero", "at most 65536 bytes"),
        ] {
            assert!(of(word).is_err_and(|why| why.contains(part)), "{word}: {:?}", of(word));
        }
        assert_eq!(bytes_of("redis-ping"), None);
    }

    proptest! {
        #[test]
        fn any_delimiter_is_written_as_it_is_read(bytes in prop::collection::vec(any::<u8>(), 1..12), more in 0usize..9) {
            let end = ReplyEnd::Delimiter { delimiter: bytes, more };
            prop_assert_eq!(end.to_string().parse(), Ok(end));
        }
    }
}
