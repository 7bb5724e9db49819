//! Decides on a request: a refusal before anything changes, or records.

pub(crate) mod jobs;
mod nodes;
mod policy;
mod tenants;

use crate::Engine;
use crate::lookup;
use crate::permissions;
use crate::qualify;
use crate::state::KeyEntry;
use muster_model::command::{Answer, Command, IdempotencyKey, Refusal, RefusalCode, Request};
use muster_model::event::Event;
use muster_model::ids::SiteId;
use muster_model::names::NodeName;
use muster_model::topology::Location;

/// Answers a request whose key was seen before.
pub(crate) fn replay(seen: &KeyEntry, key: &IdempotencyKey) -> Result<Answer, Refusal> {
    if seen.fingerprint == key.fingerprint {
        return Ok(seen.answer.clone());
    }
    Err(Refusal::new(
        RefusalCode::Conflict,
        "this Idempotency-Key was used before with another request",
    )
    .field("Idempotency-Key")
    .hint("use a new key for a new request, and the same key only to repeat one"))
}

pub(crate) fn decide(e: &mut Engine, req: &Request) -> Result<Answer, Refusal> {
    permissions::check(&e.state, req)?;
    match &req.command {
        Command::CreateSite { site } => {
            if e.state.site.is_some() {
                return Err(Refusal::new(RefusalCode::Conflict, "the site exists already"));
            }
            e.emit(None, Event::SiteCreated { site: SiteId(site.clone()) });
            Ok(Answer::Done)
        }
        Command::Lead { epoch, server, restored } => {
            let first_job = restored.then(|| jobs::first_of_generation(e.state.next_job, *epoch));
            let (epoch, server) = (*epoch, server.clone());
            // The last sign of the server before.
            let since = e.state.at;
            e.emit(None, Event::LeaderChanged { epoch, server, first_job });
            e.renew_fences();
            e.renew_waits(since);
            e.await_nodes(since);
            if *restored {
                e.delay_restored();
            }
            Ok(Answer::Done)
        }
        Command::Submit { spec } => jobs::submit(e, req, spec),
        Command::Cancel { job } => jobs::cancel(e, req, *job),
        Command::Hold { job } => jobs::hold(e, req, *job),
        Command::Release { job } => jobs::release(e, req, *job),
        Command::Requeue { job } => jobs::requeue(e, req, *job),
        Command::RequeueFailed { job } => jobs::requeue_failed(e, req, *job),
        Command::AskCheckpoint { job } => jobs::ask_checkpoint(e, req, *job),
        Command::CheckpointDone { key, step, path, bytes, blocked_ms } => {
            let c = muster_model::job::Checkpoint {
                attempt: key.attempt,
                step: *step,
                path: path.clone(),
                bytes: *bytes,
                blocked_ms: *blocked_ms,
                at: e.state.now,
            };
            Ok(jobs::checkpoint_done(e, *key, c))
        }
        Command::Enroll { node, machine, token, key } => {
            nodes::enroll(e, node, machine, token, key.as_deref())
        }
        Command::NoteNodeKey { node, key } => nodes::note_key(e, node, key),
        Command::ReadmitNode { node, machine, key } => nodes::readmit(e, node, machine, key),
        Command::ClockStepped { step } => {
            if let Some(node) = &step.node {
                lookup::find(e, node)?;
            }
            e.emit(None, Event::ClockStepped(step.clone()));
            Ok(Answer::Done)
        }
        Command::NodeConnected { .. } => nodes::connected(e, &req.command),
        Command::AgentConnection { node, connected } => {
            e.state.note_connection(node, *connected);
            Ok(Answer::Done)
        }
        Command::NodeLost { node, last_seen } => nodes::lost(e, node, *last_seen),
        Command::SlotReport { node, key, observed, ago } => {
            Ok(nodes::report(e, node, *key, observed, *ago))
        }
        Command::PreflightDone { key, report } => Ok(e.preflight_done(*key, report)),
        Command::Cordon { node, reason } => nodes::cordon(e, req, node, reason),
        Command::Uncordon { node } => nodes::uncordon(e, req, node),
        Command::Drain { node, reason, stop } => nodes::drain(e, req, node, reason, *stop),
        Command::Undrain { node } => nodes::undrain(e, req, node),
        Command::Retire { node } => nodes::retire(e, req, node),
        Command::Reconcile { node } => nodes::reconcile(e, req, node),
        Command::SetTopology { topology } => {
            topology.check()?;
            // One that is written back as it was shown is no statement.
            let misnamed = |(n, l): &(&NodeName, &Location)| {
                !l.is_placed() && l.rack != Location::unplaced(n).rack
            };
            if let Some((node, _)) = topology.nodes.iter().find(misnamed) {
                let message = format!(
                    "node {node} is on spine and leaf `unplaced`, which is what nodes are \
                     shown on that nobody placed"
                );
                return Err(Refusal::new(RefusalCode::Invalid, message)
                    .field("nodes")
                    .hint("name its spine and leaf, or leave the node out"));
            }
            if *e.state.topology != **topology {
                e.emit(None, Event::TopologySet { topology: topology.clone() });
            }
            Ok(Answer::Done)
        }
        Command::CreateProject { name, description } => tenants::project(e, name, description),
        Command::CreateToken { .. } => tenants::token(e, &req.command),
        Command::RevokeToken { id } => tenants::revoke(e, id),
        Command::UpdateJob { job, priority, time_limit } => {
            jobs::update(e, req, *job, *priority, *time_limit)
        }
        Command::MarkNode { node, role, hazard } => nodes::mark(e, req, node, *role, *hazard),
        Command::SetPolicy { policy } => policy::set_policy(e, policy),
        Command::SetQuotas { quotas } => policy::set_quotas(e, quotas),
        Command::SetReservation { reservation } => policy::set_reservation(e, reservation),
        Command::DeleteReservation { name } => policy::delete_reservation(e, name),
        Command::IdleReport { node, key, since } => Ok(policy::idle(e, node, *key, *since)),
        Command::FaultsSeen { node, faults } => crate::health::faults(e, node, faults),
        Command::Qualify { node, level } => qualify::ask(e, req, node, *level),
        Command::CancelQualification { node } => qualify::cancel(e, req, node),
        Command::QualificationDone { node, id, report } => qualify::done(e, node, *id, report),
        Command::FindingsSeen { .. }
        | Command::CloseFinding { .. }
        | Command::ApproveRemediation { .. }
        | Command::DenyRemediation { .. }
        | Command::UndoRemediation { .. }
        | Command::Repaired { .. }
        | Command::ReturnUntested { .. }
        | Command::ExcludeGpus { .. }
        | Command::ForceBreaker { .. }
        | Command::StopAutomation { .. }
        | Command::ResumeAutomation
        | Command::ActDone { .. }
        | Command::NoteIncident { .. }
        | Command::OwnIncident { .. }
        | Command::CloseIncident { .. }
        | Command::FirstStep { .. } => crate::health::decide(e, req),
        Command::SetRunbook { .. }
        | Command::DeleteRunbook { .. }
        | Command::StartRunbook { .. }
        | Command::AnswerRunbook { .. }
        | Command::RunbookSaw { .. }
        | Command::StopRunbook { .. } => crate::runbooks::decide(e, req),
        Command::SetObjectives { .. }
        | Command::SetObjective { .. }
        | Command::DeleteObjective { .. }
        | Command::SetRouting { .. }
        | Command::SetSilence { .. }
        | Command::EndSilence { .. }
        | Command::AcknowledgeAlert { .. }
        | Command::EscalateAlert { .. }
        | Command::ReportCounts { .. }
        | Command::CertificateSeen { .. }
        | Command::AlertsNotified { .. }
        | Command::ReceiverFailed { .. } => crate::slo::decide(e, req),
        Command::SetSecret { project, name } => tenants::set_secret(e, project, name),
        Command::DeleteSecret { project, name } => tenants::delete_secret(e, project, name),
    }
}
