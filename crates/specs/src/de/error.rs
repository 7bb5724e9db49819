//! What is wrong with a value, where it stands, and how it is reported.

use crate::error::{FileError, closest, shown};
use crate::tree::{self, Node, TextPosition};
use serde::de::{self, Expected, Unexpected};
use std::fmt;

/// What is wrong, and where.
#[derive(Debug)]
pub(crate) struct Error(pub(super) Box<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(super) place: Option<TextPosition>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Missing(&'static str),
    UnknownField(String, &'static [&'static str]),
    UnknownVariant(String, &'static [&'static str]),
    /// A table should be here.
    Fields,
    /// What a type says of its own value.
    Custom(String),
    Other(String),
}

impl Error {
    pub(super) fn new(kind: Kind) -> Error {
        Error(Box::new(Inner { place: None, kind }))
    }

    pub(super) fn other(message: impl Into<String>, place: TextPosition) -> Error {
        Error::new(Kind::Other(message.into())).at(place)
    }

    /// The same, at a place when it has none yet.
    pub(super) fn at(mut self, place: TextPosition) -> Error {
        self.0.place.get_or_insert(place);
        self
    }

    /// What a type says of its value is reported at the value, the rest at its key.
    pub(super) fn within(self, value: TextPosition, key: Option<TextPosition>) -> Error {
        match (&self.0.kind, key) {
            (Kind::Custom(_), _) => self.at(value),
            (_, Some(key)) => self.at(key),
            (_, None) => self,
        }
    }

    pub(super) fn into_file_error(self, root: &Node, origin: &str) -> FileError {
        let Inner { place, kind } = *self.0;
        let place = place.unwrap_or_default();
        // A missing field is reported at one of its neighbours, which is not the cause.
        let path = match kind {
            Kind::Missing(_) => None,
            _ if place == TextPosition::default() => None,
            _ => root.path_at(place),
        };
        let mut error = match kind {
            Kind::Missing(field) => tree::missing_field(origin, field),
            Kind::UnknownField(field, known) => tree::unknown_field(origin, &field, known),
            Kind::UnknownVariant(word, known) => {
                let message = format!("`{}` is not one of {}", shown(&word), known.join(", "));
                let near = closest(&word, known).map(|k| format!("did you mean `{k}`?"));
                FileError::new(origin, message).hint(near.unwrap_or_default())
            }
            Kind::Fields => {
                FileError::new(origin, "expected fields here").hint("write them like {name: value}")
            }
            Kind::Custom(text) | Kind::Other(text) if text.contains(char::is_control) => {
                FileError::new(origin, text.escape_debug().to_string())
            }
            Kind::Custom(text) | Kind::Other(text) => FileError::new(origin, text),
        };
        error.field = path.or(error.field);
        error.at(place.line, place.column)
    }
}

impl fmt::Display for Error {
    /// In serde's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use serde::de::Error as _;
        use serde::de::value::Error as Plain;
        let plain = match &self.0.kind {
            Kind::Missing(field) => Plain::missing_field(field),
            Kind::UnknownField(field, known) => Plain::unknown_field(field, known),
            Kind::UnknownVariant(word, known) => Plain::unknown_variant(word, known),
            Kind::Fields => Plain::custom("expected fields"),
            Kind::Custom(text) | Kind::Other(text) => Plain::custom(text),
        };
        fmt::Display::fmt(&plain, f)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Error {
        Error::new(Kind::Custom(message.to_string()))
    }
    fn invalid_type(found: Unexpected<'_>, want: &dyn Expected) -> Error {
        Error::new(Kind::Other(match found {
            Unexpected::Unit => format!("invalid type: null, expected {want}"),
            found => format!("invalid type: {found}, expected {want}"),
        }))
    }
    fn invalid_value(found: Unexpected<'_>, want: &dyn Expected) -> Error {
        Error::new(Kind::Other(format!("invalid value: {found}, expected {want}")))
    }
    fn invalid_length(len: usize, want: &dyn Expected) -> Error {
        Error::new(Kind::Other(format!("invalid length {len}, expected {want}")))
    }
    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Error {
        Error::new(Kind::UnknownVariant(word.to_owned(), known))
    }
    fn unknown_field(field: &str, known: &'static [&'static str]) -> Error {
        Error::new(Kind::UnknownField(field.to_owned(), known))
    }
    fn missing_field(field: &'static str) -> Error {
        Error::new(Kind::Missing(field))
    }
}
