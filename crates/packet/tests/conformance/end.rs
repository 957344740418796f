//! One end of a pair, as the tests use it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use hairpin_packet::io::{Arrival, Arrived, Counters, Departure, Kick, Kicked, PacketIo};
use hairpin_sys::umem::Frame;

use super::Outcome;
use super::pairs::ETHERTYPE;

/// Far longer than a frame takes on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a test waits to see that nothing comes.
const SILENCE: Duration = Duration::from_millis(30);

/// One end of a pair.
pub struct End {
    pub io: Box<dyn PacketIo>,
    batch: Vec<Frame>,
    arrivals: Vec<Arrival>,
    /// Chunks that the device has to receive into when nothing is on its way.
    at_rest: usize,
}

/// A received frame: its bytes, and its stamp.
#[derive(Debug)]
pub struct Got {
    pub bytes: Vec<u8>,
    pub time: Option<Arrived>,
}

impl End {
    pub fn new(mut io: Box<dyn PacketIo>) -> End {
        // The first look gives the device chunks to receive into.
        let mut arrivals = Vec::new();
        io.rx_batch(&mut arrivals, 0);
        let at_rest = io.pool().lent();
        End { io, batch: Vec::new(), arrivals, at_rest }
    }

    /// The frame with this number: addresses, the tests' ethertype, number, length, and bytes that depend on both.
    pub fn frame(number: u32, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len).map(|at| (number as usize).wrapping_mul(31).wrapping_add(at) as u8).collect();
        bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        bytes[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
        bytes[14..18].copy_from_slice(&number.to_be_bytes());
        bytes[18..20].copy_from_slice(&(len as u16).to_be_bytes());
        bytes
    }

    /// Fills a frame into the batch; false if there is no free chunk.
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        let Some(mut frame) = self.io.pool().take() else { return false };
        frame.set_len(bytes.len());
        self.io.umem().bytes_mut(&mut frame).copy_from_slice(bytes);
        self.batch.push(frame);
        true
    }

    /// Moves the batch into the TX ring as far as it fits; returns the numbers of moved and remaining frames.
    pub fn push(&mut self) -> (usize, usize) {
        let before = self.batch.len();
        let taken = self.io.tx_batch(&mut self.batch);
        assert_eq!(taken + self.batch.len(), before, "what was not taken stays");
        (taken, self.batch.len())
    }

    /// Sends the batch, which the ring has room for.
    pub fn send(&mut self) -> Outcome {
        let due = Instant::now() + PATIENCE;
        loop {
            let left = self.push().1;
            if self.io.kick(Kick::Send)? == Kicked::Done && left == 0 {
                return Ok(());
            }
            if Instant::now() > due {
                return Err(format!("{left} frames do not leave: {:?}", self.io.counters()).into());
            }
        }
    }

    /// Kicks until the device is no longer busy.
    pub fn kick(&mut self) -> Outcome {
        while self.io.kick(Kick::Send)? == Kicked::Busy {}
        Ok(())
    }

    /// Sends frames with numbers from `first`.
    pub fn send_numbers(&mut self, first: u32, count: u32, len: usize) -> Outcome {
        for number in first..first + count {
            if !self.fill(&End::frame(number, len)) {
                return Err(format!("no free chunk for frame {number}").into());
            }
        }
        self.send()
    }

    /// One look at the RX ring; the chunks go back.
    pub fn look(&mut self, most: usize) -> Vec<Got> {
        let received = self.io.rx_batch(&mut self.arrivals, most);
        assert!(received <= most && received == self.arrivals.len(), "{received} of {most}, {}", self.arrivals.len());
        let umem = self.io.umem().clone();
        let got = self.arrivals.drain(..).map(|arrival| {
            let bytes = umem.bytes(&arrival.frame).to_vec();
            self.io.pool().give(arrival.frame);
            Got { bytes, time: arrival.time }
        });
        got.collect()
    }

    /// Receives `count` frames.
    pub fn receive(&mut self, count: usize) -> Outcome<Vec<Got>> {
        let (mut got, due) = (Vec::new(), Instant::now() + PATIENCE);
        while got.len() < count {
            got.extend(self.look(count - got.len()));
            if Instant::now() > due {
                return Err(format!("{} of {count} frames came: {:?}", got.len(), self.io.counters()).into());
            }
            if got.len() < count {
                self.io.kick(Kick::Receive)?;
            }
        }
        Ok(got)
    }

    /// Receives the frames with numbers from `first`, of this length, in this order.
    pub fn expect(&mut self, first: u32, count: u32, len: usize) -> Outcome {
        for (number, got) in (first..).zip(self.receive(count as usize)?) {
            if got.bytes != End::frame(number, len) {
                return Err(format!("frame {number} of {len} bytes arrived as {:02x?}", got.bytes).into());
            }
        }
        Ok(())
    }

    /// Nothing more comes.
    pub fn silence(&mut self) -> Outcome {
        let due = Instant::now() + SILENCE;
        while Instant::now() < due {
            if let Some(got) = self.look(1).pop() {
                return Err(format!("one too many came: {:02x?}", got.bytes).into());
            }
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Takes frames that arrive and keeps them.
    pub fn keep(&mut self, into: &mut Vec<Arrival>, most: usize) -> usize {
        self.io.rx_batch(into, most)
    }

    /// Every chunk is free or with the device, and the device has no more of them than when the end was new.
    pub fn chunks_are_home(&mut self) -> Outcome {
        let due = Instant::now() + PATIENCE;
        loop {
            // Sent chunks come back, and the device gets the chunks that it needs.
            self.push();
            self.io.rx_batch(&mut self.arrivals, 0);
            let pool = self.io.pool();
            let (chunks, free, lent) = (pool.chunks(), pool.available(), pool.lent());
            if free + lent == chunks && lent <= self.at_rest {
                return Ok(());
            }
            if Instant::now() > due {
                return Err(
                    format!("of {chunks} chunks {free} are free and {lent} with the device, which had {}", self.at_rest).into()
                );
            }
            self.io.kick(Kick::Send)?;
        }
    }

    /// Takes `count` stamps of sent frames; one more would be found, too.
    pub fn departed(&mut self, count: usize) -> Outcome<Vec<Departure>> {
        let (mut came, due) = (Vec::new(), Instant::now() + PATIENCE);
        while came.len() < count {
            let before = came.len();
            let more = self.io.departures(&mut came)?;
            assert_eq!(came.len(), before + more);
            if Instant::now() > due {
                return Err(format!("{} of {count} stamps came: {:?}", came.len(), self.io.counters()).into());
            }
        }
        sleep(Duration::from_millis(2));
        self.io.departures(&mut came)?;
        Ok(came)
    }

    pub fn counters(&mut self) -> Counters {
        self.io.counters()
    }
}
