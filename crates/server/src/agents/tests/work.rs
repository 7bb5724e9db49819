use super::support::{Line, node, ordered, orders, script, site, spec};
use crate::brain::Attach;
use muster_link::messages::{
    Action, FromAgent, FromServer, LogChunk, ProgressReport, Stream, Telemetry,
};
use muster_model::command::{Actor, Command, Observed, Request};
use muster_model::ids::{AttemptKey, Seq};
use muster_model::inject::Inject;
use muster_model::job::{Exit, JobState, SlotEnd};
use muster_model::spec::{CheckpointRequest, CheckpointSpec, JobSpec};
use muster_model::units::{Span, Time};

fn chunk(key: AttemptKey, rank: u32, offset: u64, text: &str) -> LogChunk {
    let data = bytes::Bytes::copy_from_slice(text.as_bytes());
    LogChunk { key, rank, stream: Stream::Stdout, offset, age: Some(Span(0)), data }
}

async fn forgets(line: &mut Line, key: AttemptKey) {
    line.hear_of(|m| match m {
        FromServer::Forget { keys } if keys == [key] => Some(()),
        _ => None,
    })
    .await;
}

#[tokio::test]
async fn a_node_gets_its_orders_from_a_commit_whose_outcome_was_not_known() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let job = s.commit_unheard(spec(1), script("true")).await;
    // What is written next does not fit the log, so the server reads it anew.
    let (name, description) = ("other".parse().unwrap(), String::new());
    let _ = s.brain.system(Command::CreateProject { name, description }).await;
    s.until(|st| st.jobs.contains_key(&job)).await;
    assert_eq!(ordered(&mut line).await.key.job, job);
}

#[tokio::test]
async fn what_a_node_reports_of_an_attempt_that_was_never_there_is_counted_and_changes_nothing() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("sleep 1000")).await;
    let key = s.runs(job, &mut line).await;
    let mut other = s.enrolled("n2").await;
    other.hello.observed = vec![(key, Observed::Running)];
    let (mut stranger, _) = other.greet().await;
    let observed = Observed::Ended(SlotEnd::Stopped);
    stranger.say(FromAgent::Report { key, observed, ago: None }).await;
    forgets(&mut stranger, key).await;
    assert_eq!(s.agents.foreign_reports(), 2);
    s.brain.read(|st| {
        assert!(st.nodes[&node("n2")].orphans.is_empty());
        assert_eq!(st.jobs[&job].state, JobState::Running);
    });
}

#[tokio::test]
async fn a_gang_runs_on_two_nodes_and_its_output_is_kept() {
    let s = site().await;
    let (_a, mut one) = s.idle("n1").await;
    let (_b, mut two) = s.idle("n2").await;
    let secret = ("default".parse().unwrap(), "key".parse().unwrap());
    let request = Request {
        actor: Actor::system(),
        at: s.brain.now(),
        key: None,
        if_version: None,
        command: Command::SetSecret { project: secret.0, name: secret.1 },
    };
    let value = ("default".parse().unwrap(), "key".parse().unwrap(), Some("hush".to_string()));
    let attach = Attach { secret: Some(value), ..Attach::default() };
    s.brain.call(request, attach).await.unwrap();

    let spec = JobSpec { secrets: vec!["key".parse().unwrap()], ..spec(2) };
    let job = s.submit(spec, script("echo hi")).await;
    let (o1, o2) = (ordered(&mut one).await, ordered(&mut two).await);
    let key = o1.key;
    assert_eq!((key.job, o1.action), (job, Action::Run));
    let (d1, d2) = (o1.detail.unwrap(), o2.detail.unwrap());
    assert_eq!(d1.run.script.as_deref(), Some("echo hi"));
    assert_eq!(d1.secrets.0["key"], "hush");
    assert_eq!((d1.world_size, d1.nodes.len(), d1.limits.cpus), (8, 2, None));
    let mut first = [d1.slot.first_rank, d2.slot.first_rank];
    first.sort_unstable();
    assert_eq!(first, [0, 4]);

    for line in [&mut one, &mut two] {
        line.say(FromAgent::Report { key, observed: Observed::Running, ago: None }).await;
        let again = ordered(line).await;
        assert!(again.detail.is_none(), "what it has is not sent again");
    }
    s.until(|st| st.jobs[&job].state == JobState::Running).await;

    let (r1, r2) = (d1.slot.first_rank, d2.slot.first_rank);
    one.log(&chunk(key, r1, 0, "hello\n")).await;
    let kept = one
        .hear_of(|m| match m {
            FromServer::LogKept { kept } => Some(kept),
            _ => None,
        })
        .await;
    assert_eq!((kept[0].rank, kept[0].offset), (r1, 6));
    // A node speaks for its own ranks only.
    one.log(&chunk(key, r2, 0, "forged\n")).await;

    one.log(&chunk(key, r1, 6, "bye\n")).await;
    one.say(FromAgent::Report { key, observed: Observed::Ended(SlotEnd::Ok), ago: None }).await;
    forgets(&mut one, key).await;
    two.say(FromAgent::Report { key, observed: Observed::Ended(SlotEnd::Ok), ago: None }).await;
    forgets(&mut two, key).await;
    assert_eq!(s.job(job).state, JobState::Succeeded, "the end is durable before it is forgotten");

    let piece = s.keeper.read(key, r1, Stream::Stdout, 0, 100).await.unwrap();
    assert_eq!(&piece.data[..], b"hello\nbye\n");
    assert_eq!(s.keeper.ranks(key).await.unwrap().len(), 1, "the forged output is not kept");
}

