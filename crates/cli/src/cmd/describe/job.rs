//! A job for people.

use super::{JobContext, timeline};
use muster_api::job::{ArrayItem, PastAttempt};
use muster_api::{Job, JobArray, Recovery};
use muster_model::job::{Basis, JobState, past_reason};
use muster_model::placement::AllocatedPart;
use muster_model::spec::GpuPart;
use muster_model::units::Time;
use muster_terminal::jobs::{self, Fence};
use muster_terminal::output::facts::Facts;
use muster_terminal::output::table::{Table, cell, number, state};
use muster_terminal::output::time::{full, relative};
use std::collections::{BTreeMap, BTreeSet};

/// Tasks of an array that are listed; of more the counts say enough.
const TASKS_SHOWN: usize = 100;

/// An array in short: how many of its tasks stand where, and each of them. Those whose ids are in `held`
/// are held as long as they are queued.
pub(super) fn array_text(array: &JobArray, held: &BTreeSet<String>, on: bool) -> String {
    let word = |task: &ArrayItem| match task.state {
        JobState::Queued if held.contains(&task.id) => "held",
        other => other.word(),
    };
    let mut counts: BTreeMap<(JobState, &str), usize> = BTreeMap::new();
    for task in &array.items {
        *counts.entry((task.state, word(task))).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|((_, s), n)| format!("{n} {s}")).collect();
    let mut f = Facts::new();
    f.line("Array", format!("{} ({})", array.id, array.name));
    f.line("Tasks", format!("{}: {}", array.count, counts.join(", ")));
    if let Some(first) = array.items.first() {
        f.line("One task", format!("muster describe job {}", first.id));
    }
    f.section("Tasks", on);
    let mut t = Table::new(&["TASK", "STATE"]);
    for task in array.items.iter().take(TASKS_SHOWN) {
        t.row(vec![cell(&task.id), state(word(task))]);
    }
    f.table(&t, on);
    let rest = array.items.len().saturating_sub(TASKS_SHOWN);
    if rest > 0 {
        f.0.push_str(&format!("  and {rest} more\n"));
    }
    f.0
}

