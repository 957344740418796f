//! `hairpin paths`.

use std::process::ExitCode;

use clap::Args;
use hairpin_iopath::paths::runner;
use hairpin_iopath::runner::Support;
use hairpin_plan::paths::PATHS;
use hairpin_report::PathRow;
use hairpin_session::link::LinkSpec;
use serde_json::json;

use crate::exit::Failure;
use crate::output::{colour, print};

/// List the ways to do a round trip
#[derive(Debug, Args)]
pub struct Paths {
    /// The link they are asked about
    #[arg(long, value_name = "LINK", default_value = "loopback")]
    link: LinkSpec,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Paths {
    /// Lists them. Only reads.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let rows: Vec<PathRow> = PATHS
            .iter()
            .map(|path| PathRow {
                path: path.name.into(),
                speaks: path.speaks.to_string(),
                policies: path.policies.iter().map(|policy| policy.name().to_owned()).collect(),
                options: path.options.iter().map(|option| option.name.to_owned()).collect(),
                support: match runner(path).probe(self.link.kind()) {
                    Support::Yes => hairpin_report::Support::Yes,
                    Support::Degraded(why) => hairpin_report::Support::Degraded(why),
                    Support::No(why) => hairpin_report::Support::No(why),
                },
                summary: path.summary.into(),
            })
            .collect();
        print(&if self.json { as_json(&rows) } else { hairpin_report::paths(&rows, 80, colour()) })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn as_json(rows: &[PathRow]) -> String {
    let paths: Vec<_> = PATHS
        .iter()
        .zip(rows)
        .map(|(path, row)| {
            let (support, why) = match &row.support {
                hairpin_report::Support::Yes => ("yes", None),
                hairpin_report::Support::Degraded(why) => ("degraded", Some(why)),
                hairpin_report::Support::No(why) => ("no", Some(why)),
            };
            let options: Vec<_> = path
                .options
                .iter()
                .map(|option| json!({"name": option.name, "values": option.values.to_string(), "default": option.default, "doc": option.doc}))
                .collect();
            json!({
                "path": row.path, "summary": row.summary, "speaks": row.speaks, "policies": row.policies, "options": options,
                "support": support, "why": why,
            })
        })
        .collect();
    hairpin_report::json(&json!({"schema": "hairpin.paths/1", "paths": paths}))
}
