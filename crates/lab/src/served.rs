//! Hairpin's own client asks a running server, which is watched meanwhile: the stages of both sides and the client's figures, of
//! the same transactions.
//!
//! ```text
//!   this thread   ────── ping ─────▶ the client's worker ── requests ──▶ the server, unmodified
//!   another one   hooks in place ─▶ │ stages of both sides │ ─▶ ends with the ping
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hairpin_plan::job::Job;
use hairpin_record::attached::{Attached, Total, View};
use hairpin_session::address::{local_address_towards, server_at};
use hairpin_session::error::{Blame, RunError};
use hairpin_session::plan::{self, Plan, Target as Peer};
use hairpin_session::watch::Watcher;
use hairpin_sys::signal::Signals;

use crate::attached::{AttachPlan, AttachedError, News, Target, Until, run_until};
use crate::ping;

/// Interval at which the asking thread looks whether the hooks are in place.
const LOOK: Duration = Duration::from_millis(5);

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum ServedError {
    #[error(transparent)]
    Watching(#[from] AttachedError),
    #[error(transparent)]
    Asking(#[from] RunError),
    /// The server's side was not seen.
    #[error(
        "{server} is not on this host, and only a server of this host can be watched: there run `hairpin explain :{port}`, while `hairpin ping` asks it from here{asking}"
    )]
    Elsewhere {
        server: String,
        port: u16,
        /// In brackets why asking it failed; empty if it did not.
        asking: String,
    },
    #[error("the watching thread panicked")]
    Panicked,
}

impl ServedError {
    /// The exit code's kind.
    pub fn blame(&self) -> Blame {
        match self {
            ServedError::Watching(error) => error.blame(),
            ServedError::Asking(error) => error.blame(),
            ServedError::Elsewhere { .. } => Blame::Usage,
            ServedError::Panicked => Blame::Failed,
        }
    }
}

/// Sends the requests of the plan's only row to the server, and watches the server's port from the warm-up on. A server in any
/// network namespace of this host is seen, so only the watching can tell that one is elsewhere.
///
/// # Errors
/// The errors of a ping and of the watching; figures from before an error in mid-run are kept, with the error in the record.
pub fn run(plan: &Plan, signals: &Signals, watcher: &mut dyn Watcher) -> Result<Attached, ServedError> {
    plan::check(plan)?;
    let elsewhere = |port, asking| ServedError::Elsewhere { server: plan.target.label(), port, asking };
    let Peer::Echo { host, port } = &plan.target else { return Err(elsewhere(0, String::new())) };
    let is_here = is_here(host, *port, &plan.rows);
    let watch =
        AttachPlan { target: Target::Port(*port), duration: None, live: false, drawn: false, command: plan.command.clone() };
    let (seen, run) = watched(
        |begun, over| {
            run_until(&watch, Until::Over(over), &mut |news| {
                if let News::Begun(_) = news {
                    begun.store(true, Ordering::Release);
                }
            })
        },
        || ping::run(plan, signals, watcher),
    );
    let mut seen = seen.map_err(|_| ServedError::Panicked)??;
    let run = run.transpose();
    let never_asked = run.as_ref().is_err_and(|error| matches!(error, RunError::Interrupted) || error.blame() != Blame::Failed);
    if !is_here && !never_asked && !saw_server(&seen.totals, seen.unmatched + seen.open) {
        return Err(elsewhere(*port, run.err().map(|error| format!(" (asking it failed: {error})")).unwrap_or_default()));
    }
    if let Some(run) = run? {
        seen.head.interrupted = run.head.interrupted;
        seen.head.error = run.head.error.clone().or(seen.head.error.take());
        seen.body.client = run.body.results.into_iter().next().map(Box::new);
    }
    Ok(seen)
}

/// Runs `watch` on a thread of its own, and `ask` on this one as soon as the first flag says that the watching has begun. The
/// second flag tells the watching to end. No second result: the watching ended before it began.
fn watched<W: Send, A>(
    watch: impl FnOnce(&AtomicBool, &AtomicBool) -> W + Send,
    ask: impl FnOnce() -> A,
) -> (thread::Result<W>, Option<A>) {
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&begun, &over));
        let ends = SetAtEnd(&over);
        while !begun.load(Ordering::Acquire) && !watching.is_finished() {
            thread::sleep(LOOK);
        }
        // The hooks are in place, or could not be attached.
        let asked = begun.load(Ordering::Acquire).then(ask);
        drop(ends);
        (watching.join(), asked)
    })
}

/// Sets a flag when it is dropped, by a panic too: the scope would wait for ever for a thread that is not told to end.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// True if the server's side was seen, or may have been: where no message was `whole`, nobody knows the sides of the `others`.
fn saw_server(whole: &[Total], others: u64) -> bool {
    whole.iter().any(|total| total.view != View::Client) || (whole.is_empty() && others > 0)
}

/// True if the server's address belongs to this network namespace, or if it has none.
fn is_here(host: &str, port: u16, rows: &[Job]) -> bool {
    let address = server_at(host, port, rows).ok();
    address.is_none_or(|address| address.ip().is_loopback() || local_address_towards(address) == Some(address.ip()))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use hairpin_record::run::Quantiles;

    use super::*;

    #[test]
    fn a_server_is_elsewhere_if_only_its_client_was_seen() {
        let total = |view| Total { view, roles: Vec::new(), sum_ns: Quantiles::default(), histogram: None, stages: Vec::new() };
        assert!(saw_server(&[total(View::Both)], 0) && saw_server(&[total(View::Client), total(View::Server)], 0));
        assert!(!saw_server(&[total(View::Client)], 3) && !saw_server(&[], 0));
        assert!(saw_server(&[], 3), "all requests were pipelined");
    }

    #[test]
    fn the_watching_ends_even_if_the_asking_panics() {
        let watch = |begun: &AtomicBool, over: &AtomicBool| {
            begun.store(true, Ordering::Release);
            while !over.load(Ordering::Acquire) {
                thread::sleep(LOOK);
            }
        };
        assert!(matches!(watched(watch, || 7), (Ok(()), Some(7))));
        assert!(catch_unwind(AssertUnwindSafe(|| watched::<(), ()>(watch, || panic!("the asking")))).is_err());
        assert!(matches!(watched(|_, _| 1, || 7), (Ok(1), None)), "nobody asks where nobody watches");
    }
}
