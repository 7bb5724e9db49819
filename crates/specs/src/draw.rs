//! A topology drawn as a tree.

use crate::hostlist;
use muster_model::NodeName;
use muster_model::topology::{Level, Location, Topology};

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Only ASCII, for terminals that know no box-drawing characters.
    pub ascii: bool,
    /// At most so many lines of nodes in a rack; the rest is counted.
    pub max_nodes_per_rack: usize,
    /// The narrowest level that gets lines of its own; domains inside are only counted.
    pub depth: Level,
}

impl Default for Options {
    fn default() -> Self {
        Options { ascii: false, max_nodes_per_rack: 16, depth: Level::Node }
    }
}

struct Pen {
    tee: &'static str,
    corner: &'static str,
    bar: &'static str,
    dot: &'static str,
}

const BOX: Pen = Pen { tee: "├─ ", corner: "└─ ", bar: "│  ", dot: " · " };
const ASCII: Pen = Pen { tee: "|- ", corner: "`- ", bar: "|  ", dot: ", " };

type Placed<'a> = (&'a NodeName, &'a Location);

/// Draws a topology. `annotate` says a few words about a node (its state, its free GPUs); nodes of a
/// rack with the same words share a line.
pub fn tree(
    topology: &Topology,
    annotate: impl Fn(&NodeName) -> String,
    options: Options,
) -> String {
    let mut nodes: Vec<Placed<'_>> = topology.nodes.iter().collect();
    let key = |(n, l): &Placed<'_>| -> Vec<String> {
        l.path(n, Level::Rack).into_iter().map(String::from).collect()
    };
    nodes.sort_by_cached_key(key);
    let mut drawing = Drawing {
        out: String::new(),
        annotate: &annotate,
        options,
        pen: if options.ascii { &ASCII } else { &BOX },
    };
    drawing.domains(&nodes, Level::Region, "");
    drawing.out
}

struct Drawing<'a> {
    out: String,
    annotate: &'a dyn Fn(&NodeName) -> String,
    options: Options,
    pen: &'static Pen,
}

