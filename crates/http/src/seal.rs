//! Positions in the log for tenants. A global sequence number would show them how busy the
//! others are, so theirs is sealed: it only means something to this site and their project.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_model::{ProjectName, Seq};
use ring::hmac;
use std::io;
use std::path::Path;
use subtle::ConstantTimeEq as _;

/// Seals and opens tenants' positions.
pub(crate) struct Sealer {
    tag: hmac::Key,
    mask: hmac::Key,
    hash: hmac::Key,
    version: hmac::Key,
    session: hmac::Key,
}

/// Bits of each half of a version that is sealed. Both halves together are what readers that know only
/// floating point do not round.
const HALF: u32 = 24;
const LOW: u64 = (1 << HALF) - 1;
/// Rounds of the permutation that seals a version.
const ROUNDS: u8 = 6;

impl Sealer {
    pub(crate) fn new(key: &[u8; 32]) -> Sealer {
        let root = hmac::Key::new(hmac::HMAC_SHA256, key);
        let derive =
            |what: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&root, what).as_ref());
        Sealer {
            tag: derive(b"muster cursor tag"),
            mask: derive(b"muster cursor mask"),
            hash: derive(b"muster keyed hash"),
            version: derive(b"muster version"),
            session: derive(b"muster session"),
        }
    }

    /// A hash that nobody without the site's key can try guesses against.
    pub(crate) fn keyed_hash(&self, data: &[u8]) -> Vec<u8> {
        hmac::sign(&self.hash, data).as_ref().to_vec()
    }

    /// What only this site can write under a session of a token with this hash, up to this moment.
    pub(crate) fn session_proof(&self, token: &str, until: i64, hash: &str) -> String {
        let mut c = hmac::Context::with_key(&self.session);
        c.update(&until.to_be_bytes());
        // Neither has a line end in it.
        c.update(token.as_bytes());
        c.update(b"\n");
        c.update(hash.as_bytes());
        URL_SAFE_NO_PAD.encode(c.sign())
    }

    /// The name of this site's cookie: browsers keep those of all ports of a machine together. Over
    /// TLS its prefix makes them refuse one that another host of the domain, or plain HTTP, set.
    pub(crate) fn session_name(&self, https: bool) -> String {
        let mark = URL_SAFE_NO_PAD.encode(&hmac::sign(&self.session, b"name").as_ref()[..6]);
        let prefix = if https { "__Host-" } else { "" };
        format!("{prefix}muster_session_{mark}")
    }

    fn tag(&self, project: &ProjectName, seq: [u8; 8]) -> [u8; 8] {
        let mut c = hmac::Context::with_key(&self.tag);
        c.update(&seq);
        c.update(project.as_str().as_bytes());
        first_eight(c.sign().as_ref())
    }

    fn masked(&self, tag: [u8; 8], seq: [u8; 8]) -> [u8; 8] {
        let mask = first_eight(hmac::sign(&self.mask, &tag).as_ref());
        std::array::from_fn(|i| seq[i] ^ mask[i])
    }

    /// The same position of the same project always seals to the same text.
    pub(crate) fn seal(&self, project: &ProjectName, seq: Seq) -> String {
        let seq = seq.0.to_be_bytes();
        let tag = self.tag(project, seq);
        let mut out = [0u8; 16];
        out[..8].copy_from_slice(&tag);
        out[8..].copy_from_slice(&self.masked(tag, seq));
        URL_SAFE_NO_PAD.encode(out)
    }

    /// None when it was not sealed here, or for another project.
    pub(crate) fn open(&self, project: &ProjectName, text: &str) -> Option<Seq> {
        let raw: [u8; 16] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let tag = first_eight(&raw);
        let seq = self.masked(tag, first_eight(&raw[8..]));
        let right = self.tag(project, seq);
        bool::from(right.ct_eq(&tag)).then(|| Seq(u64::from_be_bytes(seq)))
    }

    fn version_round(&self, project: &ProjectName, round: u8, half: u64) -> u64 {
        let mut c = hmac::Context::with_key(&self.version);
        c.update(&[round]);
        c.update(&half.to_be_bytes());
        c.update(project.as_str().as_bytes());
        u64::from_be_bytes(first_eight(c.sign().as_ref())) & LOW
    }

    /// An object's version as this project sees it: a number that stands for one version and says
    /// nothing about how many records lie between two. A version is the log's sequence, and that would
    /// show how much others do. (A Feistel network over the lower 48 bits, so that it can be
    /// opened.)
    pub(crate) fn seal_version(&self, project: &ProjectName, version: u64) -> u64 {
        let (rest, mut left, mut right) = halves(version);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.version_round(project, round, right));
        }
        rest | (left << HALF) | right
    }

    /// The version behind a number that this project was shown. Any other number gives one that no
    /// object has.
    pub(crate) fn open_version(&self, project: &ProjectName, shown: u64) -> u64 {
        let (rest, mut left, mut right) = halves(shown);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.version_round(project, round, left), left);
        }
        rest | (left << HALF) | right
    }
}

