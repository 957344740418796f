//! PCI devices in sysfs: the list of devices, their BARs, and one word of a BAR mapped for reading.
//!
//! ```text
//!   /sys/bus/pci/devices/0000:3b:00.0/
//!     resource        a line per BAR: first address, last address, flags (memory or I/O ports, 64-bit, prefetchable)
//!     resource0       the BAR itself, to be mapped:  │ page │ page │ page │ …
//!                                                           └─ the one page with the word is mapped, to read
//! ```
//! Opening and mapping do not access the device; reading the word is one read on PCIe, which may have an effect on the device.
//! Sources: kernel `Documentation/PCI/sysfs-pci.rst`, `drivers/pci/pci-sysfs.c`, `include/linux/ioport.h`.

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::param::page_size;

use crate::bar::{Access, MapError, MappedBar};
use crate::host::Host;

const DEVICES: &str = "/sys/bus/pci/devices";
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// Number of BARs of a device; the further lines of `resource` are its ROM and, on bridges, windows.
const BARS: usize = 6;
const WORD: u64 = 4;
/// Flags of a BAR (`include/linux/ioport.h`).
const IORESOURCE_IO: u64 = 0x100;
const IORESOURCE_MEM: u64 = 0x200;
/// Error numbers that are the same on every architecture (`include/uapi/asm-generic/errno-base.h`).
const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;

/// Address of a device: domain, bus, device, function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// Reason why a text is not the address of a PCI device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a PCI address: write DOMAIN:BUS:DEVICE.FUNCTION in hexadecimal as lspci -D does, such as 0000:3b:00.0")]
pub struct ParseAddressError(pub String);

impl FromStr for Address {
    type Err = ParseAddressError;

    /// Parses `0000:3b:00.0`, or `3b:00.0` for domain 0.
    fn from_str(text: &str) -> Result<Address, ParseAddressError> {
        let number = |part: &str| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            digits.then(|| u32::from_str_radix(part, 16).ok()).flatten()
        };
        let parsed = || {
            let (place, function) = text.rsplit_once('.')?;
            let (place, device) = place.rsplit_once(':')?;
            let (domain, bus) = place.rsplit_once(':').unwrap_or(("0", place));
            let address = Address {
                domain: number(domain)?,
                bus: number(bus)?.try_into().ok()?,
                device: number(device)?.try_into().ok()?,
                function: number(function)?.try_into().ok()?,
            };
            (address.device < 32 && address.function < 8).then_some(address)
        };
        parsed().ok_or_else(|| ParseAddressError(text.into()))
    }
}

impl fmt::Display for Address {
    /// Writes the address as in sysfs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl Address {
    fn directory(self) -> String {
        format!("{DEVICES}/{self}")
    }
}

/// A base address register of a device: its location and its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Region {
    number: usize,
    begin: u64,
    bytes: u64,
    flags: u64,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.flags & IORESOURCE_IO != 0 { "bytes of I/O ports" } else { "bytes" };
        write!(f, "{} ({} {kind})", self.number, self.bytes)
    }
}

/// A word of a BAR, mapped for reading.
#[derive(Debug)]
pub struct Word {
    /// The page with the word.
    pub page: MappedBar,
    /// Offset of the word in the page.
    pub offset: usize,
    /// Size of the whole BAR in bytes.
    pub bar_bytes: u64,
}

