//! Topology files: where every node stands, in TOML or YAML.
//!
//! The pleasant form is a tree. Every level may be left out (its nodes then share one domain called
//! `default`); `feed`, `rails` and `nvlink` hold for everything below until something inside says
//! otherwise; `nodes` are names or ranges.
//!
//! ```yaml
//! region:
//!   - name: eu-1
//!     cluster:
//!       - name: c1
//!         spine:
//!           - name: s1
//!             leaf:
//!               - name: l1
//!                 rails: [rail0, rail1]
//!                 rack:
//!                   - {name: r1, feed: A, nodes: "n[001-004]"}
//!                   - {name: r2, feed: B, nodes: ["n[005-007]", "n008"]}
//!               - name: l2
//!                 rack:
//!                   - {name: r3, feed: A, nvlink: rack, nodes: "gb[01-18]"}
//! ```
//!
//! The same in TOML:
//!
//! ```toml
//! [[region]]
//! name = "eu-1"
//! [[region.cluster]]
//! name = "c1"
//! [[region.cluster.leaf]]
//! name = "l1"
//! rack = [
//!     { name = "r1", feed = "A", nodes = "n[001-004]" },
//!     { name = "r2", feed = "B", nodes = "n[005-008]" },
//! ]
//! ```
//!
//! `nvlink` is `node` (NVLink ends at the node, the default), `rack` (the whole rack is one domain) or the
//! name of a domain. An entry of `nodes` may also be a table: `{name: "n[1-2]", feed: B}`.
//!
//! Sites that export tables can use the flat form instead; names of domains are then unique:
//!
//! ```toml
//! [[domain]]
//! name = "l1"
//! level = "leaf"
//! [[domain]]
//! name = "r1"
//! level = "rack"
//! parent = "l1"
//! nodes = "n[1-4]"
//! ```
//!
//! And a fleet to try things on: `generate: {kind: hgx, nodes: 16, gpus_per_node: 8}`, or
//! `generate: {kind: nvl72, racks: 4}`.

use crate::error::{FileError, did_you_mean, shown};
use crate::generate;
use crate::hostlist;
use crate::tree::{self, Key, Node, TextPosition, Value};
use muster_model::NodeName;
use muster_model::names::turns_text;
use muster_model::topology::{Level, Location, Topology};
use std::collections::BTreeMap;

/// Largest topology file.
pub const MAX_FILE: usize = 32 << 20;
/// Longest name of a domain.
const MAX_NAME: usize = 128;
/// Most rails of a node. Every node below repeats them.
const MAX_RAILS: usize = 64;
/// Names looked at for "did you mean".
const NEAR: usize = 1000;
/// What a level is called that the file does not mention.
const UNNAMED: &str = "default";

/// Reads a topology file; `origin` is its name for errors, and `.toml` or `.yaml` at its end decides
/// how it is read.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &str, origin: &str) -> Result<Topology, FileError> {
    if text.len() > MAX_FILE {
        return Err(FileError::new(origin, format!("the file is larger than {MAX_FILE} bytes")));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = if is_toml(text, origin) {
        tree::toml(text, origin)?
    } else {
        tree::yaml(text, origin).map_err(|e| match e.message.contains("one job a file") {
            true => FileError { message: "the file has several documents".into(), ..e },
            false => e,
        })?
    };
    let reader = Reader { origin };
    let entries = match &root.value {
        Value::Table(entries) if !entries.is_empty() => entries,
        Value::Null | Value::Table(_) => return Err(reader.empty()),
        _ => return Err(reader.expected(&root, "the file", "a table with `region`")),
    };
    let mut out = Builder { reader, nodes: BTreeMap::new() };
    let mut forms: Vec<&Key> = Vec::new();
    for (key, node) in entries {
        match key.text.as_str() {
            "generate" | "domain" | "domains" => forms.push(key),
            text if level_of(text).is_some_and(|l| l < Level::Nvlink) => {
                // Several levels at the root are one form; it is walked as a whole below.
                if !forms.iter().any(|k| level_of(&k.text).is_some()) {
                    forms.push(key);
                }
            }
            "feed" | "rails" | "nvlink" | "nodes" => {}
            _ => return Err(reader.unknown(key, &ROOT_KEYS)),
        }
        if key.text == "generate" && entries.len() == 1 {
            return reader.generate(key, node);
        }
    }
    if let [_, second, ..] = forms.as_slice() {
        return Err(reader
            .fail(second.place, format!("`{}` cannot be combined with another form", second.text))
            .hint("use one of: a tree (`region`), a flat list (`domain`), or `generate`"));
    }
    match entries.iter().find(|(k, _)| matches!(k.text.as_str(), "domain" | "domains")) {
        Some((_, list)) => flat(&mut out, list)?,
        None => {
            let inherited = Inherited::default();
            out.domain(&root, None, &inherited)?;
        }
    }
    if out.nodes.is_empty() {
        return Err(reader.empty());
    }
    Ok(Topology { nodes: out.nodes.into_iter().map(|(n, (l, _))| (n, l)).collect() })
}

