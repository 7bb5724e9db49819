//! `muster logs`.

use super::events::moment;
use clap::Args;
use muster_api::{Job, LogsQuery, Timestamp};
use muster_client::Client;
use muster_model::job::ArrayTask;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::follow::{self, Printer};
use muster_terminal::{output, pick};
use std::time::Duration;
use tokio::time::Instant;

/// Show the output of a job's ranks
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster logs 42\n  muster logs -f 42 --rank 0\n  muster logs 42 --attempt 1 --tail 100\n  muster logs -t 42 --since 10m\n\n\
With several ranks each line begins with its rank. The id of an array means its first task, 42_3\n\
another one. -o json prints one object a line, -o yaml one document after each `---`.\n\n\
Times are when the node saw the output, by the server's clock, in UTC and to a tenth of a second.\n\
`no-time` is printed before output whose time is not known: an older server stored it, or it was\n\
printed while no agent ran on its node. --since leaves such output out, and says so."
)]
pub(crate) struct Logs {
    /// Id or name
    #[arg(value_name = "JOB")]
    job: String,
    /// Follow: show new output as it comes, until the job has ended
    #[arg(short, long)]
    follow: bool,
    /// Only this rank's
    #[arg(long, value_name = "R")]
    rank: Option<u32>,
    /// This attempt's instead of the newest
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Only the last lines of each rank
    #[arg(long, value_name = "N")]
    tail: Option<u32>,
    /// Put the time before each line
    #[arg(short, long)]
    timestamps: bool,
    /// Only output since then: 10m, or a time like 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

impl Logs {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let Logs { job: given, follow, rank, attempt, tail, timestamps, since } = self;
        let since = since.as_deref().map(|t| moment(t, now())).transpose();
        let since = since.map_err(|e| Fail::usage(format!("--since: {e}")))?;
        let client = ctx.client()?;
        let job = pick::job(&client, &given).await?;
        if let Some(array) = pick::array(&job, &given) {
            output::note(&one_of(&job, array));
        }
        let many = rank.is_none() && job.ranks() > 1;
        let mut printer = Printer::new(many).timestamps(timestamps);
        let late = since.filter(|t| t.0 > now());
        let mut printed = false;
        let query = LogsQuery { rank, attempt, follow, tail, timestamps, since };
        let mut pieces = follow::pieces(&client, &job.id, query);
        let mut silence = Silence::new();
        loop {
            let piece = tokio::select! {
                piece = pieces.recv() => piece,
                () = silence.lasts(), if follow => {
                    silence.explain(&client, &job.id).await;
                    continue;
                }
            };
            let Some(piece) = piece else { break };
            let piece = piece?;
            silence.over();
            // A note says why itself, except that nobody looks into the future.
            printed |= !piece.bytes.is_empty() || (late.is_none() && piece.note.is_some());
            if ctx.is_table() {
                printer.print(piece)?;
            } else {
                let mut text = serde_json::json!({
                    "attempt": piece.attempt,
                    "rank": piece.rank,
                    "stream": piece.stream,
                    "text": String::from_utf8_lossy(&piece.bytes),
                    "note": piece.note,
                });
                if timestamps {
                    text["at"] = serde_json::json!(piece.at);
                }
                ctx.show_next(&text.to_string())?;
            }
        }
        printer.finish()?;
        // Said last: the server has looked whether there is such an attempt and such a rank.
        if job.attempts == 0 && !follow {
            let why = job.waiting.as_deref().map(|w| format!(": {w}")).unwrap_or_default();
            let never = if job.state.is_final() { "never started" } else { "has not started yet" };
            output::note(&format!("job {} {never}{why}", job.id));
        } else if !printed {
            output::note(&nothing(&job, late, since.is_some(), follow));
        }
        Ok(0)
    }
}

/// Whoever follows a job that prints nothing is given the reason, where it waits for something.
struct Silence {
    look_at: Instant,
    said: Option<String>,
}

/// From when on it is looked for, and how often.
const SILENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_secs(10);

impl Silence {
    fn new() -> Silence {
        Silence { look_at: Instant::now() + SILENCE, said: None }
    }

    async fn lasts(&self) {
        tokio::time::sleep_until(self.look_at).await;
    }

    fn over(&mut self) {
        self.look_at = Instant::now() + LOOK;
    }

    /// Says it once; output that comes meanwhile waits for a moment at most.
    async fn explain(&mut self, client: &Client, id: &str) {
        let looked = tokio::time::timeout(SILENCE, client.job(id)).await;
        self.look_at = Instant::now() + LOOK;
        // Of a server that is away something else is said.
        let Ok(Ok(job)) = looked else { return };
        let why = follow::waiting_for(&job);
        if let Some(why) = why.as_ref().filter(|_| why != self.said) {
            output::note(&format!("muster: {why}"));
        }
        self.said = why;
    }
}

/// Why there is no output to show.
fn nothing(job: &Job, late: Option<Timestamp>, since: bool, ended: bool) -> String {
    let id = &job.id;
    match late {
        Some(at) => format!("no output of job {id}: --since {at} is in the future"),
        None if job.spec.simulate.is_some() => {
            format!("job {id} printed nothing: it is a simulated workload without processes")
        }
        None if since => format!("job {id} printed nothing since then"),
        None if ended || job.state.is_final() => format!("job {id} printed nothing"),
        None => format!("job {id} has printed nothing yet"),
    }
}

/// An array has as many outputs as tasks: says whose this is, and how the others are seen.
fn one_of(job: &Job, array: ArrayTask) -> String {
    let ArrayTask { parent, count, .. } = array;
    format!(
        "array {parent} has {count} tasks; this is task {}, `muster logs {parent}_INDEX` shows another",
        job.id
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::JobId;

    #[test]
    fn the_output_of_an_array_says_which_task_it_is_of() {
        let mut job = muster_api::samples::job(4, muster_model::job::JobState::Running);
        let array = ArrayTask { parent: JobId(4), index: 7, count: 10 };
        (job.id, job.array) = ("4_7".into(), Some(array));
        let whole = pick::array(&job, "4").expect("its plain id means all of it");
        let said = one_of(&job, whole);
        assert!(said.contains("10 tasks; this is task 4_7") && said.contains("muster logs 4_"));
        assert!(pick::array(&job, "train").is_some(), "so does its name");
        assert!(pick::array(&job, "4_7").is_none());
    }
}
