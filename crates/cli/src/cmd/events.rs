//! `muster events`.

use clap::Args;
use muster_api::{Event, EventList, EventsQuery, Timestamp};
use muster_model::entity::Entity;
use muster_model::units::{Span, Time};
use muster_specs::error::closest;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::{Fail, NOT_FOUND};
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::time;
use muster_terminal::{follow, output, pick};

/// Show the event log: who did what, when
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster events --since 2h\n  muster events --since 2026-01-31T12:00:00Z --until 2026-01-31T13:00:00Z\n  \
muster events --kind 'node_*,drain_started' --actor ann    what ann did to nodes\n  \
muster events --object gpu:hgx-01/3\n  muster events --job 42_3\n  muster events --after 1200 -o json\n  \
muster events -f -o json | jq 'select(.kind == \"node_lost\")'    one object a line"
)]
pub(crate) struct Events {
    /// Follow: show new events as they come
    #[arg(short, long, conflicts_with_all = ["until", "limit"])]
    follow: bool,
    /// Only events after this one
    #[arg(long, value_name = "SEQ")]
    after: Option<String>,
    /// Only events of this moment or later: a time, or so long ago, such as 2h
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only events before this moment: a time, or so long ago
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only events of these kinds, such as `job_submitted,node_*`
    #[arg(long, value_name = "KINDS")]
    kind: Option<String>,
    /// Only what this actor caused
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only events about this: job:42, node:NAME or NAME, project:NAME, finding:7, gpu:NODE/3
    #[arg(long, value_name = "OBJECT")]
    object: Option<String>,
    /// Only events with this text in them
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only events about this job: its id, such as 42 or 42_3, or its name
    #[arg(long, value_name = "JOB", conflicts_with = "object")]
    job: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 1000, value_name = "N")]
    limit: usize,
}

impl Events {
    /// What the events must be about, as it was given.
    fn about(&self) -> Option<String> {
        self.job.as_ref().map(|job| format!("job:{job}")).or_else(|| self.object.clone())
    }

    /// What is asked of the server.
    fn query(&self, now: Time) -> Result<EventsQuery, Fail> {
        let moment = |text: &Option<String>, flag: &str| {
            let at = text.as_deref().map(|t| moment(t, now)).transpose();
            at.map_err(|e| Fail::usage(format!("{flag}: {e}")))
        };
        Ok(EventsQuery {
            after: self.after.clone(),
            from: moment(&self.since, "--since")?,
            to: moment(&self.until, "--until")?,
            kind: self.kind.clone(),
            actor: self.actor.clone(),
            object: self.about(),
            text: self.text.clone(),
            ..EventsQuery::default()
        })
    }

    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let mut query = self.query(now())?;
        let client = ctx.client()?;
        let task = by_number(&client, &mut query.object).await?;
        let task = task.as_ref();
        let (object, from) = (query.object.clone(), query.from);
        if !self.follow {
            let list = page_of(&client, query, self.limit.max(1)).await?;
            if list.items.is_empty() {
                known_object(&client, object.as_deref(), false).await?;
                known_kinds(self.kind.as_deref().unwrap_or_default())?;
                if ctx.is_table() {
                    output::note(&nothing(from, now()));
                }
            }
            if list.cursor.is_some() {
                output::note("note: there are more; --after continues, --limit shows more at once");
            }
            ctx.show(&list, |l| table_of(&l.items, now(), task).render())?;
            return Ok(0);
        }
        known_object(&client, object.as_deref(), true).await?;
        known_kinds(self.kind.as_deref().unwrap_or_default())?;
        let mut events = follow::events(&client, query);
        while let Some(event) = events.recv().await {
            let event = event?;
            if ctx.is_table() {
                let line: String = line(&event, task)
                    .chars()
                    .map(|c| if c.is_control() { ' ' } else { c })
                    .collect();
                output::print(&format!("{line}\n"))?;
            } else {
                let text = serde_json::to_string(&event)
                    .map_err(|e| Fail::failed(format!("cannot write JSON: {e}")))?;
                ctx.show_next(&text)?;
            }
        }
        Ok(0)
    }
}

