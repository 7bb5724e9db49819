//! Drills with real processes: nothing in them is simulated but the machines they are said to be
//! on.

use super::processes::{self, ProcessGroups, Slowed};
use super::result::{DrillObservation, Outcome};
use super::scene::{
    Actor, Drill, Expect, ExpectedJobOutcome, ExpectedRemediation, Play, RealDrill, Setting,
};
use super::site::Site;
use muster_api::{CreateToken, FindingsQuery, Job};
use muster_client::{Client, JobAction};
use muster_model::job::JobState;
use muster_model::remediation::{Action, RemediationStep};
use muster_model::spec::{GangSpec, JobSpec, OnPartition, Retries, RunSpec};
use muster_model::units::{Span, Time};
use muster_terminal::ctx::now;
use muster_terminal::fail::Fail;
use rustix::process::Signal;
use std::process::Stdio;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(240);
const EVERY: Duration = Duration::from_millis(100);
/// How fast nodes live where real ranks report their steps: a window of the watch is four
/// seconds then, and holds a dozen of steps.
const PACE: u32 = 5;

/// A rank that computes a little, waits as one waits for others, and reports it.
const TRAINS: &str = r#"
step=0
now() { date +%s%N; }
secs() { printf '%d.%09d' $(($1 / 1000000000)) $(($1 % 1000000000)); }
while :; do
  a=$(now); i=0
  while [ $i -lt 40000 ]; do i=$((i + 1)); done
  b=$(now); sleep 0.15; c=$(now); step=$((step + 1))
  printf '{"step":%d,"t":%s,"stages":{"compute":%s,"comm":%s}}\n' \
    $step "$(secs $((c - a)))" "$(secs $((b - a)))" "$(secs $((c - b)))" >> "$MUSTER_REPORT"
done
"#;
/// A rank that does nothing, and goes on doing it.
const WAITS: &str = "while :; do sleep 0.2; done";

pub(crate) fn drills() -> Vec<Drill> {
    let of = |name, about, nodes, speed, kind| Drill {
        name,
        about,
        set: Setting { nodes, speed, lost_after: lost_after(kind), ..Setting::default() },
        play: Play::Real(kind),
    };
    vec![
        of(
            "server-loss",
            "the server is killed and started again; real ranks continue",
            4,
            1,
            RealDrill::ServerLoss,
        ),
        of("rank-killed-real", "a real rank is killed", 4, 1, RealDrill::RankKilled),
        of(
            "agent-stopped",
            "a real agent is stopped, and continues later",
            0,
            1,
            RealDrill::AgentStopped,
        ),
        of(
            "slow-rank-real",
            "a real rank gets little of a processor",
            8,
            PACE,
            RealDrill::SlowRank,
        ),
        of(
            "slow-job-real",
            "all real ranks get little of a processor",
            8,
            PACE,
            RealDrill::SlowJob,
        ),
        of(
            "link-slow",
            "the link of a real agent becomes slow; tests between nodes find it",
            0,
            1,
            RealDrill::LinkSlow,
        ),
        of(
            "xid31-real",
            "a real kernel writes out of bounds on a real GPU",
            0,
            1,
            RealDrill::Xid(31),
        ),
        of("xid43-real", "a real kernel traps on a real GPU", 0, 1, RealDrill::Xid(43)),
    ]
}

/// Where no node is to be missed, none is because the machine is busy.
fn lost_after(kind: RealDrill) -> Span {
    if matches!(kind, RealDrill::AgentStopped) { Span::secs(3) } else { Span::secs(30) }
}

fn gang(script: &str, mark: &str, nodes: u32, gpus: u32) -> JobSpec {
    let command = ["/bin/sh", "-c", script, mark].map(str::to_owned).to_vec();
    JobSpec {
        name: "drill".parse().ok(),
        gang: GangSpec {
            nodes: Some(nodes),
            gpus_per_node: Some(gpus).filter(|g| *g > 0),
            ranks_per_node: Some(1),
            ..GangSpec::default()
        },
        run: RunSpec { command, ..RunSpec::default() },
        // It may be missed for a while without being started a second time.
        on_partition: Some(OnPartition::Continue),
        retries: Retries { infrastructure: 20, application: 3 },
        ..JobSpec::default()
    }
}

