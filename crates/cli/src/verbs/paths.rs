//! `hairpin paths`.

use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use hairpin_iopath::paths::runner;
use hairpin_iopath::runner::Support;
use hairpin_lab::device_stamps;
use hairpin_plan::option::OptionDef;
use hairpin_plan::path::{LinkKind, Path};
use hairpin_plan::paths::PATHS;
use hairpin_plan::spec::{Spec, SpecError};
use hairpin_record::device::DeviceStamps;
use hairpin_report::{Options, PathOption, PathRow, Paths as Record, Support as Here};
use hairpin_session::link::LinkSpec;
use hairpin_sys::capability::Capability;

use crate::exit::Failure;
use crate::flags::interface_exists;
use crate::output::{Output, options};
use crate::place::Place;
use crate::verbs::ping::signals;

/// List the paths, with this host's support for each
#[derive(Debug, Args)]
pub struct Paths {
    /// These paths only, with their options in full; repeatable. loopback or veth is the link that they are asked about; default
    /// loopback
    #[arg(value_name = "PATH|loopback|veth")]
    names: Vec<Asked>,
    /// The same as loopback or veth
    #[arg(long, value_name = "LINK", hide = true)]
    link: Option<LinkSpec>,
    /// The stamps of this interface: what it claims, its clock, and what is seen on a link made for that
    #[arg(short = 'i', long, value_name = "IF")]
    interface: Option<String>,
    #[command(flatten)]
    output: Output,
}

/// A word after the verb.
#[derive(Clone, Debug)]
enum Asked {
    Link(LinkSpec),
    Path(Spec),
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Asked, String> {
        match text.parse() {
            Ok(Place::Link(link)) => Ok(Asked::Link(link)),
            Err(why) if LinkSpec::is_named(text) => Err(why),
            _ => text.parse().map(Asked::Path).map_err(|error: SpecError| error.to_string()),
        }
    }
}

impl Paths {
    /// Lists the paths, or the stamps of a device. Only reads; it sends over a link of its own alone.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let device = self.interface.as_deref().map(stamps_of).transpose()?;
        let (mut names, mut links) = (Vec::new(), Vec::from_iter(self.link));
        for word in self.names {
            match word {
                Asked::Link(link) => links.push(link),
                Asked::Path(spec) => names.push(spec),
            }
        }
        if links.len() > 1 {
            return Err(Failure::usage("paths are asked about one link at a time: loopback or veth"));
        }
        let link = links.pop().unwrap_or(LinkSpec::Loopback);
        let option = |option: &OptionDef| PathOption {
            name: option.name.into(),
            values: option.values.to_string(),
            default: option.default.into(),
            doc: option.doc.into(),
        };
        let row = |path: &&'static Path| {
            let (support, why) = match runner(path).probe(link.kind()) {
                Support::Yes => (Here::Yes, None),
                Support::Degraded(why) => (Here::Degraded, Some(why)),
                Support::No(why) => (Here::No, Some(why)),
            };
            PathRow {
                path: path.name.into(),
                speaks: path.speaks.to_string(),
                policies: path.policies.iter().map(|policy| policy.name().to_owned()).collect(),
                options: path.options.iter().map(|of| option(of)).collect(),
                support,
                why,
                summary: path.summary.into(),
            }
        };
        let asked = |path: &&&'static Path| names.is_empty() || names.iter().any(|spec| spec.client.path == **path);
        let mut record = Record::new(PATHS.iter().filter(asked).map(row).collect());
        if names.is_empty() {
            record = record.root_adds(root_adds());
        }
        if let Some(device) = device {
            record = record.device(device);
        }
        self.output.print_with(&record, &Options { detail: names.len(), ..options() })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The stamps of a device.
fn stamps_of(interface: &str) -> Result<DeviceStamps, Failure> {
    interface_exists(interface)?;
    // The probe's processes inherit which signals are taken.
    device_stamps::of(interface, &signals()?).map_err(Failure::failed)
}

/// The rows that need rights which this process lacks; each right is looked up by itself.
fn root_adds() -> Vec<&'static str> {
    let lacks = |path: &&&Path| [LinkKind::Loopback, LinkKind::Veth].iter().any(|link| runner(path).lacks(*link).is_some());
    let hooks = [Capability::Bpf, Capability::Perfmon].into_iter().all(Capability::is_effective);
    let mut adds: Vec<&str> = PATHS.iter().filter(lacks).map(|path| path.name).collect();
    adds.extend((!hooks).then_some("stages of explain"));
    adds.extend((!rustix::process::geteuid().is_root()).then_some("tune apply"));
    adds
}
