//! The server itself: who asks, how it stands, figures.

use super::auth::{Caller, MaybeCaller, Reader};
use super::error::{Failure, Reply};
use super::extract::in_pieces;
use super::fleet_metrics::{GPU_USES, gpu_uses};
use super::{App, Registry, answer};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use muster_api::node::state_word;
use muster_api::{Kind, ServerInfo, StoreStatus, WhoAmI};
use muster_model::job::{Job, JobState};
use muster_model::node::{ACCOUNTS_ONLY, REFUSES_RANKS, Stage};
use muster_model::tenant::Role;
use std::collections::BTreeMap;

/// Clocks further apart than this are complained about.
const SKEW_MS: u64 = 30_000;

/// Say who the caller is.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/whoami", tag = "site",
    responses((status = 200, description = "Who asks.", body = WhoAmI))))]
pub(crate) async fn whoami(State(app): State<App>, Reader(caller): Reader) -> Reply {
    Ok(who(&app, &caller))
}

/// Who the caller is.
pub(crate) fn who(app: &App, caller: &Caller) -> Response {
    let (seq, site) = app.brain().read(|s| (s.seq, s.site.clone().unwrap_or_default()));
    let body = WhoAmI {
        name: caller.actor.name.clone(),
        role: caller.actor.role,
        project: caller.actor.project.as_ref().map(ToString::to_string),
        token: Some(caller.token.clone()),
        expires_at: caller.expires_at.map(Into::into),
        site: site.to_string(),
    };
    answer(app, caller, StatusCode::OK, seq, None, &body)
}

/// Get the status of the server.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/server", tag = "site",
    responses((status = 200, description = "The server.", body = ServerInfo))))]
pub(crate) async fn server(State(app): State<App>, Reader(caller): Reader) -> Reply {
    // A tenant does not learn how busy the others are, nor how large the site is.
    let whole = caller.actor.project.is_none();
    let config = app.config();
    let (brain, asking) = (app.brain().clone(), caller.clone());
    let count = move || {
        let mut active = 0u64;
        let is_active = |j: &Job| !j.state.is_final() && asking.sees(&j.project);
        super::jobs::each(&brain, |j| active += u64::from(is_active(j)));
        active
    };
    let jobs_active = app.aside(&caller.token, count).await?;
    let (seq, mut body) = app.brain().read(|s| {
        let kept = || s.nodes.values().filter(|n| n.stage != Stage::Retired);
        let count = |n: usize| n as u64;
        let body = ServerInfo {
            kind: Kind::Server,
            version: env!("CARGO_PKG_VERSION").into(),
            site: s.site.clone().unwrap_or_default().to_string(),
            epoch: app.brain().epoch().0,
            leader: app.brain().is_certain_leader(),
            server: config.server.clone(),
            at: app.brain().now().into(),
            started_at: config.started_at.into(),
            store: StoreStatus {
                kind: config.store_kind.clone(),
                durable_seq: if whole { s.seq.0 } else { 0 },
                snapshot_seq: app.brain().snapshot_seq().filter(|_| whole).map(|seq| seq.0),
                bytes: None,
            },
            nodes: whole.then(|| count(kept().count())),
            nodes_lost: whole.then(|| count(kept().filter(|n| !n.reachable).count())),
            nodes_protected: whole.then(|| count(kept().filter(|n| n.protected).count())),
            jobs_active,
            warnings: if whole { warnings(kept()) } else { Vec::new() },
        };
        (s.seq, body)
    });
    if whole {
        body.warnings.extend(skewed(&app));
        let lost = app.logs().stats().lost;
        if lost > 0 {
            body.warnings
                .push(format!("{lost} bytes of job output could not be stored: is the disk full?"));
        }
    }
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &body))
}

