//! What the console is called and looks like: from the operator's file, checked before the
//! server starts, so that nobody has to read what cannot be read.

mod colour;
mod logo;

pub use logo::Logo;

use colour::{Colour, Ground};
use muster_api::{Brand as Shown, BrandColours, BrandLink};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Characters of a name.
const NAME_MAX: usize = 40;
/// Characters of a link.
const LINK_MAX: usize = 300;

/// The `[brand]` part of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BrandFile {
    /// What the console is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A picture, SVG or PNG, as a path from the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo: Option<PathBuf>,
    /// Where users find help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// What that is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_text: Option<String>,
    /// Colours on a dark ground.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dark: Option<ColoursFile>,
    /// Colours on a light ground.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub light: Option<ColoursFile>,
}

/// Colours for one ground.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColoursFile {
    /// Links, buttons and what is chosen, `#rrggbb`.
    pub accent: String,
}

/// Why a brand cannot be worn.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BrandError {
    /// The setting's name in the file.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
    /// How to fix it.
    pub hint: String,
}

fn wrong(field: &'static str, why: impl Into<String>, hint: impl Into<String>) -> BrandError {
    BrandError { field, why: why.into(), hint: hint.into() }
}

/// The console's name and colours.
#[derive(Debug, Clone)]
pub struct Brand {
    /// What the console gets.
    pub shown: Shown,
    /// The picture, when there is one.
    pub logo: Option<Logo>,
}

impl Default for Brand {
    fn default() -> Brand {
        let name = "Muster".to_owned();
        let shown = Shown { name, logo: None, link: None, dark: None, light: None };
        Brand { shown, logo: None }
    }
}

impl Brand {
    /// What a file asks for, with the picture it names; paths are taken from `beside`.
    ///
    /// # Errors
    /// [`BrandError`], which names the setting and how to fix it.
    pub fn load(file: &BrandFile, beside: &Path) -> Result<Brand, BrandError> {
        let logo = file.logo.as_deref().map(|p| Logo::read(&beside.join(p))).transpose()?;
        let mut shown = Brand::default().shown;
        if let Some(given) = &file.name {
            shown.name = words("brand.name", given, NAME_MAX)?;
        }
        shown.link = link(file.link.as_deref(), file.link_text.as_deref())?;
        shown.dark = colours(file.dark.as_ref(), "brand.dark.accent", Ground::Dark)?;
        shown.light = colours(file.light.as_ref(), "brand.light.accent", Ground::Light)?;
        shown.logo = logo.as_ref().map(|l| l.tag.clone());
        Ok(Brand { shown, logo })
    }
}

fn words(field: &'static str, given: &str, most: usize) -> Result<String, BrandError> {
    let text = given.trim();
    if text.is_empty() || text.chars().count() > most || text.chars().any(char::is_control) {
        let hint = format!("1 to {most} characters, without line breaks");
        return Err(wrong(field, "this is no name that fits", hint));
    }
    Ok(text.to_owned())
}

fn link(url: Option<&str>, text: Option<&str>) -> Result<Option<BrandLink>, BrandError> {
    let Some(url) = url else {
        return match text {
            Some(_) => Err(wrong(
                "brand.link_text",
                "there is no link that it could name",
                "say where it leads: link = \"https://…\"",
            )),
            None => Ok(None),
        };
    };
    let known = ["https://", "http://", "mailto:"]
        .iter()
        .any(|p| url.strip_prefix(p).is_some_and(|rest| !rest.is_empty()));
    let clean = url.chars().all(|c| c.is_ascii_graphic() && !"\"<>\\".contains(c));
    if !known || !clean || url.len() > LINK_MAX {
        let hint = "an address that begins with https://, http:// or mailto:";
        return Err(wrong("brand.link", "this is no address that a browser may open", hint));
    }
    let text = text.map_or(Ok("Help".to_owned()), |t| words("brand.link_text", t, NAME_MAX))?;
    Ok(Some(BrandLink { text, url: url.to_owned() }))
}