pub(super) fn text(job: &Job, beside: &JobContext, now: Time, on: bool) -> String {
    let mut f = Facts::new();
    f.line("Job", format!("{} ({})", job.id, job.name));
    f.line("State", muster_terminal::jobs::job_state_label(job));
    // Why it is as it is now. What it waited for before, or was queued again for, is past.
    let (queued, over) = (job.state == JobState::Queued, job.state.is_final());
    let stop = job.attempt.as_ref().and_then(|a| a.stop.as_ref()).filter(|_| !over);
    let reason = match stop {
        Some(stop) => Some(stop.message.as_str()),
        None => job.reason.as_deref().filter(|_| over),
    };
    f.line("Reason", reason.unwrap_or_default());
    match job.reason.as_deref().filter(|_| queued) {
        Some(why) if job.attempts > 0 => {
            f.line("Last attempt", format!("ended: {}", past_reason(why)));
        }
        // It was cancelled before it ever ran.
        Some(why) => f.line("Queued again", why),
        None => {}
    }
    if let Some(fence) = jobs::fence(job, now) {
        f.line(if fence.ends { "Ends" } else { "Next attempt" }, opens(&fence, now));
    }
    f.line("Hint", job.hint().unwrap_or_default());
    f.line("Waiting", job.waiting.as_deref().filter(|_| queued).unwrap_or_default());
    f.line("Held by", job.held.as_deref().filter(|_| !over).unwrap_or_default());
    if let Some(p) = job.reserved_start.as_ref().filter(|_| queued) {
        let nodes: Vec<&str> = p.nodes.iter().map(String::as_str).collect();
        f.line(
            "Starts by",
            format!("{} on {}", full(now, p.at), muster_specs::hostlist::compress(nodes)),
        );
        f.line("Basis", format!("{}; reserved {}", basis(p.basis), relative(now, p.since)));
        f.line("Moved", p.moved.as_deref().unwrap_or_default());
    }
    // One that is held does not start then.
    let not_before = job.not_before.filter(|t| t.0 > now && job.held.is_none());
    f.line("Not before", not_before.map(|t| full(now, t)).unwrap_or_default());
    f.line("Project", &job.project);
    f.line("User", &job.user);
    f.line("Exit code", job.exit_code.map(|c| c.to_string()).unwrap_or_default());
    f.line("Priority", format!("{:?}", job.spec.priority).to_lowercase());
    if let Some(e) = job.spec.elastic {
        let size = job.size.map_or(job.nodes(), u64::from);
        f.line("Elastic", format!("{} to {} nodes; {size} requested", e.min_nodes, e.max_nodes));
    }
    if job.preemptions > 0 {
        let times =
            if job.preemptions == 1 { "once".into() } else { format!("{} times", job.preemptions) };
        f.line("Preempted", times);
    }
    f.line(
        "Idle",
        job.idle_warned
            .map(|t| format!("its GPUs do nothing; warned {}", relative(now, t)))
            .unwrap_or_default(),
    );
    f.line("Time limit", job.spec.time_limit.map(|t| t.to_string()).unwrap_or_default());
    // One that is on its way to its end does not start again.
    let ends =
        over || stop.is_some_and(|s| s.reason.ends_job(&job.spec, job.infrastructure_failures));
    let loss = jobs::after_loss(&job.spec).filter(|_| !ends);
    f.line("After a loss", loss.unwrap_or_default());
    f.line("Submitted", full(now, job.submitted_at));
    f.line("Started", job.started_at.map(|t| full(now, t)).unwrap_or_default());
    f.line("Ended", job.ended_at.map(|t| full(now, t)).unwrap_or_default());
    if let Some(p) = &job.progress {
        let loss = p.loss.map(|l| format!(", loss {l}")).unwrap_or_default();
        f.line("Progress", format!("step {}{loss} ({})", p.step, relative(now, p.at)));
    }
    if let Some(c) = &job.checkpoint {
        let step = c.step.map(|s| format!("step {s}")).unwrap_or_else(|| "written".into());
        let path = c.path.as_deref().map(|p| format!(" at {p}")).unwrap_or_default();
        f.line("Checkpoint", format!("{step}{path} ({})", relative(now, c.at)));
    }
    f.line(
        "Asked",
        job.checkpoint_asked
            .map(|t| format!("for a checkpoint {}", relative(now, t)))
            .unwrap_or_default(),
    );
    if let Some(r) = beside.report.as_ref().filter(|_| job.attempts > 0) {
        let (shares, parts) = crate::cmd::report::job::brief(r);
        f.line("Goodput", shares);
        f.line("Time", parts);
    }
    let tags: Vec<String> = job.spec.tags.iter().map(|(k, v)| format!("{k}={v}")).collect();
    f.line("Tags", tags.join(" "));

    f.section("Gang", on);
    // What follows the nodes is what each of them gives.
    let each = ["GROUP", "NODES", "GPUS/NODE", "RANKS/NODE", "CPUS/NODE", "MEMORY/NODE", "SKU"];
    let mut t = Table::new(&each);
    for g in job.groups.iter() {
        t.row(vec![
            cell(&g.name),
            number(g.nodes),
            number(match &g.part {
                None => g.gpus.to_string(),
                Some(GpuPart::Milli(m)) => muster_terminal::output::gpus(u64::from(*m)),
                Some(GpuPart::Mig(profile)) => profile.clone(),
            }),
            number(g.ranks),
            number(g.cpus),
            number(if g.memory.0 == 0 { String::new() } else { g.memory.to_string() }),
            cell(g.sku.as_deref().unwrap_or_default()),
        ]);
    }
    f.table(&t, on);

    if let Some(a) = &job.attempt {
        f.section(&format!("Attempt {} ({}, {})", a.no, a.level, a.domain), on);
        f.line("  Fabric", a.fabric_shown().unwrap_or_default());
        f.line("  Power cap", a.cap_watts.map(|w| format!("{w} W a GPU")).unwrap_or_default());
        if let Some(p) = &a.preflight {
            let (since, until) = (full(now, p.since), full(now, p.until));
            f.line(
                "  Preflight",
                match a.in_preflight() {
                    Some(_) => format!("{} since {since}, until {until}", p.message),
                    None => format!("{} (began {since})", p.message),
                },
            );
        }
        let mut t = Table::new(&["NODE", "RANKS", "GPUS", "STATE"]);
        for s in &a.slots {
            let (first, last) = (s.first_rank, s.first_rank + s.ranks.saturating_sub(1));
            let ranks = if first == last { first.to_string() } else { format!("{first}-{last}") };
            let gpus: Vec<String> = s.gpus.iter().map(ToString::to_string).collect();
            t.row(vec![
                cell(&s.node),
                cell(ranks),
                cell(match &s.part {
                    None => gpus.join(","),
                    Some(AllocatedPart::Milli(m)) => {
                        format!(
                            "{} of GPU {}",
                            muster_terminal::output::gpus(u64::from(*m)),
                            gpus.join(",")
                        )
                    }
                    Some(AllocatedPart::Mig { profile, .. }) => {
                        format!("{profile} of GPU {}", gpus.join(","))
                    }
                }),
                state(&s.state),
            ]);
        }
        f.table(&t, on);
        if let Some(n) = &a.notice {
            let until = full(now, n.until);
            f.0.push_str(&format!(
                "  will be stopped after its next checkpoint, or at {until}: {}\n",
                n.message
            ));
        }
        if let Some(stop) = &a.stop {
            f.0.push_str(&format!(
                "  stopping since {}: {}\n",
                relative(now, stop.at),
                stop.message
            ));
        }
        if a.is_ending() {
            f.text("its ranks have all ended: nothing is allocated to it any more");
        }
    }
    if !job.past.is_empty() {
        f.section("Past attempts", on);
        // What is known of no attempt takes no room.
        let found = job.past.iter().any(|p| !p.findings.is_empty());
        let mut head = vec!["NO", "ENDED", "RAN", "EXIT CAUSE", "NODES", "WHY"];
        if found {
            head.insert(5, "FINDINGS");
        }
        let mut t = Table::new(&head);
        for p in &job.past {
            let nodes: Vec<&str> = p.nodes.iter().map(String::as_str).collect();
            let mut row = vec![
                number(p.no),
                cell(relative(now, p.ended_at)),
                cell(ran(p)),
                cell(&p.attributed_to),
                cell(muster_specs::hostlist::compress(nodes)),
                cell(&p.reason),
            ];
            if found {
                row.insert(5, cell(p.findings.join(",")));
            }
            t.row(row);
        }
        f.table(&t, on);
    }
    // What was the job's own doing is no recovery.
    let is_interruption = |r: &&Recovery| {
        let attempt = job.past.iter().find(|p| p.no == r.attempt);
        attempt.is_none_or(|p| p.verdict.is_interruption())
    };
    if let Some(r) = job.recovery.as_ref().filter(is_interruption) {
        let held = job.state == JobState::Queued && job.held.is_some();
        let waiting = job.waiting.as_deref().filter(|_| queued);
        recovery(&mut f, r, (over, held), waiting, on);
    }
    if !beside.findings.is_empty() {
        f.section("Findings", on);
        f.table(&crate::cmd::findings::table(&beside.findings, now, true), on);
    }
    if !beside.faults.is_empty() {
        f.section("Faults", on);
        f.table(&crate::cmd::faults::table(&beside.faults, now, true), on);
    }
    let timeline = timeline::of(job, beside);
    if !timeline.is_empty() {
        f.section(&format!("Timeline, from {} (UTC)", timeline::day(&timeline)), on);
        f.table(&timeline::table(&timeline), on);
        if beside.since.is_none_or(|since| since > job.submitted_at) {
            f.text(&format!(
                "not everything is shown here; more: muster events --job {}",
                job.number
            ));
        }
    }
    f.0
}

