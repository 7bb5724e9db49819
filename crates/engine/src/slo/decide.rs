//! Commands about objectives, alerts and who is notified.

use crate::Engine;
use crate::state::ended_names;
use muster_model::alert::{Acknowledgement, Alert, AlertState, Escalated, ROUTING_MAX, Silence};
use muster_model::command::{Answer, Command, Refusal, RefusalCode, Request};
use muster_model::entity::CertificateEnd;
use muster_model::event::Event;
use muster_model::names::Label;
use muster_model::resolve::some_lines;
use muster_model::slo::{IndicatorCount, Objective, Objectives};
use muster_slo::decide::next_level;
use muster_slo::{Series, defaults};
use std::sync::Arc;

/// Certificates that are known, at most.
const CERTIFICATES_MAX: usize = 1000;
const NOTE_MAX: usize = 1000;

pub(crate) fn decide(e: &mut Engine, req: &Request) -> Result<Answer, Refusal> {
    match &req.command {
        Command::SetObjectives { objectives } => set_objectives(e, objectives),
        Command::SetObjective { objective } => set_objective(e, objective),
        Command::DeleteObjective { name } => delete_objective(e, name),
        Command::SetRouting { routing } => {
            routing.check()?;
            if e.state.slo.routing != *routing {
                e.emit(None, Event::RoutingSet { routing: routing.clone() });
            }
            Ok(Answer::Done)
        }
        Command::SetSilence { silence } => set_silence(e, req, silence),
        Command::EndSilence { name } => {
            if !e.state.slo.silences.contains_key(name) {
                if e.state.is_over(&ended_names::silence(name)) {
                    return Ok(Answer::Done);
                }
                return Err(not_found(format!("there is no silence {name}"))
                    .hint("`muster silence list` shows them"));
            }
            e.emit(None, Event::SilenceEnded { name: name.clone(), expired: false });
            Ok(Answer::Done)
        }
        Command::AcknowledgeAlert { id, note } => acknowledge(e, req, id, note),
        Command::EscalateAlert { id, reason } => escalate(e, id, reason),
        Command::ReportCounts { counts } => {
            let watched = e.state.slo.book.watched();
            let asked = |c: &&IndicatorCount| {
                let series = Series { sli: c.sli, scope: c.scope.clone() };
                c.total > 0 && watched.contains(&series)
            };
            let counts: Vec<IndicatorCount> = counts.iter().filter(asked).cloned().collect();
            if !counts.is_empty() {
                e.emit(None, Event::CountsReported { counts });
            }
            Ok(Answer::Done)
        }
        Command::CertificateSeen { entity, ends } => {
            let known = e.state.slo.certificates.get(entity);
            let room = known.is_some() || e.state.slo.certificates.len() < CERTIFICATES_MAX;
            if known != Some(ends) && room {
                let seen = CertificateEnd { entity: entity.clone(), ends: *ends };
                e.emit(None, Event::CertificateSeen(seen));
            }
            Ok(Answer::Done)
        }
        Command::AlertsNotified { receiver, alerts } => {
            let slo = &e.state.slo;
            let known = alerts.iter().filter(|(id, _)| slo.alerts.contains_key(id));
            let alerts: Vec<_> = known.cloned().collect();
            if slo.routing.receiver(receiver).is_some() && !alerts.is_empty() {
                e.emit(None, Event::AlertsNotified { receiver: receiver.clone(), alerts });
            }
            Ok(Answer::Done)
        }
        Command::ReceiverFailed { receiver, error } => {
            if e.state.slo.routing.receiver(receiver).is_some() {
                let (receiver, error) = (receiver.clone(), error.clone());
                e.emit(None, Event::ReceiverFailed { receiver, error });
            }
            Ok(Answer::Done)
        }
        // The caller asks only about these.
        _ => Ok(Answer::Done),
    }
}

fn not_found(message: String) -> Refusal {
    Refusal::new(RefusalCode::NotFound, message)
}

fn set_objectives(e: &mut Engine, objectives: &Arc<Objectives>) -> Result<Answer, Refusal> {
    objectives.check()?;
    if e.state.slo.objectives != *objectives || !e.state.slo.is_stated() {
        e.emit(None, Event::ObjectivesSet { objectives: objectives.clone() });
    }
    Ok(Answer::Done)
}

