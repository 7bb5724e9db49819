//! `muster run`: submit, wait with a reason, stream, return the job's exit code.

use super::job_args::JobArgs;
use super::warnings::Warnings;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use muster_api::{Job, LogsQuery, Submitted};
use muster_client::{Client, ClientError, JobAction};
use muster_model::job::JobState;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::follow::{self, Printer};
use muster_terminal::output;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Exit code of a shell's Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Run a command on the cluster and see its output
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  muster run -- hostname\n  \
muster run --nodes 2 --gpus 8 -- sh -c 'echo $RANK of $WORLD_SIZE'\n  \
muster run --gpus 1 --memory 64GiB --time 1h -- python train.py\n\n\
The job's exit code is returned. Ctrl-C asks before it cancels; a second one detaches.")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

impl Run {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        if self.job.array.is_some() {
            return Err(Fail::usage("`run` shows one job, and an array is many")
                .hint("use `muster submit --array …`, then `muster logs JOB_INDEX`"));
        }
        let spec = self.job.spec(ctx, self.command)?;
        let client = ctx.client()?;
        let job = match client.submit(&spec).await? {
            Submitted::Job(job) => *job,
            Submitted::Array(a) => {
                return Err(Fail::failed(format!("the server made an array of it: {}", a.id)));
            }
        };
        let mut warnings = Warnings::of(&client, &job);
        let ended = attend(&client, job, !ctx.is_table(), &mut warnings).await?;
        let Some(job) = ended else { return Ok(INTERRUPTED) };
        // A short job may be over first.
        warnings.lines().await.iter().for_each(|text| output::note(text));
        if job.state != JobState::Succeeded {
            super::wait::print_job_end(&job);
        }
        if !ctx.is_table() {
            ctx.show(&job, |_| String::new())?;
        }
        Ok(follow::exit_code(&job))
    }
}

/// Watches a job to its end. None when the user detached.
async fn attend(
    client: &Client,
    mut job: Job,
    aside: bool,
    warnings: &mut Warnings,
) -> Result<Option<Job>, Fail> {
    let mut waiting = Waiting::new(&job);
    let mut printer = Printer::new(job.ranks() > 1).aside(aside).progress_bars(true);
    let mut events = follow::news(client);
    let mut pieces = None;
    let mut deaf = false;
    let mut looking: Option<JoinHandle<Result<Job, ClientError>>> = None;
    let mut tick = tokio::time::interval(Duration::from_millis(200));
    let (mut stale, mut since_look) = (true, 0u32);
    loop {
        if pieces.is_none() && job.attempts > 0 {
            let query = LogsQuery { follow: true, ..LogsQuery::default() };
            pieces = Some(follow::pieces(client, &job.id, query));
        }
        let silent = pieces.is_none();
        tokio::select! {
            piece = async { match &mut pieces { Some(rx) => rx.recv().await, None => None } }, if !silent => {
                match piece {
                    Some(Ok(piece)) => {
                        waiting.hide();
                        printer.print(piece)?;
                    }
                    Some(Err(e)) => return Err(detached(&job, e)),
                    None => {
                        waiting.hide();
                        printer.finish()?;
                        return Ok(Some(follow::until_final(client, job).await?));
                    }
                }
            }
            event = events.recv(), if !deaf => match event {
                // While it waits, what happens to others moves it too.
                Some(Ok(e)) => stale |= e.job() == Some(job.number) || job.state == JobState::Queued,
                Some(Err(_)) | None => deaf = true,
            },
            _ = tick.tick() => {
                since_look += 1;
                let due = stale && since_look >= 2 || since_look >= if deaf { 5 } else { 50 };
                if due && looking.is_none() {
                    (stale, since_look) = (false, 0);
                    looking = Some(fetch_job(client, &job.id));
                }
            }
            looked = async {
                match &mut looking {
                    Some(looking) => looking.await,
                    None => std::future::pending().await,
                }
            } => {
                looking = None;
                let looked = looked.map_err(|e| Fail::failed(format!("cannot look: {e}")))?;
                job = looked.map_err(|e| detached(&job, e))?;
                if job.state.is_final() && pieces.is_none() {
                    waiting.hide();
                    return Ok(Some(job));
                }
                waiting.update(client, &job).await;
            }
            lines = warnings.lines(), if warnings.is_asked() => waiting.print_above(&lines),
            signal = tokio::signal::ctrl_c() => {
                signal.map_err(|e| Fail::failed(format!("cannot listen for Ctrl-C: {e}")))?;
                waiting.hide();
                match ask(&job).await {
                    RunExit::Cancel => {
                        client.act(&job.id, JobAction::Cancel).await?;
                        output::note(&format!("job {} is being cancelled", job.id));
                    }
                    RunExit::Go => {}
                    RunExit::Detach => {
                        output::note(&format!(
                            "detached; job {id} continues\n  see it:  muster logs -f {id}\n  end it:  muster cancel {id}",
                            id = job.id
                        ));
                        return Ok(None);
                    }
                }
            }
        }
    }
}

