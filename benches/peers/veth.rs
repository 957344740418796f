//! Two network namespaces with a veth pair between them, for tools that make none.
//!
//! The pair is the same as that of `hairpin --link veth`: every option left to the kernel. The namespaces carry this process's id
//! in their names; those of a benchmark that was killed are removed by the next.

use std::path::Path;
use std::process::{Command, id};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::super::children;

/// The server's address.
pub(crate) const SERVER: &str = "198.18.0.2";

const PREFIX: &str = "hairpin-peers-";

/// The namespaces; removed, with the pair, when this is dropped.
pub(crate) struct Veth {
    pub(crate) client: String,
    pub(crate) server: String,
}

impl Veth {
    /// Makes both namespaces and the pair. Needs the right to make named namespaces, which is root's.
    pub(crate) fn new() -> Result<Veth, String> {
        Veth::with_queues(None)
    }

    /// The same, with `queues` to send and to receive on at either end.
    pub(crate) fn with_queues(queues: Option<[u32; 2]>) -> Result<Veth, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        sweep()?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let [client, server] = ["c", "s"].map(|side| format!("{PREFIX}{}-{number}-{side}", id()));
        let veth = Veth { client, server };
        for name in [&veth.client, &veth.server] {
            ip(&["netns", "add", name])?;
        }
        let queues = queues.map(|of| of.map(|number| number.to_string()));
        let queues: Vec<&str> = match &queues {
            Some([send, receive]) => vec!["numtxqueues", send, "numrxqueues", receive],
            None => Vec::new(),
        };
        let one = ["-n", &veth.client, "link", "add", "peer0"];
        let other = ["type", "veth", "peer", "name", "peer1"];
        ip(&[&one[..], &queues, &other, &queues, &["netns", &veth.server]].concat())?;
        for (name, link, address) in [(&veth.client, "peer0", "198.18.0.1/30"), (&veth.server, "peer1", "198.18.0.2/30")] {
            ip(&["-n", name, "address", "add", address, "dev", link])?;
            ip(&["-n", name, "link", "set", link, "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(veth)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        for name in [&self.client, &self.server] {
            // One that was never made cannot be removed; the next benchmark's sweep finds one that stays.
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

/// Removes namespaces whose benchmark is gone.
fn sweep() -> Result<(), String> {
    for line in ip(&["netns", "list"])?.lines() {
        let name = line.split_whitespace().next().unwrap_or("");
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()).and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            ip(&["netns", "delete", name])?;
        }
    }
    Ok(())
}

fn ip(arguments: &[&str]) -> Result<String, String> {
    children::run(Command::new("ip").args(arguments), Duration::from_secs(10))
}
