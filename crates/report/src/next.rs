//! The last lines of a short view: commands that follow from it.

use hairpin_plan::paths::{by_name, sides};
use hairpin_record::head::{Head, Place};
use hairpin_record::run::Link;

use crate::command;
use crate::doc::Doc;
use crate::label::short;
use crate::options::Options;
use crate::prose::{clean, width};

/// Adds the commands, as many in a line as fit.
pub(crate) fn show(doc: &mut Doc, items: &[String], options: &Options) {
    let lines = lines(items, options.columns());
    if !lines.is_empty() {
        doc.verbatim(lines);
    }
}

fn lines(items: &[String], columns: usize) -> Vec<String> {
    // Where there is no command, the words on other choices stand alone.
    if let [only] = items
        && only.starts_with('(')
    {
        return vec![clean(only)];
    }
    let mut lines: Vec<String> = Vec::new();
    let mut is_broken = false;
    for item in items.iter().map(|item| clean(item)) {
        if BEGIN.len() + width(&item) > columns {
            // A shell takes it as it stands, over several lines, so no other command may follow on the last one.
            lines.extend(command::lines("      ", &item, columns));
            is_broken = true;
            continue;
        }
        let may_follow = !is_broken || item.starts_with('(');
        match lines.last_mut() {
            Some(line) if may_follow && width(line) + 4 + width(&item) <= columns => line.extend(["    ", &item]),
            _ => {
                lines.push(format!("      {item}"));
                is_broken = false;
            }
        }
    }
    if let Some(first) = lines.first_mut() {
        first.replace_range(..BEGIN.len(), BEGIN);
    }
    lines
}

/// Beginning of the first line.
const BEGIN: &str = "next  ";

/// The target of a record, as words of a command line that measures there again; `None` for a peer that not every verb takes.
pub(crate) fn to(place: &Place, head: &Head) -> Option<String> {
    over(&place.link, head)
}

/// The same of a link.
pub(crate) fn over(link: &Link, head: &Head) -> Option<String> {
    // No other verb asks a group.
    if link.group.is_some() {
        return None;
    }
    let keys: Vec<String> = link.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut words = match link.kind.as_str() {
        "netns" => format!("netns:{},{}", link.options.get("client")?, link.options.get("server")?),
        kind @ ("loopback" | "veth" | "netkit" | "bridge" | "macvlan" | "ipvlan" | "vxlan") => {
            if keys.is_empty() {
                kind.to_owned()
            } else {
                format!("{kind}:{}", keys.join(","))
            }
        }
        "host" => link.peer.clone()?,
        _ => return None,
    };
    let asked = &head.command;
    if asked.iter().any(|word| word == "-6" || word == "--ipv6") {
        words += " -6";
    }
    if let Some(file) = key_file(asked) {
        words += &format!(" --key-file {file}");
    }
    Some(words)
}

/// The file of a command's `--key-file FILE` or `--key-file=FILE`.
fn key_file(command: &[String]) -> Option<&str> {
    command.iter().enumerate().find_map(|(at, word)| match word.strip_prefix("--key-file")? {
        "" => command.get(at + 1).map(String::as_str),
        given => given.strip_prefix('='),
    })
}

/// True for a path whose stages are known where the record was measured; a comparison may have added words to it.
pub(crate) fn is_explained(spec: &str, link: &Link) -> bool {
    match sides(spec) {
        [Some(client), Some(server)] if !spec.contains(' ') => {
            client == server && client.has_stages() && !(link.kind == "host" && client.route.bypasses())
        }
        _ => false,
    }
}

/// The command that explains a path; `None` where nothing can: its stages are not known, or there is no server.
pub(crate) fn explain(link: &Link, head: &Head, spec: &str) -> Option<String> {
    let to = over(link, head).filter(|_| is_explained(spec, link))?;
    plain(format!("hairpin explain {to} -p {}", path(spec)))
}

/// A path as it is typed: without its default policy. A server's side that names none would have the client's.
pub(crate) fn path(spec: &str) -> String {
    let spec = short(spec);
    match spec.split_once(':') {
        Some((name, policy)) if by_name(name).is_some_and(|path| path.policies[0].name() == policy) => name.to_owned(),
        _ => spec,
    }
}

/// The command, if a shell accepts it unchanged: the record may come from elsewhere, and readers may paste the command.
pub(crate) fn plain(command: String) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || " .:,/=%-_[]".contains(c);
    command.chars().all(plain).then_some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_typed_as_it_was_measured() {
        for (spec, typed) in [
            ("udp:block/udp:block", "udp"),
            ("udp:spin/udp:block", "udp:spin/block"),
            ("udp:spin,sndbuf=4M/udp:block", "udp:spin,sndbuf=4M/udp:block"),
            ("xdp:spin/packet:block", "xdp:spin/packet:block"),
            ("niq:block/niq:block", "niq:block"),
            ("niq:spin/niq:spin", "niq"),
            ("later:block/later:block", "later:block"),
        ] {
            assert_eq!(path(spec), typed);
        }
    }

    #[test]
    fn no_command_follows_on_the_line_of_a_broken_one() {
        let host = "h".repeat(53);
        let long = format!("hairpin explain {host} -p udp");
        let of = |items: &[&str]| lines(&items.iter().map(ToString::to_string).collect::<Vec<_>>(), 80);
        let first = format!("next  hairpin explain {host} \\");
        let all = of(&[&long, "hairpin report latest", "(-v: all)"]);
        assert_eq!(all, [first.as_str(), "        -p udp", "      hairpin report latest    (-v: all)"]);
        assert_eq!(of(&[&long, "(-v: all)"]), [first.as_str(), "        -p udp    (-v: all)"]);
    }

    #[test]
    fn a_key_file_is_found_in_either_form() {
        let of = |words: &[&str]| key_file(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).map(str::to_owned);
        assert_eq!(of(&["hairpin", "ping", "h", "--key-file", "k"]).as_deref(), Some("k"));
        assert_eq!(of(&["hairpin", "ping", "h", "--key-file=k"]).as_deref(), Some("k"));
        assert_eq!(of(&["hairpin", "ping", "h", "--key-files"]), None);
    }
}