#[tokio::test]
async fn late_output_is_kept_from_every_node_of_a_large_gang_and_of_no_rank_it_never_had() {
    let s = site().await;
    let mut lines = Vec::new();
    for n in 1..=17 {
        let name = format!("n{n}");
        let (_, line) = s.idle(&name).await;
        lines.push((node(&name), line));
    }
    let job = s.submit(spec(17), script("true")).await;
    let mut key = None;
    for (_, line) in &mut lines {
        let of = ordered(line).await.key;
        line.say(FromAgent::Report { key: of, observed: Observed::Ended(SlotEnd::Ok), ago: None })
            .await;
        forgets(line, of).await;
        key = Some(of);
    }
    let key = key.unwrap();
    s.until(|st| st.jobs[&job].state.is_final()).await;
    let past = s.job(job).past[0].nodes.clone();
    let (_, line) = lines.iter_mut().find(|(n, _)| !past.contains(n)).expect("16 are remembered");
    for rank in [17 * 4, 16 * 4] {
        line.log(&chunk(key, rank, 0, "late\n")).await;
        line.hear_of(|m| matches!(m, FromServer::LogKept { .. }).then_some(())).await;
    }
    assert_eq!(s.keeper.ranks(key).await.unwrap().len(), 1);
    let piece = s.keeper.read(key, 16 * 4, Stream::Stdout, 0, 100).await.unwrap();
    assert_eq!(&piece.data[..], b"late\n");
}

#[tokio::test]
async fn a_cancelled_job_is_ordered_to_stop() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("sleep 1000")).await;
    let key = s.runs(job, &mut line).await;
    s.brain.system(Command::Cancel { job }).await.unwrap();
    loop {
        if matches!(ordered(&mut line).await.action, Action::Stop { .. }) {
            break;
        }
    }
    line.say(FromAgent::Report { key, observed: Observed::Ended(SlotEnd::Stopped), ago: None })
        .await;
    forgets(&mut line, key).await;
    assert_eq!(s.job(job).state, JobState::Cancelled);
}

#[tokio::test]
async fn a_failed_rank_gives_its_exit_code() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("exit 7")).await;
    let key = ordered(&mut line).await.key;
    let exit = Exit { rank: 0, code: Some(7), signal: None, note: String::new() };
    let end = SlotEnd::Failed { exit };
    line.say(FromAgent::Report { key, observed: Observed::Ended(end), ago: None }).await;
    forgets(&mut line, key).await;
    // Its end is held back for a moment: its node may still name another cause.
    s.until(|st| st.jobs.values().all(|j| j.state.is_final())).await;
    assert_eq!((s.job(job).state, s.job(job).exit_code), (JobState::Failed, Some(7)));
}

#[tokio::test]
async fn when_ranks_ended_is_what_their_agent_says_and_never_before_their_start() {
    let s = site().await;
    let (mut agent, mut line) = s.idle("n1").await;
    // Said in a report, and on the next connection.
    for later in [false, true] {
        let job = s.submit(spec(1), script("true")).await;
        let mut key = ordered(&mut line).await.key;
        while key.job != job {
            key = ordered(&mut line).await.key;
        }
        line.say(FromAgent::Report { key, observed: Observed::Running, ago: None }).await;
        s.until(|st| st.jobs[&job].state == JobState::Running).await;
        let (observed, ago) = (Observed::Ended(SlotEnd::Ok), Span::hours(1));
        if later {
            drop(line);
            agent.hello.observed = vec![(key, observed)];
            agent.hello.ended_ago = vec![(key, ago)];
            (line, _) = agent.greet().await;
        } else {
            line.say(FromAgent::Report { key, observed, ago: Some(ago) }).await;
        }
        forgets(&mut line, key).await;
        let past = s.job(job).past[0].clone();
        assert_eq!(Some(past.freed()), past.started_at, "{past:?}");
    }
}

