//! What repeats: an open finding stays fresh, and the log does not grow by it.

use super::*;
use crate::common::{crash, gang, replay};
use muster_model::finding::Finding;
use muster_model::job::{Exit, JobState, SlotEnd, Verdict};
use muster_model::units::Span;

fn detect_only(w: &mut TestSite) {
    w.policy(|p| {
        for a in [Action::Drain, Action::RestartJob, Action::IsolateGpu, Action::Watch] {
            p.remediations.modes.insert(a, Mode::DetectOnly);
        }
    });
}

fn finding(w: &TestSite, n: &NodeName, kind: &str) -> Arc<Finding> {
    w.engine.state().health.open_on(n).find(|f| f.seen.kind == kind).expect("it is open").clone()
}

fn changes(w: &TestSite, from: usize) -> usize {
    w.since(from).filter(|e| matches!(e, Event::FindingChanged { .. })).count()
}

#[test]
fn a_gpu_that_throws_faults_for_an_hour_is_named_when_it_kills_a_job() {
    let mut w = able(4);
    detect_only(&mut w);
    let n = node(0);
    for _ in 0..55 {
        xid79(&mut w, &n);
        w.sleep(Span::mins(1));
    }
    let job = w.run(gang(4, 8));
    for _ in 0..5 {
        xid79(&mut w, &n);
        w.sleep(Span::mins(1));
    }
    xid79(&mut w, &n);
    w.report(job, &n, crash(0, 1));
    w.stopped(job);
    let j = w.job(job);
    assert_eq!(j.past[0].verdict, Verdict::Infrastructure, "{:?}", j.past);
    assert_eq!(j.past[0].findings, [finding(&w, &n, "gpu-off-bus").id]);
    assert_ne!(j.state, JobState::Failed, "it is tried again");
    let f = finding(&w, &n, "gpu-off-bus");
    assert_eq!((f.seen.count, f.seen.last_seen), (61, w.now));
}

#[test]
fn what_one_program_did_is_no_evidence_against_another() {
    let mut w = able(1);
    detect_only(&mut w);
    let n = node(0);
    let job = w.run(gang(1, 4));
    let key = w.key(job);
    let out_of_memory = |w: &mut TestSite, pid: i32, attempt: Option<AttemptKey>| {
        let text = format!("Killed process {pid}");
        let fault = fault("xid-31", 0);
        let (code, at) = ("oom".to_owned(), w.now);
        report_fault(
            w,
            &n,
            ObservedFault { code, at, gpu: None, pid: Some(pid), attempt, text, ..fault },
        );
    };
    let reported = |w: &TestSite| {
        let f = finding(w, &n, "oom");
        (f.seen.attempt, f.seen.evidence[0].clone())
    };
    // Whose process that was is not known: it was gone too soon.
    out_of_memory(&mut w, 19, None);
    assert_eq!(reported(&w), (None, "oom: Killed process 19".to_owned()));
    w.sleep(Span::secs(2));
    out_of_memory(&mut w, 24, Some(key));
    assert_eq!(reported(&w), (Some(key), "oom: Killed process 24".to_owned()));
    out_of_memory(&mut w, 31, None);
    w.sleep(Span::mins(2));
    let f = finding(&w, &n, "oom");
    assert!(f.seen.evidence.iter().all(|l| !l.contains("Killed process 31")), "{f:?}");
}

