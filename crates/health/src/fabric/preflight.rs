//! Which gangs have their network tested before they start, and which of their nodes are.

use muster_model::distinct;
use muster_model::names::NodeName;
use muster_model::placement::Placement;
use muster_model::policy::FabricPolicy;
use muster_model::spec::{JobSpec, Preflight};

/// Fewer cannot be distinguished.
const LEAST: usize = 4;

/// Whether the nodes that a gang was given are to be tested before it starts.
#[must_use]
pub fn wanted(policy: &FabricPolicy, spec: &JobSpec, placement: &Placement) -> bool {
    let nodes: Vec<&NodeName> = distinct(placement.slots.iter().map(|s| &s.node));
    let large = policy.preflight_nodes > 1 && nodes.len() >= policy.preflight_nodes as usize;
    large && spec.preflight == Preflight::Policy && spec.simulate.is_none()
}

/// Those that were not tested lately, and as many others as it takes to see who is slow.
#[must_use]
pub fn pick(nodes: &[NodeName], fresh: impl Fn(&&NodeName) -> bool) -> Vec<NodeName> {
    let (known, mut picked): (Vec<&NodeName>, Vec<&NodeName>) = nodes.iter().partition(fresh);
    if picked.is_empty() {
        return Vec::new();
    }
    let wanted = LEAST.max(picked.len() + picked.len() % 2);
    picked.extend(known.into_iter().take(wanted - picked.len()));
    picked.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_not_tested_lately_is_with_enough_others_to_judge() {
        let nodes: Vec<NodeName> = (1..=9).map(|n| format!("n{n}").parse().unwrap()).collect();
        let with = |fresh: &[&str]| -> Vec<String> {
            let picked = pick(&nodes, |n| fresh.contains(&n.as_str()));
            picked.iter().map(ToString::to_string).collect()
        };
        assert_eq!(with(&[]).len(), 9);
        assert!(with(&["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"]).is_empty());
        assert_eq!(
            with(&["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"]),
            ["n9", "n1", "n2", "n3"]
        );
        // An odd number gets a partner.
        assert_eq!(with(&["n1", "n2", "n3", "n4"]), ["n5", "n6", "n7", "n8", "n9", "n1"]);
    }
}
