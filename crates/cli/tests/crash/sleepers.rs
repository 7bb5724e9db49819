//! Gangs that were there before the first kill and must be there, the very same processes,
//! after the last.

use super::api::Api;
use super::load::{self, AckedJob, Board};
use super::ranks;
use super::work::{self, Kind};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The name that cancelling clients leave alone.
const NAME: &str = "sleeper";

/// A gang of two nodes, and its processes.
#[derive(Debug)]
pub(crate) struct Sleepers {
    job: u64,
    /// Process and its birth by rank.
    processes: BTreeMap<u32, (u32, u64)>,
    file: PathBuf,
}

impl Sleepers {
    /// Submits them and waits until they run.
    pub(crate) async fn start(api: &Api, board: &Board, file: &Path) -> Result<Sleepers, String> {
        let gang = json!({ "nodes": 2, "gpus_per_node": 2, "ranks_per_node": 2 });
        let spec = work::script(NAME, gang, "while :; do rest 60; done", file);
        let job = load::submit(board, api, NAME, Kind::Endless, &spec).await?;
        let start = Instant::now();
        loop {
            let up = ranks::running(&ranks::read(file)?);
            let mut processes = BTreeMap::new();
            for line in up.values().filter(|l| l.key.job == job) {
                let process = ranks::process(line.key, file).ok_or("a sleeper ended at once")?;
                processes.insert(line.key.rank, process);
            }
            let shown = api.read(&format!("/v1/jobs/{job}")).await?;
            if processes.len() == 4 && shown["state"] == "running" {
                return Ok(Sleepers { job, processes, file: file.into() });
            }
            if start.elapsed() > Duration::from_secs(300) {
                return Err(format!(
                    "the sleepers did not start: {} of 4 ranks, and the job is {shown}",
                    processes.len()
                ));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The processes are the same ones.
    pub(crate) fn live(&self) -> Result<(), String> {
        for (rank, (pid, birth)) in &self.processes {
            if ranks::birth(*pid) != Some(*birth) {
                return Err(format!(
                    "rank {rank} of job {} (process {pid}) did not survive",
                    self.job
                ));
            }
        }
        Ok(())
    }

    /// The server knows them as what they are: the first attempt, running.
    pub(crate) async fn known(&self, api: &Api) -> Result<(), String> {
        let job = api.read(&format!("/v1/jobs/{}", self.job)).await?;
        if job["state"] == "running" && job["attempt"]["no"] == 1 && job["attempts"] == 1 {
            return self.live();
        }
        Err(format!("the sleepers run, and the server says: {job}"))
    }

    /// Cancelled, they say their last line.
    pub(crate) async fn end(self, api: &Api, board: &Board) -> Result<(), String> {
        self.known(api).await?;
        let own: Vec<AckedJob> =
            board.acked().into_iter().filter(|a| a.number == self.job).collect();
        for job in &own {
            load::cancel(board, api, job).await?;
        }
        let start = Instant::now();
        loop {
            let up = ranks::running(&ranks::read(&self.file)?);
            let left = up.values().filter(|l| l.key.job == self.job).count();
            let job = api.read(&format!("/v1/jobs/{}", self.job)).await?;
            if left == 0 && job["state"] == "cancelled" {
                return Ok(());
            }
            if start.elapsed() > Duration::from_secs(300) {
                return Err(format!("{left} sleepers go on after their cancellation; {job}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
