//! Colours that can be read: contrast as WCAG 2 counts it.

use std::fmt;

/// Least contrast of text and what it stands on.
const LEAST: f64 = 4.5;

/// Red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colour(u8, u8, u8);

/// What colours stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ground {
    Dark,
    Light,
}

/// Grounds of the console that links are written on, as its style sheet has them.
const DARK: [Colour; 3] =
    [Colour(0x0e, 0x13, 0x18), Colour(0x14, 0x1b, 0x22), Colour(0x1b, 0x24, 0x2d)];
const LIGHT: [Colour; 3] =
    [Colour(0xf3, 0xf5, 0xf7), Colour(0xff, 0xff, 0xff), Colour(0xea, 0xee, 0xf2)];
/// What may be written on a button.
const TEXTS: [Colour; 2] = [Colour(0x08, 0x13, 0x1d), Colour(0xff, 0xff, 0xff)];

impl Ground {
    fn colours(self) -> [Colour; 3] {
        match self {
            Ground::Dark => DARK,
            Ground::Light => LIGHT,
        }
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

impl Colour {
    /// From `#rrggbb`.
    pub(super) fn parse(text: &str) -> Option<Colour> {
        let hex = text.strip_prefix('#').filter(|h| h.len() == 6)?;
        if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let part = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        Some(Colour(part(0)?, part(2)?, part(4)?))
    }

    fn luminance(self) -> f64 {
        let linear = |part: u8| {
            let v = f64::from(part) / 255.0;
            if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    fn contrast(self, other: Colour) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// So many hundredths of the way to another.
    fn towards(self, other: Colour, hundredths: u16) -> Colour {
        let mix = |a: u8, b: u8| {
            let (a, b) = (u16::from(a) * (100 - hundredths), u16::from(b) * hundredths);
            u8::try_from((a + b + 50) / 100).unwrap_or(u8::MAX)
        };
        Colour(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }
}

/// Why a colour cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot be read on the console's {ground} ground: its contrast is {contrast:.1}, and {least} is needed",
    least = LEAST
)]
pub(super) struct Unreadable {
    ground: &'static str,
    contrast: f64,
}

/// What is to be written on a colour that can itself be read on every ground.
pub(super) fn fitting(accent: Colour, ground: Ground) -> Result<Colour, Unreadable> {
    let least = |c: &Colour| accent.contrast(*c);
    let contrast = ground.colours().iter().map(least).fold(f64::INFINITY, f64::min);
    if contrast < LEAST {
        let ground = match ground {
            Ground::Dark => "dark",
            Ground::Light => "light",
        };
        return Err(Unreadable { ground, contrast });
    }
    let [dark, light] = TEXTS;
    Ok(if least(&light) >= least(&dark) { light } else { dark })
}

/// A colour of the same hue that would do.
pub(super) fn nearest(accent: Colour, ground: Ground) -> Option<Colour> {
    let end = match ground {
        Ground::Dark => Colour(0xff, 0xff, 0xff),
        Ground::Light => Colour(0, 0, 0),
    };
    (1..=100).map(|h| accent.towards(end, h)).find(|c| fitting(*c, ground).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrast_is_counted_as_wcag_does() {
        let (black, white) = (Colour(0, 0, 0), Colour(255, 255, 255));
        assert!((black.contrast(white) - 21.0).abs() < 0.01);
        assert!((white.contrast(white) - 1.0).abs() < 1e-9);
        let grey = Colour::parse("#767676").unwrap();
        assert!((grey.contrast(white) - 4.54).abs() < 0.01, "{}", grey.contrast(white));
    }

    #[test]
    fn every_colour_has_a_neighbour_that_can_be_read_and_written_on() {
        for n in 0..=15u8 {
            for m in 0..=15u8 {
                let c = Colour(n * 17, m * 17, (n ^ m) * 17);
                for ground in [Ground::Dark, Ground::Light] {
                    let near =
                        if fitting(c, ground).is_ok() { Some(c) } else { nearest(c, ground) };
                    let near = near.unwrap_or_else(|| panic!("{c} on {ground:?}"));
                    let on = fitting(near, ground).unwrap();
                    assert!(on.contrast(near) >= LEAST, "{near} under {on}");
                }
            }
        }
    }

    #[test]
    fn the_consoles_own_colours_can_be_read() {
        for (text, ground) in [("#5aa9e6", Ground::Dark), ("#1b69ab", Ground::Light)] {
            assert!(fitting(Colour::parse(text).unwrap(), ground).is_ok(), "{text}");
        }
    }
}
