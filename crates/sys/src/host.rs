//! What Hairpin reads of a host: files under /proc, /sys and /dev and the answers of its network devices, behind a trait, with a fake.
//!
//! ```text
//!   dyn Host ── RealHost   this host, as the namespaces of the thread that asks show it
//!            └─ FakeHost   the same code below another directory, for tests: files, links, devices, and errors on demand
//! ```
//! Everything here only reads. Paths are absolute, as the kernel documents them (`/sys/class/net/eth0/mtu`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::ethtool::{Coalesce, DriverInfo, Ethtool, EthtoolError, Offloads, Rings};

/// No file is read beyond this many bytes. The largest that is read, /proc/interrupts, takes about 12 bytes per CPU and interrupt:
/// some 20 MB with 512 CPUs and 3,000 interrupts.
pub const MAX_FILE: u64 = 64 << 20;

/// A host whose files can be read.
///
/// Every method fails with the errors of the system calls behind it: `NotFound` where this kernel or device has no such thing,
/// `PermissionDenied` where it takes more rights, and whatever a device's attribute answers (`EINVAL` for the speed of a link that is down).
pub trait Host {
    /// The bytes of the file at `path`.
    ///
    /// # Errors
    /// Those of open(2) and read(2); `InvalidData` if the file is longer than [`MAX_FILE`].
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>>;

    /// The file at `path`, opened to read.
    ///
    /// # Errors
    /// Those of open(2).
    fn open(&self, path: &str) -> io::Result<File>;

    /// The names in the directory at `path`, sorted.
    ///
    /// # Errors
    /// Those of open(2) and getdents(2).
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// Whether there is anything at `path`, symbolic links followed.
    fn exists(&self, path: &str) -> bool;

    /// The last component of what the symbolic link at `path` points to: sysfs names drivers and buses that way.
    ///
    /// # Errors
    /// Those of readlink(2): `InvalidInput` if there is something else than a link.
    fn link_target(&self, path: &str) -> io::Result<String>;

    /// The text of the file at `path`, without the newlines at its end. Bytes that are no UTF-8 are replaced (a device may say anything).
    ///
    /// # Errors
    /// Those of [`Host::read_bytes`].
    fn read(&self, path: &str) -> io::Result<String> {
        let text = String::from_utf8_lossy(&self.read_bytes(path)?).into_owned();
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// Which driver serves an interface; `None` if it does not say.
    ///
    /// # Errors
    /// Those of [`Ethtool`]: the interface does not exist (ENODEV), or the driver refuses.
    fn driver_info(&self, interface: &str) -> Result<Option<DriverInfo>, EthtoolError>;

    /// How an interface coalesces interrupts; `None` if it cannot.
    ///
    /// # Errors
    /// Those of [`Ethtool`].
    fn coalesce(&self, interface: &str) -> Result<Option<Coalesce>, EthtoolError>;

    /// How many descriptors an interface's queues have; `None` if it has none.
    ///
    /// # Errors
    /// Those of [`Ethtool`].
    fn rings(&self, interface: &str) -> Result<Option<Rings>, EthtoolError>;

    /// Which offloads of an interface are on.
    ///
    /// # Errors
    /// Those of [`Ethtool`].
    fn offloads(&self, interface: &str) -> Result<Offloads, EthtoolError>;
}

/// The host this process runs on, as the calling thread's namespaces show it.
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

    // A socket stays in the namespace it was opened in, the calling thread need not: one per question.
    fn driver_info(&self, interface: &str) -> Result<Option<DriverInfo>, EthtoolError> {
        Ethtool::open()?.driver_info(interface)
    }

    fn coalesce(&self, interface: &str) -> Result<Option<Coalesce>, EthtoolError> {
        Ethtool::open()?.coalesce(interface)
    }

    fn rings(&self, interface: &str) -> Result<Option<Rings>, EthtoolError> {
        Ethtool::open()?.rings(interface)
    }

    fn offloads(&self, interface: &str) -> Result<Offloads, EthtoolError> {
        Ethtool::open()?.offloads(interface)
    }
}

/// What a network device of a [`FakeHost`] answers; `None` is a device that has no such thing.
#[derive(Clone, Debug, Default)]
pub struct FakeDevice {
    /// Its driver.
    pub driver_info: Option<DriverInfo>,
    /// How it coalesces interrupts.
    pub coalesce: Option<Coalesce>,
    /// How many descriptors its queues have.
    pub rings: Option<Rings>,
    /// Which of its offloads are on.
    pub offloads: Option<Offloads>,
}

/// A host made of files below a directory, for tests.
///
/// ```
/// use hairpin_sys::host::{FakeHost, Host};
/// # let directory = std::env::temp_dir().join(format!("hairpin-fake-host-{}", std::process::id()));
/// let host = FakeHost::at(&directory).with("/sys/class/net/eth0/mtu", "1500\n");
/// assert_eq!(host.read("/sys/class/net/eth0/mtu").unwrap(), "1500");
/// # std::fs::remove_dir_all(&directory).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct FakeHost {
    root: PathBuf,
    errors: BTreeMap<String, i32>,
    devices: BTreeMap<String, FakeDevice>,
}

