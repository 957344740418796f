//! Finds the connections that would be cut off if every frame of an interface were sent back instead of received.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hairpin_packet::filter::Filter;
use hairpin_sys::host::Host;

/// Ethertypes that a host depends on: IPv4, ARP, IPv6.
const VITAL: [u16; 3] = [0x0800, 0x0806, 0x86dd];
/// The flag of a loopback device (`linux/if.h`).
const IFF_LOOPBACK: u32 = 0x8;
/// `ESTABLISHED` in /proc/net/tcp (`net/tcp_states.h`).
const ESTABLISHED: &str = "01";

/// Says which connection of this host would be cut off; `None` if none is known. `addresses_of` gives those of an interface,
/// `ssh` is the value of $SSH_CONNECTION. Only reads.
pub fn cut_off(
    host: &dyn Host,
    interface: &str,
    addresses_of: &dyn Fn(&str) -> Vec<IpAddr>,
    filter: Filter,
    ssh: Option<&str>,
) -> Option<String> {
    match filter {
        Filter::All => {}
        Filter::Ethertype(number) if VITAL.contains(&number) => {}
        _ => return None,
    }
    with_uppers(host, interface).iter().find_map(|one| carried_by(host, one, &addresses_of(one), ssh))
}

/// The interface, and those above it (a bridge, a bond, a VLAN), whose frames pass through it.
fn with_uppers(host: &dyn Host, interface: &str) -> Vec<String> {
    let (mut all, mut at) = (vec![interface.to_owned()], 0);
    while let Some(one) = all.get(at) {
        let names = host.list(&format!("/sys/class/net/{one}")).unwrap_or_default();
        for name in names.iter().filter_map(|name| name.strip_prefix("upper_")) {
            if all.iter().all(|known| known != name) {
                all.push(name.to_owned());
            }
        }
        at += 1;
    }
    all
}

/// The connection of this host that an interface with these addresses carries.
fn carried_by(host: &dyn Host, interface: &str, addresses: &[IpAddr], ssh: Option<&str>) -> Option<String> {
    // The flags are hexadecimal; one of them is IFF_LOOPBACK (netdevice(7)).
    let flags = host.read(&format!("/sys/class/net/{interface}/flags")).unwrap_or_default();
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or(0);
    if flags & IFF_LOOPBACK != 0 {
        return Some("all that programs of this host say to each other".into());
    }
    // $SSH_CONNECTION: client's address and port, server's address and port (sshd(8)).
    let ssh = ssh.and_then(|ssh| ssh.split(' ').nth(2)).and_then(|address| address.parse::<IpAddr>().ok());
    if ssh.is_some_and(|address| addresses.contains(&address)) {
        return Some("the ssh connection that this command came over".into());
    }
    if default_route(host, interface) {
        return Some("this host's default route".into());
    }
    let connections = ["tcp", "tcp6"].iter().flat_map(|table| established(host, table));
    let count = connections.filter(|address| addresses.contains(&address.to_canonical())).count();
    (count > 0).then(|| format!("{count} established TCP connections of this host"))
}

/// The addresses of an interface; empty if they cannot be read.
pub fn addresses_of(interface: &str) -> Vec<IpAddr> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    all.into_iter().filter(|one| one.name == interface).map(|one| one.ip()).collect()
}

/// True if a default route leaves through the interface (/proc/net/route, /proc/net/ipv6_route).
fn default_route(host: &dyn Host, interface: &str) -> bool {
    let v4 = host.read("/proc/self/net/route").unwrap_or_default();
    // Fields: name, destination, gateway, flags, …; the eighth is the mask.
    let v4 = v4.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut v4 = v4.filter(|fields| fields.first() == Some(&interface));
    let v6 = host.read("/proc/self/net/ipv6_route").unwrap_or_default();
    // Fields: destination, its prefix length, …; the last is the name.
    let v6 = v6.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut v6 = v6.filter(|fields| fields.last() == Some(&interface));
    let zero = |field: Option<&&str>| field.is_some_and(|field| field.bytes().all(|digit| digit == b'0'));
    v4.any(|fields| zero(fields.get(1)) && zero(fields.get(7))) || v6.any(|fields| zero(fields.first()) && zero(fields.get(1)))
}

