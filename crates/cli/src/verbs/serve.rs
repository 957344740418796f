//! `hairpin serve`.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use hairpin_lab::serve::{Service, serve};
use hairpin_lab::session::key::Key;
use hairpin_lab::store::rfc3339;
use hairpin_sys::host::{Host, RealHost};

use crate::exit::{Failure, say};
use crate::flags::{HostPort, PORT, load_key};
use crate::output::print;
use crate::verbs::ping::signals;

/// Answer the requests of `hairpin ping` on another host
#[derive(Debug, Args)]
pub struct Serve {
    /// Where sessions are taken; any address but loopback needs a key
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1:24444")]
    listen: HostPort,
    /// The key that every client must have; without it, and not on loopback, one is made and printed
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// First and last port for measured traffic, such as 24500-24599; the kernel chooses if not given
    #[arg(long, value_name = "A-B", value_parser = ports)]
    data_ports: Option<(u16, u16)>,
}

impl Serve {
    /// Serves until Ctrl-C.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let signals = signals()?;
        let ip: IpAddr = self.listen.host.parse().map_err(|_| {
            Failure::usage(format_args!(
                "--listen takes an address of this host, such as 0.0.0.0 or [::], not \"{}\"",
                self.listen.host
            ))
        })?;
        let address = SocketAddr::new(ip, self.listen.port.unwrap_or(PORT));
        let given = self.key_file.as_deref().map(load_key).transpose()?;
        let listener = TcpListener::bind(address).map_err(|error| {
            Failure::failed(format_args!("cannot listen on {address}: {error}; is another hairpin serve running? (see --listen)"))
        })?;
        let address = listener.local_addr().map_err(|error| Failure::failed(format_args!("cannot read the address: {error}")))?;
        let key = match given {
            None if !ip.is_loopback() => Some(announce_key(address)?),
            given => given,
        };
        say(format_args!("hairpin serves on {address}; Ctrl-C ends it"));
        let log = |line: String| say(format_args!("{} {line}", rfc3339(SystemTime::now())));
        serve(&listener, Service { key, ports: self.data_ports }, &signals, &log)
            .map_err(|error| Failure::failed(format_args!("cannot serve on {address}: {error}")))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Makes a key and prints what to type on the client.
fn announce_key(address: SocketAddr) -> Result<Key, Failure> {
    let key = Key::generate().map_err(Failure::failed)?;
    let host = match address.ip().is_unspecified() {
        true => RealHost.read("/proc/sys/kernel/hostname").unwrap_or_else(|_| "HOST".into()),
        false => address.ip().to_string(),
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let port = if address.port() == PORT { String::new() } else { format!(":{}", address.port()) };
    say("on the client, the key and the measurement:");
    print(&format!("(umask 077; echo {} > hairpin.key)\nhairpin ping {host}{port} --key-file hairpin.key\n", key.to_text()))?;
    Ok(key)
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    let pair = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    pair.filter(|(first, last)| *first > 0 && first <= last)
        .ok_or_else(|| format!("\"{text}\" is no range of ports: write A-B, such as 24500-24599"))
}