/// Looks at the job in a task of its own: Ctrl-C is heard also while a server that is started again
/// is waited for.
fn fetch_job(client: &Client, id: &str) -> JoinHandle<Result<Job, ClientError>> {
    let (client, id) = (client.patient(), id.to_owned());
    tokio::spawn(async move { client.job(&id).await })
}

/// The server went away, for longer than a restart takes: the job did not.
fn detached(job: &Job, e: ClientError) -> Fail {
    let mut fail = Fail::from(e);
    fail.hint = Some(format!(
        "job {id} is not touched by this; come back with `muster logs -f {id}`",
        id = job.id
    ));
    fail
}

enum RunExit {
    Cancel,
    Go,
    Detach,
}

/// Asks what Ctrl-C was meant to do; a second one detaches at once, and so does a script.
async fn ask(job: &Job) -> RunExit {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return RunExit::Detach;
    }
    eprint!("\nCancel job {}? [y/N] (Ctrl-C again leaves it running) ", job.id);
    // A thread of its own: who detaches need not answer first, as the runtime would want of one of its own.
    let (said, answer) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line).map(|_| line);
        let _ = said.send(read);
    });
    tokio::select! {
        line = answer => match line {
            Ok(Ok(l)) if matches!(l.trim(), "y" | "Y" | "yes") => RunExit::Cancel,
            _ => RunExit::Go,
        },
        _ = tokio::signal::ctrl_c() => {
            eprintln!();
            RunExit::Detach
        }
    }
}

/// The spinner that says why the job waits; plain lines where stderr is no terminal.
struct Waiting {
    bar: Option<ProgressBar>,
    terminal: bool,
    said: String,
    /// That the job is held was said.
    held: bool,
    /// The agents that it waits for, as that was said.
    lost: Option<String>,
}

impl Waiting {
    fn new(job: &Job) -> Waiting {
        let terminal = std::io::stderr().is_terminal();
        let mut waiting =
            Waiting { bar: None, terminal, said: String::new(), held: false, lost: None };
        waiting.show(&format!("job {} is {}", job.id, job.state));
        waiting
    }

    fn show(&mut self, text: &str) {
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if text == self.said {
            return;
        }
        self.said.clone_from(&text);
        if !self.terminal {
            output::note(&format!("muster: {text}"));
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        bar.set_message(text);
    }

    fn hide(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if self.terminal {
            self.said.clear();
        }
    }

    /// Prints lines that stay, above what spins.
    fn print_above(&self, lines: &[String]) {
        let print = || lines.iter().for_each(|text| output::note(text));
        match &self.bar {
            Some(bar) if !lines.is_empty() => bar.suspend(print),
            _ => print(),
        }
    }

    /// Whether the job is held. That is said once, in a line that stays: somebody has to act, and what
    /// spins looks like work.
    fn note_held(&mut self, job: &Job) -> bool {
        let before = std::mem::replace(&mut self.held, job.held.is_some());
        if let Some(by) = job.held.as_ref().filter(|_| !before) {
            self.hide();
            let id = &job.id;
            let why = job.waiting.clone().unwrap_or_else(|| format!("is held by {by}"));
            output::note(&format!(
                "muster: job {id} {why}\n  leave it:  Ctrl-C\n  end it:    muster cancel {id}"
            ));
        }
        self.held
    }

    /// Says once, in a line that stays, that agents of a job that ran do not answer.
    fn note_lost(&mut self, job: &Job) {
        let lost = follow::waiting_for(job).filter(|_| job.state != JobState::Queued);
        if let Some(lost) = lost.as_ref().filter(|lost| Some(*lost) != self.lost.as_ref()) {
            self.hide();
            output::note(&format!("muster: {lost}"));
        }
        self.lost = lost;
    }

    async fn update(&mut self, client: &Client, job: &Job) {
        let held = self.note_held(job);
        self.note_lost(job);
        match job.state {
            JobState::Queued if held => {}
            JobState::Queued => {
                let why = match client.explain(&job.id).await {
                    Ok(e) => Some(e.summary),
                    Err(_) => job.waiting.clone(),
                };
                let why = why.filter(|w| !w.is_empty()).unwrap_or_else(|| "waits".into());
                self.show(&format!("job {} (queued) {why}", job.id));
            }
            JobState::Starting => {
                if let Some(p) = job.attempt.as_ref().and_then(|a| a.in_preflight()) {
                    self.show(&format!("job {} is in preflight: {}", job.id, p.message));
                    return;
                }
                let slots = job.attempt.as_ref().map(|a| a.slots.as_slice()).unwrap_or_default();
                let up = slots.iter().filter(|s| s.state == "running").count();
                self.show(&format!("job {} is starting: {up} of {} nodes up", job.id, slots.len()));
            }
            JobState::Stopping => {
                let ending = job.attempt.as_ref().filter(|a| a.is_ending());
                match ending.and_then(|a| a.stop.as_ref()) {
                    Some(stop) => self.show(&format!("job {} is {}", job.id, stop.message)),
                    None => self.hide(),
                }
            }
            _ => self.hide(),
        }
    }
}
