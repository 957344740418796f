//! Spellings that once meant something else: each is noted once, and `docs/output.md` has them all.

use std::ffi::OsString;

use clap::Command;
use hairpin_plan::option::Values;
use hairpin_plan::paths::PATHS;

use crate::exit::note;

/// Tells of deprecated forms in the words of a verb.
pub fn tell(verb: &Command, words: &[OsString]) {
    lines(verb, words).iter().for_each(|line| note(format_args!("hairpin: {line}")));
}

fn lines(verb: &Command, words: &[OsString]) -> Vec<String> {
    let words = || words.iter().filter_map(|word| word.to_str());
    let before = |flag: &str| words().take_while(|word| *word != "--").any(|word| word.split('=').next() == Some(flag));
    let whole = matches!(verb.get_name(), "compare" | "sweep" | "try") && before("--duration");
    let whole = whole.then(|| "--duration is the time of a row, and that of the whole is --for: taken as --for".to_owned());
    let multiple = words().find_map(multiple);
    whole.into_iter().chain(multiple).collect()
}

/// A path's option whose `k` or `M` was a power of 1024.
fn multiple(word: &str) -> Option<String> {
    let spec = word.strip_prefix("--path=").or_else(|| word.strip_prefix("-p")).unwrap_or(word);
    let option = spec.split(['/', ',', ':']).find(|option| {
        let Some((name, value)) = option.split_once('=') else { return false };
        let digits = value.strip_suffix(['k', 'K', 'm', 'M']);
        let number = digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()));
        let mut options = PATHS.iter().flat_map(|path| path.options);
        number && options.any(|option| option.name == name && matches!(option.values, Values::Number(..)))
    })?;
    let letter = option.chars().last()?.to_ascii_uppercase();
    let (power, binary) = if letter == 'K' { ("1000", "Ki") } else { ("1000000", "Mi") };
    let digits = &option[..option.len() - 1];
    Some(format!("{option} counts in {power}, as everywhere; what version 0.1.0 took it for is {digits}{binary}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_with_a_new_meaning_are_told_of() {
        let told = |line: &str| {
            let mut command = crate::parse::command();
            command.build();
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            lines(crate::help::verb(&command, &words).0, &words)
        };
        assert!(told("hairpin compare --duration 5s -- udp -- tcp")[0].ends_with("taken as --for"));
        assert!(told("hairpin tune try loopback --duration=5s")[0].contains("--for"));
        assert_eq!(
            told("hairpin ping loopback -p udp:spin,sndbuf=64k/udp"),
            ["sndbuf=64k counts in 1000, as everywhere; what version 0.1.0 took it for is sndbuf=64Ki"]
        );
        assert!(told("hairpin ping loopback --path=tcp:rcvbuf=4M")[0].ends_with("rcvbuf=4Mi"));
        for line in [
            "hairpin compare --for 5s -- udp -- tcp",
            "hairpin compare -t 5s -- udp -- tcp --duration",
            "hairpin ping loopback --duration 5s -p udp:sndbuf=64Ki,rcvbuf=1G -s 64k",
            "hairpin ping veth:mtu=9k",
        ] {
            assert_eq!(told(line), [""; 0], "{line}");
        }
    }
}
