//! What callers of a server with a long log notice: pages of jobs, and submits while nothing else
//! happens and while a snapshot is written.

use crate::http::{Client, Target};
use crate::stats::ms;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::interval;

/// Between two submits.
const SUBMIT_EVERY: Duration = Duration::from_millis(20);
/// Between two looks at how far the log and its snapshot are. A look counts all jobs, so it is as
/// seldom as the moments are worth, and the same in both measurements.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Clients that submit at once to bring the next snapshot near.
const CLIENTS: u64 = 32;

/// Where the log and its newest snapshot end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) durable: u64,
    pub(super) snapshot: u64,
}

/// A look at the server, and when it was.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    position: Position,
}

/// Submits on time, and looks meanwhile.
#[derive(Debug, Default)]
pub(super) struct Paced {
    /// When each was sent, and the milliseconds until its answer.
    submits: Vec<(Instant, f64)>,
    looks: Vec<Look>,
}

impl Paced {
    /// Milliseconds of all of them.
    pub(super) fn all_ms(&self) -> Vec<f64> {
        self.submits.iter().map(|(_, took)| *took).collect()
    }

    /// How many there are.
    pub(super) fn sent(&self) -> u64 {
        self.submits.len() as u64
    }

    /// Milliseconds of those that were sent while a snapshot was written, and how long that took. It is
    /// of the state at one record: it began after the last look at which the log had no more.
    pub(super) fn under_snapshot(&self) -> Option<(Vec<f64>, Duration)> {
        let first = self.looks.first()?.position.snapshot;
        let done = self.looks.iter().find(|l| l.position.snapshot > first)?;
        let before = |l: &&Look| l.position.durable <= done.position.snapshot;
        let begin = self.looks.iter().rfind(before).map_or(self.looks[0].at, |l| l.at);
        let within = |(sent, _): &&(Instant, f64)| (begin..=done.at).contains(sent);
        let took = self.submits.iter().filter(within).map(|(_, took)| *took).collect();
        Some((took, done.at.duration_since(begin)))
    }

    /// Was a snapshot written in this time?
    fn has_snapshot(&self) -> bool {
        let first = self.looks.first().map(|l| l.position.snapshot);
        self.looks.last().map(|l| l.position.snapshot) > first
    }
}

/// A job that waits: what it costs is its record.
fn held_job() -> Bytes {
    let spec = json!({"kind": "Job", "name": "probe", "hold": true, "run": {"script": "true"}});
    Bytes::from(spec.to_string())
}

async fn submit(client: &mut Client) -> Result<f64> {
    let sent = Instant::now();
    let (status, body) = client.call(&Method::POST, "/v1/jobs", held_job()).await?;
    let took = ms(sent.elapsed());
    ensure!(status == 201, "POST /v1/jobs: {status} {}", String::from_utf8_lossy(&body));
    Ok(took)
}

/// Where the log and its newest snapshot end now.
pub(super) async fn position(client: &mut Client) -> Result<Position> {
    let (status, body) = client.call(&Method::GET, "/v1/server", Bytes::new()).await?;
    ensure!(status == 200, "GET /v1/server: {status}");
    let server: Value = serde_json::from_slice(&body)?;
    let durable = server["store"]["durable_seq"].as_u64().context("the log has no end")?;
    Ok(Position { durable, snapshot: server["store"]["snapshot_seq"].as_u64().unwrap_or(0) })
}

/// Looks again and again, on a connection of its own, until nobody listens.
async fn look_on(target: Target, looks: UnboundedSender<Result<Look>>) {
    let mut client = Client::new(target);
    let mut every = interval(LOOK_EVERY);
    loop {
        every.tick().await;
        let position = position(&mut client).await;
        let failed = position.is_err();
        let look = position.map(|position| Look { at: Instant::now(), position });
        if looks.send(look).is_err() || failed {
            return;
        }
    }
}

/// Submits on time until a snapshot was written, or for so long.
pub(super) async fn paced(
    target: &Target,
    length: Duration,
    until_snapshot: bool,
) -> Result<Paced> {
    let mut all = Paced::default();
    let (sender, mut looks) = unbounded_channel();
    let looking = tokio::spawn(look_on(target.clone(), sender));
    let until = Instant::now() + length;
    let mut every = interval(SUBMIT_EVERY);
    // A submit that waits delays none of the others.
    let mut tasks = JoinSet::new();
    let mut idle: Vec<Client> = Vec::new();
    while Instant::now() < until && !(until_snapshot && all.has_snapshot()) {
        tokio::select! {
            _ = every.tick() => {
                let mut client = idle.pop().unwrap_or_else(|| Client::new(target.clone()));
                tasks.spawn(async move {
                    let sent = Instant::now();
                    let took = submit(&mut client).await?;
                    Ok::<_, anyhow::Error>((sent, took, client))
                });
            }
            Some(look) = looks.recv() => all.looks.push(look?),
            Some(done) = tasks.join_next() => {
                let (sent, took, client) = done.context("a submit panicked")??;
                all.submits.push((sent, took));
                idle.push(client);
            }
        }
    }
    looking.abort();
    while let Some(done) = tasks.join_next().await {
        let (sent, took, _) = done.context("a submit panicked")??;
        all.submits.push((sent, took));
    }
    Ok(all)
}

