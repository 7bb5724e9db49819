//! What a change would do to the site: its log becomes two simulated sites, one as it is and one with
//! the change, and both are run on from now by the engine itself.

use super::auth::OperatorWriter;
use super::error::{Failure, Reply};
use super::extract::{JsonBody, shown};
use super::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{WhatIf, WhatIfAnswer};
use muster_model::ids::Seq;
use muster_model::units::Span;
use muster_server::brain::Brain;
use muster_server::follower::Cursor;
use muster_sim::SimError;
use muster_sim::site::{Ask, Change, Site};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// So long after its limit a step of the work may take to end: then whoever asked is answered.
const LAST_STEP: Duration = Duration::from_secs(2);
/// How long the one before may take to end: who cancels and asks again is not refused.
const TURN: Duration = Duration::from_secs(1);
/// Records of a log that is read from its beginning.
const MOST_RECORDS: u64 = 1_000_000;
/// Nodes of a simulated site.
const MOST_NODES: usize = 20_000;
/// Changes in one question.
const MOST_CHANGES: usize = 16;
/// Pairs of runs.
const MOST_SEEDS: u32 = 64;
/// About how long it may take.
const LONGEST_BUDGET: Span = Span::secs(20);
/// How far ahead.
const LONGEST_HORIZON: Span = Span::hours(90 * 24);

const ELSEWHERE: &str = "`muster whatif --from live` simulates on your own machine, for as long as \
                         --budget says";

/// Predict what a change would do to the site: waits, starts, allocation and goodput. Changes nothing.
///
/// The site's log is read, and the site is simulated from now on as it is and with the changes, by the
/// engine itself, several times with the same seeds. It ends when the caller hangs up. One is
/// simulated at a time; who asks meanwhile is refused.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/whatif", tag = "scheduling", request_body = WhatIf,
    responses((status = 200, description = "What it would do.", body = WhatIfAnswer))))]
pub(crate) async fn ask(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    JsonBody { value, .. }: JsonBody<WhatIf>,
) -> Reply {
    let ask = checked(&value)?;
    let (brain, end) = (app.brain().clone(), app.brain().durable());
    if end.0 > MOST_RECORDS {
        let message = format!("the log has {end} records; at most {MOST_RECORDS} are read here");
        return Err(Failure::senseless(message).hint(ELSEWHERE));
    }
    let done = alone(&app, too_long, move |clock| simulate(&brain, end, &ask, clock)).await?;
    Ok(answer(&app, &writer.caller, StatusCode::OK, end, None, &done))
}

/// Does the work of a simulation on a thread of its own: one at a time, for as long as the configuration
/// has it at most (25 s), and no longer than its caller waits. The clock says how many seconds passed,
/// and nothing any more once it is to stop.
pub(super) async fn alone<T: Send + 'static>(
    app: &App,
    too_long: fn() -> Failure,
    work: impl FnOnce(&dyn Fn() -> Option<f64>) -> Reply<T> + Send + 'static,
) -> Reply<T> {
    let Ok(Ok(turn)) = tokio::time::timeout(TURN, app.whatif().acquire_owned()).await else {
        return Err(Failure::too_many("another what-if or scenario is simulated by this server")
            .hint("wait until it is over, at most 25 s"));
    };
    let limit = app.config().simulation_limit;
    // A caller that hangs up drops this, and with it the work ends.
    let stop = CancellationToken::new();
    let _stops = stop.clone().drop_guard();
    let work = move || {
        let _turn = turn;
        let began = Instant::now();
        work(&|| {
            let passed = began.elapsed();
            (passed < limit && !stop.is_cancelled()).then_some(passed.as_secs_f64())
        })
    };
    let work = tokio::task::spawn_blocking(work);
    let answered = limit.saturating_add(LAST_STEP);
    let Ok(done) = tokio::time::timeout(answered, work).await else { return Err(too_long()) };
    done.map_err(|e| {
        tracing::error!(error = %e, "a simulation failed");
        Failure::internal()
    })?
}

fn checked(w: &WhatIf) -> Reply<Ask> {
    if w.changes.is_empty() || w.changes.len() > MOST_CHANGES {
        let message = format!("{} changes; give 1 to {MOST_CHANGES}", w.changes.len());
        return Err(Failure::senseless(message).field("changes"));
    }
    if !(1..=MOST_SEEDS).contains(&w.seeds) {
        let message = format!("{} pairs of runs; give 1 to {MOST_SEEDS}", w.seeds);
        return Err(Failure::senseless(message).field("seeds"));
    }
    let budget = w.budget.unwrap_or(Span::secs(10));
    if !(Span::secs(1)..=LONGEST_BUDGET).contains(&budget) {
        let message = format!("{budget}; the server simulates from 1s to {LONGEST_BUDGET}");
        return Err(Failure::senseless(message).field("budget").hint(ELSEWHERE));
    }
    if w.horizon.is_some_and(|h| !(Span::mins(1)..=LONGEST_HORIZON).contains(&h)) {
        let message = format!("the horizon must be from 1m to {LONGEST_HORIZON}");
        return Err(Failure::senseless(message).field("horizon"));
    }
    let mut changes = Vec::new();
    for (i, text) in w.changes.iter().enumerate() {
        let at = |f: Failure| f.field(format!("changes[{i}]"));
        let change = text.parse::<Change>().map_err(|e| at(Failure::senseless(e.to_string())))?;
        if let Change::PolicyFile(file) = change {
            let message = format!("`policy={}`: the server reads no file for this", shown(&file));
            return Err(at(Failure::senseless(message)).hint(
                "name the fields that change, such as policy.backfill.mode=aggressive; or \
                 `muster whatif --from live --change policy=FILE`",
            ));
        }
        changes.push(change);
    }
    let seeds = u64::from(w.seeds);
    let budget_s = budget.to_std().as_secs_f64();
    Ok(Ask { changes, seeds, horizon: w.horizon, budget_s, most_nodes: MOST_NODES })
}

/// Takes seconds.
fn simulate(
    brain: &Brain,
    end: Seq,
    ask: &Ask,
    clock: &dyn Fn() -> Option<f64>,
) -> Reply<WhatIfAnswer> {
    let site = read(brain, end, clock)?.at(brain.now());
    site.ask(ask, clock).map_err(|e| match e {
        SimError::Stopped => too_long(),
        e => Failure::senseless(e.to_string()).field("changes"),
    })
}

/// The site, folded from the first record of its log.
fn read(brain: &Brain, end: Seq, clock: &dyn Fn() -> Option<f64>) -> Reply<Site> {
    let runtime = Handle::current();
    let mut log = Cursor::new(brain, Seq(0));
    let mut failed = None;
    let batches = std::iter::from_fn(|| {
        if clock().is_none() {
            failed = Some(too_long());
            return None;
        }
        runtime.block_on(log.next_batch(end)).unwrap_or_else(|e| {
            failed = Some(e.into());
            None
        })
    });
    let site = Site::from_records(batches.flatten());
    match failed {
        Some(e) => Err(e),
        None => site.map_err(|e| {
            Failure::conflict(e.to_string())
                .hint("`muster store export LOG` writes a whole log for `muster whatif --from LOG`")
        }),
    }
}

fn too_long() -> Failure {
    Failure::senseless(
        "the site with these changes is too large to be simulated by the server in 25 s; nothing \
         was changed",
    )
    .hint(ELSEWHERE)
}
