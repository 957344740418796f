//! The key shared by both sides of a session: 32 bytes, kept as one line of text in a file.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use snow::resolvers::{CryptoResolver, DefaultResolver};

/// Bytes of a key: the length of a Noise pre-shared key.
pub const LEN: usize = 32;

/// Most bytes read of a key file, which is one short line.
const MAX_FILE: u64 = 256;

/// The key of a session. `Debug` does not show it; [`Key::to_text`] does.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; LEN]);

/// Why a text is not a key. The message does not repeat the text: it may be a key with one character too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key: write one line of 43 characters base64url or 64 hex digits, as `hairpin serve` does")]
pub struct ParseKeyError;

/// Why a key could not be generated.
#[derive(Debug, thiserror::Error)]
#[error(
    "the kernel gave no random bytes (getrandom(2)): {0:?}; write a key file by hand: head -c 32 /dev/urandom | xxd -p -c 64"
)]
pub struct GenerateKeyError(snow::Error);

/// Why a key file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadKeyError {
    /// The file cannot be read.
    #[error("cannot read the key file {}: {source}; name the file that `hairpin serve` wrote, copied here", path.display())]
    Read {
        path: PathBuf,
        /// The error of open(2) or read(2).
        source: io::Error,
    },
    /// The file does not hold a key.
    #[error("{} is {source}", path.display())]
    Parse {
        path: PathBuf,
        /// The fault in the text.
        source: ParseKeyError,
    },
}

/// A key read from a file, and the file's permissions.
#[derive(Debug)]
pub struct Loaded {
    pub key: Key,
    /// The file's permission bits, such as 0o600.
    pub mode: u32,
    /// The file is this process's user's.
    pub is_own: bool,
}

impl Loaded {
    /// True if the file's group or all users may read the key, which deserves a warning. Of a file of another user's, such as a
    /// Secret of Kubernetes, it is the group by which this process may.
    pub fn others_may_read(&self) -> bool {
        self.mode & if self.is_own { 0o044 } else { 0o004 } != 0
    }
}

impl Key {
    /// A new key from the kernel's random bytes.
    pub fn generate() -> Result<Key, GenerateKeyError> {
        let mut random = DefaultResolver.resolve_rng().ok_or(GenerateKeyError(snow::Error::Rng))?;
        let mut bytes = [0; LEN];
        random.try_fill_bytes(&mut bytes).map_err(GenerateKeyError)?;
        Ok(Key(bytes))
    }

    /// Parses a key's text: base64url without padding, or hex. Surrounding white space is ignored.
    pub fn parse(text: &str) -> Result<Key, ParseKeyError> {
        let text = text.trim_ascii();
        if text.len() == 2 * LEN {
            return hex(text.as_bytes()).map(Key).ok_or(ParseKeyError);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| ParseKeyError)?;
        bytes.try_into().map(Key).map_err(|_| ParseKeyError)
    }

    /// The key as one line of base64url, without a newline. Anyone who sees it can join the session.
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    pub fn load(path: &Path) -> Result<Loaded, LoadKeyError> {
        let (text, mode, is_own) = read(path).map_err(|source| LoadKeyError::Read { path: path.into(), source })?;
        let key = str::from_utf8(&text).map_err(|_| ParseKeyError).and_then(Key::parse);
        let key = key.map_err(|source| LoadKeyError::Parse { path: path.into(), source })?;
        Ok(Loaded { key, mode, is_own })
    }

    pub(super) fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

fn read(path: &Path) -> io::Result<(Vec<u8>, u32, bool)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let (mode, is_own) = (metadata.permissions().mode() & 0o7777, metadata.uid() == rustix::process::geteuid().as_raw());
    let mut text = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut text)?;
    Ok((text, mode, is_own))
}

fn hex(digits: &[u8]) -> Option<[u8; LEN]> {
    let mut bytes = [0; LEN];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |d: u8| char::from(d).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_printed_key_is_loaded_again_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let key = Key::generate().unwrap();
        std::fs::write(&path, key.to_text() + "\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let loaded = Key::load(&path).unwrap();
        assert_eq!((loaded.key == key, loaded.mode, loaded.others_may_read()), (true, 0o600, false));
    }

    #[test]
    fn key_files_that_others_may_read_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "00".repeat(LEN) + "\r\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let loaded = Key::load(&path).unwrap();
        assert!(loaded.is_own && loaded.others_may_read());
        assert!(!Loaded { is_own: false, ..loaded }.others_may_read(), "its group is how it is read at all");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o604)).unwrap();
        assert!(Loaded { is_own: false, ..Key::load(&path).unwrap() }.others_may_read());
    }

    #[test]
    fn rejects_invalid_keys_without_repeating_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        for text in ["", "secret", &"0".repeat(63), &"g".repeat(64), &"A".repeat(44), &"é".repeat(32), &"0".repeat(1000)] {
            std::fs::write(&path, text).unwrap();
            let error = Key::load(&path).unwrap_err();
            assert!(matches!(error, LoadKeyError::Parse { .. }), "{text}");
            assert!(!error.to_string().contains("secret"));
        }
        assert!(matches!(Key::load(&dir.path().join("none")), Err(LoadKeyError::Read { .. })));
    }

    #[test]
    fn two_keys_differ_and_neither_is_shown() {
        let (a, b) = (Key::generate().unwrap(), Key::generate().unwrap());
        assert!(a != b);
        assert_eq!(format!("{a:?}"), "Key(hidden)");
    }

    proptest! {
        #[test]
        fn text_keeps_the_key(bytes: [u8; LEN]) {
            let key = Key(bytes);
            prop_assert!(Key::parse(&key.to_text()) == Ok(key.clone()));
            let hex: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
            prop_assert!(Key::parse(&hex) == Ok(key));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC{0,80}") {
            let _ = Key::parse(&text);
        }
    }
}
