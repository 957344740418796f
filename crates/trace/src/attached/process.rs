//! The TCP ports on which a process serves and from which it connects, read from /proc.
//!
//! The BPF programs learn UDP sockets at their first use: /proc does not tell a server's socket from a client's.

use hairpin_units::Gather;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use hairpin_sys::host::Host;

use crate::events::INITIAL;

/// Most descendants that are watched with a process.
const MOST: usize = 1024;

/// A process and its descendants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    pub comm: String,
    /// Ports on which it serves.
    pub servers: BTreeSet<u16>,
    /// Local ports of its other sockets.
    pub clients: BTreeSet<u16>,
    /// The number of its Unix sockets, which cannot be watched.
    pub unix: usize,
    /// True if this user may not see the sockets of the process itself.
    pub hidden: bool,
}

/// Reads the sockets of the process `pid` and its descendants; `None` if it does not exist.
pub fn sockets(host: &dyn Host, pid: i32) -> Option<Sockets> {
    let comm = host.read(&format!("/proc/{pid}/comm")).ok()?;
    let mut found = Sockets { comm, ..Sockets::default() };
    let mut tables = BTreeMap::new();
    for member in family(host, pid) {
        let inodes = inodes(host, member);
        found.hidden |= member == pid && inodes.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        let inodes = inodes.unwrap_or_default();
        if inodes.is_empty() {
            continue;
        }
        // Processes of one network namespace share one table.
        let net = host.link_target(&format!("/proc/{member}/ns/net")).unwrap_or_default();
        let (table, listened, unix) = tables.entry(net).or_insert_with(|| {
            let table = table(host, member);
            let listened: BTreeSet<u16> = table.iter().filter(|row| row.serves && !row.datagrams).map(|row| row.port).gather();
            (table, listened, unix(host, member))
        });
        found.unix += inodes.intersection(unix).count();
        for row in table.iter().filter(|row| !row.datagrams && inodes.contains(&row.inode)) {
            // It may have a connection that another process accepted for it: a backend of PostgreSQL, a session of sshd.
            let ports = if listened.contains(&row.port) { &mut found.servers } else { &mut found.clients };
            ports.insert(row.port);
        }
    }
    // Connections accepted by a server have its port.
    found.clients = found.clients.difference(&found.servers).copied().collect();
    Some(found)
}

/// False where processes have other numbers than in the BPF programs: in any PID namespace but the host's first.
pub fn has_numbers_of_hooks(host: &dyn Host) -> bool {
    host.link_target("/proc/self/ns/pid").map_or(true, |namespace| namespace == format!("pid:[{INITIAL}]"))
}

/// True if a socket in this process's network namespace listens on the port, or is bound to it for datagrams.
pub fn is_served(host: &dyn Host, port: u16) -> bool {
    table_at(host, "/proc/self/net").iter().any(|row| row.serves && row.port == port)
}

