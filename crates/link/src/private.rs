//! Directories and files that nobody but the user of this process may change: keys, tokens and the
//! log are in them. Whoever can write there decides who is trusted.

use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Others may write.
const WRITABLE: u32 = 0o022;
/// Others may read or write.
const READABLE: u32 = 0o077;
/// Only its owner may replace a file in the directory.
const STICKY: u32 = 0o1000;

/// Why a directory or a file is not used.
#[derive(Debug, thiserror::Error)]
#[error("{what}. {fix}")]
pub struct Refused {
    /// What is not as it must be, and where.
    pub what: String,
    /// How to fix it.
    pub fix: String,
}

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
/// only when it and all that is in it belong to the user of this process, and others cannot have
/// changed its keys; its mode becomes 0700. Where nobody else gets in anyway, files that others
/// could use are made private, with a warning.
///
/// # Errors
/// When something there is not as it must be: which file, and how to fix it. Nothing was changed.
pub fn data_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let about = own_dir(dir)?;
    if about.mode() & WRITABLE != 0 {
        // Whatever is in there may be somebody else's; in an empty one nothing is. It is closed
        // first: nobody puts anything there between the look and the lock.
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
        if !entries(dir)?.is_empty() {
            fs::set_permissions(dir, Permissions::from_mode(about.mode() & 0o7777))?;
            return Err(exposed_to_others(dir, &about, "700"));
        }
        report_closed(dir, &about);
        return Ok(());
    }
    let closed = about.mode() & READABLE == 0;
    let mut loose = Vec::new();
    check_entries(dir, closed, &mut loose)?;
    tighten(&loose)?;
    if !closed {
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
        report_closed(dir, &about);
    }
    Ok(())
}

/// Whoever opened it by hand is to know that it is closed again.
fn report_closed(dir: &Path, had: &Metadata) {
    tracing::warn!(
        path = %dir.display(),
        "the directory had mode {:o}, which lets others in; it gets mode 700",
        had.mode() & 0o7777
    );
}

/// Whether [`data_dir`] would use a directory that is there. It looks only.
///
/// # Errors
/// As of [`data_dir`]; the cause is a [`Refused`] where the directory is not as it must be.
pub fn check_data_dir(dir: &Path) -> io::Result<()> {
    let about = own_dir(dir)?;
    if about.mode() & WRITABLE == 0 {
        return check_entries(dir, about.mode() & READABLE == 0, &mut Vec::new());
    }
    if entries(dir)?.is_empty() { Ok(()) } else { Err(exposed_to_others(dir, &about, "700")) }
}

/// A directory that must be this user's.
fn own_dir(dir: &Path) -> io::Result<Metadata> {
    // A link that somebody else put there leads where that one wants.
    check_owner(dir, &fs::symlink_metadata(dir)?)?;
    let about = fs::metadata(dir)?;
    check_owner(dir, &about)?;
    Ok(about)
}

