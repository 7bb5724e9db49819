//! Where a data directory is. A copy holds the log and the lease of another server's directory:
//! it must not lead beside that one.

use crate::{ServeError, io_error, write_private};
use muster_store::StoreUrl;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What was noted, in the directory.
const FILE: &str = "server.place";

/// Which directory it is. One that was only renamed, or is at its path again, is the same.
#[derive(Debug, PartialEq, Eq)]
struct DirIdentity {
    dev: u64,
    ino: u64,
    path: String,
}

impl DirIdentity {
    fn of(dir: &Path) -> io::Result<DirIdentity> {
        let (real, meta) = (dir.canonicalize()?, dir.metadata()?);
        let path = real.to_string_lossy().into_owned();
        Ok(DirIdentity { dev: meta.dev(), ino: meta.ino(), path })
    }

    fn parse(text: &str) -> Option<DirIdentity> {
        let mut words = text.trim_end_matches('\n').splitn(3, ' ');
        let (dev, ino) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(DirIdentity { dev, ino, path: words.next()?.to_owned() })
    }

    fn is(&self, other: &DirIdentity) -> bool {
        self.path == other.path || (self.dev, self.ino) == (other.dev, other.ino)
    }
}

/// Refuses to go on in a copy of another directory unless that is `accepted`, and notes which one
/// this is. A store elsewhere has one lease for all: then a copy stands by.
pub(crate) fn settle(dir: &Path, store: &StoreUrl, accepted: bool) -> Result<(), ServeError> {
    let what = format!("cannot look at {}", dir.display());
    let here = DirIdentity::of(dir).map_err(io_error(what))?;
    if !holds(&here, store) {
        return Ok(());
    }
    let file = dir.join(FILE);
    let noted = match std::fs::read_to_string(&file) {
        Ok(text) => DirIdentity::parse(&text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(io_error(format!("cannot read {}", file.display()))(e)),
    };
    match noted {
        Some(noted) if noted == here => Ok(()),
        Some(noted) if !accepted && !noted.is(&here) => {
            Err(ServeError::Copied { dir: dir.into(), from: noted.path.into() })
        }
        _ => write_private(&file, &format!("{} {} {}\n", here.dev, here.ino, here.path)),
    }
}

/// Is the store in the directory itself?
fn holds(dir: &DirIdentity, store: &StoreUrl) -> bool {
    let StoreUrl::Sqlite(path) = store else { return false };
    let beside = path.parent().and_then(|p| p.canonicalize().ok());
    beside.is_some_and(|p| p.starts_with(&dir.path))
}
