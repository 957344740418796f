//! The cost of one hook hit, measured without any sleep: a datagram from one socket of this process to another over
//! loopback.
//!
//! On a path that sleeps, a tenth of a microsecond would be lost in the wake-ups. The figure is for one CPU: if the two
//! sides run on two CPUs, a hit takes longer by the cache lines that cross.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use hairpin_sys::shared::Announced;
use hairpin_sys::socket;
use hairpin_units::Arrange;

use crate::moment::{Hook, Route};
use crate::tracer::{Flow, Tracer, TracerError};

/// Blocks with hooks, each between two blocks without.
const ROUNDS: usize = 9;
/// Datagrams per block: as many as pass in `BLOCK_TIME`, within these bounds.
const FEWEST: usize = 101;
const MOST: usize = 1_000;
/// Where filters or a busy core slow loopback, `MOST` datagrams would take longer than the run.
const BLOCK_TIME: Duration = Duration::from_millis(15);
/// The receiver gives up after this: a filter may drop a datagram even on loopback.
const LOST: Duration = Duration::from_secs(1);

/// Why the cost could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// The hooks.
    #[error(transparent)]
    Tracer(#[from] TracerError),
    /// The sockets; `WouldBlock` where a datagram was lost.
    #[error("cannot send a datagram over loopback: {0}")]
    Socket(#[from] io::Error),
}

/// The cost of one hit in ns, the median over the rounds. `None` if no hook was hit.
///
/// # Errors
/// The hooks or the loopback sockets are not available, or a datagram is lost on loopback.
pub fn hit_ns(hooks: Vec<&'static Hook>) -> Result<Option<f64>, CostError> {
    let (from, to) = (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    from.connect(to.local_addr()?)?;
    to.connect(from.local_addr()?)?;
    to.set_read_timeout(Some(LOST))?;
    let told = |receives_on, sends_on| Announced { receives_on, sends_on, ..Announced::default() };
    let (client, server) = (told(0, socket::cookie(&from)?), told(socket::cookie(&to)?, 0));
    let mut tracer = Tracer::load(&Flow { route: Route::Sockets, client, server, hooks, comes: None })?;
    let mut times = Vec::with_capacity(MOST);
    let mut block = || -> io::Result<f64> {
        let mut bytes = [0; 64];
        let begun = Instant::now();
        times.clear();
        while times.len() < FEWEST || (times.len() < MOST && begun.elapsed() < BLOCK_TIME) {
            let start = Instant::now();
            from.send(&bytes)?;
            to.recv(&mut bytes)?;
            times.push(start.elapsed().as_nanos());
        }
        times.sort_unstable();
        Ok(times[times.len() / 2] as f64)
    };
    let (mut more, mut hits) = (Vec::new(), 0);
    block()?;
    for _ in 0..ROUNDS {
        let before = block()?;
        tracer.attach()?;
        block()?;
        tracer.take();
        let with = block()?;
        hits = tracer.take().records.last().map_or(0, |record| record.ways[0].len());
        tracer.detach();
        more.push(with - (before + block()?) / 2.0);
    }
    more.arrange_by(f64::total_cmp);
    Ok((hits > 0).then(|| (more[ROUNDS / 2] / hits as f64).max(0.0)))
}
