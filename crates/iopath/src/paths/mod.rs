//! One file per path.

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
pub mod xdp;