/// Reason why a word of a BAR cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NoWord {
    /// sysfs shows no PCI devices.
    #[error("this host shows no PCI devices: {DEVICES}: {0}")]
    NoPci(#[source] io::Error),
    /// No such device.
    #[error("there is no PCI device {address}; there are {}", list(there))]
    NoDevice {
        /// The requested device.
        address: Address,
        /// The existing devices.
        there: Vec<String>,
    },
    /// The device's list of BARs cannot be read or parsed.
    #[error("what BARs {address} has is not known: {path}: {why}")]
    Unknown {
        address: Address,
        path: String,
        /// The problem.
        why: String,
    },
    /// No such BAR.
    #[error("{address} has no BAR {bar}; it has {}", list(there))]
    NoBar {
        address: Address,
        /// The requested BAR.
        bar: u8,
        /// The existing BARs, with their sizes.
        there: Vec<String>,
    },
    /// I/O ports, not memory.
    #[error("BAR {bar} of {address} is I/O ports, which cannot be mapped: ask for one of memory; it has {}", list(there))]
    IoPorts {
        address: Address,
        bar: u8,
        /// The existing BARs, with their sizes.
        there: Vec<String>,
    },
    /// Beyond the end of the BAR, or not aligned.
    #[error("offset {offset:#x} is not a word of BAR {bar} of {address}: take a multiple of 4 below {bytes:#x}")]
    Offset {
        address: Address,
        bar: u8,
        /// The requested offset.
        offset: u64,
        /// Size of the BAR in bytes.
        bytes: u64,
    },
    /// The kernel offers nothing to map.
    #[error(
        "the kernel lists the BAR but offers no file to map it ({path}), as small kernels of virtual machines do: measure on another host"
    )]
    NoFile {
        /// The missing file.
        path: String,
    },
    /// The file's mode forbids it.
    #[error("no right to open {path} (EACCES): its mode lets its owner read it, mostly root; run as root")]
    Denied {
        /// Path of the BAR's file.
        path: String,
    },
    /// The kernel forbids it.
    #[error("the kernel does not let {path} be mapped (EPERM): {lockdown}")]
    Forbidden {
        path: String,
        /// The kernel's lockdown state, and a remedy.
        lockdown: String,
    },
    /// A driver has exclusive use of it.
    #[error(
        "{path} cannot be mapped (EINVAL): the device's driver keeps the BAR for itself; unbind the driver, or start the kernel with iomem=relaxed"
    )]
    Held {
        /// Path of the BAR's file.
        path: String,
    },
    /// Any other error of the kernel.
    #[error("{path} cannot be mapped: {source}")]
    Refused {
        path: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A CPU other than x86-64, or an impossible size.
    #[error(transparent)]
    Unmappable(MapError),
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Opens and maps the 4 bytes at `offset` of a device's BAR for reading.
///
/// # Errors
/// See [`NoWord`].
pub fn open_word(host: &dyn Host, address: Address, bar: u8, offset: u64) -> Result<Word, NoWord> {
    let there = host.list(DEVICES).map_err(NoWord::NoPci)?;
    if !there.contains(&address.to_string()) {
        return Err(NoWord::NoDevice { address, there });
    }
    let regions = regions(host, address)?;
    let names = || regions.iter().map(|region| format!("BAR {region}")).collect();
    let found = regions.iter().find(|region| region.number == usize::from(bar));
    let region = found.ok_or_else(|| NoWord::NoBar { address, bar, there: names() })?;
    if region.flags & IORESOURCE_MEM == 0 {
        return Err(NoWord::IoPorts { address, bar, there: names() });
    }
    if !offset.is_multiple_of(WORD) || offset >= region.bytes || region.bytes - offset < WORD {
        return Err(NoWord::Offset { address, bar, offset, bytes: region.bytes });
    }
    let path = format!("{}/resource{bar}", address.directory());
    if !host.exists(&path) {
        return Err(NoWord::NoFile { path });
    }
    let file = host.open(&path).map_err(|source| refusal(host, path.clone(), source))?;
    let page = page_size() as u64;
    // A small BAR may begin inside a page; its file begins with that page.
    let in_file = region.begin % page + offset;
    let mapped = MappedBar::map(&file, in_file - in_file % page, page, Access::Read);
    let mapped = mapped.map_err(|why| match why {
        MapError::Kernel(source) => refusal(host, path, source),
        other => NoWord::Unmappable(other),
    })?;
    Ok(Word { page: mapped, offset: (in_file % page) as usize, bar_bytes: region.bytes })
}

fn regions(host: &dyn Host, address: Address) -> Result<Vec<Region>, NoWord> {
    let path = format!("{}/resource", address.directory());
    let unknown = |why: String| NoWord::Unknown { address, path: path.clone(), why };
    let text = host.read(&path).map_err(|why| unknown(why.to_string()))?;
    let region = |(number, line): (usize, &str)| {
        let words: Option<Vec<u64>> =
            line.split(' ').map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
        match words.as_deref() {
            Some([0, 0, _]) => None,
            Some([begin, end, flags]) if end >= begin && end - begin < u64::MAX => {
                Some(Ok(Region { number, begin: *begin, bytes: end - begin + 1, flags: *flags }))
            }
            _ => Some(Err(unknown(format!("line {} is not two addresses and flags", number + 1)))),
        }
    };
    text.lines().take(BARS).enumerate().filter_map(region).collect()
}

/// Translates an error of open(2) or mmap(2).
fn refusal(host: &dyn Host, path: String, source: io::Error) -> NoWord {
    match source.raw_os_error() {
        Some(EACCES) => NoWord::Denied { path },
        Some(EPERM) => NoWord::Forbidden { path, lockdown: lockdown(host) },
        Some(EINVAL) => NoWord::Held { path },
        _ => NoWord::Refused { path, source },
    }
}

/// Explains whether lockdown is the reason: the active mode is in brackets, `none [integrity] confidentiality`
/// (kernel_lockdown(7)).
fn lockdown(host: &dyn Host) -> String {
    let Ok(modes) = host.read(LOCKDOWN) else {
        return format!(
            "{LOCKDOWN} cannot be read, so whether it is locked down is not known; run as root of the host, outside of a container"
        );
    };
    let mode = modes.split(' ').find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match mode {
        Some("none") => format!("it is not locked down ({LOCKDOWN}: {modes}); run as root of the host, outside of a container"),
        Some(mode) => format!(
            "it is locked down ({LOCKDOWN}: {mode}), as with Secure Boot; start it without lockdown to let BARs be mapped"
        ),
        None => format!("{LOCKDOWN} says \"{modes}\""),
    }
}

/// A device's description in sysfs; `None` for missing entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Vendor, such as `0x8086`.
    pub vendor: Option<String>,
    /// Device, such as `0x1572`.
    pub device: Option<String>,
    /// Name of its driver.
    pub driver: Option<String>,
    /// Speed of its link, such as `8.0 GT/s PCIe`.
    pub link_speed: Option<String>,
    /// Lanes of its link that are in use.
    pub link_width: Option<String>,
}

