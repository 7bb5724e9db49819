//! `muster runbook`: what people do about what went wrong, step by step.

mod follow;
mod show;

use clap::{Args, Subcommand, ValueEnum};
use muster_api::{AnswerRunbook, RunbookAnswer, RunsQuery, StartRunbook};
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::colour::on;
use muster_terminal::pick;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// List runbooks, follow one step by step, or run it automatically
#[derive(Debug, Args)]
#[command(
    visible_alias = "runbooks",
    after_help = "Examples:\n  muster runbook\n  muster runbook list --for gpu-off-bus\n  muster runbook show gpu-off-bus\n  \
muster runbook run gpu-off-bus --node hgx-0003 --dry-run\n  \
muster runbook run gpu-off-bus --node hgx-0003            step by step, on a terminal\n  \
muster runbook run gpu-off-bus --node hgx-0003 --auto     automatically\n  \
muster runbook runs\n  muster runbook describe 1207\n  \
muster runbook answer 1207 --step 9 --choose 'reseated or replaced'\n  \
muster runbook answer 1207 --step 2 go\n  muster runbook stop 1207\n  \
muster runbook apply our-own.md\n\n\
An automatic run has the permissions of whoever started it, and automation's limits;\n\
where it may not act, it waits for a person."
)]
pub(crate) struct RunbookCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List runbooks
    List {
        /// Only those that serve this failure mode or topic
        #[arg(long = "for", value_name = "MODE")]
        serves: Option<String>,
    },
    /// Show a runbook
    Show {
        /// Its name
        name: String,
        /// As it is written
        #[arg(long)]
        text: bool,
    },
    /// Follow a runbook
    Run {
        /// Its name
        name: String,
        #[command(flatten)]
        about: RunbookTarget,
        /// Show what each step would see and do; changes nothing
        #[arg(long)]
        dry_run: bool,
        /// Run the steps automatically
        #[arg(long, conflicts_with = "dry_run")]
        auto: bool,
    },
    /// List runs
    Runs {
        /// Ended ones too
        #[arg(short, long)]
        all: bool,
        /// Only about this node
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
    },
    /// Show a run: what it saw, what it did, its current step
    Describe {
        /// Its number
        run: String,
    },
    /// Answer at the current step of a run
    Answer {
        /// Number of the run
        run: String,
        /// Check or do it now; pass, or done by hand; fail; skip the step
        #[arg(value_enum, required_unless_present = "choose")]
        answer: Option<Answer>,
        /// The step that is meant
        #[arg(long, value_name = "N")]
        step: u32,
        /// One of the choices of a question
        #[arg(long, value_name = "WORDS", conflicts_with = "answer")]
        choose: Option<String>,
        /// A note
        #[arg(long, default_value = "", value_name = "TEXT")]
        note: String,
    },
    /// Stop a run
    Stop {
        /// Its number
        run: String,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Write a runbook of the site's own, or change one that came with Muster
    Apply {
        /// A file
        file: PathBuf,
    },
    /// Delete a runbook of the site's own
    Delete {
        /// Its name
        name: String,
    },
}

/// An answer at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Answer {
    /// Check now, or do it now
    Go,
    /// Pass, or it was done by hand
    Yes,
    /// Fail, or it could not be done
    No,
    /// Skip the step
    Skip,
}

/// What a run is about.
#[derive(Debug, Args)]
struct RunbookTarget {
    /// The node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// The GPU
    #[arg(long, value_name = "N")]
    gpu: Option<u32>,
    /// The job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// The finding
    #[arg(long, value_name = "ID")]
    finding: Option<String>,
    /// The incident
    #[arg(long, value_name = "ID")]
    incident: Option<String>,
    /// The breaker, as kind:name
    #[arg(long, value_name = "ENTITY")]
    breaker: Option<String>,
}

impl RunbookTarget {
    fn vars(self) -> BTreeMap<String, String> {
        let RunbookTarget { node, gpu, job, finding, incident, breaker } = self;
        let gpu = gpu.map(|g| g.to_string());
        let all = [
            ("node", node),
            ("gpu", gpu),
            ("job", job),
            ("finding", finding),
            ("incident", incident),
            ("breaker", breaker),
        ];
        all.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?))).collect()
    }
}

