//! `muster submit`.

use super::job_args::JobArgs;
use super::warnings;
use clap::Args;
use muster_api::{Explanation, Submitted};
use muster_client::Client;
use muster_model::spec::JobSpec;
use muster_specs::{Note, Parsed};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::{Fail, REFUSED};
use muster_terminal::{follow, jobs, output, pick};
use std::io::Read;

/// Submit a job: a YAML spec, a script with #MUSTER or #SBATCH lines, or a command
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster submit train.yaml\n  muster submit train.sbatch --nodes 4\n  \
muster submit --nodes 2 --gpus 8 --time 24h -- torchrun train.py\n  \
muster submit --array 0-9 -- sh -c 'echo task $SLURM_ARRAY_TASK_ID'\n  \
muster submit train.yaml --dry-run    would it start now, and where; else when and why\n  \
ID=$(muster submit prepare.yaml) && muster submit train.yaml --after $ID:ok"
)]
pub(crate) struct Submit {
    /// The spec or script; `-` reads it from stdin
    #[arg(value_name = "FILE", required_unless_present = "command", conflicts_with = "command")]
    pub(crate) file: Option<String>,
    /// Only show what would happen; ends with 5 if it would be refused, else with 0
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Wait until it has ended, and return its exit code
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

impl Submit {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let Submit { file, dry_run, wait, job, command } = self;
        let spec = spec(ctx, file, job, command).await?;
        let client = ctx.client()?;
        if dry_run {
            // As submitting it would end: it is refused, or it may wait.
            let possible = self::dry_run(ctx, &client, &spec).await?.possible;
            return Ok(if possible { 0 } else { REFUSED });
        }
        let submitted = client.submit(&spec).await?;
        if !wait {
            ctx.show(&submitted, |s| describe_submission(s, &spec, output::is_terminal()))?;
            warnings::print(&client, &submitted).await;
            return Ok(0);
        }
        output::note(describe_submission(&submitted, &spec, true).trim_end());
        warnings::print(&client, &submitted).await;
        let mut code = 0;
        for job in pick::jobs(&client, submitted.id()).await? {
            let ended = follow::until_final(&client, job).await?;
            code = code.max(follow::exit_code(&ended));
            super::wait::print_job_end(&ended);
        }
        if ctx.is_table() {
            output::print(&describe_submission(&submitted, &spec, false))?;
        } else {
            let ended = pick::job(&client, submitted.id()).await?;
            ctx.show(&ended, |_| String::new())?;
        }
        Ok(code)
    }
}

/// The spec of a file with flags over it, or of a command line.
pub(crate) async fn spec(
    ctx: &Ctx,
    file: Option<String>,
    job: JobArgs,
    command: Vec<String>,
) -> Result<JobSpec, Fail> {
    let Some(file) = file else { return job.spec(ctx, command) };
    let (parsed, origin) = read_spec(&file)?;
    let mut spec = parsed.spec.clone();
    job.over(ctx, &mut spec)?;
    let project = ctx.typed_project().is_none().then_some("MUSTER_PROJECT");
    let overruled = parsed.overruled(&spec, |flag| project.filter(|_| flag == "project"));
    for note in parsed.notes.iter().chain(&overruled) {
        print_note(origin, note);
    }
    if parsed.gpu_type(&spec).is_some() {
        let skus = ctx.client()?.console_layout().await?.skus;
        if let Some(note) = parsed.name_sku(&mut spec, &skus, origin)? {
            print_note(origin, &note);
        }
    }
    Ok(spec)
}

fn print_note(origin: &str, note: &Note) {
    output::note(&format!("note: {origin}:{}: {}", note.line, note.message));
}

/// Says what would happen; nothing does.
pub(crate) async fn dry_run(
    ctx: &Ctx,
    client: &Client,
    spec: &JobSpec,
) -> Result<Explanation, Fail> {
    let explanation = client.dry_run(spec).await?;
    ctx.show(&explanation, super::explain::text)?;
    Ok(explanation)
}

/// Just the id for programs; for people a sentence, and what they would otherwise find out when a
/// node is lost.
fn describe_submission(submitted: &Submitted, spec: &JobSpec, terminal: bool) -> String {
    let (mut text, loss) = match submitted {
        s if !terminal => return format!("{}\n", s.id()),
        Submitted::Job(j) => {
            (format!("Submitted job {} ({})\n", j.id, j.name), jobs::after_loss(&j.spec))
        }
        Submitted::Array(a) => {
            // What the server writes down with each task.
            let task = JobSpec { on_partition: spec.partition_written(), ..spec.clone() };
            let text = format!("Submitted job array {} ({}) of {} tasks\n", a.id, a.name, a.count);
            (text, jobs::after_loss(&task))
        }
    };
    if let Some(loss) = loss {
        text += &format!("When one of its nodes is lost, it {loss}\n");
    }
    text
}

/// Reads a spec or script; and what to call the file in notes about it.
fn read_spec(file: &str) -> Result<(Parsed, &str), Fail> {
    let most = muster_specs::job::MAX_FILE as u64 + 1;
    let mut bytes = Vec::new();
    let read = if file == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|f| f.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|e| {
        let fail = Fail::usage(format!("cannot read {file}: {e}"));
        match e.kind() {
            std::io::ErrorKind::NotFound => {
                fail.hint("to run a command, put it after `--`: muster submit -- CMD")
            }
            _ => fail,
        }
    })?;
    let text = String::from_utf8(bytes).map_err(|e| {
        Fail::usage(format!(
            "{file} is not text: byte {} is not UTF-8",
            e.utf8_error().valid_up_to()
        ))
        .hint("a job is a YAML spec or a shell script; to run a program, put it after `--`")
    })?;
    let origin = if file == "-" { "stdin" } else { file };
    Ok((muster_specs::job::parse(&text, origin)?, origin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::ps::tests::saving;
    use muster_model::spec::OnPartition;

    #[test]
    fn a_job_with_checkpoints_is_submitted_with_a_word_on_how_soon_it_starts_again() {
        let job = saving(42, Some(OnPartition::default()));
        let spec = JobSpec { on_partition: None, ..(*job.spec).clone() };
        let submitted = Submitted::Job(Box::new(job));
        let loss = "When one of its nodes is lost, it starts again 2m20s after the lost node's last \
                    heartbeat at the earliest; submit with `--on-partition` below 2m to shorten \
                    that\n";
        let want = format!("Submitted job 42 (train)\n{loss}");
        assert_eq!(describe_submission(&submitted, &spec, true), want);
        assert_eq!(describe_submission(&submitted, &spec, false), "42\n", "programs read the id");
        let plain = Submitted::Job(Box::new(muster_api::samples::running(43)));
        let text = describe_submission(&plain, &JobSpec::default(), true);
        assert_eq!(text, "Submitted job 43 (train)\n");
    }
}