#[tokio::test]
async fn a_returning_agent_gets_only_what_it_does_not_know() {
    let s = site().await;
    let (mut agent, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("sleep 1000")).await;
    let key = ordered(&mut line).await.key;
    drop(line);

    // It had not started it: everything comes again.
    let (mut line, _) = agent.greet().await;
    assert!(ordered(&mut line).await.detail.is_some());
    drop(line);

    agent.hello.observed = vec![(key, Observed::Running)];
    let (mut line, _) = agent.greet().await;
    let order = ordered(&mut line).await;
    assert_eq!((order.key, order.action, order.detail.is_none()), (key, Action::Run, true));
    assert_eq!(s.job(job).state, JobState::Running);
    drop(line);

    agent.hello.observed = vec![(key, Observed::Ended(SlotEnd::Ok))];
    let (mut line, _) = agent.greet().await;
    forgets(&mut line, key).await;
    assert_eq!(s.job(job).state, JobState::Succeeded);
}

#[tokio::test]
async fn an_agent_does_not_forget_ranks_that_may_still_run() {
    let s = site().await;
    let (mut agent, mut line) = s.idle("n1").await;
    let dir = CheckpointSpec { dir: "/ckpt".into(), ..CheckpointSpec::default() };
    let job = s.submit(JobSpec { checkpoint: Some(dir), ..spec(1) }, script("sleep 1000")).await;
    let key = s.runs(job, &mut line).await;
    let observed = Observed::Ended(SlotEnd::unproven("the agent's directory is a copy"));
    line.say(FromAgent::Report { key, observed: observed.clone(), ago: None }).await;
    s.until(|st| st.jobs[&job].state == JobState::Stopping).await;
    drop(line);
    // Otherwise the next one would know nothing of them, which reads as: they are gone.
    agent.hello.observed = vec![(key, observed)];
    let (mut line, _) = agent.greet().await;
    let next = line.hear().await;
    assert!(matches!(next, FromServer::Desired { .. }), "no forgetting: {next:?}");
    assert_eq!((s.job(job).state, s.job(job).attempts), (JobState::Stopping, 1));
}

#[tokio::test]
async fn an_agent_in_another_directory_does_not_end_the_ranks_of_the_first() {
    let s = site().await;
    let mut agent = s.enrolled("n1").await;
    agent.hello.place = "first".into();
    let (mut line, _) = agent.greet().await;
    let dir = CheckpointSpec { dir: "/ckpt".into(), ..CheckpointSpec::default() };
    let job = s.submit(JobSpec { checkpoint: Some(dir), ..spec(1) }, script("sleep 1000")).await;
    s.runs(job, &mut line).await;
    drop(line);
    // The node's key in a directory without records of what runs.
    agent.hello.place = "copy".into();
    let (mut line, _) = agent.greet().await;
    assert!(orders(&mut line).await.is_empty(), "nothing starts beside them");
    assert_eq!((s.job(job).state, s.job(job).attempts), (JobState::Stopping, 1));
    drop(line);
    // Who started them knows that they are gone.
    agent.hello.place = "first".into();
    let (mut line, _) = agent.greet().await;
    let next = ordered(&mut line).await.key;
    assert_eq!((next.job, next.attempt), (job, 2));
}

#[tokio::test]
async fn what_runs_on_a_returning_lost_node_is_not_ordered_any_more() {
    let s = site().await;
    let (mut agent, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("sleep 1000")).await;
    let key = s.runs(job, &mut line).await;
    s.lose("n1").await;
    agent.hello.observed = vec![(key, Observed::Running)];
    let (mut line, _) = agent.greet().await;
    assert!(orders(&mut line).await.iter().all(|o| o.key != key));
}

#[tokio::test]
async fn nothing_is_ordered_on_a_node_that_is_ahead_until_an_operator_says_so() {
    let s = site().await;
    let mut agent = s.enrolled("n1").await;
    agent.hello.seq = Seq(1_000_000);
    let foreign = AttemptKey { job: muster_model::ids::JobId(77), attempt: 1 };
    agent.hello.observed = vec![(foreign, Observed::Running)];
    let (mut line, welcome) = agent.greet().await;
    assert!(matches!(welcome, FromServer::Welcome { protected: true, .. }));
    line.say(FromAgent::Report { key: foreign, observed: Observed::Ended(SlotEnd::Ok), ago: None })
        .await;
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    let next = line.hear().await;
    assert!(matches!(next, FromServer::Ack { .. }), "no orders, no forgetting: {next:?}");
    s.brain.system(Command::Reconcile { node: node("n1") }).await.unwrap();
    let next = line.hear().await;
    assert!(matches!(next, FromServer::Welcome { protected: false, .. }), "{next:?}");
    assert!(orders(&mut line).await.is_empty());
}

