//! The log as the API shows it.

pub use muster_model::event::Origin as EventOrigin;

use crate::Timestamp;
use muster_model::event::Record;
use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// Its place in the log; 0 where a caller bound to a project may not know it.
    #[serde(default)]
    pub seq: u64,
    /// When it was written, by the leader's clock.
    pub at: Timestamp,
    /// What: `job_submitted`, `job_placed`, `node_lost`, …
    pub kind: String,
    /// Whether it was reported (`input`) or Muster chose it (`decision`).
    pub origin: EventOrigin,
    /// Project it belongs to.
    pub project: Option<String>,
    /// Who caused it.
    pub actor: String,
    /// The details, in the log's own shape (times in milliseconds since 1970).
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub data: serde_json::Value,
}

/// A page of events, in the order that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventList {
    /// The events of this page.
    pub items: Vec<Event>,
    /// Goes into `after`, or into `before` where the newest come first, for the next page; null on the
    /// last one.
    pub cursor: Option<String>,
}

impl Event {
    /// The record as the API shows it. The hashes of tokens stay inside.
    #[must_use]
    pub fn of(record: &Record) -> Event {
        let Record { seq, at, v: _, org: _, project, actor, key: _, event } = record;
        let (mut kind, mut data) = (String::new(), serde_json::Value::Null);
        if let Ok(serde_json::Value::Object(mut tagged)) = serde_json::to_value(event) {
            if let Some(serde_json::Value::String(word)) = tagged.remove("kind") {
                kind = word;
            }
            data = tagged.remove("data").unwrap_or_default();
        }
        if let Some(fields) = data.as_object_mut() {
            fields.remove("hash");
        }
        Event {
            seq: seq.0,
            at: (*at).into(),
            kind,
            origin: event.origin(),
            project: project.as_ref().map(ToString::to_string),
            actor: actor.clone(),
            data,
        }
    }

    /// The job it is about, if it is about one.
    #[must_use]
    pub fn job(&self) -> Option<u64> {
        let d = &self.data;
        d.get("job")
            .or_else(|| d.get("key")?.get("job"))
            .or_else(|| d.pointer("/fault/attempt/job"))
            .or_else(|| d.pointer("/finding/attempt/job"))
            .or_else(|| d.pointer("/seen/attempt/job"))
            .and_then(serde_json::Value::as_u64)
            .or_else(|| (self.kind == "job_submitted").then(|| d.get("id")?.as_u64()).flatten())
    }

    /// The node it is about, if it is about one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        let text = |pointer: &str| self.data.pointer(pointer).and_then(serde_json::Value::as_str);
        let on = |entity: &'static str| {
            let (word, name) = text(entity)?.split_once(':')?;
            match word {
                "node" => Some(name),
                "gpu" | "port" => Some(name.split_once('/')?.0),
                _ => None,
            }
        };
        text("/node")
            .or_else(|| text("/remediation/node"))
            .or_else(|| text("/act/act/node"))
            .or_else(|| on("/finding/entity"))
            .or_else(|| on("/seen/entity"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ids::{AttemptKey, JobId, Seq};
    use muster_model::tenant::{Role, TokenUse};
    use muster_model::units::Time;

    fn record(event: muster_model::Event) -> Record {
        Record {
            seq: Seq(7),
            at: Time(0),
            v: 1,
            org: "default".into(),
            project: None,
            actor: "system".into(),
            key: None,
            event,
        }
    }

    #[test]
    fn a_tokens_hash_never_leaves() {
        let e = Event::of(&record(muster_model::Event::TokenCreated {
            id: "ab".into(),
            name: "ci".parse().expect("a valid name"),
            hash: "feedbeef".into(),
            usage: TokenUse::Api { role: Role::User, project: None },
            expires_at: None,
        }));
        assert_eq!(e.kind, "token_created");
        assert!(!serde_json::to_string(&e).expect("plain data").contains("feedbeef"));
    }

    #[test]
    fn an_event_knows_its_job_and_node() {
        let e = Event::of(&record(muster_model::Event::SlotStarted {
            key: AttemptKey { job: JobId(42), attempt: 1 },
            node: "hgx-1".parse().expect("a valid name"),
        }));
        assert_eq!((e.job(), e.node()), (Some(42), Some("hgx-1")));
        assert_eq!(e.origin, EventOrigin::Input);
    }

    #[test]
    fn a_finding_is_about_its_node_and_job() {
        let entity = "gpu:hgx-1/3".parse().expect("an entity");
        let severity = muster_model::finding::Severity::Critical;
        let mut seen =
            muster_model::finding::ObservedFinding::new("gpu-off-bus", entity, severity, Time(0));
        seen.attempt = Some(AttemptKey { job: JobId(42), attempt: 1 });
        let e = Event::of(&record(muster_model::Event::FindingChanged {
            id: 3,
            seen: Box::new(seen),
            decided: false,
        }));
        assert_eq!((e.job(), e.node()), (Some(42), Some("hgx-1")));
    }
}
