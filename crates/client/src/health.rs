//! Health: findings, incidents, breakers, remediations, automation.

use crate::{Client, ClientError};
use muster_api::{
    Automation, Breaker, BreakerList, CauseList, ExcludeRequest, FailureModeList, Finding,
    FindingList, FindingsQuery, ForceBreaker, HealthSummary, Incident, IncidentList,
    IncidentsQuery, Node, ReasonRequest, Remediation, RemediationDryRun, RemediationDryRunReport,
    RemediationList, RemediationsQuery, RepairedRequest, TimelineList,
};

/// What an operator says of a remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemediationDecision {
    /// It may go on.
    Approve,
    /// It is not to be done.
    Deny,
    /// What it did is taken back.
    Undo,
}

impl RemediationDecision {
    /// The last word of its address.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RemediationDecision::Approve => "approve",
            RemediationDecision::Deny => "deny",
            RemediationDecision::Undo => "undo",
        }
    }
}

impl Client {
    /// How the site stands, worst first.
    pub async fn health(&self) -> Result<HealthSummary, ClientError> {
        self.json(self.get(&["v1", "health"])).await
    }

    /// What is wrong, one entry for each cause, with what is left to do about it.
    pub async fn causes(&self) -> Result<CauseList, ClientError> {
        self.json(self.get(&["v1", "causes"])).await
    }

    /// One page of findings, newest first.
    pub async fn findings(&self, query: &FindingsQuery) -> Result<FindingList, ClientError> {
        let FindingsQuery { open, node, kind, severity, job, limit, cursor } = query.clone();
        let call = self.get(&["v1", "findings"]).query(&[
            ("open", open.map(|o| o.to_string())),
            ("node", node),
            ("kind", kind),
            ("severity", severity),
            ("job", job.map(|n| n.to_string())),
            ("limit", limit.map(|n| n.to_string())),
            ("cursor", cursor),
        ]);
        self.json(call).await
    }

    /// Pages until there are no more findings, or `most`. A cursor is left when there are.
    pub async fn findings_up_to(
        &self,
        query: &FindingsQuery,
        most: usize,
    ) -> Result<FindingList, ClientError> {
        let mut query = query.clone();
        let mut items = Vec::new();
        loop {
            query.limit = Some(u32::try_from((most - items.len()).min(1000)).unwrap_or(1000));
            let page = self.findings(&query).await?;
            let none = page.items.is_empty();
            items.extend(page.items);
            if page.cursor.is_none() || none || items.len() >= most {
                return Ok(FindingList { items, cursor: page.cursor });
            }
            query.cursor = page.cursor;
        }
    }

    /// One finding.
    pub async fn finding(&self, id: &str) -> Result<Finding, ClientError> {
        self.json(self.get(&["v1", "findings", id])).await
    }

    /// A finding is of no account any more.
    pub async fn close_finding(&self, id: &str, reason: &str) -> Result<Finding, ClientError> {
        let body = ReasonRequest { reason: reason.into() };
        self.json(self.post(&["v1", "findings", id, "close"]).body(&body)?).await
    }

    /// One page of incidents, newest first.
    pub async fn incidents(&self, query: &IncidentsQuery) -> Result<IncidentList, ClientError> {
        let IncidentsQuery { open, limit, cursor } = query.clone();
        let call = self.get(&["v1", "incidents"]).query(&[
            ("open", open.map(|o| o.to_string())),
            ("limit", limit.map(|n| n.to_string())),
            ("cursor", cursor),
        ]);
        self.json(call).await
    }

    /// One incident with its findings and what was changed shortly before.
    pub async fn incident(&self, id: &str) -> Result<Incident, ClientError> {
        self.json(self.get(&["v1", "incidents", id])).await
    }

    /// All breakers.
    pub async fn breakers(&self) -> Result<BreakerList, ClientError> {
        self.json(self.get(&["v1", "breakers"])).await
    }

    /// Holds a breaker where it shall be, or lets it go.
    pub async fn force_breaker(&self, body: &ForceBreaker) -> Result<Breaker, ClientError> {
        self.json(self.post(&["v1", "breakers", "force"]).body(body)?).await
    }

    /// One page of remediations, newest first.
    pub async fn remediations(
        &self,
        query: &RemediationsQuery,
    ) -> Result<RemediationList, ClientError> {
        let RemediationsQuery { open, node, limit, cursor } = query.clone();
        let call = self.get(&["v1", "remediations"]).query(&[
            ("open", open.map(|o| o.to_string())),
            ("node", node),
            ("limit", limit.map(|n| n.to_string())),
            ("cursor", cursor),
        ]);
        self.json(call).await
    }

    /// One remediation.
    pub async fn remediation(&self, id: &str) -> Result<Remediation, ClientError> {
        self.json(self.get(&["v1", "remediations", id])).await
    }

    /// Says what is to become of a remediation.
    pub async fn decide_remediation(
        &self,
        id: &str,
        word: RemediationDecision,
        reason: &str,
    ) -> Result<Remediation, ClientError> {
        let call = self.post(&["v1", "remediations", id, word.word()]);
        match word {
            RemediationDecision::Approve => self.json(call).await,
            RemediationDecision::Deny | RemediationDecision::Undo => {
                self.json(call.body(&ReasonRequest { reason: reason.into() })?).await
            }
        }
    }

    /// What a policy would have done over the last days. Changes nothing.
    pub async fn remediations_dry_run(
        &self,
        body: &RemediationDryRun,
    ) -> Result<RemediationDryRunReport, ClientError> {
        self.json(self.post(&["v1", "remediations", "dry-run"]).body(body)?).await
    }

    /// How automation stands.
    pub async fn automation(&self) -> Result<Automation, ClientError> {
        self.json(self.get(&["v1", "automation"])).await
    }

    /// Automation does nothing more until it is resumed.
    pub async fn stop_automation(&self, reason: &str) -> Result<Automation, ClientError> {
        let body = ReasonRequest { reason: reason.into() };
        self.json(self.post(&["v1", "automation", "stop"]).body(&body)?).await
    }

    /// Automation may go on.
    pub async fn resume_automation(&self) -> Result<Automation, ClientError> {
        self.json(self.post(&["v1", "automation", "resume"])).await
    }

    /// People repaired a node.
    pub async fn repaired(&self, name: &str, note: &str) -> Result<Node, ClientError> {
        let body = RepairedRequest { note: note.into() };
        self.json(self.post(&["v1", "nodes", name, "repaired"]).body(&body)?).await
    }

    /// A node returns to service without having passed a test.
    pub async fn return_node(&self, name: &str, reason: &str) -> Result<Node, ClientError> {
        let body = ReasonRequest { reason: reason.into() };
        self.json(self.post(&["v1", "nodes", name, "return"]).body(&body)?).await
    }

    /// GPUs of a node take no work.
    pub async fn exclude_gpus(
        &self,
        name: &str,
        body: &ExcludeRequest,
    ) -> Result<Node, ClientError> {
        self.json(self.post(&["v1", "nodes", name, "exclude"]).body(body)?).await
    }

    /// What happened to a node, newest first.
    pub async fn timeline(
        &self,
        name: &str,
        limit: Option<u32>,
    ) -> Result<TimelineList, ClientError> {
        let call = self.get(&["v1", "nodes", name, "timeline"]);
        self.json(call.query(&[("limit", limit.map(|n| n.to_string()))])).await
    }

    /// The map of failure modes.
    pub async fn failure_modes(&self) -> Result<FailureModeList, ClientError> {
        self.json(self.get(&["v1", "failure-modes"])).await
    }
}
