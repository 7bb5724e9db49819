//! One search over everything that the caller may read.

pub(crate) mod output;
mod rank;

use super::auth::{Caller, Reader};
use super::error::{Failure, Reply};
use super::extract::Query;
use super::{App, answer, health, jobs};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::node::state_word;
use muster_api::{SearchHit, SearchHitList, SearchKind, SearchQuery};
use muster_engine::State as Site;
use muster_model::finding::{Finding, Incident};
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::node::Node;
use muster_model::tenant::Role;
use muster_model::{JobId, Seq};
use rank::{Best, SearchTerms, merge};
use std::collections::BTreeSet;
use std::ops::Bound;

/// Hits when nothing is said.
const DEFAULT_LIMIT: u32 = 20;
/// Most hits.
const MAX_LIMIT: u32 = 100;
/// Most characters that are searched for.
const MAX_TEXT: usize = 200;
/// Most characters of a line about a hit.
const MAX_DETAIL: usize = 120;
/// GPUs are looked at one by one when so many characters of a serial number or a UUID are given: fewer
/// would match nearly all of them.
const MIN_SERIAL: usize = 4;
/// Most jobs that are looked at, newest first.
const JOBS_SCANNED: usize = 200_000;
/// Most nodes and GPUs that are looked at.
const FLEET_SCANNED: usize = 1_000_000;
/// Nodes that are looked at before others get their turn at the state.
const NODES_AT_ONCE: usize = 500;
/// Most findings and most incidents that are looked at, open ones first.
const HEALTH_SCANNED: usize = 10_000;
/// Most projects that are looked at.
const PROJECTS_SCANNED: usize = 20_000;

/// Search jobs, nodes, GPUs, users, projects, incidents, findings and runbooks.
///
/// Only what the caller may read is searched: the GPUs' serial numbers and UUIDs, incidents and runbooks
/// for tokens that are bound to no project.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/search", tag = "search", params(SearchQuery),
    responses((status = 200, description = "What was found, best match first.", body = SearchHitList))))]
pub(crate) async fn search(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<SearchQuery>,
) -> Reply {
    let limit = match q.limit.unwrap_or(DEFAULT_LIMIT) {
        n @ 1..=MAX_LIMIT => n as usize,
        n => {
            return Err(Failure::bad(format!(
                "limit is {n}; it must be between 1 and {MAX_LIMIT}"
            ))
            .field("limit"));
        }
    };
    let wanted = wanted(q.q.as_deref().unwrap_or_default())?;
    let (asked, asking) = (app.clone(), caller.clone());
    let look = move || search_all(&asked, &asking, &wanted, limit);
    let (seq, found) = app.aside(&caller.token, look).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &found))
}

fn wanted(text: &str) -> Reply<SearchTerms> {
    let bad = |why: String| {
        Err(Failure::bad(why)
            .field("q")
            .hint("give a part of a name or an id, such as `?q=hgx-01`"))
    };
    if text.chars().count() > MAX_TEXT {
        return bad(format!("q has more than {MAX_TEXT} characters"));
    }
    let wanted = SearchTerms::new(text);
    if wanted.text().is_empty() {
        return bad("q is empty: it does not name what to search for".into());
    }
    Ok(wanted)
}

/// Looks everywhere. Takes a while on a large site: not on a thread that answers requests.
fn search_all(
    app: &App,
    caller: &Caller,
    wanted: &SearchTerms,
    limit: usize,
) -> (Seq, SearchHitList) {
    let seq = app.brain().read(|s| s.seq);
    let (mut kinds, whole_jobs) = search_jobs(app, caller, wanted, limit);
    let (fleet, whole_fleet) = search_fleet(app, caller, wanted, limit);
    kinds.extend(fleet);
    kinds.push(app.brain().read(|s| search_projects(s, caller, wanted, limit)));
    kinds.push(app.brain().read(|s| search_findings(s, caller, wanted, limit)));
    // The same rule as where these are listed.
    if caller.over_site(Role::Viewer).is_ok() {
        kinds.push(app.brain().read(|s| search_incidents(s, wanted, limit)));
        kinds.push(search_runbooks(app, wanted, limit));
    }
    let (items, more) = merge(kinds, limit);
    (seq, SearchHitList { items, more: more || !whole_jobs || !whole_fleet })
}

/// The beginning of a text that somebody wrote, on one line.
fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MAX_DETAIL) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn job_hit(job: &Job, id: String) -> SearchHit {
    let tasks = job.array.map(|a| format!(", array of {}", a.count)).unwrap_or_default();
    SearchHit {
        kind: SearchKind::Job,
        id,
        title: job.name.to_string(),
        detail: format!("{}, {}{tasks}", job.project, job.user),
        state: Some(job.state.word().into()),
        entity: None,
    }
}

