//! `muster ps`: jobs.

use clap::Args;
use jiff::tz::TimeZone;
use muster_api::{Job, JobList, JobsQuery};
use muster_client::Client;
use muster_model::spec::GpuPart;
use muster_model::units::{Span, Time};
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::jobs;
use muster_terminal::output::table::{Table, cell, number, state};
use muster_terminal::output::time;

/// List jobs: active ones, and those that just ended
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster ps\n  muster ps -a --user alice\n  muster ps --state queued,running --watch\n  \
muster ps --sort=-gpus\n  muster ps -o json | jq -r '.items[].id'"
)]
pub(crate) struct Ps {
    /// Also those that ended long ago
    #[arg(short, long)]
    all: bool,
    /// Only jobs in these states: queued, held, starting, running, stopping, succeeded, failed, cancelled
    #[arg(long, value_name = "STATE,…")]
    state: Option<String>,
    /// Only this user's
    #[arg(long)]
    user: Option<String>,
    /// Only jobs with this name
    #[arg(long)]
    name: Option<String>,
    /// Order: id, name, project, user, state, gpus, priority, submitted, started or duration; --sort=-gpus has
    /// the largest first. Without --all or --state only active jobs are listed
    #[arg(long, value_name = "FIELD", allow_hyphen_values = true)]
    sort: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 1000, value_name = "N")]
    limit: usize,
    /// Draw again whenever something happens
    #[arg(short, long)]
    watch: bool,
}

/// A job that ended within this is still of interest.
const RECENT: Span = Span::mins(60);

impl Ps {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        if self.watch {
            return super::watch::watch(ctx, &client, async || {
                let list = self.list(ctx, &client).await?;
                Ok(table(&list.items, now()).render())
            })
            .await;
        }
        let list = self.list(ctx, &client).await?;
        if list.cursor.is_some() {
            muster_terminal::output::note("note: there are more; raise --limit to see them");
        }
        ctx.show(&list, |l| table(&l.items, now()).render())?;
        if ctx.is_table() && list.items.is_empty() {
            muster_terminal::output::note(&self.nothing());
        }
        Ok(0)
    }

    async fn list(&self, ctx: &Ctx, client: &Client) -> Result<JobList, Fail> {
        let query = JobsQuery {
            state: self.state.clone(),
            project: ctx.global.project.clone().filter(|p| !p.is_empty()),
            user: self.user.clone(),
            name: self.name.clone(),
            held: self.held(),
            sort: self.sort.clone(),
            ..JobsQuery::default()
        };
        let limit = self.limit.max(1);
        if self.all || self.state.is_some() {
            return Ok(client.jobs_up_to(&query, limit).await?);
        }
        let active = JobsQuery { state: Some("active".into()), ..query.clone() };
        let mut list = client.jobs_up_to(&active, limit).await?;
        // The server sorts: what ended lately is another list, and would have to be sorted in between.
        if self.sort.is_some() {
            return Ok(list);
        }
        let ended = JobsQuery { last_ended: true, limit: Some(50), ..query };
        let since = now() - RECENT;
        let recent = client.jobs(&ended).await?.items.into_iter();
        list.items.extend(recent.filter(|j| j.ended_at.is_some_and(|t| t.0 >= since)));
        list.items.sort_by_key(|j| std::cmp::Reverse(j.number));
        // A job that ended between the two questions came twice.
        list.items.dedup_by_key(|j| j.number);
        list.items.truncate(limit);
        Ok(list)
    }

    /// Why the list is empty. A user or a name that nobody has looks like one without jobs.
    fn nothing(&self) -> String {
        let flags = [("--user", &self.user), ("--name", &self.name)];
        let given: Vec<String> =
            flags.iter().filter_map(|(f, v)| v.as_deref().map(|v| format!("{f} {v}"))).collect();
        match (given.is_empty(), self.all) {
            (true, _) => {
                "no jobs; `muster run -- hostname` starts one, `muster ps -a` shows old ones".into()
            }
            (false, true) => format!("no job fits {}", given.join(" ")),
            (false, false) => {
                format!("no job fits {}; `muster ps -a` shows old ones too", given.join(" "))
            }
        }
    }

    /// The server counts a held job as queued, too; here a state is the word that is printed.
    /// It leaves them out itself, or they would count towards the limit.
    fn held(&self) -> Option<bool> {
        let words = self.state.as_ref()?;
        let named = |w: &str| words.split(',').any(|x| x.trim() == w);
        (!named("held") && !named("active")).then_some(false)
    }
}

