//! Policy, quotas, reservations, moves, and what changes about waiting jobs and nodes.

use crate::{Client, ClientError};
use muster_api::{
    DefragReport, Job, Kind, MarkRequest, Node, Policy, Quotas, Reservation, ReservationList,
    RunScenario, ScenarioList, ScenarioRun, SetPolicy, SetQuotas, SetReservation, UpdateJob,
    WhatIf, WhatIfAnswer,
};
use muster_model::policy::SitePolicy;
use reqwest::Method;
use std::sync::Arc;

impl Client {
    /// The site's scheduling policy.
    pub async fn policy(&self) -> Result<Policy, ClientError> {
        self.json(self.get(&["v1", "policy"])).await
    }

    /// Sets the whole policy; refused when the version seen has moved.
    pub async fn set_policy(
        &self,
        policy: &Arc<SitePolicy>,
        if_version: Option<u64>,
    ) -> Result<Policy, ClientError> {
        let body =
            SetPolicy { policy: Arc::clone(policy), kind: Some(Kind::Policy), version: None };
        self.put(&["v1", "policy"], &body, if_version, false).await
    }

    /// The tree of quotas, and how it is used.
    pub async fn quotas(&self) -> Result<Quotas, ClientError> {
        self.json(self.get(&["v1", "quotas"])).await
    }

    /// Sets the whole tree; refused when the version seen has moved.
    pub async fn set_quotas(
        &self,
        quotas: &Arc<muster_model::quota::Quotas>,
        if_version: Option<u64>,
    ) -> Result<Quotas, ClientError> {
        self.put(&["v1", "quotas"], &whole(quotas), if_version, false).await
    }

    /// What the tree would be, were it set now; refused like [`Client::set_quotas`], and nothing is set.
    pub async fn check_quotas(
        &self,
        quotas: &Arc<muster_model::quota::Quotas>,
        if_version: Option<u64>,
    ) -> Result<Quotas, ClientError> {
        self.put(&["v1", "quotas"], &whole(quotas), if_version, true).await
    }

    /// The reservations that the caller may see.
    pub async fn reservations(&self) -> Result<ReservationList, ClientError> {
        self.json(self.get(&["v1", "reservations"])).await
    }

    /// One reservation.
    pub async fn reservation(&self, name: &str) -> Result<Reservation, ClientError> {
        self.json(self.get(&["v1", "reservations", name])).await
    }

    /// Makes or replaces a reservation; refused when the version seen has moved.
    pub async fn set_reservation(
        &self,
        name: &str,
        body: &SetReservation,
        if_version: Option<u64>,
    ) -> Result<Reservation, ClientError> {
        self.put(&["v1", "reservations", name], body, if_version, false).await
    }

    /// Makes a reservation; refused where another one has its name. With `dry_run` nothing is made:
    /// the answer says what it would be.
    pub async fn create_reservation(
        &self,
        name: &str,
        body: &SetReservation,
        dry_run: bool,
    ) -> Result<Reservation, ClientError> {
        let call = self.call(Method::PUT, &["v1", "reservations", name]).body(body)?;
        let dry_run = dry_run.then(|| "true".into());
        self.json(call.query(&[("create", Some("true".into())), ("dry_run", dry_run)])).await
    }

    /// What a reservation would be, were it made or replaced now.
    pub async fn plan_reservation(
        &self,
        name: &str,
        body: &SetReservation,
    ) -> Result<Reservation, ClientError> {
        self.put(&["v1", "reservations", name], body, None, true).await
    }

    /// Deletes a reservation.
    pub async fn delete_reservation(&self, name: &str) -> Result<(), ClientError> {
        self.bytes(self.call(Method::DELETE, &["v1", "reservations", name])).await.map(drop)
    }

    /// Moves that would let waiting gangs start.
    pub async fn defrag(&self) -> Result<DefragReport, ClientError> {
        self.json(self.get(&["v1", "defrag"])).await
    }

    /// What a change would do, simulated by the server.
    pub async fn whatif(&self, body: &WhatIf) -> Result<WhatIfAnswer, ClientError> {
        self.json(self.post(&["v1", "whatif"]).body(body)?).await
    }

    /// The scenarios that the server can simulate.
    pub async fn scenarios(&self) -> Result<ScenarioList, ClientError> {
        self.json(self.get(&["v1", "scenarios"])).await
    }

    /// What a scenario comes to, simulated by the server.
    pub async fn run_scenario(
        &self,
        name: &str,
        body: &RunScenario,
    ) -> Result<ScenarioRun, ClientError> {
        self.json(self.post(&["v1", "scenarios", name, "run"]).body(body)?).await
    }

    /// Changes a waiting job, or every task of an array by its plain number.
    pub async fn update_job(&self, id: &str, body: &UpdateJob) -> Result<Job, ClientError> {
        self.json(self.call(Method::PATCH, &["v1", "jobs", id]).body(body)?).await
    }

    /// Says what a node is kept for, and how likely it is to fail.
    pub async fn mark(&self, name: &str, body: &MarkRequest) -> Result<Node, ClientError> {
        self.json(self.post(&["v1", "nodes", name, "mark"]).body(body)?).await
    }
}

fn whole(quotas: &Arc<muster_model::quota::Quotas>) -> SetQuotas {
    let quotas = Arc::clone(quotas);
    let kind = Some(Kind::Quotas);
    SetQuotas { quotas, kind, version: None, report: None, warnings: None }
}
