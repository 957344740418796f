//! What a parent and its worker agree on: the program, its hidden verb, and which descriptor is which.

use std::os::fd::RawFd;
use std::path::Path;

/// The hidden verb under which a program starts itself as a worker.
pub const VERB: &str = "__worker";
/// Where the worker finds the socket to its parent …
pub const CONTROL_FD: RawFd = 3;
/// … the area in which it is told to stop …
pub const STOP_FD: RawFd = 4;
/// … the area it shares with the other side's worker, if there is one …
pub const NEIGHBOUR_FD: RawFd = 5;
/// … and the one in which it leaves the stamps of each transaction, if a tracer wants them.
pub const STAMPS_FD: RawFd = 6;

/// The program to start as a worker: this one.
pub fn program() -> &'static Path {
    Path::new("/proc/self/exe")
}