impl Drawing<'_> {
    fn domains(&mut self, nodes: &[Placed<'_>], level: Level, prefix: &str) {
        let depth = level as usize;
        let domains: Vec<&[Placed<'_>]> =
            nodes.chunk_by(|a, b| a.1.path(a.0, level) == b.1.path(b.0, level)).collect();
        let count = domains.len();
        for (i, domain) in domains.into_iter().enumerate() {
            let (node, location) = domain[0];
            let name = location.path(node, level)[depth];
            // Regions stand at the margin; everything else hangs on its parent.
            let (branch, inner) = match level {
                Level::Region => ("", String::new()),
                _ if i + 1 == count => (self.pen.corner, format!("{prefix}   ")),
                _ => (self.pen.tee, format!("{prefix}{}", self.pen.bar)),
            };
            let facts = self.facts(domain, level);
            self.line(&format!("{prefix}{branch}{level} {name}"), &facts);
            if level == Level::Rack {
                if self.options.depth > Level::Rack {
                    self.nodes(domain, &inner);
                }
            } else if let Some(next) =
                Level::ALL.get(depth + 1).filter(|l| **l <= self.options.depth)
            {
                self.domains(domain, *next, &inner);
            }
        }
    }

    fn line(&mut self, text: &str, facts: &[String]) {
        self.out.push_str(text);
        if !facts.is_empty() {
            self.out.push_str("  ");
            self.out.push_str(&facts.join(self.pen.dot));
        }
        self.out.push('\n');
    }

    /// Counts of a domain, and what all of its nodes share.
    fn facts(&self, domain: &[Placed<'_>], level: Level) -> Vec<String> {
        let mut facts = Vec::new();
        if level < Level::Leaf {
            let leaves =
                domain.chunk_by(|a, b| a.1.path(a.0, Level::Leaf) == b.1.path(b.0, Level::Leaf));
            facts.push(counted(leaves.count(), "leaf", "leaves"));
        }
        if level < Level::Rack {
            let racks =
                domain.chunk_by(|a, b| a.1.path(a.0, Level::Rack) == b.1.path(b.0, Level::Rack));
            facts.push(counted(racks.count(), "rack", "racks"));
        }
        facts.push(counted(domain.len(), "node", "nodes"));
        let (_, first) = domain[0];
        if level == Level::Leaf
            && !first.rails.is_empty()
            && domain.iter().all(|(_, l)| l.rails == first.rails)
        {
            facts.push(counted(first.rails.len(), "rail", "rails"));
        }
        if level == Level::Rack {
            if domain.iter().all(|(_, l)| l.feed == first.feed) {
                facts.push(format!("feed {}", first.feed));
            }
            let together = domain.iter().all(|(_, l)| l.nvlink == first.nvlink);
            if together && domain.len() > 1 {
                facts.push("one NVLink domain".into());
            }
        }
        facts
    }

    fn nodes(&mut self, rack: &[Placed<'_>], prefix: &str) {
        let together = rack.iter().all(|(_, l)| l.nvlink == rack[0].1.nvlink);
        // Alike are nodes with the same words and, where a rack is divided, the same NVLink domain.
        let mut groups: Vec<(String, Vec<&NodeName>)> = Vec::new();
        for (node, location) in rack {
            let mut words = (self.annotate)(node);
            if !together && location.nvlink != node.as_str() {
                let gap = if words.is_empty() { "" } else { self.pen.dot };
                words = format!("{words}{gap}NVLink {}", location.nvlink);
            }
            match groups.iter_mut().find(|(w, _)| *w == words) {
                Some((_, names)) => names.push(node),
                None => groups.push((words, vec![node])),
            }
        }
        let shown = groups.len().min(self.options.max_nodes_per_rack);
        let hidden: usize = groups[shown..].iter().map(|(_, names)| names.len()).sum();
        for (i, (words, names)) in groups.iter().take(shown).enumerate() {
            let last = i + 1 == shown && hidden == 0;
            let branch = if last { self.pen.corner } else { self.pen.tee };
            let list = hostlist::compress(names.iter().map(|n| n.as_str()));
            let facts: Vec<String> =
                Some(words.clone()).filter(|w| !w.is_empty()).into_iter().collect();
            self.line(&format!("{prefix}{branch}{list}"), &facts);
        }
        if hidden > 0 {
            let more = counted(hidden, "more node", "more nodes");
            let corner = self.pen.corner;
            self.line(&format!("{prefix}{corner}{more}"), &[]);
        }
    }
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;

    #[test]
    fn a_small_fleet_fits_on_a_page() {
        let words = |n: &NodeName| {
            if n.as_str() == "hgx-0002" { "lost".into() } else { "8 free".into() }
        };
        let drawn = tree(&generate::hgx(16, 8), words, Options::default());
        assert_eq!(
            drawn,
            "\
region local  2 leaves · 4 racks · 16 nodes
└─ cluster hgx  2 leaves · 4 racks · 16 nodes
   └─ spine spine1  2 leaves · 4 racks · 16 nodes
      ├─ leaf leaf01  2 racks · 8 nodes · 8 rails
      │  ├─ rack rack01  4 nodes · feed A
      │  │  ├─ hgx-[0001,0003-0004]  8 free
      │  │  └─ hgx-0002  lost
      │  └─ rack rack02  4 nodes · feed B
      │     └─ hgx-[0005-0008]  8 free
      └─ leaf leaf02  2 racks · 8 nodes · 8 rails
         ├─ rack rack03  4 nodes · feed A
         │  └─ hgx-[0009-0012]  8 free
         └─ rack rack04  4 nodes · feed B
            └─ hgx-[0013-0016]  8 free
"
        );
    }

    #[test]
    fn ascii_depth_and_limits_are_kept() {
        let options = Options { ascii: true, max_nodes_per_rack: 1, ..Options::default() };
        let drawn = tree(&generate::nvl72(1), |n| n.to_string(), options);
        assert!(drawn.is_ascii(), "{drawn}");
        assert!(drawn.contains("18 nodes, feed A, one NVLink domain"), "{drawn}");
        assert!(drawn.ends_with("`- 17 more nodes\n"), "{drawn}");
        let options = Options { depth: Level::Leaf, ..Options::default() };
        assert_eq!(tree(&generate::hgx(16, 8), |_| String::new(), options).lines().count(), 5);
        assert_eq!(tree(&Topology::default(), |_| String::new(), Options::default()), "");
    }
}
