//! Parses tables of counts per CPU: /proc/interrupts and /proc/softirqs (proc(5), `show_interrupts` in the kernel).
//!
//! ```text
//!              CPU0       CPU1
//!    36:          0      69142  PCI-MSIX-0000:00:02.0   1-edge      eth0-rx-0      a number: the name is the handler's
//!   LOC:     120406     124940   Local timer interrupts                            letters: they are the name
//!   ERR:          0                                                                one count for the whole host: skipped
//! ```

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The text before the colon: a number or letters.
    pub(crate) label: String,
    /// The names of the handlers, or the label if there are none.
    pub(crate) name: String,
    /// One count per requested CPU, in the order of the request.
    pub(crate) counts: Vec<u64>,
}

impl Line {
    /// The number of the interrupt; `None` if the label has letters.
    pub(crate) fn number(&self) -> Option<u32> {
        self.label.parse().ok()
    }
}

/// The lines of a table, with the counts of `cpus`.
///
/// # Errors
/// The fault in the text.
pub(crate) fn parse(text: &str, cpus: &[u32]) -> Result<Vec<Line>, String> {
    let mut lines = text.lines();
    let header = lines.next().ok_or("empty")?;
    let columns = header
        .split_whitespace()
        .map(|column| column.strip_prefix("CPU").and_then(|number| number.parse().ok()))
        .collect::<Option<Vec<u32>>>()
        .filter(|columns| !columns.is_empty())
        .ok_or_else(|| format!("the first line names no CPUs: {header:?}"))?;
    let wanted = cpus
        .iter()
        .map(|cpu| columns.iter().position(|column| column == cpu).ok_or_else(|| format!("has no column for CPU {cpu}")))
        .collect::<Result<Vec<usize>, String>>()?;
    let mut parsed = Vec::new();
    for line in lines.filter(|line| !line.trim().is_empty()) {
        parsed.extend(parse_line(line, columns.len(), &wanted)?);
    }
    Ok(parsed)
}

/// `None` for a line that does not count per CPU.
fn parse_line(line: &str, columns: usize, wanted: &[usize]) -> Result<Option<Line>, String> {
    let wrong = || format!("cannot parse the line {line:?}");
    let (label, mut rest) = line.split_once(':').ok_or_else(wrong)?;
    let label = label.trim();
    let numbered = label.parse::<u32>().is_ok();
    let mut counts = Vec::with_capacity(columns);
    for _ in 0..columns {
        rest = rest.trim_start();
        if rest.is_empty() && !numbered {
            return Ok(None);
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        counts.push(rest[..end].parse::<u64>().map_err(|_| wrong())?);
        rest = &rest[end..];
    }
    let handlers = if numbered { handlers(rest) } else { None };
    let name = match handlers {
        Some(handlers) => handlers.to_owned(),
        None if numbered => format!("IRQ {label}"),
        None => label.to_owned(),
    };
    Ok(Some(Line { label: label.to_owned(), name, counts: wanted.iter().map(|&column| counts[column]).collect() }))
}

/// The handlers' names at the end of a line. The chip, its number for the interrupt and the trigger stand before them,
/// padded with blanks; the kernel puts two blanks before the names, so a line that ends in blanks has none.
fn handlers(text: &str) -> Option<&str> {
    let (_, last) = text.rsplit_once("  ")?;
    // The trigger is padded to eight characters; a bare number is the chip's.
    let of_the_chip = last.is_empty() || last.ends_with(' ') || last.bytes().all(|byte| byte.is_ascii_digit());
    (!of_the_chip).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "           CPU0       CPU2       
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 36:          0      69142 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 37:          3          4 PCI-MSIX-0000:00:02.0   2-edge      
 38:          3          4  IO-APIC   9-fasteoi 
 39:          3          4   GICv2    41
 40:          3          4  PCI-MSI 5-edge      0000:00:1f.3
 16:          0          7  IR-IO-APIC   16-fasteoi   i801_smbus, snd_hda_intel:card0
 27:        100        200     GICv3  27 Level     arch_timer
LOC:     120406     124940   Local timer interrupts
ERR:          0
MIS:          0
";

    fn line(label: &str, name: &str, counts: &[u64]) -> Line {
        Line { label: label.to_owned(), name: name.to_owned(), counts: counts.to_vec() }
    }

    #[test]
    fn names_every_line_and_picks_the_requested_counts() {
        assert_eq!(
            parse(TABLE, &[2, 0]).unwrap(),
            [
                line("24", "ACPI:Ged", &[0, 1]),
                line("36", "virtio1-req.0", &[69142, 0]),
                line("37", "IRQ 37", &[4, 3]),
                line("38", "IRQ 38", &[4, 3]),
                line("39", "IRQ 39", &[4, 3]),
                line("40", "0000:00:1f.3", &[4, 3]),
                line("16", "i801_smbus, snd_hda_intel:card0", &[7, 0]),
                line("27", "arch_timer", &[200, 100]),
                line("LOC", "LOC", &[124_940, 120_406]),
            ]
        );
    }

    #[test]
    fn parses_softirqs() {
        let table = "                    CPU0       CPU1       \n          HI:          0          0\n      NET_RX:       1707       1936\n";
        assert_eq!(parse(table, &[1]).unwrap(), [line("HI", "HI", &[0]), line("NET_RX", "NET_RX", &[1936])]);
    }

    #[test]
    fn rejects_malformed_tables() {
        for (text, cpus) in [
            ("", &[0][..]),
            ("hello\n", &[0]),
            ("CPU0 CPU1\n LOC: 1 x\n", &[0]),
            ("CPU0 CPU1\n 24: 1\n", &[0]),
            ("CPU0 CPU1\n no colon\n", &[0]),
            ("CPU0 CPU1\n LOC: 1 2\n", &[7]),
        ] {
            assert!(parse(text, cpus).is_err(), "{text:?}");
        }
    }
}
