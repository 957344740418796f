//! `hairpin serve`.

use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use hairpin_plan::job::{Schedule, scope_of};
use hairpin_session::address::interface_at;
use hairpin_session::error::RunError;
use hairpin_session::key::Key;
use hairpin_session::pinnable::{choices, refused};
use hairpin_session::serve::{Grants, Service, serve};
use hairpin_session::side::WorkerSide;
use hairpin_session::time::rfc3339;
use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::netlink::Netlink;
use hairpin_sys::thread::allowed_cpus;

use crate::exit::{Failure, say};
use crate::flags::{schedule, stack};
use crate::output::print;
use crate::place::{HostPort, PORT, load_key, scoped};
use crate::verbs::knobs::stamping;
use crate::verbs::ping::signals;

/// Answer the requests of `hairpin ping` on another host
#[derive(Debug, Args)]
pub struct Serve {
    /// Address and port to listen on; any address but loopback needs a key
    #[arg(value_name = "ADDR[:PORT]", conflicts_with = "listen")]
    at: Option<HostPort>,
    /// The same as ADDR
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1:24444")]
    listen: HostPort,
    /// The key that every client must have; without it, and not on loopback, one is made
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// First and last port for measured traffic, such as 24500-24599; the kernel chooses if not given
    #[arg(long, value_name = "A-B", value_parser = ports)]
    data_ports: Option<(u16, u16)>,
    /// The highest real-time priority that a client may have here, with locked memory; none if not given
    #[arg(long, value_name = "fifo:N", value_parser = fifo)]
    allow_sched: Option<u8>,
    /// The CPUs that clients' work may run on, such as 2,3 or 4-7; all that this process may use if not given
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<Cpus>,
    /// A library that takes the place of the kernel's sockets, loaded into the processes that answer (LD_PRELOAD): Onload,
    /// libxlio, libvma
    #[arg(long, value_name = "LIBRARY")]
    stack: Option<PathBuf>,
    /// Switch the hardware stamps of this host's devices on while it serves, for clients with --hw-stamps
    #[arg(long)]
    hw_stamps: bool,
}

impl Serve {
    /// Serves until Ctrl-C.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let signals = signals()?;
        let by = if self.at.is_some() { "serve" } else { "--listen" };
        let listen = self.at.unwrap_or(self.listen);
        let address = address(&listen, by)?;
        let grants = Grants { fifo: self.allow_sched, cpus: granted_cpus(self.cpus.map(|Cpus(cpus)| cpus))? };
        let given = self.key_file.as_deref().map(load_key).transpose()?;
        let stack = stack(self.stack.as_deref())?;
        if stack.is_some() {
            // Refuses a library that cannot take its place before any client comes.
            WorkerSide::start(None, None, stack.as_ref()).map_err(RunError::from)?;
        }
        let listener =
            TcpListener::bind(address).map_err(|error| Failure::failed(cannot_listen(&shown(address, &listen), &error)))?;
        let bound = listener.local_addr().map_err(|error| Failure::failed(format_args!("cannot read the address: {error}")))?;
        let shown = shown(bound, &listen);
        let (key, made) = match given {
            None if !address.ip().is_loopback() => {
                let key = Key::generate().map_err(Failure::failed)?;
                let made = announce_key(&key, bound, &listen)?;
                (Some(key), made)
            }
            given => (given, None),
        };
        let interfaces = if self.hw_stamps { interfaces_of(bound)? } else { Vec::new() };
        let devices = Cell::new(stamping(&interfaces));
        say(format_args!("hairpin serves on {shown}; Ctrl-C ends it"));
        let log = |line: String| say(format_args!("{} {line}", rfc3339(SystemTime::now())));
        let made = Cell::new(made);
        let ends = || {
            drop(made.take());
            if let Err(left) = devices.take().off() {
                say(left);
            }
        };
        serve(&listener, Service { key, ports: self.data_ports, grants, stack, gate: None }, &signals, &log, &ends)
            .map_err(|error| Failure::failed(format_args!("cannot serve on {shown}: {error}")))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The address to listen on; `by` is the verb or flag that it was given to.
fn address(listen: &HostPort, by: &str) -> Result<SocketAddr, Failure> {
    let port = listen.port.unwrap_or(PORT);
    if let Some((ip, interface)) = scoped(&listen.host) {
        return Ok(SocketAddrV6::new(ip, port, 0, index_of(interface)?).into());
    }
    let ip: IpAddr = listen.host.parse().map_err(|_| {
        Failure::usage(format_args!("{by} takes an address of this host, such as 0.0.0.0 or [::], not \"{}\"", listen.host))
    })?;
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => Err(Failure::usage(format_args!(
            "{by} {ip} is link-local, and each interface may have such a one: say which, as in [{ip}%eth0]"
        ))),
        ip => Ok(SocketAddr::new(ip, port)),
    }
}

