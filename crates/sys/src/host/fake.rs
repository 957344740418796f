//! A host of files in a directory, for tests.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use super::{Demands, Held, Host, link_target, list, read_bytes, write};
use crate::device::{Attribute, DeviceError};
use crate::ethtool::{DriverInfo, EthtoolError};
use crate::napi::{self, Napi, NapiSetting};
use crate::netlink::NapiFacts;

/// Treatment of a write by a [`FakeHost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The write fails with this error number.
    Error(i32),
    /// The write succeeds but changes nothing, as for a device whose feature is fixed.
    Ignored,
}

/// A host of files in a directory, for tests.
///
/// ```
/// use hairpin_sys::host::{FakeHost, Host};
/// # let directory = std::env::temp_dir().join(format!("hairpin-fake-host-{}", std::process::id()));
/// let host = FakeHost::at(&directory).with("/sys/class/net/eth0/mtu", "1500\n");
/// assert_eq!(host.read("/sys/class/net/eth0/mtu").unwrap(), "1500");
/// # std::fs::remove_dir_all(&directory).unwrap();
/// ```
///
/// It writes like the kernel: a line ends in a newline, and in a file such as `always [madvise] never` only the brackets move.
#[derive(Clone, Debug)]
pub struct FakeHost {
    root: PathBuf,
    errors: BTreeMap<String, i32>,
    refusals: BTreeMap<String, Refusal>,
    drivers: BTreeMap<String, DriverInfo>,
    held: Demands,
}

impl FakeHost {
    /// A host whose `/` is `root`; the caller creates and removes that directory.
    pub fn at(root: impl Into<PathBuf>) -> FakeHost {
        let held = Arc::default();
        FakeHost { root: root.into(), errors: BTreeMap::new(), refusals: BTreeMap::new(), drivers: BTreeMap::new(), held }
    }

    /// Adds a file with these contents, and the directories above it.
    ///
    /// # Panics
    /// If the file cannot be written, since the test cannot go on then.
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
    /// If it cannot be created.
    #[must_use]
    pub fn with_directory(self, path: &str) -> FakeHost {
        let place = self.place(path);
        fs::create_dir_all(&place).unwrap_or_else(|why| panic!("fake host: making {}: {why}", place.display()));
        self
    }

    /// Adds a symbolic link to `target`, which is relative to the link's directory as in sysfs.
    ///
    /// # Panics
    /// If it cannot be created.
    #[must_use]
    pub fn with_link(self, path: &str, target: &str) -> FakeHost {
        let place = self.place(path);
        make_parents(&place);
        std::os::unix::fs::symlink(target, &place).unwrap_or_else(|why| panic!("fake host: linking {}: {why}", place.display()));
        self
    }

    /// Adds a network device without settings; add its files one by one.
    #[must_use]
    pub fn with_device(self, interface: &str) -> FakeHost {
        self.with_directory(&device_directory(interface))
    }

    /// Adds a network device, unless it exists, and sets its driver.
    #[must_use]
    pub fn with_driver(mut self, interface: &str, driver: DriverInfo) -> FakeHost {
        self.drivers.insert(interface.to_owned(), driver);
        self.with_device(interface)
    }

    /// Adds a setting of a network device, and the device unless it exists. The setting is a file below the root, so it outlives
    /// this process.
    #[must_use]
    pub fn with_attribute(self, interface: &str, attribute: Attribute, text: &str) -> FakeHost {
        self.with(&format!("{}/{}", device_directory(interface), attribute.name()), format!("{text}\n"))
    }

    /// Adds a NAPI instance to a network device, and the device unless it exists; its settings are files below the root.
    #[must_use]
    pub fn with_napi(self, interface: &str, name: &str, settings: &[(NapiSetting, &str)]) -> FakeHost {
        let directory = format!("{}/{name}", napi_directory(interface));
        settings.iter().fold(self.with_directory(&directory), |host, (setting, text)| {
            host.with(&format!("{directory}/{}", setting.name()), format!("{text}\n"))
        })
    }

