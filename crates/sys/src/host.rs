//! Access to a host: files under /proc, /sys and /dev and the settings of its network devices, behind a trait, with a fake.
//!
//! ```text
//!   dyn Host ── RealHost   this host, as the namespaces of the thread that asks show it
//!            └─ FakeHost   the same code below another directory, for tests: files, links, devices, and errors on demand
//! ```
//! Only methods named write, hold, make, remove or set change anything. Paths are absolute, as the kernel documents them
//! (`/sys/class/net/eth0/mtu`).

mod fake;

use hairpin_units::Arrange;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::{self, Attribute, DeviceError};
use crate::ethtool::{DriverInfo, Ethtool, EthtoolError};
use crate::napi::{self, Napi, NapiSetting};

pub use self::fake::{FakeHost, Refusal};

/// Most bytes read from a file. The largest file read, /proc/interrupts, takes about 12 bytes per CPU and interrupt: some 20 MB
/// with 512 CPUs and 3,000 interrupts.
pub const MAX_FILE: u64 = 64 << 20;

/// A host whose files can be read.
///
/// Every method fails with the errors of the system calls behind it: `NotFound` if this kernel or device lacks the file,
/// `PermissionDenied` if it needs more rights, and any error of a device's attribute (`EINVAL` for the speed of a link that is
/// down).
pub trait Host {
    /// The bytes of the file at `path`.
    ///
    /// # Errors
    /// The errors of open(2) and read(2); `InvalidData` if the file is longer than [`MAX_FILE`].
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>>;

    /// Opens the file at `path` for reading.
    ///
    /// # Errors
    /// The errors of open(2).
    fn open(&self, path: &str) -> io::Result<File>;

    /// The names in the directory at `path`, sorted.
    ///
    /// # Errors
    /// The errors of open(2) and getdents(2).
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// True if `path` exists, following symbolic links.
    fn exists(&self, path: &str) -> bool;

    /// The last component of the target of the symbolic link at `path`: sysfs names drivers and buses that way.
    ///
    /// # Errors
    /// The errors of readlink(2): `InvalidInput` if `path` is not a link.
    fn link_target(&self, path: &str) -> io::Result<String>;

    /// The text of the file at `path`, without trailing newlines. Bytes that are not UTF-8 are replaced (a device may report
    /// anything).
    ///
    /// # Errors
    /// The errors of [`Host::read_bytes`].
    fn read(&self, path: &str) -> io::Result<String> {
        let text = String::from_utf8_lossy(&self.read_bytes(path)?).into_owned();
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// Driver of an interface; `None` if it does not report one.
    ///
    /// # Errors
    /// The errors of [`Ethtool`]: the interface does not exist (ENODEV), or the driver refuses.
    fn driver_info(&self, interface: &str) -> Result<Option<DriverInfo>, EthtoolError>;

    /// A setting of an interface that is not a file; `None` if the interface does not have it.
    ///
    /// # Errors
    /// The errors of [`device::read`].
    fn attribute(&self, interface: &str, attribute: Attribute) -> Result<Option<String>, DeviceError>;

    /// Sets such a setting. Read it back to see the value the device chose.
    ///
    /// # Errors
    /// The errors of [`device::write`].
    fn set_attribute(&self, interface: &str, attribute: Attribute, text: &str) -> Result<(), DeviceError>;

    /// The NAPI instances of an interface; empty if it has none, or the kernel does not report them.
    ///
    /// # Errors
    /// The errors of [`Napi::all_of`].
    fn napis(&self, interface: &str) -> Result<Vec<Napi>, DeviceError>;

    /// Sets a setting of the NAPI instance called `name`. Read it back to see the value the kernel chose.
    ///
    /// # Errors
    /// The errors of [`napi::set`].
    fn set_napi(&self, interface: &str, name: &str, setting: NapiSetting, text: &str) -> Result<(), DeviceError>;

    /// Writes `text` into the existing file at `path`. Read it back to see the value the kernel chose.
    ///
    /// # Errors
    /// The errors of open(2) and write(2): `PermissionDenied` if it needs more rights, `ReadOnlyFilesystem` in most containers,
    /// `InvalidInput` for a text that the kernel rejects.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;

    /// Writes `bytes` into the file at `path` and keeps it open: the request in a file such as /dev/cpu_dma_latency lasts as long
    /// as the returned value.
    ///
    /// # Errors
    /// The errors of open(2) and write(2).
    fn hold(&self, path: &str, bytes: &[u8]) -> io::Result<Held>;

    /// Creates a directory, such as a cgroup.
    ///
    /// # Errors
    /// The errors of mkdir(2).
    fn make_directory(&self, path: &str) -> io::Result<()>;

    /// Removes a directory without subdirectories, such as a cgroup.
    ///
    /// # Errors
    /// The errors of rmdir(2).
    fn remove_directory(&self, path: &str) -> io::Result<()>;
}

/// Files held open on a fake host: path and bytes.
type Demands = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A request that lasts until this is dropped or the process ends, in whatever way.
#[derive(Debug)]
pub struct Held {
    _file: Option<File>,
    fake: Option<(Demands, String)>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some((held, path)) = &self.fake {
            held.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
        }
    }
}

