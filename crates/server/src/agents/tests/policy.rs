//! What the site's policy asks of agents: idle work that ends, work that makes room.

use super::support::{Line, Site, node, ordered, script, site, spec};
use muster_link::messages::{Action, FromAgent, FromServer, ProgressReport, Telemetry};
use muster_model::command::{Command, Observed};
use muster_model::event::Event;
use muster_model::ids::{AttemptKey, JobId, Seq};
use muster_model::job::{JobState, SlotEnd, StopReason};
use muster_model::policy::{Idle, Preemption, SitePolicy};
use muster_model::spec::{CheckpointRequest, CheckpointSpec, GangSpec, JobSpec, Priority};
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;
use std::time::Duration;

async fn policy(s: &Site, policy: SitePolicy) {
    s.brain.system(Command::SetPolicy { policy: policy.into() }).await.unwrap();
}

/// Reports that everything that is ordered runs, until these jobs do.
async fn run_all(s: &Site, lines: &mut BTreeMap<&str, Line>, jobs: &[JobId]) {
    for job in jobs {
        let a = s.job(*job).attempt.clone().expect("it was placed");
        let key = AttemptKey { job: *job, attempt: a.no };
        for slot in &a.placement.slots {
            let line = lines.get_mut(slot.node.as_str()).unwrap();
            line.say(FromAgent::Report { key, observed: Observed::Running, ago: None }).await;
        }
    }
    s.until(|st| jobs.iter().all(|j| st.jobs[j].state == JobState::Running)).await;
}

/// What a node with eight GPUs reports: memory is in use, and all work or none does.
fn telemetry(busy: bool) -> FromAgent {
    let row = if busy { [97.0, 60_000.0, 690.0] } else { [0.0, 60_000.0, 80.0] };
    FromAgent::Telemetry(Box::new(Telemetry {
        at: Time(5),
        columns: ["util", "mem_used", "power"].map(String::from).into(),
        gpus: vec![row.map(Some).to_vec(); 8],
        host: BTreeMap::new(),
    }))
}

