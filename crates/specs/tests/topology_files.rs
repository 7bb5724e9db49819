//! Topology files, good and bad.

use muster_specs::{generate, topology};
use proptest::prelude::*;

const TREE: &str = r#"
region:
  - name: eu-1
    cluster:
      - name: c1
        spine:
          - name: s1
            leaf:
              - name: l1
                rails: [rail0, rail1]
                rack:
                  - {name: r1, feed: A, nodes: "n[001-004]"}
                  - {name: r2, feed: B, nodes: ["n[005-007]", "n008"]}
              - name: l2
                rack:
                  - {name: r3, feed: A, nvlink: rack, nodes: "gb[01-18]"}
"#;

const TOML: &str = r#"
[[region]]
name = "eu-1"
[[region.cluster]]
name = "c1"
[[region.cluster.spine]]
name = "s1"
[[region.cluster.spine.leaf]]
name = "l1"
rails = ["rail0", "rail1"]
rack = [
    { name = "r1", feed = "A", nodes = "n[001-004]" },
    { name = "r2", feed = "B", nodes = ["n[005-007]", "n008"] },
]
[[region.cluster.spine.leaf]]
name = "l2"
[[region.cluster.spine.leaf.rack]]
name = "r3"
feed = "A"
nvlink = "rack"
nodes = "gb[01-18]"
"#;

const FLAT: &str = r#"
[[domain]]
name = "eu-1"
level = "region"
[[domain]]
name = "c1"
level = "cluster"
parent = "eu-1"
[[domain]]
name = "s1"
level = "spine"
parent = "c1"
[[domain]]
name = "r1"
level = "rack"
parent = "l1"
feed = "A"
nodes = "n[001-004]"
[[domain]]
name = "r2"
level = "rack"
parent = "l1"
feed = "B"
nodes = "n[005-008]"
[[domain]]
name = "l1"
level = "leaf"
parent = "s1"
rails = ["rail0", "rail1"]
[[domain]]
name = "l2"
level = "leaf"
parent = "s1"
[[domain]]
name = "r3"
level = "rack"
parent = "l2"
feed = "A"
nvlink = "rack"
nodes = "gb[01-18]"
"#;

