//! What happened to a job, in time order: its attempts, what was found, how it came back. Each record
//! of the log is reported at its own time and stays reported, whatever comes later. What the job
//! itself remembers fills in only what is older than the log that was read.

use super::JobContext;
use crate::cmd::events;
use muster_api::{Event, Job, Timestamp};
use muster_model::Event as LogEvent;
use muster_model::job::Verdict;
use muster_model::units::Span;
use muster_terminal::output::table::{Table, cell};
use muster_terminal::output::time::length;
use std::collections::{BTreeMap, BTreeSet};

/// One line of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    at: Timestamp,
    /// What comes first of what happened at the same moment: causes before effects.
    order: u8,
    what: &'static str,
    text: String,
}

/// The place of a record among what happened at the same moment; records keep their own order.
const RECORD: u8 = 5;

/// The whole timeline.
pub(super) fn of(job: &Job, beside: &JobContext) -> Vec<Line> {
    let words = job.past.iter().map(|p| (p.no, (p.verdict, p.attributed_to.clone())));
    let mut s = JobTimeline { words: words.collect(), ..JobTimeline::default() };
    s.remembered(job);
    // The log shows better what it was read for.
    s.lines.retain(|l| beside.since.is_none_or(|since| l.at < since));
    s.add(job.submitted_at, 0, "job", format!("submitted by {}", job.user));
    s.wrong(beside);
    for e in &beside.events {
        s.record(e);
    }
    s.lines.sort_by_key(|l| (l.at, l.order));
    s.lines
}

/// The names of nodes in a few characters.
fn hosts<'a>(nodes: impl Iterator<Item = &'a str>) -> String {
    muster_specs::hostlist::compress(nodes)
}

/// ` (finding 3, 4)`, unless the reason names them already.
fn cited(reason: &str, findings: &[String]) -> String {
    if findings.iter().all(|f| reason.contains(&format!("finding {f}"))) {
        return String::new();
    }
    format!(" (finding {})", findings.join(", "))
}

#[derive(Default)]
struct JobTimeline {
    lines: Vec<Line>,
    /// Nodes on which an attempt still has ranks.
    left: BTreeMap<u32, BTreeSet<String>>,
    /// When the last rank of the last attempt was gone: with it the job ended.
    gone: Option<Timestamp>,
    /// What ends are attributed to, in the words of the list of past attempts.
    words: BTreeMap<u32, (Verdict, String)>,
    /// Why attempts are being stopped, as it was reported last.
    stops: BTreeMap<u32, String>,
}

impl JobTimeline {
    /// What an end was attributed to by a record, in the same word as elsewhere.
    fn whose(&self, no: u32, verdict: Verdict) -> String {
        let known = self.words.get(&no).filter(|(v, _)| *v == verdict);
        known.map_or_else(|| verdict.word().to_owned(), |(_, word)| word.clone())
    }

    /// How a job ended, and how long after its end that was settled: the cause of a failure may
    /// have been looked for in between.
    fn settled(&self, word: &str, at: Timestamp) -> String {
        let late = self.gone.map_or(Span(0), |gone| at.0.since(gone.0));
        if late < Span::secs(1) {
            return word.to_owned();
        }
        format!("{word}, {} after its last rank was gone", length(late))
    }

    fn add(&mut self, at: Timestamp, order: u8, what: &'static str, text: String) {
        self.lines.push(Line { at, order, what, text });
    }

