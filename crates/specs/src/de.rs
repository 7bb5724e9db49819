//! Reads the model's types from a tree. Each type is compiled for this one reader only, whatever
//! the format of the file, and every error knows its place.

mod access;
mod error;

use crate::error::FileError;
use crate::json;
use crate::scalar::{bare, float, parse_integer};
use crate::tree::{Key, Node, TextPosition, Value};
use access::{Fields, Items, Variant};
pub(crate) use error::Error;
use error::Kind;
use serde::de::{self, DeserializeOwned, Deserializer, Expected, Unexpected, Visitor};

/// Reads what YAML wrote.
pub(crate) fn read<T: DeserializeOwned>(root: &Node, origin: &str) -> Result<T, FileError> {
    T::deserialize(De::of(root, false)).map_err(|e| e.into_file_error(root, origin))
}

/// Reads what JSON wrote: its errors stand behind what was read.
pub(crate) fn read_json<T: DeserializeOwned>(
    root: &Node,
    text: &str,
    origin: &str,
) -> Result<T, FileError> {
    strict(root).map_err(|e| {
        let key = matches!(e.0.kind, Kind::UnknownField(..));
        let begin = e.0.place.unwrap_or_default();
        let file_error = e.into_file_error(root, origin);
        let end = if key { begin } else { json::end_of(text, begin) };
        file_error.at(end.line, end.column)
    })
}

/// Reads what says itself whether it is text or a number.
pub(crate) fn strict<T: DeserializeOwned>(root: &Node) -> Result<T, Error> {
    T::deserialize(De::of(root, true))
}

/// A value or a key of the tree.
#[derive(Clone, Copy)]
struct De<'a> {
    what: NodeValue<'a>,
    place: TextPosition,
    /// Whether text is never taken for a number, nor a number for text, nor nothing for a list.
    strict: bool,
}

#[derive(Clone, Copy)]
enum NodeValue<'a> {
    Null,
    Text(&'a str),
    Bare(&'a str),
    List(&'a [Node]),
    Table(&'a [(Key, Node)]),
}

impl<'a> De<'a> {
    fn of(node: &'a Node, strict: bool) -> De<'a> {
        let what = match &node.value {
            Value::Null => NodeValue::Null,
            Value::Text(t) => NodeValue::Text(t),
            Value::Bare(t) => NodeValue::Bare(t),
            Value::List(items) => NodeValue::List(items),
            Value::Table(entries) => NodeValue::Table(entries),
        };
        De { what, place: node.place, strict }
    }

    fn word(text: &'a str, place: TextPosition) -> De<'a> {
        De { what: NodeValue::Text(text), place, strict: false }
    }

    fn found(&self) -> Unexpected<'a> {
        match self.what {
            NodeValue::Null => Unexpected::Unit,
            NodeValue::Text(t) => Unexpected::Str(t),
            NodeValue::Bare(t) => bare(t),
            NodeValue::List(_) => Unexpected::Seq,
            NodeValue::Table(_) => Unexpected::Map,
        }
    }

    fn scalar(&self) -> Result<&'a str, Error> {
        match self.what {
            NodeValue::Null => Ok(""),
            NodeValue::Text(t) | NodeValue::Bare(t) => Ok(t),
            _ => Err(Error::other("expected string scalar", self.place)),
        }
    }

    fn text(&self) -> Result<&'a str, Error> {
        match self.what {
            NodeValue::Null => {
                let message = "cannot deserialize null into string; use Option<String>";
                Err(Error::other(message, self.place))
            }
            _ => self.scalar(),
        }
    }

    fn truth(&self) -> Result<bool, Error> {
        match bare(self.scalar()?) {
            Unexpected::Bool(b) => Ok(b),
            _ => Err(Error::other("this is neither `true` nor `false`", self.place)),
        }
    }

    fn unsigned(&self, max: u64) -> Result<u64, Error> {
        let n = parse_integer(self.scalar()?).and_then(|n| u64::try_from(n).ok());
        let wrong = || match max {
            255 => Error::other("this is not a whole number from 0 to 255", self.place),
            _ => Error::other("this is not a whole number of at least 0", self.place),
        };
        n.filter(|n| *n <= max).ok_or_else(wrong)
    }

    fn signed(&self, min: i64, max: i64) -> Result<i64, Error> {
        let n = parse_integer(self.scalar()?).and_then(|n| i64::try_from(n).ok());
        let wrong = || Error::other("this is not a whole number", self.place);
        n.filter(|n| (min..=max).contains(n)).ok_or_else(wrong)
    }

    fn float(&self) -> Result<f64, Error> {
        let text = self.scalar()?;
        // Digits that lead out of range are a mistake; infinity in words is meant.
        let good = |f: &f64| f.is_finite() || !text.contains(|c: char| c.is_ascii_digit());
        let wrong = || Error::other("this is not a valid floating point", self.place);
        float(text).filter(good).ok_or_else(wrong)
    }

    fn items(&self, want: &dyn Expected) -> Result<Items<'a>, Error> {
        let items = match self.what {
            NodeValue::List(items) => items,
            NodeValue::Null if !self.strict => &[],
            _ if self.strict => return Err(de::Error::invalid_type(self.found(), want)),
            _ => return Err(Error::other("expected sequence start", self.place)),
        };
        Ok(Items { items: items.iter(), strict: self.strict })
    }

    fn fields(&self, want: &dyn Expected) -> Result<Fields<'a>, Error> {
        let (entries, here) = match self.what {
            NodeValue::Table(entries) => (entries, Some(self.place)),
            NodeValue::Null if !self.strict => (&[][..], None),
            _ if self.strict => return Err(de::Error::invalid_type(self.found(), want)),
            _ => return Err(Error::new(Kind::Fields).at(self.place)),
        };
        Ok(Fields { entries: entries.iter(), value: None, here, strict: self.strict })
    }

    fn variant(&self) -> Result<Variant<'a>, Error> {
        let (name, value) = match self.what {
            NodeValue::Null => (De::word("null", self.place), None),
            NodeValue::Text(t) | NodeValue::Bare(t) => (De::word(t, self.place), None),
            NodeValue::Table([(key, node)]) => (De::word(&key.text, key.place), Some(node)),
            NodeValue::Table([]) => {
                let message = "expected string key for externally tagged enum";
                return Err(Error::other(message, self.place));
            }
            NodeValue::Table([_, (second, _), ..]) => {
                let message = "expected end of mapping after enum variant value";
                return Err(Error::other(message, second.place));
            }
            NodeValue::List(_) => {
                let message = "externally tagged enum expected scalar or mapping";
                return Err(Error::other(message, self.place));
            }
        };
        Ok(Variant { name, value, strict: self.strict })
    }
}

