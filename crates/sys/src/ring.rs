//! Index functions of a single-producer, single-consumer ring whose other side is the kernel or another thread.
//!
//! ```text
//!              consumer index          producer index
//!                   │                       │
//!    ┌────┬────┬────▼────┬────┬────┬────┬───▼┬────┐     both run freely through u32 and wrap;
//!    │free│free│ filled  │    │    │    │free│free│     an entry's slot is its index & (size − 1);
//!    └────┴────┴─────────┴────┴────┴────┴────┴────┘     filled = producer − consumer, free = size − filled
//!
//!    Producer: room → write the slots → submit (store-release)    sees the consumer's index (load-acquire)
//!    Consumer: ready → read the slots → release (store-release)   sees the producer's index (load-acquire)
//! ```
//! Each side keeps its own index and the last value it saw of the other's, so it touches the other's cache line only once the
//! known entries are used up. An index that no correct peer could write counts as "nothing": the ring then stands still, and no
//! memory outside it is ever touched.
//!
//! Sources: the kernel's `net/xdp/xsk_queue.h`, `Documentation/networking/af_xdp.rst`.

use std::sync::atomic::{AtomicU32, Ordering, fence};

/// A 32-bit index in memory shared by both sides.
pub trait Index {
    /// Loads with acquire ordering: everything the other side wrote before storing the index is visible.
    fn acquire(&self) -> u32;
    /// Loads an index written only by this side.
    fn relaxed(&self) -> u32;
    /// Stores with release ordering: a side that acquires the index sees everything this side did before.
    fn release(&self, value: u32);
    /// Full fence: earlier stores are visible before later loads.
    fn full_fence();
}

