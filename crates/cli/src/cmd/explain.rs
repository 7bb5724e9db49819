//! `muster explain`.

mod fault;

use clap::Args;
use muster_api::{Estimate, Explanation, Node};
use muster_model::job::JobState;
use muster_model::units::Time;
use muster_terminal::clean::line;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::colour::{self, Style, paint};
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::time;
use muster_terminal::pick;
use std::path::PathBuf;

/// Explain why a job waits and what would help; or what a fault means and what to do
#[derive(Debug, Args)]
#[command(after_help = "A fault is explained without a server.\n\n\
Examples:\n  muster explain 42\n  muster explain 42 -o json | jq .estimated_start\n  \
muster explain xid 79\n  muster explain sxid 12028\n  muster explain fault oom\n  \
muster explain fault \"$(dmesg | grep NVRM | tail -1)\"\n  \
muster explain xid 63 --rules faults.toml --pool train")]
pub(crate) struct Explain {
    /// Id or name of a job; or `xid`, `sxid` or `fault` before a code
    #[arg(value_name = "JOB|KIND")]
    what: String,
    /// Number of an XID or SXid, name of another fault, or a line of the kernel's log
    #[arg(value_name = "CODE")]
    code: Option<String>,
    /// Classify the fault by this file of overrides too
    #[arg(long, value_name = "FILE", requires = "code")]
    rules: Option<PathBuf>,
    /// Classify the fault as on nodes with these GPUs
    #[arg(long, value_name = "SKU", requires = "code")]
    sku: Option<String>,
    /// Classify the fault as on nodes of this pool
    #[arg(long, value_name = "POOL", requires = "code")]
    pool: Option<String>,
}

impl Explain {
    /// Is it a fault that is explained? That asks no server.
    pub(crate) fn is_of_fault(&self) -> bool {
        self.code.is_some()
    }

    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        if let Some(code) = &self.code {
            return self.fault(ctx, code);
        }
        let client = ctx.client()?;
        let job = pick::job(&client, &self.what).await.map_err(|e| self.meant(e))?;
        // An array's plain id means all of its tasks.
        let array = pick::array(&job, &self.what).map(|a| a.parent.to_string());
        let explanation = client.explain(array.as_deref().unwrap_or(&job.id)).await?;
        let drains = if ctx.is_table() && array.is_none() && job.state == JobState::Running {
            drains(&client.all_nodes(Some("draining")).await?, &job.id)
        } else {
            String::new()
        };
        ctx.show(&explanation, |e| text(e) + &drains)?;
        Ok(0)
    }

    fn fault(&self, ctx: &Ctx, code: &str) -> Result<u8, Fail> {
        if !fault::KINDS.contains(&self.what.as_str()) {
            return Err(Fail::usage(format!("`{}` is no kind of fault", self.what))
                .hint("write `muster explain xid 79`, `sxid 12028` or `fault oom`"));
        }
        let place = fault::FaultScope {
            file: self.rules.as_deref(),
            sku: self.sku.as_deref().unwrap_or_default(),
            pool: self.pool.as_deref().unwrap_or_default(),
        };
        ctx.show(&fault::explain(&self.what, code, &place)?, fault::text)?;
        Ok(0)
    }

    /// Somebody who wrote `muster explain xid` wants a code.
    fn meant(&self, fail: Fail) -> Fail {
        if fault::KINDS.contains(&self.what.as_str()) {
            return fail
                .hint(format!("to explain a fault, name it: `muster explain {} CODE`", self.what));
        }
        fail
    }
}

/// Which of a job's nodes drain: these wait for it.
fn drains(draining: &[Node], job: &str) -> String {
    let of = draining.iter().filter(|n| n.jobs.iter().any(|j| j.id == job));
    let lines = of.map(|n| format!("  Node {} is draining, and waits for it to end\n", n.name));
    lines.collect()
}

/// The explanation as text, for people.
pub(crate) fn text(e: &Explanation) -> String {
    text_for(e, now(), muster_terminal::output::width(), colour::on())
}

fn text_for(e: &Explanation, now: Time, width: Option<usize>, on: bool) -> String {
    let Explanation {
        kind: _,
        job,
        state,
        possible,
        summary,
        constraints,
        ahead,
        ahead_count,
        estimated_start,
        suggestions,
        would_go,
    } = e;
    let mut text = String::new();
    let what = job.as_ref().map_or("This job".into(), |id| format!("Job {id}"));
    let is = job.is_some() && !matches!(state.as_str(), "succeeded" | "failed");
    let word = if is { format!("is {state}") } else { state.clone() };
    text.push_str(&format!("{what} {}\n", paint(&word, colour::of_state(state), on)));
    if !summary.is_empty() {
        text.push_str(&format!("  {}\n", line(summary)));
    }
    if !possible {
        let never = "  It can never start on this fleet as it is.";
        text.push_str(&format!("{}\n", paint(never, Style::Bad, on)));
    }
    if !constraints.is_empty() {
        let mut table = Table::new(&["", "CONSTRAINT", "NODES LEFT", "GPUS LEFT", "DETAIL"]);
        for c in constraints {
            let style = if c.binding { Style::Warn } else { Style::Plain };
            table.row(vec![
                cell(if c.binding { "▶" } else { "" }).style(style),
                cell(&c.name).style(style),
                number(c.nodes_left),
                number(c.gpus_left),
                cell(&c.detail),
            ]);
        }
        text.push('\n');
        text.push_str(&table.render_for(width, on));
    }
    if *ahead_count > 0 {
        text.push_str(&format!("\n{}\n", paint(&format!("Ahead: {ahead_count}"), Style::Bold, on)));
        for a in ahead {
            let name = a.name.as_deref().map(|n| format!(" ({n})")).unwrap_or_default();
            text.push_str(&format!("  {}{name}: {}\n", a.id, line(&a.why)));
        }
        let rest = ahead_count.saturating_sub(ahead.len() as u64);
        if rest > 0 {
            text.push_str(&format!("  and {rest} more\n"));
        }
    }
    if let Some(place) = would_go {
        text.push_str(&format!("\nWould go to: {}\n", line(place)));
    }
    if let Some(estimate) = estimated_start {
        text.push_str(&format!("\n{}: {}\n", starts(estimate, now), line(&estimate.basis)));
    }
    if !suggestions.is_empty() {
        text.push_str(&format!("\n{}\n", paint("Sooner if:", Style::Bold, on)));
        for s in suggestions {
            text.push_str(&format!("  - {}\n", line(s)));
        }
    }
    text
}

