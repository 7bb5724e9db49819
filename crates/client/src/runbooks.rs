//! Runbooks and the records of incidents.

use crate::{Client, ClientError};
use muster_api::{
    AnswerRunbook, Incident, IncidentRecord, NoteRequest, OwnRequest, ReasonRequest, Runbook,
    RunbookDryRun, RunbookList, RunbookRun, RunbookRunList, RunsQuery, SetRunbook, StartRunbook,
};
use reqwest::Method;

impl Client {
    /// All runbooks.
    pub async fn runbooks(&self) -> Result<RunbookList, ClientError> {
        self.json(self.get(&["v1", "runbooks"])).await
    }

    /// One runbook with its steps.
    pub async fn runbook(&self, name: &str) -> Result<Runbook, ClientError> {
        self.json(self.get(&["v1", "runbooks", name])).await
    }

    /// Writes a runbook of the site's own, or changes one.
    pub async fn set_runbook(&self, name: &str, text: &str) -> Result<Runbook, ClientError> {
        let body = SetRunbook { text: text.into() };
        self.json(self.call(Method::PUT, &["v1", "runbooks", name]).body(&body)?).await
    }

    /// Takes back a runbook of the site's own.
    pub async fn delete_runbook(&self, name: &str) -> Result<(), ClientError> {
        self.bytes(self.call(Method::DELETE, &["v1", "runbooks", name])).await.map(drop)
    }

    /// Says what a run would see and do. Changes nothing.
    pub async fn dry_run_runbook(
        &self,
        name: &str,
        body: &StartRunbook,
    ) -> Result<RunbookDryRun, ClientError> {
        self.json(self.post(&["v1", "runbooks", name, "dry-run"]).body(body)?).await
    }

    /// Begins to follow a runbook.
    pub async fn start_runbook(
        &self,
        name: &str,
        body: &StartRunbook,
    ) -> Result<RunbookRun, ClientError> {
        self.json(self.post(&["v1", "runbooks", name, "run"]).body(body)?).await
    }

    /// Runs, newest first.
    pub async fn runbook_runs(&self, query: &RunsQuery) -> Result<RunbookRunList, ClientError> {
        let RunsQuery { open, runbook, node, limit, cursor } = query.clone();
        let call = self.get(&["v1", "runbook-runs"]).query(&[
            ("open", open.map(|o| o.to_string())),
            ("runbook", runbook),
            ("node", node),
            ("limit", limit.map(|n| n.to_string())),
            ("cursor", cursor),
        ]);
        self.json(call).await
    }

    /// One run with what it saw and did.
    pub async fn runbook_run(&self, id: &str) -> Result<RunbookRun, ClientError> {
        self.json(self.get(&["v1", "runbook-runs", id])).await
    }

    /// A word at the step that a run stands at.
    pub async fn answer_runbook(
        &self,
        id: &str,
        body: &AnswerRunbook,
    ) -> Result<RunbookRun, ClientError> {
        self.json(self.post(&["v1", "runbook-runs", id, "answer"]).body(body)?).await
    }

    /// A run is not to go on.
    pub async fn stop_runbook(&self, id: &str, reason: &str) -> Result<RunbookRun, ClientError> {
        let body = ReasonRequest { reason: reason.into() };
        self.json(self.post(&["v1", "runbook-runs", id, "stop"]).body(&body)?).await
    }

    /// Everything about an incident.
    pub async fn incident_record(&self, id: &str) -> Result<IncidentRecord, ClientError> {
        self.json(self.get(&["v1", "incidents", id, "record"])).await
    }

    /// A draft of the report on an incident, as Markdown.
    pub async fn incident_report(&self, id: &str) -> Result<Vec<u8>, ClientError> {
        let found = self.bytes(self.get(&["v1", "incidents", id, "report"])).await?;
        Ok(found.to_vec())
    }

    /// Writes something down about an incident.
    pub async fn note_incident(&self, id: &str, text: &str) -> Result<Incident, ClientError> {
        let body = NoteRequest { text: text.into() };
        self.json(self.post(&["v1", "incidents", id, "note"]).body(&body)?).await
    }

    /// Closes an incident and everything that is open of it.
    pub async fn close_incident(&self, id: &str, reason: &str) -> Result<Incident, ClientError> {
        let body = ReasonRequest { reason: reason.into() };
        self.json(self.post(&["v1", "incidents", id, "close"]).body(&body)?).await
    }

    /// Somebody takes an incident on, or lets it go.
    pub async fn own_incident(&self, id: &str, body: &OwnRequest) -> Result<Incident, ClientError> {
        self.json(self.post(&["v1", "incidents", id, "own"]).body(body)?).await
    }
}
