//! The texts of `hairpin floor`: the waterfall of one frame, a table of sizes, two designs side by side.

use std::collections::BTreeSet;

use hairpin_record::floor::{Class, Comparison, Counts, Floor, Sizes, Span, Stage, Window};
use hairpin_record::run::Origin;
use hairpin_units::{BitRate, Picos};

use crate::Options;
use crate::figure::{ratio, us_signed};
use crate::grid::{Column, Grid};
use crate::pingpong::{Line, line};
use crate::prose::{WIDTH, clean, width, wrap};

/// Round trips of one size in a published ping-pong.
const PINGPONG_ROUND_TRIPS: f64 = 100_000.0;
/// A bar says nothing in less.
const LEAST_BAR: usize = 8;

/// One floor: what was declared, the waterfall of its stages, and what follows from their sum. With `explain`, a sentence for each stage.
pub fn floor(floor: &Floor, explain: bool, options: &Options) -> String {
    let mut lines = heading(floor);
    lines.push(String::new());
    lines.extend(waterfall(floor, options));
    lines.push(String::new());
    lines.extend(sums(floor));
    if explain {
        lines.push(String::new());
        lines.extend(floor.stages.iter().flat_map(sentence));
    }
    lines.extend(notes(&floor.notes));
    lines.join("\n") + "\n"
}

/// An RTT p50 beside its floor: RTT, floor, gap.
pub(crate) fn gap(p50: Option<u64>, origin: Origin, floor: &Floor) -> String {
    let link = [Some(BitRate(floor.rate_bit_per_s).to_string()), floor.cable.as_deref().map(clean)];
    let declared = format!("{}, {}", clean(&floor.nic), link.into_iter().flatten().collect::<Vec<_>>().join(", "));
    let Some(p50) = p50 else {
        return format!("floor {} ({declared}); there is no RTT p50 to hold against it", scaled(floor.rtt));
    };
    // A record from elsewhere may claim any time.
    let rtt = Span::point(Picos::from_ns(p50.min(Picos::MAX.0 as u64 / 1000) as i64));
    let beyond = rtt.less(floor.rtt);
    // An emulated link is the declared one: below it lies what was taken off for the program's own part and did not take so long.
    let words = if beyond.high_ns < Picos::ZERO && origin != Origin::Emulated {
        "the RTT is below the floor: this link is not the declared one".into()
    } else {
        let times = floor.rtt.ns.map_or(String::new(), |ns| format!(", {} times the floor", ratio(p50 as f64 / ns.as_ns_f64())));
        format!("gap {}{times}", scaled(beyond))
    };
    format!("RTT p50 {}, floor {} ({declared}), {words}", scaled(rtt), scaled(floor.rtt))
}

/// A time with its unit, as sentences have it: exact in ns below 1 us, in us above.
fn scaled(span: Span) -> String {
    if span.low_ns.0.abs().max(span.high_ns.0.abs()) < 1_000_000 {
        return format!("{} ns", figure(span));
    }
    match span.ns {
        Some(ns) => format!("{} us", us_signed(ns.as_ns_f64())),
        None => format!("{}..{} us", us_signed(span.low_ns.as_ns_f64()), us_signed(span.high_ns.as_ns_f64())),
    }
}

/// What was declared.
fn heading(floor: &Floor) -> Vec<String> {
    let mut lines = wrap(&format!("{}: ", clean(&floor.nic)), &floor.about, WIDTH);
    let cable = floor.cable.as_deref().map_or("no cable known".into(), clean);
    let size = match floor.counts {
        Counts::Frame => format!("a frame of {} bytes without FCS, {} on the wire", floor.frame_bytes, floor.wire_bytes),
        Counts::Payload => {
            format!("{} bytes of payload, a frame of {}, {} on the wire", floor.size_bytes, floor.frame_bytes, floor.wire_bytes)
        }
    };
    lines.extend(wrap("", &format!("{}, {cable}, {size}", BitRate(floor.rate_bit_per_s)), WIDTH));
    lines
}

