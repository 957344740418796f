//! The end of a block: the reader takes a CPU's events while programs on that CPU write on.

use hairpin_sys::bpf::Variables;
use hairpin_sys::clock::monotonic_ns;

/// `EVENTS` of events.bpf.c.
pub(super) const EVENTS: usize = 32_768;
/// Words before the first event of a CPU.
pub(super) const FIRST: usize = 16;
/// Words of an event.
pub(super) const EVENT: usize = 4;
/// Words of a CPU.
pub(super) const CPU: usize = FIRST + EVENTS * EVENT;
/// Looks at a place before it is given up: a program writes it far sooner, unless its CPU is taken away meanwhile.
const LOOKS: usize = 1_000;

/// Ends the block of the CPU whose words begin at `cpu`: calls `read` as [`until_still`] does. Returns the number of all events,
/// and when the next block began.
pub(super) fn end_block(variables: &Variables, cpu: usize, since: u64, read: impl FnMut(usize)) -> (u64, u64) {
    let mut ended = 0;
    let take = || {
        ended = monotonic_ns();
        variables.swap(cpu, 0)
    };
    let (still, count) = until_still(|at| variables.get(cpu + at), since, take, read);
    // Events that came last may have a time of the next block, in which their places are not written yet.
    (still..kept(count)).for_each(|at| variables.set(cpu + FIRST + at * EVENT, 0));
    (count, ended)
}

/// The events that had room, of `count`.
fn kept(count: u64) -> usize {
    (count as usize).min(EVENTS)
}

/// Calls `read` with the number of events kept for a CPU, again if one came meanwhile: a missed switch would leave the wrong
/// thread on the CPU. A program takes a place before it writes it, so the newest is waited for. `word` reads a word of that
/// CPU's, and `take` ends the block: it returns the number of its events, and the next one gets the first place. Returns the
/// events that were read before that, and the number of all, including those without room.
fn until_still(word: impl Fn(usize) -> u64, since: u64, take: impl FnOnce() -> u64, mut read: impl FnMut(usize)) -> (usize, u64) {
    let mut looks = 0;
    let mut written = |count: u64| {
        let kept = kept(count);
        while kept > 0 && looks < LOOKS && word(FIRST + (kept - 1) * EVENT) < since {
            looks += 1;
            std::hint::spin_loop();
        }
        read(kept);
    };
    let mut count = word(0);
    loop {
        written(count);
        let now = word(0);
        if now == count {
            break;
        }
        count = now;
    }
    let all = take();
    if all != count {
        written(all);
    }
    (kept(count), all)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_place_that_is_taken_is_read_once_it_is_written() {
        let looks = Cell::new(0);
        // Two events; in the second one's place lies one of an earlier block until the third look.
        let word = |written: usize, at: usize| match at {
            0 => 2,
            FIRST => 1_050,
            _ => {
                looks.set(looks.get() + 1);
                if looks.get() < written { 900 } else { 1_100 }
            }
        };
        let mut read = Vec::new();
        let ended = until_still(|at| word(3, at), 1_000, || 2, |kept| read.push((kept, looks.get())));
        assert_eq!((ended, read), ((2, 2), vec![(2, 3)]));
        // It is never written.
        assert_eq!(until_still(|at| word(usize::MAX, at), 1_000, || 2, |_| {}), (2, 2));
    }

    #[test]
    fn events_that_come_while_a_block_ends_are_of_that_block() {
        let mut read = Vec::new();
        let word = |at: usize| if at == 0 { 2 } else { 1_050 };
        assert_eq!(until_still(word, 1_000, || 5, |kept| read.push(kept)), (2, 5));
        assert_eq!(read, [2, 5]);
        // The last three had no room.
        let full = EVENTS as u64;
        let word = |at: usize| if at == 0 { full } else { 1_050 };
        assert_eq!(until_still(word, 1_000, || full + 3, |_| {}), (EVENTS, full + 3));
    }
}
