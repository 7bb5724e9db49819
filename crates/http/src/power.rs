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
use muster_model::topology::Level;
use muster_scheduler::{rack_budget, rated_watts};
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
            let at = places
                .entry(place(node, q.by))
                .or_insert_with(|| empty(name(node, q.by), budget(&s.policy.power, node, q.by)));
            let measured = node.reachable.then(|| app.agents().draw(&node.name)).flatten();
            add(at, node, measured, &s.policy.power);
        }
        (s.seq, named(places))
    });
    let all = PowerInventory { kind: Kind::PowerInventory, by: q.by, items };
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &all))
}

/// What no other place is called.
fn place(node: &Node, by: PowerBy) -> String {
    match by {
        PowerBy::Rack => node.location.path(&node.name, Level::Rack).join("/"),
        PowerBy::Node | PowerBy::Feed => name(node, by),
    }
}

/// The name that is shown.
fn name(node: &Node, by: PowerBy) -> String {
    let at = &node.location;
    match by {
        PowerBy::Node => node.name.to_string(),
        PowerBy::Rack => format!("{}/{}/{}", at.spine, at.leaf, at.rack),
        PowerBy::Feed => at.feed.clone(),
    }
}

/// All places; where two racks have one name, with their whole paths.
fn named(places: BTreeMap<String, DomainPower>) -> Vec<DomainPower> {
    let mut same: BTreeMap<String, u32> = BTreeMap::new();
    for p in places.values() {
        *same.entry(p.name.clone()).or_default() += 1;
    }
    let one = |(whole, p): (String, DomainPower)| match same.get(&p.name) {
        Some(n) if *n > 1 => DomainPower { name: whole, ..p },
        _ => p,
    };
    places.into_iter().map(one).collect()
}

fn budget(policy: &Power, node: &Node, by: PowerBy) -> Option<u64> {
    let at = &node.location;
    match by {
        PowerBy::Node => None,
        PowerBy::Feed => policy.feeds.get(&at.feed).copied(),
        PowerBy::Rack => rack_budget(policy, &place(node, by), &at.rack),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_racks_of_one_name_are_two_places() {
        let place = |whole: &str, name: &str| (whole.to_owned(), empty(name.to_owned(), None));
        let all = [
            place("eu/c1/s1/l1/r1", "s1/l1/r1"),
            place("eu/c1/s1/l1/r2", "s1/l1/r2"),
            place("us/c1/s1/l1/r1", "s1/l1/r1"),
        ];
        let names: Vec<String> = named(all.into()).into_iter().map(|p| p.name).collect();
        assert_eq!(names, ["eu/c1/s1/l1/r1", "s1/l1/r2", "us/c1/s1/l1/r1"]);
    }
}