    /// One record, in the timeline's own words where it has any.
    fn record(&mut self, e: &Event) {
        // A newer server may report what is not known here.
        let Ok(reported) = muster_records::event(&e.kind, &e.data) else {
            return self.other(e);
        };
        let (what, text) = match reported {
            LogEvent::JobPlaced { key, placement } => {
                let nodes: BTreeSet<String> =
                    placement.slots.iter().map(|s| s.node.to_string()).collect();
                let text = hosts(nodes.iter().map(String::as_str));
                self.left.insert(key.attempt, nodes);
                self.gone = None;
                ("attempt", format!("attempt {} is placed on {text}", key.attempt))
            }
            LogEvent::AttemptStarted { key, .. } => {
                ("attempt", format!("attempt {} runs", key.attempt))
            }
            LogEvent::AttemptProgressed { key } => {
                ("attempt", format!("attempt {} made its first step", key.attempt))
            }
            LogEvent::NoticeGiven { key, reason, .. } => {
                ("attempt", format!("attempt {} will be stopped: {reason}", key.attempt))
            }
            LogEvent::StopOrdered { key, reason, .. } => {
                let reason = reason.to_string();
                // Another lost node moves only the moment from which the next attempt may start.
                if self.stops.get(&key.attempt) == Some(&reason) {
                    return;
                }
                self.stops.insert(key.attempt, reason.clone());
                ("attempt", format!("attempt {} is stopped: {reason}", key.attempt))
            }
            LogEvent::SlotEnded { key, node, ended_at, .. } => {
                let Some(left) = self.left.get_mut(&key.attempt) else { return };
                if !left.remove(node.as_str()) || !left.is_empty() {
                    return;
                }
                self.gone = Some(ended_at.map_or(e.at, Into::into));
                ("attempt", format!("the last rank of attempt {} is gone", key.attempt))
            }
            LogEvent::AttemptEnded { key, verdict, reason } => {
                let (no, whose) = (key.attempt, self.whose(key.attempt, verdict));
                ("verdict", format!("attempt {no} ended, {whose}: {reason}"))
            }
            LogEvent::AttemptAttributed { key, verdict: Verdict::Success, reason, .. } => {
                ("verdict", format!("attempt {} succeeded after all: {reason}", key.attempt))
            }
            LogEvent::AttemptAttributed { key, verdict, findings, reason } => {
                let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
                let (no, whose) = (key.attempt, self.whose(key.attempt, verdict));
                let why = cited(&reason, &findings);
                (
                    "verdict",
                    format!("the end of attempt {no} is attributed to {whose}: {reason}{why}"),
                )
            }
            // How its last attempt ended has a line of its own.
            LogEvent::JobRequeued { by: Some(by), .. } => {
                ("job", format!("queued again: requeued by {by}"))
            }
            LogEvent::JobRequeued { reason, .. } => ("job", format!("queued again: {reason}")),
            LogEvent::JobSucceeded { .. } => ("job", self.settled("succeeded", e.at)),
            LogEvent::JobFailed { reason, .. } => {
                ("job", format!("{}: {reason}", self.settled("failed", e.at)))
            }
            LogEvent::JobCancelled { reason, .. } => ("job", format!("cancelled: {reason}")),
            LogEvent::JobHeld { by, .. } => ("job", format!("held by {by}")),
            LogEvent::JobReleased { .. } => ("job", "released".to_owned()),
            LogEvent::JobUpdated(_) => ("job", format!("changed by {}", e.actor)),
            LogEvent::JobResized { nodes, .. } => {
                ("job", format!("has {nodes} nodes from its next attempt on"))
            }
            LogEvent::IdleWarned { idle, .. } => ("job", format!("warned: idle for {idle}")),
            LogEvent::ReservedStartDropped { reason, .. } => {
                ("job", format!("its reserved start is withdrawn: {reason}"))
            }
            LogEvent::NoticeWithdrawn { key, reason } => {
                ("attempt", format!("attempt {} continues after all: {reason}", key.attempt))
            }
            LogEvent::SlotLost { key, node } => {
                ("attempt", format!("attempt {} lost node {node}", key.attempt))
            }
            LogEvent::OrphanGone { key, node } => {
                ("attempt", format!("the last ranks of attempt {} left {node}", key.attempt))
            }
            LogEvent::CheckpointAsked { key } => {
                ("checkpoint", format!("attempt {} was asked for one", key.attempt))
            }
            LogEvent::CheckpointDone { checkpoint: c, .. } => {
                ("checkpoint", checkpoint(c.step, c.attempt))
            }
            // The job's own line, the lines of faults and findings, and one line for all ranks of
            // an attempt say it already; reserved starts are made anew every few seconds.
            LogEvent::JobSubmitted { .. }
            | LogEvent::FaultSeen { .. }
            | LogEvent::FindingOpened { .. }
            | LogEvent::FindingChanged { .. }
            | LogEvent::SlotStarted { .. }
            | LogEvent::StartReserved { .. } => return,
            _ => return self.other(e),
        };
        self.add(e.at, RECORD, what, text);
    }

    /// A record that the timeline has no words of its own for.
    fn other(&mut self, e: &Event) {
        let what = e.kind.replace('_', " ");
        self.add(e.at, RECORD, "event", format!("{what} {}", events::about(e)));
    }

