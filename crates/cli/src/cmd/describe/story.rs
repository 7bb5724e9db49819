//! What happened to a job, in time order: its attempts, what was found, how it came back.

use super::Beside;
use crate::cmd::events;
use muster_api::{Job, Timestamp};
use muster_terminal::output::table::{Table, cell};
use std::collections::BTreeSet;

/// One line of a story.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    at: Timestamp,
    /// What comes first of what happened at the same moment: causes before effects.
    order: u8,
    what: &'static str,
    text: String,
}

/// Events that the story tells in its own words, or that nobody needs to read.
const TOLD: [&str; 17] = [
    "job_submitted",
    "job_placed",
    "job_promised",
    "job_requeued",
    "attempt_started",
    "attempt_ended",
    "attempt_attributed",
    "attempt_progressed",
    "slot_started",
    "slot_ended",
    "stop_ordered",
    "job_succeeded",
    "job_failed",
    "job_cancelled",
    "fault_seen",
    "finding_opened",
    "finding_changed",
];

/// The whole story.
pub(super) fn of(job: &Job, beside: &Beside) -> Vec<Line> {
    let mut s = Story::default();
    s.add(job.submitted_at, 0, "job", format!("submitted by {}", job.user));
    s.attempts(job);
    s.wrong(beside);
    if let Some(r) = &job.recovery {
        s.add(r.fault_at, 1, "recovery", format!("attempt {} was hit", r.attempt));
        s.add(r.decided_at, 4, "recovery", format!("attempt {} is ordered to stop", r.attempt));
        if let Some(at) = r.drained_at {
            s.add(at, 6, "recovery", "its last rank is gone".into());
        }
        if let Some(at) = r.working_at {
            s.add(at, 10, "recovery", "it works again".into());
        }
    }
    if let Some(c) = &job.checkpoint {
        let step = c.step.map(|s| format!(" at step {s}")).unwrap_or_default();
        s.add(c.at, 5, "checkpoint", format!("written{step} by attempt {}", c.attempt));
    }
    if let Some(at) = job.ended_at {
        let why = job.reason.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
        s.add(at, 11, "job", format!("{}{why}", job.state.word()));
    }
    for e in beside.events.iter().filter(|e| !TOLD.contains(&e.kind.as_str())) {
        s.add(e.at, 5, "event", format!("{} {}", e.kind, events::about(e)));
    }
    s.0.into_iter().collect()
}

#[derive(Default)]
struct Story(BTreeSet<Line>);

impl Story {
    fn add(&mut self, at: Timestamp, order: u8, what: &'static str, text: String) {
        self.0.insert(Line { at, order, what, text });
    }

    /// Attempts: where, when they ran, and whose doing their end was.
    fn attempts(&mut self, job: &Job) {
        for p in &job.past {
            self.begun(p.no, p.nodes.iter(), p.placed_at, p.started_at);
            // A reason that names its finding need not do so twice.
            let cited = p.findings.iter().all(|f| p.reason.contains(&format!("finding {f}")));
            let why =
                if cited { String::new() } else { format!(" (finding {})", p.findings.join(", ")) };
            let whose = p.verdict.word_for(&p.reason, &job.user);
            let text = format!("attempt {} ended, {whose}: {}{why}", p.no, p.reason);
            self.add(p.ended_at, 7, "verdict", text);
        }
        if let Some(a) = &job.attempt {
            self.begun(a.no, a.slots.iter().map(|s| &s.node), a.placed_at, a.started_at);
            if let Some(s) = &a.stop {
                let text = format!("attempt {} is stopped: {}", a.no, s.message);
                self.add(s.at, 4, "attempt", text);
            }
            if let Some(n) = &a.notice {
                let text = format!("attempt {} will be stopped: {}", a.no, n.message);
                self.add(n.at, 4, "attempt", text);
            }
        }
    }