#[tokio::test]
async fn a_job_whose_payload_is_gone_ends_with_the_reason() {
    let s = site().await;
    let (_a, _line) = s.idle("n1").await;
    let request = Request {
        actor: Actor::system(),
        at: s.brain.now(),
        key: None,
        if_version: None,
        command: Command::Submit { spec: std::sync::Arc::new(spec(1)) },
    };
    s.brain.call(request, Attach::default()).await.unwrap();
    s.until(|st| st.jobs.values().any(|j| j.state == JobState::Failed)).await;
    let reason = s.brain.read(|st| st.jobs.values().next().unwrap().reason.clone());
    assert!(reason.as_ref().unwrap().contains("not stored"), "{reason:?}");
}

#[tokio::test]
async fn checkpoints_are_asked_for_and_reported_once() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let checkpoint = CheckpointSpec {
        dir: "/ckpt".into(),
        request: CheckpointRequest { signal: Some("SIGUSR1".into()) },
        ..CheckpointSpec::default()
    };
    let job = s.submit(JobSpec { checkpoint: Some(checkpoint), ..spec(1) }, script("x")).await;
    let key = s.runs(job, &mut line).await;
    s.brain.system(Command::AskCheckpoint { job }).await.unwrap();
    line.hear_of(|m| matches!(m, FromServer::AskCheckpoint { key: k } if k == key).then_some(()))
        .await;
    for rank in 0..4 {
        let report = ProgressReport::Checkpoint {
            state: "done".into(),
            step: Some(10),
            path: Some("/ckpt/10".into()),
            bytes: Some(1 << 30),
            blocked_s: Some(1.5),
        };
        line.say(FromAgent::Progress { key, rank, report }).await;
    }
    let step = ProgressReport::Step {
        step: 11,
        t: Some(0.4),
        stages: [("data".to_string(), 0.1)].into(),
        loss: None,
    };
    line.say(FromAgent::Progress { key, rank: 3, report: step.clone() }).await;
    // A rank that does not run there.
    line.say(FromAgent::Progress { key, rank: 9, report: step }).await;
    s.until(|st| st.jobs[&job].checkpoint.is_some()).await;
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    line.hear_of(|m| matches!(m, FromServer::Ack { .. }).then_some(())).await;
    let c = s.job(job).checkpoint.clone().unwrap();
    assert_eq!((c.path.as_deref(), c.blocked_ms), (Some("/ckpt/10"), Some(1500)));
    assert_eq!(s.job(job).checkpoint_asked, None);
    let events = s.brain.records(Seq(0), 1000).await.unwrap();
    let reported = |r: &&std::sync::Arc<muster_model::event::Record>| {
        matches!(r.event, muster_model::event::Event::CheckpointDone { .. })
    };
    assert_eq!(events.iter().filter(reported).count(), 1);
    let steps = s.agents.steps(key);
    assert_eq!((steps.len(), steps[0].rank, steps[0].step), (1, 3, 11));
}

#[tokio::test]
async fn telemetry_is_seen_and_never_logged() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let before = s.brain.durable();
    let t = Telemetry {
        at: Time(5),
        columns: vec!["temp".into()],
        gpus: vec![vec![Some(61.5)], vec![None]],
        host: [("load".to_string(), 1.0)].into(),
    };
    line.say(FromAgent::Telemetry(Box::new(t))).await;
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    line.hear().await;
    let w = s.agents.telemetry(&node("n1")).unwrap();
    assert_eq!((w.rows.len(), w.rows[0].gpus[0]), (1, 61.5));
    assert_eq!(s.brain.durable(), before);
}

#[tokio::test]
async fn an_injected_fault_is_answered_by_the_node() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let agents = s.agents.clone();
    let asked =
        tokio::spawn(async move { agents.inject(&node("n1"), Inject::LoseGpu { gpu: 3 }).await });
    assert!(matches!(line.hear().await, FromServer::Inject { fault: Inject::LoseGpu { gpu: 3 } }));
    line.say(FromAgent::Injected { ok: false, message: "this node is real".into() }).await;
    assert_eq!(asked.await.unwrap(), Err("this node is real".into()));
    let none = s.agents.inject(&node("n9"), Inject::LoseGpu { gpu: 3 }).await;
    assert!(none.unwrap_err().contains("not connected"));
}

#[tokio::test]
async fn a_second_hello_ends_the_session_and_nothing_else() {
    let s = site().await;
    let (agent, mut line) = s.idle("n1").await;
    let (_b, mut other) = s.idle("n2").await;
    line.say(FromAgent::Hello(Box::new(agent.hello.clone()))).await;
    line.is_closed().await;
    other.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    assert!(matches!(other.hear().await, FromServer::Ack { .. }));
}
