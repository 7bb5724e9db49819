//! Acts that agents carry out: each is sent to its node on every connection until its end is in
//! the log, and whether a node came back is seen here.

use super::Inner;
use muster_engine::State;
use muster_executors::effect::{self, Effect, Outcome};
use muster_model::command::Command;
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::remediation::{Act, AskedAct};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Ends that are reported at a time.
const AT_ONCE: usize = 32;

/// Open acts by the node whose agent carries them out.
#[derive(Debug, Default)]
pub(super) struct NodeActs(RwLock<HashMap<NodeName, Vec<Arc<AskedAct>>>>);

impl NodeActs {
    /// What a node is to do, oldest first.
    pub(super) fn of(&self, node: &NodeName) -> Vec<Arc<AskedAct>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(node).cloned().unwrap_or_default()
    }

    /// Replaces them all; the nodes for which something changed.
    pub(super) fn replace(&self, new: HashMap<NodeName, Vec<Arc<AskedAct>>>) -> Vec<NodeName> {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() && new.is_empty() {
            return Vec::new();
        }
        let ids = |acts: Option<&Vec<Arc<AskedAct>>>| -> BTreeSet<u64> {
            acts.into_iter().flatten().map(|a| a.id).collect()
        };
        let names: BTreeSet<NodeName> = all.keys().chain(new.keys()).cloned().collect();
        let changed = names.into_iter().filter(|n| ids(all.get(n)) != ids(new.get(n))).collect();
        *all = new;
        changed
    }
}

/// Is an act that is this node's to do still under way?
pub(super) fn is_open(s: &State, node: &NodeName, id: u64) -> bool {
    let simulated = s.nodes.get(node).is_some_and(|n| n.inventory.simulated);
    s.health.acts.get(&id).is_some_and(|a| {
        let own = a.act.node() == Some(node) && a.act.is_done_by_agent(simulated);
        own && a.ended.is_none()
    })
}

/// What is to be done about an act that is open.
#[derive(Debug, PartialEq, Eq)]
enum ActDisposition {
    /// Its node is informed.
    Send,
    /// Somebody else does it.
    Elsewhere,
    /// It is over.
    Over { ok: bool, message: String },
}

fn turn(s: &State, act: &Act) -> ActDisposition {
    let Some(node) = act.node() else { return ActDisposition::Elsewhere };
    if matches!(act, Act::Ticket { .. } | Act::Page { .. }) {
        return ActDisposition::Elsewhere;
    }
    match s.nodes.get(node).filter(|n| n.stage != Stage::Retired) {
        None => {
            ActDisposition::Over { ok: false, message: format!("node {node} is gone for good") }
        }
        Some(n) => turn_on(n, act),
    }
}

fn turn_on(n: &Node, act: &Act) -> ActDisposition {
    let (node, simulated) = (&n.name, n.inventory.simulated);
    // Only what an agent that is there says of itself counts.
    let cannot = |what: &str, flag: &str| {
        let refuses = n.reachable && !simulated && !n.inventory.can.contains(what);
        refuses.then(|| ActDisposition::Over {
            ok: false,
            message: format!(
                "the agent of node {node} may not do that: start it with {flag}, or do it by hand"
            ),
        })
    };
    let back = |boot: &str| {
        (n.reachable && n.boot != boot).then(|| ActDisposition::Over {
            ok: true,
            message: format!("node {node} has restarted"),
        })
    };
    match act {
        Act::ResetGpu { .. } => cannot("reset", "--allow-reset").unwrap_or(ActDisposition::Send),
        Act::Reboot { boot, .. } => back(boot)
            .or_else(|| cannot("reboot", "--allow-reboot"))
            .unwrap_or(ActDisposition::Send),
        Act::PowerCycle { boot, .. } => {
            let send = match act.is_done_by_agent(simulated) {
                true => ActDisposition::Send,
                false => ActDisposition::Elsewhere,
            };
            back(boot).unwrap_or(send)
        }
        Act::Ticket { .. } | Act::Page { .. } => ActDisposition::Elsewhere,
    }
}

/// What one look at the log found.
#[derive(Debug, Default)]
struct PendingActs {
    send: HashMap<NodeName, Vec<Arc<AskedAct>>>,
    over: Vec<(u64, (bool, String))>,
}

fn collect_pending(s: &State) -> PendingActs {
    let mut out = PendingActs::default();
    for a in s.health.open_acts() {
        match (turn(s, &a.act), a.act.node()) {
            (ActDisposition::Send, Some(node)) => {
                out.send.entry(node.clone()).or_default().push(a.clone());
            }
            (ActDisposition::Over { ok, message }, _) => out.over.push((a.id, (ok, message))),
            _ => {}
        }
    }
    out
}