/// How long all ranks of an attempt were up.
fn ran(p: &PastAttempt) -> String {
    jobs::up_for(p).unwrap_or_else(|| "never".into())
}

/// When the next attempt of a job starts that lost a node, or when the job is over.
fn opens(fence: &Fence, now: Time) -> String {
    let nodes = &fence.nodes;
    match fence.until {
        Some(until) => {
            let until = full(now, until);
            let least = if fence.ends { "" } else { " at the earliest" };
            format!("{until}{least}, when its ranks on {nodes} have certainly stopped")
        }
        None => format!("when {nodes} connects again or is retired: its ranks there may still run"),
    }
}

/// Seconds with two decimals.
fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1000, ms % 1000 / 10)
}

/// How it came back, and where the time went. What a job waits for is said in the words of its first
/// lines.
fn recovery(
    f: &mut Facts,
    r: &Recovery,
    (over, held): (bool, bool),
    waiting: Option<&str>,
    on: bool,
) {
    f.section(&format!("Recovery of attempt {}", r.attempt), on);
    f.line("  Whole", seconds(r.total_ms));
    let parts: Vec<String> =
        r.parts().into_iter().map(|(name, ms)| format!("{name} {}", seconds(ms))).collect();
    f.line("  Split", parts.join(", "));
    if let Some(ms) = r.held_ms {
        f.line("  Held", format!("{}, by a person; not in the whole", seconds(ms)));
    }
    let waits = match (r.drained_at, r.placed_at, r.started_at, r.working_at) {
        // Nothing of a job that has ended waits.
        (_, _, Some(_), None) if over => "ended before it reported a step",
        (.., None) if over => "ended before it resumed",
        (None, ..) => "its ranks are leaving",
        (_, None, ..) if held => "is held",
        (_, None, ..) => waiting.unwrap_or("waits for its nodes"),
        (_, _, None, _) => "its ranks are starting",
        (_, _, _, None) => "has not reported a step yet",
        _ => "",
    };
    f.line("  Now", waits);
    f.line("  Finding", r.finding.as_deref().unwrap_or_default());
}