const ROOT_KEYS: [&str; 7] = ["region", "cluster", "spine", "leaf", "rack", "domain", "generate"];
const LEVEL_KEYS: [&str; 9] =
    ["name", "cluster", "spine", "leaf", "rack", "nvlink", "feed", "rails", "nodes"];

fn is_toml(text: &str, origin: &str) -> bool {
    let end = origin.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    match end.as_str() {
        "toml" => true,
        "yaml" | "yml" | "json" => false,
        // Without a name that says it: TOML's first line is a header or has an equals sign.
        _ => {
            let mut lines = text.lines().map(str::trim);
            let first = lines.find(|l| !l.is_empty() && !l.starts_with('#')).unwrap_or_default();
            let assigns = first.split_once('=').is_some_and(|(k, _)| !k.contains([':', '{']));
            (first.starts_with('[') && first.ends_with(']')) || assigns
        }
    }
}

/// The level that a key stands for, in the singular or the plural.
fn level_of(key: &str) -> Option<Level> {
    let one = match key {
        "leaves" | "leafs" => "leaf",
        other => other.strip_suffix('s').unwrap_or(other),
    };
    one.parse().ok().filter(|l| *l != Level::Node)
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    origin: &'a str,
}

impl Reader<'_> {
    fn fail(&self, at: TextPosition, message: impl Into<String>) -> FileError {
        FileError::new(self.origin, message).at(at.line, at.column)
    }

    fn empty(&self) -> FileError {
        FileError::new(self.origin, "the file names no nodes")
            .hint("write `region:` with clusters, leaves and racks inside, or `generate:`")
    }

    fn expected(&self, node: &Node, what: &str, want: &str) -> FileError {
        self.fail(node.place, format!("{what} should be {want}, but is {}", node.kind()))
    }

    fn unknown(&self, key: &Key, known: &[&str]) -> FileError {
        tree::unknown_field(self.origin, &key.text, known).at(key.place.line, key.place.column)
    }

    fn text<'n>(&self, key: &Key, node: &'n Node) -> Result<&'n str, FileError> {
        match &node.value {
            Value::Text(s) | Value::Bare(s) => Ok(s.trim()),
            _ => Err(self.expected(node, &format!("`{}`", key.text), "text")),
        }
    }

    /// A name of a domain, a feed or a rail.
    fn name(&self, key: &Key, node: &Node) -> Result<String, FileError> {
        let s = self.text(key, node)?;
        if s.is_empty() {
            return Err(self.fail(node.place, format!("`{}` is empty", key.text)).hint("name it"));
        }
        let bad = |c: char| c.is_control() || c == '/' || turns_text(c);
        if s.len() > MAX_NAME || s.contains(bad) {
            let message = format!("`{}` is not a name: no `/` and no control characters", shown(s));
            return Err(self.fail(node.place, message).hint("use at most 128 plain characters"));
        }
        Ok(s.to_owned())
    }

    fn number(&self, key: &Key, node: &Node) -> Result<u32, FileError> {
        let s = self.text(key, node)?;
        s.parse().map_err(|_| {
            let message = format!("`{}` is not a whole number", shown(s));
            self.fail(node.place, message).about(key.text.clone())
        })
    }

    fn list<'n>(&self, node: &'n Node) -> Vec<&'n Node> {
        match &node.value {
            Value::List(items) => items.iter().collect(),
            Value::Null => Vec::new(),
            _ => vec![node],
        }
    }

    fn generate(&self, key: &Key, node: &Node) -> Result<Topology, FileError> {
        let Value::Table(entries) = &node.value else {
            return Err(self.expected(node, "`generate`", "a table"));
        };
        let (mut kind, mut nodes, mut gpus, mut racks) = (None, None, 8, None);
        for (k, v) in entries {
            match k.text.as_str() {
                "kind" => kind = Some((self.text(k, v)?, v.place)),
                "nodes" => nodes = Some((self.number(k, v)?, v.place)),
                "racks" => racks = Some((self.number(k, v)?, v.place)),
                "gpus_per_node" => gpus = self.number(k, v)?,
                _ => return Err(self.unknown(k, &["kind", "nodes", "racks", "gpus_per_node"])),
            }
        }
        let Some((kind, place)) = kind else {
            return Err(self.fail(key.place, "`generate` needs a `kind`").hint("hgx or nvl72"));
        };
        let check = |n: u32, place: TextPosition, most: u32| match n {
            0 => Err(self.fail(place, "0 is too few").hint("use at least 1")),
            n if n > most => Err(self.fail(place, format!("{n} is more than {most}"))),
            n => Ok(n),
        };
        match kind {
            "hgx" => {
                let (n, place) = nodes.ok_or_else(|| {
                    self.fail(key.place, "kind `hgx` needs `nodes`").hint("nodes: 16")
                })?;
                Ok(generate::hgx(check(n, place, generate::MAX_NODES)?, gpus))
            }
            "nvl72" => {
                let racks = racks.or(nodes.map(|(n, p)| (n.div_ceil(18), p)));
                let (n, place) = racks.ok_or_else(|| {
                    self.fail(key.place, "kind `nvl72` needs `racks`").hint("racks: 4")
                })?;
                Ok(generate::nvl72(check(n, place, generate::MAX_NODES / 18)?))
            }
            other => Err(self
                .fail(place, format!("`{}` is not a kind of fleet", shown(other)))
                .hint(did_you_mean(other, &["hgx", "nvl72"]))),
        }
    }
}

