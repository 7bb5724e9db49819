//! The week behind `muster up --demo`. With every change two days of it are lived: the test of
//! `muster up --demo` itself (`cli/tests/demo.rs`) has the whole week, the soak all of this.

use muster_model::event::{Event, Record};
use muster_model::units::{Span, Time};
use muster_sim::Hosted;
use muster_sim::demo::{LENGTH, Live, NEW_DRIVER, UpcomingJob, Week, demo_history};
use std::collections::{BTreeMap, BTreeSet};

const END: Time = Time(1_900_000_000_000);

fn lived(length: Span, seed: u64, end: Time) -> Week {
    let hosted = Hosted { can: ["qualify".into()].into(), ..Hosted::default() };
    demo_history(length, seed, end, hosted, &mut |_| ()).unwrap()
}

fn records(w: &Week) -> Vec<Record> {
    w.log.iter().map(|l| muster_records::read(&l.body).unwrap()).collect()
}

/// The lines of the log with every time reported from its end. Names of alerts are made from the
/// time they began; here they are numbered.
fn lines(w: &Week, end: Time) -> Vec<String> {
    let mut alerts: Vec<String> = Vec::new();
    for r in records(w) {
        if let Event::AlertOpened { alert } = r.event {
            alerts.push(alert.id);
        }
    }
    let each = |l: &muster_sim::demo::Line| {
        // Whole milliseconds of these weeks; no other number is as large.
        let near = (end.0 - 900_000_000)..(end.0 + 8_000_000_000);
        let (mut out, mut number) = (String::new(), String::new());
        for c in String::from_utf8_lossy(&l.body).chars().chain(['\n']) {
            if c.is_ascii_digit() {
                number.push(c);
                continue;
            }
            match number.parse::<i64>() {
                Ok(n) if near.contains(&n) => out.push_str(&(n - end.0).to_string()),
                _ => out.push_str(&number),
            }
            number.clear();
            out.push(c);
        }
        if out.contains("alert") {
            for (i, id) in alerts.iter().enumerate() {
                out = out.replace(id, &format!("alert-{i}"));
            }
        }
        out
    };
    w.log.iter().map(each).collect()
}

/// The same seed gives the same, whenever it ends.
fn same_whenever_it_ends(length: Span) -> Week {
    let first = lived(length, 1, END);
    let later = END + Span::hours(24 * 40 + 3);
    let again = lived(length, 1, later);
    let (reported, reported_again) = (lines(&first, END), lines(&again, later));
    for (a, b) in reported.iter().zip(&reported_again) {
        assert_eq!(a, b);
    }
    assert_eq!(reported.len(), reported_again.len());
    assert_eq!(first.past, again.past);
    first
}

/// It has everything that a page shows.
fn has_everything(w: &Week, all: &[Record]) {
    assert_eq!(w.refused, Vec::<String>::new());
    let kinds: BTreeSet<String> = all
        .iter()
        .filter_map(|r| {
            let text: serde_json::Value = serde_json::from_slice(&r.to_json().ok()?).ok()?;
            text.get("kind")?.as_str().map(str::to_owned)
        })
        .collect();
    for kind in [
        "job_succeeded",
        "job_failed",
        "job_requeued",
        "checkpoint_done",
        "fault_seen",
        "finding_opened",
        "finding_closed",
        "incident_opened",
        "incident_closed",
        "remediation_chosen",
        "remediation_ended",
        "act_asked",
        "qualification_ended",
        "node_lost",
        "node_back",
        "drain_started",
        "node_drained",
        "alert_opened",
        "alert_closed",
        "alert_acknowledged",
        "breaker_set",
        "runbook_started",
        "silence_set",
        "counts_reported",
        "incident_noted",
    ] {
        assert!(kinds.contains(kind), "{kind} is missing");
    }
    assert_eq!(w.past.len(), 64);
}