/// A line for each stage: name, time, share, a bar from where it begins to where it ends, and how the figure came to be.
fn waterfall(floor: &Floor, options: &Options) -> Vec<String> {
    let total = floor.total_high_ns;
    let mut cells: Vec<[String; 4]> = floor
        .stages
        .iter()
        .map(|stage| {
            let share =
                floor.total_ns.zip(stage.time.ns).map(|(total, ns)| format!("{:.1} %", 100.0 * ns.0 as f64 / total.0 as f64));
            [clean(&stage.name), figure(stage.time), share.unwrap_or_default(), stage.class.to_string()]
        })
        .collect();
    let whole = floor.total_ns.map_or(String::new(), |_| "100 %".into());
    cells.push(["one way".into(), figure(floor.one_way()), whole, class(floor).into()]);
    let widest = |i: usize, title: &str| cells.iter().map(|row| width(&row[i])).max().unwrap_or(0).max(width(title));
    let taken = widest(0, "stage") + widest(1, "ns") + widest(2, "share") + widest(3, "class") + 4 * 2;
    let room = WIDTH.saturating_sub(taken).max(LEAST_BAR);
    let mut begins = Span::point(Picos::ZERO);
    let mut bars: Vec<String> = floor
        .stages
        .iter()
        .map(|stage| {
            let ends = begins + stage.time;
            let text = bar(begins, ends, total, room);
            begins = ends;
            text
        })
        .collect();
    bars.push(bar(Span::point(Picos::ZERO), floor.one_way(), total, room));
    let rows = cells.into_iter().zip(bars).map(|([name, ns, share, class], bar)| vec![name, ns, share, bar, class]).collect();
    let columns = vec![
        Column::words("stage"),
        Column::figures("ns"),
        Column::figures("share"),
        Column::words(&format!("{:room$}", "")),
        Column::words("class"),
    ];
    Grid { columns, labels: 1, rows }.lines(options.columns(), options.colour)
}

/// The weakest of the stages' classes: a sum is as good as its worst part, and arithmetic in any case.
fn class(floor: &Floor) -> &'static str {
    let assumed = floor.stages.iter().any(|stage| stage.class == Class::Assumed);
    if assumed {
        "assumed"
    } else if floor.stages.len() == 1 && floor.stages[0].class == Class::Published {
        "published"
    } else {
        "derived"
    }
}

/// `#` from where a stage begins to where it surely is over, `-` on to where it may be, `<` where it takes time back.
fn bar(begins: Span, ends: Span, total: Picos, room: usize) -> String {
    let column = |at: Picos| ((at.0.max(0) as f64 / total.0.max(1) as f64 * room as f64).round() as usize).min(room);
    let (from, sure, last) = (column(begins.low_ns), column(ends.low_ns), column(ends.high_ns));
    if ends.high_ns < begins.low_ns {
        return format!("{}{}", " ".repeat(last), "<".repeat((from - last).max(1)));
    }
    let solid = sure.saturating_sub(from);
    let open = last.saturating_sub(sure.max(from));
    // Too short to be seen, but there.
    let (indent, solid) = if solid + open == 0 && ends != begins { (from.min(room - 1), 1) } else { (from, solid) };
    format!("{}{}{}", " ".repeat(indent), "#".repeat(solid), "-".repeat(open))
}

/// What follows from the sum.
fn sums(floor: &Floor) -> Vec<String> {
    let [low, high] = floor.transactions_per_s.map(|rate| format!("{rate:.0}"));
    let rate = if low == high { low } else { format!("{low}..{high}") };
    let lines = [
        ("RTT", format!("{} ns: there and back, without the server's turn-around", figure(floor.rtt))),
        ("transactions", format!("{rate} per second, one after the other")),
        ("line rate", format!("{} frames per second, one behind the other", floor.line_rate_frames_per_s.floor())),
    ];
    let window = floor.window.as_ref().map(|found| ("TCP window", window(floor, found)));
    lines.into_iter().chain(window).flat_map(|(name, text)| wrap(&format!("{name:14}"), &text, WIDTH)).collect()
}

