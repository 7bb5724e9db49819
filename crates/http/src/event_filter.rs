//! Which events somebody wants to see.

use super::error::{Failure, Reply};
use super::extract::{number, shown};
use muster_api::{Event, EventsQuery};
use muster_model::names::NodeName;
use muster_model::{Record, Time};
use serde_json::Value;

/// Most kinds that may be named.
const MAX_KINDS: usize = 64;
/// Most characters of what is looked for.
const MAX_TEXT: usize = 200;

/// What an event must be about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Object {
    Job(u64),
    Node(String),
    Project(String),
    /// Anything else that has a number or a name, by the word that its events begin with.
    Other {
        word: String,
        id: String,
    },
}

/// A kind of events, or all that begin alike.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    One(String),
    Beginning(String),
}

/// What an event must be to be shown. The default takes every event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct EventFilter {
    pub(crate) from: Option<Time>,
    pub(crate) to: Option<Time>,
    kinds: Vec<Kind>,
    actor: Option<String>,
    object: Option<Object>,
    /// In small letters.
    text: Option<String>,
}

impl EventFilter {
    /// What a query asks for.
    pub(crate) fn of(q: &EventsQuery) -> Reply<EventFilter> {
        let (from, to) = (q.from.map(Time::from), q.to.map(Time::from));
        if from.zip(to).is_some_and(|(from, to)| from >= to) {
            return Err(Failure::bad("`from` is not before `to`").field("from"));
        }
        let given = |text: &Option<String>, field: &str| -> Reply<Option<String>> {
            let Some(text) = text else { return Ok(None) };
            let text = text.trim();
            if text.is_empty() {
                return Err(Failure::bad(format!("{field} is empty"))
                    .field(field)
                    .hint("leave it out to see all"));
            }
            if text.chars().count() > MAX_TEXT {
                let why = format!("{field} has more than {MAX_TEXT} characters");
                return Err(Failure::bad(why).field(field));
            }
            Ok(Some(text.to_owned()))
        };
        Ok(EventFilter {
            from,
            to,
            kinds: q.kind.as_deref().map(kinds).transpose()?.unwrap_or_default(),
            actor: given(&q.actor, "actor")?,
            object: given(&q.object, "object")?.map(|o| object(&o)).transpose()?,
            text: given(&q.text, "text")?.map(|t| t.to_lowercase()),
        })
    }

    /// Does it take every event?
    pub(crate) fn is_empty(&self) -> bool {
        *self == EventFilter::default()
    }

    /// Could this record be wanted, as far as can be known without writing it out?
    pub(crate) fn may_take(&self, record: &Record) -> bool {
        self.from.is_none_or(|t| record.at >= t)
            && self.to.is_none_or(|t| record.at < t)
            && self.actor.as_deref().is_none_or(|a| is_actor(&record.actor, a))
    }

    /// Is this event wanted?
    pub(crate) fn takes(&self, e: &Event) -> bool {
        let at = Time::from(e.at);
        self.from.is_none_or(|t| at >= t)
            && self.to.is_none_or(|t| at < t)
            && self.actor.as_deref().is_none_or(|a| is_actor(&e.actor, a))
            && (self.kinds.is_empty() || self.kinds.iter().any(|k| k.is_kind(&e.kind)))
            && self.object.as_ref().is_none_or(|o| o.is_about(e))
            && self.text.as_deref().is_none_or(|t| has_text(e, t))
    }
}

fn is_actor(actor: &str, wanted: &str) -> bool {
    actor == wanted || actor.strip_prefix("user:") == Some(wanted)
}

fn kinds(text: &str) -> Reply<Vec<Kind>> {
    let mut out = Vec::new();
    for word in text.split(',').map(str::trim) {
        // Lists of events for people have the same words with spaces.
        let word = word.replace(' ', "_");
        let word = word.as_str();
        if out.len() == MAX_KINDS {
            let why = format!("more than {MAX_KINDS} kinds are named");
            return Err(Failure::bad(why)
                .field("kind")
                .hint("name each once, or `node_*` for all"));
        }
        let (stem, all) = match word.strip_suffix('*') {
            Some(stem) => (stem, true),
            None => (word, false),
        };
        let letters = stem.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        if stem.is_empty() || !letters {
            let why = format!("`{}` is no kind of event", shown(word));
            return Err(Failure::bad(why)
                .field("kind")
                .hint("write it like `job_submitted,node_*`"));
        }
        out.push(if all { Kind::Beginning(stem.into()) } else { Kind::One(stem.into()) });
    }
    Ok(out)
}