fn set_objective(e: &mut Engine, objective: &Arc<Objective>) -> Result<Answer, Refusal> {
    let mut next = (*e.state.slo.objectives).clone();
    next.without.retain(|n| *n != objective.name);
    match next.objectives.iter_mut().find(|o| o.name == objective.name) {
        Some(old) => *old = (**objective).clone(),
        None => next.objectives.push((**objective).clone()),
    }
    set_objectives(e, &Arc::new(next))
}

fn delete_objective(e: &mut Engine, name: &Label) -> Result<Answer, Refusal> {
    if !e.state.slo.in_force().iter().any(|o| o.name == *name) {
        return Err(
            not_found(format!("there is no objective {name}")).hint("`muster slo` lists them")
        );
    }
    let mut next = (*e.state.slo.objectives).clone();
    next.objectives.retain(|o| o.name != *name);
    if defaults::set(next.defaults).iter().any(|o| o.name == *name) {
        next.without.push(name.clone());
    }
    set_objectives(e, &Arc::new(next))
}

fn set_silence(e: &mut Engine, req: &Request, silence: &Silence) -> Result<Answer, Refusal> {
    silence.check()?;
    let slo = &e.state.slo;
    if silence.window(e.state.now).is_none() {
        return Err(Refusal::new(RefusalCode::Invalid, "it is over already")
            .field("start")
            .hint("give a later start or a longer length, or `every` to make it recur"));
    }
    let known = slo.silences.get(&silence.name);
    if known.is_none() && slo.silences.len() >= ROUTING_MAX {
        return Err(Refusal::new(
            RefusalCode::Policy,
            format!("there are {ROUTING_MAX} silences already"),
        )
        .hint("end some that are not needed: `muster silence end NAME`"));
    }
    let mut silence = Silence { by: req.actor.name.clone(), ..silence.clone() };
    if let Some(under) = &mut silence.matcher.under {
        *under = e.state.resolve_under(under)?;
    }
    if known != Some(&silence) {
        e.emit(None, Event::SilenceSet { silence: Box::new(silence) });
    }
    Ok(Answer::Done)
}

fn open_alert<'a>(e: &'a Engine, id: &str) -> Result<&'a Alert, Refusal> {
    let Some(a) = e.state.slo.alerts.get(id) else {
        return Err(not_found(format!("there is no alert {id}")).hint("`muster alerts` lists them"));
    };
    if !a.is_open() {
        return Err(Refusal::new(RefusalCode::Conflict, format!("alert {id} is over")));
    }
    Ok(a)
}

/// Passes an alert on now, as if its time without an answer had run out.
fn escalate(e: &mut Engine, id: &str, reason: &str) -> Result<Answer, Refusal> {
    let a = open_alert(e, id)?;
    if reason.len() > NOTE_MAX {
        return Err(Refusal::new(RefusalCode::Invalid, "the reason is too long")
            .field("reason")
            .hint(format!("at most {NOTE_MAX} bytes")));
    }
    some_lines("reason", reason)?;
    if let Some(name) = &a.silenced {
        let message = format!("alert {id} is silenced: nobody would be notified");
        return Err(Refusal::new(RefusalCode::Conflict, message)
            .hint(format!("`muster silence end {name}` ends the silence")));
    }
    let Some(level) = next_level(a, &e.state.slo.routing) else {
        let message = format!("alert {id} has no further escalation step");
        return Err(Refusal::new(RefusalCode::Conflict, message)
            .hint("`muster routing show` lists the routes; `escalate` of a route adds steps"));
    };
    let (id, reason, project) = (id.to_owned(), reason.to_owned(), a.project.clone());
    e.emit(project.as_ref(), Event::AlertEscalated { escalation: Escalated { id, level, reason } });
    Ok(Answer::Done)
}

fn acknowledge(e: &mut Engine, req: &Request, id: &str, note: &str) -> Result<Answer, Refusal> {
    let a = open_alert(e, id)?;
    if note.len() > NOTE_MAX {
        return Err(Refusal::new(RefusalCode::Invalid, "the note is too long")
            .field("note")
            .hint(format!("at most {NOTE_MAX} bytes")));
    }
    some_lines("note", note)?;
    let mine = a.acknowledged.as_ref().filter(|k| k.by == req.actor.name && k.note == note);
    if a.state == AlertState::Acknowledged && mine.is_some() {
        return Ok(Answer::Done);
    }
    let acknowledgement =
        Acknowledgement { by: req.actor.name.clone(), at: e.state.now, note: note.to_owned() };
    let project = a.project.clone();
    e.emit(project.as_ref(), Event::AlertAcknowledged { id: id.to_owned(), acknowledgement });
    Ok(Answer::Done)
}
