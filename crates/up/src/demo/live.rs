//! After the week: tenants go on submitting through the API with tokens of their own, now and then
//! something breaks, and an operator says yes to what waits too long. None of it is done with the
//! token of whoever looks: the audit log must name nobody who did not act.

use muster_api::{CreateToken, JobsQuery, RemediationsQuery};
use muster_client::{Client, ClientError, RemediationDecision};
use muster_link::token::{ApiToken, hash};
use muster_model::Command;
use muster_model::inject::Inject;
use muster_model::names::Label;
use muster_model::remediation::RemediationStep;
use muster_model::tenant::{Role, TokenUse};
use muster_model::units::Span;
use muster_server::brain::Brain;
use muster_sim::demo::{Live, ON_CALL};
use muster_terminal::output;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The first thing that breaks under whoever looks.
const FIRST_FAULT: Duration = Duration::from_secs(20);
/// And how far apart others follow, at least; up to twice that.
const FAULTS_APART: Duration = Duration::from_secs(6 * 60);
/// Nothing more breaks while so many remediations go on.
const REMEDIATIONS_MAX: usize = 6;
/// Whoever looks has so long to say yes themselves. It counts from the start: what was pending for
/// hours of the week is not approved before anybody has seen it.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Tokens are for this start only.
const TTL: Span = Span::hours(30 * 24);
/// Jobs that wait: more are not submitted.
const QUEUE_MAX: u32 = 40;
/// Beside the admin's token: the public parts of the tokens that the story made.
const TOKENS: &str = "demo-tokens.json";
/// Who breaks things and gives tenants their tokens.
const DRIVER: &str = "demo";

/// Which simulated people act from now on, for whoever looks.
pub(crate) fn people() -> String {
    let minutes = PATIENCE.as_secs() / 60;
    format!(
        "simulated people continue to work here: user:{ON_CALL} approves what has been pending for \
         {minutes} minutes since this start,\nuser:{DRIVER} breaks something now and then, \
         tenants submit jobs"
    )
}

/// Goes on with the story until the process ends. What fails is tried again later: a demonstration
/// is no reason to stop a server.
pub(crate) async fn run_demo(server: String, brain: Brain, token_file: PathBuf, seed: u64) {
    let print =
        |e: &dyn std::fmt::Display| tracing::warn!(error = %e, "the demonstration has stopped");
    let Ok(live) = Live::new(seed) else {
        return output::note("note: the demonstration does not continue");
    };
    let mut made = MadeTokens::read(&token_file.with_file_name(TOKENS));
    let admin = match person(&brain, &server, DRIVER, Role::Admin).await {
        Ok((id, client)) => {
            if let Err(e) = made.revoke(&client).await {
                print(&e);
            }
            made.add(id);
            client
        }
        Err(e) => return print(&e),
    };
    let on_call = match person(&brain, &server, ON_CALL, Role::Operator).await {
        Ok((id, client)) => {
            made.add(id);
            client
        }
        Err(e) => return print(&e),
    };
    drop(brain);
    let (tenants, seen) = (BTreeMap::new(), BTreeMap::new());
    let mut tale = DemoDriver { server, admin, on_call, live, made, tenants, seen };
    tale.send_next().await;
}

/// A client that acts under this name, and the public part of its token. The server itself makes
/// the token: a token that makes another is in the log with its own name.
async fn person(
    brain: &Brain,
    server: &str,
    name: &str,
    role: Role,
) -> Result<(String, Client), String> {
    let token = ApiToken::generate().map_err(|e| e.to_string())?;
    let command = Command::CreateToken {
        id: token.id.clone(),
        name: name.parse::<Label>().map_err(|e| e.to_string())?,
        hash: hash(&token.secret),
        usage: TokenUse::Api { role, project: None },
        ttl: Some(TTL),
    };
    brain.system(command).await.map_err(|e| e.to_string())?;
    let client = Client::new(server, Some(&token.to_string())).map_err(|e| e.to_string())?;
    Ok((token.id, client))
}

struct DemoDriver {
    server: String,
    /// As [`DRIVER`].
    admin: Client,
    /// As [`ON_CALL`].
    on_call: Client,
    live: Live,
    made: MadeTokens,
    /// Clients of tenants' people.
    tenants: BTreeMap<String, Client>,
    /// Remediations that wait, and since when.
    seen: BTreeMap<String, Instant>,
}

/// Tokens that the story made, here or in an earlier start. People may give theirs the same names,
/// so it is by their ids that the old ones are found.
struct MadeTokens {
    file: PathBuf,
    ids: BTreeSet<String>,
}