/// Nodes report, as agents do, again and again whether their GPUs work, until the log says so: a
/// row counts for a while only.
async fn report_until(
    s: &Site,
    lines: &mut BTreeMap<&str, Line>,
    rows: [(&str, bool); 2],
    so: impl Fn(&muster_engine::State) -> bool,
) {
    let reporting = async {
        while !s.brain.read(&so) {
            for (name, busy) in rows {
                lines.get_mut(name).unwrap().say(telemetry(busy)).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reporting).await.expect("it never came to be");
}

#[tokio::test]
async fn work_that_only_holds_its_gpus_is_warned_and_ended() {
    let s = site().await;
    let mut lines = BTreeMap::new();
    for name in ["n1", "n2"] {
        lines.insert(name, s.idle(name).await.1);
    }
    let idle = Idle { warn_after: Some(Span(200)), end_after: Some(Span(500)) };
    policy(&s, SitePolicy { idle, ..SitePolicy::default() }).await;
    let gang = s.submit(spec(2), script("x")).await;
    let single = s.submit(spec(1), script("x")).await;
    s.until(|st| [gang, single].iter().all(|j| st.jobs[j].attempt.is_some())).await;
    run_all(&s, &mut lines, &[gang, single]).await;

    // The gang shares a node with the single job, and works on the other one.
    let here = s.job(single).attempt.as_ref().unwrap().placement.slots[0].node.clone();
    let there = if here == node("n1") { "n2" } else { "n1" };
    let stops = |st: &muster_engine::State, job: JobId| {
        st.jobs[&job].attempt.as_ref().is_some_and(|a| a.stop.is_some())
    };
    let rows = [(there, true), (here.as_str(), false)];
    report_until(&s, &mut lines, rows, |st| st.jobs[&single].idle_warned.is_some()).await;
    report_until(&s, &mut lines, rows, |st| stops(st, single)).await;
    let stop = s.job(single).attempt.as_ref().unwrap().stop.clone().unwrap();
    assert!(matches!(stop.reason, StopReason::Idle { idle } if idle >= Span(500)), "{stop:?}");
    assert_eq!(s.job(gang).idle_warned, None, "a part of it works");

    let rows = [(there, false), (here.as_str(), false)];
    report_until(&s, &mut lines, rows, |st| stops(st, gang)).await;
    let events = s.brain.records(Seq(0), 1000).await.unwrap();
    for job in [gang, single] {
        let warned = |e: &Event| matches!(e, Event::IdleWarned { job: j, .. } if *j == job);
        let stopped = |e: &Event| matches!(e, Event::StopOrdered { key, .. } if key.job == job);
        let at = |f: &dyn Fn(&Event) -> bool| events.iter().position(|r| f(&r.event)).unwrap();
        assert!(at(&warned) < at(&stopped), "warned before it is ended");
        assert_eq!(events.iter().filter(|r| warned(&r.event)).count(), 1, "and once");
    }
    let line = lines.get_mut(here.as_str()).unwrap();
    line.hear_of(|m| match m {
        FromServer::Desired { runs, .. } => {
            runs.iter().any(|r| matches!(r.action, Action::Stop { .. })).then_some(())
        }
        _ => None,
    })
    .await;
}

fn eight(priority: Priority) -> JobSpec {
    let gang = GangSpec { nodes: Some(1), gpus_per_node: Some(8), ..GangSpec::default() };
    JobSpec { gang, priority, ..JobSpec::default() }
}

#[tokio::test]
async fn work_that_makes_room_is_asked_for_a_checkpoint_then_stopped_then_resumed() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let preemption = Preemption { min_run: Span(0), ..Preemption::default() };
    policy(&s, SitePolicy { preemption, ..SitePolicy::default() }).await;
    let checkpoint = CheckpointSpec {
        dir: "/ckpt".into(),
        request: CheckpointRequest { signal: Some("SIGUSR1".into()) },
        ..CheckpointSpec::default()
    };
    let low = JobSpec { checkpoint: Some(checkpoint), ..eight(Priority::Low) };
    let low = s.submit(low, script("low")).await;
    let key = s.runs(low, &mut line).await;

    let high = s.submit(eight(Priority::High), script("high")).await;
    // The question comes first, and no stop before the answer.
    line.hear_of(|m| match m {
        FromServer::AskCheckpoint { key: k } => {
            assert_eq!(k, key);
            Some(())
        }
        FromServer::Desired { runs, .. } => {
            assert!(runs.iter().all(|r| r.action == Action::Run), "stopped without being asked");
            None
        }
        _ => None,
    })
    .await;
    assert!(s.job(low).attempt.as_ref().is_some_and(|a| a.notice.is_some() && a.stop.is_none()));
    let report = ProgressReport::Checkpoint {
        state: "done".into(),
        step: Some(40),
        path: Some("/ckpt/40".into()),
        bytes: None,
        blocked_s: None,
    };
    line.say(FromAgent::Progress { key, rank: 0, report }).await;
    line.hear_of(|m| match m {
        FromServer::Desired { runs, .. } => {
            let stopped = |r: &&muster_link::messages::RunOrder| {
                r.key == key && matches!(r.action, Action::Stop { .. })
            };
            runs.iter().find(stopped).map(|_| ())
        }
        _ => None,
    })
    .await;
    line.say(FromAgent::Report { key, observed: Observed::Ended(SlotEnd::Stopped), ago: None })
        .await;

    let takes = loop {
        let order = ordered(&mut line).await;
        if order.key.job == high {
            break order.key;
        }
    };
    assert_eq!(s.job(low).state, JobState::Queued);
    line.say(FromAgent::Report { key: takes, observed: Observed::Running, ago: None }).await;
    line.say(FromAgent::Report { key: takes, observed: Observed::Ended(SlotEnd::Ok), ago: None })
        .await;
    let back = loop {
        let order = ordered(&mut line).await;
        if order.key.job == low && order.action == Action::Run {
            break order;
        }
    };
    assert_eq!(back.key.attempt, 2);
    assert_eq!(back.detail.unwrap().resume.as_deref(), Some("/ckpt/40"));
    assert_eq!(s.job(low).preemptions, 1);

    let events = s.brain.records(Seq(0), 1000).await.unwrap();
    let mut order = events.iter().filter_map(|r| match &r.event {
        Event::NoticeGiven { key: k, .. } if *k == key => Some("notice"),
        Event::CheckpointAsked { key: k } if *k == key => Some("asked"),
        Event::CheckpointDone { job, .. } if *job == low => Some("done"),
        Event::StopOrdered { key: k, .. } if *k == key => Some("stop"),
        _ => None,
    });
    assert!(order.by_ref().eq(["notice", "asked", "done", "stop"]));
}
