//! Disks and file systems.

use super::files;
use serde::Serialize;
use std::path::Path;

/// Disks and mounts reported at most; a node with more has containers, which are reported
/// elsewhere.
const MOST: usize = 64;
/// A sector of `/proc/diskstats`, whatever the disk's own is.
const SECTOR: u64 = 512;

/// What a disk did since boot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskIo {
    /// Device name.
    pub name: String,
    /// Reads that were completed since boot.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes that were completed since boot.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Seconds in which it had something to do.
    pub busy_seconds: f64,
}

pub(super) fn io(root: &Path) -> Vec<DiskIo> {
    let Some(text) = files::text(&root.join("proc/diskstats")) else { return Vec::new() };
    let whole = files::names(&root.join("sys/block"));
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let name = *words.get(2)?;
            let number = |i: usize| words.get(i)?.parse::<u64>().ok();
            let is_virtual = ["loop", "ram", "zram", "dm-"].iter().any(|p| name.starts_with(p));
            // Partitions repeat what their disk says.
            if is_virtual || !(whole.is_empty() || whole.iter().any(|w| w == name)) {
                return None;
            }
            Some(DiskIo {
                name: name.into(),
                reads: number(3)?,
                read_bytes: number(5)?.saturating_mul(SECTOR),
                writes: number(7)?,
                written_bytes: number(9)?.saturating_mul(SECTOR),
                busy_seconds: number(12)? as f64 / 1000.0,
            })
        })
        .take(MOST)
        .collect()
}

/// Room in a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Space {
    /// Bytes in all.
    pub size: u64,
    /// Bytes that users can have.
    pub free: u64,
    /// Files in all; zero where the file system does not count them.
    pub files: u64,
    /// Files that can be made.
    pub files_free: u64,
}

impl Space {
    /// Less than a hundredth is left, of bytes or of files.
    #[must_use]
    pub fn is_full(&self) -> bool {
        (self.size > 0 && self.free <= self.size / 100)
            || (self.files > 0 && self.files_free <= self.files / 100)
    }

    /// Less than a twentieth is left.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        (self.size > 0 && self.free <= self.size / 20)
            || (self.files > 0 && self.files_free <= self.files / 20)
    }
}

/// Room where this path is.
#[must_use]
pub fn space_of(path: &Path) -> Option<Space> {
    let s = rustix::fs::statvfs(path).ok()?;
    Some(Space {
        size: s.f_blocks.saturating_mul(s.f_frsize),
        free: s.f_bavail.saturating_mul(s.f_frsize),
        files: s.f_files,
        files_free: s.f_favail,
    })
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The directory it is mounted on.
    pub point: String,
    /// The device or server it comes from.
    pub device: String,
    /// Kind of file system.
    pub kind: String,
    /// Nothing can be written.
    pub readonly: bool,
    /// It was meant so: `/etc/fstab` says it, or the same device can be written elsewhere.
    pub meant: bool,
    /// Its room; absent for file systems over the network, which may not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<Space>,
}

/// Kept on disks of this machine.
const LOCAL: [&str; 11] =
    ["ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "vfat", "overlay", "tmpfs", "virtiofs"];
/// Asking these for their room may take for ever.
const REMOTE: [&str; 11] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "lustre",
    "ceph",
    "gpfs",
    "beegfs",
    "wekafs",
    "glusterfs",
    "afs",
];

pub(super) fn mounts(root: &Path) -> Vec<Mount> {
    let Some(text) = files::text(&root.join("proc/mounts")) else { return Vec::new() };
    let fstab = files::text(&root.join("etc/fstab")).unwrap_or_default();
    let mut all: Vec<Mount> = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(device), Some(point), Some(kind), Some(options)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let local = LOCAL.contains(&kind);
        if !local && !REMOTE.contains(&kind) {
            continue;
        }
        let point = unescape(point);
        let real = root.join(point.trim_start_matches('/'));
        // A file that is bound over another is no file system of its own.
        if local && !real.is_dir() {
            continue;
        }
        let readonly = options.split(',').any(|o| o == "ro");
        all.push(Mount {
            meant: kind == "overlay" || kind == "tmpfs" || is_ro_in_fstab(&fstab, &point),
            device: unescape(device),
            kind: kind.into(),
            readonly,
            space: if local { space_of(&real) } else { None },
            point,
        });
    }
    let writable: Vec<String> =
        all.iter().filter(|m| !m.readonly).map(|m| m.device.clone()).collect();
    for m in all.iter_mut().filter(|m| m.readonly) {
        m.meant |= writable.contains(&m.device);
    }
    // One line for each device: binds of the same one say the same.
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|m| m.kind == "tmpfs" || seen.insert((m.device.clone(), m.readonly)));
    all.truncate(MOST);
    all
}

fn is_ro_in_fstab(fstab: &str, point: &str) -> bool {
    fstab.lines().filter(|l| !l.trim_start().starts_with('#')).any(|l| {
        let words: Vec<&str> = l.split_ascii_whitespace().collect();
        words.get(1) == Some(&point)
            && words.get(3).is_some_and(|o| o.split(',').any(|o| o == "ro"))
    })
}

/// `/proc/mounts` writes blanks as `\040`.
fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.into();
    }
    let bytes = text.as_bytes();
    let (mut out, mut i) = (Vec::new(), 0);
    while i < bytes.len() {
        let code = bytes
            .get(i + 1..i + 4)
            .filter(|_| bytes[i] == b'\\')
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        match code {
            Some(c) => {
                out.push(c);
                i += 4;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
