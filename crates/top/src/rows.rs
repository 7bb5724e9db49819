//! The rows of lists, and which of them the cursor stands on.

use super::model::Model;
use muster_api::Job;
use muster_model::alert::Urgency;
use muster_model::finding::Severity;
use muster_model::units::Time;
pub(super) use muster_terminal::jobs::job_state_label;
use muster_terminal::output::colour::Style;

/// Which row is chosen. It stays with what it stands on when the list changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Cursor {
    key: Option<String>,
    at: usize,
}

impl Cursor {
    pub(super) const fn new() -> Cursor {
        Cursor { key: None, at: 0 }
    }

    /// The row it stands on.
    pub(super) fn at<'a>(&self, keys: impl Iterator<Item = &'a str>) -> usize {
        let mut count = 0;
        for (i, key) in keys.enumerate() {
            if self.key.as_deref() == Some(key) {
                return i;
            }
            count = i + 1;
        }
        self.at.min(usize::saturating_sub(count, 1))
    }

    /// Goes up or down by some rows.
    pub(super) fn step(&mut self, keys: &[String], by: isize) {
        let at = self.at(keys.iter().map(String::as_str));
        self.at = at.saturating_add_signed(by).min(keys.len().saturating_sub(1));
        self.key = keys.get(self.at).cloned();
    }
}

/// The part of a list that fits, with the row in it that matters.
pub(super) fn window(at: usize, len: usize, rows: usize) -> std::ops::Range<usize> {
    let from = at.saturating_sub(rows / 2).min(len.saturating_sub(rows));
    from..len.min(from + rows)
}

fn has(text: &str, wanted: &str) -> bool {
    text.to_lowercase().contains(wanted)
}

/// What somebody looks for, in small letters; none when they look for nothing.
pub(super) fn wanted(model: &Model) -> Option<String> {
    Some(model.filter.trim().to_lowercase()).filter(|w| !w.is_empty())
}

/// Jobs that fit the filter: running, waiting, ended.
pub(super) fn jobs(model: &Model) -> Vec<&Job> {
    let all = &model.jobs;
    let every = all.running.iter().chain(&all.waiting).chain(&all.ended);
    let Some(wanted) = wanted(model) else { return every.collect() };
    every
        .filter(|j| {
            let on = j.attempt.iter().flat_map(|a| &a.slots);
            [&j.id, &j.name, &j.project, &j.user].iter().any(|t| has(t, &wanted))
                || job_state_label(j).contains(&wanted)
                || on.into_iter().any(|s| has(&s.node, &wanted))
        })
        .collect()
}

/// Rows of the queue's list at this size of the screen.
pub(super) fn queue_rows(size: (u16, u16)) -> usize {
    usize::from(size.1).saturating_sub(8).max(1)
}

/// Jobs that are on the screen.
pub(super) fn shown_jobs(model: &Model) -> Vec<&Job> {
    let rows = jobs(model);
    let at = model.cursors[1].at(rows.iter().map(|j| j.id.as_str()));
    let seen = window(at, rows.len(), queue_rows(model.size));
    rows[seen].to_vec()
}

/// What kind of thing a row of the incidents is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Alert,
    Waits,
    Delayed,
    Incident,
    Breaker,
    Finding,
}

impl ItemKind {
    /// The heading over such rows.
    pub(super) fn heading(self) -> &'static str {
        match self {
            ItemKind::Alert => "Alerts",
            ItemKind::Waits => "Pending approval",
            ItemKind::Delayed => "Delayed",
            ItemKind::Incident => "Incidents",
            ItemKind::Breaker => "Breakers",
            ItemKind::Finding => "Findings",
        }
    }
}

/// A row of the incidents.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) key: String,
    pub(super) kind: ItemKind,
    /// How bad, in a word.
    pub(super) word: String,
    pub(super) style: Style,
    pub(super) since: Time,
    /// What it is about.
    pub(super) about: String,
    pub(super) text: String,
}

/// How a severity looks.
pub(super) fn severity(s: Severity) -> Style {
    match s {
        Severity::Critical => Style::Bad,
        Severity::Degraded => Style::Warn,
        Severity::Warning => Style::Busy,
        Severity::Info => Style::Faint,
    }
}

/// What is wrong, worst first, as far as it fits the filter.
pub(super) fn items(model: &Model) -> Vec<Item> {
    let mut out = Vec::new();
    for a in &model.alerts {
        let quiet = a.silenced.is_some() || a.acknowledged.is_some();
        let word = match (&a.silenced, &a.acknowledged) {
            (Some(_), _) => "silenced",
            (_, Some(_)) => "acked",
            _ => a.urgency.word(),
        };
        let style = match (quiet, a.urgency) {
            (true, _) => Style::Faint,
            (false, Urgency::Page) => Style::Bad,
            (false, Urgency::Ticket) => Style::Warn,
        };
        out.push(Item {
            key: format!("alert:{}", a.id),
            kind: ItemKind::Alert,
            word: word.into(),
            style,
            since: a.since.0,
            about: a.cause.clone(),
            text: a.summary.clone(),
        });
    }
    let Some(h) = &model.health else { return fitting(model, out) };
    // What is delayed needs nobody now: it comes after what somebody has to approve.
    let (delayed, pending): (Vec<_>, Vec<_>) = h.waiting.iter().partition(|r| r.delayed);
    for r in pending.into_iter().chain(delayed) {
        let (kind, style) = if r.delayed {
            (ItemKind::Delayed, Style::Busy)
        } else {
            (ItemKind::Waits, Style::Warn)
        };
        out.push(Item {
            key: format!("remediation:{}", r.id),
            kind,
            word: r.action.word().into(),
            style,
            since: r.since.0,
            about: r.gpu.map_or(r.node.clone(), |g| format!("{}/{g}", r.node)),
            text: format!("{}: {}", r.kind, r.why),
        });
    }
    for i in &h.incidents {
        out.push(Item {
            key: format!("incident:{}", i.id),
            kind: ItemKind::Incident,
            word: i.severity.word().into(),
            style: severity(i.severity),
            since: i.began_at.0,
            about: i.cause.to_string(),
            text: i.summary.clone(),
        });
    }
    for b in &h.breakers {
        out.push(Item {
            key: format!("breaker:{}", b.entity),
            kind: ItemKind::Breaker,
            word: b.state.word().into(),
            style: Style::Warn,
            since: b.since.0,
            about: b.entity.to_string(),
            text: b.reason.clone(),
        });
    }
    for f in &h.findings {
        out.push(Item {
            key: format!("finding:{}", f.id),
            kind: ItemKind::Finding,
            word: f.severity.word().into(),
            style: severity(f.severity),
            since: f.opened_at.0,
            about: f.entity.to_string(),
            text: format!("{}: {}", f.kind, f.evidence.first().unwrap_or(&f.title)),
        });
    }
    fitting(model, out)
}

fn fitting(model: &Model, mut items: Vec<Item>) -> Vec<Item> {
    if let Some(w) = wanted(model) {
        items.retain(|i| {
            [&i.key, &i.about, &i.text, &i.word].iter().any(|t| has(t, &w))
                || has(i.kind.heading(), &w)
        });
    }
    items
}
