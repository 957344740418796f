//! A server's name: its program, else its port.

use hairpin_record::attached::{AttachedBody, Process};

use crate::prose::clean;

/// Prefixes of program names, and the protocol that each serves.
const PROGRAMS: [(&str, &str); 16] = [
    ("redis", "Redis"),
    ("valkey", "Valkey"),
    ("memcached", "memcached"),
    ("mc-worker", "memcached"),
    ("nginx", "HTTP"),
    ("apache2", "HTTP"),
    ("httpd", "HTTP"),
    ("lighttpd", "HTTP"),
    ("caddy", "HTTP"),
    ("haproxy", "HTTP"),
    ("envoy", "HTTP"),
    ("postgres", "PostgreSQL"),
    ("mysqld", "MySQL"),
    ("mariadbd", "MySQL"),
    ("named", "DNS"),
    ("dnsmasq", "DNS"),
];
/// Well-known ports, and the protocol expected there.
const PORTS: [(u16, &str); 8] = [
    (6379, "Redis"),
    (11211, "memcached"),
    (80, "HTTP"),
    (8080, "HTTP"),
    (443, "HTTPS"),
    (5432, "PostgreSQL"),
    (3306, "MySQL"),
    (53, "DNS"),
];

/// `Redis :6379 (redis-server 3469)`, as far as it is known.
pub(crate) fn service(record: &AttachedBody) -> String {
    let watched = &record.watched;
    let process = record.connections.iter().find_map(|connection| connection.server_process.as_ref());
    let process = match (watched.pid, &watched.comm, process) {
        (Some(pid), Some(comm), _) => Some((comm.trim(), pid)),
        (_, _, Some(Process { comm, pid, .. })) => Some((comm.as_str(), *pid)),
        _ => None,
    };
    let called = process.and_then(|(comm, _)| PROGRAMS.iter().find(|(name, _)| comm.starts_with(name)));
    let port = watched.port.or(if let [port] = watched.serves[..] { Some(port) } else { None });
    // A program of another name may serve anything, so the port is only a guess.
    let guess = || PORTS.iter().find(|(known, _)| Some(*known) == port).map(|(_, name)| format!("{name}?"));
    let name = called.map(|(_, name)| (*name).to_owned()).or_else(guess);
    let port = port.map(|port| format!(":{port}"));
    let served = [name, port].into_iter().flatten().collect::<Vec<_>>().join(" ");
    match process.map(|(comm, pid)| (clean(comm), pid)) {
        None => served,
        Some((comm, pid)) if served.is_empty() => format!("{comm} ({pid})"),
        Some((comm, pid)) => format!("{served} ({comm} {pid})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(comm: Option<&str>, port: u16) -> String {
        let body = serde_json::json!({
            "host": {"hostname": ""}, "watched": {"port": port, "pid": null, "comm": null, "roles": [], "serves": []},
            "duration_ns": 0, "missing": [], "transactions": 0, "unmatched": 0,
            "unmatched_by": {"pipelined": 0, "unanswered": 0, "half_seen": 0, "out_of_order": 0}, "open": 0, "lost": 0,
            "untracked": 0, "totals": [], "connections": [], "other_connections": 0, "slowest": [], "causes": [], "slow": 0,
            "slow_above": null, "warnings": []
        });
        let mut body: AttachedBody = serde_json::from_value(body).unwrap();
        if let Some(comm) = comm {
            (body.watched.comm, body.watched.pid) = (Some(comm.into()), Some(7));
        }
        service(&body)
    }

    #[test]
    fn a_program_is_believed_before_its_port() {
        assert_eq!(of(Some("redis-server\n"), 7000), "Redis :7000 (redis-server 7)");
        assert_eq!(of(Some("python3"), 6379), "Redis? :6379 (python3 7)");
        assert_eq!(of(Some("python3"), 7777), ":7777 (python3 7)");
        assert_eq!([of(None, 8080), of(None, 9)], ["HTTP? :8080", ":9"]);
    }
}
