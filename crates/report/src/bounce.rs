//! The text of `hairpin bounce`: a heading, a line per second, and the whole at the end.

use hairpin_record::bounce::{Bounce, BounceSecond, Bounced};

use crate::Options;
use crate::figure::{decimals, rate};
use crate::notes::{Kind, Section, lines};
use crate::prose::{WIDTH, wrap};
use crate::rings;
use crate::style::{HEADING, paint};

/// Titles over the lines that follow once a second.
pub fn bounce_heading(options: &Options) -> String {
    paint(&format!("{:>7}{:>11}{:>13}{:>11}  {}", "s", "frames/s", "bytes", "Mbit/s", "not sent back"), HEADING, options.colour)
        + "\n"
}

/// One second: frames sent back per second, their bytes, bit rate on the wire, and every frame that was not sent back with its cause.
pub fn bounce_line(second: &BounceSecond) -> String {
    let frames = &second.frames;
    let causes = [words(frames.kept.causes(), ""), words(frames.losses(), "lost: "), checksums(frames)];
    let causes: Vec<String> = causes.into_iter().flatten().collect();
    let figures = format!(
        "{:>7.0}{:>11}{:>13}{:>11}  ",
        second.at_ns as f64 / 1e9,
        rate(second.frames_per_s),
        frames.sent_bytes,
        decimals(second.wire_bits_per_s / 1e6)
    );
    let lines = wrap(&figures, &causes.join("; "), WIDTH);
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// The whole: what came, what was sent back, what was not and why, and what to know about the figures.
pub fn bounce(bounce: &Bounce, options: &Options) -> String {
    let mut text = wrap("", &context(bounce), WIDTH);
    text.push(String::new());
    text.extend(totals(bounce));
    let sides = [("in", Some(&bounce.input)), ("out", bounce.output.as_ref())];
    let refused: Vec<String> = sides
        .into_iter()
        .filter_map(|(side, rings)| rings.map(|rings| (if bounce.output.is_some() { side } else { "" }, rings)))
        .flat_map(|(side, rings)| rings::refused(side, rings))
        .collect();
    let warnings = bounce.warnings.iter().map(|note| note.message.clone()).collect();
    let error =
        bounce.head.error.iter().map(|error| format!("it ended by itself: {error}; the figures are what was counted until then"));
    let sections = [
        Section { heading: "Asked for, not granted", kind: Kind::Plain, items: refused },
        Section { heading: "Warnings", kind: Kind::Warning, items: warnings },
        Section { heading: "Incomplete", kind: Kind::Error, items: error.collect() },
    ];
    let sections: Vec<Section> = sections.into_iter().filter(|section| !section.items.is_empty()).collect();
    text.extend(lines(&sections, options.colour));
    text.join("\n") + "\n"
}

fn context(bounce: &Bounce) -> String {
    let mut parts = vec![bounce.head.tool.clone(), bounce.head.started.clone(), bounce.host.hostname.clone()];
    let out = bounce.output.as_ref().map_or(String::new(), |rings| format!(", out of {}", rings::words(rings)));
    parts.push(format!("{} on {}{out}", bounce.io, rings::words(&bounce.input)));
    parts.push(format!("frames {}", bounce.filter));
    parts.push(format!("rewrite {}", bounce.rewrite));
    parts.push(format!("flush {}", bounce.flush));
    parts.extend(bounce.repeats.is_none().then(|| "no limit to repeats".to_owned()));
    parts.join(", ")
}

fn totals(bounce: &Bounce) -> Vec<String> {
    let frames = &bounce.frames;
    let Bounced { received, received_bytes, sent, sent_bytes, kept, .. } = frames;
    let mut text = wrap(
        "in          ",
        &format!("{received} frames, {received_bytes} bytes, in {:.3} s", bounce.duration_ns as f64 / 1e9),
        WIDTH,
    );
    let figures = format!(
        "{sent} frames, {sent_bytes} bytes: {} frames/s, {} Mbit/s on the wire with 24 bytes of preamble, FCS and gap per frame",
        rate(bounce.frames_per_s),
        decimals(bounce.wire_bits_per_s / 1e6)
    );
    text.extend(wrap("sent back   ", &figures, WIDTH));
    for (first, causes) in [("kept        ", words(kept.causes(), "")), ("lost        ", words(frames.losses(), ""))] {
        text.extend(wrap(first, causes.as_deref().unwrap_or("none"), WIDTH));
    }
    if bounce.verify {
        text.extend(wrap("verified    ", checksums(frames).as_deref().unwrap_or("every checksum was right"), WIDTH));
    }
    if let Some(ns) = bounce.cpu.per_transaction_ns {
        text.extend(wrap("CPU         ", &format!("{ns:.0} ns per frame received, user and kernel"), WIDTH));
    }
    text
}

fn checksums(frames: &Bounced) -> Option<String> {
    words([("with a wrong checksum, sent back all the same", frames.wrong_checksum)], "")
}

/// `12 RX ring full, 3 no free chunk`; `None` if nothing was counted.
pub(crate) fn words<'a>(causes: impl IntoIterator<Item = (&'a str, u64)>, before: &str) -> Option<String> {
    let parts: Vec<String> = causes.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{n} {what}")).collect();
    (!parts.is_empty()).then(|| format!("{before}{}", parts.join(", ")))
}