/// So many submits as fast as they are taken; not measured.
pub(super) async fn burst(target: &Target, count: u64) -> Result<()> {
    let mut tasks = JoinSet::new();
    for i in 0..CLIENTS {
        let mut client = Client::new(target.clone());
        let share = count / CLIENTS + u64::from(i < count % CLIENTS);
        tasks.spawn(async move {
            for _ in 0..share {
                submit(&mut client).await?;
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.context("a client panicked")??;
    }
    Ok(())
}

/// How many submits, a record each, bring the next snapshot. The server writes one after `every`
/// records, or after half as many records as it has jobs where that is more; each submit is a job.
pub(super) fn submits_until_snapshot(position: Position, jobs: u64, every: u64) -> u64 {
    let since = position.durable.saturating_sub(position.snapshot);
    every.saturating_sub(since).max(jobs.saturating_sub(2 * since))
}

/// Asks for one page so many times, one after the other; milliseconds each.
pub(super) async fn page(target: &Target, path: &str, times: usize) -> Result<Vec<f64>> {
    let mut client = Client::new(target.clone());
    let mut samples = Vec::with_capacity(times);
    // The first one opens the connection.
    for i in 0..=times {
        let sent = Instant::now();
        let (status, body) = client.call(&Method::GET, path, Bytes::new()).await?;
        let took = ms(sent.elapsed());
        ensure!(status == 200, "GET {path}: {status} {}", String::from_utf8_lossy(&body));
        if i > 0 {
            samples.push(took);
        }
    }
    Ok(samples)
}

/// Records that the slowest reader of the log has still to read, as the server's own metrics say.
pub(super) async fn lag(target: &Target) -> Result<u64> {
    let mut client = Client::new(target.clone());
    let (status, body) = client.call(&Method::GET, "/metrics", Bytes::new()).await?;
    ensure!(status == 200, "GET /metrics: {status}");
    Ok(greatest(&String::from_utf8_lossy(&body), "muster_follower_lag_records{"))
}

/// The greatest value of a metric with labels; 0 where it has none.
fn greatest(metrics: &str, begin: &str) -> u64 {
    let value = |l: &str| l.strip_prefix(begin)?.rsplit_once(' ')?.1.trim().parse().ok();
    metrics.lines().filter_map(value).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_comes_after_every_so_many_records_or_half_as_many_as_there_are_jobs() {
        let at = |durable, snapshot| Position { durable, snapshot };
        assert_eq!(submits_until_snapshot(at(1000, 0), 10, 50_000), 49_000);
        assert_eq!(submits_until_snapshot(at(60_000, 0), 10, 50_000), 0);
        // 110,000 jobs and 90,000 more: 100,000 records are half of them.
        assert_eq!(submits_until_snapshot(at(30_000, 20_000), 110_000, 50_000), 90_000);
    }

    #[test]
    fn submits_count_as_under_a_snapshot_from_its_record_until_it_is_there() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let look =
            |ms, durable, snapshot| Look { at: at(ms), position: Position { durable, snapshot } };
        let mut paced = Paced {
            submits: [(50, 1.0), (250, 2.0), (350, 3.0), (450, 4.0)]
                .map(|(t, v)| (at(t), v))
                .into(),
            looks: vec![look(0, 10, 5), look(200, 20, 5), look(300, 30, 5), look(400, 40, 22)],
        };
        let (took, length) = paced.under_snapshot().unwrap();
        assert_eq!((took, length), (vec![2.0, 3.0], Duration::from_millis(200)));
        assert!(paced.has_snapshot());
        paced.looks.pop();
        assert!(paced.under_snapshot().is_none() && !paced.has_snapshot());
    }

    #[test]
    fn the_slowest_reader_of_the_log_counts() {
        let text = "muster_follower_lag_records{follower=\"slo\"} 7\n\
                    muster_follower_lag_records{follower=\"metering\"} 12\nmuster_log_seq 99\n";
        assert_eq!(greatest(text, "muster_follower_lag_records{"), 12);
        assert_eq!(greatest("", "muster_follower_lag_records{"), 0);
    }
}
