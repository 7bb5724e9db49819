//! Directories and files that nobody but the user of this process may change: keys, tokens and the
//! log are in them. Whoever can write there decides who is trusted.

use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Others may write.
const WRITABLE: u32 = 0o022;
/// Others may read or write.
const READABLE: u32 = 0o077;

/// Which rights others must not have to a file of this name; none: it is not looked at.
fn forbidden(name: &str) -> Option<u32> {
    let secret =
        name.ends_with(".key") || name.ends_with(".token") || name.starts_with("muster.db");
    let trusted = name.ends_with(".pem")
        || matches!(name, "pki" | "clock" | "id" | "server.id" | "server.place" | "site.id")
        || matches!(name, "site.json" | "store.head");
    match (secret, trusted) {
        (true, _) => Some(READABLE),
        (false, true) => Some(WRITABLE),
        (false, false) => None,
    }
}

/// Makes the data directory of a server or an agent where there is none. One that is there is used
/// only when it and its keys belong to the user of this process and others cannot change them; its
/// mode becomes 0700.
///
/// # Errors
/// When something there is not as it must be: which file, and how to fix it. Nothing was changed.
pub fn data_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let about = fs::metadata(dir)?;
    check_owner(dir, &about)?;
    let exposed = about.mode() & WRITABLE != 0;
    if exposed {
        // Whatever is in there may be somebody else's. In an empty one nothing is.
        if fs::read_dir(dir)?.next().is_some() {
            return Err(exposed_to_others(dir, &about, "700"));
        }
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    }
    check_files(dir)?;
    if !exposed && about.mode() & READABLE != 0 {
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Checks a file with secrets that may be outside the data directory. It may also not be there.
///
/// # Errors
/// When it is another user's, or others can read it.
pub fn secret_file(path: &Path) -> io::Result<()> {
    check(path, READABLE)
}

/// Writes a file that only its owner may read.
///
/// # Errors
/// Whatever the system says.
pub fn write(path: &Path, data: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(data)
}

fn check_files(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(rights) = forbidden(&name.to_string_lossy()) else { continue };
        let path = entry.path();
        check(&path, rights)?;
        if name == "pki" && path.is_dir() {
            check_files(&path)?;
        }
    }
    Ok(())
}

fn check(path: &Path, rights: u32) -> io::Result<()> {
    // A link that somebody else put there leads where that one wants.
    for about in [fs::symlink_metadata(path), fs::metadata(path)] {
        let about = match about {
            Ok(about) => about,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        check_owner(path, &about)?;
        if !about.is_symlink() && about.mode() & rights != 0 {
            return Err(exposed_to_others(
                path,
                &about,
                if about.is_dir() { "700" } else { "600" },
            ));
        }
    }
    Ok(())
}

fn check_owner(path: &Path, about: &Metadata) -> io::Result<()> {
    let (own, path) = (rustix::process::geteuid().as_raw(), path.display());
    if about.uid() == own {
        return Ok(());
    }
    Err(refused(format!(
        "{path} belongs to user {} (mode {:o}), and this process runs as user {own}: whoever owns \
         it decides who is trusted here. If you know its content, `chown -h {own} {path}`; otherwise \
         choose another --data-dir",
        about.uid(),
        about.mode() & 0o7777,
    )))
}

fn exposed_to_others(path: &Path, about: &Metadata, mode: &str) -> io::Error {
    let can = if about.mode() & WRITABLE == 0 { "read" } else { "change" };
    let path = path.display();
    refused(format!(
        "{path} has mode {:o} (user {}): others can {can} it. If you know its content, \
         `chmod {mode} {path}`; otherwise choose another --data-dir",
        about.mode() & 0o7777,
        about.uid(),
    ))
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// A directory as a server leaves it.
    fn used() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("data");
        data_dir(&dir).unwrap();
        data_dir(&dir.join("pki")).unwrap();
        for name in ["admin.token", "pki/ca.key", "pki/ca.pem", "muster.db", "clock", "node.key"] {
            write(&dir.join(name), b"x").unwrap();
        }
        (root, dir)
    }

    #[test]
    fn a_directory_of_ones_own_is_made_private_and_used() {
        let (_root, dir) = used();
        assert_eq!((mode(&dir), mode(&dir.join("clock"))), (0o700, 0o600));
        set(&dir, 0o755);
        set(&dir.join("pki/ca.pem"), 0o644);
        data_dir(&dir).unwrap();
        assert_eq!(mode(&dir), 0o700);
        // Nobody can have put anything into an empty one.
        let empty = dir.join("empty");
        fs::create_dir(&empty).unwrap();
        set(&empty, 0o777);
        data_dir(&empty).unwrap();
        assert_eq!(mode(&empty), 0o700);
    }

    #[test]
    fn what_others_can_change_or_read_is_refused_and_stays_as_it_is() {
        let (_root, dir) = used();
        for (name, bad, good, fix) in [
            ("", 0o777, 0o700, "chmod 700"),
            ("pki", 0o770, 0o700, "chmod 700"),
            ("admin.token", 0o644, 0o600, "chmod 600"),
            ("pki/ca.key", 0o640, 0o600, "chmod 600"),
            ("muster.db", 0o644, 0o600, "chmod 600"),
            ("node.key", 0o604, 0o600, "chmod 600"),
            ("pki/ca.pem", 0o664, 0o644, "chmod 600"),
            ("clock", 0o666, 0o600, "chmod 600"),
        ] {
            let path = if name.is_empty() { dir.clone() } else { dir.join(name) };
            set(&path, bad);
            let why = data_dir(&dir).unwrap_err().to_string();
            for part in [path.to_str().unwrap(), &format!("mode {bad:o}"), fix, "--data-dir"] {
                assert!(why.contains(part), "{why}");
            }
            assert_eq!(mode(&path), bad, "nothing was changed");
            set(&path, good);
        }
        data_dir(&dir).unwrap();
    }

    #[test]
    fn what_another_user_prepared_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (_root, dir) = used();
        std::os::unix::fs::symlink("/nowhere", dir.join("secrets.key")).unwrap();
        for name in ["", "pki", "admin.token", "pki/ca.key", "muster.db", "clock", "secrets.key"] {
            let path = if name.is_empty() { dir.clone() } else { dir.join(name) };
            std::os::unix::fs::lchown(&path, Some(65534), None).unwrap();
            let why = data_dir(&dir).unwrap_err().to_string();
            for part in [path.to_str().unwrap(), "user 65534", "chown -h 0", "--data-dir"] {
                assert!(why.contains(part), "{why}");
            }
            std::os::unix::fs::lchown(&path, Some(0), None).unwrap();
        }
        data_dir(&dir).unwrap();
    }
}
