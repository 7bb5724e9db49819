//! Jobs.

use crate::{Client, ClientError};
use muster_api::{Explanation, Job, JobArray, JobList, JobReport, JobsQuery, Submitted};
use muster_model::spec::JobSpec;

/// What can be done with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobAction {
    /// End it.
    Cancel,
    /// Keep it from starting.
    Hold,
    /// Let it start again.
    Release,
    /// Try again from the queue.
    Requeue,
    /// Ask it for a checkpoint.
    Checkpoint,
}

impl JobAction {
    /// The last word of its address.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            JobAction::Cancel => "cancel",
            JobAction::Hold => "hold",
            JobAction::Release => "release",
            JobAction::Requeue => "requeue",
            JobAction::Checkpoint => "checkpoint",
        }
    }
}

impl Client {
    /// Submits a job or an array.
    pub async fn submit(&self, spec: &JobSpec) -> Result<Submitted, ClientError> {
        self.json(self.post(&["v1", "jobs"]).body(spec)?).await
    }

    /// What would happen if it were submitted.
    pub async fn dry_run(&self, spec: &JobSpec) -> Result<Explanation, ClientError> {
        let call = self.post(&["v1", "jobs"]).query(&[("dry_run", Some("true".into()))]);
        self.json(call.body(spec)?).await
    }

    /// One page of jobs, newest first.
    pub async fn jobs(&self, query: &JobsQuery) -> Result<JobList, ClientError> {
        let JobsQuery {
            state,
            project,
            user,
            name,
            prefix,
            sku,
            tag,
            held,
            last_ended,
            sort,
            limit,
            cursor,
        } = query.clone();
        let call = self.get(&["v1", "jobs"]).query(&[
            ("state", state),
            ("project", project),
            ("user", user),
            ("name", name),
            ("prefix", prefix),
            ("sku", sku),
            ("tag", tag),
            ("held", held.map(|h| h.to_string())),
            ("last_ended", last_ended.then(|| "true".into())),
            ("sort", sort),
            ("limit", limit.map(|n| n.to_string())),
            ("cursor", cursor),
        ]);
        self.json(call).await
    }

    /// Pages until there are no more jobs, or `most` of them. A cursor is left when there are.
    pub async fn jobs_up_to(&self, query: &JobsQuery, most: usize) -> Result<JobList, ClientError> {
        let mut query = query.clone();
        let mut items = Vec::new();
        loop {
            query.limit = Some(u32::try_from((most - items.len()).min(500)).unwrap_or(500));
            let page = self.jobs(&query).await?;
            let got_none = page.items.is_empty();
            items.extend(page.items);
            if page.cursor.is_none() || items.len() >= most || got_none {
                return Ok(JobList { items, cursor: page.cursor });
            }
            query.cursor = page.cursor;
        }
    }

    /// One job, by `42` or `42_3`.
    pub async fn job(&self, id: &str) -> Result<Job, ClientError> {
        self.json(self.get(&["v1", "jobs", id])).await
    }

    /// Does something with a job.
    pub async fn act(&self, id: &str, action: JobAction) -> Result<Job, ClientError> {
        self.json(self.post(&["v1", "jobs", id, action.word()])).await
    }

    /// Queues every task of an array anew, also those that ended well and those that run.
    pub async fn requeue_all(&self, id: &str) -> Result<Job, ClientError> {
        let call = self.post(&["v1", "jobs", id, "requeue"]);
        self.json(call.query(&[("all", Some("true".into()))])).await
    }

    /// The tasks of an array in short.
    pub async fn job_array(&self, id: &str) -> Result<JobArray, ClientError> {
        self.json(self.get(&["v1", "jobs", id, "array"])).await
    }

    /// Why a job waits.
    pub async fn explain(&self, id: &str) -> Result<Explanation, ClientError> {
        self.json(self.get(&["v1", "jobs", id, "explain"])).await
    }

    /// Where a job's time went, and what it did with its GPUs.
    pub async fn job_report(&self, id: &str) -> Result<JobReport, ClientError> {
        self.json(self.get(&["v1", "jobs", id, "report"])).await
    }
}