/// Jobs by id and name, and who submitted them; false when some were not looked at.
fn search_jobs(
    app: &App,
    caller: &Caller,
    wanted: &SearchTerms,
    limit: usize,
) -> (Vec<Best<SearchHit>>, bool) {
    let (mut found, mut users) = (Best::new(limit), Best::new(limit));
    // An id is looked up: its job may be older than those that are looked at one by one.
    let id = wanted.text().strip_prefix("job ").unwrap_or(wanted.text());
    let exact = jobs::named(app, caller, id).ok();
    if let Some(job) = &exact {
        found.offer(Some(id_fit(id)), || job_hit(job, id.trim_start_matches('0').to_owned()));
    }
    let exact = exact.map(|j| j.id);
    let mut known: BTreeSet<String> = BTreeSet::new();
    let (mut below, mut scanned): (Bound<JobId>, usize) = (Bound::Unbounded, 0);
    loop {
        let mut last = None;
        app.brain().read(|s| {
            let older = s.jobs.range((Bound::Unbounded, below)).rev();
            for (id, job) in older.take(jobs::SCANNED_AT_ONCE) {
                last = Some(*id);
                scanned += 1;
                // The tasks of an array have one name: the array stands for them.
                if !caller.sees(&job.project) || job.array.is_some_and(|a| a.parent != job.id) {
                    continue;
                }
                if exact != Some(job.id) {
                    let number = job.id.to_string();
                    let fit = wanted.fit(&[&number, job.name.as_str()]);
                    found.offer(fit, || job_hit(job, number.clone()));
                }
                if !known.contains(&job.user) {
                    known.insert(job.user.clone());
                    users.offer(user_fit(wanted, &job.user), || user_hit(&job.user));
                }
            }
        });
        let Some(last) = last else { return (vec![found, users], true) };
        if scanned >= JOBS_SCANNED {
            return (vec![found, users], false);
        }
        below = Bound::Excluded(last);
    }
}

/// How well the id of a job matches. No id begins with a zero: `0059` is part of a name before it is job
/// 59, and then what has these very digits goes first.
fn id_fit(id: &str) -> rank::MatchQuality {
    if id.starts_with('0') { rank::MatchQuality::Number } else { rank::MatchQuality::Exact }
}

fn user_fit(wanted: &SearchTerms, user: &str) -> Option<rank::MatchQuality> {
    wanted.fit(&[user, user.strip_prefix("user:").unwrap_or(user)])
}

fn user_hit(user: &str) -> SearchHit {
    SearchHit {
        kind: SearchKind::User,
        id: user.to_owned(),
        title: user.strip_prefix("user:").unwrap_or(user).to_owned(),
        detail: String::new(),
        state: None,
        entity: None,
    }
}

/// Nodes by name and, for those who may know them, GPUs by what is written on them; false when some
/// were not looked at.
fn search_fleet(
    app: &App,
    caller: &Caller,
    wanted: &SearchTerms,
    limit: usize,
) -> (Vec<Best<SearchHit>>, bool) {
    let (mut nodes, mut gpus) = (Best::new(limit), Best::new(limit));
    let serials = caller.actor.project.is_none() && wanted.text().len() >= MIN_SERIAL;
    let (mut above, mut scanned): (Bound<NodeName>, usize) = (Bound::Unbounded, 0);
    loop {
        let mut last = None;
        app.brain().read(|s| {
            let next = s.nodes.range((above.clone(), Bound::Unbounded));
            for (name, node) in next.take(NODES_AT_ONCE) {
                scanned += 1;
                nodes.offer(wanted.fit(&[name.as_str()]), || node_hit(node));
                if serials {
                    scanned += node.inventory.gpus.len();
                    search_gpus(node, wanted, &mut gpus);
                }
                last = Some(name.clone());
            }
        });
        let Some(last) = last else { return (vec![nodes, gpus], true) };
        if scanned >= FLEET_SCANNED {
            return (vec![nodes, gpus], false);
        }
        above = Bound::Excluded(last);
    }
}

fn node_hit(node: &Node) -> SearchHit {
    let count = node.inventory.gpus.len();
    let sku = node.inventory.gpus.first().map(|g| format!("{count} {}", g.sku));
    SearchHit {
        kind: SearchKind::Node,
        id: node.name.to_string(),
        title: node.name.to_string(),
        detail: sku.unwrap_or_else(|| "no GPUs".into()),
        state: Some(state_word(node).into()),
        entity: None,
    }
}

fn search_gpus(node: &Node, wanted: &SearchTerms, found: &mut Best<SearchHit>) {
    for gpu in &node.inventory.gpus {
        let serial = gpu.serial.as_deref().unwrap_or_default();
        found.offer(wanted.fit(&[&gpu.uuid, serial]), || SearchHit {
            kind: SearchKind::Gpu,
            id: format!("{}/{}", node.name, gpu.index),
            title: format!("GPU {} of {}", gpu.index, node.name),
            detail: match serial {
                "" => gpu.uuid.clone(),
                serial => format!("{}, serial {serial}", gpu.uuid),
            },
            state: None,
            entity: None,
        });
    }
}