/// Reads a device's description.
pub fn about(host: &dyn Host, address: Address) -> About {
    let directory = address.directory();
    let says = |file: &str| host.read(&format!("{directory}/{file}")).ok();
    About {
        vendor: says("vendor"),
        device: says("device"),
        driver: host.link_target(&format!("{directory}/driver")).ok(),
        link_speed: says("current_link_speed"),
        link_width: says("current_link_width"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bar::Bar;
    use crate::host::FakeHost;

    const DEVICE: &str = "/sys/bus/pci/devices/0000:3b:00.0";
    /// Three BARs: 8 KiB of 64-bit memory, 32 I/O ports, and 256 bytes that begin inside a page.
    const RESOURCE: &str = "\
0x0000383fff000000 0x0000383fff001fff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000003000 0x000000000000301f 0x0000000000040101
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x00000000f7000400 0x00000000f70004ff 0x0000000000040200
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x00000000f6000000 0x00000000f607ffff 0x0000000000046200
";

    fn address() -> Address {
        "3b:00.0".parse().unwrap()
    }

    /// Contents of a BAR's file: each word holds its own offset in the file.
    fn words(bytes: u32) -> Vec<u8> {
        (0..bytes).step_by(4).flat_map(u32::to_le_bytes).collect()
    }

    fn host(directory: &tempfile::TempDir) -> FakeHost {
        FakeHost::at(directory.path())
            .with(&format!("{DEVICE}/resource"), RESOURCE)
            .with(&format!("{DEVICE}/resource0"), words(0x2000))
            .with(&format!("{DEVICE}/resource4"), words(0x1000))
            .with_directory("/sys/bus/pci/devices/0000:00:1f.6")
    }

    fn refused(host: &FakeHost, bar: u8, offset: u64) -> String {
        open_word(host, address(), bar, offset).unwrap_err().to_string()
    }

    #[test]
    fn addresses_as_lspci_writes_them() {
        for (text, shown) in [
            ("0000:3b:00.0", "0000:3b:00.0"),
            ("3b:00.0", "0000:3b:00.0"),
            ("10000:E1:1f.7", "10000:e1:1f.7"),
            ("0:0:0.1", "0000:00:00.1"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        for text in
            ["", "eth0", "3b:00", "3b.0", "3b:20.0", "3b:00.8", "100:00.0", "0000:3b:00.", ":00.0", "+3:00.0", "../3b:00.0"]
        {
            assert_eq!(text.parse::<Address>(), Err(ParseAddressError(text.into())));
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn finds_the_word_in_any_page() {
        let directory = tempfile::tempdir().unwrap();
        let host = host(&directory);
        for (bar, offset, in_file) in
            [(0, 0, 0), (0, 0xffc, 0xffc), (0, 0x1000, 0x1000), (0, 0x1ffc, 0x1ffc), (4, 0, 0x400), (4, 0xfc, 0x4fc)]
        {
            let word = open_word(&host, address(), bar, offset).unwrap();
            assert_eq!(word.page.read_u32(word.offset), in_file, "BAR {bar}, offset {offset}");
        }
        assert_eq!(open_word(&host, address(), 4, 0).unwrap().bar_bytes, 256);
    }

    #[test]
    fn unreadable_device_error_lists_existing_ones() {
        let directory = tempfile::tempdir().unwrap();
        let host = host(&directory);
        let other = open_word(&host, "3b:00.1".parse().unwrap(), 0, 0).unwrap_err().to_string();
        assert_eq!(other, "there is no PCI device 0000:3b:00.1; there are 0000:00:1f.6, 0000:3b:00.0");
        let there = "BAR 0 (8192 bytes), BAR 2 (32 bytes of I/O ports), BAR 4 (256 bytes)";
        for bar in [1, 3, 5, 6, 9, 255] {
            assert_eq!(refused(&host, bar, 0), format!("0000:3b:00.0 has no BAR {bar}; it has {there}"));
        }
        assert!(refused(&host, 2, 0).ends_with(there) && refused(&host, 2, 0).contains("I/O ports, which cannot be mapped"));
        for (bar, offset) in [(0, 2), (0, 0x2000), (0, 0x1ffd), (4, 0x100), (0, u64::MAX), (0, u64::MAX - 3)] {
            let why = refused(&host, bar, offset);
            assert!(why.contains("take a multiple of 4 below"), "{why}");
        }
        let empty = FakeHost::at(directory.path().join("empty"));
        assert!(refused(&empty, 0, 0).starts_with("this host shows no PCI devices: /sys/bus/pci/devices: No such file"));
        let bare = host.with("/sys/bus/pci/devices/0000:3b:00.0/resource", "0x0 0x0 0x0\n");
        assert_eq!(refused(&bare, 0, 0), "0000:3b:00.0 has no BAR 0; it has none");
    }

    #[test]
    fn a_kernel_that_refuses_is_understood() {
        let directory = tempfile::tempdir().unwrap();
        let path = format!("{DEVICE}/resource0");
        let with = |errno| host(&directory).with_error(&path, errno);
        assert!(
            refused(&with(libc::EACCES), 0, 0).contains("(EACCES)") && refused(&with(libc::EACCES), 0, 0).contains("run as root")
        );
        assert!(refused(&with(libc::EINVAL), 0, 0).contains("iomem=relaxed"));
        assert!(refused(&with(libc::ENODEV), 0, 0).contains("resource0 cannot be mapped: No such device"));
        for (modes, part) in [
            (None, "lockdown cannot be read"),
            (Some("none integrity [confidentiality]\n"), "it is locked down (/sys/kernel/security/lockdown: confidentiality)"),
            (Some("[none] integrity confidentiality\n"), "it is not locked down"),
            (Some("what\n"), "lockdown says \"what\""),
        ] {
            let host = match modes {
                Some(modes) => with(libc::EPERM).with("/sys/kernel/security/lockdown", modes),
                None => with(libc::EPERM),
            };
            let why = refused(&host, 0, 0);
            assert!(why.contains("(EPERM)") && why.contains(part), "{why}");
        }
        // Listed, but without a file.
        let listed = RESOURCE.replacen("0x0000000000000000 0x0000000000000000 0x0000000000000000", "0x1000 0x1fff 0x200", 1);
        let no_file = host(&directory).with(&format!("{DEVICE}/resource"), listed);
        assert!(refused(&no_file, 1, 0).contains("offers no file to map it (/sys/bus/pci/devices/0000:3b:00.0/resource1)"));
    }

    #[test]
    fn rejects_an_invalid_list_of_bars() {
        let directory = tempfile::tempdir().unwrap();
        for (text, part) in [
            ("what is this", "line 1 is not two addresses and flags"),
            ("0x0 0x0 0x0\n0x2000 0x1000 0x200", "line 2"),
            ("0x0 0xffffffffffffffff 0x200", "line 1"),
            ("0x1 0x2", "line 1"),
        ] {
            let host = host(&directory).with(&format!("{DEVICE}/resource"), text);
            let why = refused(&host, 0, 0);
            assert!(why.contains("/resource: ") && why.contains(part), "{why}");
        }
        let unread = host(&directory).with_error(&format!("{DEVICE}/resource"), libc::EIO);
        assert!(refused(&unread, 0, 0).contains("what BARs 0000:3b:00.0 has is not known"));
    }

    #[test]
    fn a_device_says_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let host = host(&directory)
            .with(&format!("{DEVICE}/vendor"), "0x8086\n")
            .with(&format!("{DEVICE}/current_link_speed"), "8.0 GT/s PCIe\n")
            .with_directory("/sys/bus/pci/drivers/i40e")
            .with_link(&format!("{DEVICE}/driver"), "../../drivers/i40e");
        let said = about(&host, address());
        assert_eq!((said.vendor.as_deref(), said.driver.as_deref()), (Some("0x8086"), Some("i40e")));
        assert_eq!((said.link_speed.as_deref(), said.link_width), (Some("8.0 GT/s PCIe"), None));
    }
}
