//! All unsafe code of Hairpin and its unusual requests to the kernel, as safe types.
//!
//! ```text
//!   time        clock, phc              the CPU's counter, the kernel's clocks and a NIC's, related to each other
//!   waiting     wait                    block, poll, epoll, spin, busy-poll, adaptive: once, over file descriptors
//!   sockets     socket, timestamping    options, TCP_INFO, the kernel's stamps of packets
//!               uring                   io_uring over connected sockets
//!               fdpass                  descriptors over a UNIX socket
//!               stack                   libraries that replace the kernel's sockets in a process
//!               message                 send and receive on a connected socket, by the kernel or by such a library
//!   packets     packet_socket           AF_PACKET with a receive ring
//!   memory      shared, umem            cache lines that two processes share; packet memory cut into chunks
//!               armed                   a receiver that falls asleep is woken
//!               niq                     the memory shared by the two ports of an emulated NIC
//!               allocator               freed memory goes back to the kernel
//!   devices     bar, pci                a device's lines: write, flush, read anew; PCI devices and their BARs
//!               phc                     the clock of a NIC
//!   processes   process, signal, thread workers, signals as a descriptor, affinity and scheduling
//!   network     netns, netlink, ethtool namespaces, veth pairs, device settings    device, napi: these settings, each as a text
//!   code        code                    where the measuring loops begin
//!   host        host, capability        /proc and /sys behind a trait, with a fake; the rights of this process
//!               descriptors             the limit of open descriptors
//!               libraries               versions of the C libraries in this process
//! ```

pub mod allocator;
pub mod armed;
pub mod bar;
pub mod bpf;
pub mod capability;
pub mod clock;
pub mod code;
pub mod descriptors;
pub mod device;
pub mod ethtool;
pub mod fdpass;
pub mod host;
pub mod libraries;
pub mod message;
pub mod napi;
pub mod netlink;
pub mod netns;
pub mod niq;
pub mod packet_socket;
pub mod pci;
pub mod phc;
pub mod process;
#[cfg(feature = "preload")]
pub mod program;
pub mod ring;
pub mod shared;
pub mod signal;
pub mod socket;
pub mod stack;
pub mod thread;
pub mod timestamping;
pub mod umem;
#[cfg(feature = "uring")]
pub mod uring;
pub mod wait;
pub mod xsk;