/// What the domains around a node say about it.
#[derive(Clone, Default)]
struct Inherited {
    /// Names by level, down to NVLink.
    names: [Option<String>; 6],
    feed: Option<String>,
    rails: Vec<String>,
    /// `node`, `rack`, or a name.
    nvlink: Option<String>,
}

struct Builder<'a> {
    reader: Reader<'a>,
    nodes: BTreeMap<NodeName, (Location, TextPosition)>,
}

impl Builder<'_> {
    /// Walks a domain of the tree form; the root has no level.
    fn domain(
        &mut self,
        node: &Node,
        level: Option<Level>,
        around: &Inherited,
    ) -> Result<(), FileError> {
        let reader = self.reader;
        let Value::Table(entries) = &node.value else {
            let what = level.map_or("a domain".to_owned(), |l| format!("a {l}"));
            return Err(reader.expected(node, &what, "a table with a `name`"));
        };
        let mut here = around.clone();
        let mut named = level.is_none();
        for (key, value) in entries {
            match key.text.as_str() {
                "name" if level.is_some() => {
                    named = true;
                    if let Some(l) = level {
                        here.names[l as usize] = Some(reader.name(key, value)?);
                    }
                }
                _ => self.attribute(&mut here, key, value)?,
            }
        }
        if !named {
            let what = level.map_or("domain", Level::word);
            let message = format!("this {what} has no `name`");
            return Err(reader.fail(node.place, message).hint("give it one, like `name: l1`"));
        }
        let mut seen: BTreeMap<(Level, String), TextPosition> = BTreeMap::new();
        for (key, value) in entries {
            if key.text == "nodes" {
                self.add_nodes(key, value, &here)?;
                continue;
            }
            let is_attribute = matches!(key.text.as_str(), "name" | "feed" | "rails")
                || is_nvlink_text(key, value);
            if is_attribute {
                continue;
            }
            let Some(inner) = level_of(&key.text) else {
                let known = if level.is_some() { &LEVEL_KEYS[..] } else { &ROOT_KEYS[..] };
                return Err(reader.unknown(key, known));
            };
            if let Some(l) = level.filter(|l| inner <= *l) {
                let message = format!("a {inner} cannot be inside a {l}");
                return Err(reader.fail(key.place, message).hint(ORDER));
            }
            for item in reader.list(value) {
                if let Some((name, place)) = name_of(item) {
                    let at = (inner, name.to_owned());
                    if let Some(first) = seen.get(&at) {
                        let message = format!(
                            "{inner} `{}` is already there, on line {}",
                            shown(name),
                            first.line
                        );
                        return Err(reader.fail(place, message).hint("give it a name of its own"));
                    }
                    seen.insert(at, place);
                }
                self.domain(item, Some(inner), &here)?;
            }
        }
        Ok(())
    }

    fn attribute(&self, here: &mut Inherited, key: &Key, value: &Node) -> Result<(), FileError> {
        match key.text.as_str() {
            "feed" => here.feed = Some(self.reader.name(key, value)?),
            "rails" => {
                let rails = self.reader.list(value);
                if rails.len() > MAX_RAILS {
                    let message = format!("{} rails are more than {MAX_RAILS}", rails.len());
                    return Err(self.reader.fail(value.place, message).hint("name each rail once"));
                }
                let rails = rails.into_iter().map(|r| self.reader.name(key, r));
                here.rails = rails.collect::<Result<_, _>>()?;
            }
            "nvlink" if is_nvlink_text(key, value) => {
                here.nvlink = Some(self.reader.name(key, value)?);
                here.names[Level::Nvlink as usize] = None;
            }
            _ => {}
        }
        Ok(())
    }

    fn add_nodes(&mut self, key: &Key, value: &Node, here: &Inherited) -> Result<(), FileError> {
        let reader = self.reader;
        for item in reader.list(value) {
            let mut inner = here.clone();
            let (list, place) = match &item.value {
                Value::Table(entries) => {
                    let mut names = None;
                    for (k, v) in entries {
                        match k.text.as_str() {
                            "name" => names = Some((reader.text(k, v)?, v.place)),
                            "feed" | "rails" | "nvlink" => self.attribute(&mut inner, k, v)?,
                            _ => {
                                return Err(reader.unknown(k, &["name", "feed", "rails", "nvlink"]));
                            }
                        }
                    }
                    names.ok_or_else(|| reader.fail(item.place, "these nodes have no `name`"))?
                }
                _ => (reader.text(key, item)?, item.place),
            };
            if list.is_empty() {
                return Err(reader.fail(place, "a node's name is empty").hint("name it"));
            }
            let names = hostlist::expand(list).map_err(|e| {
                reader.fail(place, e.to_string()).hint("write names and ranges like n[001-008],gw1")
            })?;
            for name in names {
                self.add(&name, place, &inner)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, place: TextPosition, here: &Inherited) -> Result<(), FileError> {
        let node: NodeName = name.parse().map_err(|e| self.reader.fail(place, format!("{e}")))?;
        if let Some((_, first)) = self.nodes.get(&node) {
            let message = format!("node `{node}` is already there, on line {}", first.line);
            return Err(self.reader.fail(place, message).hint("a node is in one place only"));
        }
        if self.nodes.len() >= hostlist::MAX_NAMES {
            let message = format!("more than {} nodes", hostlist::MAX_NAMES);
            return Err(self.reader.fail(place, message));
        }
        let level = |l: Level| here.names[l as usize].clone().unwrap_or_else(|| UNNAMED.into());
        let rack = level(Level::Rack);
        let nvlink = match (&here.names[Level::Nvlink as usize], here.nvlink.as_deref()) {
            (Some(domain), _) => domain.clone(),
            (None, Some("rack")) => rack.clone(),
            (None, Some("node") | None) => node.to_string(),
            (None, Some(domain)) => domain.to_owned(),
        };
        let location = Location {
            region: level(Level::Region),
            cluster: level(Level::Cluster),
            spine: level(Level::Spine),
            leaf: level(Level::Leaf),
            rack,
            nvlink,
            feed: here.feed.clone().unwrap_or_else(Location::no_feed),
            rails: here.rails.clone(),
        };
        self.nodes.insert(node, (location, place));
        Ok(())
    }
}

const ORDER: &str = "from the outside in: region, cluster, spine, leaf, rack, nvlink";

/// `nvlink: rack` says something about the nodes; `nvlink: [{name: …}]` are domains.
fn is_nvlink_text(key: &Key, value: &Node) -> bool {
    key.text == "nvlink" && matches!(value.value, Value::Text(_) | Value::Bare(_))
}

/// Name of a domain as written, and its place.
fn name_of(item: &Node) -> Option<(&str, TextPosition)> {
    let Value::Table(entries) = &item.value else { return None };
    entries.iter().find(|(k, _)| k.text == "name").and_then(|(_, v)| match &v.value {
        Value::Text(s) | Value::Bare(s) => Some((s.trim(), v.place)),
        _ => None,
    })
}

/// One row of the flat form.
struct Row<'n> {
    name: String,
    level: Level,
    parent: Option<(String, TextPosition)>,
    place: TextPosition,
    entries: &'n [(Key, Node)],
}