/// A job by its number, as events name it, where it is given as a task of an array or by its name. Then
/// number and id are returned, so that the events show the id that was asked for.
async fn by_number(
    client: &muster_client::Client,
    object: &mut Option<String>,
) -> Result<Option<(u64, String)>, Fail> {
    let given = object.as_deref().and_then(|o| o.trim().strip_prefix("job"));
    let given = given.and_then(|o| o.strip_prefix([':', ' '])).map(str::trim);
    let Some(given) = given.filter(|id| id.bytes().any(|b| !b.is_ascii_digit())) else {
        return Ok(None);
    };
    let job = pick::job(client, given).await?;
    *object = Some(format!("job:{}", job.number));
    Ok(Some((job.number, job.id)))
}

/// Why there is nothing to show: what comes first is not there yet, or nothing fits.
fn nothing(since: Option<Timestamp>, now: Time) -> String {
    match since.filter(|t| t.0 > now) {
        Some(at) => format!("no events: --since {at} is in the future"),
        None => "no event fits".into(),
    }
}

/// A moment as it is typed: a time, `now`, or how long ago.
pub(crate) fn moment(text: &str, now: Time) -> Result<Timestamp, String> {
    let text = text.trim();
    if text == "now" {
        return Ok(now.into());
    }
    let ago = text.strip_suffix("ago").unwrap_or(text).trim();
    if let Ok(span) = ago.parse::<Span>() {
        return Ok((now - span).into());
    }
    text.parse::<Timestamp>().map_err(|e| format!("{e}, or how long ago, such as 2h"))
}

/// No events about a thing say nothing when there is no such thing: then that is the answer. Whoever
/// follows may wait for the first event about one that is named as things are.
async fn known_object(
    client: &muster_client::Client,
    object: Option<&str>,
    follow: bool,
) -> Result<(), Fail> {
    let Some(object) = object.map(str::trim) else { return Ok(()) };
    let Some((word, id)) = object.split_once(':').or_else(|| object.split_once(' ')) else {
        // A name alone is a node's; how it is written wrongly the server says.
        return pick::known_node(client, Some(object)).await;
    };
    match word {
        "job" => return pick::job(client, id).await.map(drop),
        "node" => return pick::known_node(client, Some(id)).await,
        _ => {}
    }
    if follow {
        return known_word(word);
    }
    let any = EventsQuery { object: Some(object.into()), ..EventsQuery::default() };
    if page_of(client, any, 1).await?.items.is_empty() {
        return Err(Fail::new(NOT_FOUND, format!("no event is about {object}")).hint(OBJECTS));
    }
    Ok(())
}

const OBJECTS: &str = "write it like job:42, node:hgx-01, project:nlp, finding:7 or gpu:hgx-01/3";

/// Is this a word that events have for the things of a site?
fn known_word(word: &str) -> Result<(), Fail> {
    // What hardware is called, and what the kinds of events begin with.
    let hardware = [format!("{word}:x"), format!("{word}:x/0")];
    let is_hardware = hardware.iter().any(|text| text.parse::<Entity>().is_ok());
    let stem = format!("{}_", word.replace('-', "_"));
    if word == "project" || is_hardware || kinds().iter().any(|k| k.starts_with(&stem)) {
        return Ok(());
    }
    Err(Fail::new(NOT_FOUND, format!("nothing of a site is called `{word}`")).hint(OBJECTS))
}

/// All kinds of events. Whoever reads events names all kinds when there is none of that name.
fn kinds() -> Vec<String> {
    let none = muster_records::event("", &serde_json::Value::Null);
    let text = none.err().map(|e| e.to_string()).unwrap_or_default();
    let words = text.split('`').skip(1).step_by(2).filter(|k| !k.is_empty());
    words.map(str::to_owned).collect()
}

/// No events of a kind say nothing when there is no such kind. What the server wants to see of
/// how they are written it says itself.
fn known_kinds(given: &str) -> Result<(), Fail> {
    let all = kinds();
    let known: Vec<&str> = all.iter().map(String::as_str).collect();
    for word in given.split(',').map(|w| w.trim().replace(' ', "_")).filter(|w| !w.is_empty()) {
        let is_one = match word.strip_suffix('*') {
            Some(stem) => known.iter().any(|k| k.starts_with(stem)),
            None => known.contains(&word.as_str()),
        };
        if !is_one && !known.is_empty() {
            let near = closest(word.trim_end_matches('*'), &known);
            let near = near.map(|n| format!("did you mean `{n}`? ")).unwrap_or_default();
            return Err(Fail::usage(format!("--kind: there is no event `{word}`"))
                .hint(format!("{near}the column EVENT of `muster events` has the words")));
        }
    }
    Ok(())
}

