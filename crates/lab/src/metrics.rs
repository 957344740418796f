//! Metrics of a run for Prometheus: the figures of its snapshots, served over HTTP while it runs.
//!
//! ```text
//!   snapshot, once a second ──▶ series (totals, histogram)         the verb's thread: adds, and goes on
//!                                  │ copied under a lock
//!   scraper ──▶ http ──▶ exposition (text or protobuf) ──▶ scraper     one thread off the measured cores
//! ```
//! The workers are not involved, and the verb's thread never waits for a scraper: the lock is held for a copy only. A scrape is
//! encoded once per snapshot, however often it is requested. docs/metrics.md lists the metrics.

mod exposition;
mod http;
mod plain;
mod series;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use hairpin_plan::job::Job;
use hairpin_record::progress::Progress;
use hairpin_record::run::Row;
use hairpin_sys::thread;
use hairpin_units::Nanos;

use crate::metrics::http::{Answer, Request};
use crate::metrics::series::{Labels, Series};
use hairpin_session::plan::Target;
use hairpin_session::watch::Watcher;

/// The default port: the one after the session's.
pub const PORT: u16 = 24_445;

/// The address of the metrics server: `PORT`, `ADDR`, or `ADDR:PORT`; on loopback by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        if let Ok(port) = text.parse() {
            return Ok(Listen(SocketAddr::new(loopback, port)));
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse() {
            return Ok(Listen(SocketAddr::new(address, PORT)));
        }
        let wrong = || {
            format!("\"{text}\" is not an address to serve metrics on: write PORT, ADDR or ADDR:PORT, such as 127.0.0.1:{PORT}")
        };
        // An IPv4 address may have brackets too: a manifest is written before the family of a pod's address is known.
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once("]:"));
        let bracketed = bracketed.and_then(|(address, port)| Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?)));
        bracketed.or_else(|| text.parse().ok()).map(Listen).ok_or_else(wrong)
    }
}

impl Listen {
    /// True if only this host can reach it.
    pub fn is_loopback(&self) -> bool {
        self.0.ip().is_loopback()
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    series: BTreeMap<Labels, Series>,
    measuring: bool,
    /// A wait has interrupted a measurement, which goes on after it.
    interrupted: bool,
    /// Time of the last snapshot, in s since 1970.
    last_snapshot_s: Option<f64>,
    /// Incremented with every change.
    version: u64,
}

/// Serves the metrics of a run.
pub struct Exporter {
    target: Target,
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    row: Option<Labels>,
    /// Time that the probe waited before its first row; it counts in that row.
    waited: Nanos,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The address cannot be bound, or nothing can answer there.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics on {address}: {source}; choose another address or port with --metrics ADDR:PORT")]
pub struct ListenError {
    address: SocketAddr,
    source: io::Error,
}

impl Exporter {
    /// Binds the address and answers scrapers from now on, from a thread off the cores that `rows` measure on if there are
    /// others.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(on: Listen, target: &Target, rows: &[Job]) -> Result<Exporter, ListenError> {
        let wrong = |source| ListenError { address: on.0, source };
        let listener = TcpListener::bind(on.0).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let state = Arc::<Mutex<State>>::default();
        let mut pages = Pages { state: Arc::clone(&state), kept: BTreeMap::new() };
        let cpus: Vec<u32> = rows.iter().flat_map(|job| target.cpus(job)).collect();
        let answers = move || {
            // Without another CPU this thread shares the measured ones; docs/metrics.md says so.
            let _ = thread::keep_off(&cpus);
            http::serve(&listener, &mut |request| pages.answer(request));
        };
        std::thread::Builder::new().name("metrics".into()).spawn(answers).map_err(wrong)?;
        Ok(Exporter { target: target.clone(), address, state, row: None, waited: Nanos::ZERO })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state that is served.
    fn change(&self, change: impl FnOnce(&mut State, Option<&Labels>)) {
        let mut state = self.state();
        change(&mut state, self.row.as_ref());
        state.version += 1;
    }
}

impl Watcher for Exporter {
    fn begins(&mut self, _index: usize, _of: usize, job: &Job) {
        let labels = Labels::of(job, self.target.label());
        self.row = Some(labels.clone());
        let waited = std::mem::take(&mut self.waited);
        self.change(|state, _| {
            let series = state.series.entry(labels).or_default();
            series.totals.paused_ns += waited.0;
            series.begin();
        });
    }

    fn ready(&mut self) -> Result<(), String> {
        self.change(|state, _| state.measuring = true);
        Ok(())
    }

    fn paused(&mut self, _left: Option<Nanos>) {
        self.change(|state, _| state.interrupted |= std::mem::take(&mut state.measuring));
    }

    fn resumed(&mut self, paused: Nanos) {
        if self.row.is_none() {
            self.waited.0 += paused.0;
        }
        self.change(|state, row| {
            if let Some(series) = row.and_then(|row| state.series.get_mut(row)) {
                series.totals.paused_ns += paused.0;
            }
            state.measuring |= std::mem::take(&mut state.interrupted);
        });
    }

    fn wants_snapshots(&self) -> bool {
        true
    }

    fn progress(&mut self, progress: &Progress) {
        self.change(|state, row| {
            state.last_snapshot_s = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64());
            if let Some(series) = row.and_then(|row| state.series.get_mut(row)) {
                series.progress(progress);
            }
        });
    }

    fn ends(&mut self, row: &Row) {
        self.change(|state, labels| {
            (state.measuring, state.interrupted) = (false, false);
            if let Some(series) = labels.and_then(|labels| state.series.get_mut(labels)) {
                series.end(row);
            }
        });
    }
}

/// The answers to scrapers; each form is encoded once per state.
struct Pages {
    state: Arc<Mutex<State>>,
    kept: BTreeMap<exposition::Form, (u64, Arc<[u8]>)>,
}

impl Pages {
    fn answer(&mut self, request: &Request<'_>) -> Answer {
        match request.path {
            "/metrics" => {}
            "/" => return Answer::text(200, "hairpin: the metrics are at /metrics\n"),
            _ => return Answer::text(404, "there is nothing but /metrics\n"),
        }
        let form = exposition::Form::accepted(request.accept);
        match self.page(form) {
            Ok(body) => Answer { status: 200, content_type: form.content_type(), body },
            Err(_) => Answer::text(500, "the metrics cannot be encoded\n"),
        }
    }

    fn page(&mut self, form: exposition::Form) -> Result<Arc<[u8]>, fmt::Error> {
        let state = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, page)) = self.kept.get(&form).filter(|(version, _)| *version == state.version) {
                return Ok(Arc::clone(page));
            }
            state.clone()
        };
        let version = state.version;
        let page: Arc<[u8]> = exposition::encode(state, form)?.into();
        self.kept.insert(form, (version, Arc::clone(&page)));
        Ok(page)
    }
}

#[cfg(test)]
mod tests;
