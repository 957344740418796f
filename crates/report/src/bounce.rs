//! The text of `hairpin bounce`: a heading, a line per second, and the totals at the end.

use hairpin_record::bounce::{Bounce, BounceSecond, Bounced};

use crate::doc::{Data, Doc, List, Show};
use crate::figure::{decimals, rate};
use crate::options::Options;
use crate::prose::{WIDTH, wrap};
use crate::rings;
use crate::style::Tone;

/// Column titles above the lines that follow once a second.
pub fn bounce_heading(options: &Options) -> String {
    let titles = format!("{:>7}{:>11}{:>13}{:>11}  {}", "s", "frames/s", "bytes", "Mbit/s", "not sent back");
    Tone::Heading.paint(&titles, options.colour) + "\n"
}

/// One second: frames sent back per second, their bytes, the bit rate on the wire, and frames not sent back, by cause.
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

/// Frames received, frames sent back, frames dropped with the cause, and notes on the figures.
impl Show for Bounce {
    fn doc(&self, _: &Options) -> Doc {
        let mut doc = Doc::of(&self.head, context(self));
        doc.gap();
        totals(&mut doc, self);
        let sides = [("in", Some(&self.input)), ("out", self.output.as_ref())];
        let refused = sides
            .into_iter()
            .filter_map(|(side, rings)| rings.map(|rings| (if self.output.is_some() { side } else { "" }, rings)))
            .flat_map(|(side, rings)| rings::refused(side, rings));
        let error = self.head.error.iter().map(|error| format!("it ended by itself: {error}; the figures are those until then"));
        doc.list(List::plain("Asked for, not granted", refused.collect()));
        doc.list(List::warnings("Warnings", self.warnings.iter().map(|note| note.message.clone()).collect()));
        doc.list(List::errors("Incomplete", error.collect()));
        doc.data = Some(data(self));
        doc
    }
}

fn data(bounce: &Bounce) -> Data {
    let frames = &bounce.frames;
    let sum = |causes: &mut dyn Iterator<Item = (&'static str, u64)>| causes.map(|(_, count)| count).sum::<u64>();
    let names = "started io filter duration_ns received received_bytes sent sent_bytes frames_per_s wire_bits_per_s kept lost wrong_checksum cpu_per_frame_ns";
    let row = [
        (&bounce.head.started).into(),
        (&bounce.io).into(),
        (&bounce.filter).into(),
        bounce.duration_ns.into(),
        frames.received.into(),
        frames.received_bytes.into(),
        frames.sent.into(),
        frames.sent_bytes.into(),
        bounce.frames_per_s.into(),
        bounce.wire_bits_per_s.into(),
        frames.kept.total().into(),
        sum(&mut frames.losses()).into(),
        frames.wrong_checksum.into(),
        bounce.cpu.per_transaction_ns.into(),
    ];
    Data::table(names, [row])
}

fn context(bounce: &Bounce) -> Vec<String> {
    let out = bounce.output.as_ref().map_or(String::new(), |rings| format!(", out of {}", rings::words(rings)));
    let mut parts = vec![
        bounce.host.hostname.clone(),
        format!("{} on {}{out}", bounce.io, rings::words(&bounce.input)),
        format!("frames {}", bounce.filter),
        format!("rewrite {}", bounce.rewrite),
        format!("flush {}", bounce.flush),
    ];
    parts.extend(bounce.repeats.is_none().then(|| "no limit to repeats".to_owned()));
    parts
}

fn totals(doc: &mut Doc, bounce: &Bounce) {
    let frames = &bounce.frames;
    let Bounced { received, received_bytes, sent, sent_bytes, kept, .. } = frames;
    let took = bounce.duration_ns as f64 / 1e9;
    doc.lead("in          ", format!("{received} frames, {received_bytes} bytes, in {took:.3} s"));
    let figures = format!(
        "{sent} frames, {sent_bytes} bytes: {} frames/s, {} Mbit/s on the wire with 24 bytes of preamble, FCS and gap per frame",
        rate(bounce.frames_per_s),
        decimals(bounce.wire_bits_per_s / 1e6)
    );
    doc.lead("sent back   ", figures);
    for (lead, causes) in [("kept        ", words(kept.causes(), "")), ("lost        ", words(frames.losses(), ""))] {
        doc.lead(lead, causes.as_deref().unwrap_or("none"));
    }
    if bounce.verify {
        doc.lead("verified    ", checksums(frames).as_deref().unwrap_or("every checksum was right"));
    }
    if let Some(ns) = bounce.cpu.per_transaction_ns {
        doc.lead("CPU         ", format!("{ns:.0} ns per frame received, user and kernel"));
    }
}

fn checksums(frames: &Bounced) -> Option<String> {
    words([("with a wrong checksum, sent back all the same", frames.wrong_checksum)], "")
}

/// `12 RX ring full, 3 no free chunk`; `None` if every count is 0.
pub(crate) fn words<'a>(causes: impl IntoIterator<Item = (&'a str, u64)>, before: &str) -> Option<String> {
    let parts: Vec<String> = causes.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{n} {what}")).collect();
    (!parts.is_empty()).then(|| format!("{before}{}", parts.join(", ")))
}