/// Pages until there are no more, or `most`.
pub(crate) async fn page(
    client: &muster_client::Client,
    after: Option<String>,
    most: usize,
) -> Result<EventList, muster_client::ClientError> {
    page_of(client, EventsQuery { after, ..EventsQuery::default() }, most).await
}

/// The same of those that are wanted.
async fn page_of(
    client: &muster_client::Client,
    mut query: EventsQuery,
    most: usize,
) -> Result<EventList, muster_client::ClientError> {
    let mut items = Vec::new();
    loop {
        query.limit = Some(u32::try_from((most - items.len()).min(1000)).unwrap_or(1000));
        let page = client.events(&query).await?;
        items.extend(page.items);
        if page.cursor.is_none() || items.len() >= most || page.cursor == query.after {
            return Ok(EventList { items, cursor: page.cursor });
        }
        query.after = page.cursor;
    }
}

/// The events as a table.
pub(crate) fn table(events: &[Event], now: Time) -> Table {
    table_of(events, now, None)
}

/// What an event is about comes last: it is as long as it is, and nothing is to be padded for it.
fn table_of(events: &[Event], now: Time, task: Option<&(u64, String)>) -> Table {
    let mut table = Table::new(&["SEQ", "WHEN", "EVENT", "BY", "ABOUT"]);
    for e in events {
        table.row(vec![
            number(if e.seq > 0 { e.seq.to_string() } else { String::new() }),
            cell(time::relative(now, e.at)),
            cell(&e.kind),
            cell(&e.actor),
            cell(about_task(e, task)),
        ]);
    }
    table
}

fn line(e: &Event, task: Option<&(u64, String)>) -> String {
    let seq = if e.seq > 0 { format!("{:>8}  ", e.seq) } else { String::new() };
    format!("{seq}{}  {:<18} {}  {}", e.at, e.kind, about_task(e, task), e.actor)
}

/// What an event is about, in a few words.
pub(crate) fn about(e: &Event) -> String {
    about_task(e, None)
}

/// The same, with the id of one job whose number events have.
fn about_task(e: &Event, task: Option<&(u64, String)>) -> String {
    let mut words = Vec::new();
    if let Some(job) = e.job() {
        let job = match task {
            Some((number, id)) if *number == job => id.clone(),
            _ => job.to_string(),
        };
        words.push(match e.data.pointer("/key/attempt").and_then(serde_json::Value::as_u64) {
            Some(attempt) => format!("job {job}.{attempt}"),
            None => format!("job {job}"),
        });
    }
    if let Some(node) = e.node() {
        words.push(format!("node {node}"));
    }
    for field in ["name", "server", "id", "project"] {
        if words.is_empty()
            && let Some(text) = e.data.get(field).and_then(serde_json::Value::as_str)
        {
            words.push(text.into());
        }
    }
    if words.is_empty()
        && let Some(name) = e.data.pointer("/reservation/name").and_then(serde_json::Value::as_str)
    {
        words.push(name.into());
    }
    if let Some(by) = e.data.get("by_ms").and_then(serde_json::Value::as_i64) {
        if words.is_empty() {
            words.push("server".into());
        }
        let way = if by < 0 { "back" } else { "ahead" };
        words.push(format!("clock set {way} by {}", time::length(Span(by.unsigned_abs()))));
    }
    words.extend(health(&e.data, words.is_empty()));
    if let Some(code) = e.data.pointer("/fault/code").and_then(serde_json::Value::as_str) {
        words.push(code.into());
    }
    if let Some(outcome) = e.data.pointer("/report/outcome").and_then(serde_json::Value::as_str) {
        words.push(outcome.into());
    }
    let why = ["reason", "why"].iter().find_map(|k| e.data.get(*k)?.as_str());
    if let Some(why) = why.filter(|w| !w.is_empty()) {
        words.push(format!("({why})"));
    }
    words.join(" ")
}

