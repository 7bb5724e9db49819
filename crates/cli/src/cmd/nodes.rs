//! `muster nodes`.

use clap::Args;
use muster_api::{Node, NodeList};
use muster_model::node::NodeRole;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output::bar::bar;
use muster_terminal::output::table::{Table, cell, number, state};

/// List nodes
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster nodes\n  muster nodes --state lost,drained\n  muster nodes --watch"
)]
pub(crate) struct Nodes {
    /// Only nodes in these states: ready, cordoned, draining, drained, lost, qualifying, …
    #[arg(long, value_name = "STATE,…")]
    state: Option<String>,
    /// Draw again whenever something happens
    #[arg(short, long)]
    watch: bool,
}

impl Nodes {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        if self.watch {
            return super::watch::watch(ctx, &client, async || {
                let nodes = client.all_nodes(self.state.as_deref()).await?;
                Ok(table(&nodes).render())
            })
            .await;
        }
        let items = client.all_nodes(self.state.as_deref()).await?;
        if ctx.is_table() && items.is_empty() {
            muster_terminal::output::note(&match &self.state {
                Some(states) => format!("no node fits --state {states}"),
                None => "no nodes; `muster token create --join NAME` lets one in".into(),
            });
            return Ok(0);
        }
        ctx.show(&NodeList { items, cursor: None }, |l| table(&l.items).render())?;
        Ok(0)
    }
}

/// The nodes as a table.
pub(crate) fn table(nodes: &[Node]) -> Table {
    // What nearly no node has takes no room.
    let marked = nodes.iter().any(|n| !role(n).is_empty());
    let mut head = vec!["NAME", "STATE", "SKU", "GPUS", "CPUS", "LOCATION", "JOBS"];
    if marked {
        head.insert(2, "ROLE");
    }
    let mut table = Table::new(&head);
    for node in nodes {
        let place = &node.location;
        let jobs: Vec<&str> = node.jobs.iter().map(|j| j.id.as_str()).collect();
        let mut row = vec![
            cell(&node.name),
            state(&state_text(node)),
            cell(&node.sku),
            cell(gpus(node)),
            number(format!("{}/{}", node.cpus_used, node.cpus_total)),
            cell(format!("{}/{}/{}", place.spine, place.leaf, place.rack)),
            cell(jobs.join(",")),
        ];
        if marked {
            row.insert(2, cell(role(node)));
        }
        table.row(row);
    }
    table
}

/// Its GPUs that are allocated, of all that it is to have: a sum over nodes is the whole fleet.
pub(crate) fn gpus(node: &Node) -> String {
    let missing = u32::try_from(node.gpus_missing.len()).unwrap_or(u32::MAX);
    let all = bar(node.gpus_used, node.gpus_total.saturating_add(missing));
    let all = if missing == 0 { all } else { format!("{all}, {missing} missing") };
    // One that is missing, too, is counted once.
    let out = node.gpus_excluded.iter().filter(|g| !node.gpus_missing.contains(g)).count();
    if out == 0 { all } else { format!("{all}, {out} excluded") }
}

/// Its state, and whether new work stays away although the state does not say so.
pub(crate) fn state_text(node: &Node) -> String {
    match node {
        Node { avoided: Some(_), .. } => format!("{}, avoided", node.state),
        Node { no_new_work: Some(_), state, .. } if state == "ready" => "ready, no new work".into(),
        _ => node.state.clone(),
    }
}