    fn begun<'a>(
        &mut self,
        no: u32,
        nodes: impl Iterator<Item = &'a String>,
        placed: Timestamp,
        started: Option<Timestamp>,
    ) {
        let nodes: Vec<&str> = nodes.map(String::as_str).collect();
        let nodes = muster_specs::hostlist::compress(nodes);
        self.add(placed, 8, "attempt", format!("attempt {no} is placed on {nodes}"));
        if let Some(at) = started {
            self.add(at, 9, "attempt", format!("attempt {no} runs"));
        }
    }

    /// Faults and findings.
    fn wrong(&mut self, beside: &Beside) {
        for f in &beside.faults {
            let gpu = f.gpu.map(|g| format!(" GPU {g}")).unwrap_or_default();
            self.add(f.at, 2, "fault", format!("{} on {}{gpu}: {}", f.code, f.node, f.text));
        }
        for f in &beside.findings {
            let evidence = f.evidence.first().map(|e| format!(": {e}")).unwrap_or_default();
            let text = format!("{} on {} (finding {}){evidence}", f.kind, f.entity, f.id);
            self.add(f.opened_at, 3, "finding", text);
            if let (Some(at), Some(why)) = (f.closed_at, &f.closed_why) {
                self.add(at, 5, "finding", format!("finding {} is over: {why}", f.id));
            }
        }
    }
}

/// The day on which it begins, in UTC.
pub(super) fn day(story: &[Line]) -> String {
    let first = story.first().map(|l| l.at.to_string()).unwrap_or_default();
    first.split('T').next().unwrap_or_default().to_owned()
}

/// The story as a table: clock times to the millisecond, since that is what an outage is about,
/// with the days since it began in front.
pub(super) fn table(story: &[Line]) -> Table {
    const DAY: i64 = 86_400_000;
    let mut t = Table::new(&["AT", "WHAT", "TEXT"]);
    let first = story.first().map_or(0, |l| l.at.0.0.div_euclid(DAY));
    for l in story {
        let text = l.at.to_string();
        let clock = text.split('T').nth(1).unwrap_or(&text).trim_end_matches('Z');
        let at = match l.at.0.0.div_euclid(DAY) - first {
            0 => clock.to_owned(),
            days => format!("+{days}d {clock}"),
        };
        t.row(vec![cell(at), cell(l.what), cell(&l.text)]);
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::faults;
    use muster_model::job::{JobState, Verdict};
    use muster_model::units::Time;

    #[test]
    fn a_story_is_told_in_the_order_it_happened() {
        let mut job = muster_api::samples::job(42, JobState::Queued);
        job.past = vec![muster_api::job::PastAttempt {
            no: 1,
            nodes: vec!["hgx-01".into(), "hgx-02".into()],
            placed_at: Time(1000).into(),
            started_at: Some(Time(2000).into()),
            ended_at: Time(61_000).into(),
            verdict: Verdict::Infrastructure,
            reason: "node hgx-01 is sick".into(),
            findings: vec!["12".into()],
        }];
        let beside = Beside {
            findings: vec![muster_api::samples::finding(12)],
            faults: vec![faults::tests::fault("xid-79")],
            ..Beside::default()
        };
        let story = of(&job, &beside);
        let words: Vec<&str> = story.iter().map(|l| l.what).collect();
        assert_eq!(words, ["job", "attempt", "attempt", "fault", "finding", "verdict"]);
        assert!(story.windows(2).all(|w| w[0].at <= w[1].at));
        let text = table(&story).render_for(Some(78), false);
        assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
        assert_eq!(day(&story), "1970-01-01");
        assert!(text.contains("00:00:00.000  job      submitted by"), "{text}");
        assert!(
            text.contains("00:00:01.000  attempt  attempt 1 is placed on hgx-[01-02]"),
            "{text}"
        );
        assert!(text.contains("attempt 1 ended, infrastructure: node hgx-01 is"), "{text}");
        job.ended_at = Some(Time(2 * 86_400_000 + 5).into());
        let text = table(&of(&job, &beside)).render_for(None, false);
        assert!(text.contains("\n+2d 00:00:00.005  job"), "{text}");
    }
}
