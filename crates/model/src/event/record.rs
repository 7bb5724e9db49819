//! An entry of the log.

use super::Event;
use crate::command::IdempotencyKey;
use crate::ids::Seq;
use crate::names::ProjectName;
use crate::units::Time;
use serde::de::{Deserializer, Error as _, IgnoredAny, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Newest shape of records that this version writes.
pub const SCHEMA: u32 = 5;

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectName>,
    /// Who caused it.
    pub actor: String,
    /// The key of the request that caused it (on its first record).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
    /// The fact itself.
    #[serde(flatten)]
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
        let mut out = Vec::with_capacity(256);
        self.write_json(&mut out)?;
        Ok(out)
    }
}

/// What a record has beside its event.
#[derive(Default)]
struct Beside {
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

/// The fields of a record without those that stand beside the event. The event is read from it as
/// from a map of its own, so nothing is kept and read a second time, as `flatten` does.
struct EventFields<'b, A> {
    map: A,
    beside: &'b mut Beside,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for EventFields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: serde::de::DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let name = loop {
            let Some(field) = self.map.next_key::<Field>()? else { return Ok(None) };
            let (map, b) = (&mut self.map, &mut *self.beside);
            match field {
                Field::Kind => break "kind",
                Field::Data => break "data",
                Field::Seq => once(map, "seq", &mut b.seq)?,
                Field::At => once(map, "at", &mut b.at)?,
                Field::V => once(map, "v", &mut b.v)?,
                Field::Org => once(map, "org", &mut b.org)?,
                Field::Project => once(map, "project", &mut b.project)?,
                Field::Actor => once(map, "actor", &mut b.actor)?,
                Field::Key => once(map, "key", &mut b.key)?,
                Field::Unknown => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        };
        seed.deserialize(name.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: serde::de::DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
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

struct RecordVisitor;

impl<'de> Visitor<'de> for RecordVisitor {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record of the log")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Record, A::Error> {
        let mut b = Beside::default();
        let fields = EventFields { map, beside: &mut b };
        let event = Event::deserialize(serde::de::value::MapAccessDeserializer::new(fields))?;
        let missing = A::Error::missing_field;
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
        from.deserialize_map(RecordVisitor)
    }
}