/// The interfaces that a listener's clients come over.
fn interfaces_of(bound: SocketAddr) -> Result<Vec<String>, Failure> {
    if !bound.ip().is_unspecified() {
        return Ok(interface_at(bound.ip(), scope_of(bound)).into_iter().collect());
    }
    let links = Netlink::open().and_then(|netlink| netlink.links()).map_err(Failure::failed)?;
    Ok(links.into_iter().map(|link| link.name).collect())
}

/// The index of an interface by its name; if no interface has that name, by its number.
fn index_of(interface: &str) -> Result<u32, Failure> {
    let links = Netlink::open().and_then(|netlink| netlink.links()).map_err(Failure::failed)?;
    let named = links.iter().find(|link| link.name == interface);
    let found = named.or_else(|| interface.parse().ok().and_then(|index: u32| links.iter().find(|link| link.index == index)));
    found.map(|link| link.index).ok_or_else(|| {
        let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        Failure::usage(format_args!("there is no interface \"{interface}\"; there are: {}", known.join(", ")))
    })
}

/// The address as text; a link-local one with its interface as given.
fn shown(address: SocketAddr, listen: &HostPort) -> String {
    match address {
        SocketAddr::V6(address) if address.scope_id() != 0 => format!("[{}]:{}", listen.host, address.port()),
        address => address.to_string(),
    }
}

fn cannot_listen(address: &str, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "is another hairpin serve running? (see --listen)",
        io::ErrorKind::AddrNotAvailable => "this host has no such address (see `ip address`)",
        io::ErrorKind::PermissionDenied => "ports below 1024 need root: give another with --listen ADDR:PORT",
        _ => "see --listen",
    };
    format!("cannot listen on {address}: {error}; {hint}")
}

/// The CPUs of the list that this process may use.
fn granted_cpus(asked: Option<Vec<u32>>) -> Result<Vec<u32>, Failure> {
    let allowed =
        allowed_cpus().map_err(|error| Failure::failed(format_args!("cannot read the CPUs of this process: {error}")))?;
    let Some(asked) = asked else { return Ok(allowed) };
    match refused(&asked, &choices(&asked, &allowed)) {
        None => Ok(asked),
        Some((cpu, allowed)) => Err(Failure::usage(format_args!(
            "--cpus: CPU {cpu} does not exist or is not allowed to this process: choose from {allowed}"
        ))),
    }
}

/// The file of a key that is valid only in this process: it goes with it.
struct KeyFile(PathBuf);

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Prints the command to type on the client. On a terminal it includes the key itself. Otherwise the key would stay in a file or
/// journal that others can read, so it goes into a file of its own, whose path is returned.
fn announce_key(key: &Key, address: SocketAddr, listen: &HostPort) -> Result<Option<KeyFile>, Failure> {
    let host = match address.ip().is_unspecified() {
        true => RealHost.read("/proc/sys/kernel/hostname").unwrap_or_else(|_| "HOST".into()),
        // The interface name is one of this host; the client's interface has another name.
        false => address.ip().to_string() + if scoped(&listen.host).is_some() { "%INTERFACE" } else { "" },
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let port = if address.port() == PORT { String::new() } else { format!(":{}", address.port()) };
    let ping = format!("hairpin ping {host}{port} --key-file hairpin.key\n");
    if io::stdout().is_terminal() {
        say("on the client, the key and the measurement:");
        print(&format!("(umask 077; echo {} > hairpin.key)\n{ping}", key.to_text()))?;
        return Ok(None);
    }
    let file = write_key(key, address.port())
        .map(KeyFile)
        .map_err(|error| Failure::failed(format_args!("cannot write the key to a file: {error}; give one with --key-file")))?;
    say("the key is in the file named first, which only this user can read; on the client, with a copy of it as hairpin.key:");
    print(&format!("{}\n{ping}", file.0.display()))?;
    Ok(Some(file))
}

/// Writes the key to the runtime directory of a service or login, else to the directory for temporary files. Never follows a
/// link, never overwrites a file.
fn write_key(key: &Key, port: u16) -> io::Result<PathBuf> {
    let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute() && dir.is_dir());
    let directory = given("RUNTIME_DIRECTORY").or_else(|| given("XDG_RUNTIME_DIR")).unwrap_or_else(std::env::temp_dir);
    write_beside(&directory, &format!("hairpin-{port}-{}", std::process::id()), &format!("{}\n", key.to_text()))
}