/// The host of this process, as seen in the calling thread's namespaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealHost;

impl Host for RealHost {
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        read_bytes(Path::new(path))
    }

    fn open(&self, path: &str) -> io::Result<File> {
        File::open(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        list(Path::new(path))
    }

    fn exists(&self, path: &str) -> bool {
        Path::new(path).exists()
    }

    fn link_target(&self, path: &str) -> io::Result<String> {
        link_target(Path::new(path))
    }

    fn driver_info(&self, interface: &str) -> Result<Option<DriverInfo>, EthtoolError> {
        Ethtool::open()?.driver_info(interface)
    }

    fn attribute(&self, interface: &str, attribute: Attribute) -> Result<Option<String>, DeviceError> {
        device::read(interface, attribute)
    }

    fn set_attribute(&self, interface: &str, attribute: Attribute, text: &str) -> Result<(), DeviceError> {
        device::write(interface, attribute, text)
    }

    fn napis(&self, interface: &str) -> Result<Vec<Napi>, DeviceError> {
        Napi::all_of(interface)
    }

    fn set_napi(&self, interface: &str, name: &str, setting: NapiSetting, text: &str) -> Result<(), DeviceError> {
        napi::set(interface, name, setting, text)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        write(Path::new(path), text)
    }

    fn hold(&self, path: &str, bytes: &[u8]) -> io::Result<Held> {
        let mut file = File::options().write(true).open(path)?;
        file.write_all(bytes)?;
        Ok(Held { _file: Some(file), fake: None })
    }

    fn make_directory(&self, path: &str) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_directory(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(path)
    }
}

/// Writes with one write(2), as the kernel's files require, and never creates a file.
fn write(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {MAX_FILE} bytes")));
    }
    Ok(bytes)
}

fn list(path: &Path) -> io::Result<Vec<String>> {
    let mut names = fs::read_dir(path)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<String>>>()?;
    names.arrange_by(Ord::cmp);
    Ok(names)
}