    /// What the job remembers: the newest of everything.
    fn remembered(&mut self, job: &Job) {
        self.attempts(job);
        if let Some(r) = &job.recovery {
            self.add(
                r.decided_at,
                4,
                "recovery",
                format!("attempt {} is ordered to stop", r.attempt),
            );
            if let Some(at) = r.drained_at {
                self.add(at, 6, "recovery", "its last rank is gone".into());
            }
            if let Some(at) = r.working_at {
                self.add(at, 10, "recovery", "resumed".into());
            }
        }
        if let Some(c) = &job.checkpoint {
            self.add(c.at, 5, "checkpoint", checkpoint(c.step, c.attempt));
        }
        if let Some(at) = job.ended_at {
            let why = job.reason.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
            self.add(at, 11, "job", format!("{}{why}", job.state.word()));
        }
    }

    /// Attempts: where, when they ran, and whose doing their end was.
    fn attempts(&mut self, job: &Job) {
        for p in &job.past {
            self.begun(p.no, p.nodes.iter(), p.placed_at, p.started_at);
            let why = cited(&p.reason, &p.findings);
            let whose = &p.attributed_to;
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
        let nodes = hosts(nodes.map(String::as_str));
        self.add(placed, 8, "attempt", format!("attempt {no} is placed on {nodes}"));
        if let Some(at) = started {
            self.add(at, 9, "attempt", format!("attempt {no} runs"));
        }
    }

    /// Faults and findings.
    fn wrong(&mut self, beside: &JobContext) {
        for f in &beside.faults {
            let gpu = f.gpu.map(|g| format!(" GPU {g}")).unwrap_or_default();
            self.add(f.at, 2, "fault", format!("{} on {}{gpu}: {}", f.code, f.node, f.text));
        }
        for f in &beside.findings {
            let evidence = f.evidence.first().map(|e| format!(": {e}")).unwrap_or_default();
            let text = format!("{} on {} (finding {}){evidence}", f.kind, f.entity, f.id);
            self.add(f.opened_at, 3, "finding", text);
            if let (Some(at), Some(why)) = (f.closed_at, &f.closed_why) {
                self.add(at, 5, "finding", format!("finding {} was closed: {why}", f.id));
            }
        }
    }
}

fn checkpoint(step: Option<u64>, attempt: u32) -> String {
    let step = step.map(|s| format!(" at step {s}")).unwrap_or_default();
    format!("written{step} by attempt {attempt}")
}

/// The day on which it begins, in UTC.
pub(super) fn day(timeline: &[Line]) -> String {
    let first = timeline.first().map(|l| l.at.to_string()).unwrap_or_default();
    first.split('T').next().unwrap_or_default().to_owned()
}

/// The timeline as a table: clock times to the millisecond, since that is what an outage is about,
/// with the days since it began in front.
pub(super) fn table(timeline: &[Line]) -> Table {
    const DAY: i64 = 86_400_000;
    let mut t = Table::new(&["AT", "WHAT", "TEXT"]);
    let first = timeline.first().map_or(0, |l| l.at.0.0.div_euclid(DAY));
    for l in timeline {
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
    use muster_model::ids::{AttemptKey, JobId};
    use muster_model::job::{Checkpoint, JobState};
    use muster_model::units::Time;

    #[test]
    fn a_timeline_is_in_the_order_it_happened() {
        let mut job = muster_api::samples::job(42, JobState::Queued);
        job.past = vec![muster_api::job::PastAttempt {
            no: 1,
            nodes: vec!["hgx-01".into(), "hgx-02".into()],
            placed_at: Time(1000).into(),
            started_at: Some(Time(2000).into()),
            ended_at: Time(61_000).into(),
            stopped_at: None,
            verdict: Verdict::Infrastructure,
            attributed_to: "infrastructure".into(),
            reason: "node hgx-01 is unhealthy".into(),
            findings: vec!["12".into()],
        }];
        let beside = JobContext {
            findings: vec![muster_api::samples::finding(12)],
            faults: vec![faults::tests::fault("xid-79")],
            ..JobContext::default()
        };
        let timeline = of(&job, &beside);
        let words: Vec<&str> = timeline.iter().map(|l| l.what).collect();
        assert_eq!(words, ["job", "attempt", "attempt", "fault", "finding", "verdict"]);
        assert!(timeline.windows(2).all(|w| w[0].at <= w[1].at));
        let text = table(&timeline).render_for(Some(78), false);
        assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
        assert_eq!(day(&timeline), "1970-01-01");
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

    fn event(at: i64, reported: &LogEvent) -> Event {
        let json = serde_json::to_value(reported).unwrap();
        Event {
            seq: 1,
            at: Time(at).into(),
            kind: json["kind"].as_str().unwrap().into(),
            origin: muster_api::event::EventOrigin::Decision,
            project: None,
            actor: "system".into(),
            data: json["data"].clone(),
        }
    }

    fn lines(timeline: &[Line]) -> Vec<(i64, &str)> {
        timeline.iter().map(|l| (l.at.0.0, l.text.as_str())).collect()
    }

    #[test]
    fn a_timeline_only_grows_and_each_record_is_reported_at_its_own_time() {
        let (id, key) = (JobId(42), AttemptKey { job: JobId(42), attempt: 1 });
        let saved = |step, at| LogEvent::CheckpointDone {
            job: id,
            checkpoint: Checkpoint {
                attempt: 1,
                step: Some(step),
                path: None,
                bytes: None,
                blocked_ms: None,
                at: Time(at),
            },
        };
        let why = || "rank 0 exited with code 3 on n1".to_owned();
        let records = [
            (2_000, saved(4, 2_000)),
            (3_000, saved(8, 3_000)),
            (9_000, LogEvent::AttemptEnded { key, verdict: Verdict::Application, reason: why() }),
            (9_000, LogEvent::JobFailed { job: id, reason: why(), exit_code: 3 }),
            (
                51_000,
                LogEvent::AttemptAttributed {
                    key,
                    verdict: Verdict::Infrastructure,
                    findings: vec![633],
                    reason: "gpu-off-bus on n1".into(),
                },
            ),
            (
                60_000,
                LogEvent::JobRequeued {
                    job: id,
                    reason: format!("{}; then requeued by admin", why()),
                    not_before: Time(0),
                    by: Some("admin".into()),
                    unreported: Vec::new(),
                },
            ),
        ];
        // The job as it stands after each record, as far as a timeline would look at it.
        let mut job = muster_api::samples::job(42, JobState::Running);
        let mut beside = JobContext { since: Some(Time(0).into()), ..JobContext::default() };
        let mut before = of(&job, &beside);
        for (n, (at, reported)) in records.iter().enumerate() {
            beside.events.push(event(*at, reported));
            if n == 3 {
                job.state = JobState::Failed;
                job.ended_at = Some(Time(9_000).into());
                job.reason = Some(why());
            }
            if n == 5 {
                job.state = JobState::Queued;
                job.ended_at = None;
                job.reason = Some(format!("{}; then requeued by admin", why()));
            }
            let after = of(&job, &beside);
            assert_eq!(after[..before.len()], before, "what was reported stays reported");
            assert_eq!(after.len(), before.len() + 1);
            before = after;
        }
        assert_eq!(
            lines(&before)[1..],
            [
                (2_000, "written at step 4 by attempt 1"),
                (3_000, "written at step 8 by attempt 1"),
                (9_000, "attempt 1 ended, application: rank 0 exited with code 3 on n1"),
                (9_000, "failed: rank 0 exited with code 3 on n1"),
                (
                    51_000,
                    "the end of attempt 1 is attributed to infrastructure: gpu-off-bus on n1 \
                     (finding 633)"
                ),
                (60_000, "queued again: requeued by admin"),
            ]
        );
    }

    #[test]
    fn an_attempt_that_turns_out_to_be_whole_is_called_so() {
        let key = AttemptKey { job: JobId(42), attempt: 1 };
        let (verdict, findings) = (Verdict::Success, Vec::new());
        let reason = "every rank ended with code 0, which was reported late".to_owned();
        let whole = LogEvent::AttemptAttributed { key, verdict, findings, reason };
        let mut reported = JobTimeline::default();
        reported.record(&event(9_000, &whole));
        let text =
            "attempt 1 succeeded after all: every rank ended with code 0, which was reported late";
        assert_eq!(reported.lines[0].text, text);
    }

    #[test]
    fn an_end_that_is_settled_after_the_last_rank_says_how_long() {
        let ranks = BTreeMap::from([(1, BTreeSet::from(["n1".to_owned()]))]);
        let mut reported = JobTimeline { left: ranks, ..JobTimeline::default() };
        let key = AttemptKey { job: JobId(42), attempt: 1 };
        let (node, ended_at) = ("n1".parse().unwrap(), Some(Time(9_000)));
        let end = muster_model::job::SlotEnd::Ok;
        reported.record(&event(9_400, &LogEvent::SlotEnded { key, node, end, ended_at }));
        let reason = "rank 0 exited with code 3 on n1".to_owned();
        let failed = LogEvent::JobFailed { job: JobId(42), reason, exit_code: 3 };
        reported.record(&event(14_100, &failed));
        let words = "failed, 5s after its last rank was gone: rank 0 exited with code 3 on n1";
        assert_eq!(reported.lines.last().map(|l| l.text.as_str()), Some(words));
    }

    #[test]
    fn an_order_to_stop_that_only_repeats_its_reason_is_reported_once() {
        let key = AttemptKey { job: JobId(42), attempt: 1 };
        let order = |node: &str, until| LogEvent::StopOrdered {
            key,
            reason: muster_model::job::StopReason::NodeLost { node: node.parse().unwrap() },
            grace: Span::secs(30),
            fence_until: Some(Time(until)),
        };
        let mut reported = JobTimeline::default();
        for (at, until) in [(1_000, 90_000), (1_100, 90_000), (1_400, 91_000)] {
            reported.record(&event(at, &order("n1", until)));
        }
        assert_eq!(lines(&reported.lines), [(1_000, "attempt 1 is stopped: node n1 was lost")]);
        // Another reason is something new.
        reported.record(&event(2_000, &order("n2", 91_000)));
        assert_eq!(reported.lines.len(), 2);
    }

    #[test]
    fn no_record_of_a_job_is_reported_by_its_name_in_the_log() {
        let (job, key) = (JobId(42), AttemptKey { job: JobId(42), attempt: 1 });
        let reported = [
            LogEvent::ReservedStartDropped { job, reason: "node n1 was lost".into() },
            LogEvent::JobHeld { job, by: "user:ann".into(), held_by: None, decided: false },
            LogEvent::JobReleased { job, decided: false },
            LogEvent::JobResized { job, nodes: 4 },
            LogEvent::NoticeWithdrawn { key, reason: "others ended".into() },
            LogEvent::CheckpointAsked { key },
        ];
        let events = reported.iter().map(|t| event(1_000, t)).collect();
        let beside = JobContext { events, since: Some(Time(0).into()), ..JobContext::default() };
        let timeline = of(&muster_api::samples::job(42, JobState::Queued), &beside);
        let said: Vec<&str> = timeline[1..].iter().map(|l| l.text.as_str()).collect();
        assert_eq!(
            said,
            [
                "its reserved start is withdrawn: node n1 was lost",
                "held by user:ann",
                "released",
                "has 4 nodes from its next attempt on",
                "attempt 1 continues after all: others ended",
                "attempt 1 was asked for one",
            ]
        );
    }

    /// The first attempt of a job, which somebody stopped before it was up.
    fn stopped(attributed_to: &str, reason: &str) -> muster_api::job::PastAttempt {
        muster_api::job::PastAttempt {
            no: 1,
            nodes: vec!["n1".into()],
            placed_at: Time(1000).into(),
            started_at: None,
            ended_at: Time(5_000).into(),
            stopped_at: None,
            verdict: Verdict::Operator,
            attributed_to: attributed_to.into(),
            reason: reason.into(),
            findings: Vec::new(),
        }
    }

    #[test]
    fn what_is_older_than_the_log_that_was_read_is_reported_by_the_job() {
        let mut job = muster_api::samples::job(42, JobState::Queued);
        job.past = vec![stopped("operator", "requeued by ann")];
        let reason = "requeued by ann".to_owned();
        let (by, unreported) = (None, Vec::new());
        let again =
            LogEvent::JobRequeued { job: JobId(42), reason, not_before: Time(0), by, unreported };
        let events = vec![event(5_000, &again)];
        let beside =
            JobContext { events, since: Some(Time(5_000).into()), ..JobContext::default() };
        assert_eq!(
            lines(&of(&job, &beside))[1..],
            [(1_000, "attempt 1 is placed on n1"), (5_000, "queued again: requeued by ann")]
        );
    }

    #[test]
    fn an_end_has_one_word_in_the_list_of_attempts_and_in_the_timeline() {
        let mut job = muster_api::samples::job(42, JobState::Cancelled);
        let reason = "cancelled by user:bo";
        job.past = vec![stopped("user", reason)];
        let key = AttemptKey { job: JobId(42), attempt: 1 };
        let ended =
            LogEvent::AttemptEnded { key, verdict: Verdict::Operator, reason: reason.to_owned() };
        let events = vec![event(5_000, &ended)];
        let beside =
            JobContext { events, since: Some(Time(5_000).into()), ..JobContext::default() };
        let reported = of(&job, &beside);
        let last = lines(&reported).into_iter().find(|(at, _)| *at == 5_000);
        assert_eq!(last, Some((5_000, "attempt 1 ended, user: cancelled by user:bo")));
    }
}