/// Writes NAME.key, else NAME-2.key and so on: a server that was killed has left its file, and in a container the next one has
/// the same process id.
fn write_beside(directory: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    let mut path = directory.join(format!("{name}.key"));
    for number in 2..10_000 {
        match write_anew(&path, text) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => path = directory.join(format!("{name}-{number}.key")),
            written => return written,
        }
    }
    write_anew(&path, text)
}

fn write_anew(path: &Path, text: &str) -> io::Result<PathBuf> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(named)?;
    if let Err(error) = file.write_all(text.as_bytes()) {
        let _ = fs::remove_file(path);
        return Err(named(error));
    }
    Ok(path.into())
}

pub(super) fn ports(text: &str) -> Result<(u16, u16), String> {
    let pair = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    pair.filter(|(first, last)| *first > 0 && first <= last)
        .ok_or_else(|| format!("\"{text}\" is not a range of ports: write A-B, such as 24500-24599"))
}

/// A list of CPUs, as one value.
#[derive(Clone, Debug)]
struct Cpus(Vec<u32>);

fn cpus(text: &str) -> Result<Cpus, String> {
    hairpin_tune::parse_cpus(text).map(Cpus)
}

fn fifo(text: &str) -> Result<u8, String> {
    match schedule(text)? {
        Schedule::Fifo(priority) => Ok(priority),
        Schedule::Other => Err("every client may have that: write fifo:N".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn names_the_reason_that_it_cannot_listen() {
        for (kind, part) in [
            (io::ErrorKind::AddrInUse, "another hairpin serve"),
            (io::ErrorKind::AddrNotAvailable, "no such address"),
            (io::ErrorKind::PermissionDenied, "need root"),
        ] {
            let text = cannot_listen("192.0.2.1:7", &kind.into());
            assert!(text.starts_with("cannot listen on 192.0.2.1:7: ") && text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_link_local_address_takes_its_interface() {
        let listen = |text: &str| address(&text.parse().unwrap(), "--listen").map_err(|failure| format!("{failure:?}"));
        assert_eq!(listen("[::1%lo]:7").unwrap(), listen("[::1%1]:7").unwrap());
        assert!(listen("fe80::1").unwrap_err().contains("[fe80::1%eth0]"));
        assert!(listen("fe80::1%no-such").unwrap_err().contains("there is no interface"));
        let lo: HostPort = "[::1%lo]:7".parse().unwrap();
        assert_eq!(shown(address(&lo, "--listen").unwrap(), &lo), "[::1%lo]:7");
    }

    #[test]
    fn a_key_file_is_new_and_its_users_alone() {
        let dir = std::env::temp_dir().join(format!("hairpin-key-test-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let path = write_anew(&dir.join("a.key"), "x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write_anew(&path, "y").unwrap_err().to_string().contains("a.key"), "never over another");
        for name in ["a-2.key", "a-3.key"] {
            assert_eq!(write_beside(&dir, "a", "z").unwrap(), dir.join(name), "one that was killed leaves its file");
        }
        std::os::unix::fs::symlink("/nowhere", dir.join("b.key")).unwrap();
        assert!(write_anew(&dir.join("b.key"), "y").is_err(), "nor through a link");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn granted_cpus_exist() {
        let allowed = allowed_cpus().unwrap();
        assert_eq!(granted_cpus(None).unwrap(), allowed);
        assert_eq!(granted_cpus(Some(vec![allowed[0]])).unwrap(), [allowed[0]]);
        assert!(granted_cpus(Some(vec![60_000])).is_err());
        assert_eq!(fifo("fifo:7"), Ok(7));
        assert!(fifo("other").is_err() && fifo("fifo:100").is_err());
    }
}
