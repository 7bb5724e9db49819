//! `muster search`.

use super::events::moment;
use clap::Args;
use muster_api::{LogStream, OutputHit, OutputSearchQuery, SearchHit, SearchQuery};
use muster_model::units::Time;
use muster_terminal::clean;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::table::{Table, cell};
use muster_terminal::{output, pick};

/// What a search over the site gives at most.
const MOST_HITS: u32 = 100;

/// Find jobs, nodes, GPUs, users, incidents and more; with --logs, lines of job output
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster search hgx-01\n  muster search 42\n  muster search GPU-5f3a    a UUID or a serial number\n  \
muster search gpu off bus -o json\n  muster search --logs NCCL WARN --since 24h\n  muster search --logs '\"out of memory\" rank' --job 42\n\n\
Only what your token may read is searched. The best match comes first. With --logs a line must have\n\
all the words, in any case and order, and \"phrases\" as they are; the newest line comes first."
)]
pub(crate) struct Search {
    /// An id, or a part of a name, a serial number or a UUID; with --logs, words and "phrases"
    #[arg(required = true, value_name = "TEXT")]
    text: Vec<String>,
    /// Search what ranks printed, over all jobs; --project P for those of one project
    #[arg(long)]
    logs: bool,
    /// Only this job's output: its id or name
    #[arg(long, value_name = "JOB", requires = "logs")]
    job: Option<String>,
    /// Only output since then: 24h, or a time like 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", requires = "logs")]
    since: Option<String>,
    /// At most so many [at most 100 without --logs]
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

impl Search {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        if self.logs {
            return self.lines(ctx).await;
        }
        if self.limit > MOST_HITS {
            return Err(Fail::usage(format!("--limit: at most {MOST_HITS} without --logs")));
        }
        let client = ctx.client()?;
        let query = SearchQuery { q: Some(self.text.join(" ")), limit: Some(self.limit) };
        let list = client.search(&query).await?;
        if ctx.is_table() && list.items.is_empty() {
            output::note("nothing matches");
            return Ok(0);
        }
        if ctx.is_table() && list.more {
            output::note("note: there may be more; type more of it, or use --limit");
        }
        ctx.show(&list, |l| table(&l.items).render())?;
        Ok(0)
    }

    /// What is asked of the server, but for the job.
    fn query(&self, ctx: &Ctx, now: Time) -> Result<OutputSearchQuery, Fail> {
        let since = self.since.as_deref().map(|t| moment(t, now)).transpose();
        Ok(OutputSearchQuery {
            q: Some(self.text.join(" ")),
            project: ctx.global.project.clone().filter(|p| !p.is_empty()),
            since: since.map_err(|e| Fail::usage(format!("--since: {e}")))?,
            ..OutputSearchQuery::default()
        })
    }

    /// Lines of job output.
    async fn lines(self, ctx: &Ctx) -> Result<u8, Fail> {
        let mut query = self.query(ctx, now())?;
        let client = ctx.client()?;
        if let Some(given) = &self.job {
            let job = pick::job(&client, given).await?;
            if let Some(array) = pick::array(&job, given) {
                let (count, id) = (array.count, &job.id);
                output::note(&format!("the array has {count} tasks; only task {id} is searched"));
            }
            query.job = Some(job.id);
        }
        let list = client.search_output_up_to(&query, self.limit as usize).await?;
        if ctx.is_table() && list.indexing {
            output::note("note: not all stored output is indexed yet; more may be found later");
        }
        if ctx.is_table() && list.items.is_empty() {
            output::note(&match query.since.filter(|t| t.0 > now()) {
                Some(at) => format!("no line of stored output: --since {at} is in the future"),
                None => "no line of stored output has these words".into(),
            });
            return Ok(0);
        }
        if ctx.is_table() && list.cursor.is_some() {
            output::note("note: there are more lines; add words, or use --limit");
        }
        ctx.show(&list, |l| l.items.iter().map(line).collect())?;
        Ok(0)
    }
}

fn table(hits: &[SearchHit]) -> Table {
    let mut table = Table::new(&["KIND", "ID", "NAME", "STATE", "ABOUT"]);
    for h in hits {
        table.row(vec![
            cell(h.kind.word()),
            cell(&h.id),
            cell(&h.title),
            cell(h.state.as_deref().unwrap_or_default()),
            cell(&h.detail),
        ]);
    }
    table
}

/// As `grep` prints: where it is, then the whole line.
fn line(h: &OutputHit) -> String {
    let stream = match h.stream {
        LogStream::Stdout => "",
        LogStream::Stderr => " stderr",
    };
    let number = h.line.map(|n| format!(" line {n}")).unwrap_or_default();
    let at = h.at.map(|at| format!("{at}  ")).unwrap_or_default();
    let more = if h.cut { "…" } else { "" };
    let (attempt, rank) = (h.attempt, h.rank);
    let text = clean::line(&h.text);
    format!("{at}job {} attempt {attempt} rank {rank}{stream}{number}: {text}{more}\n", h.job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::SearchKind;

    #[test]
    fn a_hit_says_what_it_is_and_how_it_is_named() {
        let hit = SearchHit {
            kind: SearchKind::Job,
            id: "42".into(),
            title: "train".into(),
            detail: "alpha, user:ann".into(),
            state: Some("running".into()),
            entity: None,
        };
        assert_eq!(
            table(&[hit]).render_for(None, false),
            "KIND  ID  NAME   STATE    ABOUT\njob   42  train  running  alpha, user:ann\n"
        );
    }

    #[test]
    fn a_line_says_where_it_is_and_moves_no_cursor() {
        let mut hit = OutputHit {
            job: "42".into(),
            project: "alpha".into(),
            attempt: 1,
            rank: 3,
            stream: LogStream::Stderr,
            line: Some(17),
            offset: 0,
            at: Some(Time(0).into()),
            text: "NCCL WARN \u{1b}[2Jboom".into(),
            cut: true,
        };
        let text = line(&hit);
        assert!(text.starts_with(
            "1970-01-01T00:00:00.000Z  job 42 attempt 1 rank 3 stderr line 17: NCCL WARN "
        ));
        assert!(!text.trim_end().contains(char::is_control), "{text:?}");
        (hit.line, hit.at, hit.cut, hit.text) = (None, None, false, "plain".into());
        hit.stream = LogStream::Stdout;
        assert_eq!(line(&hit), "job 42 attempt 1 rank 3: plain\n");
    }
}
