//! `hairpin completions` and `hairpin man`: from the same definitions as --help.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::Shell;
use hairpin_plan::paths::PATHS;

use crate::exit::{Failure, say};
use crate::help::{self, Face};
use crate::output::print;

/// Print shell completions
#[derive(Debug, Args)]
pub struct Completions {
    /// For which shell
    shell: Shell,
}

impl Completions {
    /// Prints the completions.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut with_values(help::dressed()), "hairpin", &mut text);
        print(&String::from_utf8_lossy(&text))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The command with the values that a shell may offer. Only for completions: each flag takes more than these.
fn with_values(command: Command) -> Command {
    let verb = command.get_name().to_owned();
    let command = command.mut_args(|arg| match values(&verb, arg.get_id().as_str()) {
        offered if offered.is_empty() => arg,
        offered => arg.value_parser(PossibleValuesParser::new(offered)),
    });
    command.mut_subcommands(with_values)
}

fn values(verb: &str, id: &str) -> Vec<String> {
    let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    match (verb, id) {
        (_, "paths") => {
            let of = |path: &hairpin_plan::path::Path| {
                let with = path.policies.iter().map(|policy| format!("{}:{}", path.name, policy.name()));
                std::iter::once(path.name.to_owned()).chain(with).collect::<Vec<_>>()
            };
            PATHS.iter().flat_map(|path| of(path)).collect()
        }
        ("stream", "link") => owned(&["veth"]),
        (_, "link" | "host") if verb != "sweep" || id == "link" => owned(&["loopback", "veth"]),
        ("compare", "words") => owned(&["loopback", "veth", "latest", "latest~1"]),
        ("show" | "export" | "rm" | "report" | "watch", "run" | "runs" | "what") => owned(&["latest", "latest~1"]),
        (_, "baseline" | "fit") => owned(&["latest", "latest~1"]),
        ("list" | "revert", "names" | "knobs") => hairpin_tune::all().map(|knob| knob.name.to_owned()).collect(),
        ("apply" | "try" | "compare" | "sweep", "settings" | "knobs") => {
            hairpin_tune::all().map(|knob| format!("{}=", knob.name)).collect()
        }
        _ => Vec::new(),
    }
}

/// Write man pages
#[derive(Debug, Args)]
pub struct Man {
    /// Directory to write them to
    directory: PathBuf,
}

impl Man {
    /// Writes the man pages.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let mut command = help::dressed();
        command.build();
        write(&command, &self.directory)
            .map_err(|error| Failure::failed(format_args!("cannot write man pages to {}: {error}", self.directory.display())))?;
        say(format_args!("man pages are in {}", self.directory.display()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the page of a command and those of its verbs.
fn write(command: &Command, directory: &Path) -> io::Result<()> {
    let name = command.get_bin_name().unwrap_or("hairpin").replace(' ', "-");
    let face = help::face_of(command);
    // The examples stand at the end of --help; a page has a section of them.
    let of_page = command.clone().name(name.clone()).after_long_help("");
    let page = clap_mangen::Man::new(of_page).title(&name);
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    face.map_or(Ok(()), |face| examples(face, &mut text))?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        page.render_options_section(&mut text)?;
    }
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        page.render_subcommands_section(&mut text)?;
    }
    fs::write(directory.join(format!("{name}.1")), text)?;
    command.get_subcommands().filter(|inner| !inner.is_hide_set()).try_for_each(|inner| write(inner, directory))
}

fn examples(face: &Face, text: &mut impl io::Write) -> io::Result<()> {
    let plain = |text: &str| text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    writeln!(text, ".SH EXAMPLES")?;
    for (line, what) in face.examples {
        writeln!(text, ".PP\n\\&{}\n.PP\n.nf\n    {}\n.fi", plain(what), plain(line))?;
    }
    Ok(())
}