/// Agents whose clocks are far from this server's.
fn skewed(app: &App) -> Option<String> {
    let off: Vec<_> = app
        .agents()
        .sessions()
        .into_iter()
        .filter(|s| s.skew_ms.unsigned_abs() > SKEW_MS)
        .collect();
    let worst = off.iter().max_by_key(|s| s.skew_ms.unsigned_abs())?;
    Some(format!(
        "the clocks of {} nodes are more than {} s off; {}'s by {} s",
        off.len(),
        SKEW_MS / 1000,
        worst.node,
        worst.skew_ms / 1000
    ))
}

fn warnings<'a>(
    nodes: impl Iterator<Item = &'a std::sync::Arc<muster_model::node::Node>>,
) -> Vec<String> {
    let (mut protected, mut loose) = (0u64, Vec::new());
    let (mut shared, mut refusing) = (Vec::new(), Vec::new());
    for n in nodes {
        protected += u64::from(n.protected);
        let isolation = n.inventory.isolation.as_str();
        if isolation.starts_with("process-group") && !n.inventory.simulated {
            loose.push(n.name.as_str());
        }
        if isolation.ends_with(ACCOUNTS_ONLY) {
            shared.push(n.name.as_str());
        }
        if let Some(why) = isolation.strip_prefix(REFUSES_RANKS) {
            refusing.push((n.name.as_str(), why));
        }
    }
    let mut out = Vec::new();
    if protected > 0 {
        out.push(format!(
            "{protected} nodes have seen more of the log than this server: it was restored from an old backup. \
             Nothing is started or stopped there until `muster node reconcile NODE`."
        ));
    }
    if let Some(first) = loose.first() {
        out.push(format!("{} nodes have no cgroups to fence ranks in: {first}, …", loose.len()));
    }
    if let Some(first) = shared.first() {
        out.push(format!(
            "{} nodes separate ranks by user ids only, because the kernel makes no namespaces there: {first}, … \
             Projects see each other's processes, /tmp and devices.",
            shared.len()
        ));
    }
    if let Some((first, why)) = refusing.first() {
        out.push(format!("{} nodes start no ranks: {first}: {why}", refusing.len()));
    }
    out
}

/// Alive: the process answers.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/healthz", tag = "site",
    responses((status = 200, description = "Alive.", body = String, content_type = "text/plain"))))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Ready: this server decides, and its log takes writes.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/readyz", tag = "site",
    responses((status = 200, description = "Ready.", body = String, content_type = "text/plain"))))]
pub(crate) async fn readyz(State(app): State<App>) -> Reply<&'static str> {
    match app.brain().not_ready(app.config().store_patience) {
        None => Ok("ready\n"),
        // Not in the database's own words: nobody showed a token.
        Some(why) => Err(Failure::unavailable(why.summary)),
    }
}

/// Metrics for Prometheus. With a token that is bound to no project they include those by project,
/// too.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/metrics", tag = "site",
    responses((status = 200, description = "Metrics in the text format.", body = String, content_type = "text/plain"))))]
pub(crate) async fn metrics(State(app): State<App>, who: MaybeCaller, headers: HeaderMap) -> Reply {
    match &who.0 {
        _ if app.config().open_metrics => {}
        None => {
            return Err(Failure::unauthenticated("/metrics takes a token").hint(
                "give Prometheus a viewer's token (`muster token create prometheus --role viewer`), or start \
                 the server with --open-metrics",
            ));
        }
        Some(caller) if caller.actor.role < Role::Operator => caller.over_site(Role::Viewer)?,
        Some(_) => {}
    }
    let projects = who.0.is_some_and(|c| c.actor.project.is_none());
    let media = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let made = app.clone();
    let every = app.config().metrics_every;
    let page = move || Registry::page(|out| write_metrics(&made, projects, out));
    let page = app.0.pages.get(projects, every, page).await;
    let page = page.ok_or_else(Failure::internal)?;
    let varies = HeaderValue::from_static("accept-encoding");
    let fixed = [(header::CONTENT_TYPE, media), (header::VARY, varies)];
    Ok(match super::ui::wants(&headers, header::ACCEPT_ENCODING, "gzip") {
        true => {
            let gzip = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
            (fixed, gzip, in_pieces(page.packed)).into_response()
        }
        false => (fixed, in_pieces(page.plain)).into_response(),
    })
}

