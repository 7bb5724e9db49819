//! Measured power beside the plan, by node, rack or feed.

use super::auth::Reader;
use super::error::Reply;
use super::extract::Query;
use super::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{DomainPower, Kind, PowerBy, PowerInventory, PowerQuery};
use muster_model::node::{Node, Stage};
use muster_model::policy::Power;
use muster_model::tenant::Role;
use muster_scheduler::rated_watts;
use std::collections::BTreeMap;

/// What is drawn, could be and may be drawn. Numbers are as old as the nodes' last telemetry.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/power", tag = "nodes", params(PowerQuery),
    responses((status = 200, description = "Power by place.", body = PowerInventory))))]
pub(crate) async fn power(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<PowerQuery>,
) -> Reply {
    caller.over_site(Role::Operator)?;
    let (seq, items) = app.brain().read(|s| {
        let mut places: BTreeMap<String, DomainPower> = BTreeMap::new();
        for node in s.nodes.values().filter(|n| n.stage != Stage::Retired) {
            let name = place(node, q.by);
            let at = places.entry(name.clone()).or_insert_with(|| {
                let watts = budget(&s.policy.power, &name, q.by);
                empty(name, watts)
            });
            let measured = node.reachable.then(|| app.agents().draw(&node.name)).flatten();
            add(at, node, measured, &s.policy.power);
        }
        (s.seq, places.into_values().collect())
    });
    let all = PowerInventory { kind: Kind::PowerInventory, by: q.by, items };
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &all))
}

fn place(node: &Node, by: PowerBy) -> String {
    let at = &node.location;
    match by {
        PowerBy::Node => node.name.to_string(),
        PowerBy::Rack => format!("{}/{}/{}", at.spine, at.leaf, at.rack),
        PowerBy::Feed => at.feed.clone(),
    }
}

/// Racks in a policy may be named by the end of their path.
fn budget(policy: &Power, name: &str, by: PowerBy) -> Option<u64> {
    match by {
        PowerBy::Node => None,
        PowerBy::Feed => policy.feeds.get(name).copied(),
        PowerBy::Rack => policy.racks.iter().find(|(k, _)| k.ends_with(name)).map(|(_, w)| *w),
    }
}

fn empty(name: String, budget_watts: Option<u64>) -> DomainPower {
    DomainPower {
        name,
        nodes: 0,
        gpus: 0,
        gpus_measured: 0,
        gpu_watts: None,
        gpu_watts_rated: 0,
        host_watts_planned: 0,
        budget_watts,
    }
}

fn add(at: &mut DomainPower, node: &Node, measured: Option<(u32, f64)>, policy: &Power) {
    let gpus = u32::try_from(node.inventory.gpus.len()).unwrap_or(u32::MAX);
    let rated = |sku: &str| policy.gpu_watts.get(sku).copied().unwrap_or_else(|| rated_watts(sku));
    at.nodes += 1;
    at.gpus += gpus;
    at.gpu_watts_rated += node.inventory.gpus.iter().map(|g| u64::from(rated(&g.sku))).sum::<u64>();
    at.host_watts_planned += u64::from(policy.node_watts);
    if let Some((n, watts)) = measured.filter(|(n, _)| *n > 0) {
        at.gpus_measured += n;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "casts of floats saturate"
        )]
        let watts = watts.round() as u64;
        *at.gpu_watts.get_or_insert(0) += watts;
    }
}
