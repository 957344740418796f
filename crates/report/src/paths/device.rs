//! The stamps of one network device: a line for each direction and layer, its clock, and the stamps seen on a link of one's own.

use hairpin_record::device::{DeviceStamps, NicClock, OwnLink};

use crate::cell::Cell;
use crate::doc::{Column, Doc, Table};
use crate::next;
use crate::options::Options;
use crate::style::Tone;

pub(super) fn doc(device: &DeviceStamps, options: &Options) -> Doc {
    let mut doc = Doc::default();
    let driver = device.driver.as_ref().map(|driver| format!(" ({driver})")).unwrap_or_default();
    doc.heading(format!("Stamps of {}{driver}", device.interface));
    let mut columns = ["way", "layer", "claimed", "seen"].map(Column::words).to_vec();
    columns.push(Column::prose("what to know"));
    let rows = device.stamps.iter().map(|stamp| {
        let (way, layer) = (stamp.direction.name(), stamp.layer.name());
        let seen = match stamp.seen {
            Some(true) => "yes".into(),
            Some(false) => "no".into(),
            None => Cell::Word("not tried".into(), Tone::Dim),
        };
        vec![way.into(), layer.into(), if stamp.claimed { "yes" } else { "no" }.into(), seen, (&stamp.why).into()]
    });
    doc.table(Table { empty: "no stamps", ..Table::new(columns, 2, rows) });
    doc.gap();
    let clock = device.clock.as_ref().map(clock);
    if let Some(text) = clock.or_else(|| device.no_clock.clone()) {
        doc.lead("clock: ", text);
    }
    match (&device.own_link, &device.no_own_link) {
        (Some(seen), _) => doc.lead("own link: ", own_link(seen)),
        (None, Some(why)) => doc.lead("own link: ", format!("nothing was seen there: {why}")),
        (None, None) => {}
    }
    next::show(
        &mut doc,
        &["hairpin ping HOST --hw-stamps".to_owned(), "(sees the stamps of the NIC that leads there)".to_owned()],
        options,
    );
    doc
}

fn clock(clock: &NicClock) -> String {
    let lacks = if clock.lacks.is_empty() { String::new() } else { format!(" (it lacks {})", clock.lacks.join("; ")) };
    let rate = match (clock.rate_ppb, clock.rate_error_ppb) {
        (Some(ppb), Some(error)) => {
            format!("; its rate is {:+.1} ppm against the program's clock, to within {:.1} ppm", ppb / 1e3, error / 1e3)
        }
        _ => String::new(),
    };
    let within = clock.width_ns as f64 / 2e3;
    format!("/dev/ptp{} is read by {}{lacks} to within {within:.3} us{rate}", clock.index, clock.method)
}

fn own_link(seen: &OwnLink) -> String {
    let link = if seen.link == "veth" { "a veth pair made for this" } else { &seen.link };
    format!(
        "over {link} the kernel stamped {} of {} packets as they were sent and {} as they came, in software",
        seen.software_out, seen.packets, seen.software_in
    )
}
