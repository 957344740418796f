//! `hairpin floor pcie`.

use std::process::ExitCode;

use clap::Args;
use hairpin_lab::pcie::{Ask, READS, blame, open, primitives, probe, published_table};
use hairpin_sys::host::RealHost;
use hairpin_sys::pci::Address;

use crate::exit::{Failure, say};
use crate::flags::whole_in;
use crate::line;
use crate::output::{Keep, Output};

/// At 1 us per read these take 10 seconds.
const MOST_READS: u64 = 10_000_000;

/// Measure the time in which the CPU reads 4 bytes of a PCI device
#[derive(Debug, Args)]
pub struct FloorPcie {
    /// The device, as lspci -D names it, such as 0000:3b:00.0; without it no device is touched
    #[arg(long, value_name = "BDF", requires = "bar", requires = "offset")]
    device: Option<Address>,
    /// Its base address register, 0 to 5, one of memory
    #[arg(long, value_name = "N", value_parser = whole_in(0..=u8::MAX), requires = "device", conflicts_with = "published")]
    bar: Option<u8>,
    /// Offset in the BAR in bytes, a multiple of 4, such as 0x8; reading some registers has an effect on the
    /// device
    #[arg(long, value_name = "X", requires = "device", conflicts_with = "published", value_parser = offset)]
    offset: Option<u64>,
    /// Reads
    #[arg(short = 'c', long, value_name = "N", requires = "device", default_value_t = READS, value_parser = whole_in(1..=MOST_READS), conflicts_with = "published")]
    count: u64,
    /// The published reads of 4 bytes, with mean, deviation, minimum and maximum; nothing is measured
    #[arg(long, conflicts_with = "device")]
    published: bool,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    output: Output,
}

/// Parses a decimal number, or a hexadecimal one after 0x.
fn offset(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let read = digits.map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    read.map_err(|_| "write bytes as 8 or 0x8".into())
}

impl FloorPcie {
    /// Measures, and prints the result.
    pub fn run(self) -> Result<ExitCode, Failure> {
        if self.published {
            self.output.print(&published_table())?;
            return Ok(ExitCode::SUCCESS);
        }
        let command: Vec<String> = line::typed();
        match (self.device, self.bar, self.offset) {
            (Some(device), Some(bar), Some(offset)) => {
                let ask = Ask { device, bar, offset, count: self.count };
                let word = open(&RealHost, ask).map_err(|why| Failure::blamed(&why, blame(&why)))?;
                say(format_args!(
                    "hairpin: reads {device}, BAR {bar}, offset {offset:#x}, {} times; reading a register may have an effect on its device",
                    self.count
                ));
                let found = probe(&RealHost, ask, &word, &command);
                self.keep.after(self.output.print(&found), &found)?;
            }
            _ => {
                let found = primitives(&command).map_err(Failure::failed)?;
                self.keep.after(self.output.print(&found), &found)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
