//! Writes the kind and the data of an event beside each other: `"kind":"node_lost","data":{…}`.

use super::Event;
use serde::ser::{Error as _, Impossible, SerializeMap, SerializeStruct, SerializeTuple};
use serde::ser::{SerializeStructVariant, SerializeTupleVariant};
use serde::{Serialize, Serializer};
use std::fmt;

#[cfg(test)]
mod tests;

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        write(self, &mut map)?;
        map.end()
    }
}

/// Writes `kind`, and `data` where the kind has any, into a map.
pub(super) fn write<M: SerializeMap>(event: &Event, to: &mut M) -> Result<(), M::Error> {
    let (kind, data) = Event::serialize(event, KindOf).map_err(M::Error::custom)?;
    to.serialize_entry("kind", kind)?;
    if data {
        to.serialize_entry("data", &Data(event))?;
    }
    Ok(())
}

struct Data<'e>(&'e Event);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Event::serialize(self.0, DataOf(to))
    }
}

/// What an event never is, as far as serde asks: anything but a variant.
macro_rules! only_variants {
    () => {
        type SerializeSeq = Impossible<Self::Ok, Self::Error>;
        type SerializeTuple = Impossible<Self::Ok, Self::Error>;
        type SerializeTupleStruct = Impossible<Self::Ok, Self::Error>;
        type SerializeMap = Impossible<Self::Ok, Self::Error>;
        type SerializeStruct = Impossible<Self::Ok, Self::Error>;
        only_variants! { @plain
            serialize_bool(bool) serialize_i8(i8) serialize_i16(i16) serialize_i32(i32)
            serialize_i64(i64) serialize_u8(u8) serialize_u16(u16) serialize_u32(u32)
            serialize_u64(u64) serialize_f32(f32) serialize_f64(f64) serialize_char(char)
            serialize_str(&str) serialize_bytes(&[u8]) serialize_none() serialize_unit()
            serialize_unit_struct(&'static str)
        }
        fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<Self::Ok, Self::Error> {
            no_variant()
        }
        fn serialize_newtype_struct<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            _: &T,
        ) -> Result<Self::Ok, Self::Error> {
            no_variant()
        }
        fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Self::Error> {
            no_variant()
        }
        fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Self::Error> {
            no_variant()
        }
        fn serialize_tuple_struct(
            self,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleStruct, Self::Error> {
            no_variant()
        }
        fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Self::Error> {
            no_variant()
        }
        fn serialize_struct(
            self,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeStruct, Self::Error> {
            no_variant()
        }
    };
    (@plain $($name:ident($($of:ty)?))*) => {
        $(fn $name(self $(, _: $of)?) -> Result<Self::Ok, Self::Error> {
            no_variant()
        })*
    };
}

fn no_variant<T, E: serde::ser::Error>() -> Result<T, E> {
    Err(E::custom("an event is a variant of its type"))
}

/// Finds the kind of an event, and whether it has data.
struct KindOf;

impl Serializer for KindOf {
    type Ok = (&'static str, bool);
    type Error = fmt::Error;
    type SerializeTupleVariant = EventKindOnly;
    type SerializeStructVariant = EventKindOnly;

    only_variants! {}

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        kind: &'static str,
    ) -> Result<Self::Ok, fmt::Error> {
        Ok((kind, false))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        kind: &'static str,
        _: &T,
    ) -> Result<Self::Ok, fmt::Error> {
        Ok((kind, true))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        kind: &'static str,
        _: usize,
    ) -> Result<EventKindOnly, fmt::Error> {
        Ok(EventKindOnly(kind))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        kind: &'static str,
        _: usize,
    ) -> Result<EventKindOnly, fmt::Error> {
        Ok(EventKindOnly(kind))
    }
}

/// The kind of an event whose data is passed over.
struct EventKindOnly(&'static str);

impl SerializeTupleVariant for EventKindOnly {
    type Ok = (&'static str, bool);
    type Error = fmt::Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), fmt::Error> {
        Ok(())
    }

    fn end(self) -> Result<Self::Ok, fmt::Error> {
        Ok((self.0, true))
    }
}

impl SerializeStructVariant for EventKindOnly {
    type Ok = (&'static str, bool);
    type Error = fmt::Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        _: &'static str,
        _: &T,
    ) -> Result<(), fmt::Error> {
        Ok(())
    }

    fn end(self) -> Result<Self::Ok, fmt::Error> {
        Ok((self.0, true))
    }
}

/// Writes the data of an event without its kind.
struct DataOf<S>(S);

impl<S: Serializer> Serializer for DataOf<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeTupleVariant = DataOf<S::SerializeTuple>;
    type SerializeStructVariant = DataOf<S::SerializeStruct>;

    only_variants! {}

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.0.serialize_unit()
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        data: &T,
    ) -> Result<S::Ok, S::Error> {
        data.serialize(self.0)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        self.0.serialize_tuple(len).map(DataOf)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        kind: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        self.0.serialize_struct(kind, len).map(DataOf)
    }
}

impl<S: SerializeTuple> SerializeTupleVariant for DataOf<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        self.0.serialize_element(value)
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}

impl<S: SerializeStruct> SerializeStructVariant for DataOf<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), S::Error> {
        self.0.serialize_field(name, value)
    }

    fn skip_field(&mut self, name: &'static str) -> Result<(), S::Error> {
        self.0.skip_field(name)
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}