impl FakeHost {
    /// A host whose `/` is `root`, which the caller makes and removes.
    pub fn at(root: impl Into<PathBuf>) -> FakeHost {
        FakeHost { root: root.into(), errors: BTreeMap::new(), devices: BTreeMap::new() }
    }

    /// Adds a file with these bytes, and the directories above it.
    ///
    /// # Panics
    /// If the file cannot be written: a test has nothing to go on with then.
    #[must_use]
    pub fn with(self, path: &str, content: impl AsRef<[u8]>) -> FakeHost {
        let place = self.place(path);
        make_parents(&place);
        fs::write(&place, content).unwrap_or_else(|why| panic!("fake host: writing {}: {why}", place.display()));
        self
    }

    /// Adds an empty directory.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn with_directory(self, path: &str) -> FakeHost {
        let place = self.place(path);
        fs::create_dir_all(&place).unwrap_or_else(|why| panic!("fake host: making {}: {why}", place.display()));
        self
    }

    /// Adds a symbolic link to `target`, which is relative to the link's directory as in sysfs.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn with_link(self, path: &str, target: &str) -> FakeHost {
        let place = self.place(path);
        make_parents(&place);
        std::os::unix::fs::symlink(target, &place).unwrap_or_else(|why| panic!("fake host: linking {}: {why}", place.display()));
        self
    }

    /// Adds a network device that answers questions; its files are added one by one.
    #[must_use]
    pub fn with_device(mut self, interface: &str, device: FakeDevice) -> FakeHost {
        self.devices.insert(interface.to_owned(), device);
        self
    }

    /// Makes every reading of `path` fail with this error number, such as `libc::EACCES`. The name of an interface in place of a path
    /// makes its device refuse every question.
    #[must_use]
    pub fn with_error(mut self, path: &str, errno: i32) -> FakeHost {
        self.errors.insert(path.to_owned(), errno);
        self
    }

    fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn refused(&self, path: &str) -> io::Result<()> {
        self.errors.get(path).map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(*errno)))
    }

    fn device(&self, interface: &str, operation: &'static str) -> Result<&FakeDevice, EthtoolError> {
        let found = self
            .refused(interface)
            .and_then(|()| self.devices.get(interface).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV)));
        found.map_err(|source| EthtoolError::Refused { operation, interface: interface.to_owned(), source })
    }
}

impl Host for FakeHost {
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        self.refused(path)?;
        read_bytes(&self.place(path))
    }

    fn open(&self, path: &str) -> io::Result<File> {
        self.refused(path)?;
        File::open(self.place(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.refused(path)?;
        list(&self.place(path))
    }

    fn exists(&self, path: &str) -> bool {
        self.errors.contains_key(path) || self.place(path).exists()
    }

    fn link_target(&self, path: &str) -> io::Result<String> {
        self.refused(path)?;
        link_target(&self.place(path))
    }

    fn driver_info(&self, interface: &str) -> Result<Option<DriverInfo>, EthtoolError> {
        Ok(self.device(interface, "read the driver")?.driver_info.clone())
    }

    fn coalesce(&self, interface: &str) -> Result<Option<Coalesce>, EthtoolError> {
        Ok(self.device(interface, "read the coalescing")?.coalesce)
    }

    fn rings(&self, interface: &str) -> Result<Option<Rings>, EthtoolError> {
        Ok(self.device(interface, "read the rings")?.rings)
    }

    fn offloads(&self, interface: &str) -> Result<Offloads, EthtoolError> {
        let none =
            Offloads { rx_checksum: None, tx_checksum: None, scatter_gather: None, tso: None, gso: None, gro: None, lro: None };
        Ok(self.device(interface, "read the offloads")?.offloads.unwrap_or(none))
    }
}

fn make_parents(place: &Path) {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent).unwrap_or_else(|why| panic!("fake host: making {}: {why}", parent.display()));
    }
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
    names.sort();
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
        let rings = Rings { rx: 256, tx: 512, max_rx: 1024, max_tx: 1024 };
        let host = FakeHost::at("/nonexistent").with_device("eth0", FakeDevice { rings: Some(rings), ..FakeDevice::default() });
        assert_eq!(host.rings("eth0").unwrap(), Some(rings));
        assert_eq!(host.coalesce("eth0").unwrap(), None);
        assert_eq!(host.offloads("eth0").unwrap().gro, None);
        let errno = |answer: Result<Option<Rings>, EthtoolError>| match answer {
            Err(EthtoolError::Refused { source, .. }) => source.raw_os_error(),
            other => panic!("{other:?}"),
        };
        assert_eq!(errno(host.rings("eth1")), Some(libc::ENODEV));
        assert_eq!(errno(host.with_error("eth0", libc::EPERM).rings("eth0")), Some(libc::EPERM));
        assert_eq!(errno(RealHost.rings("no-such-if")), Some(libc::ENODEV));
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
