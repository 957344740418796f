//! Attaches the XDP program to an interface: in which mode, and with which of the requested features.
//!
//! ```text
//!   mode asked, or the faster ─▶ load, attach ─ refused ─▶ without metadata ─ refused ─▶ without several pages ─ refused ─▶ the other mode
//!                                     └─────────────────────────────┴──────────────────────────────┴─▶ on the interface
//! ```
//! Each step back records its reason.

use std::io;

use hairpin_sys::bpf::{BpfError, Xdp, XdpLink, XdpState};
use hairpin_sys::netlink::LinkFacts;
use rustix::io::Errno;

use super::faster::{self, Choice};
use super::program::Program;
use crate::device::{Config, OpenError, is, step};
use crate::granted::{Feature, Mode, Refused};

/// The largest MTU at which a frame fits into a page in the driver, beside the kernel's headroom and tail (`veth_xdp_set`; other
/// drivers are near it). Above it native mode takes only programs for several pages.
const NATIVE_IN_A_PAGE: u32 = 3506;

/// A program on an interface.
pub(super) struct Attached {
    pub(super) program: Program,
    pub(super) link: XdpLink,
    pub(super) mode: Mode,
    /// The reason for the mode, if it was not requested.
    pub(super) mode_why: Option<String>,
    /// The features it was loaded with.
    pub(super) xdp: Xdp,
}

/// Why a program could not be attached.
enum Failure {
    Load(BpfError),
    Attach(BpfError),
}

impl Failure {
    fn error(&self) -> &BpfError {
        match self {
            Failure::Load(error) | Failure::Attach(error) => error,
        }
    }

    fn why(&self) -> String {
        let error = self.error();
        match error.log.lines().find(|line| !line.trim().is_empty()) {
            Some(line) => format!("{} ({})", error.source, line.trim()),
            None => error.source.to_string(),
        }
    }
}

/// Properties of the device and its frames that decide which program is loaded.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    /// Receive queues of the device.
    pub(super) queues: u32,
    /// Frames have several pages.
    pub(super) pages: bool,
    /// Metadata was requested, and the driver tells some.
    pub(super) metadata: bool,
}

/// Attaches the program in the requested mode, or in the faster one.
pub(super) fn attach(link: &LinkFacts, config: &Config, needs: Needs, refused: &mut Vec<Refused>) -> Result<Attached, OpenError> {
    let mut at = |mode, why| place(link, config, needs, (mode, why), refused);
    if let Some(mode) = config.mode {
        return at(mode, None).map_err(|failure| named(link, mode, failure));
    }
    let Choice { mode, why } = faster::of(link, needs.queues);
    let native_why = match mode {
        Mode::Generic => why,
        Mode::Native => match at(mode, Some(why)) {
            Ok(attached) => return Ok(attached),
            Err(failure) => refusal_of_native(link, &failure.error().source),
        },
    };
    let attached = at(Mode::Generic, Some(native_why.clone())).map_err(|failure| named(link, Mode::Generic, failure))?;
    refused.push(Refused { feature: Feature::Native, why: native_why });
    Ok(attached)
}

