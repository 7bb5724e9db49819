//! `muster wait`.

use clap::Args;
use muster_api::{Job, JobList};
use muster_model::job::JobState;
use muster_model::units::Span;
use muster_scheduler::{STARTS_NEXT, WAITS};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::{follow, output, pick};
use std::time::Duration;
use tokio::time::Instant;

/// Wait until jobs end, and return their exit code
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster wait 42\n  muster wait 42 43 44 && echo all succeeded\n  \
muster wait $(muster submit train.yaml)\n  muster wait 42 --timeout 2h\n\n\
With several jobs the highest exit code is returned; an array's id stands for all of its tasks.\n\
After --timeout it is 124, as timeout(1) has it, and the jobs continue."
)]
pub(crate) struct Wait {
    /// Ids or names
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Give up after so long, such as 2h; the jobs continue
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
}

/// Exit code where the time is over, as `timeout` has it.
const TIMED_OUT: u8 = 124;

impl Wait {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        // So far ahead that no clock has it is no limit.
        let limit = |t: Span| Some((Instant::now().checked_add(Duration::from_millis(t.0))?, t));
        let limit = self.timeout.and_then(limit);
        let mut open = Vec::new();
        for given in &self.jobs {
            open.extend(pick::jobs(&client, given).await?);
        }
        let mut ended = Vec::new();
        for job in open {
            let id = job.id.clone();
            let mut reasons = Reasons::default();
            let seen = |job: &Job| {
                if let Some(why) = reasons.next(job) {
                    output::note(&why);
                }
            };
            let end = follow::until_final_seen(&client, job, seen);
            let job = match limit {
                None => end.await?,
                Some((at, t)) => tokio::time::timeout_at(at, end).await.map_err(|_| {
                    Fail::new(TIMED_OUT, format!("job {id} is not over after {t}"))
                        .hint("it continues; `muster cancel` ends it")
                })??,
            };
            print_job_end(&job);
            ended.push(job);
        }
        let code = ended.iter().map(follow::exit_code).max().unwrap_or(0);
        if !ctx.is_table() {
            match ended.as_slice() {
                [one] => ctx.show(one, |_| String::new())?,
                _ => ctx.show(&JobList { items: ended, cursor: None }, |_| String::new())?,
            }
        }
        Ok(code)
    }
}

/// Why a job waits, each reason once.
#[derive(Debug, Default)]
struct Reasons {
    said: String,
    looks: u32,
}

impl Reasons {
    /// What is printed at this look. Most jobs that were just submitted start at once: that they wait
    /// for free capacity is of interest where they still do at the next look. A hold, a quota and
    /// whatever else is not over by itself in a moment is shown at once.
    fn next(&mut self, job: &Job) -> Option<String> {
        self.looks += 1;
        let why = follow::waiting_for(job)?;
        let capacity = |why: &str| [WAITS, STARTS_NEXT].iter().any(|w| why.starts_with(*w));
        let soon = job.held.is_none() && job.waiting.as_deref().is_none_or(capacity);
        if job.state == JobState::Queued && soon && self.looks == 1 {
            return None;
        }
        // Times that pass and numbers that change are no other reason.
        let same = |w: &&str| !w.contains(|c: char| c.is_ascii_digit());
        let reason = match &job.held {
            Some(by) => by.clone(),
            None => why.split(' ').filter(same).collect::<Vec<_>>().join(" "),
        };
        if reason == self.said {
            return None;
        }
        self.said = reason;
        Some(why)
    }
}

/// How a job ended, on stderr.
pub(crate) fn print_job_end(job: &Job) {
    let why = job.reason.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
    output::note(&format!("job {} ({}) {}{why}", job.id, job.name, job.state));
    if let Some(hint) = job.hint() {
        output::note(&format!("hint: {hint}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_job_waits_is_shown_once_and_again_when_the_reason_is_another() {
        let mut job = muster_api::samples::job(7, JobState::Queued);
        let mut reasons = Reasons::default();
        job.held = Some("breaker template:default/k".into());
        let held = |wait: &str| {
            Some(format!("is held by breaker template:default/k; the breaker is probed in {wait}"))
        };
        job.waiting = held("9m");
        let said = reasons.next(&job).expect("a hold is shown at once");
        assert!(said.ends_with("held by breaker template:default/k; the breaker is probed in 9m"));
        job.waiting = held("8m59s");
        assert_eq!(reasons.next(&job), None, "time passes");
        job.held = None;
        job.waiting = Some("waits for 8 free GPUs".into());
        assert_eq!(
            reasons.next(&job).as_deref(),
            Some("job 7 waits to be started: waits for 8 free GPUs")
        );
        job.waiting = Some("waits for 4 free GPUs".into());
        assert_eq!(reasons.next(&job), None);
    }

    #[test]
    fn a_job_that_starts_at_once_is_waited_for_without_a_word() {
        let mut job = muster_api::samples::job(7, JobState::Queued);
        for soon in [format!("{WAITS}; `muster explain 7` says more"), STARTS_NEXT.to_owned()] {
            job.waiting = Some(soon);
            assert_eq!(Reasons::default().next(&job), None);
        }
    }

    #[test]
    fn that_a_job_waits_for_its_quota_or_another_job_is_shown_at_once() {
        let mut job = muster_api::samples::job(7, JobState::Queued);
        for why in [
            "quota research leaves 0 of the 8 GPUs it asks for: 8 owned, 8 used",
            "user:ann already runs 2 of 2 jobs",
            "waits for job 6 to succeed",
        ] {
            job.waiting = Some(why.into());
            let said = format!("job 7 waits to be started: {why}");
            assert_eq!(Reasons::default().next(&job), Some(said));
        }
    }
}
