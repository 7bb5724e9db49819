//! Concurrent clients that submit and cancel, and remember exactly what was acknowledged.

use super::api::{Answer, Api};
use super::rng::Rng;
use super::work::{self, Kind};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// How far a cancellation came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// Nobody asked.
    No,
    /// Asked; the answer did not come, or said that it is too late.
    Asked,
    /// Acknowledged while the job had not ended.
    Acknowledged,
}

/// A job whose submission was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct AckedJob {
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) cancel: Cancel,
}

/// What the clients share.
#[derive(Debug, Default)]
pub(crate) struct Board {
    jobs: Mutex<Vec<AckedJob>>,
    problems: Mutex<Vec<String>>,
    stop: AtomicBool,
    /// Submissions whose first answer was lost.
    pub(crate) repeated: AtomicU64,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    /// Everything acknowledged until now.
    pub(crate) fn acked(&self) -> Vec<AckedJob> {
        lock(&self.jobs).clone()
    }

    pub(crate) fn add(&self, job: AckedJob) {
        lock(&self.jobs).push(job);
    }

    fn problem(&self, what: String) {
        lock(&self.problems).push(what);
    }

    /// What the clients saw that must not be.
    pub(crate) fn problems(&self) -> Vec<String> {
        lock(&self.problems).clone()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn set_cancel(&self, number: u64, to: Cancel) {
        if let Some(job) = lock(&self.jobs).iter_mut().find(|j| j.number == number) {
            job.cancel = to;
        }
    }
}

/// Clients at work.
#[derive(Debug)]
pub(crate) struct Load {
    tasks: JoinSet<()>,
    board: Arc<Board>,
}

impl Load {
    /// Starts the clients; `phase` keeps their names apart from those of other loads.
    pub(crate) fn start(
        board: &Arc<Board>,
        api: &Api,
        file: &std::path::Path,
        rng: &Rng,
        phase: &str,
    ) -> Load {
        board.stop.store(false, Ordering::Relaxed);
        let mut tasks = JoinSet::new();
        for who in 0..4 {
            let client = Client {
                board: board.clone(),
                api: api.clone(),
                file: file.into(),
                rng: rng.fork(100 + who),
                name: format!("{phase}{who}"),
            };
            if who < 3 {
                tasks.spawn(client.submit());
            } else {
                tasks.spawn(client.cancel());
            }
        }
        Load { tasks, board: board.clone() }
    }

    /// Lets every client finish what it has begun: a request is repeated until it is answered.
    pub(crate) async fn stop(mut self) -> Result<(), String> {
        self.board.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.map_err(|e| format!("a client broke down: {e}"))?;
        }
        Ok(())
    }
}

struct Client {
    board: Arc<Board>,
    api: Api,
    file: PathBuf,
    rng: Rng,
    name: String,
}

impl Client {
    async fn submit(mut self) {
        let mut n = 0;
        while !self.board.stopped() {
            n += 1;
            let name = format!("{}-{n}", self.name);
            let kind = Kind::any(&mut self.rng);
            let spec = work::spec(kind, &name, &self.file, &mut self.rng);
            match submit(&self.board, &self.api, &name, kind, &spec).await {
                Ok(number) => {
                    // An acknowledged request sent again is the same request.
                    if self.rng.one_in(8) {
                        let again = self.api.insist("/v1/jobs", &key(&name), Some(&spec)).await;
                        match again {
                            Answer::Done(v) if v["number"].as_u64() == Some(number) => {}
                            other => self.board.problem(format!(
                                "job {number} ({name}) submitted again under its key gave {other:?}"
                            )),
                        }
                    }
                }
                Err(e) => self.board.problem(e),
            }
            let pause = self.rng.between(20, 160);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn cancel(mut self) {
        while !self.board.stopped() {
            let pause = self.rng.between(20, 200);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let open: Vec<AckedJob> = {
                let jobs = lock(&self.board.jobs);
                let recent = jobs.iter().rev().take(200);
                recent.filter(|j| j.cancel == Cancel::No && j.name != "sleeper").cloned().collect()
            };
            let endless: Vec<AckedJob> =
                open.iter().filter(|j| j.kind == Kind::Endless).cloned().collect();
            // Those that only a cancellation ends must not fill the site.
            let from = if endless.len() > 4 || self.rng.one_in(2) { &endless } else { &open };
            if let Some(job) = self.rng.pick(from).cloned()
                && let Err(e) = cancel(&self.board, &self.api, &job).await
            {
                self.board.problem(e);
            }
        }
    }
}

fn key(name: &str) -> String {
    format!("submit-{name}")
}

/// Submits until it is acknowledged, and remembers it from then on.
pub(crate) async fn submit(
    board: &Board,
    api: &Api,
    name: &str,
    kind: Kind,
    spec: &Value,
) -> Result<u64, String> {
    let mut answer = api.post("/v1/jobs", &key(name), Some(spec)).await;
    if matches!(answer, Answer::Lost(_)) {
        board.repeated.fetch_add(1, Ordering::Relaxed);
        answer = api.insist("/v1/jobs", &key(name), Some(spec)).await;
    }
    let Answer::Done(job) = answer else {
        return Err(format!("the submission of {name} came to nothing: {answer:?}"));
    };
    let (Some(id), Some(number)) = (job["id"].as_str(), job["number"].as_u64()) else {
        return Err(format!("the submission of {name} was answered without an id: {job}"));
    };
    board.add(AckedJob {
        id: id.to_owned(),
        number,
        name: name.to_owned(),
        kind,
        cancel: Cancel::No,
    });
    Ok(number)
}

/// Cancels until it is acknowledged or too late.
pub(crate) async fn cancel(board: &Board, api: &Api, job: &AckedJob) -> Result<(), String> {
    board.set_cancel(job.number, Cancel::Asked);
    let path = format!("/v1/jobs/{}/cancel", job.id);
    match api.insist(&path, &format!("cancel-{}", job.name), None).await {
        Answer::Done(now) => {
            let ended = matches!(now["state"].as_str(), Some("succeeded" | "failed"));
            board.set_cancel(job.number, if ended { Cancel::Asked } else { Cancel::Acknowledged });
            Ok(())
        }
        // It has ended.
        Answer::Refused(409, _) => Ok(()),
        other => Err(format!("the cancellation of job {} ({}) gave {other:?}", job.id, job.name)),
    }
}
