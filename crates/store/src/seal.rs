//! Sealing secrets before they reach the store.
//!
//! The key is a file of its own, outside the database: a stolen backup opens nothing.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// First byte of everything sealed: AES-256-GCM with a random nonce.
const FORMAT: u8 = 1;
const KEY_LEN: usize = 32;

/// Why something could not be sealed or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The key's file cannot be used.
    #[error("the seal key {}: {what}", path.display())]
    KeyFile {
        /// The key's file.
        path: PathBuf,
        /// What is wrong and how to fix it.
        what: String,
        /// The error below it, where there is one.
        #[source]
        source: Option<std::io::Error>,
    },
    /// The key does not fit, or the sealed bytes were altered.
    #[error(
        "a secret cannot be opened: it was sealed with another key or for another name, or it was \
         altered; put back the seal key that belongs to this store"
    )]
    WrongKey,
    /// Not something that was sealed here.
    #[error("a secret cannot be opened: its format is not known (sealed by a newer version?)")]
    Format,
    /// The library failed, for example for want of random numbers.
    #[error("the cryptographic library failed")]
    Library,
}

/// The key that seals a site's secrets.
pub struct SealKey {
    key: LessSafeKey,
}

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey(hidden)")
    }
}

impl SealKey {
    fn new(bytes: &[u8]) -> Result<SealKey, SealError> {
        let key = UnboundKey::new(&AES_256_GCM, bytes).map_err(|_| SealError::Library)?;
        Ok(SealKey { key: LessSafeKey::new(key) })
    }

    /// Loads the key, or makes a new one when the file does not exist.
    pub fn load_or_create(path: &Path) -> Result<SealKey, SealError> {
        match SealKey::load(path) {
            Err(SealError::KeyFile { source: Some(e), .. })
                if e.kind() == std::io::ErrorKind::NotFound =>
            {
                SealKey::create(path)?;
                // Whoever else created it at the same moment: the file decides.
                SealKey::load(path)
            }
            other => other,
        }
    }

    /// Loads the key from its file.
    pub fn load(path: &Path) -> Result<SealKey, SealError> {
        let fail = |what: &str, source| SealError::KeyFile {
            path: path.to_owned(),
            what: what.to_owned(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .open(path)
            .map_err(|e| fail("it cannot be opened", Some(e)))?;
        let mode =
            file.metadata().map_err(|e| fail("it cannot be read", Some(e)))?.permissions().mode();
        if mode & 0o077 != 0 {
            let what = format!("its mode is {:o}, others can read it: chmod 600", mode & 0o777);
            return Err(fail(&what, None));
        }
        let mut bytes = Vec::with_capacity(KEY_LEN);
        (&mut file)
            .take(KEY_LEN as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| fail("it cannot be read", Some(e)))?;
        if bytes.len() != KEY_LEN {
            let what = "it is not 32 bytes long: put back the file that belongs to this store";
            return Err(fail(what, None));
        }
        SealKey::new(&bytes)
    }

    fn create(path: &Path) -> Result<(), SealError> {
        let fail = |e| SealError::KeyFile {
            path: path.to_owned(),
            what: "it cannot be created: check its directory".to_owned(),
            source: Some(e),
        };
        let mut bytes = [0; KEY_LEN];
        getrandom::fill(&mut bytes).map_err(|_| SealError::Library)?;
        let mut tag = [0; 8];
        getrandom::fill(&mut tag).map_err(|_| SealError::Library)?;
        let name = path.file_name().map_or_else(Default::default, |n| n.to_string_lossy());
        let draft = path.with_file_name(format!(".{name}.{}.tmp", crate::chain::hex(&tag)));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut f| f.write_all(&bytes).and_then(|()| f.sync_all()))
            // A link never replaces a key that is there already.
            .and_then(|()| match std::fs::hard_link(&draft, path) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
                other => other,
            });
        let _ = std::fs::remove_file(&draft);
        written.map_err(fail)?;
        std::fs::File::open(crate::files::parent(path)).and_then(|d| d.sync_all()).map_err(fail)
    }

    /// Seals `plaintext`; it opens only with the same `associated` data (say, what it is for).
    pub fn seal(&self, plaintext: &[u8], associated: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| SealError::Library)?;
        let mut sealed = plaintext.to_vec();
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(associated),
                &mut sealed,
            )
            .map_err(|_| SealError::Library)?;
        let mut out = Vec::with_capacity(1 + NONCE_LEN + sealed.len());
        out.push(FORMAT);
        out.extend_from_slice(&nonce);
        out.append(&mut sealed);
        Ok(out)
    }

    /// Opens what [`SealKey::seal`] made.
    pub fn open(&self, sealed: &[u8], associated: &[u8]) -> Result<Vec<u8>, SealError> {
        let (format, rest) = sealed.split_first().ok_or(SealError::Format)?;
        if *format != FORMAT || rest.len() < NONCE_LEN {
            return Err(SealError::Format);
        }
        let (nonce, rest) = rest.split_at(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Format)?;
        let mut buffer = rest.to_vec();
        let plain = self
            .key
            .open_in_place(nonce, Aad::from(associated), &mut buffer)
            .map_err(|_| SealError::WrongKey)?;
        Ok(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_the_same_key_and_name_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("seal.key");
        let key = SealKey::load_or_create(&path).unwrap();
        let sealed = key.seal(b"hunter2", b"p/name").unwrap();
        assert!(!sealed.windows(7).any(|w| w == b"hunter2"));
        let again = SealKey::load_or_create(&path).unwrap();
        assert_eq!(again.open(&sealed, b"p/name").unwrap(), b"hunter2");
        assert!(matches!(again.open(&sealed, b"p/other"), Err(SealError::WrongKey)));
        let other = SealKey::load_or_create(&dir.path().join("other.key")).unwrap();
        assert!(matches!(other.open(&sealed, b"p/name"), Err(SealError::WrongKey)));
        assert_ne!(sealed, key.seal(b"hunter2", b"p/name").unwrap(), "the nonce is random");
        for cut in 0..sealed.len() {
            assert!(key.open(&sealed[..cut], b"p/name").is_err());
        }
        assert_eq!(format!("{key:?}"), "SealKey(hidden)");
    }

    #[test]
    fn a_key_file_that_is_readable_by_others_or_cut_short_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("seal.key");
        SealKey::load_or_create(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(SealKey::load(&path).unwrap_err().to_string().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, b"short").unwrap();
        assert!(SealKey::load(&path).unwrap_err().to_string().contains("32 bytes"));
    }
}