    /// Removes the NAPI instances of a network device, as of one that is set down.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn without_napis(self, interface: &str) -> FakeHost {
        let place = self.place(&napi_directory(interface));
        fs::remove_dir_all(&place).unwrap_or_else(|why| panic!("fake host: removing {}: {why}", place.display()));
        self
    }

    /// Removes a network device and its files.
    ///
    /// # Panics
    /// If the files cannot be removed.
    #[must_use]
    pub fn without_device(self, interface: &str) -> FakeHost {
        for directory in [device_directory(interface), format!("/sys/class/net/{interface}")] {
            let place = self.place(&directory);
            if place.exists() {
                fs::remove_dir_all(&place).unwrap_or_else(|why| panic!("fake host: removing {}: {why}", place.display()));
            }
        }
        self
    }

    /// Sets how writes to `path` behave. For a device's setting the path is the interface, a blank and the attribute's name; for
    /// one of a NAPI instance the interface, the instance and the setting's name.
    #[must_use]
    pub fn with_refusal(mut self, path: &str, refusal: Refusal) -> FakeHost {
        self.refusals.insert(path.to_owned(), refusal);
        self
    }

    /// Makes every read of `path` fail with this error number, such as `libc::EACCES`. An interface name in place of a path makes
    /// the device fail every query.
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

    /// ENODEV if there is no such device.
    fn device(&self, interface: &str) -> io::Result<()> {
        self.refused(interface)?;
        if self.place(&device_directory(interface)).is_dir() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENODEV)) }
    }

    /// True if the written text is to be kept.
    fn takes(&self, path: &str) -> io::Result<bool> {
        self.refused(path)?;
        match self.refusals.get(path) {
            None => Ok(true),
            Some(Refusal::Ignored) => Ok(false),
            Some(Refusal::Error(errno)) => Err(io::Error::from_raw_os_error(*errno)),
        }
    }
}

/// Directory in which a fake host keeps settings that are not files on a real one.
fn device_directory(interface: &str) -> String {
    format!("/.devices/{interface}")
}

/// The same for its NAPI instances, a directory each.
fn napi_directory(interface: &str) -> String {
    format!("{}/napi", device_directory(interface))
}

/// The controllers of a cgroup's children after a write of `+one` or `-one`.
fn controllers(before: &str, text: &str) -> String {
    let (adds, name) = (text.starts_with('+'), text.trim_start_matches(['+', '-']));
    let mut all: Vec<&str> = before.split_whitespace().filter(|one| *one != name).collect();
    all.extend(adds.then_some(name));
    all.join(" ") + "\n"
}

