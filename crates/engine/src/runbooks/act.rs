//! From an act of a runbook to the command that the API has for it.

use super::observe::remediation;
use crate::Engine;
use muster_model::command::{Actor, Command, Refusal, RefusalCode, Request};
use muster_model::names::NodeName;
use muster_model::node::Node;
use muster_model::placement::GpuSet;
use muster_model::qualification::Level;
use muster_model::remediation::{Remediation, RemediationStep};
use muster_model::runbook::Run;
use muster_model::tenant::{Role, TokenUse};
use muster_runbook::{Act, ActKind};
use std::collections::BTreeMap;
use std::sync::Arc;

type Vars = BTreeMap<String, String>;

fn invalid(message: String) -> Refusal {
    Refusal::new(RefusalCode::Invalid, message).hint("give the run its variables, like --node n1")
}

fn conflict(message: String) -> Refusal {
    Refusal::new(RefusalCode::Conflict, message)
}

fn text(act: &Act, vars: &Vars, name: &str) -> Result<String, Refusal> {
    let word = act.kind.word();
    act.field(name, vars)
        .filter(|t| !t.trim().is_empty())
        .ok_or_else(|| invalid(format!("`{word}` has no {name}")))
}

fn parsed<T: std::str::FromStr>(act: &Act, vars: &Vars, name: &str) -> Result<T, Refusal> {
    let t = text(act, vars, name)?;
    t.parse().map_err(|_| invalid(format!("`{t}` is no {name}")))
}

impl Engine {
    /// Whose permissions the machine has when it acts for a run: those of whoever began it, as
    /// they are now and never more than they were.
    pub(super) fn acts_as(&self, run: &Run) -> Result<Actor, Refusal> {
        let Some(name) = run.by.name.strip_prefix("user:") else { return Ok(run.by.actor()) };
        let now = self.state.now;
        let valid = self
            .state
            .tokens
            .values()
            .filter(|t| t.name.as_str() == name && t.expires_at.is_none_or(|at| at > now));
        let best = valid
            .filter_map(|t| match &t.usage {
                TokenUse::Api { role, project } => Some((*role, project.clone())),
                TokenUse::Join { .. } => None,
            })
            .max_by_key(|(role, project)| (project.is_none(), *role));
        let Some((role, project)) = best else {
            return Err(Refusal::new(
                RefusalCode::NotAllowed,
                format!("the token of {} that began this run is not valid any more", run.by.name),
            )
            .hint("somebody with a valid token can answer the step"));
        };
        let project = run.by.project.clone().or(project);
        Ok(Actor { name: run.by.name.clone(), role: role.min(run.by.role), project })
    }

    /// The node that an act would take from work.
    pub(super) fn taken_by(&self, act: &Act, vars: &Vars) -> Option<Arc<Node>> {
        if !act.kind.takes_node() {
            return None;
        }
        let name: NodeName = parsed(act, vars, "node").ok()?;
        self.state.nodes.get(&name).cloned()
    }

    /// Whether somebody has the permissions of an act. What cannot be known from here (the act's
    /// variables are wrong, or the remediation is not there yet) takes an operator.
    pub(super) fn may_act(&self, who: &Actor, act: &Act, vars: &Vars) -> Result<(), Refusal> {
        let command = match act.kind {
            ActKind::Page => None,
            _ => self.command(act, vars).ok(),
        };
        let Some(command) = command else {
            if who.role >= Role::Operator && who.project.is_none() {
                return Ok(());
            }
            let message = format!("{} may not do `{}`", who.name, act.kind.word());
            let hint = "use a token with the role operator or more";
            return Err(Refusal::new(RefusalCode::NotAllowed, message).hint(hint));
        };
        let at = self.state.now;
        let request = Request { actor: who.clone(), at, key: None, if_version: None, command };
        crate::permissions::check(&self.state, &request)
    }

    /// Does what an act says, as somebody.
    pub(super) fn act_as(&mut self, who: &Actor, act: &Act, vars: &Vars) -> Result<(), Refusal> {
        if act.kind == ActKind::Page {
            self.may_act(who, act, vars)?;
            let title = text(act, vars, "title")?;
            let detail = act.field("detail", vars).unwrap_or_default();
            self.page(&title, &detail);
            return Ok(());
        }
        let command = self.command(act, vars)?;
        self.refuse_ended(&command)?;
        let at = self.state.now;
        let request = Request { actor: who.clone(), at, key: None, if_version: None, command };
        self.decide(&request).map(|_| ())
    }

    /// A book stops a job that goes on and has it tried again. One that has ended meanwhile is not
    /// started by that: somebody has to ask for it.
    fn refuse_ended(&self, command: &Command) -> Result<(), Refusal> {
        let Command::Requeue { job } = command else { return Ok(()) };
        let Some(job) = self.state.jobs.get(job).filter(|j| j.state.is_final()) else {
            return Ok(());
        };
        let id = job.display_id();
        Err(conflict(format!("job {id} has ended, and a runbook starts no job again"))
            .hint(format!("`muster requeue {id}` runs it again")))
    }

