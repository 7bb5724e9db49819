//! What must hold after a crash, and at the end.

use super::api::Api;
use super::load::{AckedJob, Board, Cancel};
use super::ranks::{self, RankKey};
use super::work::{Kind, STEPS};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// The first few of a list of problems, as an error.
pub(crate) fn none_of(problems: &[String]) -> Result<(), String> {
    if problems.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> =
        problems.iter().take(20).map(|p| p.chars().take(600).collect()).collect();
    Err(format!("{} violations:\n  {}", problems.len(), shown.join("\n  ")))
}

fn is_final(job: &Value) -> bool {
    matches!(job["state"].as_str(), Some("succeeded" | "failed" | "cancelled"))
}

/// Every job by its number.
pub(crate) async fn jobs(api: &Api) -> Result<BTreeMap<u64, Value>, String> {
    by_number(api.all("/v1/jobs", "cursor").await?)
}

/// The newest jobs by their numbers.
async fn newest(api: &Api) -> Result<BTreeMap<u64, Value>, String> {
    let mut page = api.read("/v1/jobs?limit=500").await?;
    match page["items"].take() {
        Value::Array(items) => by_number(items),
        _ => Err(format!("a list without items: {page}")),
    }
}

fn by_number(items: Vec<Value>) -> Result<BTreeMap<u64, Value>, String> {
    let mut all = BTreeMap::new();
    for job in items {
        let number = job["number"].as_u64().ok_or("a job without a number")?;
        if all.insert(number, job).is_some() {
            return Err(format!("job {number} is listed twice"));
        }
    }
    Ok(all)
}

/// Everything acknowledged is there, once, as it was acknowledged. Looks at the newest jobs only
/// unless `all` are wanted: the whole list after each of a thousand kills takes too long.
pub(crate) async fn acknowledged(api: &Api, board: &Board, all: bool) -> Result<(), String> {
    // In this order: what is acknowledged before the list is asked for must be in it.
    let mut acked = board.acked();
    let mut problems = board.problems();
    let jobs = if all { jobs(api).await? } else { newest(api).await? };
    if let Some((first, _)) = jobs.first_key_value().filter(|_| !all) {
        acked.retain(|a| a.number >= *first);
    }
    for a in &acked {
        match jobs.get(&a.number) {
            None => {
                problems.push(format!("job {} ({}) was acknowledged and is gone", a.id, a.name));
            }
            Some(job) => {
                if job["name"] != *a.name {
                    problems.push(format!(
                        "job {} was acknowledged as {} and is {}",
                        a.id, a.name, job["name"]
                    ));
                }
                let goes_on =
                    matches!(job["state"].as_str(), Some("queued" | "starting" | "running"));
                if a.cancel == Cancel::Acknowledged && goes_on {
                    problems.push(format!(
                        "the cancellation of job {} ({}) was acknowledged and it is {}",
                        a.id, a.name, job["state"]
                    ));
                }
            }
        }
    }
    let mut names = BTreeSet::new();
    for job in jobs.values() {
        if !names.insert(job["name"].as_str()) {
            problems.push(format!("the job {} was made twice", job["name"]));
        }
    }
    none_of(&problems)
}

