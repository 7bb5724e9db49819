//! The picture of a brand: small, and nothing but a picture.

use super::{BrandError, wrong};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::io::Read as _;
use std::path::Path;

/// Bytes of a picture.
const MOST: u64 = 256 << 10;
/// Points across or down.
const POINTS_MAX: u32 = 4096;
const FIELD: &str = "brand.logo";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
/// What a picture has no need of: what runs, what is fetched, and what is expanded.
const ACTIVE: [&str; 9] = [
    "<script",
    "<foreignobject",
    "<iframe",
    "<!entity",
    "<!doctype",
    "<?xml-stylesheet",
    "javascript:",
    "@import",
    "<set",
];

/// A picture that was looked at.
#[derive(Debug, Clone)]
pub struct Logo {
    /// Its media type.
    pub media: &'static str,
    /// The picture itself.
    pub bytes: Bytes,
    /// Changes with the picture.
    pub tag: String,
}

impl Logo {
    pub(super) fn read(path: &Path) -> Result<Logo, BrandError> {
        let unread = |e: std::io::Error| {
            let why = format!("cannot read {}: {e}", path.display());
            wrong(FIELD, why, "the path is taken from the file that names it")
        };
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(unread)?;
        file.take(MOST + 1).read_to_end(&mut bytes).map_err(unread)?;
        Logo::of(bytes)
    }

    fn of(bytes: Vec<u8>) -> Result<Logo, BrandError> {
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST {
            let hint = format!("a logo has {} KiB at most", MOST >> 10);
            return Err(wrong(FIELD, "the picture is too large", hint));
        }
        let media = if bytes.starts_with(PNG) {
            png(&bytes)?;
            "image/png"
        } else {
            svg(&bytes)?;
            "image/svg+xml"
        };
        let tag = format!("{:x}", Bytes::copy_from_slice(&Sha256::digest(&bytes)[..8]));
        Ok(Logo { media, bytes: bytes.into(), tag })
    }
}

/// The size stands at the beginning of every PNG.
fn png(bytes: &[u8]) -> Result<(), BrandError> {
    let number = |at: usize| {
        let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(four))
    };
    let sound = bytes.get(12..16).is_some_and(|word| word == b"IHDR");
    let size = number(16).zip(number(20)).filter(|_| sound);
    match size {
        Some((w, h)) if (1..=POINTS_MAX).contains(&w) && (1..=POINTS_MAX).contains(&h) => Ok(()),
        Some((w, h)) => {
            let hint = format!("{POINTS_MAX} by {POINTS_MAX} points at most; 64 high is plenty");
            Err(wrong(FIELD, format!("the picture has {w} by {h} points"), hint))
        }
        None => Err(wrong(FIELD, "the PNG is broken", "write it anew, or use an SVG")),
    }
}

fn svg(bytes: &[u8]) -> Result<(), BrandError> {
    let text = std::str::from_utf8(bytes).ok().map(str::to_lowercase);
    let Some(text) = text.filter(|t| t.contains("<svg")) else {
        return Err(wrong(FIELD, "this is neither an SVG nor a PNG", "use one of the two"));
    };
    if let Some(word) = ACTIVE.iter().find(|w| text.contains(**w)) {
        let hint = "save it as a plain SVG: no scripts, no references, nothing that is fetched";
        return Err(wrong(FIELD, format!("the SVG has `{word}` in it"), hint));
    }
    // `onload=…`, `onclick = …`: a name that begins with `on`, then `=`.
    let handler =
        text.split(|c: char| c.is_whitespace() || c == '"' || c == '\'' || c == '/').any(|w| {
            let name = w.split('=').next().unwrap_or("");
            name.len() > 2 && name.starts_with("on") && w.contains('=')
        });
    // Only what is inside the picture itself may be referred to.
    let outside = ["href=", "src=", "url("].iter().any(|r| {
        text.split(r).skip(1).any(|rest| {
            let to = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '"' || c == '\'');
            !to.starts_with('#')
                && !to.starts_with("data:image/png")
                && !to.starts_with("data:image/jpeg")
        })
    });
    if handler || outside {
        let hint = "save it as a plain SVG: no scripts, no references, nothing that is fetched";
        return Err(wrong(FIELD, "the SVG does more than show a picture", hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: impl Into<Vec<u8>>) -> Result<Logo, String> {
        Logo::of(bytes.into()).map_err(|e| {
            assert_eq!(e.field, FIELD);
            format!("{e}: {}", e.hint)
        })
    }

    fn picture(width: u32, height: u32) -> Vec<u8> {
        let mut out = PNG.to_vec();
        out.extend([0, 0, 0, 13]);
        out.extend(b"IHDR");
        out.extend(width.to_be_bytes());
        out.extend(height.to_be_bytes());
        out
    }

    #[test]
    fn pictures_are_known_by_what_they_are() {
        assert_eq!(of(picture(200, 64)).unwrap().media, "image/png");
        let svg =
            "<svg xmlns='http://www.w3.org/2000/svg'><g fill='url(#a)'/><use href='#b'/></svg>";
        let logo = of(svg).unwrap();
        assert_eq!((logo.media, logo.tag.len()), ("image/svg+xml", 16));
        for bad in ["", "GIF89a", "just words", "\u{1}\u{2}"] {
            assert!(of(bad).unwrap_err().contains("neither an SVG nor a PNG"), "{bad}");
        }
        assert!(of(vec![0xff; 100]).is_err());
    }

    #[test]
    fn a_picture_that_is_too_large_or_broken_is_refused() {
        assert!(of(vec![b' '; (256 << 10) + 1]).unwrap_err().contains("too large"));
        assert!(of(picture(0, 5)).unwrap_err().contains("0 by 5"));
        assert!(of(picture(9000, 5)).unwrap_err().contains("9000 by 5"));
        assert!(of(PNG).unwrap_err().contains("broken"));
        let mut cut = picture(5, 5);
        cut.truncate(18);
        assert!(of(cut).unwrap_err().contains("broken"));
    }

    #[test]
    fn an_svg_that_runs_or_fetches_something_is_refused() {
        for bad in [
            "<svg><script>alert(1)</script></svg>",
            "<svg onload=\"alert(1)\"/>",
            "<svg><a xlink:href=\"https://elsewhere.example/x\"/></svg>",
            "<svg><image href='http://elsewhere.example/x.png'/></svg>",
            "<svg><style>@import 'x'</style></svg>",
            "<svg><g fill='url(https://elsewhere.example/)'/></svg>",
            "<!DOCTYPE svg [<!ENTITY a 'b'>]><svg/>",
            "<svg><foreignObject/></svg>",
            "<svg><a href=\"JavaScript:alert(1)\"/></svg>",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
