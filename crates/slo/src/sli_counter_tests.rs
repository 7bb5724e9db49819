use super::*;
use crate::budget::{Counts, burn, sli};
use crate::ledger::TimeRange;
use crate::ratio::Ratio;
use muster_model::ids::Seq;
use muster_model::job::{PastAttempt, SlotEnd, Stop};
use muster_model::node::{NodeRole, Stage};
use muster_model::spec::{JobSpec, Simulate};
use std::collections::BTreeSet;

const T0: i64 = 1_000_000 * 3_600_000;

fn at(secs: i64) -> Time {
    Time(T0 + secs * 1000)
}

fn name<T: std::str::FromStr>(s: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    s.parse().unwrap()
}

#[derive(Default)]
struct CounterFixture {
    jobs: BTreeMap<JobId, Job>,
    nodes: BTreeMap<NodeName, Node>,
    /// Jobs that crash again and again.
    crashing: BTreeSet<JobId>,
}

impl Facts for CounterFixture {
    fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }
    fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.get(name)
    }
    fn crash_loops(&self, id: JobId) -> bool {
        self.crashing.contains(&id)
    }
    fn open_jobs(&self) -> Box<dyn Iterator<Item = &Job> + '_> {
        Box::new(self.jobs.values().filter(|j| !j.state.is_final()))
    }
}

fn job(id: u64, project: &str, submitted: i64) -> Job {
    let text = format!(
        r#"{{"id":{id},"name":"j","project":"{project}","user":"u","spec":{{"priority":"high"}},"groups":[],
            "payload":{id},"depends":[],"state":"queued","submitted_at":{},"past":[],"attempts":0,
            "infrastructure_failures":0,"application_failures":0,"version":1}}"#,
        at(submitted).0
    );
    serde_json::from_str(&text).unwrap()
}

