//! Closed-loop load: each client sends its next request when the last was answered.

use crate::http::{Client, Target};
use crate::stats::{ms, percentile};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use hyper::Method;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a load run found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// Requests that were accepted.
    pub(crate) accepted: u64,
    /// Accepted per second.
    pub(crate) per_s: f64,
    /// Milliseconds from sending to the answer.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Connections that were made.
    pub(crate) connects: u64,
}

/// A request that is sent again and again, and how an accepted answer looks.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) target: Target,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) accepted: fn(u16, &[u8]) -> bool,
}

/// The load generator's own threads: one, so that what is measured keeps the rest.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start the load generator")
}

impl Load {
    /// POSTs from so many clients for so long. A refused request ends the run: what is not
    /// accepted must not look fast.
    pub(crate) fn run(&self, clients: usize, length: Duration) -> Result<Outcome> {
        runtime()?.block_on(self.drive(clients, length))
    }

    async fn drive(&self, clients: usize, length: Duration) -> Result<Outcome> {
        // A few before the clock starts: connections, caches, first pages.
        for _ in 0..3 {
            self.one(&mut Client::new(self.target.clone())).await?;
        }
        let began = Instant::now();
        let until = began + length;
        let stop = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..clients)
            .map(|_| {
                let (load, stop) = (self.clone(), stop.clone());
                tokio::spawn(async move {
                    let mut client = Client::new(load.target.clone());
                    let mut samples = Vec::new();
                    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                        let sent = Instant::now();
                        if let Err(error) = load.one(&mut client).await {
                            stop.store(true, Ordering::Relaxed);
                            return Err(error);
                        }
                        samples.push(ms(sent.elapsed()));
                    }
                    Ok((samples, client.connects))
                })
            })
            .collect();
        let mut samples = Vec::new();
        let mut connects = 0;
        for task in tasks {
            let (some, made) = task.await.context("a client panicked")??;
            samples.extend(some);
            connects += made;
        }
        // Until the last answer, not until the planned end.
        Ok(outcome(samples, began.elapsed(), connects))
    }

    async fn one(&self, client: &mut Client) -> Result<()> {
        let (status, body) = client.call(&Method::POST, &self.path, self.body.clone()).await?;
        if !(self.accepted)(status, &body) {
            let text = String::from_utf8_lossy(&body);
            let start: String = text.chars().take(600).collect();
            bail!("POST {} was not accepted: {status} {start}", self.path);
        }
        Ok(())
    }
}

fn outcome(mut samples: Vec<f64>, took: Duration, connects: u64) -> Outcome {
    Outcome {
        accepted: samples.len() as u64,
        per_s: samples.len() as f64 / took.as_secs_f64(),
        p50_ms: percentile(&mut samples, 50.0).unwrap_or(0.0),
        p99_ms: percentile(&mut samples, 99.0).unwrap_or(0.0),
        connects,
    }
}

/// Runs a program again and again from so many threads, for so long or so many times.
pub(crate) fn processes(
    make: impl Fn() -> Command + Sync,
    parallel: usize,
    length: Duration,
    at_most: u64,
) -> Result<Outcome> {
    let began = Instant::now();
    let until = began + length;
    let started = AtomicU64::new(0);
    let one_thread = || -> Result<Vec<f64>> {
        let mut samples = Vec::new();
        while Instant::now() < until && started.fetch_add(1, Ordering::Relaxed) < at_most {
            let at = Instant::now();
            let output = make()
                .stdin(Stdio::null())
                .output()
                .with_context(|| format!("cannot start {:?}", make().get_program()))?;
            if !output.status.success() {
                bail!(
                    "{} failed: {}",
                    xtask::proc::describe(&make()),
                    String::from_utf8_lossy(&output.stderr).trim()
                );
            }
            samples.push(ms(at.elapsed()));
        }
        Ok(samples)
    };
    let mut samples = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..parallel).map(|_| scope.spawn(one_thread)).collect();
        for thread in threads {
            match thread.join() {
                Ok(some) => samples.extend(some?),
                Err(_) => bail!("a thread panicked"),
            }
        }
        Ok(())
    })?;
    Ok(outcome(samples, began.elapsed(), 0))
}