/// The process and its descendants.
fn family(host: &dyn Host, pid: i32) -> Vec<i32> {
    let parent = |pid: i32| {
        // `PID (name) STATE PPID …`, where the name may hold anything.
        let stat = host.read(&format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<i32>().ok()
    };
    let all = host.list("/proc").unwrap_or_default().into_iter().filter_map(|name| name.parse::<i32>().ok());
    let parents: Vec<(i32, i32)> = all.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut family = vec![pid];
    let mut next = 0;
    while next < family.len() && family.len() < MOST {
        let of = family[next];
        family.extend(parents.iter().filter(|(pid, parent)| *parent == of && *pid != of).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}

/// The numbers of a process's sockets.
fn inodes(host: &dyn Host, pid: i32) -> io::Result<BTreeSet<u64>> {
    let folder = format!("/proc/{pid}/fd");
    let mut inodes = BTreeSet::new();
    for fd in host.list(&folder)? {
        match host.link_target(&format!("{folder}/{fd}")) {
            Ok(target) => inodes.extend(inode(&target)),
            // The folder may be open to a user to whom its links are not (ptrace(2), access mode checking).
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            // Closed meanwhile.
            Err(_) => {}
        }
    }
    Ok(inodes)
}

/// The number in `socket:[NUMBER]`.
fn inode(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

struct Row {
    port: u16,
    inode: u64,
    serves: bool,
    datagrams: bool,
}

fn table(host: &dyn Host, pid: i32) -> Vec<Row> {
    table_at(host, &format!("/proc/{pid}/net"))
}

fn table_at(host: &dyn Host, folder: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, datagrams) in [("tcp", false), ("tcp6", false), ("udp", true), ("udp6", true)] {
        let text = host.read(&format!("{folder}/{name}")).unwrap_or_default();
        rows.extend(text.lines().skip(1).filter_map(|line| row(line, datagrams)));
    }
    rows
}

/// The numbers of the Unix sockets of a network namespace: `Num RefCount Protocol Flags Type St Inode Path`.
fn unix(host: &dyn Host, pid: i32) -> BTreeSet<u64> {
    let text = host.read(&format!("/proc/{pid}/net/unix")).unwrap_or_default();
    text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(6)?.parse::<u64>().ok()).gather()
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …`, numbers in hexadecimal but for the last three.
fn row(line: &str, datagrams: bool) -> Option<Row> {
    /// `include/net/tcp_states.h`.
    const LISTEN: &str = "0A";
    let words: Vec<&str> = line.split_whitespace().collect();
    let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
    let (local, remote) = (port(words.get(1)?)?, port(words.get(2)?)?);
    let serves = if datagrams { remote == 0 } else { *words.get(3)? == LISTEN };
    Some(Row { port: local, inode: words.get(9)?.parse().ok()?, serves, datagrams })
}

#[cfg(test)]
mod tests {
    use hairpin_sys::host::FakeHost;

    use super::*;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000   101        0 1001 1 0000000000000000 100 0 0 10 0
   1: 0100007F:18EB 0100007F:9C40 01 00000000:00000000 00:00000000 00000000   101        0 1002 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:C350 0200007F:0050 01 00000000:00000000 00:00000000 00000000   101        0 1003 1 0000000000000000 20 4 30 10 -1
   3: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2001 1 0000000000000000 100 0 0 10 0
";
    const UDP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
  10: 00000000000000000000000000000000:0035 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1004 2 0000000000000000 0
";

    const EACCES: i32 = 13;

    const UNIX: &str = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01  1005 /run/x.sock
0000000000000000: 00000003 00000000 00000000 0001 03  9001
";

    fn host(root: &std::path::Path) -> FakeHost {
        let mut host = FakeHost::at(root)
            .with("/proc/11/comm", "nginx\n")
            .with("/proc/11/stat", "11 (nginx) S 1 11 11 0\n")
            .with("/proc/12/stat", "12 (a) b) (c) S 11 11 11 0\n")
            .with("/proc/13/stat", "13 (sshd) S 1 13 13 0\n")
            .with_directory("/proc/11/fd")
            .with_link("/proc/12/fd/0", "/dev/null")
            .with_link("/proc/13/fd/3", "socket:[2001]");
        for (fd, inode) in [(3, 1001), (4, 1002), (5, 1003), (6, 1004), (7, 1005)] {
            host = host.with_link(&format!("/proc/12/fd/{fd}"), &format!("socket:[{inode}]"));
        }
        host = host.with("/proc/12/net/unix", UNIX);
        for name in ["12", "self"] {
            host = host.with(&format!("/proc/{name}/net/tcp"), TCP).with(&format!("/proc/{name}/net/udp6"), UDP6);
        }
        host
    }

    #[test]
    fn processes_have_the_numbers_of_hooks_in_the_first_pid_namespace_alone() {
        for (inode, same) in [(4_026_531_836_u32, true), (4_026_532_201, false)] {
            let directory = tempfile::tempdir().unwrap();
            let host = FakeHost::at(directory.path()).with_link("/proc/self/ns/pid", &format!("pid:[{inode}]"));
            assert_eq!(has_numbers_of_hooks(&host), same, "{inode}");
        }
    }

    #[test]
    fn finds_ports_of_a_process_and_its_children() {
        let root = tempfile::tempdir().unwrap();
        let host = host(root.path());
        let found = sockets(&host, 11).unwrap();
        assert_eq!((found.comm.as_str(), found.unix), ("nginx", 1));
        assert_eq!((found.servers, found.clients), (BTreeSet::from([6379]), BTreeSet::from([50_000])));
        assert!(!found.hidden);
        assert_eq!(sockets(&host, 99), None);
    }

    #[test]
    fn a_connection_that_another_process_accepted_is_a_servers() {
        let root = tempfile::tempdir().unwrap();
        let host = host(root.path())
            .with("/proc/14/comm", "postgres\n")
            .with("/proc/14/stat", "14 (postgres) S 1 14 14 0\n")
            .with_link("/proc/14/fd/9", "socket:[1002]")
            .with("/proc/14/net/tcp", TCP);
        let found = sockets(&host, 14).unwrap();
        assert_eq!((found.servers, found.clients), (BTreeSet::from([6379]), BTreeSet::new()));
    }

    #[test]
    fn tells_whether_the_sockets_are_hidden() {
        let hidden = |path: &str, pid: i32| {
            let root = tempfile::tempdir().unwrap();
            let host = host(root.path()).with("/proc/12/comm", "nginx\n").with_error(path, EACCES);
            sockets(&host, pid).unwrap().hidden
        };
        assert!(hidden("/proc/12/fd", 12) && hidden("/proc/12/fd/4", 12));
        assert!(!hidden("/proc/12/fd", 11), "a descendant's connections have a port of its parent");
    }

    #[test]
    fn tells_whether_a_port_is_served() {
        let root = tempfile::tempdir().unwrap();
        let host = host(root.path());
        assert_eq!([6379, 53, 50_000, 80].map(|port| is_served(&host, port)), [true, true, false, false]);
    }

    #[test]
    fn skips_malformed_lines() {
        for line in ["", "a b c d e f g h i j", "0: 1:1 2:2 0A 0 0 0 0 0 x"] {
            assert!(row(line, false).is_none(), "{line}");
        }
    }
}
