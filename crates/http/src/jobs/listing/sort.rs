//! Orders of the list of jobs, and places in them.
//!
//! A place is the key of the last job of a page, not its number: the next page begins with what comes after
//! that key, whatever was submitted or ended meanwhile.

use crate::error::{Failure, Reply};
use crate::extract::shown;
use crate::paging;
use muster_metering::wanted_milli;
use muster_model::job::Job;
use muster_model::units::Time;
use std::cmp::Ordering;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Id,
    Name,
    Project,
    User,
    State,
    Gpus,
    Priority,
    Submitted,
    Started,
    Duration,
    /// Only for what ended last.
    Ended,
}

const FIELDS: [(&str, Field); 10] = [
    ("id", Field::Id),
    ("name", Field::Name),
    ("project", Field::Project),
    ("user", Field::User),
    ("state", Field::State),
    ("gpus", Field::Gpus),
    ("priority", Field::Priority),
    ("submitted", Field::Submitted),
    ("started", Field::Started),
    ("duration", Field::Duration),
];

/// An order, and where in it a page begins.
#[derive(Debug)]
pub(super) struct Sort {
    field: Field,
    /// The largest first.
    down: bool,
    /// What still runs has run until then. It is the same for all pages: what runs longer and longer
    /// would pass others from page to page.
    at: Time,
    /// As cursors name it.
    list: String,
    after: Option<Key>,
}

/// Where a job is in an order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// It has no such value: last in both directions.
    missing: bool,
    number: i64,
    text: String,
    id: u64,
}

impl Sort {
    /// Those that ended last, latest first.
    pub(super) fn by_end() -> Sort {
        Sort { field: Field::Ended, down: true, at: Time(0), list: String::new(), after: None }
    }

    /// `name`, or `-name` for the largest first, from where a cursor ended.
    pub(super) fn asked(text: &str, cursor: Option<&str>, now: Time) -> Reply<Sort> {
        let (down, word) = match text.strip_prefix('-') {
            Some(word) => (true, word),
            None => (false, text),
        };
        let Some((_, field)) = FIELDS.into_iter().find(|(name, _)| *name == word) else {
            let names = FIELDS.map(|(name, _)| name).join(", ");
            let hint = format!("use {names}; `-` before it puts the largest or newest first");
            let message = format!("jobs cannot be sorted by `{}`", shown(word));
            return Err(Failure::bad(message).field("sort").hint(hint));
        };
        let list = format!("jobs by {text}");
        let place: Option<String> = paging::decode(&list, cursor)?;
        let place = place.map(|p| parse(&p).ok_or_else(paging::unknown_cursor)).transpose()?;
        let (at, after) = place.map_or((now, None), |(at, key)| (at, Some(key)));
        Ok(Sort { field, down, at, list, after })
    }

    pub(super) fn key(&self, job: &Job) -> Key {
        let (number, text) = match self.field {
            Field::Id => (Some(0), ""),
            Field::Name => (Some(0), job.name.as_str()),
            Field::Project => (Some(0), job.project.as_str()),
            Field::User => (Some(0), job.user.as_str()),
            Field::State => (Some(0), job.word()),
            Field::Gpus => (i64::try_from(wanted_milli(job)).ok(), ""),
            Field::Priority => (Some(job.spec.priority as i64), ""),
            Field::Submitted => (Some(job.submitted_at.0), ""),
            Field::Started => (job.started_at.map(|t| t.0), ""),
            Field::Duration => (self.ran(job), ""),
            Field::Ended => (job.ended_at.map(|t| t.0), ""),
        };
        Key {
            missing: number.is_none(),
            number: number.unwrap_or(0),
            text: text.to_owned(),
            id: job.id.0,
        }
    }

    /// From its first start to its end, or until the first page was asked for.
    fn ran(&self, job: &Job) -> Option<i64> {
        let end = job.ended_at.map_or(self.at, |end| end.min(self.at));
        i64::try_from(end.since(job.started_at?).0).ok()
    }

    pub(super) fn compare(&self, a: &Key, b: &Key) -> Ordering {
        let up = || (a.number, &a.text, a.id).cmp(&(b.number, &b.text, b.id));
        let by_value = || if self.down { up().reverse() } else { up() };
        a.missing.cmp(&b.missing).then_with(by_value)
    }

    /// Does it come after where the last page ended?
    pub(super) fn is_next(&self, key: &Key) -> bool {
        self.after.as_ref().is_none_or(|after| self.compare(key, after) == Ordering::Greater)
    }

    /// A cursor that goes on after this job; none where there is one page.
    pub(super) fn cursor(&self, job: &Job) -> Option<String> {
        let Key { missing, number, text, id } = self.key(job);
        let place = format!("{} {} {number} {id} {text}", self.at.0, u8::from(missing));
        (self.field != Field::Ended).then(|| paging::encode(&self.list, place))
    }
}

/// The place that a cursor holds.
fn parse(text: &str) -> Option<(Time, Key)> {
    let mut parts = text.splitn(5, ' ');
    let at = Time(parts.next()?.parse().ok()?);
    let missing = parts.next()? == "1";
    let number = parts.next()?.parse().ok()?;
    let id = parts.next()?.parse().ok()?;
    Some((at, Key { missing, number, text: parts.next()?.to_owned(), id }))
}