/// Local addresses of established connections.
fn established(host: &dyn Host, table: &str) -> Vec<IpAddr> {
    let text = host.read(&format!("/proc/self/net/{table}")).unwrap_or_default();
    text.lines()
        .skip(1)
        .filter_map(|line| {
            // Fields: number, local address:port, remote address:port, state.
            let fields: Vec<&str> = line.split_whitespace().collect();
            (*fields.get(3)? == ESTABLISHED).then(|| address(fields[1].split(':').next()?))?
        })
        .collect()
}

/// Parses an address as the kernel prints it: hexadecimal words of 32 bits, each in the host's byte order.
fn address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let bytes = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_sys::host::FakeHost;

    const ROUTE: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                         eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                         eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n";
    const ROUTE6: &str = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth2\n\
                          00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";
    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                       0: 0100000A:0016 0200000A:9C40 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 30 10 -1\n\
                       1: 0300000A:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 30 10 -1\n";

    fn host() -> (tempfile::TempDir, FakeHost) {
        let dir = tempfile::tempdir().unwrap();
        let host = FakeHost::at(dir.path())
            .with("/proc/self/net/route", ROUTE)
            .with("/proc/self/net/ipv6_route", ROUTE6)
            .with("/proc/self/net/tcp", TCP)
            .with("/sys/class/net/eth1/flags", "0x1003\n")
            .with("/sys/class/net/lo/flags", "0x9\n");
        (dir, host)
    }

    #[test]
    fn default_routes_connections_and_ssh_are_lifelines() {
        let (_dir, host) = host();
        let says =
            |interface, address: &str, ssh| cut_off(&host, interface, &|_| vec![address.parse().unwrap()], Filter::All, ssh);
        assert_eq!(says("eth0", "192.0.2.1", None).unwrap(), "this host's default route");
        assert_eq!(says("eth2", "192.0.2.1", None).unwrap(), "this host's default route");
        assert_eq!(says("eth1", "10.0.0.1", None).unwrap(), "1 established TCP connections of this host");
        assert_eq!(says("eth1", "10.0.0.3", None), None, "one that only listens");
        assert_eq!(says("lo", "127.0.0.1", None).unwrap(), "all that programs of this host say to each other");
        let ssh = Some("192.0.2.9 40000 10.0.0.3 22");
        assert_eq!(says("eth1", "10.0.0.3", ssh).unwrap(), "the ssh connection that this command came over");
    }

    #[test]
    fn an_interface_carries_what_those_above_it_carry() {
        let (_dir, host) = host();
        let host = host
            .with_directory("/sys/class/net/eth3/upper_bond0")
            .with_directory("/sys/class/net/bond0/lower_eth3")
            .with_directory("/sys/class/net/bond0/upper_eth0")
            .with_directory("/sys/class/net/eth4/upper_br0")
            .with_directory("/sys/class/net/eth5/upper_br1");
        let addresses = |of: &str| if of == "br0" { vec![IpAddr::from([10, 0, 0, 1])] } else { Vec::new() };
        let says = |interface| cut_off(&host, interface, &addresses, Filter::All, None);
        assert_eq!(says("eth3").unwrap(), "this host's default route");
        assert_eq!(says("eth4").unwrap(), "1 established TCP connections of this host");
        assert_eq!(says("eth5"), None);
    }

    #[test]
    fn only_filters_that_match_host_traffic_cut_it_off() {
        let (_dir, host) = host();
        let says = |filter: &str| cut_off(&host, "eth0", &|_| Vec::new(), filter.parse().unwrap(), None).is_some();
        assert!(says("all") && says("ethertype:0x0800") && says("ethertype:0x86dd") && says("ethertype:0x0806"));
        assert!(!says("ethertype:0x88b5") && !says("udp:24445"));
    }

    #[test]
    fn addresses_read_as_the_kernel_writes_them() {
        assert_eq!(address("0100007F"), Some([127, 0, 0, 1].into()));
        assert_eq!(address("00000000000000000000000001000000"), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(address("0100"), None);
    }
}
