//! `muster describe job|node NAME`.

mod job;
mod node;
mod timeline;

use clap::{Args, Subcommand};
use muster_api::{
    Event, Fault, FaultsQuery, Finding, FindingsQuery, Job, JobReport, TimelineEntry, Timestamp,
};
use muster_client::{Client, ClientError};
use muster_model::job::JobState;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::colour;
use muster_terminal::output::facts::Facts;
use muster_terminal::pick;
use std::collections::BTreeSet;

/// Describe a job or a node
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster describe job 42\n  muster describe node hgx-0003\n  muster describe job 42 -o json"
)]
pub(crate) struct Describe {
    #[command(subcommand)]
    what: DescribeTarget,
}

#[derive(Debug, Subcommand)]
enum DescribeTarget {
    /// A job: its gang, its attempts and why each ended, its timeline
    #[command(alias = "jobs")]
    Job {
        /// Id or name; an array's id stands for all of its tasks, ID_N for one
        name: String,
    },
    /// A node: its state, its inventory, what runs there, what is wrong and what happened
    #[command(alias = "nodes")]
    Node {
        /// Its name
        name: String,
    },
}

/// Of a longer log only the end is searched for one job's records.
const SEARCHED: usize = 20_000;
/// Records of one job that are reported.
const REPORTED: usize = 200;

impl Describe {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        match self.what {
            DescribeTarget::Job { name } => {
                let job = pick::job(&client, &name).await?;
                if let Some(task) = pick::array(&job, &name) {
                    let array = client.job_array(&task.parent.to_string()).await?;
                    // The array in short does not say which of its tasks are held.
                    let waits = array.items.iter().any(|t| t.state == JobState::Queued);
                    let held = match waits && ctx.is_table() {
                        true => pick::tasks_in(&client, "held", &job, task).await?,
                        false => Vec::new(),
                    };
                    let held: BTreeSet<String> = held.into_iter().map(|j| j.id).collect();
                    ctx.show(&array, |a| job::array_text(a, &held, colour::on()))?;
                    return Ok(0);
                }
                let beside = if ctx.is_table() {
                    read_context(&client, &job).await
                } else {
                    JobContext::default()
                };
                let on = colour::on();
                let end = not_shown(&beside.unread, on);
                ctx.show(&job, |j| job::text(j, &beside, now(), on) + &end)?;
            }
            DescribeTarget::Node { name } => {
                let node = match client.node(&name).await {
                    Ok(node) => node,
                    Err(e) => return Err(pick::with_node_hint(&client, &name, e).await),
                };
                let mut unread = Vec::new();
                let times = match ctx.is_table() {
                    true => times(&client, &name, &mut unread).await,
                    false => Vec::new(),
                };
                let on = colour::on();
                ctx.show(&node, |n| node::text(n, &times, now(), on) + &not_shown(&unread, on))?;
            }
        }
        Ok(0)
    }
}

/// What is reported of a job beside the job itself; without it the rest is still worth showing.
#[derive(Debug, Default)]
struct JobContext {
    /// Its newest records.
    events: Vec<Event>,
    /// From here on these are all; nothing when the log could not be read.
    since: Option<Timestamp>,
    faults: Vec<Fault>,
    findings: Vec<Finding>,
    report: Option<JobReport>,
    /// What could not be read, and why.
    unread: Vec<String>,
}

/// What was read. Where it could not be, that is noted: a list that is not there looks like an empty one.
/// What a caller may not see, or there is not, is left out without a note.
fn noted<T>(read: Result<T, ClientError>, what: &str, unread: &mut Vec<String>) -> Option<T> {
    match read {
        Ok(it) => Some(it),
        Err(ClientError::Api { status: 403 | 404, .. }) => None,
        Err(e) => {
            unread.push(format!("{what}: {e}"));
            None
        }
    }
}

/// The end of a description: what is missing in it.
fn not_shown(unread: &[String], on: bool) -> String {
    if unread.is_empty() {
        return String::new();
    }
    let mut f = Facts::new();
    f.section("Could not be read", on);
    unread.iter().for_each(|line| f.text(line));
    format!("\n{}", f.0)
}

