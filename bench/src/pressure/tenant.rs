//! The tenant who does nothing wrong, and whoever asks how the server is: their waits are measured.

use super::TARGET_MS;
use crate::http::{Client, Target};
use crate::stats::{Meter, ThreadCores, ThreadMeter, memory_mib, ms};
use anyhow::{Context, Result};
use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until, timeout};

/// Between two submits.
const SUBMIT_EVERY: Duration = Duration::from_millis(50);
/// From a submit to its cancellation.
const CANCEL_AFTER: Duration = Duration::from_secs(5);
/// Between two looks at `/healthz` and `/readyz`.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// A probe that is answered later has failed, as with Kubernetes.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);
/// A submit that is answered later counts as refused.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at what the server costs.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Between two looks at how late the measuring thread is.
const OWN_DELAY_EVERY: Duration = Duration::from_millis(10);

/// How long answers took, and what went wrong how often.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Milliseconds of those that were as they should be.
    pub(super) good_ms: Vec<f64>,
    /// The others, by status or by what broke.
    pub(super) bad: BTreeMap<String, u64>,
    /// When those were due that took too long, in seconds since the measuring began.
    late_s: Vec<f64>,
}

/// What was late further apart than this, in seconds, was late for another reason.
const APART_S: f64 = 0.25;

impl Answers {
    fn add(&mut self, due: Duration, answer: Result<f64, String>) {
        match answer {
            Ok(took) => {
                self.good_ms.push(took);
                if took >= TARGET_MS {
                    self.late_s.push(due.as_secs_f64());
                }
            }
            Err(why) => *self.bad.entry(why).or_default() += 1,
        }
    }

    /// What took too long, as it came together: when the first of them was due, and how many.
    pub(super) fn late(&mut self) -> Vec<(f64, usize)> {
        self.late_s.sort_by(f64::total_cmp);
        let groups = self.late_s.chunk_by(|one, next| next - one < APART_S);
        groups.map(|group| (group[0], group.len())).collect()
    }

    pub(super) fn sent(&self) -> u64 {
        self.good_ms.len() as u64 + self.bad.values().sum::<u64>()
    }

    /// The share of those that were as they should be, and answered within this.
    pub(super) fn within_percent(&self, ms: f64) -> f64 {
        let fast = self.good_ms.iter().filter(|took| **took < ms).count();
        100.0 * fast as f64 / self.sent().max(1) as f64
    }

    /// The share of those that were not as they should be.
    pub(super) fn bad_percent(&self) -> f64 {
        100.0 * self.bad.values().sum::<u64>() as f64 / self.sent().max(1) as f64
    }
}

/// What was measured over a time.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) submits: Answers,
    pub(super) probes: Answers,
    /// Cancellations that were not carried out.
    pub(super) uncancelled: u64,
    /// Memory of the server at its highest in this time.
    pub(super) rss_mib: f64,
    /// Processor time of the server, and of this program.
    pub(super) server_cores: f64,
    pub(super) client_cores: f64,
    /// The server's by the names of its threads.
    pub(super) threads: BTreeMap<String, ThreadCores>,
    /// By how many milliseconds the measuring thread itself woke late.
    pub(super) own_delay_ms: Vec<f64>,
}

/// Submits, cancels and probes for so long, on the calling thread alone: what the load costs this
/// program is not in it. `look` is called twice a second.
pub(super) fn measure(
    tenant: &Target,
    anybody: &Target,
    pid: i32,
    length: Duration,
    look: impl FnMut(),
) -> Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the measuring client")?;
    let own = i32::try_from(std::process::id()).context("a strange process id")?;
    let (server, client, threads) =
        (Meter::start(pid)?, Meter::start(own)?, ThreadMeter::start(pid)?);
    runtime.block_on(async {
        let until = Instant::now() + length;
        let (submitted, probes, rss_mib, own_delay_ms) = tokio::join!(
            submits(tenant, until),
            probes(anybody, until),
            highest_memory(pid, until, look),
            own_delay(until)
        );
        let (submits, uncancelled) = submitted?;
        Ok(Measured {
            submits,
            probes: probes?,
            uncancelled,
            rss_mib: rss_mib?,
            server_cores: server.cores()?,
            client_cores: client.cores()?,
            threads: threads.cores()?,
            own_delay_ms,
        })
    })
}

/// One on time, whether or not the last was answered.
async fn submits(tenant: &Target, until: Instant) -> Result<(Answers, u64)> {
    let (made, jobs) = mpsc::unbounded_channel();
    let canceller = tokio::spawn(cancel(tenant.clone(), jobs, until));
    let mut every = interval(SUBMIT_EVERY);
    let mut tasks = JoinSet::new();
    let begin = Instant::now();
    loop {
        let due = every.tick().await;
        if due >= until {
            break;
        }
        let answer = submit(tenant.clone(), due, made.clone());
        tasks.spawn(async move { (due.saturating_duration_since(begin), answer.await) });
    }
    drop(made);
    let mut answers = Answers::default();
    while let Some(done) = tasks.join_next().await {
        let (due, answer) = done.context("a submit panicked")?;
        answers.add(due, answer);
    }
    Ok((answers, canceller.await.context("cancelling panicked")?))
}

