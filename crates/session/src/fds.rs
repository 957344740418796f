//! The agreement between a parent and its worker: the program, its hidden verb, and the descriptor numbers.

use std::os::fd::RawFd;
use std::path::Path;

/// The hidden verb under which a program starts itself as a worker.
pub const VERB: &str = "__worker";
/// The socket to the parent.
pub const CONTROL_FD: RawFd = 3;
/// The shared area with the stop flag.
pub const STOP_FD: RawFd = 4;
/// The area shared with the other side's worker, if there is one.
pub const NEIGHBOUR_FD: RawFd = 5;
/// The area for the stamps of each transaction, if a tracer reads them.
pub const STAMPS_FD: RawFd = 6;

/// The program to start as a worker: this one.
pub fn program() -> &'static Path {
    Path::new("/proc/self/exe")
}