/// The least that fills the link.
fn window(floor: &Floor, window: &Window) -> String {
    let bytes = match (window.low_bytes, window.high_bytes) {
        (low, high) if low == high => low.to_string(),
        (low, high) => format!("{low}..{high}"),
    };
    let rtt = if window.declared { "the declared RTT of" } else { "the RTT above," };
    let rate = BitRate(floor.rate_bit_per_s);
    format!(
        "{bytes} bytes at least: {rate} times {rtt} {} ns ({}); a smaller one leaves the link idle",
        figure(window.rtt),
        window.class
    )
}

/// `pcie write, 484 ns, published: what happens. Source: who says so.`
fn sentence(stage: &Stage) -> Vec<String> {
    let what = if stage.what.is_empty() { String::new() } else { format!("{} ", stage.what) };
    let text = format!("{}, {} ns, {}: {what}Source: {}.", stage.name, figure(stage.time), stage.class, stage.source);
    wrap("- ", &text, WIDTH)
}

fn notes(notes: &[String]) -> Vec<String> {
    let lines: Vec<String> = notes.iter().flat_map(|note| wrap("note: ", note, WIDTH)).collect();
    if lines.is_empty() { lines } else { [vec![String::new()], lines].concat() }
}

/// A time in decimal ns without its unit, or both ends.
fn figure(span: Span) -> String {
    match span.ns {
        Some(ns) => decimal(ns),
        None => format!("{}..{}", decimal(span.low_ns), decimal(span.high_ns)),
    }
}

/// Exact below 10 us, to a tenth of a ns above.
fn decimal(time: Picos) -> String {
    let shown = if time.0.abs() < 10_000_000 { time } else { Picos((time.as_ns_f64() * 10.0).round() as i64 * 100) };
    shown.to_string().trim_end_matches(" ns").into()
}

/// With its sign.
fn signed(span: Span) -> String {
    let one = |time: Picos| if time > Picos::ZERO { format!("+{}", decimal(time)) } else { decimal(time) };
    match span.ns {
        Some(ns) => one(ns),
        None => format!("{}..{}", one(span.low_ns), one(span.high_ns)),
    }
}

/// A line for each size. All floors are of one design over one link.
pub fn floor_sizes(sizes: &Sizes, options: &Options) -> String {
    let Some(first) = sizes.floors.first() else { return "(no sizes)\n".into() };
    let mut lines = wrap(&format!("{}: ", clean(&first.nic)), &first.about, WIDTH);
    let cable = first.cable.as_deref().map_or("no cable known".into(), clean);
    let counts = match first.counts {
        Counts::Frame => "frame without FCS",
        Counts::Payload => "payload",
    };
    lines.extend(wrap("", &format!("{}, {cable}; sizes are bytes of {counts}", BitRate(first.rate_bit_per_s)), WIDTH));
    lines.push(String::new());
    let titles = ["wire", "one way ns", "RTT ns", "trans/s", "frames/s"];
    let columns: Vec<Column> = std::iter::once(Column::figures(first.counts.to_string()))
        .chain(titles.map(Column::figures))
        .chain([Column::words("class")])
        .collect();
    let rows = sizes.floors.iter().map(|floor| {
        let [low, high] = floor.transactions_per_s.map(|rate| format!("{rate:.0}"));
        vec![
            floor.size_bytes.to_string(),
            floor.wire_bytes.to_string(),
            figure(floor.one_way()),
            figure(floor.rtt),
            if low == high { low } else { format!("{low}..{high}") },
            floor.line_rate_frames_per_s.floor().to_string(),
            class(floor).into(),
        ]
    });
    lines.extend(Grid { columns, labels: 1, rows: rows.collect() }.lines(options.columns(), options.colour));
    let mut seen = BTreeSet::new();
    let told: Vec<String> =
        sizes.floors.iter().flat_map(|floor| &floor.notes).filter(|note| seen.insert(*note)).cloned().collect();
    lines.extend(notes(&told));
    lines.join("\n") + "\n"
}

