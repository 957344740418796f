//! Facts about a side that a tracer needs: its thread and its sockets.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use hairpin_sys::shared::{Announced, Stamps};
use hairpin_sys::socket::cookie;
use hairpin_sys::thread;

/// Reports to a tracer this thread, and the sockets it sends and receives on, if any.
pub(crate) fn tell(stamps: Option<&Stamps>, sends_on: Option<BorrowedFd<'_>>, receives_on: Option<BorrowedFd<'_>>) {
    // Only sockets have a cookie; a pipe has none.
    let told = |socket: Option<BorrowedFd<'_>>| socket.and_then(|socket| cookie(&socket).ok()).unwrap_or(0);
    if let Some(stamps) = stamps {
        let port = receives_on.and_then(local_port).unwrap_or(0);
        stamps.announce(Announced { thread: thread::id(), sends_on: told(sends_on), receives_on: told(receives_on), port });
    }
}

/// The port of an IP socket.
fn local_port(socket: BorrowedFd<'_>) -> Option<u16> {
    let address = SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    Some(address.port())
}

/// Reports at least the thread, for paths without sockets.
pub(super) fn tell_if_untold(stamps: Option<&Stamps>) {
    if stamps.is_some_and(|stamps| stamps.announced().thread == 0) {
        tell(stamps, None, None);
    }
}