impl Kind {
    fn is_kind(&self, kind: &str) -> bool {
        match self {
            Kind::One(word) => kind == word,
            Kind::Beginning(stem) => kind.starts_with(stem.as_str()),
        }
    }
}

fn object(text: &str) -> Reply<Object> {
    let bad = || {
        Failure::bad(format!("`{}` is nothing that events are about", shown(text)))
            .field("object")
            .hint("write it like job:42, node:hgx-01, project:nlp, finding:7 or gpu:hgx-01/3")
    };
    let Some((word, id)) = text.split_once(':').or_else(|| text.split_once(' ')) else {
        // A name alone is a node's; a number alone may be a job's or a finding's.
        let is_node = number(text).is_none() && text.parse::<NodeName>().is_ok();
        return if is_node { Ok(Object::Node(text.into())) } else { Err(bad()) };
    };
    let letters = word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'-');
    if word.is_empty() || id.is_empty() || !letters {
        return Err(bad());
    }
    Ok(match word {
        "job" => Object::Job(number(id).ok_or_else(bad)?),
        "node" => Object::Node(id.into()),
        "project" => Object::Project(id.into()),
        word => Object::Other { word: word.replace('-', "_"), id: id.into() },
    })
}

impl Object {
    fn is_about(&self, e: &Event) -> bool {
        match self {
            Object::Job(n) => e.job() == Some(*n) || names(&e.data, &format!("job:{n}")),
            Object::Node(name) => {
                e.node() == Some(name.as_str()) || names(&e.data, &format!("node:{name}"))
            }
            Object::Project(name) => e.project.as_deref() == Some(name.as_str()),
            Object::Other { word, id } => {
                let own = e.kind.strip_prefix(word.as_str()).is_some_and(|r| r.starts_with('_'));
                let mut within = e.data.get(word).into_iter().chain(own.then_some(&e.data));
                within.any(|v| is_called(v, id)) || names(&e.data, &format!("{word}:{id}"))
            }
        }
    }
}

/// Is this its number or its name? What is named by its number alone is the number.
fn is_called(v: &Value, id: &str) -> bool {
    let is = |v: &Value| match v {
        Value::String(s) => s == id,
        Value::Number(n) => number(id).is_some_and(|id| n.as_u64() == Some(id)),
        _ => false,
    };
    is(v) || ["id", "name"].iter().any(|field| v.get(field).is_some_and(is))
}

/// Is this text one of the values?
fn names(v: &Value, text: &str) -> bool {
    match v {
        Value::String(s) => s == text,
        Value::Array(all) => all.iter().any(|v| names(v, text)),
        Value::Object(fields) => fields.values().any(|v| names(v, text)),
        _ => false,
    }
}

