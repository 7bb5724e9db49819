//! A device that the fence of a group lets through.

use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A device that may be read and written; never made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Rule {
    pub(crate) block: bool,
    pub(crate) major: u32,
    /// Any of the driver when absent.
    pub(crate) minor: Option<u32>,
}

impl Rule {
    /// The device behind a node; none when there is no device.
    pub(crate) fn of(path: &Path) -> Option<Rule> {
        let meta = fs::metadata(path).ok()?;
        let block = meta.file_type().is_block_device();
        (block || meta.file_type().is_char_device()).then(|| Rule {
            block,
            major: libc::major(meta.rdev()),
            minor: Some(libc::minor(meta.rdev())),
        })
    }
}