/// All figures.
pub(crate) fn write_metrics(app: &App, projects: bool, out: &mut Registry) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    out.gauge("muster_build_info", "What is running.").put(&version, 1);
    site_metrics(app, out);
    super::fleet_metrics::write(app, projects, out);
    let stats = app.brain().stats();
    out.gauge("muster_log_seq", "Durable end of the log.").set(app.brain().durable());
    let help = "Records that a reader of the log has still to read.";
    let mut m = out.gauge("muster_follower_lag_records", help);
    for (follower, lag) in app.brain().follower_lags() {
        m.put(&[("follower", follower)], lag);
    }
    let help = "How much later than it was due the runtime ran a task.";
    out.histogram("muster_runtime_delay_seconds", help).times(&[], &app.0.delay.read());
    let leads = u8::from(app.brain().is_certain_leader());
    let help = "Whether this server decides, and no other can: 0 while its lease may have ended.";
    out.gauge("muster_leader", help).set(leads);
    let help = "Agents connected to this server.";
    out.gauge("muster_agents_connected", help).set(app.agents().count());
    let stuck = app.brain().stuck().map_or(0, |(since, _)| app.brain().now().since(since).0);
    let help = "For how long something was to be written and was not.";
    out.gauge("muster_write_stuck_seconds", help).set(super::metrics::seconds(stuck * 1000));
    if let Some(f) = app.traces().span_counts() {
        let help = "Spans that the collector accepted.";
        out.counter("muster_traces_sent_total", help).set(f.sent);
        let help = "Spans that were dropped, and why.";
        let mut m = out.counter("muster_traces_dropped_total", help);
        m.put(&[("why", "full")], f.full);
        m.put(&[("why", "refused")], f.refused);
    }
    let logs = app.logs().stats();
    out.gauge("muster_output_bytes", "Job output stored on disk.").set(logs.bytes);
    let help = "Job output that could not be stored.";
    out.counter("muster_output_lost_bytes_total", help).set(logs.lost);
    if let Ok(index) = app.output_search().status() {
        let help = "Bytes of the index of job output.";
        out.gauge("muster_output_index_bytes", help).set(index.files.bytes);
        let help = "Whether stored job output is still to be indexed (0 or 1).";
        out.gauge("muster_output_index_behind", help).set(u8::from(index.is_behind));
        let help =
            "Times that the oldest lines left the index of job output to stay within its bound.";
        out.counter("muster_output_index_dropped_total", help).set(index.files.dropped);
    }
    store_metrics(&stats, out);
    super::metrics::health_metrics(app, out);
    super::slo::write_metrics(app, out);
    app.remote().write(out);
    app.http_metrics().write(out);
}

