//! The web console's files, as the build script made them: in the binary, nothing comes from
//! elsewhere. A crate of its own, so that a change to the console compiles only this one.

use std::io::Read as _;
use std::sync::OnceLock;

/// A file that is in the binary.
#[derive(Debug)]
pub struct File {
    /// Its address, `/index.html`.
    pub path: &'static str,
    /// The contents compressed with gzip. Every browser takes it; a second form, a tenth smaller,
    /// would cost more of the binary than it saves on the wire.
    pub gzip: Option<&'static [u8]>,
    /// The contents as they are: kept in the binary only where `gzip` is not.
    plain: &'static [u8],
    unpacked: OnceLock<Vec<u8>>,
}

impl File {
    /// A file of which the binary has the compressed form, and the plain one where there is none.
    #[must_use]
    pub const fn new(
        path: &'static str,
        gzip: Option<&'static [u8]>,
        plain: &'static [u8],
    ) -> Self {
        Self { path, gzip, plain, unpacked: OnceLock::new() }
    }

    /// The contents as they are. Few callers want them so: what is compressed is unpacked once.
    pub fn plain(&self) -> &[u8] {
        let Some(gzip) = self.gzip else { return self.plain };
        self.unpacked.get_or_init(|| {
            let mut plain = Vec::new();
            // Made by the build from a whole file: there is nothing in it that cannot be unpacked.
            let _ = flate2::read::GzDecoder::new(gzip).read_to_end(&mut plain);
            plain
        })
    }
}

include!(concat!(env!("OUT_DIR"), "/console.rs"));