macro_rules! scalars {
    ($($method:ident = $visit:ident($read:ident $(, $limit:expr)*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.strict {
                true => self.deserialize_any(visitor),
                false => visitor.$visit(self.$read($($limit),*)?),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for De<'de> {
    type Error = Error;

    scalars! {
        deserialize_bool = visit_bool(truth);
        deserialize_u8 = visit_u64(unsigned, u8::MAX.into());
        deserialize_u16 = visit_u64(unsigned, u16::MAX.into());
        deserialize_u32 = visit_u64(unsigned, u32::MAX.into());
        deserialize_u64 = visit_u64(unsigned, u64::MAX);
        deserialize_i8 = visit_i64(signed, i8::MIN.into(), i8::MAX.into());
        deserialize_i16 = visit_i64(signed, i16::MIN.into(), i16::MAX.into());
        deserialize_i32 = visit_i64(signed, i32::MIN.into(), i32::MAX.into());
        deserialize_i64 = visit_i64(signed, i64::MIN, i64::MAX);
        deserialize_f32 = visit_f64(float);
        deserialize_f64 = visit_f64(float);
        deserialize_char = visit_str(text);
        deserialize_str = visit_str(text);
        deserialize_string = visit_str(text);
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.found() {
            Unexpected::Unit => visitor.visit_unit(),
            Unexpected::Bool(b) => visitor.visit_bool(b),
            Unexpected::Unsigned(n) => visitor.visit_u64(n),
            Unexpected::Signed(n) => visitor.visit_i64(n),
            Unexpected::Float(n) => visitor.visit_f64(n),
            Unexpected::Seq => self.deserialize_seq(visitor),
            Unexpected::Map => self.deserialize_map(visitor),
            _ => visitor.visit_str(self.scalar()?),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.what {
            NodeValue::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.what {
            NodeValue::Null => visitor.visit_unit(),
            _ => Err(Error::other("unexpected value for unit", self.place)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut items = self.items(&visitor)?;
        let value = visitor.visit_seq(&mut items)?;
        items.finish(self.place)?;
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut fields = self.fields(&visitor)?;
        visitor.visit_map(&mut fields).map_err(|e| fields.attribute(e))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.variant()?)
    }

    /// A key or a variant, in every format a word.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! { bytes byte_buf }
}