/// Attaches the program in `mode`, with the features that the kernel and the driver accept.
fn place(
    link: &LinkFacts,
    config: &Config,
    needs: Needs,
    (mode, mode_why): (Mode, Option<String>),
    refused: &mut Vec<Refused>,
) -> Result<Attached, Failure> {
    let (native, pages) = (mode == Mode::Native, needs.pages);
    // In generic mode a program for several pages costs each frame about 0.2 us, so it is used only if needed.
    let mut xdp =
        Xdp { pages: pages || (native && link.mtu > NATIVE_IN_A_PAGE), device: (native && needs.metadata).then_some(link.index) };
    let mut missing = Vec::new();
    if config.metadata && !native {
        let why = "generic XDP has no device to ask: only native mode has";
        missing.extend(METADATA.map(|feature| Refused { feature, why: why.into() }));
    }
    loop {
        let placed = Program::load(config.filter, needs.queues, xdp).map_err(Failure::Load).and_then(|program| {
            let attached = program.attach(link.index, mode).map_err(Failure::Attach)?;
            Ok((program, attached))
        });
        let failure = match placed {
            Ok((program, attached)) => {
                refused.append(&mut missing);
                return Ok(Attached { program, link: attached, mode, mode_why, xdp });
            }
            Err(failure) => failure,
        };
        let final_one = matches!(Errno::from_io_error(&failure.error().source), Some(Errno::PERM | Errno::BUSY | Errno::EXIST));
        if !final_one && xdp.device.take().is_some() {
            let why = format!("the program that asks the device was refused: {}", failure.why());
            missing.extend(METADATA.map(|feature| Refused { feature, why: why.clone() }));
        } else if !final_one && std::mem::take(&mut xdp.pages) {
            if pages {
                let why = format!("the program for frames of several pages was refused: {}", failure.why());
                missing.push(Refused { feature: Feature::MultiBuffer, why });
            }
        } else {
            return Err(failure);
        }
    }
}

/// The metadata that the program asks the device for.
pub(super) const METADATA: [Feature; 3] = [Feature::HardwareTime, Feature::Hash, Feature::Vlan];

/// The XDP state of the interface; an error if another program is attached: the kernel would refuse ours, and theirs would
/// not see our frames.
pub(super) fn foreign(link: &LinkFacts) -> Result<XdpState, OpenError> {
    let state = XdpState::of(link.index);
    let state = state.map_err(|error| step("read the XDP programs", link.name.clone(), io::Error::other(error)))?;
    let there = state.native.map(|id| (id, Mode::Native)).or(state.generic.map(|id| (id, Mode::Generic)));
    there.map_or(Ok(state), |(id, mode)| Err(OpenError::ForeignProgram { interface: link.name.clone(), id, mode }))
}

fn refusal_of_native(link: &LinkFacts, source: &io::Error) -> String {
    match (Errno::from_io_error(source), link.kind.as_deref()) {
        (Some(Errno::OPNOTSUPP), _) => format!("the driver of {} has no native XDP (EOPNOTSUPP)", link.name),
        // drivers/net/veth.c, veth_xdp_set().
        (Some(Errno::NOSPC), Some("veth")) => {
            format!(
                "{} has fewer receive queues than its peer has transmit queues (ENOSPC): ip link add … numrxqueues N",
                link.name
            )
        }
        (Some(Errno::RANGE), Some("veth")) => {
            format!(
                "the MTU of the peer of {} is more than native XDP takes (ERANGE): use one of up to {NATIVE_IN_A_PAGE} bytes",
                link.name
            )
        }
        (Some(Errno::NOTCONN), Some("veth")) => format!("{} has no peer (ENOTCONN)", link.name),
        _ => format!("the driver of {} refused native XDP: {source}", link.name),
    }
}

/// The failure as an error of the open.
fn named(link: &LinkFacts, mode: Mode, failure: Failure) -> OpenError {
    let interface = link.name.clone();
    let errno = Errno::from_io_error(&failure.error().source);
    match failure {
        failure if is(&failure.error().source, Errno::PERM) => OpenError::Capability {
            what: "AF_XDP",
            interface,
            capabilities: "CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_IPC_LOCK",
            remedy: "run as root, or give the program the capabilities (setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock+ep); \
                     a user namespace does not do, AF_PACKET works there",
        },
        Failure::Load(error) => step("load the XDP program", interface, io::Error::other(error)),
        Failure::Attach(error) => match (errno, mode, foreign(link)) {
            (Some(Errno::BUSY | Errno::EXIST), _, Err(there)) => there,
            (_, Mode::Native, _) => {
                OpenError::Config(format!("native XDP was asked for: {}", refusal_of_native(link, &error.source)))
            }
            (_, Mode::Generic, _) => step("attach the XDP program", interface, error.source),
        },
    }
}