/// Contents of a file after a write of `text`: a line, or the same words with moved brackets.
fn written(before: &str, text: &str) -> io::Result<String> {
    let bare = |word: &str| word.trim_start_matches('[').trim_end_matches(']').to_owned();
    if !before.split_whitespace().any(|word| word.starts_with('[') && word.ends_with(']')) {
        return Ok(format!("{}\n", text.trim_end_matches('\n')));
    }
    let words: Vec<String> = before.split_whitespace().map(bare).collect();
    if !words.iter().any(|word| word == text.trim()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let marked = words.iter().map(|word| if word == text.trim() { format!("[{word}]") } else { word.clone() });
    Ok(marked.collect::<Vec<_>>().join(" ") + "\n")
}

impl Host for FakeHost {
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        self.refused(path)?;
        if let Some(bytes) = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
            return Ok(bytes.clone());
        }
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
        let operation = "read the driver";
        self.device(interface).map_err(|source| EthtoolError::Refused { operation, interface: interface.to_owned(), source })?;
        Ok(self.drivers.get(interface).cloned())
    }

    fn attribute(&self, interface: &str, attribute: Attribute) -> Result<Option<String>, DeviceError> {
        let path = format!("{}/{}", device_directory(interface), attribute.name());
        let read = || match self.device(interface).and_then(|()| self.read(&path)) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            answer => answer.map(Some),
        };
        read().map_err(|source| DeviceError::Fake { what: attribute.name(), interface: interface.to_owned(), source })
    }

    fn set_attribute(&self, interface: &str, attribute: Attribute, text: &str) -> Result<(), DeviceError> {
        let path = format!("{}/{}", device_directory(interface), attribute.name());
        let set = || {
            self.device(interface)?;
            if self.takes(&format!("{interface} {}", attribute.name()))? { self.write(&path, text) } else { Ok(()) }
        };
        set().map_err(|source| DeviceError::Fake { what: attribute.name(), interface: interface.to_owned(), source })
    }

    fn napis(&self, interface: &str) -> Result<Vec<Napi>, DeviceError> {
        let fail = |source| DeviceError::Fake { what: "the NAPI instances", interface: interface.to_owned(), source };
        self.device(interface).map_err(fail)?;
        let directory = napi_directory(interface);
        let names = if self.exists(&directory) { self.list(&directory).map_err(fail)? } else { Vec::new() };
        let napi = |(place, name): (usize, String)| {
            let value = |setting: NapiSetting| match self.read(&format!("{directory}/{name}/{}", setting.name())).ok()?.as_str() {
                "busy-poll" => Some(2),
                number => number.parse().ok(),
            };
            let mut facts = NapiFacts::default().with(value);
            (facts.id, facts.irq) = (8193 + place as u32, Some(40 + place as u32));
            Napi { queues: vec![name], facts }
        };
        Ok(names.into_iter().enumerate().map(napi).collect())
    }

    fn set_napi(&self, interface: &str, name: &str, setting: NapiSetting, text: &str) -> Result<(), DeviceError> {
        if !self.napis(interface)?.iter().any(|napi| napi.name() == name) {
            return Err(DeviceError::NoNapi { interface: interface.to_owned(), name: name.to_owned() });
        }
        let path = format!("{}/{name}/{}", napi_directory(interface), setting.name());
        let set =
            || if self.takes(&format!("{interface} {name} {}", setting.name()))? { self.write(&path, text) } else { Ok(()) };
        set().map_err(|source| DeviceError::Fake { what: setting.name(), interface: interface.to_owned(), source })
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        if !self.takes(path)? {
            return Ok(());
        }
        let place = self.place(path);
        let before = String::from_utf8_lossy(&read_bytes(&place)?).into_owned();
        let after = if path.ends_with("/cgroup.subtree_control") { controllers(&before, text) } else { written(&before, text)? };
        write(&place, &after)?;
        let Some((interface, setting)) = napi::of_file(path) else { return Ok(()) };
        for instance in list(&self.place(&napi_directory(interface))).unwrap_or_default() {
            let own = self.place(&format!("{}/{instance}/{}", napi_directory(interface), setting.name()));
            if own.exists() {
                write(&own, &after)?;
            }
        }
        Ok(())
    }

    fn hold(&self, path: &str, bytes: &[u8]) -> io::Result<Held> {
        if self.takes(path)? {
            read_bytes(&self.place(path))?;
            self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), bytes.to_vec());
        }
        Ok(Held { _file: None, fake: Some((Arc::clone(&self.held), path.to_owned())) })
    }

    fn make_directory(&self, path: &str) -> io::Result<()> {
        self.takes(path)?;
        let place = self.place(path);
        fs::create_dir(&place)?;
        // A new cgroup has its files at once.
        if place.parent().is_some_and(|above| above.join("cgroup.controllers").exists()) {
            for (file, text) in [("cpuset.cpus", "\n"), ("cpuset.cpus.partition", "member\n"), ("cgroup.procs", "")] {
                fs::write(place.join(file), text)?;
            }
        }
        Ok(())
    }

    fn remove_directory(&self, path: &str) -> io::Result<()> {
        self.takes(path)?;
        fs::remove_dir_all(self.place(path))
    }
}

fn make_parents(place: &Path) {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent).unwrap_or_else(|why| panic!("fake host: making {}: {why}", parent.display()));
    }
}