/// Two designs, their stages side by side, and what makes the difference.
pub fn floor_comparison(comparison: &Comparison, options: &Options) -> String {
    let (first, second) = (&comparison.first, &comparison.second);
    let mut lines = heading(first);
    lines.extend(heading(second));
    lines.push(String::new());
    let columns = vec![
        Column::words("stage"),
        Column::figures(format!("{} ns", clean(&first.nic))),
        Column::figures(format!("{} ns", clean(&second.nic))),
        Column::figures("difference"),
    ];
    let cell = |span: Option<Span>| span.map(figure).unwrap_or_default();
    let mut rows: Vec<Vec<String>> = comparison
        .differences
        .iter()
        .map(|row| vec![clean(&row.stage), cell(row.first), cell(row.second), signed(row.difference)])
        .collect();
    for (name, times) in
        [("one way", |floor: &Floor| floor.one_way()), ("RTT", |floor: &Floor| floor.rtt)] as [(&str, fn(&Floor) -> Span); 2]
    {
        let (one, two) = (times(first), times(second));
        rows.push(vec![name.into(), figure(one), figure(two), signed(two.less(one))]);
    }
    lines.extend(Grid { columns, labels: 1, rows }.lines(options.columns(), options.colour));
    lines.push(String::new());
    lines.extend(wrap("", &explained(comparison), WIDTH));
    let mut told = first.notes.clone();
    told.extend(second.notes.iter().filter(|note| !first.notes.contains(note)).cloned());
    lines.extend(notes(&told));
    lines.join("\n") + "\n"
}

/// The difference in a sentence, the largest part first.
fn explained(comparison: &Comparison) -> String {
    let (first, second) = (clean(&comparison.first.nic), clean(&comparison.second.nic));
    let mut parts: Vec<_> = comparison.differences.iter().filter(|row| row.difference != Span::point(Picos::ZERO)).collect();
    parts.sort_by_key(|row| std::cmp::Reverse(row.difference.high_ns.0.abs().max(row.difference.low_ns.0.abs())));
    if parts.is_empty() {
        return format!("{second} takes as long as {first} one way, stage by stage.");
    }
    let words: Vec<String> = parts
        .iter()
        .map(|row| {
            let where_ = match (row.first, row.second) {
                (None, _) => format!(" (only {second})"),
                (_, None) => format!(" (only {first})"),
                _ => String::new(),
            };
            format!("{} {}{where_}", signed(row.difference), clean(&row.stage))
        })
        .collect();
    let whole = format!("{} ns", signed(comparison.difference));
    let share = comparison
        .first
        .total_ns
        .zip(comparison.second.total_ns)
        .map_or(String::new(), |(one, two)| format!(", {} times as long", ratio(two.0 as f64 / one.0 as f64)));
    format!("{second} against {first}, one way: {whole}{share}: {}.", words.join(", "))
}

/// A line per size as `snf_pingpong` prints it: half round trips of the model. Minimum and maximum stand only where a table publishes them.
pub fn floor_pingpong(sizes: &Sizes) -> String {
    let rows = sizes.floors.iter().map(|floor| {
        let mean_ns = floor.total_ns.map(Picos::as_ns_f64);
        let elapsed_us = floor
            .published
            .map(|row| row.elapsed_us)
            .or(mean_ns.map(|ns| (ns * 2.0 * PINGPONG_ROUND_TRIPS / 1e3).round() as u64));
        line(&Line {
            elapsed_us,
            mean_ns,
            min_ns: floor.published.map(|row| row.min_ns.as_ns_f64()),
            max_ns: floor.published.map(|row| row.max_ns.as_ns_f64()),
            bytes: floor.size_bytes,
        })
    });
    rows.collect()
}