/// What it is kept for and how likely it is to fail, where that is not as usual.
pub(crate) fn role(node: &Node) -> String {
    let mut words = Vec::new();
    if node.role != NodeRole::Normal {
        words.push(node.role.word().to_owned());
    }
    if node.hazard > 0 {
        // As the console's map has it.
        words.push(format!("hazard {}.{} % a month", node.hazard / 10, node.hazard % 10));
    }
    words.join(", ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use muster_api::{Kind, NodeJob};
    use muster_model::job::JobState;
    use muster_model::node::{Inventory, Stage};
    use muster_model::topology::Location;
    use muster_model::units::{Bytes, Time};

    pub(crate) fn node(name: &str) -> Node {
        let node_name = name.parse().expect("a valid name");
        Node {
            id: name.into(),
            kind: Kind::Node,
            name: name.into(),
            state: "ready".into(),
            version: 3,
            stage: Stage::Ready,
            reachable: true,
            cordon: None,
            protected: false,
            role: NodeRole::Normal,
            hazard: 0,
            location: Location::unplaced(&node_name),
            address: "10.0.0.1".into(),
            host: "h".into(),
            sku: "h100-sxm".into(),
            gpus_total: 8,
            gpus_missing: Vec::new(),
            gpus_used: 4,
            gpus_excluded: Vec::new(),
            cpus_total: 128,
            cpus_used: 32,
            memory_total: Bytes::gib(1024),
            memory_used: Bytes(0),
            inventory: Inventory::default(),
            jobs: vec![NodeJob {
                id: "42".into(),
                name: "train".into(),
                project: "default".into(),
                state: JobState::Running,
                gpus: vec![0, 1, 2, 3],
            }],
            orphans: Vec::new(),
            agent: None,
            qualifying: None,
            qualified: None,
            faults: Vec::new(),
            state_since: None,
            stage_since: None,
            stage_why: None,
            stage_until: None,
            generation: 1,
            probation: None,
            breaker: None,
            avoided: None,
            no_new_work: None,
            remediation: None,
            remediation_detail: None,
            findings: Vec::new(),
            findings_closed: Vec::new(),
            actions: Vec::new(),
            pool: "default".into(),
            enrolled_at: Time(0).into(),
            changed_at: Time(0).into(),
        }
    }

    #[test]
    fn roles_get_a_column_when_there_are_any() {
        let mut lemon = node("hgx-02");
        (lemon.role, lemon.hazard) = (NodeRole::Lemon, 30);
        let text = table(&[node("hgx-01"), lemon]).render_for(None, false);
        assert!(text.starts_with("NAME    STATE  ROLE                         SKU"), "{text}");
        assert!(text.contains("ready  lemon, hazard 3.0 % a month  h100-sxm"), "{text}");
    }

    #[test]
    fn a_gpu_that_is_off_the_bus_is_counted_and_named() {
        let mut short = node("hgx-01");
        (short.gpus_total, short.gpus_missing) = (7, vec![3]);
        let text = table(&[short.clone(), node("hgx-02")]).render_for(None, false);
        assert!(text.contains("████░░░░ 4/8, 1 missing"), "{text}");
        short.gpus_excluded = vec![3, 5];
        assert!(gpus(&short).ends_with("4/8, 1 missing, 1 excluded"), "{}", gpus(&short));
    }

    #[test]
    fn a_ready_node_from_which_new_work_stays_away_says_so() {
        let (mut unhealthy, mut shut, mut lost) = (node("hgx-01"), node("hgx-02"), node("hgx-03"));
        unhealthy.avoided = Some("critical finding 12 (gpu-off-bus)".into());
        shut.no_new_work = Some("breaker leaf:a is not closed".into());
        (lost.state, lost.no_new_work) = ("lost".into(), Some("lost".into()));
        let text = table(&[unhealthy, shut, lost]).render_for(None, false);
        assert!(text.contains("hgx-01  ready, avoided      h100-sxm"), "{text}");
        assert!(text.contains("hgx-02  ready, no new work  h100-sxm"), "{text}");
        assert!(text.contains("hgx-03  lost                h100-sxm"), "{text}");
    }

    #[test]
    fn nodes_are_listed_with_how_full_they_are() {
        let mut lost = node("hgx-02");
        lost.state = "lost".into();
        lost.gpus_used = 0;
        lost.jobs.clear();
        let text = table(&[node("hgx-01"), lost]).render_for(None, false);
        assert_eq!(
            text,
            "NAME    STATE  SKU       GPUS            CPUS  LOCATION                           JOBS\n\
             hgx-01  ready  h100-sxm  ████░░░░ 4/8  32/128  unplaced/unplaced/unplaced-hgx-01  42\n\
             hgx-02  lost   h100-sxm  ░░░░░░░░ 0/8  32/128  unplaced/unplaced/unplaced-hgx-02\n"
        );
    }
}