fn search_projects(
    site: &Site,
    caller: &Caller,
    wanted: &SearchTerms,
    limit: usize,
) -> Best<SearchHit> {
    let mut found = Best::new(limit);
    let seen = site.projects.values().filter(|p| caller.sees(&p.name));
    for project in seen.take(PROJECTS_SCANNED) {
        let fit = wanted.fit(&[project.name.as_str(), &project.description]);
        found.offer(fit, || SearchHit {
            kind: SearchKind::Project,
            id: project.name.to_string(),
            title: project.name.to_string(),
            detail: short(&project.description),
            state: None,
            entity: None,
        });
    }
    found
}

fn search_findings(
    site: &Site,
    caller: &Caller,
    wanted: &SearchTerms,
    limit: usize,
) -> Best<SearchHit> {
    let mut found = Best::new(limit);
    let newest = || site.health.findings.values().rev();
    let open = newest().filter(|f| f.closed.is_none()).take(HEALTH_SCANNED);
    let closed = newest().filter(|f| f.closed.is_some()).take(HEALTH_SCANNED);
    for f in open.chain(closed).filter(|f| health::sees(site, caller, f)) {
        let (id, entity, title) =
            (f.id.to_string(), f.seen.entity.to_string(), health::title_of(&f.seen));
        let fit = wanted.fit(&[&id, &f.seen.kind, title, &entity]);
        found.offer(fit, || finding_hit(f, id.clone(), title));
    }
    found
}

fn state_of(is_open: bool) -> Option<String> {
    Some(if is_open { "open" } else { "closed" }.into())
}

fn finding_hit(f: &Finding, id: String, title: &str) -> SearchHit {
    SearchHit {
        kind: SearchKind::Finding,
        id,
        title: if title.is_empty() { f.seen.kind.clone() } else { title.into() },
        detail: format!("{}, {}", f.seen.entity, f.seen.severity.word()),
        state: state_of(f.closed.is_none()),
        entity: Some(f.seen.entity.to_string()),
    }
}

fn search_incidents(site: &Site, wanted: &SearchTerms, limit: usize) -> Best<SearchHit> {
    let mut found = Best::new(limit);
    let newest = || site.health.incidents.values().rev();
    let open = newest().filter(|i| i.closed.is_none()).take(HEALTH_SCANNED);
    let closed = newest().filter(|i| i.closed.is_some()).take(HEALTH_SCANNED);
    for i in open.chain(closed) {
        let (id, cause) = (i.id.to_string(), i.cause.to_string());
        let owner = i.owner.as_ref().map_or("", |o| o.who.as_str());
        let fit = wanted.fit(&[&id, &i.kind, health::title(&i.kind), &i.summary, &cause, owner]);
        found.offer(fit, || incident_hit(i, id.clone()));
    }
    found
}

fn incident_hit(i: &Incident, id: String) -> SearchHit {
    SearchHit {
        kind: SearchKind::Incident,
        id,
        title: short(&i.summary),
        detail: format!("{}, {}", i.cause, i.severity.word()),
        state: state_of(i.closed.is_none()),
        entity: Some(i.cause.to_string()),
    }
}

fn search_runbooks(app: &App, wanted: &SearchTerms, limit: usize) -> Best<SearchHit> {
    let mut found = Best::new(limit);
    let books = app.brain().read(|s| s.runbooks.clone()).all();
    for (name, (book, _)) in &books {
        let own = wanted.fit(&[name, &book.title]);
        // Several books may serve a failure mode: the one of its name goes first.
        let codes: Vec<&str> = book.modes.iter().chain(&book.topics).map(String::as_str).collect();
        let serves = wanted.fit(&codes).map(|fit| fit.max(rank::MatchQuality::Word));
        found.offer(own.into_iter().chain(serves).min(), || SearchHit {
            kind: SearchKind::Runbook,
            id: name.clone(),
            title: short(&book.title),
            detail: name.clone(),
            state: None,
            entity: None,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_searched_for_has_bounds() {
        assert_eq!(wanted(" HGX-1 ").unwrap().text(), "hgx-1");
        for bad in ["", "  \t", &"x".repeat(MAX_TEXT + 1)] {
            assert_eq!(wanted(bad).unwrap_err().status(), 400);
        }
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(short("one\ntwo"), "one");
        assert_eq!(short(&"ä".repeat(MAX_DETAIL)), "ä".repeat(MAX_DETAIL));
        assert_eq!(short(&"ä".repeat(MAX_DETAIL + 1)), format!("{}…", "ä".repeat(MAX_DETAIL)));
    }
}