/// Between when and when; only the late end where too little was seen. Only a reserved start is a
/// bound: jobs that go first move any other.
fn starts(e: &Estimate, now: Time) -> String {
    let late = time::full(now, e.at);
    let early = e.earliest.filter(|t| t.0 < e.at.0).map(|t| time::full(now, t));
    match (e.reserved, early) {
        (true, Some(early)) => format!("Starts between {early} and {late}"),
        (true, None) => format!("Starts at the latest {late}"),
        (false, Some(early)) => format!("Expected to start between {early} and {late}"),
        (false, None) => format!("Expected to start by {late}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::{Constraint, JobAhead, Kind, Timestamp};

    #[test]
    fn what_a_job_wrote_does_not_reach_the_terminal_as_it_is() {
        let evil = || "dir `/mnt/\x1b[2J\u{9b}1mx\nJob 1 is fine`".to_owned();
        let e = Explanation {
            kind: Kind::Explanation,
            job: Some("42".into()),
            state: "failed".into(),
            possible: true,
            summary: evil(),
            constraints: Vec::new(),
            ahead: vec![JobAhead { id: "41".into(), name: None, why: evil() }],
            ahead_count: 1,
            estimated_start: Some(Estimate {
                earliest: None,
                at: Timestamp(Time(60_000)),
                reserved: false,
                basis: evil(),
            }),
            suggestions: vec![evil()],
            would_go: Some(evil()),
        };
        let text = text_for(&e, Time(0), None, false);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        assert_eq!(text.matches("dir `/mnt/\\u{1b}[2J\\u{9b}1mx\\nJob 1 is fine`").count(), 5);
    }

    #[test]
    fn an_explanation_marks_what_binds_and_counts_what_is_ahead() {
        let e = Explanation {
            kind: Kind::Explanation,
            job: Some("42".into()),
            state: "queued".into(),
            possible: true,
            summary: "waits for 2 nodes with 8 free GPUs; 1 is free".into(),
            constraints: vec![
                Constraint {
                    name: "sku".into(),
                    detail: "h100-sxm".into(),
                    nodes_left: 16,
                    gpus_left: 128,
                    binding: false,
                    warning: false,
                },
                Constraint {
                    name: "gpus".into(),
                    detail: "8 free on each node".into(),
                    nodes_left: 1,
                    gpus_left: 8,
                    binding: true,
                    warning: false,
                },
            ],
            ahead: vec![JobAhead {
                id: "41".into(),
                name: Some("big".into()),
                why: "older".into(),
            }],
            ahead_count: 3,
            estimated_start: Some(Estimate {
                earliest: None,
                at: Timestamp(Time(60_000)),
                reserved: true,
                basis: "job 40 reaches its time limit".into(),
            }),
            suggestions: vec!["ask for 1 node".into()],
            would_go: Some("leaf l1, one leaf".into()),
        };
        assert_eq!(
            text_for(&e, Time(0), None, false),
            "Job 42 is queued\n  waits for 2 nodes with 8 free GPUs; 1 is free\n\n   \
CONSTRAINT  NODES LEFT  GPUS LEFT  DETAIL\n   \
sku                 16        128  h100-sxm\n\
▶  gpus                 1          8  8 free on each node\n\n\
Ahead: 3\n  41 (big): older\n  and 2 more\n\n\
Would go to: leaf l1, one leaf\n\n\
Starts at the latest 1970-01-01T00:01:00Z (in 1m): job 40 reaches its time limit\n\n\
Sooner if:\n  - ask for 1 node\n"
        );
    }

    #[test]
    fn which_nodes_of_a_running_job_drain_is_said() {
        let mine = crate::cmd::nodes::tests::node("hgx-01");
        let mut other = crate::cmd::nodes::tests::node("hgx-02");
        other.jobs.clear();
        let text = drains(&[mine, other], "42");
        assert_eq!(text, "  Node hgx-01 is draining, and waits for it to end\n");
    }

    #[test]
    fn a_start_is_a_range_where_enough_was_seen_and_a_bound_only_where_it_is_reserved() {
        let (early, at) = (Timestamp(Time(60_000)), Timestamp(Time(600_000)));
        let said = |earliest, reserved| {
            starts(&Estimate { earliest, at, reserved, basis: String::new() }, Time(0))
        };
        let range = "between 1970-01-01T00:01:00Z (in 1m) and 1970-01-01T00:10:00Z (in 10m)";
        assert_eq!(said(Some(early), true), format!("Starts {range}"));
        assert_eq!(said(Some(early), false), format!("Expected to start {range}"));
        for earliest in [None, Some(at)] {
            let late = "1970-01-01T00:10:00Z (in 10m)";
            assert_eq!(said(earliest, true), format!("Starts at the latest {late}"));
            assert_eq!(said(earliest, false), format!("Expected to start by {late}"));
        }
    }
}