async fn read_context(client: &Client, job: &Job) -> JobContext {
    let mut unread = Vec::new();
    let query = FaultsQuery { job: Some(job.number), ..FaultsQuery::default() };
    let faults = noted(client.faults(&query).await, "faults", &mut unread);
    let query = FindingsQuery { job: Some(job.number), ..FindingsQuery::default() };
    let findings = noted(client.findings_up_to(&query, 200).await, "findings", &mut unread);
    let report = noted(client.job_report(&job.id).await, "report", &mut unread);
    let all = noted(records(client).await, "timeline", &mut unread).unwrap_or_default();
    let (events, since) = newest(all, job.number);
    let faults = faults.map(|l| l.items).unwrap_or_default();
    let findings = findings.map(|l| l.items).unwrap_or_default();
    JobContext { events, since, faults, findings, report, unread }
}

/// What happened to a node; not for tokens that are bound to a project.
async fn times(client: &Client, node: &str, unread: &mut Vec<String>) -> Vec<TimelineEntry> {
    let read = noted(client.timeline(node, Some(40)).await, "timeline", unread);
    read.map(|l| l.items).unwrap_or_default()
}

/// The log, or its end where it is long.
async fn records(client: &Client) -> Result<Vec<Event>, ClientError> {
    let site = client.server_info().await?;
    let skipped = site.store.durable_seq.saturating_sub(SEARCHED as u64);
    let after = (skipped > 0).then(|| skipped.to_string());
    Ok(super::events::page(client, after, SEARCHED).await?.items)
}

/// The newest records of a job, and from when on they are all.
fn newest(all: Vec<Event>, job: u64) -> (Vec<Event>, Option<Timestamp>) {
    let since = all.first().map(|e| e.at);
    let mut own: Vec<Event> = all.into_iter().filter(|e| e.job() == Some(job)).collect();
    if own.len() <= REPORTED {
        return (own, since);
    }
    own.drain(..own.len() - REPORTED);
    let since = own.first().map(|e| e.at);
    (own, since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::ErrorInfo;
    use muster_model::units::Time;

    fn of_job(job: u64, at: i64) -> Event {
        Event {
            seq: 1,
            at: Time(at).into(),
            kind: "job_held".into(),
            origin: muster_api::event::EventOrigin::Input,
            project: None,
            actor: "ann".into(),
            data: serde_json::json!({ "job": job }),
        }
    }

    #[test]
    fn what_could_not_be_read_is_named_and_what_may_not_be_is_left_out() {
        let error = |code: &str, message: &str| ErrorInfo {
            code: code.into(),
            message: message.into(),
            field: None,
            hint: None,
        };
        let mut unread = Vec::new();
        assert_eq!(noted(Ok(1), "findings", &mut unread), Some(1));
        let forbidden = ClientError::Api { status: 403, error: error("forbidden", "no") };
        assert_eq!(noted::<u8>(Err(forbidden), "timeline", &mut unread), None);
        assert_eq!(not_shown(&unread, false), "");
        let away = error("unavailable", "the store cannot be read");
        let failed = ClientError::Api { status: 503, error: away };
        assert_eq!(noted::<u8>(Err(failed), "findings", &mut unread), None);
        let text = not_shown(&unread, false);
        assert_eq!(text, "\nCould not be read\n  findings: the store cannot be read\n");
    }

    #[test]
    fn the_newest_records_of_a_job_are_reported_and_from_when_on_they_are_all() {
        assert_eq!(newest(Vec::new(), 7), (Vec::new(), None), "nothing was read");
        let few = vec![of_job(8, 1), of_job(7, 2)];
        let (own, since) = newest(few, 7);
        assert_eq!((own.len(), since), (1, Some(Timestamp(Time(1)))));
        let many = (0..=REPORTED as i64).map(|at| of_job(7, at)).collect();
        let (own, since) = newest(many, 7);
        assert_eq!((own.len(), since), (REPORTED, Some(Timestamp(Time(1)))));
    }
}
