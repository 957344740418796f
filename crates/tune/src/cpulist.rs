//! Sets of CPUs as the kernel writes them: lists (`0-3,8`) and masks in hexadecimal (`00000000,0000010f`).

/// Largest CPU number accepted; the kernel's own limit (CONFIG_NR_CPUS) is 8192.
const MAX_CPU: u32 = 65_535;

/// The CPUs of a list such as `0-3,8`, ascending; it may name none.
pub(crate) fn parse(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("{text:?} is not a list of CPUs such as 0-3,8");
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.parse().map_err(|_| wrong())?;
        let last: u32 = last.parse().map_err(|_| wrong())?;
        // Ranges may overlap; without this limit, a long list would take any amount of memory.
        if first > last || last > MAX_CPU || cpus.len() > MAX_CPU as usize {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The CPUs of a mask: groups of 32 bits in hexadecimal, the highest first.
pub(crate) fn parse_mask(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("{text:?} is not a mask of CPUs such as 0000000f");
    let mut cpus = Vec::new();
    for (group, word) in (0..=MAX_CPU / 32).zip(text.trim().rsplit(',')) {
        if word.len() > 8 || !word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let bits = u32::from_str_radix(word, 16).map_err(|_| wrong())?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| group * 32 + bit));
    }
    Ok(cpus)
}

/// Ascending CPUs as a list.
pub(crate) fn format(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    parts.join(",")
}

/// CPUs as a mask, in the fewest groups of 32 bits that hold the highest.
pub(crate) fn format_mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |most| most / 32 + 1);
    let word = |group: u32| cpus.iter().filter(|cpu| **cpu / 32 == group).fold(0_u32, |word, cpu| word | 1 << (cpu % 32));
    (0..groups).rev().map(|group| format!("{:08x}", word(group))).collect::<Vec<_>>().join(",")
}

/// The CPUs once each, ascending.
pub(crate) fn distinct(cpus: &[u32]) -> Vec<u32> {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// The CPUs of a list such as `0-3,8`, ascending.
///
/// # Errors
/// The text is not such a list, or names no CPU.
pub fn parse_cpus(text: &str) -> Result<Vec<u32>, String> {
    let cpus = parse(text)?;
    if cpus.is_empty() { Err(format!("{text:?} names no CPU")) } else { Ok(cpus) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        assert_eq!(parse("0-3,8,10-11\n").unwrap(), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("").unwrap(), [0_u32; 0]);
        for text in ["0-3,8,10-11", "7", "", "0,2,4"] {
            assert_eq!(format(&parse(text).unwrap()), text);
        }
        for text in ["x", "3-1", "1-", "-1", "0-4294967295", "1;2", "0-65535,0-65535"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("0-3,0-65535").unwrap().len(), 65_536);
    }

    #[test]
    fn masks_are_read() {
        assert_eq!(parse_mask("f").unwrap(), [0, 1, 2, 3]);
        assert_eq!(parse_mask("00000002,80000001\n").unwrap(), [0, 31, 33]);
        assert_eq!(parse_mask("00000000").unwrap(), [0_u32; 0]);
        for cpus in [vec![], vec![0, 1, 2, 3], vec![0, 31, 33]] {
            assert_eq!(parse_mask(&format_mask(&cpus)).unwrap(), cpus);
        }
        for text in ["", "g", "100000000", "1,,2", "+1"] {
            assert!(parse_mask(text).is_err(), "{text}");
        }
    }
}