/// What an event of health is about: a finding, an incident, a breaker, a remediation or an act. Its
/// number is reported when nothing else was.
fn health(data: &serde_json::Value, alone: bool) -> Vec<String> {
    let text = |pointer: &str| data.pointer(pointer).and_then(|v| v.as_str()).map(str::to_owned);
    let mut words = Vec::new();
    for pointer in ["/finding/kind", "/seen/kind", "/remediation/action", "/act/act/what", "/stage"]
    {
        words.extend(text(pointer));
    }
    words.extend(text("/remediation/kind").map(|k| format!("for {k}")));
    words.extend(text("/incident/summary"));
    for pointer in ["/alert/kind", "/alert/cause"] {
        words.extend(text(pointer));
    }
    if let (Some(what), Some(state)) = (text("/breaker/entity"), text("/breaker/state")) {
        words.push(format!("{what} {state}"));
    }
    // Later events name what they are about by its number.
    let id = data.get("id").and_then(serde_json::Value::as_u64).filter(|_| alone);
    words.extend(id.map(|id| format!("#{id}")));
    words.extend(text("/step"));
    words.extend(text("/outcome"));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::event::EventOrigin;
    use serde_json::json;

    fn event(kind: &str, data: serde_json::Value) -> Event {
        Event {
            seq: 7,
            at: Time(0).into(),
            kind: kind.into(),
            origin: EventOrigin::Input,
            project: None,
            actor: "system".into(),
            data,
        }
    }

    #[test]
    fn a_moment_is_a_time_or_how_long_ago() {
        let now = Time(10 * 3_600_000);
        let at = |text: &str| moment(text, now).map(|t| t.0);
        assert_eq!(at("2h"), Ok(Time(8 * 3_600_000)));
        assert_eq!(at("30m ago"), Ok(Time(9 * 3_600_000 + 1_800_000)));
        assert_eq!(at("now"), Ok(now));
        assert_eq!(at("1970-01-01T01:00:00Z"), Ok(Time(3_600_000)));
        assert!(at("yesterday").is_err_and(|e| e.contains("such as 2h")));
    }

    #[test]
    fn a_kind_that_no_event_has_is_refused_with_the_nearest() {
        for good in ["", "node_lost", "node_*, job_placed", "finding opened"] {
            assert!(known_kinds(good).is_ok(), "{good}");
        }
        let near = known_kinds("node_lots").expect_err("no such kind").render(false);
        assert!(near.contains("no event `node_lots`") && near.contains("`node_lost`"), "{near}");
        assert!(known_kinds("bogus*").is_err());
    }

    #[test]
    fn things_are_called_as_events_call_them() {
        for good in ["project", "finding", "gpu", "leaf", "alert", "remediation", "rack"] {
            assert!(known_word(good).is_ok(), "{good}");
        }
        assert_eq!(known_word("foo").map_err(|e| e.code), Err(NOT_FOUND));
    }

    #[test]
    fn events_say_what_they_are_about() {
        let e = event("slot_started", json!({"key": {"job": 42, "attempt": 1}, "node": "hgx-1"}));
        assert_eq!(about(&e), "job 42.1 node hgx-1");
        let task = (42, "40_2".to_owned());
        assert_eq!(about_task(&e, Some(&task)), "job 40_2.1 node hgx-1");
        let e = event("node_cordoned", json!({"node": "hgx-1", "reason": "fan"}));
        assert_eq!(about(&e), "node hgx-1 (fan)");
        let e = event(
            "finding_opened",
            json!({"finding": {"id": 7, "kind": "thermal", "entity": "gpu:hgx-1/3"}}),
        );
        assert_eq!(about(&e), "node hgx-1 thermal");
        let e = event("clock_stepped", json!({"by_ms": -3_600_000, "since_boot": "2h"}));
        assert_eq!(about(&e), "server clock set back by 1h00m");
        let e = event("clock_stepped", json!({"node": "hgx-1", "by_ms": 5_000}));
        assert_eq!(about(&e), "node hgx-1 clock set ahead by 5s");
        let e = event("remediation_stepped", json!({"id": 31, "step": "acting", "why": "reboot"}));
        assert_eq!(about(&e), "#31 acting (reboot)");
        let e = event(
            "breaker_set",
            json!({"breaker": {"entity": "leaf:a/b", "state": "open", "reason": "x"}}),
        );
        assert_eq!(about(&e), "leaf:a/b open");
        let e = event(
            "alert_opened",
            json!({"alert": {"id": "3f9c", "kind": "leaf-loss", "cause": "leaf:a/b"}}),
        );
        assert_eq!(about(&e), "leaf-loss leaf:a/b");
        let e = event("reservation_set", json!({"reservation": {"name": "night", "reason": "x"}}));
        assert_eq!(about(&e), "night");
        let e = event("project_created", json!({"name": "nlp", "description": ""}));
        assert_eq!(about(&e), "nlp");
        assert_eq!(
            table(&[e], Time(5000)).render_for(None, false),
            "SEQ  WHEN    EVENT            BY      ABOUT\n  7  5s ago  project_created  system  nlp\n"
        );
    }
}