/// Waits until every job that can end by itself has.
pub(crate) async fn settled(api: &Api, board: &Board) -> Result<BTreeMap<u64, Value>, String> {
    let start = Instant::now();
    loop {
        let endless: BTreeSet<u64> = board
            .acked()
            .iter()
            .filter(|a| a.kind == Kind::Endless && a.cancel != Cancel::Acknowledged)
            .map(|a| a.number)
            .collect();
        let jobs = jobs(api).await?;
        let open: Vec<&Value> = jobs
            .iter()
            .filter(|(n, j)| !endless.contains(n) && !is_final(j))
            .map(|(_, j)| j)
            .collect();
        if open.is_empty() {
            return Ok(jobs);
        }
        if start.elapsed() > Duration::from_secs(600) {
            let shown: Vec<String> = open
                .iter()
                .take(10)
                .map(|j| {
                    format!(
                        "{} {} {} {} {}",
                        j["id"], j["name"], j["state"], j["waiting"], j["attempt"]
                    )
                })
                .collect();
            return Err(format!("{} jobs never end:\n  {}", open.len(), shown.join("\n  ")));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Each job ended as it had to. `one_attempt`: only the server was killed, which is no reason
/// to try anything again.
pub(crate) fn outcomes(
    acked: &[AckedJob],
    jobs: &BTreeMap<u64, Value>,
    one_attempt: bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    for a in acked {
        let Some(job) = jobs.get(&a.number) else { continue };
        let name = format!("job {} ({}, {:?})", a.id, a.name, a.kind);
        let state = job["state"].as_str().unwrap_or_default();
        if one_attempt && job["attempts"].as_u64().is_none_or(|n| n > 1) {
            problems.push(format!(
                "{name} was tried {} times though only the server was killed: {}",
                job["attempts"], job["past"]
            ));
        }
        if !is_final(job) {
            continue;
        }
        let right = match a.cancel {
            Cancel::No => state == a.kind.expected(),
            Cancel::Asked => state == a.kind.expected() || state == "cancelled",
            Cancel::Acknowledged => state == "cancelled",
        };
        if !right {
            problems.push(format!(
                "{name} ended {state} ({}); its cancellation: {:?}",
                job["reason"], a.cancel
            ));
        }
        if a.kind == Kind::Fail && state == "failed" && job["exit_code"] != 3 {
            problems.push(format!("{name} ended with exit code {}, not 3", job["exit_code"]));
        }
        // What a job said while no server heard it is reported again, before its end is.
        let step = job["checkpoint"]["step"].as_u64();
        let wrong = match (a.kind == Kind::Report, state) {
            (true, "succeeded") => step != Some(STEPS),
            (true, _) => step.is_some_and(|s| !(1..=STEPS).contains(&s)),
            (false, _) => false,
        };
        if wrong {
            problems.push(format!(
                "{name} ended {state}; of its {STEPS} checkpoints the newest known is {}",
                job["checkpoint"]
            ));
        }
    }
    problems
}

/// What the ranks wrote agrees with what the jobs say.
pub(crate) fn witnesses(
    file: &Path,
    acked: &[AckedJob],
    jobs: &BTreeMap<u64, Value>,
) -> Result<(), String> {
    let lines = ranks::read(file)?;
    // Those first that say why.
    let mut problems = Vec::new();
    let mut started: BTreeMap<(u64, u32), BTreeSet<u32>> = BTreeMap::new();
    for line in lines.iter().filter(|l| l.start) {
        let RankKey { job, attempt, rank } = line.key;
        started.entry((job, attempt)).or_default().insert(rank);
    }
    let up = ranks::running(&lines);
    for a in acked.iter().filter(|a| a.kind != Kind::Simulated) {
        let Some(job) = jobs.get(&a.number).filter(|j| is_final(j)) else { continue };
        let name = format!("job {} ({})", a.id, a.name);
        let attempts = job["attempts"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        if job["state"] == "succeeded" {
            let want: u64 = job["groups"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|g| g["nodes"].as_u64().unwrap_or(0) * g["ranks"].as_u64().unwrap_or(0))
                .sum();
            let got = started.get(&(a.number, attempts)).map_or(0, BTreeSet::len);
            if u64::try_from(got).unwrap_or(u64::MAX) != want {
                problems.push(format!("{name} succeeded, but {got} of its {want} ranks ever ran"));
            }
        }
        if let Some(((_, attempt), _)) =
            started.range((a.number, attempts + 1)..(a.number + 1, 0)).next()
        {
            problems.push(format!("attempt {attempt} of {name} ran, and the log knows {attempts}"));
        }
        if let Some(line) = up.values().find(|l| l.key.job == a.number) {
            problems.push(format!(
                "{name} ended {} ({}, past {}), but rank {} of attempt {} never did",
                job["state"], job["reason"], job["past"], line.key.rank, line.key.attempt,
            ));
        }
    }
    problems.extend(ranks::problems(&lines));
    none_of(&problems)
}
