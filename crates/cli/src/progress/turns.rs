//! The lines of an experiment: each arm with the figures of its last block, and the progress of the whole.
//!
//! ```text
//! [1/2] udp:block   RTT p50 46.1 us   p99 133 us   21.2 k/s
//! [2/2] udp:spin   RTT p50 3.66 us   p99 4.81 us   269 k/s
//! round 17  ━━━━━━━╸────────────   18 s left
//! ```

use std::io;
use std::time::{Duration, Instant};

use hairpin_lab::experiment::BlockWatcher;
use hairpin_record::experiment::ArmBlock;
use hairpin_report::live::{self, Figures, Going, Place};
use indicatif::{ProgressBar, ProgressStyle};

use super::line::DONE;
use super::resize::Drawn;
use crate::exit::is_quiet;
use crate::terminal::{can_be_drawn_on, width};

/// Four times a second, between two blocks.
const EVERY: Duration = Duration::from_millis(250);

/// The progress of one experiment, or of several that are parts of a whole.
pub struct Turns {
    line: Option<ProgressBar>,
    /// The duration of the whole, if it has several parts.
    whole: Option<Duration>,
    began: Option<Instant>,
    lasts: Duration,
    drawn_at: Option<Instant>,
    drawn: Drawn,
    arms: Vec<(Place, Option<Figures>)>,
    blocks: usize,
}

impl Turns {
    /// `whole` is the duration of all parts of the experiment, if there are several.
    pub fn new(whole: Option<Duration>) -> Turns {
        let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        let looks = can_be_drawn_on(&io::stderr()) && !is_quiet();
        let line = looks.then(|| ProgressBar::new_spinner().with_style(style));
        Turns {
            line,
            whole,
            began: None,
            lasts: Duration::ZERO,
            drawn_at: None,
            drawn: Drawn::default(),
            arms: Vec::new(),
            blocks: 0,
        }
    }

    /// Removes the lines from the terminal.
    pub fn clear(&self) {
        if let Some(line) = &self.line {
            self.drawn.settle();
            line.finish_and_clear();
        }
    }

    fn draw(&mut self, arm: Option<usize>) {
        let (Some(line), Some(began)) = (&self.line, self.began) else { return };
        let text = text(&self.arms, arm, self.blocks, began.elapsed(), self.lasts, width(&io::stderr()));
        self.drawn.settle();
        self.drawn.drew(text.lines().count());
        line.set_message(text);
        self.drawn_at = Some(Instant::now());
    }
}

impl BlockWatcher for Turns {
    fn begins(&mut self, arms: &[String], lasts: Duration) {
        let place = |(index, name): (usize, &String)| (Place { index, of: arms.len(), name: short(name) }, None);
        (self.arms, self.blocks) = (arms.iter().enumerate().map(place).collect(), 0);
        if self.whole.is_none() || self.began.is_none() {
            (self.began, self.lasts) = (Some(Instant::now()), self.whole.unwrap_or(lasts));
        }
        self.draw(None);
    }

    fn block(&mut self, arm: usize, block: &ArmBlock) {
        self.blocks += 1;
        if let Some((_, figures)) = self.arms.get_mut(arm) {
            *figures = Some(block.into());
        }
        if self.drawn_at.is_none_or(|drawn| drawn.elapsed() >= EVERY) {
            self.draw(Some(arm));
        }
    }
}

/// An arm as it was given, its path without the parts that follow from the rest.
fn short(given: &str) -> String {
    let path = |word: &str| if word.starts_with('-') { word.to_owned() } else { hairpin_report::short_path(word) };
    given.split(' ').map(path).collect::<Vec<_>>().join(" ")
}

/// With few arms a line for each, and the whole on the last line; else the whole alone, with the arm of the last block.
fn text(
    arms: &[(Place, Option<Figures>)],
    last: Option<usize>,
    blocks: usize,
    elapsed: Duration,
    lasts: Duration,
    columns: usize,
) -> String {
    let share = elapsed.as_secs_f64() / lasts.as_secs_f64().max(f64::MIN_POSITIVE);
    let whole = Going { share: Some(share), left_s: Some(lasts.saturating_sub(elapsed).as_secs_f64()), ..Going::default() };
    if arms.len() > DONE {
        let Some((place, figures)) = last.and_then(|last| arms.get(last)) else {
            let all = Place { name: format!("{} to measure in turn", arms.len()), ..Place::default() };
            return live::going(&all, &whole, columns);
        };
        return live::going(place, &Going { so_far: *figures, ..whole }, columns);
    }
    let done = arms.iter().filter_map(|(place, figures)| Some(live::done(place, figures.as_ref()?, columns)));
    let round = Place { name: format!("round {}", blocks / arms.len().max(1) + 1), ..Place::default() };
    done.chain([live::going(&round, &whole, columns)]).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_called_as_it_is_typed() {
        assert_eq!(short("udp:block/udp:block --cpu 0,1"), "udp:block --cpu 0,1");
        assert_eq!(short("--knob a=/b/c udp:spin/tcp:spin"), "--knob a=/b/c udp:spin/tcp:spin");
    }

    #[test]
    fn few_arms_have_a_line_each_and_many_show_the_last_alone() {
        let block = |p50_ns| ArmBlock { transactions: 500, duration_ns: 50_000_000, p50_ns: Some(p50_ns), ..ArmBlock::default() };
        let arms = |count: usize, measured: usize| -> Vec<(Place, Option<Figures>)> {
            let figures = |index| (index < measured).then(|| Figures::from(&block(1e3 * (index + 1) as f64)));
            (0..count).map(|index| (Place { index, of: count, name: format!("arm {index}") }, figures(index))).collect()
        };
        let seconds = Duration::from_secs;
        let at = |arms: &[(Place, Option<Figures>)], last| text(arms, last, 5, seconds(10), seconds(30), 60);
        assert_eq!(at(&arms(2, 0), None), "round 3  ━━━━━━╸─────────────   20 s left");
        assert_eq!(
            at(&arms(2, 2), Some(0)),
            "[1/2] arm 0   RTT p50 1.00 us   10.0 k/s\n[2/2] arm 1   RTT p50 2.00 us   10.0 k/s\nround 3  ━━━━━━╸─────────────   20 s left"
        );
        assert_eq!(at(&arms(9, 9), None), "9 to measure in turn  ━━━━━━╸─────────────   20 s left");
        assert_eq!(at(&arms(9, 9), Some(3)), "[4/9] arm 3  ━━────   20 s left   RTT p50 4.00 us   10.0 k/s");
        assert!(text(&arms(2, 2), Some(1), 5, seconds(40), Duration::ZERO, 60).ends_with("0 s left"), "over time");
    }
}
