//! The scheduling policy and the tree of quotas: documents that are read and replaced as a whole.

use super::auth::{AdminWriter, Caller, Reader, Writer};
use super::error::{Failure, Reply};
use super::extract::{JsonBody, Query};
use super::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{Kind, Policy, QuotaReport, Quotas, SetDocumentQuery, SetPolicy, SetQuotas};
use muster_model::names::{Label, ProjectName};
use muster_model::policy::SitePolicy;
use muster_model::quota as m;
use muster_model::{Command, Refusal};
use muster_scheduler::quota::Ledger;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The log keeps no version of a document that is replaced as a whole; its content stands for
/// one. 48 bits, so that readers that know only floating point do not round it.
pub(crate) fn content_version<T: Serialize>(document: &T) -> u64 {
    let digest = Sha256::digest(serde_json::to_vec(document).unwrap_or_default());
    digest.iter().take(6).fold(0, |v, b| v << 8 | u64::from(*b))
}

/// Refuses a write by somebody who saw another version than the present one; not the repeat of one that
/// was done, which is answered as it was.
pub(crate) fn same_version(
    app: &App,
    writer: &Writer,
    body: &[u8],
    what: &str,
    present: Option<u64>,
) -> Reply<()> {
    let Some(seen) = writer.if_version else { return Ok(()) };
    let now = match present {
        Some(v) if v == seen.0 => return Ok(()),
        _ if writer.is_repeat(app, body) => return Ok(()),
        Some(v) => format!("it is at {v}"),
        None => "it is not there".into(),
    };
    Err(Failure::conflict(format!("the {what} has changed: you saw version {seen}, {now}"))
        .field("if-match")
        .hint("read it again and decide anew"))
}

fn policy_view(policy: Arc<SitePolicy>) -> Policy {
    Policy { kind: Kind::Policy, version: content_version(&*policy), policy }
}

/// Get the site's scheduling policy, with every default filled in.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/policy", tag = "scheduling",
    responses((status = 200, description = "The policy.", body = Policy))))]
pub(crate) async fn policy(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let (seq, p) = app.brain().read(|s| (s.seq, Arc::clone(&s.policy)));
    let p = policy_view(p);
    Ok(answer(&app, &caller, StatusCode::OK, seq, Some(p.version), &p))
}

/// Set the site's scheduling policy: the whole of it. What is left out gets its default.
///
/// With `dry_run=true` nothing is set: the answer says what it would be.
#[cfg_attr(feature = "openapi", utoipa::path(put, path = "/v1/policy", tag = "scheduling", request_body = SetPolicy,
    params(SetDocumentQuery),
    responses((status = 200, description = "As it is now.", body = Policy))))]
pub(crate) async fn set_policy(
    State(app): State<App>,
    AdminWriter(writer): AdminWriter,
    Query(q): Query<SetDocumentQuery>,
    JsonBody { value, raw }: JsonBody<SetPolicy>,
) -> Reply {
    // One at a time, so that nothing comes between the look at the version and the write.
    let _turn = app.turn().lock().await;
    let present = content_version(&*app.brain().read(|s| Arc::clone(&s.policy)));
    same_version(&app, &writer, &raw, "policy", Some(present))?;
    if q.dry_run {
        value.policy.check().map_err(Refusal::from)?;
        let seq = app.brain().read(|s| s.seq);
        let would = policy_view(value.policy);
        return Ok(answer(&app, &writer.caller, StatusCode::OK, seq, None, &would));
    }
    let done = writer.put(&app, &raw, Command::SetPolicy { policy: value.policy }).await?;
    let p = policy_view(app.brain().read(|s| Arc::clone(&s.policy)));
    Ok(answer(&app, &writer.caller, StatusCode::OK, done.seq, Some(p.version), &p))
}

/// Looks at every account: done aside.
async fn quotas_view(app: &App, caller: &Caller) -> Reply<(muster_model::Seq, Quotas)> {
    let (asked, asking) = (app.clone(), caller.clone());
    app.aside(&caller.token, move || view_quotas(&asked, &asking)).await
}

fn view_quotas(app: &App, caller: &Caller) -> (muster_model::Seq, Quotas) {
    let now = app.brain().now();
    let (seq, tree, mut report) =
        app.brain().read_polled(|s| (s.seq, Arc::clone(&s.quotas), s.quota_report(now)));
    let mut warnings = Vec::new();
    let quotas = match &caller.actor.project {
        None => {
            warnings = without_effect(&tree);
            tree
        }
        Some(own) => {
            let seen = way_up(&tree, own);
            report.quotas.retain(|r| seen.contains(r.name.as_str()));
            keep_own(&mut report, own);
            let mut part = (*tree).clone();
            part.tree.retain(|q| seen.contains(q.name.as_str()));
            for q in &mut part.tree {
                q.projects.retain(|p| p == own);
            }
            Arc::new(part)
        }
    };
    // Of what is shown: a version of the whole tree would show when the others' part changes.
    let version = content_version(&*quotas);
    (seq, Quotas { kind: Kind::Quotas, version, quotas, report, warnings })
}

/// What of a tree has no effect, in words.
fn without_effect(tree: &m::Quotas) -> Vec<String> {
    Ledger::idle_borrows(tree).iter().map(ToString::to_string).collect()
}