fn site_metrics(app: &App, out: &mut Registry) {
    let now = app.brain().now();
    let (mut jobs, mut oldest) = (BTreeMap::new(), None);
    super::jobs::each(app.brain(), |j| {
        *jobs.entry(j.state).or_insert(0u64) += 1;
        if j.state == JobState::Queued && j.held.is_none() {
            oldest = Some(oldest.unwrap_or(j.submitted_at).min(j.submitted_at));
        }
    });
    let (nodes, gpus) = app.brain().read(|s| {
        let (mut nodes, mut gpus) = (BTreeMap::new(), [0u64; 4]);
        let maintenance = s.nodes_in_maintenance(now);
        for n in s.nodes.values() {
            *nodes.entry(state_word(n)).or_insert(0u64) += 1;
            gpus.iter_mut().zip(gpu_uses(s, n, &maintenance)).for_each(|(all, n)| *all += n);
        }
        (nodes, gpus)
    });
    let help = "Jobs by state; ended ones as far as they are stored.";
    let mut m = out.gauge("muster_jobs", help);
    // Every state a job can be in, so that a state without jobs is reported as zero.
    for state in JobState::ALL {
        m.put(&[("state", state.word())], jobs.get(&state).copied().unwrap_or(0));
    }
    let mut m = out.gauge("muster_nodes", "Nodes by state.");
    for state in muster_api::node::NODE_STATES {
        m.put(&[("state", state)], nodes.get(state).copied().unwrap_or(0));
    }
    let help = "GPUs by use; new work may be placed on free ones now, not on those that are out.";
    let mut m = out.gauge("muster_gpus", help);
    for (state, n) in GPU_USES.into_iter().zip(gpus) {
        m.put(&[("state", state)], n);
    }
    let counts = app.brain().read(|s| s.fault_counts.clone());
    let mut m = out.counter("muster_faults_total", "Faults that nodes reported.");
    for ((code, class), n) in &counts {
        m.put(&[("code", code), ("class", class.word())], n);
    }
    let help = "Faults that were reported as one with others, or only counted.";
    out.counter("muster_faults_folded_total", help).set(app.agents().folded_faults());
    let help = "Rows and metrics of nodes that were not accepted: too many, or not a name.";
    let unaccepted = app.agents().unaccepted_metrics();
    out.counter("muster_telemetry_dropped_total", help).set(unaccepted);
    let help = "Reports of nodes about attempts that never ran there: they change nothing.";
    out.counter("muster_foreign_reports_total", help).set(app.agents().foreign_reports());
    let waited = oldest.map_or(0, |at| now.since(at).0 / 1000);
    out.gauge("muster_queue_oldest_seconds", "Age of the oldest job that waits.").set(waited);
    let p = app.brain().read(|s| s.reserved_starts);
    let help = "Reserved starts, by how they turned out.";
    let mut m = out.counter("muster_reserved_starts_total", help);
    for (how, n) in [("on_time", p.on_time), ("late", p.late)] {
        m.put(&[("how", how)], n);
    }
    let help = "Time between reserved and real starts, before and after.";
    let mut m = out.counter("muster_reserved_starts_error_seconds_total", help);
    for (side, ms) in [("early", p.early_ms), ("late", p.late_ms)] {
        m.put(&[("side", side)], ms / 1000);
    }
}

fn store_metrics(stats: &muster_server::brain::BrainStats, out: &mut Registry) {
    for (name, help, h) in [
        ("muster_store_append_seconds", "Time of one durable append.", &stats.append),
        ("muster_cycle_seconds", "Time of one scheduling cycle.", &stats.cycle),
    ] {
        out.histogram(name, help).times(&[], h);
    }
    for (name, help, n) in [
        ("muster_requests_total", "Requests decided.", stats.requests),
        ("muster_records_total", "Records written.", stats.records),
        ("muster_reloads_total", "Times a failed append threw the memory away.", stats.reloads),
        ("muster_snapshots_total", "Snapshots written.", stats.snapshots),
    ] {
        out.counter(name, help).set(n);
    }
    let ahead = muster_server::brain::clock::stepped().map_or(0, |(_, ms)| ms / 1000);
    let help = "How far the machine's clock is ahead of the server's since it was set.";
    out.gauge("muster_clock_step_seconds", help).set(ahead);
    let help = "Panics of parts of the server that were started again.";
    let mut m = out.counter("muster_task_panics_total", help);
    for f in muster_server::supervise::failed() {
        m.put(&[("task", f.part)], f.times);
    }
    let help = "How often what must be true of the state was not, when last looked at.";
    let mut m = out.gauge("muster_invariant_violations", help);
    for (invariant, n) in &stats.violations {
        m.put(&[("invariant", invariant)], n);
    }
}