/// Checks an embedded store, which may be outside the data directory: its file, those that SQLite
/// puts beside it, and the directory they are in. None of them need be there.
///
/// # Errors
/// When one of them is another user's, others can read a file, or others can put files there.
pub fn store_file(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let about = match fs::metadata(parent) {
        Ok(about) => about,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    // The system's own directories are root's. Where the sticky bit is set, as in /tmp, others
    // cannot replace what is there.
    if about.uid() != 0 {
        check_owner(parent, &about)?;
    }
    if about.mode() & WRITABLE != 0 && about.mode() & STICKY == 0 {
        return Err(exposed_to_others(parent, &about, "go-w"));
    }
    let closed = about.mode() & READABLE == 0;
    let mut loose = Vec::new();
    for end in ["", "-wal", "-shm", "-journal", ".head"] {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        check(Path::new(&file), READABLE, closed, &mut loose)?;
    }
    tighten(&loose)
}

/// Writes a file that only its owner may read, also where there is one already. A link is not
/// followed.
///
/// # Errors
/// Whatever the system says.
pub fn write(path: &Path, data: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(data)
}

/// What is in a directory, but for what the file system itself puts into it.
fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name() != "lost+found" {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// `closed`: nobody else gets into the data directory. `loose` gets what is to be made private.
fn check_entries(dir: &Path, closed: bool, loose: &mut Vec<PathBuf>) -> io::Result<()> {
    for path in entries(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match forbidden(&name) {
            Some(rights) => check(&path, rights, closed, loose)?,
            None => {
                owned(&path, fs::symlink_metadata(&path))?;
            }
        }
        if name == "pki" && path.is_dir() {
            check_entries(&path, closed, loose)?;
        }
    }
    Ok(())
}

fn check(path: &Path, rights: u32, closed: bool, loose: &mut Vec<PathBuf>) -> io::Result<()> {
    let Some(mut about) = owned(path, fs::symlink_metadata(path))? else { return Ok(()) };
    if about.is_symlink() {
        let Some(target) = owned(path, fs::metadata(path))? else { return Ok(()) };
        about = target;
    }
    if about.mode() & rights == 0 {
        return Ok(());
    }
    if !closed {
        let mode = if about.is_dir() { "700" } else { "600" };
        return Err(exposed_to_others(path, &about, mode));
    }
    loose.push(path.to_owned());
    Ok(())
}

/// What the system says of a file, none when it is not there. It must be this user's.
fn owned(path: &Path, about: io::Result<Metadata>) -> io::Result<Option<Metadata>> {
    match about {
        Ok(about) => check_owner(path, &about).map(|()| Some(about)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The directory kept others out, so that nobody has used these rights.
fn tighten(loose: &[PathBuf]) -> io::Result<()> {
    for path in loose {
        let about = fs::metadata(path)?;
        let mode = if about.is_dir() { 0o700 } else { 0o600 };
        let (had, path) = (about.mode() & 0o7777, path.as_path());
        tracing::warn!(
            path = %path.display(),
            "had mode {had:o}, which lets others use it; it gets mode {mode:o}"
        );
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn check_owner(path: &Path, about: &Metadata) -> io::Result<()> {
    let (own, path) = (rustix::process::geteuid().as_raw(), path.display());
    if about.uid() == own {
        return Ok(());
    }
    let what = format!(
        "{path} belongs to user {} (mode {:o}), and this process runs as user {own}: whoever owns \
         it decides who is trusted here",
        about.uid(),
        about.mode() & 0o7777,
    );
    Err(refused(what, &format!("chown -h {own} {path}")))
}

fn exposed_to_others(path: &Path, about: &Metadata, mode: &str) -> io::Error {
    let can = if about.mode() & WRITABLE == 0 { "read" } else { "change" };
    let path = path.display();
    let (mode_now, user) = (about.mode() & 0o7777, about.uid());
    let what = format!("{path} has mode {mode_now:o} (user {user}): others can {can} it");
    refused(what, &format!("chmod {mode} {path}"))
}

fn refused(what: String, command: &str) -> io::Error {
    let fix = format!(
        "If you know its content, `{command}`; otherwise choose another place (--data-dir, --store)"
    );
    io::Error::new(io::ErrorKind::PermissionDenied, Refused { what, fix })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};

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
        check_data_dir(&empty).unwrap();
        data_dir(&empty).unwrap();
        assert_eq!(mode(&empty), 0o700);
    }

    #[test]
    fn what_others_could_change_or_read_is_refused_and_stays_as_it_is() {
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
            // Others get in.
            set(&dir, 0o755);
            set(&path, bad);
            let seen = check_data_dir(&dir).unwrap_err().to_string();
            let why = data_dir(&dir).unwrap_err().to_string();
            assert_eq!(seen, why, "whoever only looks is shown the same");
            for part in [path.to_str().unwrap(), &format!("mode {bad:o}"), fix, "--data-dir"] {
                assert!(why.contains(part), "{why}");
            }
            assert_eq!(mode(&path), bad, "nothing was changed");
            set(&path, good);
        }
        data_dir(&dir).unwrap();
    }

    #[test]
    fn what_nobody_else_could_reach_is_made_private() {
        let (_root, dir) = used();
        // As an earlier version left them under umask 002.
        let wide = [("pki", 0o775), ("clock", 0o664), ("pki/ca.pem", 0o664), ("muster.db", 0o664)];
        for (name, bad) in wide {
            set(&dir.join(name), bad);
        }
        check_data_dir(&dir).unwrap();
        assert_eq!(mode(&dir.join("clock")), 0o664, "who only looks changes nothing");
        data_dir(&dir).unwrap();
        for (name, _) in wide {
            assert_eq!(mode(&dir.join(name)) & READABLE, 0, "{name}");
        }
    }

    #[test]
    fn a_file_is_written_private_whatever_was_there_and_not_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| root.path().join(name));
        fs::write(&file, "old and long").unwrap();
        set(&file, 0o666);
        write(&file, b"new").unwrap();
        assert_eq!((mode(&file), fs::read(&file).unwrap()), (0o600, b"new".to_vec()));
        symlink(&file, &link).unwrap();
        write(&link, b"planted").unwrap_err();
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn a_store_elsewhere_is_checked_with_its_directory_and_the_files_beside_it() {
        let root = tempfile::tempdir().unwrap();
        let (dir, db) = (root.path().join("db"), root.path().join("db/site.db"));
        store_file(&db).unwrap();
        fs::create_dir(&dir).unwrap();
        set(&dir, 0o777);
        let why = store_file(&db).unwrap_err().to_string();
        assert!(why.contains("mode 777") && why.contains("chmod go-w"), "{why}");
        for others in [0o1777, 0o755] {
            fs::set_permissions(&dir, Permissions::from_mode(others)).unwrap();
            for name in ["site.db", "site.db-wal", "site.db-shm", "site.db-journal"] {
                let path = dir.join(name);
                write(&path, b"x").unwrap();
                store_file(&db).unwrap();
                set(&path, 0o644);
                let why = store_file(&db).unwrap_err().to_string();
                assert!(why.contains(path.to_str().unwrap()) && why.contains("--store"), "{why}");
                fs::remove_file(&path).unwrap();
            }
        }
        write(&db, b"x").unwrap();
        set(&db, 0o644);
        set(&dir, 0o700);
        store_file(&db).unwrap();
        assert_eq!(mode(&db), 0o600);
    }

    #[test]
    fn what_another_user_prepared_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (root, dir) = used();
        for name in ["logs", "archive", "history", "output-index", "tickets", "fleet"] {
            fs::create_dir(dir.join(name)).unwrap();
        }
        symlink("/nowhere", dir.join("secrets.key")).unwrap();
        symlink("/nowhere", dir.join("fleet.json")).unwrap();
        fs::create_dir(dir.join("lost+found")).unwrap();
        lchown(dir.join("lost+found"), Some(65534), None).unwrap();
        data_dir(&dir).unwrap();
        let link = root.path().join("link");
        symlink(&dir, &link).unwrap();
        data_dir(&link).unwrap();
        let refuses = |used: &Path, path: &Path| {
            lchown(path, Some(65534), None).unwrap();
            let seen = check_data_dir(used).unwrap_err().to_string();
            let why = data_dir(used).unwrap_err().to_string();
            assert_eq!(seen, why);
            for part in [path.to_str().unwrap(), "user 65534", "chown -h 0", "--data-dir"] {
                assert!(why.contains(part), "{why}");
            }
            lchown(path, Some(0), None).unwrap();
        };
        refuses(&link, &link);
        refuses(&dir, &dir);
        for name in ["pki", "admin.token", "pki/ca.key", "muster.db", "clock", "secrets.key"] {
            refuses(&dir, &dir.join(name));
        }
        for name in ["logs", "archive", "history", "output-index", "tickets", "fleet", "fleet.json"]
        {
            refuses(&dir, &dir.join(name));
        }
        data_dir(&dir).unwrap();
    }
}
