//! The web console's files, as the build script made them: in the binary, nothing comes from
//! elsewhere. A crate of its own, so that a change to the console compiles only this one.

/// A file of the console.
#[derive(Debug)]
pub struct File {
    /// Its address, `/index.html`.
    pub path: &'static str,
    /// The contents as they are.
    pub plain: &'static [u8],
    /// The contents compressed with gzip, where that is smaller.
    pub gzip: Option<&'static [u8]>,
    /// The contents compressed with Brotli, where that is smaller.
    pub brotli: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/console.rs"));
