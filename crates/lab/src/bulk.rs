//! TCP bulk streams that fill a link beside the measured flow, each end in its own worker process.
//!
//! ```text
//!   client's network namespace                    server's network namespace
//!   source: writes whenever a stream takes more ─────▶ sink: reads and counts            as fast as TCP goes, until both are stopped
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hairpin_plan::job::Address;
use hairpin_plan::path::LinkKind;
use hairpin_record::load::BulkFacts;
use hairpin_session::error::RunError;
use hairpin_session::message::{Answer, BulkReport, BulkWork, Namespace, Order};
use hairpin_session::plan::Target;
use hairpin_session::side::{SideError, WorkerSide};
use hairpin_session::testbed::Testbed;
use hairpin_units::parse_number;

/// Time limit for both ends, which are on this host, to connect, and to report after they were stopped.
const WITHIN: Duration = Duration::from_secs(10);

/// More streams than any link needs to be full.
const MOST_STREAMS: u32 = 64;

/// Parses `tcp:N`, or `none` for no stream.
///
/// # Errors
/// The text is neither; the message shows the right form.
pub fn streams(text: &str) -> Result<u32, String> {
    let some = |n: &str| u32::try_from(parse_number(n).ok()?).ok().filter(|n| (1..=MOST_STREAMS).contains(n));
    let streams = if text == "none" { Some(0) } else { text.strip_prefix("tcp:").and_then(some) };
    streams.ok_or_else(|| format!("\"{text}\" is not bulk traffic: write tcp:N with N from 1 to {MOST_STREAMS}, or none"))
}

/// Both ends of the streams.
pub(crate) struct Bulk {
    source: WorkerSide,
    sink: WorkerSide,
    /// The sink's address.
    at: IpAddr,
}

impl Bulk {
    /// Starts both ends in the network namespaces of a testbed's two sides. They wait.
    ///
    /// # Errors
    /// The other side is another host, or a worker does not start.
    pub(crate) fn beside(testbed: &Testbed, target: &Target) -> Result<Bulk, RunError> {
        let Target::Link(link) = target else { return Err(RunError::BulkElsewhere) };
        let (mut source, mut sink) = (WorkerSide::start(None, None, None)?, WorkerSide::start(None, None, None)?);
        if let (LinkKind::Veth, Some(server)) = (link.kind(), testbed.server.pid()) {
            source.order(&Order::Enter(Namespace::JoinNetwork(testbed.client.pid())))?;
            sink.order(&Order::Enter(Namespace::JoinNetwork(server)))?;
        }
        let at = testbed.server_address().ok_or(RunError::BulkElsewhere)?;
        Ok(Bulk { source, sink, at })
    }

    /// Fills the link with this many streams from now on.
    pub(crate) fn go(&mut self, streams: u32) -> Result<(), SideError> {
        self.sink.clear_stop();
        self.source.clear_stop();
        self.sink.send(&Order::Bulk(BulkWork::Sink { at: SocketAddr::new(self.at, 0), streams }))?;
        let to = match self.sink.answer(WITHIN)? {
            Answer::Ready(Some(Address::Inet(to))) => to,
            other => return Err(unexpected(other)),
        };
        self.source.send(&Order::Bulk(BulkWork::Source { to, streams }))?;
        match self.source.answer(WITHIN)? {
            Answer::Ready(None) => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Stops both ends and returns the bytes and time that the sink counted.
    pub(crate) fn halt(&mut self) -> Result<BulkFacts, RunError> {
        // The sink first: it would take the end of its source for a failure.
        self.sink.stop();
        self.source.stop();
        let [_, received] = [&mut self.source, &mut self.sink].map(|end| match end.answer(WITHIN) {
            Ok(Answer::Bulk(BulkReport { error: Some(why), .. })) => Err(RunError::Bulk(why)),
            Ok(Answer::Bulk(report)) => Ok(report),
            Ok(other) => Err(unexpected(other).into()),
            Err(error) => Err(error.into()),
        });
        let received = received?;
        let seconds = received.duration_ns as f64 / 1e9;
        let bits_per_s = if seconds > 0.0 { (received.bytes as f64 * 8.0 / seconds).round() } else { 0.0 };
        Ok(BulkFacts { bytes: received.bytes, duration_ns: received.duration_ns, bits_per_s })
    }
}

fn unexpected(answer: Answer) -> SideError {
    match answer {
        Answer::Failed(failure) => SideError::Failed(failure),
        other => SideError::OutOfTurn(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_traffic_is_tcp_and_a_number() {
        assert_eq!((streams("tcp:4"), streams("none")), (Ok(4), Ok(0)));
        for text in ["4", "tcp:", "tcp:0", "tcp:65", "udp:1", ""] {
            assert!(streams(text).unwrap_err().contains("write tcp:N"), "{text}");
        }
    }
}
