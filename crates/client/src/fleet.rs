//! Nodes, topology, events, the server itself.

use crate::{Client, ClientError};
use muster_api::{
    CordonRequest, DrainRequest, EventList, EventOrder, EventsQuery, FaultList, FaultsQuery,
    FleetQuery, FleetReport, FleetStep, HistoryMetricList, HistoryQuery, Inject, Injected,
    MetricsHistory, MigPlan, MigQuery, Node, NodeList, NodesQuery, PeriodKind, PeriodQuery,
    PeriodReport, PowerBy, PowerInventory, QualifyRequest, ServerInfo, Topology,
};

/// What a query says about which events are wanted, without a place in the log.
pub(crate) fn chosen_events(query: &EventsQuery) -> [(&'static str, Option<String>); 7] {
    let EventsQuery { order, from, to, kind, actor, object, text, .. } = query.clone();
    let order = (order != EventOrder::default()).then(|| order.word().to_owned());
    [
        ("order", order),
        ("from", from.map(|t| t.to_string())),
        ("to", to.map(|t| t.to_string())),
        ("kind", kind),
        ("actor", actor),
        ("object", object),
        ("text", text),
    ]
}

impl Client {
    /// One page of nodes.
    pub async fn nodes(&self, query: &NodesQuery) -> Result<NodeList, ClientError> {
        let NodesQuery { state, limit, cursor } = query.clone();
        let call = self.get(&["v1", "nodes"]).query(&[
            ("state", state),
            ("limit", limit.map(|n| n.to_string())),
            ("cursor", cursor),
        ]);
        self.json(call).await
    }

    /// Every node.
    pub async fn all_nodes(&self, state: Option<&str>) -> Result<Vec<Node>, ClientError> {
        let mut query = NodesQuery { state: state.map(Into::into), limit: Some(500), cursor: None };
        let mut items = Vec::new();
        loop {
            let page = self.nodes(&query).await?;
            let got_none = page.items.is_empty();
            items.extend(page.items);
            if page.cursor.is_none() || got_none {
                return Ok(items);
            }
            query.cursor = page.cursor;
        }
    }

    /// One node.
    pub async fn node(&self, name: &str) -> Result<Node, ClientError> {
        self.json(self.get(&["v1", "nodes", name])).await
    }

    /// No new work for a node.
    pub async fn cordon(&self, name: &str, body: &CordonRequest) -> Result<Node, ClientError> {
        self.json(self.post(&["v1", "nodes", name, "cordon"]).body(body)?).await
    }

    /// No new work, and what runs leaves.
    pub async fn drain(&self, name: &str, body: &DrainRequest) -> Result<Node, ClientError> {
        self.json(self.post(&["v1", "nodes", name, "drain"]).body(body)?).await
    }

    /// New work again after a cordon.
    pub async fn uncordon(&self, name: &str) -> Result<Node, ClientError> {
        self.json(self.post(&["v1", "nodes", name, "uncordon"])).await
    }

    /// New work again after a drain.
    pub async fn undrain(&self, name: &str) -> Result<Node, ClientError> {
        self.json(self.post(&["v1", "nodes", name, "undrain"])).await
    }

    /// Remove a node that will not come back.
    pub async fn retire(&self, name: &str) -> Result<Node, ClientError> {
        self.json(self.post(&["v1", "nodes", name, "retire"])).await
    }

    /// Let the server decide again about a node that is ahead of it.
    pub async fn reconcile(&self, name: &str) -> Result<Node, ClientError> {
        self.json(self.post(&["v1", "nodes", name, "reconcile"])).await
    }

    /// Test a node before it takes more work.
    pub async fn qualify(&self, name: &str, body: &QualifyRequest) -> Result<Node, ClientError> {
        self.json(self.post(&["v1", "nodes", name, "qualify"]).body(body)?).await
    }

    /// End the test of a node.
    pub async fn cancel_qualification(&self, name: &str) -> Result<Node, ClientError> {
        self.json(self.post(&["v1", "nodes", name, "cancel-qualification"])).await
    }

    /// How a GPU would be cut, and what that would cost. Changes nothing.
    pub async fn mig_plan(&self, name: &str, query: &MigQuery) -> Result<MigPlan, ClientError> {
        let MigQuery { gpu, profiles } = query.clone();
        let call = self
            .get(&["v1", "nodes", name, "mig"])
            .query(&[("gpu", Some(gpu.to_string())), ("profiles", Some(profiles))]);
        self.json(call).await
    }

    /// What a week or a month was like.
    pub async fn period_report(&self, q: PeriodQuery) -> Result<PeriodReport, ClientError> {
        let period = match q.period {
            PeriodKind::Week => "week",
            PeriodKind::Month => "month",
        };
        let query = [("period", Some(period.to_owned())), ("back", q.back.map(|n| n.to_string()))];
        self.json(self.get(&["v1", "reports", "period"]).query(&query)).await
    }

    /// What became of all GPUs.
    pub async fn fleet_report(&self, q: &FleetQuery) -> Result<FleetReport, ClientError> {
        let step = match q.step {
            FleetStep::Hour => "hour",
            FleetStep::Day => "day",
        };
        let query = [
            ("from", q.from.map(|t| t.to_string())),
            ("to", q.to.map(|t| t.to_string())),
            ("step", Some(step.to_owned())),
            ("project", q.project.clone()),
        ];
        self.json(self.get(&["v1", "reports", "fleet"]).query(&query)).await
    }

    /// What nodes, racks or feeds draw, beside what they could and may.
    pub async fn power(&self, by: PowerBy) -> Result<PowerInventory, ClientError> {
        let by = match by {
            PowerBy::Node => "node",
            PowerBy::Rack => "rack",
            PowerBy::Feed => "feed",
        };
        self.json(self.get(&["v1", "power"]).query(&[("by", Some(by.to_owned()))])).await
    }

    /// One page of faults, newest first.
    pub async fn faults(&self, query: &FaultsQuery) -> Result<FaultList, ClientError> {
        let FaultsQuery { node, code, job, limit, cursor } = query.clone();
        let call = self.get(&["v1", "faults"]).query(&[
            ("node", node),
            ("code", code),
            ("job", job.map(|n| n.to_string())),
            ("limit", limit.map(|n| n.to_string())),
            ("cursor", cursor),
        ]);
        self.json(call).await
    }

    /// Make a simulated node fail.
    pub async fn inject(&self, name: &str, fault: &Inject) -> Result<Injected, ClientError> {
        self.json(self.post(&["v1", "nodes", name, "inject"]).body(fault)?).await
    }

    /// The location of nodes.
    pub async fn topology(&self) -> Result<Topology, ClientError> {
        self.json(self.get(&["v1", "topology"])).await
    }

    /// Says where nodes stand; refused when the version seen has moved.
    pub async fn set_topology(
        &self,
        topology: &muster_model::topology::Topology,
        if_version: Option<u64>,
    ) -> Result<Topology, ClientError> {
        self.put(&["v1", "topology"], topology, if_version, false).await
    }

    /// One page of events.
    pub async fn events(&self, query: &EventsQuery) -> Result<EventList, ClientError> {
        let limit = query.limit.map(|n| n.to_string());
        let place = [("after", query.after.clone()), ("before", query.before.clone())];
        let call = self.get(&["v1", "events"]).query(&place).query(&[("limit", limit)]);
        self.json(call.query(&chosen_events(query))).await
    }

    /// Metrics over time.
    pub async fn metrics_history(
        &self,
        query: &HistoryQuery,
    ) -> Result<MetricsHistory, ClientError> {
        let HistoryQuery { node, gpu, job, metrics, from, to, points } = query.clone();
        let call = self.get(&["v1", "metrics", "history"]).query(&[
            ("node", node),
            ("gpu", gpu.map(|n| n.to_string())),
            ("job", job),
            ("metrics", metrics),
            ("from", from.map(|n| n.to_string())),
            ("to", to.map(|n| n.to_string())),
            ("points", points.map(|n| n.to_string())),
        ]);
        self.json(call).await
    }

    /// The metrics of which a history is kept.
    pub async fn history_metrics(&self) -> Result<HistoryMetricList, ClientError> {
        self.json(self.get(&["v1", "metrics", "history", "metrics"])).await
    }

    /// The server itself.
    pub async fn server_info(&self) -> Result<ServerInfo, ClientError> {
        self.json(self.get(&["v1", "server"])).await
    }

    /// Is it alive?
    pub async fn healthz(&self) -> Result<String, ClientError> {
        self.text("healthz").await
    }

    /// Does it serve?
    pub async fn readyz(&self) -> Result<String, ClientError> {
        self.text("readyz").await
    }

    async fn text(&self, path: &str) -> Result<String, ClientError> {
        let mut call = self.get(&[path]);
        call.accept = "*/*";
        Ok(String::from_utf8_lossy(&self.bytes(call).await?).into_owned())
    }
}