/// Is this text, in small letters, somewhere in it?
fn has_text(e: &Event, text: &str) -> bool {
    let has = |s: &str| s.to_lowercase().contains(text);
    has(&e.kind) || has(&e.actor) || has(&e.data.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::event::EventOrigin;
    use serde_json::json;

    fn event(kind: &str, actor: &str, at: i64, data: Value) -> Event {
        Event {
            seq: 7,
            at: Time(at).into(),
            kind: kind.into(),
            origin: EventOrigin::Input,
            project: Some("nlp".into()),
            actor: actor.into(),
            data,
        }
    }

    fn filter(set: impl FnOnce(&mut EventsQuery)) -> Reply<EventFilter> {
        let mut q = EventsQuery::default();
        set(&mut q);
        EventFilter::of(&q)
    }

    #[test]
    fn without_a_word_every_event_is_taken() {
        let all = filter(|_| ()).unwrap();
        assert!(all.is_empty());
        assert!(all.takes(&event("node_lost", "system", 5, json!({}))));
        assert!(!filter(|q| q.actor = Some("ann".into())).unwrap().is_empty());
    }

    #[test]
    fn kinds_are_named_whole_or_by_their_beginning() {
        let of = |kind: &str, text: &str| {
            let wanted = filter(|q| q.kind = Some(text.into())).unwrap();
            wanted.takes(&event(kind, "system", 0, json!({})))
        };
        assert!(of("job_placed", "job_placed") && of("job_placed", "node_lost, job_placed"));
        assert!(of("node_lost", "node_*") && !of("job_placed", "node_*"));
        assert!(!of("job_placed", "job"));
        assert!(of("finding_opened", "finding opened") && of("node_lost", "node *"));
        for bad in ["", "*", "a,,b", "Node", "no.de", &["a"; 65].join(",")] {
            let e = filter(|q| q.kind = Some(bad.into())).unwrap_err();
            assert_eq!(e.status(), 400, "{bad}");
        }
    }

    #[test]
    fn a_time_range_has_its_beginning_and_not_its_end() {
        let wanted = filter(|q| {
            q.from = Some(Time(10).into());
            q.to = Some(Time(20).into());
        });
        let wanted = wanted.unwrap();
        let takes = |at| wanted.takes(&event("node_lost", "system", at, json!({})));
        assert_eq!([9, 10, 19, 20].map(takes), [false, true, true, false]);
        let back = filter(|q| {
            q.from = Some(Time(20).into());
            q.to = Some(Time(20).into());
        });
        assert_eq!(back.unwrap_err().status(), 400);
    }

    #[test]
    fn actors_have_their_names_with_and_without_what_they_are() {
        for (wanted, taken) in [("user:ann", true), ("ann", true), ("an", false), ("bob", false)] {
            let f = filter(|q| q.actor = Some(wanted.into())).unwrap();
            assert_eq!(f.takes(&event("x", "user:ann", 0, json!({}))), taken, "{wanted}");
        }
        assert!(filter(|q| q.actor = Some(" ".into())).is_err());
    }

    #[test]
    fn an_event_is_about_what_it_names() {
        let about = |object: &str, kind: &str, data: &Value| {
            let f = filter(|q| q.object = Some(object.into())).unwrap();
            f.takes(&event(kind, "system", 0, data.clone()))
        };
        let slot = json!({"key": {"job": 42, "attempt": 1}, "node": "hgx-1"});
        assert!(about("job:42", "slot_started", &slot) && about("node:hgx-1", "x", &slot));
        assert!(!about("job:4", "slot_started", &slot) && !about("node:hgx", "x", &slot));
        assert!(about("hgx-1", "x", &slot) && about("node hgx-1", "x", &slot));
        assert!(!about("hgx", "x", &slot));
        assert!(about("project:nlp", "x", &slot) && !about("project:cv", "x", &slot));
        let seen = json!({"finding": {"id": 7, "entity": "gpu:hgx-1/3"}});
        assert!(about("finding:7", "finding_opened", &seen));
        assert!(!about("finding:8", "finding_opened", &seen));
        assert!(about("gpu:hgx-1/3", "finding_opened", &seen));
        assert!(about("incident:9", "incident_closed", &json!({"id": 9})));
        assert!(!about("incident:9", "finding_closed", &json!({"id": 9})));
        assert!(about("token:ab", "token_revoked", &json!({"id": "ab"})));
        for bad in ["42", "job:", "job:x", ":x", "Job:42", ""] {
            assert!(filter(|q| q.object = Some(bad.into())).is_err(), "{bad}");
        }
    }

    #[test]
    fn text_is_found_in_what_happened_and_who_did_it() {
        let e = event("node_cordoned", "user:ann", 0, json!({"reason": "Fan is loud"}));
        for (text, taken) in [("FAN", true), ("cordon", true), ("ann", true), ("disk", false)] {
            let f = filter(|q| q.text = Some(text.into())).unwrap();
            assert_eq!(f.takes(&e), taken, "{text}");
        }
        assert!(filter(|q| q.text = Some("x".repeat(201))).is_err());
    }
}