/// Reads the flat form: `domain` rows that name their parents.
fn flat(out: &mut Builder<'_>, list: &Node) -> Result<(), FileError> {
    let reader = out.reader;
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    for item in reader.list(list) {
        let row = row(reader, item)?;
        if let Some(&first) = index.get(&row.name) {
            let message = format!(
                "domain `{}` is already there, on line {}",
                row.name, rows[first].place.line
            );
            return Err(reader.fail(row.place, message).hint("in a flat list names are unique"));
        }
        index.insert(row.name.clone(), rows.len());
        rows.push(row);
    }
    for row in &rows {
        let Some((parent, at)) = &row.parent else { continue };
        let Some(&p) = index.get(parent) else {
            let names: Vec<&str> = index.keys().map(String::as_str).take(NEAR).collect();
            let near = crate::error::closest(parent, &names);
            let hint = near.map_or("add a row for it".into(), |n| format!("did you mean `{n}`?"));
            let message =
                format!("parent `{}` of `{}` is not in the list", shown(parent), row.name);
            return Err(reader.fail(*at, message).hint(hint));
        };
        if rows[p].level >= row.level {
            // Every cycle has such a step; saying "cycle" then helps more.
            if in_cycle(&rows, &index, row) {
                let message = format!("`{}` is inside itself: its parents form a cycle", row.name);
                return Err(reader.fail(*at, message).hint("give one of them another parent"));
            }
            let (inner, outer) = (row.level, rows[p].level);
            let message = format!("{inner} `{}` cannot be inside {outer} `{parent}`", row.name);
            return Err(reader.fail(*at, message).hint(ORDER));
        }
    }
    for row in &rows {
        // Parents first, so that the nearest word wins. Levels bound the length of the chain.
        let mut chain = vec![row];
        while let Some((parent, _)) = &chain[chain.len() - 1].parent {
            chain.push(&rows[index[parent]]);
        }
        let mut here = Inherited::default();
        for r in chain.iter().rev() {
            here.names[r.level as usize] = Some(r.name.clone());
            for (k, v) in r.entries {
                out.attribute(&mut here, k, v)?;
            }
        }
        for (k, v) in row.entries.iter().filter(|(k, _)| k.text == "nodes") {
            out.add_nodes(k, v, &here)?;
        }
    }
    Ok(())
}