/// A job that really starts, on a connection of its own as the CLI has it; milliseconds since it was due.
async fn submit(
    tenant: Target,
    due: Instant,
    made: mpsc::UnboundedSender<(Instant, String)>,
) -> Result<f64, String> {
    let spec =
        json!({"kind": "Job", "name": "small", "gang": {"gpus": 1}, "simulate": {"run": "8h"}});
    let body = Bytes::from(spec.to_string());
    let mut client = Client::new(tenant);
    let answer = timeout(PATIENCE, client.call(&Method::POST, "/v1/jobs", body)).await;
    let took = ms(due.elapsed());
    match answer {
        Ok(Ok((201, body))) => {
            let made_job: Value = serde_json::from_slice(&body).map_err(|e| e.to_string())?;
            let id = made_job["id"].as_str().ok_or("an answer without an id")?;
            // The canceller ends after the last submit.
            let _ = made.send((Instant::now(), id.to_owned()));
            Ok(took)
        }
        Ok(Ok((status, _))) => Err(status.to_string()),
        Ok(Err(e)) => Err(e.root_cause().to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

/// Cancels each after a while, all at once when the time is over; gives how many it could not.
async fn cancel(
    tenant: Target,
    mut jobs: mpsc::UnboundedReceiver<(Instant, String)>,
    until: Instant,
) -> u64 {
    let mut client = Client::new(tenant);
    let mut failed = 0;
    while let Some((made, id)) = jobs.recv().await {
        sleep_until((made + CANCEL_AFTER).min(until)).await;
        if Instant::now() > until + PATIENCE {
            failed += 1;
            continue;
        }
        let path = format!("/v1/jobs/{id}/cancel");
        let answer = timeout(PATIENCE, client.call(&Method::POST, &path, Bytes::new())).await;
        failed += u64::from(!matches!(answer, Ok(Ok((200, _)))));
    }
    failed
}

/// Both probes on time, each on a connection of its own.
async fn probes(anybody: &Target, until: Instant) -> Result<Answers> {
    let mut every = interval(PROBE_EVERY);
    let mut tasks = JoinSet::new();
    let begin = Instant::now();
    loop {
        let due = every.tick().await;
        if due >= until {
            break;
        }
        for path in ["/healthz", "/readyz"] {
            let answer = probe(anybody.clone(), path, due);
            tasks.spawn(async move { (due.saturating_duration_since(begin), answer.await) });
        }
    }
    let mut answers = Answers::default();
    while let Some(done) = tasks.join_next().await {
        let (due, answer) = done.context("a probe panicked")?;
        answers.add(due, answer);
    }
    Ok(answers)
}

async fn probe(anybody: Target, path: &'static str, due: Instant) -> Result<f64, String> {
    let mut client = Client::new(anybody);
    match timeout(PROBE_PATIENCE, client.call(&Method::GET, path, Bytes::new())).await {
        Ok(Ok((200, _))) => Ok(ms(due.elapsed())),
        Ok(Ok((status, _))) => Err(format!("{path} {status}")),
        Ok(Err(e)) => Err(format!("{path} {}", e.root_cause())),
        Err(_) => Err(format!("{path} no answer within {} s", PROBE_PATIENCE.as_secs())),
    }
}

async fn highest_memory(pid: i32, until: Instant, mut look: impl FnMut()) -> Result<f64> {
    let mut every = interval(LOOK_EVERY);
    let mut highest = 0.0_f64;
    while every.tick().await < until {
        highest = highest.max(memory_mib(pid)?.0);
        look();
    }
    Ok(highest)
}

/// How late this thread is by itself: what it measures of the server is no better than that.
async fn own_delay(until: Instant) -> Vec<f64> {
    let mut late = Vec::new();
    loop {
        let due = Instant::now() + OWN_DELAY_EVERY;
        if due >= until {
            return late;
        }
        sleep_until(due).await;
        late.push(ms(due.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_is_a_share_of_all_that_was_sent() {
        let mut answers = Answers::default();
        assert!(answers.bad_percent().abs() < f64::EPSILON, "nothing of nothing");
        for answer in [Ok(1.0), Ok(2.0), Err("503".to_owned()), Ok(3.0)] {
            answers.add(Duration::ZERO, answer);
        }
        assert_eq!((answers.sent(), answers.bad["503"]), (4, 1));
        assert!((answers.bad_percent() - 25.0).abs() < f64::EPSILON);
        assert!((answers.within_percent(2.5) - 50.0).abs() < f64::EPSILON);
    }

    #[test]
    fn what_is_late_together_is_reported_together() {
        let mut answers = Answers::default();
        for (due, took) in [(3000, 150.0), (1000, 120.0), (1100, 101.0), (1050, 5.0)] {
            answers.add(Duration::from_millis(due), Ok(took));
        }
        assert_eq!(answers.late(), [(1.0, 2), (3.0, 1)]);
        assert!(Answers::default().late().is_empty());
    }
}