impl Index for AtomicU32 {
    #[inline(always)]
    fn acquire(&self) -> u32 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn relaxed(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn release(&self, value: u32) {
        self.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

/// Reads the other side's flag (a ring's flags), after [`submit`](Producer::submit) or [`release`](Consumer::release).
///
/// ```text
///   this side     store the index ; fence ; load the flag   ─ set: wake the other side
///   other side    store the flag  ; fence ; load the index  ─ nothing new: sleep
/// ```
/// Without the fence the CPU may load the flag while the index is still in its store buffer; then the other side has seen no
/// entry and sleeps, while this side has seen no flag and does not wake it.
#[inline(always)]
pub fn after_submit<I: Index>(flags: &I) -> u32 {
    I::full_fence();
    flags.relaxed()
}

/// The producing side of a ring.
#[derive(Debug)]
pub struct Producer {
    size: u32,
    next: u32,
    seen: u32,
}

impl Producer {
    /// Starts from the ring's current state. `size` is a power of two.
    pub fn new(size: u32, producer: &impl Index, consumer: &impl Index) -> Producer {
        debug_assert!(size.is_power_of_two());
        Producer { size, next: producer.relaxed(), seen: consumer.acquire() }
    }

    /// Number of free entries, up to `want`. Loads the consumer's index only if the known value is not enough.
    #[inline(always)]
    pub fn room(&mut self, want: u32, consumer: &impl Index) -> u32 {
        let free = self.size.wrapping_sub(self.next.wrapping_sub(self.seen));
        if free >= want && free <= self.size {
            return want;
        }
        self.seen = consumer.acquire();
        let filled = self.next.wrapping_sub(self.seen);
        if filled > self.size { 0 } else { (self.size - filled).min(want) }
    }

    /// Slot of the next entry, which [`room`](Producer::room) has shown to be free; advances past it. The other side sees it only
    /// after [`submit`](Producer::submit).
    #[inline(always)]
    pub fn slot(&mut self) -> usize {
        let slot = self.next & (self.size - 1);
        self.next = self.next.wrapping_add(1);
        slot as usize
    }

    /// Publishes all entries whose slots were taken.
    #[inline(always)]
    pub fn submit(&self, producer: &impl Index) {
        producer.release(self.next);
    }

    /// Entries that the other side has not consumed yet, submitted or not.
    #[inline(always)]
    pub fn filled(&mut self, consumer: &impl Index) -> u32 {
        self.seen = consumer.acquire();
        self.next.wrapping_sub(self.seen).min(self.size)
    }
}

/// The consuming side of a ring.
#[derive(Debug)]
pub struct Consumer {
    size: u32,
    next: u32,
    seen: u32,
}

impl Consumer {
    /// Starts from the ring's current state. `size` is a power of two.
    pub fn new(size: u32, producer: &impl Index, consumer: &impl Index) -> Consumer {
        debug_assert!(size.is_power_of_two());
        Consumer { size, next: consumer.relaxed(), seen: producer.acquire() }
    }

    /// Number of filled entries, up to `want`. Loads the producer's index only if the known value is not enough.
    #[inline(always)]
    pub fn ready(&mut self, want: u32, producer: &impl Index) -> u32 {
        let filled = self.seen.wrapping_sub(self.next);
        if filled >= want && filled <= self.size {
            return want;
        }
        self.seen = producer.acquire();
        let filled = self.seen.wrapping_sub(self.next);
        if filled > self.size { 0 } else { filled.min(want) }
    }

    /// Known filled entries whose slots were not taken yet.
    #[inline(always)]
    pub fn waiting(&self) -> u32 {
        self.seen.wrapping_sub(self.next).min(self.size)
    }

    /// Slot of the next entry, which [`ready`](Consumer::ready) has shown to be filled; advances past it. The other side may
    /// refill it only after [`release`](Consumer::release).
    #[inline(always)]
    pub fn slot(&mut self) -> usize {
        let slot = self.next & (self.size - 1);
        self.next = self.next.wrapping_add(1);
        slot as usize
    }

    /// Returns all entries whose slots were taken to the other side.
    #[inline(always)]
    pub fn release(&self, consumer: &impl Index) {
        consumer.release(self.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Indices near the wrap, and at the beginning.
    const STARTS: [u32; 4] = [0, 1, u32::MAX - 2, u32::MAX];

    impl Index for loom::sync::atomic::AtomicU32 {
        fn acquire(&self) -> u32 {
            self.load(Ordering::Acquire)
        }

        fn relaxed(&self) -> u32 {
            self.load(Ordering::Relaxed)
        }

        fn release(&self, value: u32) {
            self.store(value, Ordering::Release);
        }

        fn full_fence() {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }

    /// An index without the fence, as a faulty program would have it.
    struct Unfenced(loom::sync::atomic::AtomicU32);

    impl Index for Unfenced {
        fn acquire(&self) -> u32 {
            self.0.acquire()
        }

        fn relaxed(&self) -> u32 {
            self.0.relaxed()
        }

        fn release(&self, value: u32) {
            self.0.release(value);
        }

        fn full_fence() {}
    }

    #[test]
    fn a_ring_takes_its_size_and_gives_it_back_in_order_across_the_wrap() {
        for start in STARTS {
            let (producer, consumer) = (AtomicU32::new(start), AtomicU32::new(start));
            let (mut fill, mut drain) = (Producer::new(4, &producer, &consumer), Consumer::new(4, &producer, &consumer));
            let mut slots = [0; 4];
            let (mut sent, mut received) = (0, 0);
            for turn in 0..20 {
                let room = fill.room(turn % 6, &consumer);
                assert!(room <= 4);
                for _ in 0..room {
                    slots[fill.slot()] = sent;
                    sent += 1;
                }
                assert_eq!(
                    drain.ready(1, &producer),
                    u32::from(sent > received && drain.seen != drain.next),
                    "not before submit"
                );
                fill.submit(&producer);
                assert_eq!(fill.filled(&consumer), sent - received);
                for _ in 0..drain.ready(3, &producer) {
                    assert_eq!(slots[drain.slot()], received);
                    received += 1;
                }
                drain.release(&consumer);
            }
            assert!(received > 20, "{received}");
        }
    }

    #[test]
    fn a_full_ring_has_no_room_and_an_empty_one_nothing_ready() {
        for start in STARTS {
            let (producer, consumer) = (AtomicU32::new(start), AtomicU32::new(start));
            let (mut fill, mut drain) = (Producer::new(2, &producer, &consumer), Consumer::new(2, &producer, &consumer));
            assert_eq!((fill.room(9, &consumer), drain.ready(9, &producer)), (2, 0));
            fill.slot();
            fill.slot();
            fill.submit(&producer);
            assert_eq!((fill.room(1, &consumer), drain.ready(9, &producer)), (0, 2));
        }
    }

    #[test]
    fn an_index_that_cannot_be_stops_the_ring() {
        for nonsense in [5_u32, 1000, u32::MAX / 2] {
            let (producer, consumer) = (AtomicU32::new(0), AtomicU32::new(0));
            let (mut fill, mut drain) = (Producer::new(4, &producer, &consumer), Consumer::new(4, &producer, &consumer));
            consumer.store(nonsense, Ordering::Relaxed);
            assert_eq!(fill.room(5, &consumer), 0, "consumed more than was filled: {nonsense}");
            producer.store(nonsense, Ordering::Relaxed);
            assert_eq!(drain.ready(5, &producer), 0, "filled more than fits: {nonsense}");
        }
    }

    /// Memory shared by both sides of a modelled ring: loom reports an access to a slot that the indices do not order.
    struct Model {
        producer: loom::sync::atomic::AtomicU32,
        consumer: loom::sync::atomic::AtomicU32,
        slots: [loom::cell::UnsafeCell<u32>; 2],
    }

    impl Model {
        fn at(start: u32) -> loom::sync::Arc<Model> {
            loom::sync::Arc::new(Model {
                producer: loom::sync::atomic::AtomicU32::new(start),
                consumer: loom::sync::atomic::AtomicU32::new(start),
                slots: [loom::cell::UnsafeCell::new(0), loom::cell::UnsafeCell::new(0)],
            })
        }

        fn put(&self, slot: usize, value: u32) {
            // SAFETY: loom checks exactly this, that nobody else is at the slot now.
            self.slots[slot].with_mut(|at| unsafe { *at = value });
        }

        fn get(&self, slot: usize) -> u32 {
            // SAFETY: as in put().
            self.slots[slot].with(|at| unsafe { *at })
        }
    }

    /// Number of looks that each side of a model takes while the other runs. A side that waited for the other would make the
    /// model endless.
    const LOOKS: u32 = 3;

    /// Our producer against the kernel's consumer as in `net/xdp/xsk_queue.h`: acquire the producer's index, read, release its
    /// own.
    #[test]
    fn kernel_reads_the_producers_entries() {
        fn kernel(model: &Model, start: u32, mut next: u32, looks: u32) -> u32 {
            for _ in 0..looks {
                if model.producer.load(Ordering::Acquire) != next {
                    assert_eq!(model.get((next & 1) as usize), next.wrapping_sub(start));
                    next = next.wrapping_add(1);
                    model.consumer.store(next, Ordering::Release);
                }
            }
            next
        }
        for start in STARTS {
            loom::model(move || {
                let model = Model::at(start);
                let other = model.clone();
                let thread = loom::thread::spawn(move || kernel(&other, start, start, LOOKS));
                let mut ours = Producer::new(2, &model.producer, &model.consumer);
                let mut sent = 0;
                for _ in 0..LOOKS {
                    for _ in 0..ours.room(2, &model.consumer) {
                        model.put(ours.slot(), sent);
                        sent += 1;
                    }
                    ours.submit(&model.producer);
                }
                let next = thread.join().unwrap();
                assert_eq!(kernel(&model, start, next, 2), start.wrapping_add(sent), "everything arrived");
            });
        }
    }

    /// Our consumer against the kernel's producer: acquire the consumer's index, write, release its own.
    #[test]
    fn consumer_reads_the_kernels_entries() {
        for start in STARTS {
            loom::model(move || {
                let model = Model::at(start);
                let other = model.clone();
                let thread = loom::thread::spawn(move || {
                    let mut next = start;
                    for _ in 0..LOOKS {
                        if next.wrapping_sub(other.consumer.load(Ordering::Acquire)) < 2 {
                            other.put((next & 1) as usize, next.wrapping_sub(start));
                            next = next.wrapping_add(1);
                            other.producer.store(next, Ordering::Release);
                        }
                    }
                    next
                });
                let mut ours = Consumer::new(2, &model.producer, &model.consumer);
                let mut received = 0;
                let mut drain = || {
                    for _ in 0..ours.ready(2, &model.producer) {
                        assert_eq!(model.get(ours.slot()), received);
                        received += 1;
                    }
                    ours.release(&model.consumer);
                };
                drain();
                drain();
                let next = thread.join().unwrap();
                drain();
                assert_eq!(next, start.wrapping_add(received), "everything was received");
            });
        }
    }

    /// A driver that goes to sleep while an entry is submitted, as in `ndo_xsk_wakeup` and its poll loop: either it has seen the
    /// entry, or it is woken.
    fn nobody_sleeps_on_an_entry<I: Index + Send + Sync + 'static>(index: fn(u32) -> I) {
        loom::model(move || {
            let shared = loom::sync::Arc::new((index(0), index(0), index(0)));
            let other = shared.clone();
            let driver = loom::thread::spawn(move || {
                let (producer, _, flags) = &*other;
                flags.release(1);
                loom::sync::atomic::fence(Ordering::SeqCst);
                producer.acquire()
            });
            let (producer, consumer, flags) = &*shared;
            let mut ours = Producer::new(2, producer, consumer);
            assert_eq!(ours.room(1, consumer), 1);
            ours.slot();
            ours.submit(producer);
            let woken = after_submit(flags) != 0;
            let seen = driver.join().unwrap();
            assert!(seen == 1 || woken, "the driver sleeps on an entry and nobody wakes it");
        });
    }

    #[test]
    fn a_driver_that_falls_asleep_has_seen_the_entry_or_is_woken() {
        nobody_sleeps_on_an_entry(loom::sync::atomic::AtomicU32::new);
    }

    #[test]
    #[should_panic(expected = "the driver sleeps on an entry")]
    fn without_the_fence_the_model_finds_the_missed_waking() {
        nobody_sleeps_on_an_entry(|value| Unfenced(loom::sync::atomic::AtomicU32::new(value)));
    }
}
