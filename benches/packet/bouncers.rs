//! The bouncers: hairpin, DPDK's testpmd over AF_XDP, and xdp-bench, which sends frames back in the kernel.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::super::children::{Guarded, pinned, run, start};
use super::super::peers::veth::Veth;
use super::generate::{Came, Load};

/// One way to send frames back with both MACs swapped, or all in the kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bouncer {
    /// `hairpin bounce --io SPEC --flush FLUSH`.
    Hairpin { io: &'static str, flush: String },
    /// `dpdk-testpmd --vdev net_af_xdp`, copy mode, macswap.
    Testpmd,
    /// `xdp-bench tx`: XDP_TX in the driver, no user space.
    XdpBench,
}

/// Everything that runs need.
pub(crate) struct Yard<'a> {
    /// hairpin.
    program: &'a Path,
    /// The generator's CPU and the bouncer's.
    cpus: [u32; 2],
    pub(crate) veth: &'a Veth,
    /// MACs of the client's end and of the server's.
    pub(crate) macs: [[u8; 6]; 2],
}

impl Yard<'_> {
    pub(crate) fn new<'a>(program: &'a Path, cpus: [u32; 2], veth: &'a Veth) -> Result<Yard<'a>, String> {
        let mac = |namespace: &str, interface: &str| -> Result<[u8; 6], String> {
            let text = run(Command::new("ip").args(["-n", namespace, "-j", "link", "show", interface]), Duration::from_secs(10))?;
            let links: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            let text = links[0]["address"].as_str().ok_or("ip says no address")?;
            let bytes: Vec<u8> = text.split(':').filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
            bytes.try_into().map_err(|_| format!("{text} is no MAC"))
        };
        Ok(Yard { program, cpus, veth, macs: [mac(&veth.client, "peer0")?, mac(&veth.server, "peer1")?] })
    }

    pub(crate) fn command(&self, bouncer: &Bouncer) -> Command {
        let cpu = self.cpus[1];
        let namespace = Some(self.veth.server.as_str());
        match bouncer {
            Bouncer::Hairpin { io, flush } => {
                let mut command = pinned(namespace, cpu, &self.program.to_string_lossy());
                command.args(["bounce", "--no-store", "-i", "peer1", "--io", io, "--flush", flush, "--rewrite", "macs"]);
                command.args(["--filter", "ethertype:0x88b5", "--cpu", &cpu.to_string(), "--json-stream"]);
                command
            }
            Bouncer::Testpmd => {
                // Its main core only prints; the other forwards. EAL wants two, and takes the lower one as the main one unless
                // told.
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &self.veth.server, "setpriv", "--pdeathsig", "KILL", "dpdk-testpmd"]);
                command.args(["--no-huge", "-m", "256", "--no-pci", "--no-telemetry", "-l"]);
                command.arg(format!("{},{cpu}", self.cpus[0])).args(["--main-lcore", &self.cpus[0].to_string()]);
                command.args(["--vdev", "net_af_xdp0,iface=peer1,force_copy=1", "--", "--forward-mode=macswap", "--nb-cores=1"]);
                command.args(["--total-num-mbufs=16384", "--stats-period=3600", "--no-lsc-interrupt"]);
                command
            }
            Bouncer::XdpBench => {
                let mut command = pinned(namespace, cpu, "xdp-bench");
                command.args(["tx", "peer1", "-p", "swap-macs", "-m", "native", "-i", "3600"]);
                command
            }
        }
    }

    /// Runs `load` against `bouncer`; both processes are gone when this returns.
    pub(crate) fn measure(&self, bouncer: &Bouncer, load: Load) -> Result<Came, String> {
        let server = start(&mut self.command(bouncer))?;
        let exe = std::env::current_exe().map_err(|e| format!("this benchmark's own program: {e}"))?;
        let mut client = pinned(Some(&self.veth.client), self.cpus[0], &exe.to_string_lossy());
        client.args(["packet", "--generate", &serde_json::to_string(&load).map_err(|e| e.to_string())?]);
        let text = run(&mut client, Duration::from_secs(40));
        let ended = end(server);
        if !matches!(bouncer, Bouncer::Hairpin { .. }) {
            // libxdp leaves its program on the interface where there is no bpffs; hairpin would refuse to put its own there.
            run(
                Command::new("ip").args(["-n", &self.veth.server, "link", "set", "peer1", "xdp", "off"]),
                Duration::from_secs(10),
            )?;
        }
        let text = text.map_err(|why| match &ended {
            Err(server) => format!("{why}; {server}"),
            Ok(_) => why,
        })?;
        serde_json::from_str(text.lines().last().unwrap_or("")).map_err(|e| format!("the generator said {text:?}: {e}"))
    }

    /// A load for this pair of interfaces.
    pub(crate) fn load(&self, frame: usize, window: usize, ms: u64) -> Load {
        Load { interface: "peer0".into(), to: self.macs[1], from: self.macs[0], frame, window, ms }
    }
}

/// Ends a bouncer as a user would, so that it takes its XDP program along.
fn end(server: Guarded) -> Result<String, String> {
    // If it has ended already, finish() reports the reason.
    let _ = server.signal(Signal::INT);
    server.finish(Duration::from_secs(10))
}
