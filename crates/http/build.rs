//! Packs the API's description: the binary carries a twelfth of it, and most callers take it so.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::error::Error;
use std::io::Write as _;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=openapi.json");
    let plain = std::fs::read("openapi.json")?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&plain)?;
    let out = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&out).join("openapi.json.gz"), gzip.finish()?)?;
    Ok(())
}
