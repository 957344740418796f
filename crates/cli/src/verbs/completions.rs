//! `hairpin completions` and `hairpin man`: from the same definitions as --help.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::complete;
use crate::exit::{Failure, say};
use crate::front;
use crate::help;
use crate::line;
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
        print(&complete::script(self.shell)?)?;
        Ok(ExitCode::SUCCESS)
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
        let command = line::command().ok_or_else(|| Failure::failed("no command line was read"))?;
        write(command, &self.directory)
            .map_err(|error| Failure::failed(format_args!("cannot write man pages to {}: {error}", self.directory.display())))?;
        say(format_args!("man pages are in {}", self.directory.display()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the page of a command and those of its verbs.
fn write(command: &Command, directory: &Path) -> io::Result<()> {
    let name = command.get_bin_name().unwrap_or("hairpin").replace(' ', "-");
    let first = if name == "hairpin" { front::FIRST } else { &[] };
    let lines = help::face_of(command).map_or(first, |face| face.examples);
    // The examples stand at the end of --help; a man page has a section for them.
    let of_page = command.clone().name(name.clone()).after_long_help("");
    let page = clap_mangen::Man::new(of_page).title(&name);
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    // Synopses have many long words, so that justified lines would have wide gaps.
    writeln!(text, ".ad l")?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    if !lines.is_empty() {
        examples(lines, &mut text)?;
    }
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        page.render_options_section(&mut text)?;
    }
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        page.render_subcommands_section(&mut text)?;
    }
    fs::write(directory.join(format!("{name}.1")), text)?;
    command.get_subcommands().filter(|inner| !inner.is_hide_set()).try_for_each(|inner| write(inner, directory))
}

fn examples(lines: &[(&str, &str)], text: &mut impl Write) -> io::Result<()> {
    let plain = |text: &str| text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    writeln!(text, ".SH EXAMPLES")?;
    for (line, what) in lines {
        writeln!(text, ".PP\n\\&{}\n.PP\n.nf\n    {}\n.fi", plain(what), plain(line))?;
    }
    Ok(())
}