fn colours(
    file: Option<&ColoursFile>,
    field: &'static str,
    ground: Ground,
) -> Result<Option<BrandColours>, BrandError> {
    let Some(file) = file else { return Ok(None) };
    let Some(accent) = Colour::parse(&file.accent) else {
        let why = format!("`{}` is not a colour", file.accent.escape_debug());
        return Err(wrong(field, why, "write it as #rrggbb, such as #5aa9e6"));
    };
    let on = colour::fitting(accent, ground).map_err(|e| {
        let hint = match colour::nearest(accent, ground) {
            Some(c) => format!("{c} would do"),
            None => "choose another".into(),
        };
        wrong(field, format!("{accent} {e}"), hint)
    })?;
    Ok(Some(BrandColours { accent: accent.to_string(), on_accent: on.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &BrandFile) -> Result<Shown, (&'static str, String, String)> {
        Brand::load(file, Path::new("/nowhere"))
            .map(|b| b.shown)
            .map_err(|e| (e.field, e.why, e.hint))
    }

    fn dark(accent: &str) -> BrandFile {
        BrandFile { dark: Some(ColoursFile { accent: accent.into() }), ..BrandFile::default() }
    }

    #[test]
    fn a_whole_brand_is_taken_as_it_is() {
        let file = BrandFile {
            name: Some(" Nimbus ".into()),
            link: Some("https://nimbus.example/help".into()),
            link_text: Some("Support".into()),
            dark: Some(ColoursFile { accent: "#7FD1AE".into() }),
            light: Some(ColoursFile { accent: "#0b6b45".into() }),
            logo: None,
        };
        let b = load(&file).unwrap();
        assert_eq!((b.name.as_str(), b.logo), ("Nimbus", None));
        assert_eq!(b.link.unwrap().text, "Support");
        let (d, l) = (b.dark.unwrap(), b.light.unwrap());
        assert_eq!((d.accent.as_str(), d.on_accent.as_str()), ("#7fd1ae", "#08131d"));
        assert_eq!((l.accent.as_str(), l.on_accent.as_str()), ("#0b6b45", "#ffffff"));
        assert_eq!(load(&BrandFile::default()).unwrap().name, "Muster");
    }

    #[test]
    fn colours_that_nobody_could_read_are_refused_by_name_with_one_that_would_do() {
        let (field, why, hint) = load(&dark("#1a2a3a")).unwrap_err();
        assert_eq!(field, "brand.dark.accent");
        assert!(why.contains("#1a2a3a") && why.contains("4.5"), "{why}");
        let better = hint.split(' ').next().unwrap();
        assert!(load(&dark(better)).is_ok(), "{hint}");
        let light = ColoursFile { accent: "#ffee00".into() };
        let (field, ..) =
            load(&BrandFile { light: Some(light), ..BrandFile::default() }).unwrap_err();
        assert_eq!(field, "brand.light.accent");
        for bad in ["", "red", "#12345", "#1234567", "5aa9e6", "#gg0000"] {
            let (field, _, hint) = load(&dark(bad)).unwrap_err();
            assert_eq!(field, "brand.dark.accent", "{bad}");
            assert!(hint.contains("#rrggbb"), "{hint}");
        }
    }

    #[test]
    fn names_and_links_that_make_no_sense_are_refused_by_name() {
        let name = |n: &str| BrandFile { name: Some(n.into()), ..BrandFile::default() };
        for bad in ["", "  ", "a\nb", &"x".repeat(41)] {
            assert_eq!(load(&name(bad)).unwrap_err().0, "brand.name", "{bad:?}");
        }
        let link = |l: &str| BrandFile { link: Some(l.into()), ..BrandFile::default() };
        for bad in ["", "javascript:alert(1)", "https://", "https://a b", "https://a\"b", "/help"] {
            assert_eq!(load(&link(bad)).unwrap_err().0, "brand.link", "{bad:?}");
        }
        assert_eq!(load(&link("mailto:help@example.org")).unwrap().link.unwrap().text, "Help");
        let text = BrandFile { link_text: Some("Help".into()), ..BrandFile::default() };
        assert_eq!(load(&text).unwrap_err().0, "brand.link_text");
    }
}
