//! Drills with a real GPU: a program of ours makes the driver log a fault.

use super::real::{agent, end_agent, out_of_service, ready, since, until, verdict};
use super::result::{DrillObservation, Outcome};
use super::scene::{Actor, Expect, ExpectedJobOutcome, ExpectedRemediation};
use super::site::Site;
use muster_api::FaultsQuery;
use muster_client::Client;
use muster_model::job::JobState;
use muster_model::spec::{GangSpec, JobSpec, Retries, RunSpec};
use muster_terminal::ctx::now;
use muster_terminal::fail::Fail;
use std::path::Path;

/// Is there a GPU with its driver?
pub(super) fn there() -> bool {
    Path::new("/dev/nvidiactl").exists()
}

/// A job whose kernel is bad: it is the job's fault, its GPU and node stay, and the next job on
/// the GPU runs.
pub(super) async fn bad_kernel(site: &Site, name: &str, xid: u32) -> Result<Outcome, Fail> {
    if !there() {
        return Err(
            Fail::failed("there is no NVIDIA GPU here").hint("run it on a machine with a GPU")
        );
    }
    let agent = agent(site).await?;
    let result = played(&site.client, name, xid).await;
    end_agent(agent).await;
    result
}

fn job(args: &[&str]) -> Result<JobSpec, Fail> {
    let mut command = vec![Site::program()?.display().to_string()];
    command.extend(args.iter().map(|a| (*a).to_owned()));
    Ok(JobSpec {
        name: "drill".parse().ok(),
        gang: GangSpec {
            nodes: Some(1),
            gpus_per_node: Some(1),
            ranks_per_node: Some(1),
            ..GangSpec::default()
        },
        run: RunSpec { command, ..RunSpec::default() },
        retries: Retries { infrastructure: 3, application: 0 },
        ..JobSpec::default()
    })
}

async fn played(client: &Client, name: &str, xid: u32) -> Result<Outcome, Fail> {
    ready(client, 1).await?;
    let began = now();
    let bad = client.submit(&job(&["agent", "drill", "--xid", &xid.to_string()])?).await?;
    let bad = bad.id().to_owned();
    let actor =
        until("it starts", || async { Actor::of(&client.job(&bad).await.ok()?).ok() }).await;
    // Not all of them ask for anything: the fault itself is what is always reported.
    let query = FaultsQuery { code: Some(format!("xid-{xid}")), ..FaultsQuery::default() };
    let fault = until("the fault is reported", || async {
        let all = client.faults(&query).await.ok()?.items;
        all.into_iter().find(|f| f.at.0 >= began && f.attempt.is_some())
    })
    .await?;
    let ended = until("the job ends", || async {
        client.job(&bad).await.ok().filter(|j| j.state == JobState::Failed)
    })
    .await?;
    let next = client.submit(&job(&["--version"])?).await?.id().to_owned();
    let next = until("the next job ends", || async {
        let over = |j: &muster_api::Job| matches!(j.state, JobState::Succeeded | JobState::Failed);
        client.job(&next).await.ok().filter(over)
    })
    .await?;
    let remediations = client.remediations(&muster_api::RemediationsQuery::default()).await?.items;
    let acting = remediations.iter().find(|r| r.action.takes_node());
    let sight = DrillObservation {
        detected_ms: Some(since(began, fault.at.0)),
        verdict: verdict(&ended, ended.attempts),
        acted: acting.map(|r| format!("{}: {}", r.action.word(), r.step.words())),
        drained: out_of_service(client).await?.into_iter().collect(),
        ended: next.state == JobState::Succeeded,
        lost_gpu_ms: actor.map_or(0, |_| since(began, now())),
        ..DrillObservation::default()
    };
    let expect = Expect {
        kind: None,
        about: |_| String::new(),
        verdict: "application",
        remediation: ExpectedRemediation::Untouched,
        job: ExpectedJobOutcome::Any,
    };
    let mut outcome = sight.outcome(name, &expect);
    if !sight.ended {
        outcome.passed = false;
        outcome.why.push_str("; the next job on the GPU did not run");
    }
    Ok(outcome)
}