/// It ends in the middle of something.
fn goes_on(w: &Week, all: &[Record]) {
    let mut state = muster_engine::State::default();
    for r in all {
        state.apply(r).unwrap();
    }
    let open: Vec<_> = state.health.open_incidents().collect();
    assert!(open.iter().any(|i| i.cause.to_string().contains(NEW_DRIVER)), "{open:?}");
    let waits = |r: &&std::sync::Arc<muster_model::remediation::Remediation>| {
        r.step == muster_model::remediation::RemediationStep::Approval
    };
    assert!(state.health.live_remediations().filter(waits).count() >= 1);
    assert!(state.jobs.values().filter(|j| j.attempt.is_some()).count() > 20);
    // What the log says runs is what the nodes take up.
    for (node, past) in &w.past {
        let log: BTreeSet<_> = state.attempts_on(node).filter_map(|j| j.attempt_key()).collect();
        let here: BTreeSet<_> = past.work.iter().map(|o| o.key).collect();
        assert!(here.is_subset(&log), "{node}: {here:?} but the log has {log:?}");
    }
}

/// Sweeps save every 20 minutes and stand still for ten seconds: so far apart are their checkpoints
/// in the log, but for those that were asked for or that a slow node delayed.
fn saves_at_its_own_times(all: &[Record]) {
    let every = Span::mins(20);
    let (mut sweeps, mut last) = (BTreeSet::new(), BTreeMap::new());
    let (mut exact, mut gaps) = (0, 0);
    for r in all {
        match &r.event {
            Event::JobSubmitted { id, spec, .. }
                if spec.simulate.as_ref().and_then(|w| w.checkpoint) == Some(every) =>
            {
                sweeps.insert(*id);
            }
            Event::CheckpointDone { job, checkpoint } if sweeps.contains(job) => {
                if let Some(before) = last.insert((*job, checkpoint.attempt), checkpoint.at) {
                    gaps += 1;
                    exact += u32::from(checkpoint.at == before + every + Span::secs(10));
                }
            }
            _ => {}
        }
    }
    assert!(exact > 50 && 2 * exact > gaps, "{exact} of {gaps}");
}

fn ended_well(all: &[Record]) -> usize {
    all.iter().filter(|r| matches!(r.event, Event::JobSucceeded { .. })).count()
}

/// In two days everything happens that happens in the week, only closer together. Each life costs
/// seconds: all that these two show is looked at here.
#[test]
fn two_days_are_the_same_whenever_they_end_and_have_everything_that_a_page_shows() {
    let w = same_whenever_it_ends(Span::hours(48));
    let all = records(&w);
    has_everything(&w, &all);
    saves_at_its_own_times(&all);
    goes_on(&w, &all);
    let over = ended_well(&all);
    assert!((200..1500).contains(&over), "{over} jobs ended well");
}

#[test]
fn another_seed_is_another_story() {
    let reported = |seed| lines(&lived(Span::hours(4), seed, END), END);
    assert_ne!(reported(1), reported(2));
}

#[test]
#[ignore = "takes minutes: `cargo xtask soak year` runs it"]
fn the_whole_week_is_the_same_whenever_it_ends_and_has_everything_that_a_page_shows() {
    let w = same_whenever_it_ends(LENGTH);
    let all = records(&w);
    has_everything(&w, &all);
    saves_at_its_own_times(&all);
    goes_on(&w, &all);
    let over = ended_well(&all);
    assert!((1000..4000).contains(&over), "{over} jobs ended well");
    assert!(w.log.len() < 80_000, "{} records", w.log.len());
}

#[test]
fn work_goes_on_coming_from_the_same_seed() {
    let first: Vec<UpcomingJob> = Live::new(1).unwrap().take(200).collect();
    let again: Vec<UpcomingJob> = Live::new(1).unwrap().take(200).collect();
    assert_eq!(first, again);
    assert!(first.windows(2).all(|w| w[0].after <= w[1].after));
    assert!(first[199].after < Span::hours(3), "{:?}", first[199].after);
}
