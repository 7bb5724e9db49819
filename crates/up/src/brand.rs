//! What the console wears: `--brand FILE`, or `[brand]` in the settings.

use muster_brand::{Brand, BrandFile};
use muster_terminal::args::Global;
use muster_terminal::config::{self, ConfigFile};
use muster_terminal::fail::Fail;
use serde::Deserialize;
use std::path::Path;

/// A file that holds nothing else.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnFile {
    brand: BrandFile,
}

/// The brand that holds for this server.
pub(crate) fn load(global: &Global, flag: Option<&Path>) -> Result<Brand, Fail> {
    if let Some(path) = flag {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Fail::usage(format!("cannot read {}: {e}", path.display())))?;
        let file: OwnFile = toml::from_str(&text).map_err(|e| {
            Fail::usage(format!("{}: {}", path.display(), e.to_string().trim_end()))
                .hint("[brand] has name, logo, link, link_text, dark.accent and light.accent")
        })?;
        return worn(&file.brand, path);
    }
    for path in config::files(global) {
        if let Some(brand) = ConfigFile::read(&path)?.and_then(|f| f.brand) {
            return worn(&brand, &path);
        }
    }
    Ok(Brand::default())
}

fn worn(file: &BrandFile, path: &Path) -> Result<Brand, Fail> {
    let beside = path.parent().unwrap_or(Path::new(""));
    Brand::load(file, beside)
        .map_err(|e| Fail::usage(format!("{}: {e}", path.display())).hint(e.hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_text(text: &str) -> Result<Brand, Fail> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("brand.toml");
        std::fs::write(&path, text).expect("written");
        std::fs::write(dir.path().join("a.svg"), "<svg/>").expect("written");
        let file: OwnFile = toml::from_str(text).expect("good TOML");
        worn(&file.brand, &path)
    }

    #[test]
    fn a_brand_is_read_with_the_picture_beside_it() {
        let good =
            "[brand]\nname = \"Nimbus\"\nlogo = \"a.svg\"\ndark = { accent = \"#7fd1ae\" }\n";
        assert!(load_text(good).is_ok());
        let e = load_text("[brand]\nlogo = \"b.svg\"\n").expect_err("no such picture");
        assert!(e.message.contains("brand.logo") && e.message.contains("b.svg"), "{}", e.message);
        let e = load_text("[brand.dark]\naccent = \"#101820\"\n").expect_err("cannot be read");
        assert!(e.message.contains("brand.dark.accent"), "{}", e.message);
        assert!(e.hint.is_some_and(|h| h.contains("would do")));
    }
}
