//! Requests with names: those that come with hairpin, and the user's own in a file of the same form.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use hairpin_units::parse_number;
use toml::de::DeTable;
use toml::{Table, Value};

use super::{ReplyEnd, bytes_of};
use crate::paths::{self, TCP};
use crate::spec::Spec;

/// The presets that come with hairpin.
const BUILT_IN: &str = include_str!("presets.toml");

/// A request with a name.
#[derive(Clone, Debug)]
pub struct Preset {
    pub name: String,
    pub bytes: Vec<u8>,
    /// The rule for the end of a reply; a preset has one.
    pub end: Option<ReplyEnd>,
    /// One line about it.
    pub about: String,
    /// The usual port of the server.
    pub port: Option<u16>,
    /// The path and options that the server needs.
    pub path: Spec,
}

/// All presets, with those of the user's file, which replace others of their name.
///
/// # Errors
/// Names the file, the line and the mistake.
pub fn all() -> Result<Vec<Preset>, String> {
    let mut presets = parse("presets.toml", BUILT_IN)?;
    if let Some(file) = own_file(|name| std::env::var_os(name)) {
        match fs::read_to_string(&file) {
            Ok(text) => {
                let own = parse(&file.display().to_string(), &text)?;
                presets.retain(|preset| own.iter().all(|own| own.name != preset.name));
                presets.extend(own);
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
        }
    }
    Ok(presets)
}

/// The user's file: `$XDG_CONFIG_HOME/hairpin/requests.toml`, else in `~/.config`.
fn own_file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| variable(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let config = path("XDG_CONFIG_HOME").or_else(|| Some(path("HOME")?.join(".config")))?;
    Some(config.join("hairpin/requests.toml"))
}

/// The list, one preset a line.
///
/// # Errors
/// As [`all`].
pub fn listed() -> Result<String, String> {
    let mut text = String::new();
    for preset in all()? {
        let port = preset.port.map_or(String::new(), |port| format!(":{port}"));
        let end = preset.end.map_or(String::new(), String::from);
        text.push_str(&format!(
            "  {:21} {:8} {port:7} until {end}\n      {}\n",
            preset.name, preset.path.client.path.name, preset.about
        ));
    }
    Ok(text)
}

fn parse(file: &str, text: &str) -> Result<Vec<Preset>, String> {
    let line_of = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        format!("{file}:{}: {}", line_of(error.span().map_or(0, |span| span.start)), error.message())
    })?;
    let one = |(name, value): (String, Value)| {
        preset(&name, value).map_err(|why| format!("{file}:{}: {name}: {why}", line_of(place_of(&name, text).unwrap_or(0))))
    };
    table.into_iter().map(one).collect()
}

/// The first byte of the name in the text, where its table or its first field begins.
fn place_of(name: &str, text: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let key = table.get_ref().keys().find(|key| key.get_ref() == name)?;
    Some(key.span().start)
}

