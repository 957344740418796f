//! One file per path, and the list of runners.

use hairpin_plan::path::Path;
use hairpin_plan::paths;

use crate::runner::Runner;

pub mod eventfd;
pub mod memory;
pub mod niq;
pub mod packet;
pub mod pipe;
pub mod tcp;
pub mod tcp_crr;
pub mod udp;
pub mod unix;
pub mod unix_dgram;
pub mod uring_tcp;
pub mod uring_udp;
pub mod xdp;

/// Every path's facts with its runner.
static RUNNERS: [(&Path, &dyn Runner); 13] = [
    (&paths::TCP, &tcp::Tcp),
    (&paths::TCP_CRR, &tcp_crr::TcpCrr),
    (&paths::UDP, &udp::Udp),
    (&paths::URING_TCP, &uring_tcp::UringTcp),
    (&paths::URING_UDP, &uring_udp::UringUdp),
    (&paths::PACKET, &packet::Packet),
    (&paths::XDP, &xdp::Xdp),
    (&paths::UNIX, &unix::Unix),
    (&paths::UNIX_DGRAM, &unix_dgram::UnixDgram),
    (&paths::PIPE, &pipe::Pipe),
    (&paths::EVENTFD, &eventfd::Eventfd),
    (&paths::MEMORY, &memory::Memory),
    (&paths::NIQ, &niq::Niq),
];

/// The runner of `path`.
///
/// # Panics
/// Never: a test finds every path in the list.
pub fn runner(path: &Path) -> &'static dyn Runner {
    let found = RUNNERS.iter().find(|(listed, _)| *listed == path);
    found.map(|(_, runner)| *runner).unwrap_or_else(|| unreachable!("no runner of {}", path.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_its_runner() {
        let listed: Vec<&str> = RUNNERS.iter().map(|(path, _)| path.name).collect();
        assert_eq!(listed, paths::PATHS.iter().map(|path| path.name).collect::<Vec<_>>());
    }
}
