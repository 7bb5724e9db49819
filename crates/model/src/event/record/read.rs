//! Reads an event from its data, once its kind is known.

use super::Event;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, EnumAccess, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use std::marker::PhantomData;

/// An event of a kind, read from its data.
pub(super) struct OfKind<'k>(pub(super) &'k str);

impl OfKind<'_> {
    /// The event where there is no data: only a kind that has none is read.
    pub(super) fn without_data<E: serde::de::Error>(self) -> Result<Event, E> {
        self.deserialize(NoData(PhantomData))
    }
}

impl<'de> DeserializeSeed<'de> for OfKind<'_> {
    type Value = Event;

    fn deserialize<D: Deserializer<'de>>(self, data: D) -> Result<Event, D::Error> {
        Event::deserialize(KindAndData { kind: self.0, data })
    }
}

struct KindAndData<'k, D> {
    kind: &'k str,
    data: D,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for KindAndData<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

impl<'de, D: Deserializer<'de>> EnumAccess<'de> for KindAndData<'_, D> {
    type Error = D::Error;
    type Variant = ItsData<D>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, ItsData<D>), D::Error> {
        let variant = seed.deserialize(StrDeserializer::<D::Error>::new(self.kind))?;
        Ok((variant, ItsData(self.data)))
    }
}

struct ItsData<D>(D);

impl<'de, D: Deserializer<'de>> VariantAccess<'de> for ItsData<D> {
    type Error = D::Error;

    fn unit_variant(self) -> Result<(), D::Error> {
        <()>::deserialize(self.0)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, D::Error> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, visitor)
    }

    // Fields have names: a list in their place is refused, which `deserialize_struct` would take.
    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }
}

/// In place of data that is not there.
struct NoData<E>(PhantomData<E>);

impl<'de, E: serde::de::Error> Deserializer<'de> for NoData<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, E> {
        Err(E::missing_field("data"))
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_none()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