fn link_target(path: &Path) -> io::Result<String> {
    let target = fs::read_link(path)?;
    match target.file_name() {
        Some(name) => Ok(name.to_string_lossy().into_owned()),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, format!("points to {}, which has no name", target.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fake_host_reads_lists_and_follows_links() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with("/sys/class/net/eth0/mtu", "1500\n")
            .with("/sys/class/net/eth0/queues/tx-0/x", "")
            .with_directory("/sys/class/net/eth0/queues/rx-0")
            .with_directory("/sys/bus/virtio/drivers/virtio_net")
            .with_link("/sys/class/net/eth0/driver", "../../../bus/virtio/drivers/virtio_net");
        assert_eq!(host.read("/sys/class/net/eth0/mtu").unwrap(), "1500");
        assert_eq!(host.read_bytes("/sys/class/net/eth0/mtu").unwrap(), b"1500\n");
        assert_eq!(host.list("/sys/class/net/eth0/queues").unwrap(), ["rx-0", "tx-0"]);
        assert_eq!(host.link_target("/sys/class/net/eth0/driver").unwrap(), "virtio_net");
        assert!(host.exists("/sys/class/net/eth0/driver"));
        assert!(!host.exists("/sys/class/net/eth1"));
        assert_eq!(host.read("/sys/class/net/eth1/mtu").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(host.link_target("/sys/class/net/eth0/mtu").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_fake_host_fails_on_demand() {
        let directory = tempfile::tempdir().unwrap();
        let host =
            FakeHost::at(directory.path()).with("/dev/cpu_dma_latency", [0; 4]).with_error("/dev/cpu_dma_latency", libc::EACCES);
        assert!(host.exists("/dev/cpu_dma_latency"));
        assert_eq!(host.read_bytes("/dev/cpu_dma_latency").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_fake_device_answers_refuses_or_does_not_exist() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path()).with_attribute("eth0", Attribute::RxRing, "256");
        assert_eq!(host.attribute("eth0", Attribute::RxRing).unwrap().as_deref(), Some("256"));
        assert_eq!(host.attribute("eth0", Attribute::RxUsecs).unwrap(), None);
        assert_eq!(host.driver_info("eth0").unwrap(), None);
        host.set_attribute("eth0", Attribute::RxRing, "512").unwrap();
        assert_eq!(host.attribute("eth0", Attribute::RxRing).unwrap().as_deref(), Some("512"));
        let errno = |answer: Result<Option<String>, DeviceError>| answer.unwrap_err().errno();
        assert_eq!(errno(host.attribute("eth1", Attribute::RxRing)), Some(libc::ENODEV));
        assert_eq!(errno(host.clone().with_error("eth0", libc::EPERM).attribute("eth0", Attribute::RxRing)), Some(libc::EPERM));
        assert_eq!(errno(RealHost.attribute("no-such-if", Attribute::RxRing)), Some(libc::ENODEV));
        assert_eq!(errno(host.without_device("eth0").attribute("eth0", Attribute::RxRing)), Some(libc::ENODEV));
    }

    #[test]
    fn a_fake_host_writes_as_the_kernel_does() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path())
            .with("/a", "1\n")
            .with("/b", "always [madvise] never\n")
            .with("/c", "1\n")
            .with("/d", [9; 4])
            .with_refusal("/c", Refusal::Ignored);
        host.write("/a", "2").unwrap();
        host.write("/b", "never").unwrap();
        host.write("/c", "2").unwrap();
        assert_eq!(host.read_bytes("/a").unwrap(), b"2\n");
        assert_eq!(host.read_bytes("/b").unwrap(), b"always madvise [never]\n");
        assert_eq!(host.read_bytes("/c").unwrap(), b"1\n");
        assert_eq!(host.write("/b", "sometimes").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(host.write("/none", "1").unwrap_err().kind(), io::ErrorKind::NotFound);
        let held = host.hold("/d", &[0; 4]).unwrap();
        assert_eq!(host.read_bytes("/d").unwrap(), [0; 4]);
        drop(held);
        assert_eq!(host.read_bytes("/d").unwrap(), [9; 4]);
        let refusing = host.with_refusal("/a", Refusal::Error(libc::EROFS));
        assert_eq!(refusing.write("/a", "3").unwrap_err().raw_os_error(), Some(libc::EROFS));
    }

    #[test]
    fn text_loses_its_last_newlines_and_keeps_everything_else() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path()).with("/a", " x \n y  \n\n").with("/b", [b'a', 0xff, b'\n']);
        assert_eq!(host.read("/a").unwrap(), " x \n y  ");
        assert_eq!(host.read("/b").unwrap(), "a\u{fffd}");
    }

    #[test]
    fn a_file_longer_than_the_bound_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let host = FakeHost::at(directory.path()).with("/a", "");
        File::options().write(true).open(directory.path().join("a")).unwrap().set_len(MAX_FILE + 1).unwrap();
        assert_eq!(host.read_bytes("/a").unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn the_real_host_reads_the_running_kernel() {
        let release = RealHost.read("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(release, rustix::system::uname().release().to_str().unwrap());
        assert!(RealHost.list("/proc/self/fd").unwrap().contains(&"0".to_owned()));
    }
}