    fn command(&self, act: &Act, vars: &Vars) -> Result<Command, Refusal> {
        let reason = act
            .field("reason", vars)
            .filter(|r| !r.trim().is_empty())
            .unwrap_or_else(|| "a runbook asks for it".to_owned());
        let node = || parsed::<NodeName>(act, vars, "node");
        let job = || parsed(act, vars, "job");
        Ok(match act.kind {
            ActKind::Cordon => Command::Cordon { node: node()?, reason },
            ActKind::Uncordon => Command::Uncordon { node: node()? },
            ActKind::Drain => {
                let stop = act.field("stop", vars).as_deref() == Some("yes");
                Command::Drain { node: node()?, reason, stop }
            }
            ActKind::Undrain => Command::Undrain { node: node()? },
            ActKind::Qualify => {
                let level = match act.field("level", vars).as_deref() {
                    None | Some("quick") => Level::Quick,
                    Some("standard") => Level::Standard,
                    Some("full") => Level::Full,
                    Some(other) => return Err(invalid(format!("`{other}` is no level of a test"))),
                };
                Command::Qualify { node: node()?, level }
            }
            ActKind::Repaired => {
                let note = act.field("note", vars).unwrap_or(reason);
                Command::Repaired { node: node()?, note }
            }
            ActKind::Return => Command::ReturnUntested { node: node()?, reason },
            ActKind::ExcludeGpu => {
                let (node, gpu) = (node()?, parsed::<u32>(act, vars, "gpu")?);
                if gpu >= 64 {
                    return Err(invalid(format!("`{gpu}` is no gpu")));
                }
                let had = self.state.nodes.get(&node).map_or(GpuSet::EMPTY, |n| n.excluded_gpus);
                let gpus = had.or(GpuSet(1 << gpu));
                Command::ExcludeGpus { node, gpus, reason }
            }
            ActKind::Approve | ActKind::Deny | ActKind::Undo => {
                self.about_remediation(act.kind, node()?, reason)?
            }
            ActKind::CloseFinding => {
                Command::CloseFinding { id: parsed(act, vars, "finding")?, reason }
            }
            ActKind::ForceBreaker => {
                use muster_model::breaker::BreakerState;
                let word = text(act, vars, "state")?;
                let all = [BreakerState::Open, BreakerState::HalfOpen, BreakerState::Closed];
                let state = all.into_iter().find(|s| s.word() == word);
                let state = state.ok_or_else(|| invalid(format!("`{word}` is no state")))?;
                let entity = parsed(act, vars, "breaker")?;
                Command::ForceBreaker { entity, state: Some(state), reason }
            }
            ActKind::ReleaseBreaker => {
                let entity = parsed(act, vars, "breaker")?;
                Command::ForceBreaker { entity, state: None, reason }
            }
            ActKind::CancelJob => Command::Cancel { job: job()? },
            ActKind::RequeueJob => Command::Requeue { job: job()? },
            ActKind::HoldJob => Command::Hold { job: job()? },
            ActKind::ReleaseJob => Command::Release { job: job()? },
            ActKind::Checkpoint => Command::AskCheckpoint { job: job()? },
            ActKind::StopAutomation => Command::StopAutomation { reason },
            ActKind::ResumeAutomation => Command::ResumeAutomation,
            ActKind::Note => Command::NoteIncident {
                id: parsed(act, vars, "incident")?,
                text: text(act, vars, "note")?,
            },
            ActKind::Page => return Err(invalid("a page is no command".into())),
        })
    }

    fn about_remediation(
        &self,
        kind: ActKind,
        node: NodeName,
        reason: String,
    ) -> Result<Command, Refusal> {
        let none = || {
            conflict(format!("node {node} has no remediation for that"))
                .hint(format!("`muster remediations --node {node}` shows what it has"))
        };
        let open = |r: &&Arc<Remediation>| {
            matches!(
                r.step,
                RemediationStep::Proposed | RemediationStep::Moving | RemediationStep::Approval
            ) && r.approved.is_none()
        };
        let all = || self.state.health.remediations_of(&node).filter(open);
        // One that a limit delays needs nobody.
        let pending = all().find(|r| self.state.awaits_approval(r));
        let waits = pending.or_else(|| all().next());
        Ok(match kind {
            ActKind::Approve => Command::ApproveRemediation { id: waits.ok_or_else(none)?.id },
            ActKind::Deny => Command::DenyRemediation { id: waits.ok_or_else(none)?.id, reason },
            _ => Command::UndoRemediation {
                id: remediation(&self.state, &node).ok_or_else(none)?.id,
                reason,
            },
        })
    }
}
