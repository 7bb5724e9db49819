//! `muster update`: what changes about jobs that wait or run.

use super::bulk::Refusals;
use clap::{ArgGroup, Args};
use muster_api::UpdateJob;
use muster_model::spec::JobSpec;
use muster_specs::flags;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::{output, pick};

/// Change the priority or the time limit of jobs
///
/// Of a running job only the time limit changes, and a longer one needs an operator: reserved
/// starts of others rest on it.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("what").required(true).multiple(true).args(["priority", "time"]),
    after_help = "Examples:\n  muster update 42 --priority high\n  muster update train --time 12h    a shorter limit may let it start sooner\n  \
muster update 42 --time 36h      of a running job: longer is for operators\n  \
muster update 42 --priority low --time 2-00:00"
)]
pub(crate) struct Update {
    /// Ids or names; an array's id stands for all of its tasks
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// low, normal, high or critical
    #[arg(long)]
    priority: Option<String>,
    /// Stop it after this long, such as 24h
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
}

impl Update {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let body = body(self.priority, self.time)?;
        let client = ctx.client()?;
        let mut found = Vec::new();
        for given in &self.jobs {
            found.push((given, pick::job(&client, given).await?));
        }
        let mut after = Vec::new();
        let mut refusals = Refusals::of("job", found.len());
        for (given, before) in found {
            // The plain id of an array means all of its tasks to the server.
            let array = pick::array(&before, given).map(|a| a.parent.to_string());
            let id = array.as_ref().unwrap_or(&before.id);
            let job = match client.update_job(id, &body).await {
                Ok(job) => job,
                Err(e) => {
                    refusals.add(given, e);
                    continue;
                }
            };
            if ctx.is_table() {
                let said = match array {
                    Some(_) => format!("array {id}: tasks that can be changed are changed\n"),
                    None if job.version == before.version => {
                        format!("job {id} asks for that already\n")
                    }
                    None => format!("job {id} is changed\n"),
                };
                output::print(&said)?;
            }
            after.push(job);
        }
        refusals.show(ctx, after)?;
        refusals.end(0)
    }
}

/// The flags are read as those of `submit` are.
fn body(priority: Option<String>, time: Option<String>) -> Result<UpdateJob, Fail> {
    let asked = priority.is_some();
    let mut spec = JobSpec::default();
    for (flag, value) in [("time", time), ("priority", priority)] {
        if let Some(value) = value {
            flags::apply(&mut spec, flag, Some(&value))?;
        }
    }
    Ok(UpdateJob { priority: asked.then_some(spec.priority), time_limit: spec.time_limit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use muster_model::spec::Priority;
    use muster_model::units::Span;

    #[test]
    fn flags_are_read_as_those_of_submit_are() {
        let b = body(Some("high".into()), Some("1-0".into())).unwrap();
        assert_eq!((b.priority, b.time_limit), (Some(Priority::High), Some(Span::hours(24))));
        let b = body(None, Some("90m".into())).unwrap();
        assert_eq!((b.priority, b.time_limit), (None, Some(Span::mins(90))));
        let e = body(Some("hihg".into()), None).unwrap_err();
        assert!(e.hint.is_some_and(|h| h.contains("high")));
        assert!(Cli::try_parse_from(["muster", "update", "42"]).is_err(), "nothing to change");
        assert!(Cli::try_parse_from(["muster", "update", "42", "--time", "1h"]).is_ok());
    }
}