/// What a reserved start rests on, in words. A job does not say whether somebody is being stopped
/// for it still: `muster explain` does.
fn basis(b: Basis) -> &'static str {
    match b {
        Basis::Limits => "the time limits of what runs there",
        Basis::Preemption => "nodes that are being preempted",
        Basis::Swap => "healthy nodes it had, and replacements for those that failed",
        Basis::Resize => "its new size",
        Basis::Move => "its move to other nodes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use muster_model::job::Verdict;
    use muster_model::spec::OnPartition;
    use muster_model::units::Span;

    #[test]
    fn a_job_is_described_with_its_attempts_and_why_each_ended() {
        let mut job = muster_api::samples::job(42, JobState::Queued);
        job.waiting = Some("waits for 2 nodes".into());
        job.attempts = 1;
        job.past = vec![muster_api::job::PastAttempt {
            no: 1,
            nodes: vec!["hgx-01".into(), "hgx-02".into()],
            placed_at: Time(0).into(),
            started_at: Some(Time(1000).into()),
            ended_at: Time(61_000).into(),
            stopped_at: None,
            verdict: Verdict::Infrastructure,
            attributed_to: "infrastructure".into(),
            reason: "node hgx-01 was lost".into(),
            findings: vec!["7".into()],
        }];
        let text = text(&job, &JobContext::default(), Time(121_000), false);
        for part in [
            "Job:          42 (train)",
            "State:        queued",
            "Waiting:      waits for 2 nodes",
            "Submitted:    1970-01-01T00:00:00Z (2m ago)",
            "infrastructure  hgx-[01-02]  7         node hgx-01 was lost",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains("Exit code"), "what is not known is not shown:\n{text}");
        for absent in ["Starts by", "Preempted", "Elastic", "Idle"] {
            assert!(!text.contains(absent), "{absent} in\n{text}");
        }
    }

    #[test]
    fn what_exited_before_it_was_heard_to_be_up_did_run() {
        let mut p = PastAttempt {
            no: 1,
            nodes: vec!["hgx-01".into()],
            placed_at: Time(0).into(),
            started_at: None,
            ended_at: Time(400).into(),
            stopped_at: None,
            verdict: Verdict::Application,
            attributed_to: "application".into(),
            reason: "rank 0 exited with code 3 on hgx-01".into(),
            findings: vec![],
        };
        assert_eq!(ran(&p), "<1s");
        p.ended_at = Time(5_000).into();
        assert_eq!(ran(&p), "<5s");
        p.started_at = Some(Time(1_000).into());
        assert_eq!(ran(&p), "4s");
        p.stopped_at = Some(Time(3_000).into());
        assert_eq!(ran(&p), "2s", "until its lost node was last heard");
        p.stopped_at = None;
        (p.started_at, p.reason) = (None, "cancelled by user:alice".into());
        assert_eq!(ran(&p), "never");
    }

    #[test]
    fn a_failed_job_that_is_excused_may_be_run_again_by_its_user() {
        let mut job = muster_api::samples::job(42, JobState::Failed);
        job.reason = Some("rank 0 exited with code 3 on hgx-01".into());
        job.past = vec![muster_api::job::PastAttempt {
            no: 1,
            nodes: vec!["hgx-01".into()],
            placed_at: Time(0).into(),
            started_at: Some(Time(1000).into()),
            ended_at: Time(61_000).into(),
            stopped_at: None,
            verdict: Verdict::Application,
            attributed_to: "application".into(),
            reason: "rank 0 exited with code 3 on hgx-01".into(),
            findings: Vec::new(),
        }];
        let shown = |job: &Job| text(job, &JobContext::default(), Time(121_000), false);
        assert!(!shown(&job).contains("Hint"), "{}", shown(&job));
        job.past[0].verdict = Verdict::Infrastructure;
        let hint = "Hint:         attributed to infrastructure: `muster requeue 42` runs it again";
        assert!(shown(&job).contains(hint), "{}", shown(&job));
        job.state = JobState::Queued;
        assert!(!shown(&job).contains("Hint"), "{}", shown(&job));
    }

    #[test]
    fn a_reserved_start_a_notice_and_the_fabric_are_described() {
        let mut job = muster_api::samples::job(42, JobState::Queued);
        job.preemptions = 2;
        job.reserved_start = Some(muster_api::ReservedStart {
            at: Time(60_000).into(),
            nodes: vec!["hgx-01".into(), "hgx-02".into()],
            basis: Basis::Preemption,
            since: Time(0).into(),
            moved: Some("node hgx-03 was lost".into()),
        });
        let text = text(&job, &JobContext::default(), Time(30_000), false);
        for part in [
            "Starts by:    1970-01-01T00:01:00Z (in 30s) on hgx-[01-02]",
            "Basis:        nodes that are being preempted; reserved 30s ago",
            "Moved:        node hgx-03 was lost",
            "Preempted:    2 times",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        let mut running = muster_api::samples::running(43);
        if let Some(a) = &mut running.attempt {
            a.cap_watts = Some(550);
            a.slots[0].part =
                Some(AllocatedPart::Mig { profile: "3g.40gb".into(), start: 0, size: 4 });
            a.preflight = Some(muster_api::AttemptPreflight {
                message: "passed".into(),
                since: Time(20_000).into(),
                until: Time(80_000).into(),
                slow: Vec::new(),
                outcome: Some("passed".into()),
            });
            a.notice = Some(muster_api::Notice {
                reason: muster_model::job::StopReason::Resized { nodes: 4 },
                message: "it continues with 4 nodes".into(),
                at: Time(0).into(),
                until: Time(90_000).into(),
            });
        }
        let text = super::text(&running, &JobContext::default(), Time(30_000), false);
        for part in [
            "Fabric:     one leaf, rail-aligned",
            "Power cap:  550 W a GPU",
            "Preflight:  passed (began 1970-01-01T00:00:20Z (10s ago))",
            "3g.40gb of GPU 0,1,2",
            "GPUS/NODE  RANKS/NODE  CPUS/NODE",
            "will be stopped after its next checkpoint, or at 1970-01-01T00:01:30Z (in 1m): it continues with 4 nodes",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }

    #[test]
    fn held_tasks_of_an_array_are_held_and_not_queued() {
        let task = |index: u32, state| ArrayItem {
            id: format!("42_{index}"),
            number: 42 + u64::from(index),
            index,
            state,
        };
        let (queued, running) = (JobState::Queued, JobState::Running);
        let array = JobArray {
            id: "42".into(),
            kind: muster_api::Kind::JobArray,
            name: "sweep".into(),
            state: queued,
            version: 1,
            count: 3,
            items: vec![task(0, running), task(1, queued), task(2, queued)],
            has_warnings: false,
        };
        let held = |ids: &[&str]| {
            array_text(&array, &ids.iter().map(|id| (*id).to_owned()).collect(), false)
        };
        assert!(held(&[]).contains("3: 2 queued, 1 running\n"), "{}", held(&[]));
        let all = held(&["42_0", "42_1", "42_2"]);
        assert!(all.contains("3: 2 held, 1 running\n") && !all.contains("queued"), "{all}");
        let one = held(&["42_1"]);
        assert!(one.contains("3: 1 held, 1 queued, 1 running\n"), "{one}");
    }

    #[test]
    fn a_held_job_is_held_and_not_queued() {
        let mut job = muster_api::samples::job(42, JobState::Queued);
        job.held = Some("user:alice".into());
        let text = text(&job, &JobContext::default(), Time(30_000), false);
        let state = text.lines().find(|l| l.starts_with("State:")).unwrap_or_default();
        assert!(state.ends_with(" held"), "{text}");
    }

    #[test]
    fn why_the_last_attempt_ended_is_not_why_a_job_waits() {
        let mut job = muster_api::samples::job(42, JobState::Queued);
        job.reason = Some("node hgx-03 is unhealthy: gpu-off-bus (finding 193)".into());
        job.attempts = 1;
        job.waiting = Some("waits for free capacity".into());
        let text = text(&job, &JobContext::default(), Time(30_000), false);
        let past = "Last attempt: ended: node hgx-03 was unhealthy: gpu-off-bus (finding 193)";
        for part in [past, "Waiting:      waits for free capacity"] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains("Reason:"), "{text}");
        // One that was cancelled before it ran has had no attempt.
        job.attempts = 0;
        job.reason = Some("requeued by user:admin".into());
        let text = super::text(&job, &JobContext::default(), Time(30_000), false);
        assert!(text.contains("Queued again: requeued by user:admin\n"), "{text}");
        assert!(!text.contains("Last attempt"), "{text}");
    }

    #[test]
    fn what_is_past_is_no_reason_for_how_it_is_now() {
        let mut job = muster_api::samples::job(42, JobState::Failed);
        job.reason = Some("rank 3 exited with code 7 on hgx-01".into());
        job.waiting = Some("waits for 2 nodes".into());
        job.held = Some("user:alice".into());
        let at = |ms| muster_api::Timestamp(Time(ms));
        job.recovery = Some(Recovery {
            attempt: 1,
            finding: None,
            fault_at: at(1_000),
            found_at: at(1_400),
            decided_at: at(1_500),
            drained_at: Some(at(4_000)),
            placed_at: None,
            started_at: None,
            working_at: None,
            detect_ms: 400,
            decide_ms: 100,
            drain_ms: Some(2_500),
            place_ms: None,
            start_ms: None,
            load_ms: None,
            held_ms: None,
            total_ms: 9_000,
        });
        let text = text(&job, &JobContext::default(), Time(30_000), false);
        assert!(text.contains("rank 3 exited with code 7"), "{text}");
        for stale in ["waits for", "Held by"] {
            assert!(!text.contains(stale), "{stale} in\n{text}");
        }
        job.state = JobState::Queued;
        let text = super::text(&job, &JobContext::default(), Time(30_000), false);
        assert!(text.contains("is held\n") && !text.contains("free capacity"), "{text}");
        // What stops it is named, and nothing else.
        job.held = None;
        let quota = "quota research leaves 8 of the 56 GPUs it asks for";
        job.waiting = Some(quota.into());
        let text = super::text(&job, &JobContext::default(), Time(30_000), false);
        assert_eq!(text.matches(quota).count(), 2, "{text}");
        assert!(!text.contains("free capacity"), "{text}");
        let mut stopping = muster_api::samples::running(43);
        stopping.state = JobState::Stopping;
        stopping.reason = Some("node hgx-09 was lost".into());
        if let Some(a) = &mut stopping.attempt {
            a.stop = Some(muster_api::job::Stop {
                reason: muster_model::job::StopReason::Cancelled { by: "user:alice".into() },
                message: "cancelled by user:alice".into(),
                at: at(20_000),
                grace: Span::secs(10),
                fence_until: None,
            });
        }
        // What joins GPUs is nothing to somebody without any.
        for slot in stopping.attempt.iter_mut().flat_map(|a| &mut a.slots) {
            slot.gpus.clear();
        }
        let text = super::text(&stopping, &JobContext::default(), Time(30_000), false);
        assert!(!text.contains("Fabric"), "{text}");
        assert!(text.contains("Reason:       cancelled by user:alice"), "{text}");
        assert!(!text.contains("hgx-09"), "{text}");
    }

    #[test]
    fn a_job_with_checkpoints_says_when_it_starts_again_after_a_lost_node() {
        let shown = |job: &Job| super::text(job, &JobContext::default(), Time(90_000), false);
        let mut job = crate::cmd::ps::tests::saving(43, Some(OnPartition::default()));
        let loss = "After a loss: starts again 2m20s after the lost node's last heartbeat at the \
                    earliest; submit with `--on-partition` below 2m to shorten that";
        assert!(shown(&job).contains(loss), "{}", shown(&job));
        crate::cmd::ps::tests::lose(&mut job, Some(Time(170_000)));
        let next = "Next attempt: 1970-01-01T00:02:50Z (in 1m20s) at the earliest, when its ranks on \
                    hgx-01 have certainly stopped";
        assert!(shown(&job).contains(next), "{}", shown(&job));
        // Whoever cancels it waits for them, too.
        let mut cancelled = job.clone();
        if let Some(stop) = cancelled.attempt.as_mut().and_then(|a| a.stop.as_mut()) {
            stop.reason = muster_model::job::StopReason::Cancelled { by: "user:alice".into() };
        }
        let ends = "Ends:         1970-01-01T00:02:50Z (in 1m20s), when its ranks on hgx-01 have \
                    certainly stopped";
        assert!(shown(&cancelled).contains(ends), "{}", shown(&cancelled));
        for absent in ["Next attempt", "After a loss"] {
            assert!(!shown(&cancelled).contains(absent), "{}", shown(&cancelled));
        }
        job.state = JobState::Failed;
        job.attempt = None;
        for absent in ["Next attempt", "After a loss"] {
            assert!(!shown(&job).contains(absent), "{}", shown(&job));
        }
        // One of an older log says nothing, and means what was the default then.
        let old = crate::cmd::ps::tests::saving(44, None);
        assert!(shown(&old).contains("starts again 5m20s after"), "{}", shown(&old));
        let mut goes_on = crate::cmd::ps::tests::saving(45, Some(OnPartition::Continue));
        assert!(
            shown(&goes_on).contains("when the lost node connects again"),
            "{}",
            shown(&goes_on)
        );
        crate::cmd::ps::tests::lose(&mut goes_on, None);
        let next = "Next attempt: when hgx-01 connects again or is retired";
        assert!(shown(&goes_on).contains(next), "{}", shown(&goes_on));
        // Without a checkpoint directory nothing is waited for.
        let plain = muster_api::samples::running(46);
        assert!(!shown(&plain).contains("After a loss"), "{}", shown(&plain));
    }

    #[test]
    fn a_recovery_is_reported_in_seconds_by_part() {
        let mut job = muster_api::samples::running(43);
        let at = |ms| muster_api::Timestamp(Time(ms));
        job.recovery = Some(Recovery {
            attempt: 1,
            finding: Some("7".into()),
            fault_at: at(1_000),
            found_at: at(1_400),
            decided_at: at(1_500),
            drained_at: Some(at(4_000)),
            placed_at: Some(at(4_200)),
            started_at: Some(at(10_000)),
            working_at: None,
            detect_ms: 400,
            decide_ms: 100,
            drain_ms: Some(2_500),
            place_ms: Some(200),
            start_ms: Some(5_800),
            load_ms: None,
            held_ms: Some(7_200_000),
            total_ms: 9_000,
        });
        let beside =
            JobContext { findings: vec![muster_api::samples::finding(7)], ..JobContext::default() };
        let text = text(&job, &beside, Time(30_000), false);
        for part in [
            "Recovery of attempt 1",
            "Whole:      9.00 s",
            "Held:       7200.00 s, by a person; not in the whole",
            "detect 0.40 s, decide 0.10 s, drain 2.50 s, place 0.20 s, start 5.80 s",
            "has not reported a step yet",
            "gpu-off-bus",
            "Timeline",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        // A program that exits with 1 does not recover from that.
        job.past = vec![muster_api::job::PastAttempt {
            no: 1,
            nodes: vec!["hgx-01".into()],
            placed_at: Time(0).into(),
            started_at: Some(Time(500).into()),
            ended_at: Time(1_500).into(),
            stopped_at: None,
            verdict: Verdict::Application,
            attributed_to: "application".into(),
            reason: "rank 0 exited with code 1".into(),
            findings: Vec::new(),
        }];
        let text = super::text(&job, &JobContext::default(), Time(30_000), false);
        assert!(!text.contains("Recovery") && text.contains("EXIT CAUSE"), "{text}");
    }
}
