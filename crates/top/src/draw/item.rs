//! One thing that is wrong, at length: its evidence, what to do, and with which command.

use super::fitted_text::{Pen, cut, fit, wrap};
use crate::model::Model;
use muster_api::{Alert, Breaker, Finding, Incident, OpenCause, Remediation, WhoAmI};
use muster_model::breaker::BreakerState;
use muster_terminal::output::colour::Style as Tone;
use muster_terminal::output::time::{full, length, relative};
use ratatui::text::Line;

/// Lines of a page.
struct Page {
    pen: Pen,
    w: usize,
    out: Vec<Line<'static>>,
}

/// Columns of what stands in front of a fact.
const NAME: usize = 12;

impl Page {
    fn title(&mut self, text: &str, tone: Tone) {
        for l in wrap(text, self.w, 2) {
            self.out.push(self.pen.line(l, tone));
        }
    }

    /// A fact; what is not known is not shown.
    fn fact(&mut self, name: &str, value: impl AsRef<str>) {
        for (n, l) in wrap(value.as_ref(), self.w.saturating_sub(NAME), 0).into_iter().enumerate() {
            let name = fit(if n == 0 { name } else { "" }, NAME);
            self.out
                .push(self.pen.pieces([(name.as_str(), Tone::Faint), (l.as_str(), Tone::Plain)]));
        }
    }

    fn section(&mut self, text: &str) {
        self.out.push(Line::default());
        self.out.push(self.pen.line(cut(text, self.w), Tone::Bold));
    }

    fn text(&mut self, text: &str) {
        for l in wrap(&format!("  {text}"), self.w.saturating_sub(2), 2) {
            self.out.push(self.pen.line(format!("  {}", l.trim_end()), Tone::Plain));
        }
    }

    fn command(&mut self, command: &str) {
        self.out.push(self.pen.line(cut(&format!("  {command}"), self.w), Tone::Busy));
    }
}

pub(super) fn lines(model: &Model, key: &str, pen: Pen, w: usize) -> Vec<Line<'static>> {
    let mut page = Page { pen, w, out: Vec::new() };
    let (kind, id) = key.split_once(':').unwrap_or((key, ""));
    let health = model.health.as_ref();
    let there = match kind {
        "alert" => model.alerts.iter().find(|a| a.id == id).map(|a| alert(&mut page, model, a)),
        "remediation" => health
            .and_then(|h| h.waiting.iter().find(|r| r.id == id))
            .map(|r| remediation(&mut page, model, r)),
        "incident" => {
            // The list knows less of it than the incident itself does.
            let whole = model.incident.as_ref().filter(|i| i.id == id);
            let brief = health.and_then(|h| h.incidents.iter().find(|i| i.id == id));
            whole.or(brief).map(|i| incident(&mut page, model, i))
        }
        "breaker" => health
            .and_then(|h| h.breakers.iter().find(|b| b.entity.to_string() == id))
            .map(|b| breaker(&mut page, model, b)),
        _ => health
            .and_then(|h| h.findings.iter().find(|f| f.id == id))
            .map(|f| finding(&mut page, model, f)),
    };
    if there.is_none() {
        page.title(&format!("{kind} {id} is not open any more"), Tone::Good);
        page.text("Esc goes back; `muster events` shows what happened to it.");
    }
    page.out
}

/// What is left to do about the cause that something belongs to, as the server works it out from
/// the state: the on-call page shows the same.
fn to_do(page: &mut Page, model: &Model, is_of: impl Fn(&OpenCause) -> bool) {
    // Runbooks are about the whole site.
    if model.me.as_ref().is_some_and(|me| me.project.is_some()) {
        page.out.push(Line::default());
        return;
    }
    page.section("What to do");
    let Some(causes) = &model.causes else {
        let failed = model.causes_feed.failed.as_ref();
        let why = failed.map(|why| format!("it could not be read: {why}"));
        page.text(why.as_deref().unwrap_or("reading it"));
        return;
    };
    let Some(book) = causes.iter().find(|c| is_of(c)).and_then(|c| c.runbook.as_ref()) else {
        page.text("no runbook applies");
        return;
    };
    page.text(&match (book.step, &book.run) {
        (Some(no), Some(run)) => format!("Run {run}, at step {no}: {}", book.step_title),
        (Some(no), None) => format!("Step {no}: {}", book.step_title),
        (None, _) => book.step_title.clone(),
    });
    page.fact("Runbook", &book.name);
    page.command(&match &book.run {
        Some(run) => format!("muster runbook describe {run}"),
        None => format!("muster runbook show {}", book.name),
    });
}

/// Is an act to be offered? What somebody may not do is not.
fn operates(model: &Model) -> bool {
    model.me.as_ref().is_some_and(WhoAmI::operates)
}

fn evidence(page: &mut Page, f: &Finding) {
    let of = format!("{} {}: {} ({})", f.entity, f.severity.word(), f.kind, f.id);
    page.text(&of);
    for e in &f.evidence {
        page.text(&format!("- {e}"));
    }
}

