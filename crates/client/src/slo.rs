//! Objectives, alerts, silences, and who is notified.

use crate::{Client, ClientError};
use muster_api::{
    AcknowledgeRequest, Alert, AlertList, AlertsQuery, Kind, Objectives, Readiness, ReasonRequest,
    ReceiverList, Routing, SetObjectives, SetRouting, SetSilence, Silence, SilenceList, Slo,
    SloList,
};
use muster_model::{alert as ma, slo as ms};
use reqwest::Method;
use std::sync::Arc;

impl Client {
    /// The site's objectives, as they were set.
    pub async fn objectives(&self) -> Result<Objectives, ClientError> {
        self.json(self.get(&["v1", "objectives"])).await
    }

    /// Sets all objectives of the site; refused when the version seen has moved.
    pub async fn set_objectives(
        &self,
        objectives: &Arc<ms::Objectives>,
        if_version: Option<u64>,
    ) -> Result<Objectives, ClientError> {
        let body = SetObjectives {
            objectives: Arc::clone(objectives),
            kind: Some(Kind::Objectives),
            version: None,
            stated: None,
        };
        self.put(&["v1", "objectives"], &body, if_version, false).await
    }

    /// Sets one objective.
    pub async fn set_objective(&self, objective: &ms::Objective) -> Result<Slo, ClientError> {
        let path = ["v1", "objectives", objective.name.as_str()];
        self.json(self.call(Method::PUT, &path).body(objective)?).await
    }

    /// Gives up an objective.
    pub async fn delete_objective(&self, name: &str) -> Result<(), ClientError> {
        self.bytes(self.call(Method::DELETE, &["v1", "objectives", name])).await.map(drop)
    }

    /// Objectives and their status.
    pub async fn slos(&self) -> Result<SloList, ClientError> {
        self.json(self.get(&["v1", "slos"])).await
    }

    /// One objective, with its counts hour by hour.
    pub async fn slo(&self, name: &str) -> Result<Slo, ClientError> {
        self.json(self.get(&["v1", "slos", name])).await
    }

    /// The newest alerts, worst first.
    pub async fn alerts(&self, query: &AlertsQuery) -> Result<AlertList, ClientError> {
        let AlertsQuery { open, urgency, limit, cursor } = query.clone();
        let call = self.get(&["v1", "alerts"]).query(&[
            ("open", open.map(|o| o.to_string())),
            ("urgency", urgency),
            ("limit", limit.map(|n| n.to_string())),
            ("cursor", cursor),
        ]);
        self.json(call).await
    }

    /// One alert.
    pub async fn alert(&self, id: &str) -> Result<Alert, ClientError> {
        self.json(self.get(&["v1", "alerts", id])).await
    }

    /// Says that the caller looks after an alert.
    pub async fn acknowledge(&self, id: &str, note: &str) -> Result<Alert, ClientError> {
        let body = AcknowledgeRequest { note: note.to_owned() };
        let path = ["v1", "alerts", id, "acknowledge"];
        self.json(self.call(Method::POST, &path).body(&body)?).await
    }

    /// Passes an alert on to the next escalation step.
    pub async fn escalate(&self, id: &str, reason: &str) -> Result<Alert, ClientError> {
        let body = ReasonRequest { reason: reason.to_owned() };
        let path = ["v1", "alerts", id, "escalate"];
        self.json(self.call(Method::POST, &path).body(&body)?).await
    }

    /// All silences, those that begin later included.
    pub async fn silences(&self) -> Result<SilenceList, ClientError> {
        self.json(self.get(&["v1", "silences"])).await
    }

    /// Keeps some alerts quiet for a time.
    pub async fn set_silence(&self, name: &str, body: &SetSilence) -> Result<Silence, ClientError> {
        self.json(self.call(Method::PUT, &["v1", "silences", name]).body(body)?).await
    }

    /// Ends a silence.
    pub async fn end_silence(&self, name: &str) -> Result<(), ClientError> {
        self.bytes(self.call(Method::DELETE, &["v1", "silences", name])).await.map(drop)
    }

    /// Who is notified of what.
    pub async fn routing(&self) -> Result<Routing, ClientError> {
        self.json(self.get(&["v1", "routing"])).await
    }

    /// Sets who is notified of what; refused when the version seen has moved.
    pub async fn set_routing(
        &self,
        routing: &Arc<ma::Routing>,
        if_version: Option<u64>,
    ) -> Result<Routing, ClientError> {
        self.put(&["v1", "routing"], &whole(routing), if_version, false).await
    }

    /// What it would be, were it set now; refused like [`Client::set_routing`], and nothing is set.
    pub async fn check_routing(
        &self,
        routing: &Arc<ma::Routing>,
        if_version: Option<u64>,
    ) -> Result<Routing, ClientError> {
        self.put(&["v1", "routing"], &whole(routing), if_version, true).await
    }

    /// The checklists of operators.
    pub async fn readiness(&self) -> Result<Readiness, ClientError> {
        self.json(self.get(&["v1", "readiness"])).await
    }

    /// Receivers, and what waits for them.
    pub async fn receivers(&self) -> Result<ReceiverList, ClientError> {
        self.json(self.get(&["v1", "receivers"])).await
    }
}

fn whole(routing: &Arc<ma::Routing>) -> SetRouting {
    SetRouting { routing: Arc::clone(routing), kind: Some(Kind::Routing), version: None }
}