fn row<'n>(reader: Reader<'_>, item: &'n Node) -> Result<Row<'n>, FileError> {
    let Value::Table(entries) = &item.value else {
        return Err(reader.expected(item, "a domain", "a table with `name` and `level`"));
    };
    let (mut name, mut level, mut parent) = (None, None, None);
    for (k, v) in entries {
        match k.text.as_str() {
            "name" => name = Some((reader.name(k, v)?, v.place)),
            "parent" => parent = Some((reader.name(k, v)?, v.place)),
            "level" => {
                let text = reader.text(k, v)?;
                let words: Vec<&str> = Level::ALL[..6].iter().map(|l| l.word()).collect();
                level = Some(level_of(text).ok_or_else(|| {
                    let message = format!("`{}` is not a level of a domain", shown(text));
                    reader.fail(v.place, message).hint(did_you_mean(text, &words))
                })?);
            }
            "feed" | "rails" | "nodes" => {}
            "nvlink" if is_nvlink_text(k, v) => {}
            _ => {
                let known = ["name", "level", "parent", "feed", "rails", "nvlink", "nodes"];
                return Err(reader.unknown(k, &known));
            }
        }
    }
    let (name, place) =
        name.ok_or_else(|| reader.fail(item.place, "this domain has no `name`").hint("name it"))?;
    let level = level.ok_or_else(|| {
        reader
            .fail(place, format!("domain `{name}` has no `level`"))
            .hint("level: leaf, for example")
    })?;
    Ok(Row { name, level, parent, place, entries })
}

fn in_cycle(rows: &[Row<'_>], index: &BTreeMap<String, usize>, start: &Row<'_>) -> bool {
    let mut at = start;
    for _ in 0..rows.len() {
        let Some(&p) = at.parent.as_ref().and_then(|(n, _)| index.get(n)) else { return false };
        at = &rows[p];
        if at.name == start.name {
            return true;
        }
    }
    false
}