fn node(n: &str, pool: &str) -> Node {
    let text = format!(
        r#"{{"name":"{n}","stage":"ready","reachable":true,"inventory":{{"cpu_model":"","cpus":8,"memory":"1GiB","kernel":"","pool":"{pool}"}},
            "location":{{"region":"r","cluster":"c","spine":"s","leaf":"l","rack":"k","nvlink":"{n}","feed":"f"}},
            "address":"","host":"","machine":"","boot":"","enrolled_at":0,"changed_at":0,"version":1}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn placement(nodes: &[&str]) -> Placement {
    let slot = |n: &&str| {
        format!(
            r#"{{"node":"{n}","group":0,"node_rank":0,"first_rank":0,"ranks":8,"gpus":255,"cpus":8,"memory":"1GiB"}}"#
        )
    };
    let slots: Vec<String> = nodes.iter().map(slot).collect();
    let text =
        format!(r#"{{"slots":[{}],"port":20000,"domain":"d","level":"leaf"}}"#, slots.join(","));
    serde_json::from_str(&text).unwrap()
}

fn attempt(no: u32, nodes: &[&str], placed: i64, started: Option<i64>) -> Attempt {
    Attempt {
        no,
        placement: placement(nodes).into(),
        slots: vec![],
        placed_at: at(placed),
        started_at: started.map(at),
        deadline: None,
        stop: None,
        notice: None,
        preflight: None,
        freed_at: None,
        last_end: None,
        started_from: BTreeMap::new(),
        lost_at: None,
    }
}

fn past(no: u32, verdict: Verdict, ended: i64) -> PastAttempt {
    PastAttempt {
        no,
        nodes: vec![name("n1")],
        placed_at: at(0),
        started_at: None,
        ended_at: at(ended),
        freed_at: None,
        stopped_at: None,
        verdict,
        reason: String::new(),
        findings: vec![],
        stopped_for: None,
    }
}

fn record(secs: i64, event: Event) -> Record {
    Record {
        seq: Seq(1),
        at: at(secs),
        v: 1,
        org: String::new(),
        project: None,
        actor: String::new(),
        key: None,
        event,
    }
}

fn key(job: u64, attempt: u32) -> AttemptKey {
    AttemptKey { job: JobId(job), attempt }
}

/// A book that counts for objectives in short: `SLI` or `SLI@project` or `SLI/pool`.
fn book(slis: &[(&str, &str)]) -> (SliCounter, Vec<Series>) {
    let objective = |(i, (sli, scope)): (usize, &(&str, &str))| -> Objective {
        let text = format!(r#"{{"name":"o{i}","sli":{sli},"scope":{scope},"target":"99%"}}"#);
        serde_json::from_str(&text).unwrap()
    };
    let all: Vec<Objective> = slis.iter().enumerate().map(objective).collect();
    let mut b = SliCounter::default();
    b.follow(&all);
    (b, all.iter().map(|o| Series { sli: o.sli, scope: o.scope.clone() }).collect())
}

fn count(b: &SliCounter, s: &Series, now: i64) -> (u64, u64) {
    let c = b.ledger.count(s, TimeRange::Last(Span::hours(24 * 30)), at(now));
    (c.good, c.total)
}

fn placed(job: u64, no: u32, nodes: &[&str]) -> Event {
    Event::JobPlaced { key: key(job, no), placement: placement(nodes).into() }
}

fn ended(job: u64, no: u32, verdict: Verdict) -> Event {
    Event::AttemptEnded { key: key(job, no), verdict, reason: String::new() }
}

#[test]
fn waiting_counts_from_when_a_job_could_have_run() {
    let (mut b, s) = book(&[
        (r#"{"queue_wait":{"under":"5m"}}"#, "{}"),
        (r#"{"queue_wait":{"under":"5m","class":"low"}}"#, "{}"),
        (r#"{"queue_wait":{"under":"5m","class":"high"}}"#, r#"{"project":"red"}"#),
        (r#"{"queue_wait":{"under":"5m","tier":"on-demand"}}"#, r#"{"pool":"train"}"#),
    ]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "train"));
    // Waits 300 s: just in time. Another project's waits for 301.
    w.jobs.insert(JobId(1), job(1, "red", 0));
    w.jobs.insert(JobId(2), job(2, "blue", 0));
    b.before(&record(300, placed(1, 1, &["n1"])), &w);
    b.before(&record(301, placed(2, 1, &["n1"])), &w);
    assert_eq!(count(&b, &s[0], 400), (1, 2));
    assert_eq!(count(&b, &s[1], 400), (0, 0));
    assert_eq!(count(&b, &s[2], 400), (1, 1));
    assert_eq!(count(&b, &s[3], 400), (1, 2));
    // Held for an hour, then let go: the hour does not count.
    w.jobs.insert(JobId(3), job(3, "red", 0));
    b.before(&record(3600, Event::JobReleased { job: JobId(3), decided: false }), &w);
    b.before(&record(3700, placed(3, 1, &["n1"])), &w);
    // After another job: its end counts.
    let mut first = job(4, "red", 0);
    first.ended_at = Some(at(7000));
    w.jobs.insert(JobId(4), first);
    let mut after = job(5, "red", 0);
    after.depends = serde_json::from_str(r#"[{"job":4,"count":1,"condition":"ok"}]"#).unwrap();
    w.jobs.insert(JobId(5), after);
    b.before(&record(7200, placed(5, 1, &["n1"])), &w);
    assert_eq!(count(&b, &s[0], 8000), (3, 4));
    // A second attempt is a recovery, not a wait.
    b.before(&record(9000, placed(5, 2, &["n1"])), &w);
    assert_eq!(count(&b, &s[0], 9000), (3, 4));
    assert_eq!(b.released.len(), 0);
}

#[test]
fn who_waits_too_long_counts_before_it_is_over_and_once() {
    let (mut b, s) = book(&[(r#"{"queue_wait":{"under":"5m"}}"#, "{}")]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    w.jobs.insert(JobId(1), job(1, "red", 0));
    let both = |b: &SliCounter, w: &CounterFixture, now: i64| {
        let tail = b.tail(at(now), w);
        Counts(&[&b.ledger, &tail]).count(&s[0], TimeRange::Last(Span::mins(5)), at(now))
    };
    assert_eq!(both(&b, &w, 300), Count::default());
    assert_eq!(both(&b, &w, 360), Count::bad_ones(1));
    // It counts where its time was up, before and after it got its nodes.
    assert_eq!(both(&b, &w, 660), Count::default());
    b.before(&record(700, placed(1, 1, &["n1"])), &w);
    assert_eq!(count(&b, &s[0], 700), (0, 1));
    assert_eq!(b.ledger.count(&s[0], TimeRange::Last(Span::mins(5)), at(700)), Count::default());
    // Whoever gives up after that is counted, whoever gives up before is not.
    w.jobs.clear();
    w.jobs.insert(JobId(2), job(2, "red", 0));
    w.jobs.insert(JobId(3), job(3, "red", 600));
    let gone = |j: u64| Event::JobCancelled { job: JobId(j), reason: String::new() };
    b.before(&record(800, gone(2)), &w);
    b.before(&record(800, gone(3)), &w);
    assert_eq!(count(&b, &s[0], 800), (0, 2));
}

#[test]
fn who_cannot_run_yet_does_not_wait() {
    let (mut b, s) = book(&[(r#"{"queue_wait":{"under":"5m"}}"#, "{}")]);
    let mut w = CounterFixture::default();
    let depends = |j: &mut Job, on: u64, count: u32| {
        let text = format!(r#"[{{"job":{on},"count":{count},"condition":"ok"}}]"#);
        j.depends = serde_json::from_str(&text).unwrap();
    };
    let mut first = job(1, "red", 0);
    first.attempts = 1;
    w.jobs.insert(JobId(1), first);
    let (mut after, mut held) = (job(2, "red", 0), job(3, "red", 0));
    depends(&mut after, 1, 1);
    held.held = Some(muster_model::hold::Hold::asked("ann"));
    w.jobs.insert(JobId(2), after);
    w.jobs.insert(JobId(3), held);
    let tail = |b: &SliCounter, w: &CounterFixture, now: i64| {
        b.tail(at(now), w).count(&s[0], TimeRange::Last(Span::hours(8)), at(now)).total
    };
    assert_eq!(tail(&b, &w, 7200), 0);
    w.jobs.get_mut(&JobId(1)).unwrap().ended_at = Some(at(7200));
    assert_eq!((tail(&b, &w, 7500), tail(&b, &w, 7501)), (0, 1));
    // Whoever is cancelled meanwhile had nothing reserved.
    w.jobs.get_mut(&JobId(1)).unwrap().ended_at = None;
    for id in [2, 3] {
        let gone = Event::JobCancelled { job: JobId(id), reason: String::new() };
        b.before(&record(8000, gone), &w);
    }
    assert_eq!(count(&b, &s[0], 8000), (0, 0));
    // Others that were forgotten ended long ago.
    let mut late = job(4, "red", 0);
    depends(&mut late, 900, 3);
    w.jobs.insert(JobId(4), late);
    assert_eq!(tail(&b, &w, 400), 1);
}

#[test]
fn success_is_counted_by_whose_doing_it_was() {
    let (mut b, s) = book(&[
        (r#"{"job_success":{"attribution":"platform"}}"#, "{}"),
        (r#"{"job_success":{"attribution":"any"}}"#, "{}"),
        (r#"{"job_success":{"attribution":"platform","first":true}}"#, "{}"),
    ]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    let all = [
        (1, Verdict::Success),
        (2, Verdict::Application),
        (3, Verdict::Infrastructure),
        (4, Verdict::Unknown),
        (5, Verdict::Operator),
        (6, Verdict::Scheduler),
    ];
    for (id, verdict) in all {
        let mut j = job(id, "red", 0);
        j.attempt = Some(attempt(1, &["n1"], 10, Some(20)));
        w.jobs.insert(JobId(id), j);
        b.before(&record(100, ended(id, 1, verdict)), &w);
        let j = w.jobs.get_mut(&JobId(id)).unwrap();
        j.attempt = None;
        j.past.push(past(1, verdict, 100));
        let job = JobId(id);
        let end = match verdict {
            Verdict::Success => Event::JobSucceeded { job },
            Verdict::Operator => Event::JobCancelled { job, reason: String::new() },
            _ => Event::JobFailed { job, reason: String::new(), exit_code: 1 },
        };
        b.before(&record(100, end), &w);
        let j = w.jobs.get_mut(&JobId(id)).unwrap();
        (j.state, j.ended_at) = (JobState::Failed, Some(at(100)));
    }
    assert_eq!(count(&b, &s[0], 200), (2, 4));
    assert_eq!(count(&b, &s[1], 200), (1, 4));
    assert_eq!(count(&b, &s[2], 200), (2, 4));
    // What nobody could explain turns out to be the job's own.
    let found = |job, verdict| Event::AttemptAttributed {
        key: key(job, 1),
        verdict,
        findings: vec![],
        reason: String::new(),
    };
    b.before(&record(5000, found(4, Verdict::Application)), &w);
    assert_eq!(count(&b, &s[0], 6000), (3, 4));
    assert_eq!(count(&b, &s[1], 6000), (1, 4));
    assert_eq!(count(&b, &s[2], 6000), (3, 4));
    let causes = b.ledger.causes(&s[1], TimeRange::Last(Span::hours(5)), at(6000));
    assert_eq!(causes, BTreeMap::from([(Cause::Hardware, 1), (Cause::Application, 2)]));
}

#[test]
fn an_interruption_counts_by_what_is_found_out_later() {
    let (mut b, s) = book(&[(r#"{"interruptions":{"cost":"15m"}}"#, "{}")]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    let mut j = job(1, "red", 0);
    j.attempt = Some(attempt(1, &["n1"], 0, Some(0)));
    w.jobs.insert(JobId(1), j);
    // It ran for an hour and failed by itself, as it seems.
    b.before(&record(3600, ended(1, 1, Verdict::Application)), &w);
    let (up, cost) = (3_600_000, 900_000);
    assert_eq!(count(&b, &s[0], 3700), (up, up));
    let judged = |b: &mut SliCounter, w: &mut CounterFixture, was: Verdict, is: Verdict| {
        let j = w.jobs.get_mut(&JobId(1)).unwrap();
        let ran = PastAttempt { started_at: Some(at(0)), ..past(1, was, 3600) };
        (j.attempt, j.past) = (None, vec![ran]);
        let (findings, reason) = (vec![], String::new());
        let found = Event::AttemptAttributed { key: key(1, 1), verdict: is, findings, reason };
        b.before(&record(3605, found), &*w);
        let causes = b.ledger.causes(&s[0], TimeRange::Last(Span::hours(5)), at(3700));
        (count(b, &s[0], 3700), causes)
    };
    let bad = |cause| ((up, up + cost), BTreeMap::from([(cause, cost)]));
    // A GPU was the cause, says its node; nobody knows; and it was the program after all.
    let found = judged(&mut b, &mut w, Verdict::Application, Verdict::Infrastructure);
    assert_eq!(found, bad(Cause::Hardware));
    let found = judged(&mut b, &mut w, Verdict::Infrastructure, Verdict::Unknown);
    assert_eq!(found, bad(Cause::Unknown));
    let found = judged(&mut b, &mut w, Verdict::Unknown, Verdict::Application);
    assert_eq!(found, ((up, up), BTreeMap::new()));
}

#[test]
fn the_way_back_counts_from_the_fault_on() {
    let (mut b, s) =
        book(&[(r#"{"recovery":{"under":"10m"}}"#, "{}"), (r#"{"start":{"under":"1m"}}"#, "{}")]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    let rec = Recovery {
        attempt: 1,
        finding: None,
        fault_at: at(0),
        found_at: at(5),
        decided_at: at(6),
        drained_at: None,
        placed_at: None,
        started_at: None,
        working_at: None,
        held: None,
    };
    let mut j = job(1, "red", -5000);
    j.attempts = 1;
    j.recovery = Some(rec);
    w.jobs.insert(JobId(1), j);
    let tail = |b: &SliCounter, w: &CounterFixture, now| {
        let c = b.tail(at(now), w).count(&s[0], TimeRange::Last(Span::hours(1)), at(now));
        (c.good, c.total)
    };
    assert_eq!(tail(&b, &w, 600), (0, 0));
    assert_eq!(tail(&b, &w, 601), (0, 1));
    let hold = muster_model::hold::Hold::asked("user:ann").at(at(60));
    w.jobs.get_mut(&JobId(1)).unwrap().held = Some(hold);
    assert_eq!(tail(&b, &w, 601), (0, 0), "a person holds it");
    w.jobs.get_mut(&JobId(1)).unwrap().held = None;
    w.jobs.get_mut(&JobId(1)).unwrap().attempt = Some(attempt(2, &["n1"], 500, None));
    let started = Event::AttemptStarted { key: key(1, 2), deadline: None };
    let mut late = b.clone();
    b.before(&record(600, started.clone()), &w);
    assert_eq!((count(&b, &s[0], 700), count(&b, &s[1], 700)), ((1, 1), (0, 1)));
    late.before(&record(601, started.clone()), &w);
    assert_eq!(count(&late, &s[0], 700), (0, 1));
    // A person held it for an hour before it was placed again.
    let (mut held, _) = book(&[(r#"{"recovery":{"under":"10m"}}"#, "{}")]);
    w.jobs.get_mut(&JobId(1)).unwrap().recovery.as_mut().unwrap().held = Some(Span::hours(1));
    held.before(&record(3600 + 600, started), &w);
    assert_eq!(count(&held, &s[0], 3600 + 700), (1, 1));
    // Its first attempt was no way back.
    w.jobs.get_mut(&JobId(1)).unwrap().recovery = None;
    late.before(&record(602, Event::AttemptStarted { key: key(1, 2), deadline: None }), &w);
    assert_eq!(count(&late, &s[0], 700), (0, 1));
}

/// Counts of recovery, interruptions, first attempts and goodput. An attempt of eight GPUs ran for an
/// hour, saved after half of it, ended like this and starts again an hour later.
fn counts_of_end(simulated: bool, end: SlotEnd, verdict: Verdict) -> [(u64, u64); 4] {
    let slis = [
        r#"{"recovery":{"under":"10m"}}"#,
        r#"{"interruptions":{"cost":"15m"}}"#,
        r#"{"job_success":{"attribution":"platform","first":true}}"#,
        r#""goodput""#,
    ];
    let (mut b, s) = book(&slis.map(|sli| (sli, "{}")));
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    let mut j = job(1, "red", 0);
    if simulated {
        let simulate = Some(Simulate { run: Span::hours(9), ..Simulate::default() });
        j.spec = JobSpec { simulate, ..(*j.spec).clone() }.into();
    }
    let saved = format!(r#"{{"attempt":1,"at":{}}}"#, at(1800).0);
    j.checkpoint = serde_json::from_str(&saved).unwrap();
    let reason = StopReason::SlotFailed { node: name("n1"), end };
    let stop = Stop { reason: reason.clone(), at: at(3600), grace: Span(0), fence_until: None };
    j.attempt = Some(Attempt { stop: Some(stop), ..attempt(1, &["n1"], 0, Some(0)) });
    j.attempts = 1;
    j.recovery = Some(Recovery {
        attempt: 1,
        finding: None,
        fault_at: at(3600),
        found_at: at(3600),
        decided_at: at(3600),
        drained_at: None,
        placed_at: None,
        started_at: None,
        working_at: None,
        held: None,
    });
    w.jobs.insert(JobId(1), j);
    b.before(&record(3600, ended(1, 1, verdict)), &w);
    let j = w.jobs.get_mut(&JobId(1)).unwrap();
    j.past = vec![PastAttempt { stopped_for: Some(reason), ..past(1, verdict, 3600) }];
    j.attempt = Some(attempt(2, &["n1"], 7200, None));
    // What is late counts before it is over, and once.
    let late = b.tail(at(7200), &w).count(&s[0], TimeRange::Last(Span::hours(24)), at(7200));
    b.before(&record(7210, Event::AttemptStarted { key: key(1, 2), deadline: None }), &w);
    assert_eq!(count(&b, &s[0], 7300), (late.good, late.total));
    [0, 1, 2, 3].map(|i| count(&b, &s[i], 7300))
}

#[test]
fn what_muster_ended_is_no_recovery_and_simulated_work_that_starts_again_uses_no_budget() {
    let (half, hour, cost) = (1_800_000, 3_600_000, 900_000);
    let broken = counts_of_end(false, SlotEnd::fault("no cgroup"), Verdict::Infrastructure);
    assert_eq!(broken, [(0, 1), (hour, hour + cost), (0, 1), (8 * half, 8 * hour)]);
    // Muster failed the job, and no hardware did.
    let own = counts_of_end(false, SlotEnd::agent_anew(), Verdict::Platform);
    assert_eq!(own, [(0, 0), (hour, hour + cost), (0, 1), (8 * half, 8 * hour)]);
    // Simulated work ends with the process of its nodes, whatever it is called.
    let simulated = counts_of_end(true, SlotEnd::agent_anew(), Verdict::Platform);
    assert_eq!(simulated, [(0, 0), (hour, hour), (0, 0), (8 * half, 8 * half)]);
    let broken = counts_of_end(true, SlotEnd::fault("no cgroup"), Verdict::Infrastructure);
    assert_eq!(broken, [(0, 1), (hour, hour + cost), (0, 1), (8 * half, 8 * hour)]);
}

/// A recovery from the first attempt, which failed at this moment.
fn recovering(at_secs: i64) -> Recovery {
    Recovery {
        attempt: 1,
        finding: None,
        fault_at: at(at_secs),
        found_at: at(at_secs),
        decided_at: at(at_secs),
        drained_at: None,
        placed_at: None,
        started_at: None,
        working_at: None,
        held: None,
    }
}

#[test]
fn crashes_of_a_job_that_crashes_again_and_again_interrupt_nobody() {
    let (mut b, s) = book(&[(r#"{"interruptions":{"cost":"15m"}}"#, "{}")]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    w.jobs.insert(JobId(1), job(1, "red", 0));
    let cost = 900_000;
    let fails = |b: &mut SliCounter, w: &mut CounterFixture, no: u32| {
        let from = i64::from(no) * 100;
        w.jobs.get_mut(&JobId(1)).unwrap().attempt = Some(attempt(no, &["n1"], from, Some(from)));
        b.before(&record(from + 10, ended(1, no, Verdict::Unknown)), &*w);
        let j = w.jobs.get_mut(&JobId(1)).unwrap();
        j.attempt = None;
        let ran = Some(at(from));
        j.past.push(PastAttempt { started_at: ran, ..past(no, Verdict::Unknown, from + 10) });
    };
    for no in 1..=3 {
        fails(&mut b, &mut w, no);
    }
    assert_eq!(count(&b, &s[0], 400), (30_000, 30_000 + 3 * cost), "nothing explains it yet");
    // What explains it is found with the third.
    let finding = muster_model::finding::Finding {
        id: 7,
        seen: muster_model::finding::ObservedFinding::new(
            "crash-loop",
            Entity::Job(JobId(1)),
            muster_model::finding::Severity::Warning,
            at(310),
        ),
        opened_at: at(310),
        inferred: false,
        incident: None,
        remediation: None,
        closed: None,
    };
    let finding = Box::new(finding);
    let found = record(310, Event::FindingOpened { finding, decided: true });
    b.before(&found, &w);
    assert_eq!(count(&b, &s[0], 400), (30_000, 30_000));
    // Once, however often that is found.
    b.before(&found, &w);
    w.crashing.insert(JobId(1));
    fails(&mut b, &mut w, 4);
    assert_eq!(count(&b, &s[0], 500), (40_000, 40_000));
    // One that ran for long did not crash again, and nothing explains it.
    let mut long = (b.clone(), job(1, "red", 0));
    long.1.attempt = Some(attempt(5, &["n1"], 500, Some(500)));
    let mut other = CounterFixture { crashing: w.crashing.clone(), ..CounterFixture::default() };
    other.nodes.insert(name("n1"), node("n1", "a"));
    other.jobs.insert(JobId(1), long.1);
    long.0.before(&record(1100, ended(1, 5, Verdict::Unknown)), &other);
    assert_eq!(count(&long.0, &s[0], 1200), (640_000, 640_000 + cost));
    // A GPU was the cause of the last, as it turns out.
    let (findings, reason) = (vec![], String::new());
    let verdict = Verdict::Infrastructure;
    let gpu = Event::AttemptAttributed { key: key(1, 4), verdict, findings, reason };
    b.before(&record(420, gpu), &w);
    assert_eq!(count(&b, &s[0], 500), (40_000, 40_000 + cost));
}

#[test]
fn only_what_hardware_failed_recovers_and_what_is_learnt_late_counts_once() {
    let (mut b, s) = book(&[(r#"{"recovery":{"under":"10m"}}"#, "{}")]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    let mut j = job(1, "red", 0);
    j.recovery = Some(recovering(0));
    j.past.push(past(1, Verdict::Unknown, 0));
    j.attempt = Some(attempt(2, &["n1"], 800, None));
    w.jobs.insert(JobId(1), j);
    let late = b.tail(at(900), &w).count(&s[0], TimeRange::Last(Span::hours(1)), at(900));
    assert_eq!((late.good, late.total), (0, 0), "nobody knows what failed it");
    b.before(&record(900, Event::AttemptStarted { key: key(1, 2), deadline: None }), &w);
    assert_eq!(count(&b, &s[0], 1000), (0, 0));
    let started = Some(at(900));
    w.jobs.get_mut(&JobId(1)).unwrap().recovery.as_mut().unwrap().started_at = started;
    let (findings, reason) = (vec![], String::new());
    let verdict = Verdict::Infrastructure;
    let gpu = Event::AttemptAttributed { key: key(1, 1), verdict, findings, reason };
    b.before(&record(950, gpu.clone()), &w);
    w.jobs.get_mut(&JobId(1)).unwrap().past[0].verdict = verdict;
    b.before(&record(960, gpu), &w);
    assert_eq!(count(&b, &s[0], 1000), (0, 1));
}

#[test]
fn the_breaker_of_a_jobs_own_template_takes_no_time_of_its_recovery() {
    let (mut b, s) = book(&[(r#"{"recovery":{"under":"10m"}}"#, "{}")]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    let mut j = job(1, "red", 0);
    j.recovery = Some(recovering(0));
    j.past.push(past(1, Verdict::Infrastructure, 0));
    let entity = "template:red/train".parse().unwrap();
    let by = HeldBy::Breaker { entity };
    let name = "breaker template:red/train".to_owned();
    j.held = Some(muster_model::hold::Hold { name, by, since: Some(at(60)) });
    w.jobs.insert(JobId(1), j);
    let late = b.tail(at(900), &w).count(&s[0], TimeRange::Last(Span::hours(1)), at(900));
    assert_eq!((late.good, late.total), (0, 0), "its own template's breaker holds it");
    b.before(&record(660, Event::JobReleased { job: JobId(1), decided: true }), &w);
    let j = w.jobs.get_mut(&JobId(1)).unwrap();
    j.held = None;
    j.attempt = Some(attempt(2, &["n1"], 700, None));
    // Ten minutes later it would have been late by that.
    b.before(&record(900, Event::AttemptStarted { key: key(1, 2), deadline: None }), &w);
    assert_eq!(count(&b, &s[0], 1000), (1, 1));
}

#[test]
fn nodes_count_the_time_they_serve() {
    let (mut b, s) =
        book(&[(r#""node_availability""#, "{}"), (r#""node_availability""#, r#"{"pool":"b"}"#)]);
    let mut w = CounterFixture::default();
    let ready = |n: &str| Event::NodeReady { node: name(n), reason: String::new() };
    for (n, pool) in [("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b")] {
        w.nodes.insert(name(n), node(n, pool));
        b.after(&record(0, ready(n)), &w);
    }
    // One hour of four nodes, then n4 is lost for half an hour and repaired for another half.
    w.nodes.get_mut(&name::<NodeName>("n4")).unwrap().reachable = false;
    b.after(&record(3600, Event::NodeLost { node: name("n4"), last_seen: at(3590) }), &w);
    let staged = |stage| Event::NodeStaged {
        node: name("n4"),
        stage,
        reason: String::new(),
        until: None,
        by_operator: false,
    };
    w.nodes.get_mut(&name::<NodeName>("n4")).unwrap().stage = Stage::Repairing;
    b.after(&record(5400, staged(Stage::Repairing)), &w);
    let tail = b.tail(at(7200), &w);
    let counts = [&b.ledger, &tail];
    let day = TimeRange::Last(Span::hours(24));
    let all = Counts(&counts).count(&s[0], day, at(7200));
    assert_eq!((all.good, all.total), (7 * 3_600_000, 8 * 3_600_000));
    assert_eq!(sli(all), Some(Ratio::new(7, 8)));
    let pool = Counts(&counts).count(&s[1], day, at(7200));
    assert_eq!((pool.good, pool.total), (3 * 3_600_000, 4 * 3_600_000));
    let causes = Counts(&counts).causes(&s[0], day, at(7200));
    assert_eq!(
        causes,
        BTreeMap::from([(Cause::Unreachable, 1_800_000), (Cause::Repair, 1_800_000)])
    );
    // Retired nodes are nobody's objective; a snapshot in between changes nothing.
    let text = serde_json::to_string(&b).unwrap();
    let mut b: SliCounter = serde_json::from_str(&text).unwrap();
    w.nodes.get_mut(&name::<NodeName>("n4")).unwrap().stage = Stage::Retired;
    b.after(&record(7200, Event::NodeRetired { node: name("n4") }), &w);
    b.before(&record(10_800, Event::AutomationResumed { by: String::new() }), &w);
    assert_eq!(count(&b, &s[0], 10_800), (10 * 3_600_000, 11 * 3_600_000));
}

#[test]
fn nodes_of_an_older_snapshot_are_taken_up() {
    let (mut b, s) = book(&[(r#""node_availability""#, "{}")]);
    let nodes = [node("n1", "a"), node("n2", "a")];
    b.seed(at(0), &nodes);
    b.seed(at(1800), &nodes);
    b.before(
        &record(3600, Event::AutomationResumed { by: String::new() }),
        &CounterFixture::default(),
    );
    assert_eq!(count(&b, &s[0], 3600), (7_200_000, 7_200_000));
}

#[test]
fn a_node_is_out_for_one_reason() {
    let with = |f: &dyn Fn(&mut Node)| {
        let mut n = node("n", "a");
        f(&mut n);
        muster_model::slo::NodeServiceFacts::from(&n).service()
    };
    let by_hand = || muster_model::cordon::Cordon {
        reason: "x".into(),
        by: muster_model::cordon::CordonedBy::Operator,
        since: None,
    };
    assert_eq!(with(&|_| {}), Some(Ok(())));
    assert_eq!(with(&|n| n.cordon = Some(by_hand())), Some(Err(Cause::Operator)));
    assert_eq!(with(&|n| n.stage = Stage::Drained), Some(Err(Cause::Operator)));
    // What automation takes out is not the operator's.
    let by_remediation =
        |n: &mut Node| (n.stage, n.drained_by_remediation) = (Stage::Draining, true);
    assert_eq!(with(&by_remediation), Some(Err(Cause::Quarantine)));
    let failed = |n: &mut Node| {
        let by = muster_model::cordon::CordonedBy::FailedTest;
        n.cordon = Some(muster_model::cordon::Cordon { by, ..by_hand() });
    };
    assert_eq!(with(&failed), Some(Err(Cause::Quarantine)));
    assert_eq!(with(&|n| n.stage = Stage::Quarantined), Some(Err(Cause::Quarantine)));
    assert_eq!(with(&|n| n.role = NodeRole::Suspect), Some(Err(Cause::Quarantine)));
    assert_eq!(with(&|n| n.role = NodeRole::Spare), Some(Ok(())));
    assert_eq!(with(&|n| n.stage = Stage::Enrolled), None);
    assert_eq!(with(&|n| n.stage = Stage::Retired), None);
    assert_eq!(with(&|n| n.protected = true), Some(Err(Cause::Platform)));
}

#[test]
fn work_that_was_lost_is_no_goodput() {
    let (mut b, s) = book(&[(r#""goodput""#, "{}"), (r#"{"interruptions":{"cost":"15m"}}"#, "{}")]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    w.nodes.insert(name("n2"), node("n2", "a"));
    // Two nodes of eight GPUs: 100 s until its ranks are up, 3,000 s to a checkpoint, 500 s lost.
    let mut j = job(1, "red", 0);
    j.attempt = Some(attempt(1, &["n1", "n2"], 0, Some(100)));
    j.checkpoint =
        serde_json::from_str(&format!(r#"{{"attempt":1,"at":{}}}"#, at(3100).0)).unwrap();
    w.jobs.insert(JobId(1), j);
    // While it runs, all of it looks good.
    let tail = b.tail(at(3600), &w);
    let so_far = tail.count(&s[0], TimeRange::Last(Span::hours(24)), at(3600));
    assert_eq!((so_far.good, so_far.total), (16 * 3_500_000, 16 * 3_600_000));
    b.before(&record(3600, ended(1, 1, Verdict::Infrastructure)), &w);
    assert_eq!(count(&b, &s[0], 3600), (16 * 3_000_000, 16 * 3_600_000));
    let causes = b.ledger.causes(&s[0], TimeRange::Last(Span::hours(24)), at(3600));
    assert_eq!(
        causes,
        BTreeMap::from([(Cause::Starting, 16 * 100_000), (Cause::Hardware, 16 * 500_000)])
    );
    // It ran 3,500 s, and an interruption counts as 900.
    assert_eq!(count(&b, &s[1], 3600), (3_500_000, 4_400_000));
    // The next attempt ends well after 20,000 s.
    let j = w.jobs.get_mut(&JobId(1)).unwrap();
    j.attempt = Some(attempt(2, &["n1", "n2"], 4000, Some(4000)));
    b.before(&record(24_000, ended(1, 2, Verdict::Success)), &w);
    assert_eq!(count(&b, &s[0], 24_000), (16 * 23_000_000, 16 * 23_600_000));
    let c = b.ledger.count(&s[1], TimeRange::Last(Span::hours(24)), at(24_000));
    // 23,500 s between interruptions: the mean time is good times cost over bad.
    assert_eq!(crate::budget::mean_time(c, Span::mins(15)), Some(Span::secs(23_500)));
    assert_eq!(burn(c, muster_model::slo::Ppm(990_000)), Some(Ratio::new(900 * 100, 24_400)));
}

#[test]
fn what_a_service_served_is_goodput_however_its_attempt_ends() {
    let (mut b, s) = book(&[(r#""goodput""#, "{}"), (r#"{"interruptions":{"cost":"15m"}}"#, "{}")]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    let mut j = job(1, "red", 0);
    let mut spec = (*j.spec).clone();
    spec.tags.insert("work".into(), "service".into());
    j.spec = spec.into();
    j.attempt = Some(attempt(1, &["n1"], 0, Some(100)));
    w.jobs.insert(JobId(1), j);
    b.before(&record(3600, ended(1, 1, Verdict::Infrastructure)), &w);
    assert_eq!(count(&b, &s[0], 3600), (8 * 3_500_000, 8 * 3_600_000));
    let causes = b.ledger.causes(&s[1], TimeRange::Last(Span::hours(24)), at(3600));
    assert_eq!(causes, BTreeMap::from([(Cause::Hardware, 900_000)]), "it was interrupted");
}

#[test]
fn what_a_cancelled_attempt_did_after_its_checkpoint_is_lost_as_in_reports() {
    let (mut b, s) = book(&[(r#""goodput""#, "{}")]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    let mut j = job(1, "red", 0);
    j.attempt = Some(attempt(1, &["n1"], 0, Some(100)));
    w.jobs.insert(JobId(1), j.clone());
    b.before(&record(3600, ended(1, 1, Verdict::Operator)), &w);
    assert_eq!(count(&b, &s[0], 3600), (0, 8 * 3_600_000));
    let causes = b.ledger.causes(&s[0], TimeRange::Last(Span::hours(24)), at(3600));
    let all = [(Cause::Starting, 8 * 100_000), (Cause::Lost, 8 * 3_500_000)];
    assert_eq!(causes, BTreeMap::from(all));
    // With a checkpoint, what came before it is kept.
    j.attempt = Some(attempt(2, &["n1"], 4000, Some(4000)));
    j.checkpoint =
        serde_json::from_str(&format!(r#"{{"attempt":2,"at":{}}}"#, at(5000).0)).unwrap();
    w.jobs.insert(JobId(1), j);
    b.before(&record(6000, ended(1, 2, Verdict::Operator)), &w);
    assert_eq!(count(&b, &s[0], 6000), (8 * 1_000_000, 8 * 5_600_000));
}

#[test]
fn work_of_days_that_are_final_is_not_taken_back() {
    let (mut b, s) = book(&[(r#""goodput""#, "{}")]);
    let mut w = CounterFixture::default();
    w.nodes.insert(name("n1"), node("n1", "a"));
    let mut j = job(1, "red", 0);
    j.attempt = Some(attempt(1, &["n1"], 0, Some(0)));
    w.jobs.insert(JobId(1), j);
    let (day, hour) = (24 * 3600, 8 * 3_600_000);
    let tail = b.tail(at(10 * day), &w);
    b.before(&record(10 * day, ended(1, 1, Verdict::Infrastructure)), &w);
    // It began at 16:00 and ended ten days later: the day that ended 40 hours before is final.
    assert_eq!(count(&b, &s[0], 10 * day), (200 * hour, 240 * hour));
    let week = TimeRange::Between(at(0), at(8 * day));
    let counted = |l: &Ledger| l.count(&s[0], week, at(10 * day));
    assert_eq!(counted(&b.ledger), counted(&tail), "a verdict on those days stays as it was");
}

#[test]
fn what_is_reported_from_outside_counts_where_it_was_asked_for() {
    let (mut b, s) = book(&[(r#"{"api_latency":{"under":"1s"}}"#, "{}")]);
    let reported = |text: &str| serde_json::from_str::<IndicatorCount>(text).unwrap();
    b.counted(
        at(0),
        &reported(r#"{"sli":{"api_latency":{"under":"1s"}},"good":99,"total":100,"cause":"slow"}"#),
    );
    b.counted(at(0), &reported(r#"{"sli":{"api_latency":{"under":"2s"}},"good":99,"total":100}"#));
    assert_eq!(count(&b, &s[0], 10), (99, 100));
    // Reported later: it counts in its minute, and never after it was reported.
    for minute in [5, 9] {
        let mut late = reported(r#"{"sli":{"api_latency":{"under":"1s"}},"good":1,"total":1}"#);
        late.at = Some(at(minute * 60));
        b.counted(at(6 * 60), &late);
    }
    let last = |now| b.ledger.count(&s[0], TimeRange::Last(Span::mins(1)), at(now)).total;
    assert_eq!([5, 6, 9].map(|minute| last(minute * 60)), [1, 1, 0]);
    assert_eq!(b.watched(), &s[..]);
    // Another set of objectives begins anew.
    b.follow(&[]);
    assert_eq!(count(&b, &s[0], 10), (0, 0));
}