/// The jobs as a table.
pub(crate) fn table(jobs: &[Job], now: Time) -> Table {
    table_in(jobs, now, &TimeZone::system())
}

fn table_in(jobs: &[Job], now: Time, zone: &TimeZone) -> Table {
    let mut table = Table::new(&[
        "ID", "NAME", "PROJECT", "USER", "STATE", "NODES", "GPUS", "AGE", "TIME", "REASON",
    ]);
    for job in jobs {
        table.row(vec![
            cell(&job.id),
            cell(&job.name),
            cell(&job.project),
            cell(job.user.strip_prefix("user:").unwrap_or(&job.user)),
            state(jobs::job_state_label(job)),
            number(job.nodes()),
            number(gpus(job)),
            number(time::short(now.since(job.submitted_at.0))),
            number(jobs::ran_words(job, now)),
            cell(jobs::reason(job, now, zone)),
        ]);
    }
    table
}

/// GPUs of the gang as it runs, or as it was written; parts count as what they are.
fn gpus(job: &Job) -> String {
    match job.groups.iter().find_map(|g| g.part.as_ref()) {
        // How large a slice is depends on the GPU it is cut from.
        Some(GpuPart::Mig(profile)) => profile.clone(),
        _ => muster_terminal::output::gpus(job.gpu_milli()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use muster_api::samples::{job, running};

    use muster_api::{AttemptPreflight, Notice, ReservedStart};

    use muster_model::job::{JobState, StopReason};
    use muster_model::spec::{CheckpointRequest, CheckpointSpec, Group, JobSpec, OnPartition};

    /// A running job with a checkpoint directory.
    pub(crate) fn saving(number: u64, on_partition: Option<OnPartition>) -> Job {
        let request = CheckpointRequest::default();
        let dir = "/ckpt".into();
        let checkpoint = Some(CheckpointSpec { dir, request, grace: None, interval: None });
        let spec = JobSpec { checkpoint, on_partition, ..JobSpec::default() };
        Job { spec: spec.into(), ..running(number) }
    }

    /// Its first node was lost; no other attempt starts before then.
    pub(crate) fn lose(job: &mut Job, fence_until: Option<Time>) {
        job.state = JobState::Stopping;
        let a = job.attempt.as_mut().expect("it runs");
        a.slots[0].state = "lost".into();
        let reason = StopReason::NodeLost { node: "hgx-01".parse().expect("a name") };
        a.stop = Some(muster_api::job::Stop {
            message: reason.to_string(),
            reason,
            at: Time(60_000).into(),
            grace: Span::secs(30),
            fence_until: fence_until.map(Into::into),
        });
    }

    #[test]
    fn jobs_are_listed_with_why_they_wait_or_where_they_run() {
        let running = running(3);
        let mut queued = job(2, JobState::Queued);
        queued.waiting = Some("waits for 2 nodes".into());
        let mut failed = job(1, JobState::Failed);
        failed.started_at = Some(Time(1000).into());
        failed.ended_at = Some(Time(31_000).into());
        failed.reason = Some("rank 3 exited with code 7 on hgx-01".into());
        let text = table(&[running, queued, failed], Time(180_000)).render_for(None, false);
        assert_eq!(
            text,
            "ID  NAME   PROJECT  USER   STATE    NODES  GPUS  AGE   TIME  REASON\n\
             3   train  default  alice  running      2    16   3m  2m00s  hgx-[01-02]\n\
             2   train  default  alice  queued       2    16   3m         waits for 2 nodes\n\
             1   train  default  alice  failed       2    16   3m    30s  rank 3 exited with code 7 on hgx-01\n"
        );
    }

    #[test]
    fn a_job_that_waits_for_the_ranks_on_a_lost_node_says_until_when() {
        let ends = |job: &Job| {
            let text = table(std::slice::from_ref(job), Time(90_000)).render_for(None, false);
            text.lines().nth(1).unwrap_or_default().to_owned()
        };
        let mut job = saving(7, Some(OnPartition::default()));
        assert!(ends(&job).ends_with("hgx-[01-02]"), "{}", ends(&job));
        lose(&mut job, Some(Time(170_000)));
        let lost = "node hgx-01 was lost";
        let want = format!("{lost}; next attempt in 1m20s at the earliest");
        assert!(ends(&job).ends_with(&want), "{}", ends(&job));
        // Its ranks elsewhere still leave.
        lose(&mut job, Some(Time(80_000)));
        assert!(ends(&job).ends_with(lost), "{}", ends(&job));
        // No other attempt follows, and it is over when nothing of it writes any more.
        lose(&mut job, Some(Time(170_000)));
        if let Some(stop) = job.attempt.as_mut().and_then(|a| a.stop.as_mut()) {
            stop.reason = StopReason::Cancelled { by: "user:alice".into() };
            stop.message = stop.reason.to_string();
        }
        let want = "cancelled by user:alice; ends in 1m20s: its ranks on hgx-01 may still write";
        assert!(ends(&job).ends_with(want), "{}", ends(&job));
        let mut goes_on = saving(8, Some(OnPartition::Continue));
        lose(&mut goes_on, None);
        let want = format!("{lost}; next attempt when hgx-01 connects again or is retired");
        assert!(ends(&goes_on).ends_with(&want), "{}", ends(&goes_on));
    }

    #[test]
    fn time_is_that_of_the_last_attempt_until_its_last_rank_ended() {
        let past = |no, from, until| muster_api::job::PastAttempt {
            no,
            nodes: vec!["hgx-01".into()],
            placed_at: Time(from).into(),
            started_at: Some(Time(from).into()),
            ended_at: Time(until).into(),
            stopped_at: None,
            verdict: muster_model::job::Verdict::Application,
            attributed_to: "application".into(),
            reason: String::new(),
            findings: Vec::new(),
        };
        // It failed at once, was run again by a person eleven minutes later, and failed at once.
        let mut failed = job(1, JobState::Failed);
        failed.started_at = Some(Time(1_000).into());
        failed.past = vec![past(1, 1_000, 3_000), past(2, 660_000, 664_000)];
        failed.ended_at = Some(Time(669_000).into());
        assert_eq!(jobs::ran(&failed, Time(900_000)), Some(Span::secs(4)));
        // Its ranks were gone before it was heard that they were up.
        let mut unheard = failed.clone();
        unheard.past = vec![past(1, 1_000, 1_400)];
        (unheard.past[0].started_at, unheard.past[0].reason) = (None, "rank 0 exited".into());
        assert_eq!(jobs::ran_words(&unheard, Time(900_000)), "<1s");
        failed.state = JobState::Queued;
        failed.ended_at = None;
        assert_eq!(jobs::ran(&failed, Time(900_000)), None, "it waits");
        // The cause of its end is looked for.
        let mut ending = running(2);
        if let Some(a) = &mut ending.attempt {
            a.freed_at = Some(Time(61_000).into());
        }
        assert_eq!(jobs::ran(&ending, Time(65_000)), Some(Span::secs(1)));
        // A node was lost under it: what counts is when it was last heard, not how long the fence lasts.
        let mut fenced = running(3);
        if let Some(a) = &mut fenced.attempt {
            a.stopped_at = Some(Time(62_000).into());
        }
        assert_eq!(jobs::ran(&fenced, Time(165_000)), Some(Span::secs(2)));
    }

    #[test]
    fn a_held_job_is_listed_by_the_state_that_is_printed_for_it() {
        let asked = |state: Option<&str>| Ps {
            all: false,
            state: state.map(str::to_owned),
            user: None,
            name: None,
            limit: 10,
            sort: None,
            watch: false,
        };
        let waits = job(5, JobState::Queued);
        let held = Job { held: Some("user:alice".into()), ..waits.clone() };
        assert_eq!(
            (jobs::job_state_label(&waits), jobs::job_state_label(&held)),
            ("queued", "held")
        );
        for (state, held) in [
            (None, None),
            (Some("queued"), Some(false)),
            (Some("running, queued"), Some(false)),
            (Some("queued,held"), None),
            (Some("active"), None),
        ] {
            assert_eq!(asked(state).held(), held, "{state:?}");
        }
    }

    #[test]
    fn reserved_starts_notices_and_parts_are_shown() {
        let mut reserved = job(5, JobState::Queued);
        reserved.waiting = Some("waits for free capacity".into());
        reserved.reserved_start = Some(ReservedStart {
            at: Time(3_900_000).into(),
            nodes: vec!["hgx-01".into()],
            basis: muster_model::job::Basis::Limits,
            since: Time(0).into(),
            moved: None,
        });
        let mut share = job(4, JobState::Queued);
        let part = Some(GpuPart::Milli(250));
        share.groups = vec![Group { nodes: 1, gpus: 1, part, ..share.groups[0].clone() }].into();
        let text = table_in(&[reserved, share], Time(0), &TimeZone::UTC).render_for(None, false);
        assert!(text.lines().nth(1).is_some_and(|l| l.ends_with("starts by 01:05")), "{text}");
        assert!(text.lines().nth(2).is_some_and(|l| l.contains("1  0.25")), "{text}");
        let n = Notice {
            reason: muster_model::job::StopReason::Resized { nodes: 4 },
            message: "it continues with 4 nodes".into(),
            at: Time(0).into(),
            until: Time(60_000).into(),
        };
        assert_eq!(
            jobs::notice(&n, Time(0), &TimeZone::UTC),
            "stops by 00:01: it continues with 4 nodes"
        );
    }

    #[test]
    fn a_gang_whose_network_is_measured_says_so() {
        let mut starting = running(6);
        starting.state = JobState::Starting;
        if let Some(a) = &mut starting.attempt {
            (a.state, a.started_at) = (JobState::Starting, None);
            a.preflight = Some(AttemptPreflight {
                message: "measuring the fabric among 2 nodes".into(),
                since: Time(50_000).into(),
                until: Time(110_000).into(),
                slow: Vec::new(),
                outcome: None,
            });
        }
        let text = table(std::slice::from_ref(&starting), Time(62_000)).render_for(None, false);
        let why = "preflight: measuring the fabric among 2 nodes since 12s ago; \
                   starts in 48s at the latest";
        assert!(text.lines().nth(1).is_some_and(|l| l.ends_with(why)), "{text}");
        if let Some(p) = starting.attempt.as_mut().and_then(|a| a.preflight.as_mut()) {
            p.outcome = Some("passed".into());
        }
        let text = table(&[starting], Time(62_000)).render_for(None, false);
        assert!(text.lines().nth(1).is_some_and(|l| l.ends_with("hgx-[01-02]")), "{text}");
    }

    #[test]
    fn exit_codes_of_jobs_are_handed_on() {
        let mut j = job(1, JobState::Failed);
        for (code, want) in [(Some(7), 7), (None, 1), (Some(0), 1), (Some(-1), 1), (Some(300), 1)] {
            j.exit_code = code;
            assert_eq!(muster_terminal::follow::exit_code(&j), want, "{code:?}");
        }
        assert_eq!(muster_terminal::follow::exit_code(&job(1, JobState::Succeeded)), 0);
        assert_eq!(muster_terminal::follow::exit_code(&job(1, JobState::Cancelled)), 1);
    }
}