impl RunbookCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        let bare = self.verb.is_none();
        match self.verb.unwrap_or(Verb::List { serves: None }) {
            Verb::List { serves } => {
                let mut list = client.runbooks().await?;
                if let Some(what) = &serves {
                    list.items.retain(|b| b.modes.contains(what) || b.topics.contains(what));
                }
                if ctx.is_table() && list.items.is_empty() {
                    output::note("no runbook serves that; `muster runbook` shows all");
                    return Ok(0);
                }
                ctx.show(&list, |l| show::books(&l.items).render())?;
                if bare && ctx.is_table() {
                    output::note(
                        "`muster runbook show NAME` shows one, `muster runbook run NAME --dry-run` \
                         says what it would do, `muster runbook runs` lists those under way",
                    );
                }
            }
            Verb::Show { name, text } => {
                let book = client.runbook(&name).await?;
                if text {
                    ctx.only_text(
                        "--text",
                        "`muster runbook show NAME -o json` has the text in it",
                    )?;
                    output::print(book.text.as_deref().unwrap_or_default())?;
                } else {
                    ctx.show(&book, |b| show::book(b, on()))?;
                }
            }
            Verb::Run { name, about, dry_run, auto } => {
                let body = StartRunbook { vars: about.vars(), auto };
                if dry_run {
                    let plan = client.dry_run_runbook(&name, &body).await?;
                    ctx.show(&plan, |p| show::plan(p, on()))?;
                    return Ok(0);
                }
                let run = client.start_runbook(&name, &body).await?;
                if auto || !ctx.is_table() || !output::is_terminal() {
                    ctx.show(&run, |r| show::run(r, now(), on()))?;
                    return Ok(0);
                }
                return follow::follow(&client, run).await;
            }
            Verb::Runs { all, node } => {
                let open = (!all).then_some(true);
                let query = RunsQuery { open, node, limit: Some(1000), ..RunsQuery::default() };
                let list = client.runbook_runs(&query).await?;
                if list.items.is_empty() {
                    pick::known_node(&client, query.node.as_deref()).await?;
                }
                if ctx.is_table() && list.items.is_empty() {
                    output::note(if all {
                        "there was no run"
                    } else {
                        "no run is active; --all shows ended ones"
                    });
                    return Ok(0);
                }
                ctx.show(&list, |l| show::runs(&l.items, now()).render())?;
                ctx.note_more(list.cursor.as_ref(), "only the newest 1000 are shown");
            }
            Verb::Describe { run } => {
                let run = client.runbook_run(&run).await?;
                ctx.show(&run, |r| show::run(r, now(), on()))?;
            }
            Verb::Answer { run, answer, step, choose, note } => {
                let answer = match answer {
                    Some(Answer::Go) => RunbookAnswer::Go,
                    Some(Answer::Yes) => RunbookAnswer::Yes,
                    Some(Answer::No) => RunbookAnswer::No,
                    Some(Answer::Skip) => RunbookAnswer::Skip,
                    None => RunbookAnswer::Choose,
                };
                let body = AnswerRunbook { step, answer, choose, note };
                let run = client.answer_runbook(&run, &body).await?;
                ctx.show(&run, |r| show::run(r, now(), on()))?;
            }
            Verb::Stop { run, reason } => {
                let run = client.stop_runbook(&run, &reason).await?;
                ctx.show(&run, |r| show::run(r, now(), on()))?;
            }
            Verb::Apply { file } => {
                let text = output::read_text(&file)?;
                let origin = file.display().to_string();
                // What is wrong is reported with the file and the line, before anything is sent.
                let book = muster_runbook::parse(&origin, &text)
                    .map_err(|e| Fail::usage(&e).hint(e.hint.clone()))?;
                let book = client.set_runbook(&book.name, &text).await?;
                ctx.show(&book, |b| format!("runbook {} is applied\n", b.name))?;
            }
            Verb::Delete { name } => {
                client.delete_runbook(&name).await?;
                output::note(&format!("the site's own runbook {name} is deleted"));
            }
        }
        Ok(0)
    }
}