impl MadeTokens {
    fn read(file: &Path) -> Self {
        let ids = std::fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Self { file: file.to_owned(), ids: ids.unwrap_or_default() }
    }

    fn add(&mut self, id: String) {
        self.ids.insert(id);
        self.write();
    }

    /// Revokes those of an earlier start: their secrets are gone.
    async fn revoke(&mut self, admin: &Client) -> Result<(), ClientError> {
        for id in self.ids.clone() {
            // Gone is gone, whoever revoked it.
            if let Err(e) = admin.revoke_token(&id).await
                && !e.is_not_found()
            {
                return Err(e);
            }
            self.ids.remove(&id);
            self.write();
        }
        Ok(())
    }

    /// One that is not written down is never revoked; it ends by itself.
    fn write(&self) {
        let text = serde_json::to_vec(&self.ids).unwrap_or_default();
        if let Err(e) = std::fs::write(&self.file, text) {
            tracing::warn!(error = %e, file = %self.file.display(), "tokens were not written down");
        }
    }
}

impl DemoDriver {
    async fn send_next(&mut self) {
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
                    quietly(self.approve_overdue(now).await);
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
            self.made.add(made.token.id.clone());
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
        let open = RemediationsQuery { open: Some(true), ..RemediationsQuery::default() };
        let open = self.admin.remediations(&open).await?.items;
        let going = open.iter().filter(|r| r.step != RemediationStep::Probation);
        if going.count() >= REMEDIATIONS_MAX {
            return Ok(());
        }
        let unhealthy: BTreeSet<&str> = open.iter().map(|r| r.node.as_str()).collect();
        let running =
            JobsQuery { state: Some("running".into()), limit: Some(200), ..JobsQuery::default() };
        let jobs = self.admin.jobs(&running).await?.items;
        let slots: Vec<(String, u32)> = jobs
            .iter()
            .filter_map(|j| j.attempt.as_ref())
            .flat_map(|a| a.slots.iter())
            .filter(|s| !unhealthy.contains(s.node.as_str()))
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
    async fn approve_overdue(&mut self, now: Instant) -> Result<(), ClientError> {
        let open = RemediationsQuery { open: Some(true), ..RemediationsQuery::default() };
        let open = self.admin.remediations(&open).await?.items;
        let waiting: Vec<String> = open
            .into_iter()
            .filter(|r| r.step == RemediationStep::Approval)
            .map(|r| r.id)
            .collect();
        self.seen.retain(|id, _| waiting.contains(id));
        for id in waiting {
            let since = *self.seen.entry(id.clone()).or_insert(now);
            if now.duration_since(since) >= PATIENCE {
                self.on_call.decide_remediation(&id, RemediationDecision::Approve, "").await?;
            }
        }
        Ok(())
    }
}

fn quietly(result: Result<(), ClientError>) {
    if let Err(e) = result {
        tracing::debug!(error = %e, "the demonstration continues later");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// People give their tokens names that the story uses too: `ada`, whose token `theirs` is.
    #[tokio::test]
    async fn a_new_start_revokes_only_tokens_that_the_story_made() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join(TOKENS);
        assert!(MadeTokens::read(&file).ids.is_empty());
        let mut first = MadeTokens::read(&file);
        first.add("gone".into());
        first.add("mine".into());

        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server = tokio::spawn(async move {
            let mut asked = Vec::new();
            while asked.len() < 2 {
                let (mut socket, _) = listener.accept().await.expect("a connection");
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(socket.read_u8().await.expect("a request"));
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                let line = request.lines().next().unwrap_or_default().to_owned();
                let gone = r#"{"error":{"code":"not_found","message":"there is no token gone"}}"#;
                let (status, body) =
                    if line.contains("gone") { ("404 Not Found", gone) } else { ("200 OK", "{}") };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\
                     Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
                socket.write_all(answer.as_bytes()).await.expect("written");
                asked.push(line);
            }
            asked
        });
        let admin = Client::new(&url, Some("t")).expect("a client");
        let mut second = MadeTokens::read(&file);
        second.revoke(&admin).await.expect("revoked");
        let asked = server.await.expect("served");
        assert_eq!(asked, ["DELETE /v1/tokens/gone HTTP/1.1", "DELETE /v1/tokens/mine HTTP/1.1"]);
        assert!(MadeTokens::read(&file).ids.is_empty(), "they are not revoked twice");
    }
}