/// What is above the lower 48 bits, and the halves of these.
fn halves(version: u64) -> (u64, u64, u64) {
    let rest = version >> (2 * HALF) << (2 * HALF);
    (rest, (version >> HALF) & LOW, version & LOW)
}

fn first_eight(b: &[u8]) -> [u8; 8] {
    std::array::from_fn(|i| b.get(i).copied().unwrap_or(0))
}

/// Reads the site's key, or makes it on the first start. Servers of one site must share the file,
/// or a tenant's position does not survive a change of leadership.
///
/// # Errors
/// When the file cannot be read or written, or holds something else.
pub fn load_or_create_key(path: &Path) -> io::Result<[u8; 32]> {
    match std::fs::read(path) {
        Ok(b) => b.try_into().map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} is not a key of 32 bytes", path.display()),
            )
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let mut key = [0u8; 32];
            getrandom::fill(&mut key).map_err(|_| io::Error::other("no randomness available"))?;
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(path)?;
            io::Write::write_all(&mut file, &key)?;
            file.sync_all()?;
            Ok(key)
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(s: &str) -> ProjectName {
        s.parse().unwrap()
    }

    #[test]
    fn a_sealed_position_opens_for_its_project_and_site_only() {
        let (s, p) = (Sealer::new(&[7; 32]), project("research"));
        for n in [0, 1, 42, u64::MAX] {
            let text = s.seal(&p, Seq(n));
            assert_eq!(s.open(&p, &text), Some(Seq(n)));
            assert_eq!(text, s.seal(&p, Seq(n)));
            assert_eq!(s.open(&project("other"), &text), None);
            assert_eq!(Sealer::new(&[8; 32]).open(&p, &text), None);
        }
        for bad in ["", "42", "AAAAAAAAAAAAAAAAAAAAAA", "é", "%00", &"A".repeat(4000)] {
            assert_eq!(s.open(&p, bad), None, "{bad}");
        }
    }

    #[test]
    fn a_sealed_version_is_another_small_number_and_opens_for_its_project_only() {
        let (s, p) = (Sealer::new(&[7; 32]), project("research"));
        for n in [0, 1, 2, 42, (1 << 24) + 5, (1 << 48) - 1, 1 << 48, u64::MAX] {
            let shown = s.seal_version(&p, n);
            assert_eq!(s.open_version(&p, shown), n);
            assert_eq!(Sealer::new(&[7; 32]).seal_version(&p, n), shown, "after a restart too");
            assert_ne!(s.seal_version(&project("other"), n), shown);
            assert_ne!(Sealer::new(&[8; 32]).open_version(&p, shown), n);
            assert!(n >> 48 != 0 || shown >> 48 == 0, "{shown} would be rounded");
        }
        let near: Vec<u64> =
            (100..108).map(|n| s.seal_version(&p, n + 1).abs_diff(s.seal_version(&p, n))).collect();
        assert!(near.iter().all(|d| *d > 1000), "neighbours are far apart: {near:?}");
    }

    #[test]
    fn the_key_is_made_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cursor.key");
        let key = load_or_create_key(&path).unwrap();
        assert_eq!(load_or_create_key(&path).unwrap(), key);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&path).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "short").unwrap();
        assert!(load_or_create_key(&path).unwrap_err().to_string().contains("32 bytes"));
    }
}
