//! What is inside a list, a table, or a variant.

use super::De;
use super::error::{Error, Kind};
use crate::tree::{Key, Node, TextPosition, Value};
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use std::slice::Iter;

/// The things of a list.
pub(super) struct Items<'a> {
    pub(super) items: Iter<'a, Node>,
    pub(super) strict: bool,
}

impl Items<'_> {
    /// A tuple takes no more than it needs.
    pub(super) fn finish(&self, place: TextPosition) -> Result<(), Error> {
        match self.items.len() {
            0 => Ok(()),
            more => Err(Error::other(format!("there are {more} things too many here"), place)),
        }
    }
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(node) = self.items.next() else { return Ok(None) };
        seed.deserialize(De::of(node, self.strict)).map(Some).map_err(|e| e.at(node.place))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The entries of a table.
pub(super) struct Fields<'a> {
    pub(super) entries: Iter<'a, (Key, Node)>,
    pub(super) value: Option<&'a Node>,
    /// What is named as the cause for what has no place of its own: the last key, in JSON the table.
    pub(super) here: Option<TextPosition>,
    pub(super) strict: bool,
}

impl Fields<'_> {
    pub(super) fn attribute(&self, e: Error) -> Error {
        match self.here {
            Some(place) => e.at(place),
            None => e,
        }
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some((key, node)) = self.entries.next() else { return Ok(None) };
        self.value = Some(node);
        if !self.strict {
            self.here = Some(key.place);
        }
        let word = De::word(&key.text, key.place);
        seed.deserialize(word).map(Some).map_err(|e| e.at(key.place))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some(node) = self.value.take() else {
            return Err(de::Error::custom("value requested before key"));
        };
        let key = if self.strict { Some(node.place) } else { self.here };
        seed.deserialize(De::of(node, self.strict)).map_err(|e| e.within(node.place, key))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A word, or a table of one entry.
pub(super) struct Variant<'a> {
    pub(super) name: De<'a>,
    pub(super) value: Option<&'a Node>,
    pub(super) strict: bool,
}

impl<'a> Variant<'a> {
    fn content(&self, want: &str) -> Result<De<'a>, Error> {
        match self.value {
            Some(node) => Ok(De::of(node, self.strict)),
            None => {
                let e: Error = de::Error::invalid_type(Unexpected::UnitVariant, &want);
                Err(e.at(self.name.place))
            }
        }
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let found = seed.deserialize(self.name).map_err(|e| e.at(self.name.place))?;
        Ok((found, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.value {
            Some(node) if !matches!(node.value, Value::Null) => {
                Err(Error::other("unexpected value for unit enum variant", node.place))
            }
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        let content = self.content("newtype variant")?;
        let key = self.strict.then_some(content.place);
        seed.deserialize(content).map_err(|e| e.within(content.place, key))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.content("tuple variant")?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            None if !self.strict => Err(Error::new(Kind::Fields).at(self.name.place)),
            _ => self.content("struct variant")?.deserialize_map(visitor),
        }
    }
}