/// Leaves out what would show a project how much the others use: from a part of all and the use
/// that it stands for follows all. How far each limit is used stays, because work waits for that.
fn keep_own(report: &mut QuotaReport, own: &ProjectName) {
    report.accounts.retain(|a| a.project == own.as_str());
    if let Some(whole) = report.accounts.iter_mut().find(|a| a.user.is_none()) {
        whole.received_milli = None;
    }
    for r in &mut report.quotas {
        r.projects.retain(|p| p == own.as_str());
        (r.used_milli, r.received_milli, r.usage_gpu_s) = (None, None, None);
    }
}

/// Names of the nodes from the one that a project hangs on up to the root.
fn way_up(tree: &m::Quotas, project: &ProjectName) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut here = tree.tree.iter().find(|q| q.projects.contains(project));
    while let Some(q) = here {
        // The second visit of a node would be a circle, which is refused when a tree is set.
        if !out.insert(q.name.to_string()) {
            break;
        }
        let parent: Option<&Label> = q.parent.as_ref();
        here = parent.and_then(|p| tree.tree.iter().find(|q| q.name == *p));
    }
    out
}

/// Get the tree of quotas, and who has had how much of what they are entitled to.
///
/// A token that is bound to a project sees the way from its project to the root.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/quotas", tag = "scheduling",
    responses((status = 200, description = "The tree, and how it is used.", body = Quotas))))]
pub(crate) async fn quotas(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let (seq, q) = quotas_view(&app, &caller).await?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, Some(q.version), &q))
}

/// Set the tree of quotas: the whole of it.
///
/// With `dry_run=true` nothing is set: the answer has the tree as it would be, its warnings, and an empty report.
#[cfg_attr(feature = "openapi", utoipa::path(put, path = "/v1/quotas", tag = "scheduling", request_body = SetQuotas,
    params(SetDocumentQuery),
    responses((status = 200, description = "As it is now.", body = Quotas))))]
pub(crate) async fn set_quotas(
    State(app): State<App>,
    AdminWriter(writer): AdminWriter,
    Query(q): Query<SetDocumentQuery>,
    JsonBody { value, raw }: JsonBody<SetQuotas>,
) -> Reply {
    let turn = app.turn().lock().await;
    let present = content_version(&*app.brain().read(|s| Arc::clone(&s.quotas)));
    same_version(&app, &writer, &raw, "tree of quotas", Some(present))?;
    if q.dry_run {
        let quotas = value.quotas;
        let seq = app.brain().read(|s| s.check_quotas(&quotas).map(|()| s.seq))?;
        drop(turn);
        let work = move || (content_version(&*quotas), without_effect(&quotas), quotas);
        let (version, warnings, quotas) = app.aside(&writer.caller.token, work).await?;
        let report = QuotaReport::default();
        let would = Quotas { kind: Kind::Quotas, version, quotas, report, warnings };
        return Ok(answer(&app, &writer.caller, StatusCode::OK, seq, None, &would));
    }
    let done = writer.put(&app, &raw, Command::SetQuotas { quotas: value.quotas }).await?;
    // Who writes next need not wait for the report.
    drop(turn);
    let (_, q) = quotas_view(&app, &writer.caller).await?;
    Ok(answer(&app, &writer.caller, StatusCode::OK, done.seq, Some(q.version), &q))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::{AccountRow, LimitRow, QuotaRow};
    use muster_model::quota::QueueOrder;

    #[test]
    fn a_project_does_not_see_what_the_others_use() {
        let row = |name: &str| QuotaRow {
            name: name.to_owned(),
            parent: None,
            depth: 0,
            shares: 1,
            order: QueueOrder::BestEffort,
            projects: vec!["alpha".to_owned(), "beta".to_owned()],
            limits: vec![LimitRow {
                sku: None,
                tier: None,
                nominal_milli: 8000,
                owned_milli: 8000,
                borrow_milli: None,
                lend_milli: None,
                used_milli: 6000,
                borrowed_milli: 0,
                left_milli: 2000,
            }],
            used_milli: Some(6000),
            entitled_milli: 1000,
            received_milli: Some(1000),
            usage_gpu_s: Some(7200),
        };
        let account = |project: &str, user: Option<&str>, used_milli: u64| AccountRow {
            project: project.to_owned(),
            user: user.map(str::to_owned),
            quota: None,
            used_milli,
            running: 1,
            waiting: 0,
            entitled_milli: 500,
            received_milli: Some(333),
            usage_gpu_s: 2400,
            rank: 1,
        };
        let accounts = vec![
            account("alpha", None, 2000),
            account("alpha", Some("user:ann"), 2000),
            account("beta", None, 4000),
        ];
        let mut r = QuotaReport { quotas: vec![row("lab")], accounts };
        keep_own(&mut r, &"alpha".parse().unwrap());
        let lab = &r.quotas[0];
        assert_eq!(lab.projects, ["alpha"]);
        assert_eq!((lab.used_milli, lab.received_milli, lab.usage_gpu_s), (None, None, None));
        assert_eq!(lab.limits[0].used_milli, 6000, "what work can wait for");
        assert_eq!(r.accounts.len(), 2);
        let (whole, ann) = (&r.accounts[0], &r.accounts[1]);
        assert_eq!((whole.used_milli, whole.received_milli, whole.usage_gpu_s), (2000, None, 2400));
        assert_eq!((ann.received_milli, ann.usage_gpu_s), (Some(333), 2400));
    }
}
