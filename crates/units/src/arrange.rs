//! Sorting outside the measuring loop: the algorithm is compiled once, not once for each order.
//!
//! The standard library's sort is 5 kB of code for each comparison, and a hundred of them were half a megabyte of the command.
//! Here the order of the places is sorted, by a comparison behind a pointer, and the items are moved to their places.

use std::cmp::Ordering;

/// Stable sorting of a slice.
pub trait Arrange<T> {
    /// As [`slice::sort_by`].
    fn arrange_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// As [`slice::sort_by_key`].
    fn arrange_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.arrange_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> Arrange<T> for [T] {
    fn arrange_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut from = places(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        // Each cycle of places is walked once: the item that belongs here is swapped in, and the one that was here moves on.
        for start in 0..from.len() {
            let mut at = start;
            while from[at] != start {
                let next = from[at];
                self.swap(at, next);
                from[at] = at;
                at = next;
            }
            from[at] = at;
        }
    }
}

/// Collecting into an ordered map or set.
pub trait Gather: Iterator + Sized {
    /// As [`Iterator::collect`], item by item: the standard library's maps and sets sort what they collect.
    fn gather<C: Default + Extend<Self::Item>>(self) -> C {
        let mut all = C::default();
        all.extend(self);
        all
    }
}

impl<I: Iterator> Gather for I {}

/// The places of the items in order.
#[inline(never)]
fn places(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sorts_as_the_standard_library_does_and_keeps_the_order_of_equals() {
        let mut state = 1_u64;
        for count in (0..40).chain([255, 1000]) {
            let mut items: Vec<(u64, String)> = (0..count)
                .map(|place| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ((state >> 33) % (count / 3 + 1), place.to_string())
                })
                .collect();
            let mut by_key = items.clone();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            items.arrange_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(items, expected);
            by_key.arrange_by_key(|item| item.0);
            assert_eq!(by_key, expected);
        }
    }
}
