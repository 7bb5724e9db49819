//! Names that people choose. Parsed once at the border; the core trusts the type.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Why a name was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a valid {what}: {why}")]
pub struct NameError {
    what: &'static str,
    given: String,
    why: &'static str,
}

/// Characters that change the direction of the text around them: a name that holds one can look
/// like another name.
#[must_use]
pub fn turns_text(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit.
fn check(what: &'static str, s: &str, max: usize) -> Result<(), NameError> {
    let fail = |why| {
        let given = s.chars().take(80).flat_map(char::escape_debug).collect();
        Err(NameError { what, given, why })
    };
    if s.is_empty() {
        return fail("it is empty");
    }
    if s.len() > max {
        return fail("it is too long");
    }
    let edge = |c: u8| c.is_ascii_alphanumeric();
    let bytes = s.as_bytes();
    if !edge(bytes[0]) || !edge(bytes[bytes.len() - 1]) {
        return fail("it must start and end with a letter or a digit");
    }
    if !bytes.iter().all(|&c| edge(c) || matches!(c, b'-' | b'_' | b'.')) {
        return fail("use letters, digits, `-`, `_` and `.` only");
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:tt) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$", max_length = $max))]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(s: &str) -> Result<Self, NameError> {
                check($what, s, $max)?;
                Ok($name(s.into()))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// A node's name, unique in the site.
    NodeName, "node name", 128
);
name!(
    /// A project: the unit that owns jobs and is billed.
    ProjectName, "project name", 63
);
name!(
    /// A name a person gave to a job, a secret or a token.
    Label, "name", 128
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_the_error_says_why() {
        assert!("hgx-0001".parse::<NodeName>().is_ok());
        for bad in ["", "-a", "a-", "a b", "a/b", "a\u{7}b", "é"] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad:?}");
        }
        let e = "a\u{1b}[31m".parse::<Label>().unwrap_err().to_string();
        assert!(!e.contains('\u{1b}'), "control characters are escaped: {e}");
        assert!("x".repeat(64).parse::<ProjectName>().is_err());
    }
}
