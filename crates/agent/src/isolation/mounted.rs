//! The mounts of this namespace, as the kernel lists them.

use super::sys;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Where the kernel lists them.
const LIST: &str = "/proc/self/mountinfo";

#[derive(Debug)]
struct Mount {
    id: u64,
    parent: u64,
    at: PathBuf,
    /// Those to keep when it is changed.
    flags: libc::c_ulong,
}

impl Mount {
    fn make_read_only(&self) -> io::Result<()> {
        let flags = self.flags | libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
        sys::mount(None, &self.at, None, flags, None)
    }
}

fn mounts(list: &[u8]) -> impl Iterator<Item = Mount> {
    list.split(|b| *b == b'\n').filter_map(|line| {
        let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<u64>().ok();
        let mut fields = line.split(|b| *b == b' ');
        let (id, parent) = (number(fields.next()?)?, number(fields.next()?)?);
        let mut fields = fields.skip(2);
        let (at, options) = (fields.next()?, fields.next()?);
        let flags = options.split(|b| *b == b',').map(|o| match o {
            b"nosuid" => libc::MS_NOSUID,
            b"nodev" => libc::MS_NODEV,
            b"noexec" => libc::MS_NOEXEC,
            _ => 0,
        });
        Some(Mount { id, parent, at: unescaped(at), flags: flags.fold(0, |a, b| a | b) })
    })
}

/// A path as it is: the list has spaces and the like as three octal digits.
fn unescaped(mut text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        let digits = rest.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                text = &rest[3..];
            }
            None => {
                bytes.push(*first);
                text = rest;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Makes everything that is mounted at and below a directory read-only.
pub(super) fn make_read_only(dir: &Path) -> io::Result<()> {
    let list = fs::read(LIST)?;
    mounts(&list).filter(|m| m.at.starts_with(dir)).try_for_each(|m| m.make_read_only())
}

/// What was mounted before something else was.
pub(crate) struct ExistingMounts(BTreeSet<u64>);

impl ExistingMounts {
    /// What is mounted now.
    pub(crate) fn now() -> io::Result<ExistingMounts> {
        Ok(ExistingMounts(mounts(&fs::read(LIST)?).map(|m| m.id).collect()))
    }

    /// Makes what was mounted since read-only, together with all that came below it.
    pub(crate) fn make_later_read_only(&self) -> io::Result<()> {
        let list = fs::read(LIST)?;
        for mount in mounts(&list).filter(|m| !self.0.contains(&m.id)) {
            match mount.make_read_only() {
                // Covered by another one that came with it: nobody can get there.
                Err(e) if self.came_along(&mount) && covered(&e) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Whether it was mounted only because it was below something else.
    fn came_along(&self, mount: &Mount) -> bool {
        !self.0.contains(&mount.parent)
    }
}

fn covered(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOENT | libc::ENOTDIR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_keep_their_flags_and_the_names_that_they_have() {
        let list = b"22 27 0:21 / /proc rw - proc proc rw\n\
                    23 27 0:22 / /sys rw,nosuid,noexec - sysfs sysfs rw\n\
                    31 23 0:28 / /sys/fs/a\\040b\\134 rw,nodev shared:3 - tmpfs tmpfs rw\n\
                    32 27 0:29 / /system rw - ext4 /dev/vda rw\n";
        let found = mounts(list).filter(|m| m.at.starts_with("/sys"));
        let found: Vec<_> = found.map(|m| (m.id, m.parent, m.at, m.flags)).collect();
        let (sys, below) = (PathBuf::from("/sys"), PathBuf::from("/sys/fs/a b\\"));
        let flags = libc::MS_NOSUID | libc::MS_NOEXEC;
        assert_eq!(found, [(23, 27, sys, flags), (31, 23, below, libc::MS_NODEV)]);
    }
}
