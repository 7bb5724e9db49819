//! Jobs: what runs, what waits and why, what just ended.

use super::fitted_text::{Pen, cut, fit, right, wrap};
use crate::model::Model;
use crate::rows::{self, window};
use muster_api::Job;
use muster_model::job::JobState;
use muster_model::spec::GpuPart;
use muster_terminal::jobs;
use muster_terminal::output::colour::{self, Style as Tone};
use muster_terminal::output::{self, time};
use ratatui::style::Modifier;
use ratatui::text::Line;

/// Rows of the list that are no jobs: sums, headings, and what is said of the chosen one.
const BESIDE: usize = 5;

pub(super) fn lines(model: &Model, pen: Pen, w: usize, rows: usize) -> Vec<Line<'static>> {
    if model.jobs_feed.read_at.is_none() {
        return vec![pen.line("reading the jobs", Tone::Faint)];
    }
    let all = rows::jobs(model);
    let mut out = vec![sums(model, &all, pen, w), head(pen, w)];
    if all.is_empty() {
        let none = "no job runs, waits or ended in the last hour; `muster ps -a` shows older ones";
        out.push(pen.line(cut(none, w), Tone::Faint));
        return out;
    }
    let at = model.cursors[1].at(all.iter().map(|j| j.id.as_str()));
    let room = rows.saturating_sub(BESIDE).max(1);
    for i in window(at, all.len(), room) {
        let mut line = row(model, all[i], pen, w);
        if i == at {
            line.style = line.style.add_modifier(Modifier::REVERSED);
            // The mark is there without colours, too.
            line.spans[0] = pen.put(">", Tone::Bold);
        }
        out.push(line);
    }
    out.resize(rows.saturating_sub(BESIDE - 2), Line::default());
    out.extend(chosen(model, all[at], pen, w));
    out
}

fn sums(model: &Model, all: &[&Job], pen: Pen, w: usize) -> Line<'static> {
    let of = |p: &dyn Fn(&Job) -> bool| {
        let some: Vec<&&Job> = all.iter().filter(|j| p(j)).collect();
        (some.len(), output::gpus(some.iter().map(|j| j.gpu_milli()).sum()))
    };
    let (runs, held) = of(&|j| !j.state.is_final() && j.state != JobState::Queued);
    let (waits, wanted) = of(&|j| j.state == JobState::Queued);
    let (failed, _) = of(&|j| j.state == JobState::Failed);
    let mut text = format!("{runs} run on {held} GPUs, {waits} wait for {wanted}");
    if failed > 0 {
        text.push_str(&format!(", {failed} failed in the last hour"));
    }
    if model.jobs.more {
        text.push_str("; there are more than are shown");
    }
    pen.line(cut(&text, w), Tone::Bold)
}

/// Columns that are shown at this width: project and user give way first.
fn columns(w: usize) -> [usize; 8] {
    // id, name, project, user, state, gang, time; the reason takes the rest
    let mut c = match w {
        0..60 => [6, 10, 0, 0, 8, 0, 5, 0],
        60..100 => [6, 13, 0, 8, 9, 7, 6, 0],
        100..130 => [7, 18, 10, 10, 9, 8, 7, 0],
        _ => [8, 24, 14, 14, 9, 8, 8, 0],
    };
    let used: usize = c.iter().filter(|n| **n > 0).map(|n| n + 1).sum();
    c[7] = w.saturating_sub(used + 1);
    c
}

fn head(pen: Pen, w: usize) -> Line<'static> {
    let c = columns(w);
    let names = ["ID", "NAME", "PROJECT", "USER", "STATE", "NODESxGPU", "TIME", "WHY OR WHERE"];
    let mut text = " ".to_owned();
    for (n, (name, width)) in names.iter().zip(c).enumerate().filter(|(_, (_, w))| *w > 0) {
        let name = if *name == "NODESxGPU" { "GANG" } else { name };
        text.push_str(&if matches!(n, 5 | 6) { right(name, width) } else { fit(name, width) });
        text.push(' ');
    }
    pen.line(cut(text.trim_end(), w), Tone::Faint)
}

fn row(model: &Model, job: &Job, pen: Pen, w: usize) -> Line<'static> {
    let c = columns(w);
    let word = rows::job_state_label(job);
    let user = job.user.strip_prefix("user:").unwrap_or(&job.user);
    let age = match job.state {
        JobState::Queued => Some(model.now.since(job.submitted_at.0)),
        _ => jobs::ran(job, model.now),
    };
    let gang = match &job.groups[..] {
        [g] => match &g.part {
            Some(GpuPart::Milli(m)) => format!("{}x{}", job.nodes(), output::gpus(u64::from(*m))),
            Some(GpuPart::Mig(profile)) => profile.clone(),
            None => format!("{}x{}", job.nodes(), g.gpus),
        },
        _ => format!("{} GPU", job.gpus()),
    };
    let age = age.map(time::short).unwrap_or_default();
    let cells = [
        job.id.clone(),
        job.name.clone(),
        job.project.clone(),
        user.to_owned(),
        word.to_owned(),
        gang,
        age,
        why(model, job),
    ];
    let mut spans = vec![pen.put(" ", Tone::Plain)];
    for (n, (text, width)) in cells.iter().zip(c).enumerate().filter(|(_, (_, w))| *w > 0) {
        let text = if matches!(n, 5 | 6) { right(text, width) } else { fit(text, width) };
        let tone = if n == 4 { colour::of_state(word) } else { Tone::Plain };
        spans.push(pen.put(text, tone));
        spans.push(" ".into());
    }
    Line::from(spans)
}

/// Why it waits or ended; where it runs.
fn why(model: &Model, job: &Job) -> String {
    if job.state == JobState::Queued && job.held.is_none() && job.reserved_start.is_none() {
        if let Some(known) = model.whys.get(&job.number) {
            return match known.start.filter(|t| t.0 > model.now) {
                Some(at) => {
                    format!("expected {} {}", time::clock(model.now, at, &model.zone), known.text)
                }
                None => known.text.clone(),
            };
        }
        // Which command says more is for a list; here it is asked for.
        if job.attempts == 0 {
            let said = job.waiting.as_deref().unwrap_or("waits for free capacity");
            return said.split("; `muster explain").next().unwrap_or(said).to_owned();
        }
    }
    jobs::reason(job, model.now, &model.zone)
}

/// The chosen job's reason at full length.
fn chosen(model: &Model, job: &Job, pen: Pen, w: usize) -> Vec<Line<'static>> {
    let mut text = format!("{} {}: {}", job.id, job.name, why(model, job));
    if let Some(p) = job.reserved_start.as_ref().filter(|_| job.state == JobState::Queued) {
        if let Some(known) = model.whys.get(&job.number) {
            text.push_str(&format!("; {}", known.text));
        }
        if let Some(moved) = &p.moved {
            text.push_str(&format!("; later than reserved before: {moved}"));
        }
    }
    let mut lines = wrap(&text, w, 2);
    if lines.len() > BESIDE - 2 {
        lines.truncate(BESIDE - 2);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last} …"), w);
        }
    }
    lines.into_iter().map(|l| pen.line(l, Tone::Plain)).collect()
}