/// Waits until something is there.
pub(super) async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> Result<T, Fail>
where
    F: Future<Output = Option<T>>,
{
    let started = Instant::now();
    loop {
        if let Some(t) = look().await {
            return Ok(t);
        }
        if started.elapsed() > PATIENCE {
            return Err(Fail::failed(format!("never happened: {what}")));
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Submits a job and waits until all its ranks are there.
async fn started(client: &Client, spec: &JobSpec, mark: &str, n: usize) -> Result<Actor, Fail> {
    let id = client.submit(spec).await?.id().to_owned();
    until("all ranks run", || async {
        let job = client.job(&id).await.ok()?;
        let up = job.state == JobState::Running && processes::ranks(mark).len() == n;
        if up { Actor::of(&job).ok() } else { None }
    })
    .await
}

/// Every node that is meant to be there is.
pub(super) async fn ready(client: &Client, n: usize) -> Result<(), Fail> {
    until("all nodes are ready", || async {
        let all = client.all_nodes(Some("ready")).await.ok()?;
        (all.len() == n).then_some(())
    })
    .await
}

pub(super) async fn out_of_service(client: &Client) -> Result<Vec<String>, Fail> {
    let taken = ["cordoned", "draining", "drained", "suspect", "quarantined", "repairing"];
    let all = client.all_nodes(None).await?;
    Ok(all.into_iter().filter(|n| taken.contains(&n.state.as_str())).map(|n| n.name).collect())
}

async fn found(client: &Client, kind: &str, since: Time) -> Option<(String, Time)> {
    let query = FindingsQuery { kind: Some(kind.into()), ..FindingsQuery::default() };
    let all = client.findings(&query).await.ok()?.items;
    let f = all.iter().find(|f| f.opened_at.0 >= since)?;
    Some((f.entity.to_string(), f.opened_at.0))
}

pub(super) fn verdict(job: &Job, attempt: u32) -> Option<String> {
    let p = job.past.iter().find(|p| p.no == attempt)?;
    Some(format!("{:?}", p.verdict).to_lowercase())
}

/// Milliseconds since then.
pub(super) fn since(began: Time, at: Time) -> u64 {
    at.since(began).0
}

/// The server is killed: ranks go on, and a new one finds everything.
pub(crate) async fn server_loss(site: &mut Site, name: &str, mark: &str) -> Result<Outcome, Fail> {
    ready(&site.client, 4).await?;
    let actor = started(&site.client, &gang(WAITS, mark, 4, 1), mark, 4).await?;
    let before = processes::ranks(mark);
    let began = now();
    site.kill().await?;
    let probe = site.client.healthz();
    let gone = tokio::time::timeout(Duration::from_secs(20), probe).await;
    let detected = matches!(gone, Err(_) | Ok(Err(_))).then(|| since(began, now()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lived = before.iter().filter(|(_, id)| processes::alive(*id)).count();
    site.again().await?;
    ready(&site.client, 4).await?;
    let client = site.client.clone();
    let job = until("the job runs", || async {
        client.job(&actor.id).await.ok().filter(|j| j.state == JobState::Running)
    })
    .await?;
    let recovered = since(began, now());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let same = processes::ranks(mark) == before;
    let kept = job.attempts == actor.key.attempt && job.past.is_empty();
    let drained = out_of_service(&client).await?.len();
    client.act(&actor.id, JobAction::Cancel).await?;
    let mut why = Vec::new();
    if lived != before.len() || !same {
        why.push(format!("{lived} of {} ranks survived", before.len()));
    }
    if !kept {
        why.push("the job has another attempt".to_owned());
    }
    if drained > 0 {
        why.push(format!("{drained} nodes were drained"));
    }
    Ok(Outcome {
        name: name.to_owned(),
        detected_ms: detected,
        verdict: Some(if kept { "none".into() } else { "lost".into() }),
        verdict_right: kept,
        remediation: None,
        remediation_right: drained == 0,
        recovered_ms: Some(recovered),
        lost_gpu_seconds: 0.0,
        healthy_drained: u32::try_from(drained).unwrap_or(u32::MAX),
        passed: why.is_empty(),
        why: why.join("; "),
    })
}

/// A rank is killed from outside: nobody's node is touched and the gang starts again.
pub(crate) async fn rank_killed(client: &Client, name: &str, mark: &str) -> Result<Outcome, Fail> {
    ready(client, 4).await?;
    let actor = started(client, &gang(WAITS, mark, 4, 1), mark, 4).await?;
    let (_, victim) = *processes::ranks(mark).get(1).ok_or_else(|| Fail::failed("no rank 1"))?;
    let began = now();
    processes::signal(victim, Signal::KILL);
    let (job, detected) = until("the end is seen", || async {
        let job = client.job(&actor.id).await.ok()?;
        verdict(&job, actor.key.attempt).map(|_| (job, since(began, now())))
    })
    .await?;
    let said = verdict(&job, actor.key.attempt);
    until("it runs again", || async {
        let job = client.job(&actor.id).await.ok()?;
        let again = job.state == JobState::Running && processes::ranks(mark).len() == 4;
        (again && job.attempts > actor.key.attempt).then_some(())
    })
    .await?;
    let recovered = since(began, now());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let drained = out_of_service(client).await?;
    client.act(&actor.id, JobAction::Cancel).await?;
    let expect = Expect {
        kind: None,
        about: |_| String::new(),
        verdict: "unknown",
        remediation: ExpectedRemediation::Untouched,
        job: ExpectedJobOutcome::Again,
    };
    let sight = DrillObservation {
        verdict: said,
        drained: drained.into_iter().collect(),
        recovered_ms: Some(recovered),
        lost_gpu_ms: recovered * u64::from(actor.gpus),
        ..DrillObservation::default()
    };
    Ok(Outcome { detected_ms: Some(detected), ..sight.outcome(name, &expect) })
}

/// Starts an agent of this machine: node `drill-1`.
pub(super) async fn agent(site: &Site) -> Result<tokio::process::Child, Fail> {
    let body = CreateToken {
        name: "drill".into(),
        role: None,
        project: None,
        ttl: None,
        join: true,
        uses: None,
    };
    let token = site.client.create_token(&body).await?.secret;
    let cannot = |e: std::io::Error| Fail::failed(format!("cannot start an agent: {e}"));
    let log = std::fs::File::create(site.dir().join("agent.log")).map_err(cannot)?;
    tokio::process::Command::new(Site::program()?)
        .args(["agent", "--name", "drill-1", "--exporter", "off"])
        .args(["--link", &site.link(), "--join", &token])
        .arg("--data-dir")
        .arg(site.dir().join("agent"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot)
}

/// Ends an agent, and waits for it.
pub(super) async fn end_agent(mut agent: tokio::process::Child) {
    if let Some(id) = agent.id() {
        processes::signal(id, Signal::CONT);
        processes::signal(id, Signal::TERM);
    }
    if tokio::time::timeout(Duration::from_secs(10), agent.wait()).await.is_err() {
        let _ = agent.kill().await;
    }
}

/// A real agent is stopped: its node is missed, its rank lives and is not started a second time;
/// when the agent goes on, the job does too.
pub(crate) async fn agent_stopped(site: &Site, name: &str, mark: &str) -> Result<Outcome, Fail> {
    let client = site.client.clone();
    let agent = agent(site).await?;
    let id = agent.id().ok_or_else(|| Fail::failed("the agent ended at once"))?;
    let result = stopped(&client, name, mark, id).await;
    end_agent(agent).await;
    result
}

async fn stopped(client: &Client, name: &str, mark: &str, agent: u32) -> Result<Outcome, Fail> {
    ready(client, 1).await?;
    let actor = started(client, &gang(WAITS, mark, 1, 0), mark, 1).await?;
    let before = processes::ranks(mark);
    let began = now();
    processes::signal(agent, Signal::STOP);
    let (about, at) = until("the node is lost", || found(client, "node-lost", began)).await?;
    // As long as nobody knows whether it runs, it must not run a second time.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let alone =
        processes::ranks(mark) == before && before.iter().all(|(_, id)| processes::alive(*id));
    processes::signal(agent, Signal::CONT);
    ready(client, 1).await?;
    let job = until("the job runs again", || async {
        let again = |j: &Job| j.state == JobState::Running && j.attempts > actor.key.attempt;
        client.job(&actor.id).await.ok().filter(again)
    })
    .await?;
    let recovered = since(began, now());
    let ended = before.iter().all(|(_, id)| !processes::alive(*id));
    let drained = out_of_service(client).await?;
    client.act(&actor.id, JobAction::Cancel).await?;
    let expect = Expect {
        kind: Some("node-lost"),
        about: |_| String::new(),
        verdict: "infrastructure",
        remediation: ExpectedRemediation::Watched,
        job: ExpectedJobOutcome::Again,
    };
    let sight = DrillObservation {
        detected_ms: Some(since(began, at)),
        attributed_to: about.split(':').next().map(str::to_owned),
        verdict: verdict(&job, actor.key.attempt),
        drained: drained.into_iter().collect(),
        recovered_ms: (alone && ended).then_some(recovered),
        ..DrillObservation::default()
    };
    Ok(sight.outcome(name, &expect))
}

/// Real ranks get little of a processor: one of them, or all.
pub(crate) async fn slow(
    client: &Client,
    name: &str,
    mark: &str,
    all: bool,
) -> Result<Outcome, Fail> {
    ready(client, 8).await?;
    // Whole nodes: what ranks say of themselves takes no node out on which others may work.
    let actor = started(client, &gang(TRAINS, mark, 4, 8), mark, 4).await?;
    let ids = |all: bool| {
        let ranks = processes::ranks(mark).into_iter().filter(move |(r, _)| all || *r == 1);
        ranks.map(|(_, id)| id).collect::<Vec<u32>>()
    };
    let seats = ProcessGroups::new(&ids(true));
    // The watch has to know how fast it usually is: of a rank after three windows, of a whole job
    // after six. A window is four seconds and up to one more, as steps are reported twice a second.
    // There are a few steps in each: on a slow machine they take longer.
    let (secs, steps) = if all { (32, 40) } else { (18, 24) };
    tokio::time::sleep(Duration::from_secs(secs)).await;
    until("enough steps", || async {
        let job = client.job(&actor.id).await.ok()?;
        job.progress.filter(|p| p.step >= steps).map(drop)
    })
    .await?;
    let ids = ids(all);
    let began = now();
    let slowed = Slowed::new(&ids, &seats);
    tracing::debug!(how = slowed.words(), "ranks are slowed");
    let kind = if all { "job-slow" } else { "straggler" };
    let unhealthy = actor.at.iter().find(|(_, first)| *first == 1).map(|(n, _)| n.clone());
    let seen = until(kind, || found(client, kind, began)).await;
    let mut sight = DrillObservation::default();
    if let Ok((about, at)) = &seen {
        let right = if all {
            *about == format!("job:{}", actor.number)
        } else {
            unhealthy.as_ref().is_some_and(|n| about.contains(&format!(":{n}")))
        };
        if right {
            sight.detected_ms = Some(since(began, *at));
            sight.attributed_to = about.split(':').next().map(str::to_owned);
        } else {
            sight.elsewhere = Some(about.clone());
        }
    }
    let again = |job: &Job| job.attempts > actor.key.attempt && job.state == JobState::Running;
    if !all && sight.detected_ms.is_some() {
        let back =
            until("it runs again", || async { client.job(&actor.id).await.ok().filter(again) })
                .await;
        sight.recovered_ms = back.is_ok().then(|| since(began, now()));
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(slowed);
    let job = client.job(&actor.id).await?;
    sight.same = job.attempts == actor.key.attempt;
    sight.verdict = verdict(&job, actor.key.attempt);
    let remediations = client.remediations(&muster_api::RemediationsQuery::default()).await?.items;
    let acting =
        remediations.iter().find(|r| r.action.takes_node() && r.step > RemediationStep::Proposed);
    if let Some(r) = acting {
        let words = format!("{}: {}", r.action.word(), r.step.words());
        sight.remediated = Some(&r.node) == unhealthy.as_ref() && r.kind == "straggler";
        (sight.remediation, sight.acted) = (Some(words.clone()), Some(words));
    }
    let out = out_of_service(client).await?;
    sight.drained = out.into_iter().filter(|n| all || Some(n) != unhealthy.as_ref()).collect();
    client.act(&actor.id, JobAction::Cancel).await?;
    let expect = Expect {
        kind: Some(kind),
        about: |_| String::new(),
        verdict: if all { "job" } else { "infrastructure" },
        remediation: if all {
            ExpectedRemediation::Untouched
        } else {
            ExpectedRemediation::Reaches(Action::Drain, RemediationStep::Moving)
        },
        job: if all { ExpectedJobOutcome::GoesOn } else { ExpectedJobOutcome::Again },
    };
    let mut outcome = sight.outcome(name, &expect);
    if seen.is_err() {
        outcome.why.push_str(&instead(client).await);
    }
    Ok(outcome)
}

/// What was found where something else was looked for, so that a miss can be understood.
async fn instead(client: &Client) -> String {
    let all = client.findings(&FindingsQuery::default()).await.map(|l| l.items).unwrap_or_default();
    let words = |f: &muster_api::Finding| {
        format!("; but {} of {}: {}", f.kind, f.entity, f.evidence.join(", "))
    };
    all.iter().map(words).collect()
}
