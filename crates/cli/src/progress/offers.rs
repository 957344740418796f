//! The lines of a load: the current rate, below the finished ones. A loop with due times does not wait for a line, so it is drawn
//! between rates.

use hairpin_lab::load::{LoadWatcher, Offer};
use hairpin_record::load::LoadRow;
use hairpin_report::live::{Going, Place};

use super::line::{Lines, origin};

/// The progress of a load; nothing without a terminal.
pub struct Offers(Option<Lines>);

impl Offers {
    pub fn new() -> Offers {
        Offers(Lines::on_terminal())
    }

    /// Removes the lines from the terminal.
    pub fn clear(&self) {
        if let Some(lines) = &self.0 {
            lines.clear();
        }
    }
}

impl LoadWatcher for Offers {
    fn begins(&mut self, offer: &Offer<'_>) {
        let Some(lines) = &mut self.0 else { return };
        let mut place = Place::of_path(offer.index, offer.of, &offer.job.spec.to_string(), origin(offer.job));
        match offer.per_s {
            Some(per_s) => place = place.at_rate(per_s, offer.repeat > 0),
            None => place.name += " as fast as it goes, to find its rates",
        }
        let share = offer.index as f64 / offer.of.max(1) as f64;
        lines.begins(place, &Going { share: Some(share), left_s: offer.left.map(|left| left.as_secs_f64()), ..Going::default() });
    }

    fn ends(&mut self, row: &LoadRow) {
        if let Some(lines) = &mut self.0 {
            lines.ends(&row.into());
        }
    }
}