/// Keeps what nodes are to do as the log says it, and writes to the log what is over.
pub(super) async fn follow(inner: Arc<Inner>) {
    let (brain, stop) = (inner.brain.clone(), inner.stop.clone());
    effect::run(Arc::new(EndedActs(inner)), brain, stop.cancelled_owned()).await;
}

/// Acts whose end is seen by the state of their node.
struct EndedActs(Arc<Inner>);

impl Effect for EndedActs {
    type Key = u64;
    type Task = (bool, String);
    type End = (bool, String);

    fn intended(&self) -> (Vec<(u64, (bool, String))>, Option<Duration>) {
        let PendingActs { send, over } = self.0.brain.read(collect_pending);
        // What is not over is desired state: its node is sent it until it is.
        for node in self.0.acts.replace(send) {
            if let Some(session) = self.0.node_entry(&node).and_then(|s| s.session()) {
                session.touch();
            }
        }
        (over, None)
    }

    fn has_capacity<'a>(&self, _: &u64, under_way: impl Iterator<Item = &'a u64>) -> bool {
        under_way.count() < AT_ONCE
    }

    fn is_wanted(&self, id: &u64) -> bool {
        self.0.brain.read(|s| s.health.acts.get(id).is_some_and(|a| a.ended.is_none()))
    }

    /// There is nothing left to do.
    async fn execute(&self, id: &u64, (ok, message): (bool, String)) -> Outcome<Self::End> {
        tracing::info!(act = id, ok, message, "an act is over");
        Outcome::Over((ok, message))
    }

    fn report(&self, id: &u64, (ok, message): (bool, String)) -> Option<Command> {
        Some(Command::ActDone { id: *id, ok, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::node::Inventory;
    use muster_model::topology::Location;
    use muster_model::units::Time;

    fn node(can: &[&str]) -> Node {
        let inventory = Inventory {
            can: can.iter().map(ToString::to_string).collect(),
            ..Inventory::default()
        };
        serde_json::from_value(serde_json::json!({
            "name": "n1", "stage": "ready", "reachable": true, "cordon": null,
            "inventory": inventory, "location": Location::unplaced(&"n1".parse().unwrap()), "address": "", "host": "",
            "machine": "m", "boot": "boot-1", "enrolled_at": 0, "changed_at": 0, "version": 1,
        }))
        .unwrap()
    }

    fn reboot(boot: &str) -> Act {
        Act::Reboot { node: "n1".parse().unwrap(), boot: boot.into() }
    }

    #[test]
    fn a_node_that_may_not_says_so_and_one_that_is_back_is_done() {
        let able = node(&["reboot"]);
        assert_eq!(turn_on(&able, &reboot("boot-1")), ActDisposition::Send);
        assert!(matches!(turn_on(&able, &reboot("boot-0")), ActDisposition::Over { ok: true, .. }));
        assert!(matches!(
            turn_on(&node(&[]), &reboot("boot-1")),
            ActDisposition::Over { ok: false, .. }
        ));
        let away = Node { reachable: false, ..node(&[]) };
        assert_eq!(turn_on(&away, &reboot("boot-0")), ActDisposition::Send, "nobody knows yet");
        let cut = Act::PowerCycle { node: "n1".parse().unwrap(), boot: "boot-1".into() };
        assert_eq!(turn_on(&able, &cut), ActDisposition::Elsewhere);
        let mut simulated = node(&[]);
        simulated.inventory.simulated = true;
        assert_eq!(turn_on(&simulated, &cut), ActDisposition::Send);
        assert_eq!(turn_on(&simulated, &reboot("boot-1")), ActDisposition::Send);
    }

    #[test]
    fn only_nodes_for_which_something_changed_are_poked() {
        let acts = NodeActs::default();
        let asked = |id, name: &str| {
            let node: NodeName = name.parse().unwrap();
            let act = Act::ResetGpu { node: node.clone(), gpu: 0 };
            (node, vec![Arc::new(AskedAct { id, act, at: Time(0), until: Time(9), ended: None })])
        };
        let two = || HashMap::from([asked(1, "a"), asked(2, "b")]);
        assert_eq!(acts.replace(two()).len(), 2);
        assert!(acts.replace(two()).is_empty());
        let b: NodeName = "b".parse().unwrap();
        assert_eq!(acts.replace(HashMap::from([asked(1, "a")])), vec![b.clone()]);
        assert!(acts.of(&b).is_empty());
    }
}
