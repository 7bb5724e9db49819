//! A topology that is written as YAML and read again is the same.

use muster_model::NodeName;
use muster_model::topology::{Level, Location, Topology};
use muster_specs::{generate, hostlist, topology};
use proptest::prelude::*;
use std::fmt::Write;

type Entry<'a> = (&'a NodeName, &'a Location);

/// The tree form.
fn to_yaml(topology: &Topology) -> String {
    let mut nodes: Vec<Entry<'_>> = topology.nodes.iter().collect();
    nodes.sort_by(|a, b| path(a).cmp(&path(b)).then_with(|| a.0.cmp(b.0)));
    let mut out = String::new();
    write_level(&mut out, &nodes, Level::Region);
    out
}

fn path<'a>((node, location): &Entry<'a>) -> Vec<&'a str> {
    location.path(node, Level::Rack)
}

/// Splits sorted nodes into domains of one level and writes each of them.
fn write_level(out: &mut String, nodes: &[Entry<'_>], level: Level) {
    let depth = level as usize;
    let indent = "    ".repeat(depth);
    let _ = writeln!(out, "{indent}{level}:");
    for domain in nodes.chunk_by(|a, b| path(a)[..=depth] == path(b)[..=depth]) {
        let name = quoted(path(&domain[0])[depth]);
        let _ = writeln!(out, "{indent}  - name: {name}");
        match Level::ALL.get(depth + 1) {
            Some(next) if *next <= Level::Rack => write_level(out, domain, *next),
            _ => write_nodes(out, domain, &format!("{indent}    ")),
        }
    }
}

/// The nodes of a rack; those that follow each other and are alike are one entry.
fn write_nodes(out: &mut String, nodes: &[Entry<'_>], indent: &str) {
    let _ = writeln!(out, "{indent}nodes:");
    let alike = |a: &Entry<'_>, b: &Entry<'_>| {
        (&a.1.feed, &a.1.rails, nvlink(a)) == (&b.1.feed, &b.1.rails, nvlink(b))
    };
    for same in nodes.chunk_by(alike) {
        let names = hostlist::compress(same.iter().map(|(node, _)| node.as_str()));
        let location = same[0].1;
        let rails: Vec<String> = location.rails.iter().map(|r| quoted(r)).collect();
        let _ = writeln!(
            out,
            "{indent}  - {{name: {}, feed: {}, nvlink: {}, rails: [{}]}}",
            quoted(&names),
            quoted(&location.feed),
            quoted(nvlink(&same[0])),
            rails.join(", ")
        );
    }
}

/// `node`, `rack`, or the domain's name.
fn nvlink<'a>((node, location): &Entry<'a>) -> &'a str {
    match location.nvlink.as_str() {
        own if own == node.as_str() => "node",
        own if own == location.rack => "rack",
        other => other,
    }
}

/// JSON's strings are YAML's as well.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Names of domains, feeds and rails: with what YAML gives a meaning to, and such as look like
/// numbers and booleans.
fn name() -> impl Strategy<Value = String> {
    let odd = ["01", "1e3", "0x10", "true", "null", "~", "node", "rack", "default", "unknown"];
    let text = "[a-z0-9 .:#{}\\[\\],&*!|>'\"%@`\\\\ß日_-]{1,10}";
    prop_oneof![
        proptest::sample::select(odd.to_vec()).prop_map(str::to_owned),
        text.prop_map(|s| s.trim().to_owned()).prop_filter("it is empty", |s| !s.is_empty()),
    ]
}

/// Any topology: nodes anywhere in a tree whose domains may have the same names on several levels.
fn any_topology() -> impl Strategy<Value = Topology> {
    let place = (
        proptest::array::uniform5(0usize..3),
        0usize..4,
        proptest::collection::vec(0usize..4, 0..4),
        0u32..3,
    );
    let nodes = proptest::collection::btree_map("[a-z]{1,2}[0-9]{1,3}", place, 1..40);
    (proptest::collection::vec(name(), 4), nodes).prop_map(|(names, nodes)| {
        let location =
            |node: &str, levels: [usize; 5], feed: usize, rails: &[usize], nvlink: u32| {
                let [region, cluster, spine, leaf, rack] = levels.map(|i| names[i].clone());
                let nvlink = match nvlink {
                    0 => node.to_owned(),
                    1 => rack.clone(),
                    _ => "nvl-1".to_owned(),
                };
                let feed = names[feed].clone();
                let rails = rails.iter().map(|i| names[*i].clone()).collect();
                Location { region, cluster, spine, leaf, rack, nvlink, feed, rails }
            };
        let placed = nodes.iter().map(|(node, (levels, feed, rails, nvlink))| {
            let name: NodeName = node.parse().expect("a name of a node");
            (name, location(node, *levels, *feed, rails, *nvlink))
        });
        Topology { nodes: placed.collect() }
    })
}

fn read(text: &str) -> Result<Topology, String> {
    topology::parse(text, "t.yaml").map_err(|e| e.to_string())
}

proptest! {
    #[test]
    fn any_topology_survives_yaml(t in any_topology()) {
        let text = to_yaml(&t);
        prop_assert_eq!(read(&text), Ok(t), "{}", text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn generated_fleets_survive_yaml(nodes in 1u32..300, gpus in 0u32..9, racks in 1u32..12) {
        for t in [generate::hgx(nodes, gpus), generate::nvl72(racks)] {
            prop_assert_eq!(read(&to_yaml(&t)), Ok(t));
        }
    }
}