fn incident(page: &mut Page, model: &Model, i: &Incident) {
    let now = model.now;
    page.title(&format!("Incident {}: {}", i.id, i.summary), tone(i.severity));
    page.fact("Kind", format!("{} ({})", i.kind, i.title));
    page.fact("Cause", i.cause.to_string());
    page.fact("Severity", i.severity.word());
    page.fact("Began", full(now, i.began_at));
    page.fact("Owner", i.owner.as_deref().unwrap_or("nobody"));
    page.fact("Closed", i.closed_at.map(|t| full(now, t)).unwrap_or_default());
    let count = i.count.max(i.findings.len() as u64);
    page.section(&format!("Evidence ({count} findings)"));
    if i.findings.is_empty() {
        page.text("reading it");
    }
    for f in &i.findings {
        evidence(page, f);
    }
    if !i.changes.is_empty() {
        page.section("Changed shortly before");
        for c in &i.changes {
            let before = length(i.began_at.0.since(c.at.0));
            page.text(&format!("{before} before: {} by {}", c.text, c.actor));
        }
    }
    if !i.notes.is_empty() {
        page.section("Notes");
        for n in &i.notes {
            page.text(&format!("{} {}: {}", relative(now, n.at), n.by, n.text));
        }
    }
    to_do(page, model, |c| c.incidents.iter().any(|x| x.id == i.id));
    if operates(model) && i.owner.is_none() && i.closed_at.is_none() {
        page.command(&format!("muster incident own {}", i.id));
    }
    page.command(&format!("muster incident record {}", i.id));
}

fn alert(page: &mut Page, model: &Model, a: &Alert) {
    let now = model.now;
    page.title(&format!("Alert {}: {}", a.id, a.summary), Tone::Warn);
    page.fact("Urgency", a.urgency.word());
    page.fact("Kind", format!("{} ({})", a.kind, a.topic.word()));
    page.fact("Cause", &a.cause);
    page.fact("Since", full(now, a.since));
    page.fact("Owner", &a.owner);
    page.fact("Project", a.project.as_deref().unwrap_or_default());
    page.fact("Silenced by", a.silenced.as_deref().unwrap_or_default());
    if let Some(k) = &a.acknowledged {
        page.fact("Acked by", format!("{} {}: {}", k.by, relative(now, k.at), k.note));
    }
    page.fact("Evidence", &a.evidence);
    if a.jobs > 0 {
        page.fact("Jobs", format!("{}, {} GPUs", a.jobs, a.gpus));
    }
    if !a.members.is_empty() {
        page.section(&format!("Affected ({})", a.count));
        page.text(&a.members.join(" "));
    }
    to_do(page, model, |c| c.alerts.iter().any(|x| x.id == a.id));
    let settled = a.acknowledged.is_some() || a.silenced.is_some() || a.resolved_at.is_some();
    if operates(model) && !settled {
        page.command(&format!("muster alerts ack {}", a.id));
    }
}

fn remediation(page: &mut Page, model: &Model, r: &Remediation) {
    let now = model.now;
    let on = r.gpu.map_or(r.node.clone(), |g| format!("{}/{g}", r.node));
    page.title(
        &format!("Remediation {} pending approval: {} on {on}", r.id, r.action_text),
        Tone::Warn,
    );
    page.fact("For", format!("{} (finding {})", r.kind, r.finding));
    page.fact("State", &r.state);
    page.fact("Why", &r.why);
    page.fact("Since", full(now, r.since));
    page.fact("Until", r.until.map(|t| full(now, t)).unwrap_or_default());
    to_do(page, model, |c| c.remediations.iter().any(|x| x.id == r.id));
    if operates(model) && r.waits() {
        page.section("Approve or deny");
        page.command(&format!("muster remediations approve {}", r.id));
        page.command(&format!("muster remediations deny {}", r.id));
    }
    page.command(&format!("muster describe node {}", r.node));
}

fn breaker(page: &mut Page, model: &Model, b: &Breaker) {
    let now = model.now;
    page.title(&format!("Breaker {} is {}", b.entity, b.state.word()), Tone::Warn);
    page.fact("Why", &b.reason);
    page.fact("Since", full(now, b.since));
    page.fact("Nodes", b.nodes.to_string());
    page.fact("Trips", b.trips.to_string());
    page.fact("Probe", b.probe.as_deref().unwrap_or_default());
    page.fact("Probe at", b.probe_at.map(|t| full(now, t)).unwrap_or_default());
    page.fact("Forced by", b.pinned.as_deref().unwrap_or_default());
    page.fact("Incident", b.because_of.as_deref().unwrap_or_default());
    to_do(page, model, |c| c.breakers.iter().any(|x| x.entity == b.entity));
    // Forced closed, it would never open again by itself. One that is half-open is being probed.
    let act = match (&b.pinned, b.state) {
        (Some(_), _) => format!("muster breakers release {}", b.entity),
        (None, BreakerState::Open) => {
            format!("muster breakers force {} half-open --reason WHY", b.entity)
        }
        (None, _) => return,
    };
    if operates(model) {
        page.command(&act);
    }
}

fn finding(page: &mut Page, model: &Model, f: &Finding) {
    let now = model.now;
    page.title(&format!("Finding {}: {} on {}", f.id, f.title, f.entity), tone(f.severity));
    page.fact("Kind", &f.kind);
    page.fact("Severity", f.severity.word());
    page.fact("First seen", full(now, f.first_seen));
    page.fact("Last seen", full(now, f.last_seen));
    page.fact("Seen", format!("{} times", f.count));
    page.fact("Job", f.job.map(|j| j.to_string()).unwrap_or_default());
    page.fact("Remediation", f.remediation.as_deref().unwrap_or_default());
    page.section("Evidence");
    for e in &f.evidence {
        page.text(e);
    }
    let (remediation, incident) = (f.remediation.as_deref(), f.incident.as_deref());
    to_do(page, model, |c| {
        c.findings.iter().any(|x| x.id == f.id)
            || c.remediations.iter().any(|r| remediation == Some(r.id.as_str()))
            || c.incidents.iter().any(|i| incident == Some(i.id.as_str()))
    });
    page.command(&format!("muster findings {}", f.id));
}

fn tone(s: muster_model::finding::Severity) -> Tone {
    crate::rows::severity(s)
}
