//! Writes a topology as a file that reads back to the same.

use crate::hostlist;
use muster_model::NodeName;
use muster_model::topology::{Level, Location, Topology};
use std::fmt::Write;

/// The tree form in YAML.
#[must_use]
pub fn to_yaml(topology: &Topology) -> String {
    let mut nodes: Vec<(&NodeName, &Location)> = topology.nodes.iter().collect();
    nodes.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.0.cmp(b.0)));
    let mut out = String::new();
    level(&mut out, &nodes, Level::Region);
    out
}

fn key<'a>((node, l): &(&'a NodeName, &'a Location)) -> Vec<&'a str> {
    l.path(node, Level::Rack)
}

/// Splits sorted nodes into domains of one level and writes each of them.
fn level(out: &mut String, nodes: &[(&NodeName, &Location)], at: Level) {
    let depth = at as usize;
    let indent = "    ".repeat(depth);
    if nodes.is_empty() {
        return;
    }
    let _ = writeln!(out, "{indent}{at}:");
    for domain in nodes.chunk_by(|a, b| key(a)[..=depth] == key(b)[..=depth]) {
        let (node, location) = domain[0];
        let name = quoted(location.path(node, at)[depth]);
        let _ = writeln!(out, "{indent}  - name: {name}");
        match Level::ALL.get(depth + 1) {
            Some(next) if *next <= Level::Rack => level(out, domain, *next),
            _ => rack(out, domain, &format!("{indent}    ")),
        }
    }
}

fn rack(out: &mut String, nodes: &[(&NodeName, &Location)], indent: &str) {
    let _ = writeln!(out, "{indent}nodes:");
    let alike = |(n, l): &(&NodeName, &Location)| {
        (l.feed.clone(), l.rails.clone(), nvlink(n, l).to_owned())
    };
    for same in nodes.chunk_by(|a, b| alike(a) == alike(b)) {
        let (node, l) = same[0];
        let names = hostlist::compress(same.iter().map(|(n, _)| n.as_str()));
        let rails: Vec<String> = l.rails.iter().map(|r| quoted(r)).collect();
        let _ = writeln!(
            out,
            "{indent}  - {{name: {}, feed: {}, nvlink: {}, rails: [{}]}}",
            quoted(&names),
            quoted(&l.feed),
            quoted(nvlink(node, l)),
            rails.join(", ")
        );
    }
}

/// `node`, `rack`, or the domain's name.
fn nvlink<'a>(node: &NodeName, l: &'a Location) -> &'a str {
    match l.nvlink.as_str() {
        own if own == node.as_str() => "node",
        own if own == l.rack => "rack",
        other => other,
    }
}

/// JSON's strings are YAML's as well.
fn quoted(s: &str) -> String {
    serde_json::Value::from(s).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{generate, topology};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn generated_fleets_survive_yaml(nodes in 1u32..300, gpus in 0u32..9, racks in 1u32..12) {
            for t in [generate::hgx(nodes, gpus), generate::nvl72(racks)] {
                let text = to_yaml(&t);
                prop_assert_eq!(topology::parse(&text, "t.yaml").unwrap(), t);
            }
        }
    }
}
