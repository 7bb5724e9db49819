//! After the week: tenants go on submitting through the API with tokens of their own, now and then
//! something breaks, and an operator says yes to what waits too long.

use muster_api::{CreateToken, JobsQuery, RemediesQuery};
use muster_client::{Client, ClientError, RemedyWord};
use muster_model::inject::Inject;
use muster_model::remedy::RemedyStep;
use muster_model::tenant::Role;
use muster_model::units::Span;
use muster_sim::demo::Live;
use muster_terminal::output;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The first thing that breaks under whoever looks.
const FIRST_FAULT: Duration = Duration::from_secs(20);
/// And how far apart others follow, at least; up to twice that.
const FAULTS_APART: Duration = Duration::from_secs(6 * 60);
/// Nothing more breaks while so many remedies go on.
const REMEDIES_MAX: usize = 6;
/// Whoever looks has so long to say yes themselves.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Tokens are for this start only.
const TTL: Span = Span::hours(30 * 24);
/// Jobs that wait: more are not submitted.
const QUEUE_MAX: u32 = 40;

/// Goes on with the story until the process ends. What fails is tried again later: a demonstration
/// is no reason to stop a server.
pub(crate) async fn go_on(server: String, token_file: PathBuf, seed: u64) {
    let told = |e: &dyn std::fmt::Display| tracing::warn!(error = %e, "the story stands still");
    let token = match std::fs::read_to_string(&token_file) {
        Ok(t) => t.trim().to_owned(),
        Err(e) => return told(&e),
    };
    let (Ok(admin), Ok(live)) = (Client::new(&server, Some(&token)), Live::new(seed)) else {
        return output::note("note: the story does not go on");
    };
    let mut tale = Tale { server, admin, live, tenants: BTreeMap::new(), seen: BTreeMap::new() };
    if let Err(e) = tale.forget_old_tokens().await {
        told(&e);
    }
    tale.tell().await;
}

struct Tale {
    server: String,
    admin: Client,
    live: Live,
    /// Clients of tenants' people.
    tenants: BTreeMap<String, Client>,
    /// Remedies that wait, and since when.
    seen: BTreeMap<String, Instant>,
}

/// Name of a person's token here: what the jobs say who submitted them.
fn is_person(name: &str) -> bool {
    const PEOPLE: [&str; 9] = ["ada", "bea", "bill", "bo", "cara", "cy", "emil", "esra", "ewan"];
    PEOPLE.contains(&name)
}

impl Tale {
    /// Those of an earlier start: their secrets are gone.
    async fn forget_old_tokens(&self) -> Result<(), ClientError> {
        for t in self.admin.tokens().await?.items {
            if is_person(&t.name) {
                self.admin.revoke_token(&t.id).await?;
            }
        }
        Ok(())
    }

    async fn tell(&mut self) {
        let began = Instant::now();
        let mut fault_at = began + FIRST_FAULT;
        let mut look_at = began + Duration::from_secs(30);
        loop {
            let Some(next) = self.live.next() else { return };
            let due = began + next.after.to_std();
            while Instant::now() < due {
                let wake = due.min(fault_at).min(look_at);
                tokio::time::sleep_until(wake.into()).await;
                let now = Instant::now();
                if now >= fault_at {
                    let apart = FAULTS_APART.as_secs();
                    let more = self.live.one_of(usize::try_from(apart).unwrap_or(1)) as u64;
                    fault_at = now + Duration::from_secs(apart + more);
                    quietly(self.break_something().await);
                }
                if now >= look_at {
                    look_at = now + Duration::from_secs(30);
                    quietly(self.say_yes(now).await);
                }
            }
            quietly(self.submit(&next.user, &next.spec).await);
        }
    }

    async fn submit(
        &mut self,
        user: &str,
        spec: &muster_model::spec::JobSpec,
    ) -> Result<(), ClientError> {
        let queued = JobsQuery {
            state: Some("queued".into()),
            limit: Some(QUEUE_MAX),
            ..JobsQuery::default()
        };
        if self.admin.jobs(&queued).await?.items.len() >= QUEUE_MAX as usize {
            return Ok(());
        }
        if !self.tenants.contains_key(user) {
            let body = CreateToken {
                name: user.to_owned(),
                role: Some(Role::User),
                project: spec.project.as_ref().map(ToString::to_string),
                ttl: Some(TTL),
                join: false,
                uses: None,
            };
            let made = self.admin.create_token(&body).await?;
            let client = Client::new(&self.server, Some(&made.secret))?;
            self.tenants.insert(user.to_owned(), client);
        }
        if let Some(client) = self.tenants.get(user) {
            client.submit(spec).await?;
        }
        Ok(())
    }

    /// Something breaks under work that runs.
    async fn break_something(&mut self) -> Result<(), ClientError> {
        let open = RemediesQuery { open: Some(true), ..RemediesQuery::default() };
        let open = self.admin.remedies(&open).await?.items;
        let going = open.iter().filter(|r| r.step != RemedyStep::Probation);
        if going.count() >= REMEDIES_MAX {
            return Ok(());
        }
        let sick: BTreeSet<&str> = open.iter().map(|r| r.node.as_str()).collect();
        let running =
            JobsQuery { state: Some("running".into()), limit: Some(200), ..JobsQuery::default() };
        let jobs = self.admin.jobs(&running).await?.items;
        let slots: Vec<(String, u32)> = jobs
            .iter()
            .filter_map(|j| j.attempt.as_ref())
            .flat_map(|a| a.slots.iter())
            .filter(|s| !sick.contains(s.node.as_str()))
            .filter_map(|s| Some((s.node.to_string(), *s.gpus.first()?)))
            .collect();
        let one = self.live.one_of(slots.len());
        let Some((node, gpu)) = slots.get(one).cloned() else { return Ok(()) };
        let fault = match self.live.one_of(4) {
            0 => Inject::Xid { gpu, code: 79 },
            1 => Inject::Thermal { gpu },
            2 => Inject::Remap { gpu, pending: true, failed: false },
            _ => Inject::EccUncorrectable { gpu },
        };
        self.admin.inject(&node, &fault).await?;
        Ok(())
    }

    /// What has waited too long for somebody's word gets it.
    async fn say_yes(&mut self, now: Instant) -> Result<(), ClientError> {
        let open = RemediesQuery { open: Some(true), ..RemediesQuery::default() };
        let open = self.admin.remedies(&open).await?.items;
        let waiting: Vec<String> =
            open.into_iter().filter(|r| r.step == RemedyStep::Approval).map(|r| r.id).collect();
        self.seen.retain(|id, _| waiting.contains(id));
        for id in waiting {
            let since = *self.seen.entry(id.clone()).or_insert(now);
            if now.duration_since(since) >= PATIENCE {
                self.admin.remedy_word(&id, RemedyWord::Approve, "").await?;
            }
        }
        Ok(())
    }
}

fn quietly(result: Result<(), ClientError>) {
    if let Err(e) = result {
        tracing::debug!(error = %e, "the story goes on later");
    }
}
