//! Both sides of a path in two threads of this process, with everything that a worker would have.

use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use hairpin_iopath::drive::Counts;
use hairpin_iopath::measure::{ClientFound, ClientRun, Observer, ServerFound, ServerRun};
use hairpin_iopath::paths::runner;
use hairpin_plan::job::{Address, Job, Listen};
use hairpin_record::recorder::{Recorder, Sample};
use hairpin_sys::clock::{AnyClock, MonotonicRaw, Tsc};
use hairpin_sys::shared::Shared;
use hairpin_units::Nanos;

/// Longer than any step takes, on a busy host too.
const PATIENCE: Duration = Duration::from_secs(20);

/// A job of one flow, verified, without duration.
pub(crate) fn job(spec: &str) -> Job {
    let spec: hairpin_plan::spec::Spec = spec.parse().expect(spec);
    let size = spec.client.path.fixed_payload().unwrap_or(64);
    Job {
        request: size,
        reply: size,
        duration: None,
        count: Some(200),
        warmup: Nanos::from_millis(1),
        verify: true,
        cookie: 0x1234_5678_9abc_def0,
        ..Job::new(spec)
    }
}

pub(crate) fn listening(address: IpAddr) -> Listen {
    Listen { address, ports: None, client: address, scope: 0 }
}

pub(crate) fn clock() -> AnyClock {
    static CLOCK: OnceLock<AnyClock> = OnceLock::new();
    *CLOCK.get_or_init(|| Tsc::calibrate().map_or(AnyClock::Raw(MonotonicRaw), AnyClock::Tsc))
}

/// Messages of a side while it runs.
enum Said {
    Ready(Option<Address>),
    Progress,
}

struct Listener(Mutex<Sender<Said>>);

impl Listener {
    fn new() -> (Listener, Receiver<Said>) {
        let (sender, receiver) = channel();
        (Listener(Mutex::new(sender)), receiver)
    }

    fn say(&self, said: Said) {
        // Not every test listens.
        let _ = self.0.lock().unwrap().send(said);
    }
}

impl Observer for Listener {
    fn block(&self) -> io::Result<()> {
        Ok(())
    }

    fn ready(&self, address: Option<&Address>) -> io::Result<()> {
        self.say(Said::Ready(address.cloned()));
        Ok(())
    }

    fn progress(&self, _thread: u32, _recorder: &Recorder, _counts: &Counts) {
        self.say(Said::Progress);
    }

    fn raw(&self, _thread: u32, _samples: &mut dyn Iterator<Item = Sample>) -> io::Result<()> {
        Ok(())
    }
}

/// Receives the result of a side that runs in a thread of its own.
type Ending<T> = Receiver<Result<T, String>>;

/// Starts the server's side; returns once it is ready.
pub(crate) fn start_server(
    job: &Job,
    listen: Listen,
    stop: &Arc<Shared>,
    neighbour: Option<Arc<Shared>>,
    what: &str,
) -> (Address, Ending<ServerFound>) {
    let (watch, ready) = Listener::new();
    let (done, ending) = channel();
    let (job, stop) = (job.clone(), Arc::clone(stop));
    std::thread::spawn(move || {
        let found = ServerFound::default();
        // A thread starts with the affinity of its process, whatever other threads are pinned to.
        let allowed = hairpin_sys::thread::allowed_cpus().unwrap_or_default();
        let mut run = ServerRun {
            job: &job,
            listen,
            clock: clock(),
            stop: &stop,
            stamps: None,
            neighbour: neighbour.as_deref(),
            allowed: &allowed,
            cores: allowed.len(),
            own_link: false,
            most_per_s: None,
            heard_on: Vec::new(),
            observer: &watch,
            found,
        };
        let result = runner(job.spec.server.path).echo(&mut run);
        let _ = done.send(result.map(|()| run.found).map_err(|error| error.to_string()));
    });
    let Ok(Said::Ready(Some(address))) = ready.recv_timeout(PATIENCE) else {
        panic!("{what}: the server does not get ready: {:?}", ending.recv_timeout(PATIENCE));
    };
    (address, ending)
}

/// Starts the client's side.
fn start_client(
    job: Job,
    peer: Address,
    stop: &Arc<Shared>,
    neighbour: Option<Arc<Shared>>,
) -> (Receiver<Said>, Ending<ClientFound>) {
    let (watch, said) = Listener::new();
    let (done, ending) = channel();
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let found = ClientFound::default();
        let allowed = hairpin_sys::thread::allowed_cpus().unwrap_or_default();
        let mut run = ClientRun {
            job: &job,
            peer,
            clock: clock(),
            stop: &stop,
            stamps: None,
            neighbour: neighbour.as_deref(),
            allowed: &allowed,
            own_link: false,
            observer: &watch,
            found,
        };
        let result = runner(job.spec.client.path).ping(&mut run);
        let _ = done.send(result.map(|()| run.found).map_err(|error| error.to_string()));
    });
    (said, ending)
}

/// The job to run, and events meanwhile.
pub(crate) struct Pair {
    job: Job,
    listen: Listen,
    pub(crate) with_neighbour: bool,
    pub(crate) wrong_cookie: bool,
    /// Stops the client after its first block.
    pub(crate) stop_client: bool,
    /// Stops the server after the client's first block.
    pub(crate) stop_server: bool,
}

impl Pair {
    pub(crate) fn new(job: Job, listen: Listen) -> Pair {
        Pair { job, listen, with_neighbour: false, wrong_cookie: false, stop_client: false, stop_server: false }
    }

    /// Runs both sides to their end.
    pub(crate) fn run(self, what: &str) -> (Result<ClientFound, String>, Result<ServerFound, String>) {
        let shared = || Arc::new(Shared::create().unwrap());
        let (stop_client, stop_server) = (shared(), shared());
        let neighbour = self.with_neighbour.then(shared);
        let (address, server) = start_server(&self.job, self.listen, &stop_server, neighbour.clone(), what);
        let mut job = self.job;
        job.cookie ^= u64::from(self.wrong_cookie);
        let (said, client) = start_client(job, address, &stop_client, neighbour);
        for stop in [(self.stop_client, &stop_client), (self.stop_server, &stop_server)] {
            let (true, stop) = stop else { continue };
            while !matches!(said.recv_timeout(PATIENCE).expect(what), Said::Progress) {}
            stop.request_stop();
        }
        let client = client.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: the client does not end"));
        stop_server.request_stop();
        let server = server.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: the server does not end"));
        (client, server)
    }
}
