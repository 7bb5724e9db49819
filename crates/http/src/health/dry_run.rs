//! What a policy would have done over the last days of the log.

use crate::auth::SiteWriter;
use crate::error::{Failure, Reply};
use crate::extract::OptionalBody;
use crate::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{DryRemediation, RemediationDryRun, RemediationDryRunReport};
use muster_engine::{
    RehearsedRemediation, RehearsedRemediations, RemediationRehearsal, State as Site,
};
use muster_model::remediation::Remediations;
use muster_model::units::{Span, Time};
use muster_model::{Refusal, Seq};
use muster_server::follower::Cursor;

/// Newest records that are read: a longer stretch takes longer than a caller waits.
const READ: u64 = 300_000;

/// Say what a policy's remediations would have done over the last days of the log. Changes nothing.
///
/// The engine itself decides, on a copy of the state under the policy that is given (or the site's
/// own), fed the faults, findings and outages of that time. It is assumed that operators approve
/// what waits, that acts succeed and tests pass within 30 minutes each, and that a node that
/// people repair is back after three days.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/remediations/dry-run", tag = "health",
    request_body = Option<RemediationDryRun>,
    responses((status = 200, description = "What would have been done.", body = RemediationDryRunReport))))]
pub(crate) async fn dry_run(
    State(app): State<App>,
    SiteWriter(writer): SiteWriter,
    OptionalBody { value, .. }: OptionalBody<RemediationDryRun>,
) -> Reply {
    let caller = &writer.caller;
    let RemediationDryRun { days, policy } = value;
    if !(1..=366).contains(&days) {
        return Err(
            Failure::senseless(format!("{days} days; it must be between 1 and 366")).field("days")
        );
    }
    let policy = match policy {
        Some(p) => {
            p.check().map_err(Refusal::from)?;
            p
        }
        None => app.brain().read(|s| s.policy.remediations.clone()),
    };
    // Each has a copy of the state while it reads the log: one of each token at a time.
    let turn = app.rehearsals().of(&caller.token, 1).acquire_owned().await;
    let _turn = turn.map_err(|_| Failure::internal())?;
    let to = app.brain().now();
    let from = to - Span::hours(24 * u64::from(days));
    let (seq, report) = rehearse(&app, &caller.token, policy, from, to).await?;
    Ok(answer(&app, caller, StatusCode::OK, seq, None, &report))
}

async fn rehearse(
    app: &App,
    token: &str,
    policy: Remediations,
    from: Time,
    to: Time,
) -> Reply<(Seq, RemediationDryRunReport)> {
    let end = app.brain().durable();
    // A copy of a large site takes a moment, and so does each stretch of the log: neither the
    // writer nor others who ask are to wait for it.
    let brain = app.brain().clone();
    let begun = move || {
        RemediationRehearsal::new(
            &brain.read_copy(Site::clone),
            brain.engine_policy(),
            policy,
            from,
        )
    };
    let mut life = app.aside(token, begun).await?;
    let least = Seq(end.0.saturating_sub(READ));
    let mut log = Cursor::seek(app.brain(), from, (least, end)).await?;
    // Everything that may be read is younger than what was asked for.
    let begins_late = least > Seq(0) && log.place() == least;
    let mut first = None;
    while let Some(records) = log.next_batch(end).await? {
        first = first.or(records.iter().map(|r| r.at).find(|at| *at >= from));
        let read = move || {
            for r in records.iter().filter(|r| r.at >= from) {
                life.read(r);
            }
            life
        };
        life = app.aside(token, read).await?;
    }
    // The archive may have grown meanwhile.
    let cut = begins_late || log.is_cut();
    let done = app.aside(token, move || life.end(to)).await?;
    let from = if cut { first.unwrap_or(from) } else { from };
    Ok((end, report(done, from, to, cut)))
}

fn report(done: RehearsedRemediations, from: Time, to: Time, cut: bool) -> RemediationDryRunReport {
    let item = |r: RehearsedRemediation| DryRemediation {
        at: r.at.into(),
        finding: r.finding.to_string(),
        kind: r.kind,
        node: r.node.to_string(),
        gpu: r.gpu,
        action: r.action,
        mode: r.mode,
        held: r.held,
    };
    RemediationDryRunReport {
        from: from.into(),
        to: to.into(),
        cut,
        findings: done.findings,
        by_action: done.by_action.into_iter().map(|(a, n)| (a.word().to_owned(), n)).collect(),
        held: done.held,
        out_at_once: done.out_at_once,
        storms: done.storms,
        items: done.items.into_iter().map(item).collect(),
    }
}