fn error(origin: &str, text: &str) -> String {
    match topology::parse(text, origin) {
        Ok(t) => panic!("should be refused: {t:?}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn tree_and_flat_forms_in_yaml_and_toml_say_the_same() {
    let t = topology::parse(TREE, "t.yaml").unwrap();
    assert_eq!(t.nodes.len(), 26);
    let n = &t.nodes["n007"];
    assert_eq!((n.leaf.as_str(), n.rack.as_str(), n.feed.as_str()), ("l1", "r2", "B"));
    assert_eq!((n.nvlink.as_str(), n.rails.len()), ("n007", 2));
    assert_eq!(t.nodes["gb18"].nvlink, "r3");
    assert_eq!(topology::parse(TOML, "t.toml").unwrap(), t);
    assert_eq!(topology::parse(FLAT, "t.toml").unwrap(), t);
    // The format is also guessed from the text.
    assert_eq!(topology::parse(TREE, "-").unwrap(), t);
    assert_eq!(topology::parse(TOML, "-").unwrap(), t);
}

#[test]
fn levels_may_be_left_out() {
    let t = topology::parse("rack:\n  - {name: 01, nodes: [a, b]}\n", "t.yaml").unwrap();
    let a = &t.nodes["a"];
    assert_eq!((a.rack.as_str(), a.leaf.as_str(), a.feed.as_str()), ("01", "default", "unknown"));
}

#[test]
fn fleets_can_be_generated() {
    let t = topology::parse("[generate]\nkind = \"hgx\"\nnodes = 16\n", "t.toml").unwrap();
    assert_eq!(t, generate::hgx(16, 8));
    let t = topology::parse("generate: {kind: nvl72, racks: 2}\n", "t.yaml").unwrap();
    assert_eq!(t, generate::nvl72(2));
    let e = error("t.yaml", "generate: {kind: hgk, nodes: 2}\n");
    assert_eq!(e, "t.yaml:1:18: `hgk` is not a kind of fleet\n  hint: did you mean `hgx`?");
    assert!(error("t.yaml", "generate: {kind: hgx, nodes: 0}\n").contains("0 is too few"));
    assert!(error("t.yaml", "generate: {kind: hgx, nodes: 999999}\n").contains("more than"));
    assert!(error("t.yaml", "generate: {kind: hgx}\n").contains("needs `nodes`"));
}

#[test]
fn mistakes_in_a_tree_are_pointed_at() {
    let cases = [
        (TREE.replace("n008", "n004"), "t.yaml:13:63: node `n004` is already there, on line 12"),
        (
            TREE.replace("name: r2", "name: r1"),
            "t.yaml:13:28: rack `r1` is already there, on line 12",
        ),
        (TREE.replace("name: l2", "name: ''"), "t.yaml:14:23: `name` is empty"),
        (
            TREE.replace("001-004", "8-1"),
            "t.yaml:12:48: `n[8-1]` is not a list of names: `8-1` runs backwards",
        ),
        (TREE.replace("001-004", "0-200000"), "expands to more than 200000 names"),
        (TREE.replace("feed: A, nv", "fede: A, nv"), "t.yaml:16:32: unknown field `fede`"),
        (TREE.replace("n008", "n 8"), "t.yaml:13:63: `n 8` is not a valid node name"),
        (TREE.replace("- name: s1", "- nmae: s1"), "t.yaml:7:13: this spine has no `name`"),
        (
            TREE.replace("region:", "regoin:"),
            "t.yaml:2:1: unknown field `regoin`\n  hint: did you mean `region`?",
        ),
        (
            TREE.replace(
                "rack:\n                  - {name: r3",
                "spine:\n                  - {name: r3",
            ),
            "t.yaml:15:17: a spine cannot be inside a leaf",
        ),
        ("region: [eu]\n".into(), "t.yaml:1:10: a region should be a table"),
        ("[]\n".into(), "should be a table"),
        ("".into(), "names no nodes"),
        ("region: []\n".into(), "names no nodes"),
        (
            "rack: [{name: a, nodes: a}]\ngenerate: {kind: hgx}\n".into(),
            "t.yaml:2:1: `generate` cannot be combined with",
        ),
        ("rack: [{name: a, name: b}]\n".into(), "t.yaml:1:18: `name` is given twice"),
    ];
    for (text, want) in cases {
        let e = error("t.yaml", &text);
        assert!(e.contains(want), "{e:?} should contain {want:?}");
    }
    let e = error("t.toml", &TOML.replace("feed = \"B\"", "feed = "));
    assert!(e.starts_with("t.toml:13:"), "{e}");
    let e = error("t.toml", &TOML.replace("n008", "n001"));
    assert!(e.starts_with("t.toml:13:55: node `n001` is already there, on line 12"), "{e}");
}

#[test]
fn mistakes_in_a_flat_list_are_pointed_at() {
    let row = |name: &str, level: &str, parent: &str| {
        format!("[[domain]]\nname = \"{name}\"\nlevel = \"{level}\"\nparent = \"{parent}\"\n")
    };
    let cycle = row("a", "leaf", "b") + &row("b", "rack", "a");
    assert_eq!(
        error("t.toml", &cycle),
        "t.toml:4:10: `a` is inside itself: its parents form a cycle\n  \
         hint: give one of them another parent"
    );
    assert!(error("t.toml", &row("a", "rack", "a")).contains("form a cycle"));
    let cases = [
        (
            FLAT.replace("parent = \"s1\"", "parent = \"s2\""),
            "t.toml:28:10: parent `s2` of `l1` is not in the list",
        ),
        (
            FLAT.replace("name = \"l2\"", "name = \"l1\""),
            "t.toml:31:8: domain `l1` is already there, on line 26",
        ),
        (
            FLAT.replace("level = \"leaf\"", "level = \"lef\""),
            "t.toml:27:9: `lef` is not a level of a domain\n  hint: did you mean `leaf`?",
        ),
        (
            FLAT.replace("level = \"leaf\"", "level = \"region\""),
            "region `l1` cannot be inside spine `s1`",
        ),
        (FLAT.replace("level = \"spine\"", "size = 3"), "unknown field `size`"),
        (FLAT.replace("gb[01-18]", "n[001-018]"), "node `n001` is already there, on line 18"),
    ];
    for (text, want) in cases {
        let e = error("t.toml", &text);
        assert!(e.contains(want), "{e:?} should contain {want:?}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(s in "\\PC{0,120}", cut in 0usize..1200) {
        let _ = topology::parse(&s, "t.yaml");
        let _ = topology::parse(&s, "t.toml");
        for (text, origin) in [(TREE, "t.yaml"), (TOML, "t.toml"), (FLAT, "t.toml")] {
            let (head, tail) = text.split_at(cut.min(text.len()));
            let _ = topology::parse(head, origin);
            let _ = topology::parse(&format!("{head}{s}{tail}"), origin);
        }
    }
}
