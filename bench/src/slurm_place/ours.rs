//! Our side: a real server with its store, agents of simulated nodes, the API.

use super::fleet::{Fleet, events, post, server_metrics, submit_all, tree};
use super::{Batch, GPUS, Outcome, RELEASED, STREAMED, Size, jobs, queue};
use crate::Options;
use crate::http::{Client, Target};
use crate::load::runtime;
use crate::report::Report;
use crate::stats::{Meter, ms};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often it is asked how many still wait.
const LOOK: Duration = Duration::from_millis(10);

pub(super) fn measure(
    options: &Options,
    size: Size,
    nodes: u32,
    report: &mut Report,
) -> Result<()> {
    for (prefix, streamed) in [(RELEASED, false), (STREAMED, true)] {
        eprintln!("Muster: {nodes} nodes, {}", if streamed { "streamed" } else { "released" });
        let mut fleet = Fleet::start(options, nodes, &tree(nodes))?;
        let target = fleet.target()?;
        let queue = queue(nodes);
        let (server, agents) =
            (Meter::start(fleet.server_pid()?)?, Meter::start(fleet.nodes_pid())?);
        let run = async {
            if streamed {
                stream(&target, &queue, size.bound).await
            } else {
                release(&target, &queue, size.bound).await
            }
        };
        let outcome = runtime()?.block_on(run);
        fleet.must_be_running()?;
        let outcome = outcome?;
        eprintln!(
            "    {} of {} placed in {:.3} s; server {:.2} cores, nodes {:.2} cores",
            outcome.placed_s.len(),
            jobs(&queue),
            outcome.placed_s.iter().copied().fold(0.0, f64::max),
            server.cores()?,
            agents.cores()?
        );
        for (name, unit, value, _) in outcome.cases(prefix, nodes)? {
            report.ours(&name, unit, value);
        }
        runtime()?.block_on(check_placements(&target, &queue))?;
    }
    Ok(())
}

/// Work that does not end while we look.
fn spec(batch: Batch) -> Value {
    let mut spec = json!({
        "kind": "Job",
        "name": format!("x{}", batch.nodes),
        "gang": {"nodes": batch.nodes, "gpus_per_node": GPUS},
        "simulate": {"run": "2h"},
    });
    if let Some(level) = batch.level() {
        spec["topology"] = json!({"required": level});
    }
    spec
}

/// All wait on hold; then every array is released, and we look until none waits.
async fn release(target: &Target, queue: &[Batch], bound: Duration) -> Result<Outcome> {
    let mut client = Client::new(target.clone());
    let mut ids = Vec::new();
    for batch in queue {
        let mut spec = spec(*batch);
        spec["hold"] = true.into();
        spec["array"] = format!("1-{}", batch.jobs).into();
        let made = post(&mut client, "/v1/jobs", spec.to_string().into()).await?;
        ids.push(made["id"].as_str().context("the answer has no id")?.to_string());
    }
    let wanted = jobs(queue);
    let waiting = server_metrics(&mut client).await?.jobs("queued")? as usize;
    ensure!(waiting == wanted, "{waiting} of {wanted} jobs wait");
    let began = Instant::now();
    let released: Vec<_> = ids
        .into_iter()
        .map(|id| {
            let mut client = Client::new(target.clone());
            tokio::spawn(async move {
                post(&mut client, &format!("/v1/jobs/{id}/release"), Bytes::from("{}")).await
            })
        })
        .collect();
    let placed_s = watch(&mut client, wanted, began, bound).await?;
    for answer in released {
        answer.await.context("a client panicked")??;
    }
    let mut waited_ms: Vec<f64> = placed_s.iter().map(|s| s * 1000.0).collect();
    waited_ms.resize(wanted, ms(bound));
    Ok(Outcome { placed_s, waited_ms })
}

/// When each job was seen placed, in seconds, until all are or time is up.
async fn watch(
    client: &mut Client,
    wanted: usize,
    began: Instant,
    bound: Duration,
) -> Result<Vec<f64>> {
    let mut placed = Vec::with_capacity(wanted);
    while placed.len() < wanted && began.elapsed() < bound {
        tokio::time::sleep(LOOK).await;
        let server_metrics = server_metrics(client).await?;
        let seen = server_metrics.jobs("starting")? + server_metrics.jobs("running")?;
        placed.resize((seen as usize).max(placed.len()), began.elapsed().as_secs_f64());
    }
    Ok(placed)
}

/// One by one, in the queue's order, as fast as they are taken.
async fn stream(target: &Target, queue: &[Batch], bound: Duration) -> Result<Outcome> {
    let wanted = jobs(queue);
    let specs = queue
        .iter()
        .flat_map(|b| std::iter::repeat_n(Bytes::from(spec(*b).to_string()), b.jobs as usize))
        .collect();
    let mut client = Client::new(target.clone());
    let began = Instant::now();
    let submitting = tokio::spawn({
        let target = target.clone();
        async move { submit_all(&target, specs).await }
    });
    let placed_s = watch(&mut client, wanted, began, bound).await?;
    let sent = submitting.await.context("a client panicked")??;
    // From sending it, as for the peer, to the placement's time in the log.
    let mut waited_ms = Vec::new();
    for event in events(&mut client, &["job_placed"]).await? {
        let at: jiff::Timestamp = event["at"].as_str().context("an event has no time")?.parse()?;
        if let Some(since) = sent.get(&job_of(&event)?) {
            waited_ms.push(at.duration_since(*since).as_secs_f64() * 1000.0);
        }
    }
    waited_ms.resize(wanted, ms(bound));
    Ok(Outcome { placed_s, waited_ms })
}

/// The job of a `job_placed` event.
fn job_of(event: &Value) -> Result<u64> {
    event["data"]["key"]["job"].as_u64().with_context(|| format!("no job in {event}"))
}

/// Every gang has the nodes it asked for, in one domain, and none is given twice.
async fn check_placements(target: &Target, queue: &[Batch]) -> Result<()> {
    let mut client = Client::new(target.clone());
    let mut given = BTreeMap::new();
    for event in events(&mut client, &["job_placed"]).await? {
        let slots = event["data"]["placement"]["slots"].as_array().context("no slots")?;
        let nodes = slots
            .iter()
            .map(|s| s["node"].as_str()?.strip_prefix("sim-")?.parse::<u32>().ok())
            .collect::<Option<Vec<u32>>>()
            .context("a node with an odd name")?;
        let batch = queue.iter().find(|b| b.nodes as usize == nodes.len());
        let batch = batch.with_context(|| format!("a gang of {} nodes", nodes.len()))?;
        let domain = |n: u32| (n - 1) / batch.domain();
        ensure!(
            nodes.iter().all(|n| domain(*n) == domain(nodes[0])),
            "a gang of {} was spread: {nodes:?}",
            batch.nodes
        );
        let job = job_of(&event)?;
        for node in nodes {
            if let Some(other) = given.insert(node, job) {
                bail!("node {node} was given to jobs {other} and {job}");
            }
        }
    }
    Ok(())
}