fn preset(name: &str, value: Value) -> Result<Preset, String> {
    let Value::Table(mut fields) = value else { return Err("a preset is a table, [NAME]".into()) };
    if parse_number(name).is_ok() || name.contains([':', '@']) {
        return Err("is no name, as it could be another word of --request".into());
    }
    let mut text = |field: &str| match fields.remove(field) {
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{field} takes a text")),
        None => Ok(None),
    };
    let request = text("request")?.ok_or("it has no request")?;
    let bytes = bytes_of(&request).ok_or("request takes text:…, hex:… or @FILE")??;
    let end = text("until")?.ok_or("it does not say where the reply ends: until is missing")?.parse()?;
    let about = text("about")?.unwrap_or_default();
    let path = text("path")?;
    let path: Spec = path.as_deref().unwrap_or(TCP.name).parse().map_err(|why| format!("path: {why}"))?;
    if !path.client.path.takes_request {
        return Err(format!("path takes one of {}", paths::taking_requests().join(", ")));
    }
    let port = match fields.remove("port") {
        None => None,
        Some(Value::Integer(port)) => {
            Some(u16::try_from(port).ok().filter(|port| *port > 0).ok_or_else(|| format!("there is no port {port}"))?)
        }
        Some(_) => return Err("port takes a number".into()),
    };
    if let Some(unknown) = fields.keys().next() {
        return Err(format!("there is no field {unknown}: it takes about, request, until, port and path"));
    }
    Ok(Preset { name: name.into(), bytes, end: Some(end), about, port, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_presets_are_sound() {
        let all = parse("presets.toml", BUILT_IN).unwrap();
        let names: Vec<&str> = all.iter().map(|preset| preset.name.as_str()).collect();
        assert_eq!(names, ["fix-heartbeat", "http-get", "memcached-version", "postgres-ssl-request", "redis-get", "redis-ping"]);
        assert!(all.iter().all(|preset| preset.port.is_some() && !preset.about.is_empty()));
        assert_eq!(all[5].bytes, b"*1\r\n$4\r\nPING\r\n");
        assert_eq!(all[3].bytes, [0, 0, 0, 8, 4, 210, 22, 47]);
    }

    #[test]
    fn a_fix_message_has_its_stated_length_and_checksum() {
        let bytes = parse("presets.toml", BUILT_IN).unwrap().swap_remove(0).bytes;
        let text = String::from_utf8(bytes).unwrap();
        let (head, rest) = text.split_once("\x0135=").unwrap();
        let (body, sum) = rest.split_once("10=").unwrap();
        assert_eq!(head, format!("8=FIX.4.4\x019={}", body.len() + 3));
        let before = text.len() - sum.len() - 3;
        let total: u32 = text.bytes().take(before).map(u32::from).sum();
        assert_eq!(sum, format!("{:03}\x01", total % 256));
    }

    #[test]
    fn a_mistake_is_named_by_file_and_line() {
        for (text, why) in [
            ("\n\n[a\n", "f:3: "),
            ("a = 1", "f:1: a: a preset is a table"),
            ("[a]\nrequest = 'text:x'\nuntil = '1'\n[b]\nuntil = '1'", "f:4: b: it has no request"),
            ("[a]\nrequest = 'text:x'", "f:1: a: it does not say where the reply ends"),
            ("[a]\nrequest = 'ping'\nuntil = '1'", "f:1: a: request takes text:"),
            ("[a]\nrequest = 'text:x'\nuntil = '0'", "f:1: a: a reply of 0 bytes"),
            ("[a]\nrequest = 'text:x'\nuntil = '1'\nport = 70000", "f:1: a: there is no port 70000"),
            ("[a]\nrequest = 'text:x'\nuntil = '1'\npath = 'udp'", "f:1: a: path takes one of tcp, tcp-crr, unix"),
            ("[a]\nrequest = 'text:x'\nuntil = '1'\nends = 1", "f:1: a: there is no field ends"),
            ("[a]\nrequest = 7", "f:1: a: request takes a text"),
            ("[7]\nrequest = 'text:x'", "f:1: 7: is no name"),
            ("[4Ki]\nrequest = 'text:x'", "f:1: 4Ki: is no name"),
            (
                "# [\"my page\"]\n[z]\nrequest = 'text:[my page]'\nuntil = '1'\n[\"my page\"]\nuntil = '1'",
                "f:5: my page: it has no request",
            ),
            ("# [a]\n\n [ a ] # ä\nuntil = '1'", "f:3: a: it has no request"),
            ("['\"']\nuntil = '1'", "f:1: \": it has no request"),
            ("\na.until = '1'\na.about = '[a]'", "f:2: a: it has no request"),
        ] {
            let found = parse("f", text).map(|_| ());
            assert!(found.as_ref().is_err_and(|found| found.starts_with(why)), "{text}: {found:?}");
        }
    }

    #[test]
    fn the_users_file_is_in_the_config_directory() {
        let of = |all: &'static [(&str, &str)]| {
            own_file(|name| all.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        assert_eq!(of(&[("XDG_CONFIG_HOME", "/c"), ("HOME", "/h")]), Some("/c/hairpin/requests.toml".into()));
        assert_eq!(of(&[("XDG_CONFIG_HOME", "c"), ("HOME", "/h")]), Some("/h/.config/hairpin/requests.toml".into()));
        assert_eq!(of(&[]), None);
    }
}
