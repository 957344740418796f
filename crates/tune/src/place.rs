//! The part of a host that a run uses, its CPUs and its interface, and where sysfs describes them.

use std::io;

use hairpin_sys::host::Host;

use crate::cpulist;
use crate::reading::present;

/// The CPUs and the interface that a run uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place<'a> {
    /// The CPUs that the measuring threads are pinned to; empty if they are not pinned.
    pub cpus: &'a [u32],
    /// The interface that carries the traffic; `None` for paths that use no network.
    pub interface: Option<&'a str>,
}

/// The directory of CPU `cpu`.
pub(crate) fn cpu_directory(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}")
}

/// The CPUs of `place`, or every online CPU if it names none.
pub(crate) fn cpus_or_online(host: &dyn Host, place: &Place<'_>) -> Result<Vec<u32>, String> {
    if !place.cpus.is_empty() {
        return Ok(cpulist::distinct(place.cpus));
    }
    const ONLINE: &str = "/sys/devices/system/cpu/online";
    let online = present(ONLINE, host.read(ONLINE))?;
    online.map_or(Ok(Vec::new()), |online| cpulist::parse(&online)).map_err(|why| format!("{ONLINE}: {why}"))
}

/// The directory of the interface; `None` if `place` names none, or the name cannot be an interface's.
pub(crate) fn interface_directory(place: &Place<'_>) -> Option<String> {
    let name = place.interface?;
    // A name with a slash would leave the directory.
    let possible = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    possible.then(|| format!("/sys/class/net/{name}"))
}

/// The names of the interface's queues that start with `prefix`; `None` without an interface.
pub(crate) fn queues(host: &dyn Host, place: &Place<'_>, prefix: &str) -> Result<Option<Vec<String>>, String> {
    let Some(directory) = interface_directory(place) else {
        return Ok(None);
    };
    let path = format!("{directory}/queues");
    let names = present(&path, host.list(&path))?;
    Ok(names.map(|names| names.into_iter().filter(|name| name.starts_with(prefix)).collect()))
}

/// `file` of one queue: its name, the file's path and its text.
pub(crate) struct QueueFile {
    pub(crate) queue: String,
    pub(crate) path: String,
    /// `None` where the queue has no such file.
    pub(crate) text: Option<String>,
}

/// `file` of every queue whose name starts with `prefix`.
pub(crate) fn queue_files(host: &dyn Host, place: &Place<'_>, prefix: &str, file: &str) -> Result<Vec<QueueFile>, String> {
    let (Some(directory), Some(names)) = (interface_directory(place), queues(host, place, prefix)?) else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    for queue in names {
        let path = format!("{directory}/queues/{queue}/{file}");
        let text = match host.read(&path) {
            // An interface with a single queue lists the file, but reading it fails with EINVAL.
            Err(why) if why.kind() == io::ErrorKind::InvalidInput => None,
            answer => present(&path, answer)?,
        };
        files.push(QueueFile { queue, path, text });
    }
    Ok(files)
}
