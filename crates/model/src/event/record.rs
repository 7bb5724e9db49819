//! An entry of the log.
//!
//! Serde's own code for `kind` and `data` beside each other reads every event in two ways: from
//! the text where `kind` stands first, otherwise from a copy of `data`. That is twice the code,
//! so `Event` derives the shape with the kind outside (`Event::serialize`, `Event::deserialize`:
//! for this file and what is under it only), and the rest is done here.

mod read;
mod write;

use super::Event;
use crate::command::IdempotencyKey;
use crate::ids::Seq;
use crate::names::ProjectName;
use crate::units::Time;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt};

/// Newest shape of records that this version writes.
pub const SCHEMA: u32 = 5;

/// One entry of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its place; dense.
    pub seq: Seq,
    /// When; never before the record before it.
    pub at: Time,
    /// Shape of this record.
    pub v: u32,
    /// Organisation it belongs to.
    pub org: String,
    /// Project it belongs to, if any: those who may see it.
    pub project: Option<ProjectName>,
    /// Who caused it.
    pub actor: String,
    /// The key of the request that caused it (on its first record).
    pub key: Option<IdempotencyKey>,
    /// The fact itself.
    pub event: Event,
}

// Compiled here, once: whoever calls `serde_json` with a record gets a copy of all that writes
// events. `muster-records` reads them.
impl Record {
    /// Appends it to `out` as the log keeps it.
    ///
    /// # Errors
    /// Never for records that the engine made.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        serde_json::to_writer(out, self)
    }

    /// It as the log keeps it.
    ///
    /// # Errors
    /// Never for records that the engine made.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        // That of a submission has about 450 bytes.
        let mut out = Vec::with_capacity(512);
        self.write_json(&mut out)?;
        Ok(out)
    }

    /// Reads it. An event is read by its kind: where `data` stands before `kind`, the first
    /// attempt fails and leaves the kind in `kind`, and another one with it succeeds.
    ///
    /// # Errors
    /// When it is not a record that this version knows, or `data` stands before `kind` and `kind`
    /// is none.
    pub fn read<'de, D: Deserializer<'de>>(
        from: D,
        kind: &mut Option<String>,
    ) -> Result<Record, D::Error> {
        from.deserialize_map(RecordVisitor { known: kind })
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Record { seq, at, v, org, project, actor, key, event } = self;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("seq", seq)?;
        map.serialize_entry("at", at)?;
        map.serialize_entry("v", v)?;
        map.serialize_entry("org", org)?;
        if let Some(project) = project {
            map.serialize_entry("project", project)?;
        }
        map.serialize_entry("actor", actor)?;
        if let Some(key) = key {
            map.serialize_entry("key", key)?;
        }
        write::write(event, &mut map)?;
        map.end()
    }
}

/// What a record has beside its event.
#[derive(Default)]
struct RecordHeader {
    seq: Option<Seq>,
    at: Option<Time>,
    v: Option<u32>,
    org: Option<String>,
    project: Option<Option<ProjectName>>,
    actor: Option<String>,
    key: Option<Option<IdempotencyKey>>,
}

/// A field of a record.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Seq,
    At,
    V,
    Org,
    Project,
    Actor,
    Key,
    Kind,
    Data,
    #[serde(other)]
    Unknown,
}

fn once<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    map: &mut A,
    name: &'static str,
    into: &mut Option<T>,
) -> Result<(), A::Error> {
    match into.replace(map.next_value()?) {
        None => Ok(()),
        Some(_) => Err(A::Error::duplicate_field(name)),
    }
}

/// The kind of an event, without a copy where the text has it as it is.
struct Kind;

impl<'de> DeserializeSeed<'de> for Kind {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Cow<'de, str>, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Kind {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kind of an event")
    }

    fn visit_borrowed_str<E>(self, kind: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(kind))
    }

    fn visit_str<E>(self, kind: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(kind.to_owned()))
    }
}

struct RecordVisitor<'k> {
    /// The kind, where it is known before it is read.
    known: &'k mut Option<String>,
}

impl<'de> Visitor<'de> for RecordVisitor<'_> {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record of the log")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let mut b = RecordHeader::default();
        let (mut kind, mut event, mut data) = (None, None, false);
        while let Some(field) = map.next_key::<Field>()? {
            let map = &mut map;
            match field {
                Field::Seq => once(map, "seq", &mut b.seq)?,
                Field::At => once(map, "at", &mut b.at)?,
                Field::V => once(map, "v", &mut b.v)?,
                Field::Org => once(map, "org", &mut b.org)?,
                Field::Project => once(map, "project", &mut b.project)?,
                Field::Actor => once(map, "actor", &mut b.actor)?,
                Field::Key => once(map, "key", &mut b.key)?,
                Field::Kind if kind.is_some() => return Err(A::Error::duplicate_field("kind")),
                Field::Kind => kind = Some(map.next_value_seed(Kind)?),
                Field::Data if data => return Err(A::Error::duplicate_field("data")),
                Field::Data => {
                    data = true;
                    match kind.as_deref().or(self.known.as_deref()) {
                        Some(kind) => event = Some(map.next_value_seed(read::OfKind(kind))?),
                        None => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Field::Unknown => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let missing = A::Error::missing_field;
        let kind = kind.ok_or_else(|| missing("kind"))?;
        let event = match event {
            Some(event) => event,
            None if data => {
                *self.known = Some(kind.into_owned());
                return Err(A::Error::custom("`data` stands before `kind`"));
            }
            None => read::OfKind(&kind).without_data()?,
        };
        Ok(Record {
            seq: b.seq.ok_or_else(|| missing("seq"))?,
            at: b.at.ok_or_else(|| missing("at"))?,
            v: b.v.ok_or_else(|| missing("v"))?,
            org: b.org.ok_or_else(|| missing("org"))?,
            project: b.project.flatten(),
            actor: b.actor.ok_or_else(|| missing("actor"))?,
            key: b.key.flatten(),
            event,
        })
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Record, D::Error> {
        Record::read(from, &mut None)
    }
}