#[test]
fn each_job_that_ran_out_of_memory_has_its_own_evidence() {
    let mut w = able(1);
    detect_only(&mut w);
    let n = node(0);
    let mut ended = Vec::new();
    for pid in [19, 24, 31] {
        let job = w.run(gang(1, 4));
        let key = w.key(job);
        let text = format!("Killed process {pid}");
        let (code, at, attempt) = ("oom".to_owned(), w.now, Some(key));
        let reported = fault("xid-31", 0);
        let reported =
            ObservedFault { code, at, gpu: None, pid: Some(pid), attempt, text, ..reported };
        report_fault(&mut w, &n, reported);
        let exit = Exit { rank: 0, code: None, signal: Some(9), note: String::new() };
        w.report(job, &n, Observed::Ended(SlotEnd::Failed { exit }));
        w.sleep(Span::secs(10));
        ended.push((job, key, format!("oom: Killed process {pid}")));
    }
    let s = w.engine.state();
    for (job, key, line) in &ended {
        let past = &w.job(*job).past[0];
        assert_eq!(past.verdict, Verdict::Application, "{past:?}");
        let found = past.findings.iter().map(|id| &s.health.findings[id]);
        let oom: Vec<_> = found.filter(|f| f.seen.kind == "oom").collect();
        assert_eq!(oom.len(), 1, "{past:?}");
        assert_eq!((oom[0].seen.attempt, &oom[0].seen.evidence[0]), (Some(*key), line));
    }
    let open = s.health.open_on(&n).filter(|f| f.seen.kind == "oom").count();
    assert_eq!(open, 1, "those of attempts that ended are over");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn an_open_finding_is_found_behind_others_that_are_closed() {
    let mut w = able(4);
    detect_only(&mut w);
    let n = node(0);
    xid79(&mut w, &n);
    for i in 1..4 {
        see(&mut w, "config-drift", Entity::Node(node(i)), Severity::Warning);
        let id = finding(&w, &node(i), "config-drift").id;
        w.ok(Command::CloseFinding { id, reason: "meant to be so".into() });
    }
    w.sleep(Span::mins(30));
    let job = w.run(gang(4, 8));
    w.sleep(Span::mins(5));
    xid79(&mut w, &n);
    w.report(job, &n, crash(0, 1));
    w.stopped(job);
    assert_eq!(w.job(job).past[0].verdict, Verdict::Infrastructure, "{:?}", w.job(job).past);
}

#[test]
fn a_repeat_counts_and_names_the_attempt_and_the_log_grows_slowly() {
    let mut w = able(4);
    detect_only(&mut w);
    let n = node(0);
    xid79(&mut w, &n);
    let opened = finding(&w, &n, "gpu-off-bus").opened_at;
    let job = w.run(gang(4, 8));
    let from = w.log.len();
    let hit = |w: &mut TestSite, rank| {
        let mut f = fault("xid-79", 3);
        (f.at, f.attempt, f.rank) = (w.now, Some(w.key(job)), Some(rank));
        report_fault(w, &n, f);
    };
    hit(&mut w, 5);
    let f = finding(&w, &n, "gpu-off-bus");
    assert_eq!((f.seen.attempt, f.seen.rank), (Some(w.key(job)), Some(5)), "at once");
    assert_eq!((f.seen.count, f.seen.last_seen), (2, w.now));
    for _ in 0..360 {
        w.pass(Span::secs(10));
        hit(&mut w, 5);
    }
    let n_changes = changes(&w, from);
    assert!(n_changes <= 30, "{n_changes} records of what repeats every ten seconds for an hour");
    w.sleep(Span::mins(6));
    let f = finding(&w, &n, "gpu-off-bus");
    assert_eq!(f.seen.count, 362, "nothing is lost");
    assert_eq!(f.seen.last_seen, w.now - Span::mins(6));
    assert_eq!((f.opened_at, f.seen.first_seen), (opened, opened));
    let quiet = w.log.len();
    w.sleep(Span::hours(2));
    assert_eq!(changes(&w, quiet), 0, "when nothing comes nothing is written");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn what_a_detector_reports_again_is_no_more_than_it_says() {
    let mut w = able(2);
    detect_only(&mut w);
    let n = node(0);
    let since = w.now;
    // A detector reports how often it saw it in all, every ten minutes.
    for i in 0..6u64 {
        let mut f = ObservedFinding::new(
            "link-down",
            Entity::Port(n.clone(), "mlx5_0".into()),
            Severity::Critical,
            since,
        );
        (f.last_seen, f.count) = (w.now, 1 + i * 600);
        w.ok(Command::FindingsSeen { findings: vec![f.because("it is down")] });
        w.sleep(Span::mins(10));
    }
    let f = finding(&w, &n, "link-down");
    assert_eq!(f.seen.count, 3001);
    assert_eq!(w.now.since(f.seen.last_seen), Span::mins(10));
    // And it is so until the detector says that it is over, also for a job that is younger than
    // what it last reported.
    let job = w.run(gang(2, 8));
    w.pass(Span::mins(2));
    w.report(job, &n, crash(0, 1));
    w.stopped(job);
    assert_eq!(w.job(job).past[0].verdict, Verdict::Infrastructure, "{:?}", w.job(job).past);
}

#[test]
fn a_repeat_after_the_end_of_a_job_names_its_cause() {
    let mut w = able(2);
    detect_only(&mut w);
    let n = node(0);
    xid79(&mut w, &n);
    w.sleep(Span::mins(30));
    let job = w.run(gang(2, 8));
    w.pass(Span::mins(1));
    w.report(job, &n, crash(0, 1));
    w.stopped(job);
    w.sleep(Span::mins(1));
    assert_eq!(w.job(job).state, JobState::Failed);
    assert_eq!(w.job(job).past[0].verdict, Verdict::Application);
    xid79(&mut w, &n);
    assert_eq!(w.job(job).past[0].verdict, Verdict::Infrastructure);
    assert_eq!(w.job(job).state, JobState::Failed);
}

#[test]
fn a_gpu_that_was_bad_before_does_not_excuse_work_on_others() {
    let mut w = able(1);
    detect_only(&mut w);
    let n = node(0);
    let first = w.run(gang(1, 1));
    let held = w.job(first).attempt.as_ref().unwrap().placement.slots[0].gpus;
    let bad = (0..8).find(|g| !held.iter().any(|h| h == *g)).unwrap();
    let hit = |w: &mut TestSite| {
        let mut f = fault("xid-79", bad);
        f.at = w.now;
        report_fault(w, &n, f);
    };
    w.finish(first);
    hit(&mut w);
    w.sleep(Span::mins(1));
    let job = w.run(gang(1, 1));
    assert_eq!(w.job(job).attempt.as_ref().unwrap().placement.slots[0].gpus, held);
    for _ in 0..3 {
        w.sleep(Span::mins(1));
        hit(&mut w);
    }
    w.report(job, &n, crash(0, 1));
    for _ in 0..3 {
        w.sleep(Span::mins(1));
        hit(&mut w);
    }
    assert_eq!(w.job(job).state, JobState::Failed);
    assert_eq!(w.job(job).past[0].verdict, Verdict::Application, "{:?}", w.job(job).past);
}
