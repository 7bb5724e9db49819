//! Quotas: who is entitled to how many GPUs, what is lent while it is idle, and in which
//! proportion the rest is shared. A tree of any depth; projects hang on its nodes.

mod report;

pub use report::{AccountRow, LimitRow, QuotaReport, QuotaRow};

use crate::names::{Label, ProjectName};
use crate::resolve::one_line;
use crate::spec::{Priority, SpecProblem, Tier, problem};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Deepest tree that is accepted: deeper ones are mistakes.
const MAX_DEPTH: usize = 32;
/// Most nodes of the tree, and most projects of one of them.
const MAX_NODES: usize = 10_000;
/// Most limits of one node.
const MAX_LIMITS: usize = 64;
/// Most nodes times different kinds of GPU that the tree limits: what is used is counted for each, in
/// about 80 bytes, and a node may name other kinds than the next.
const MAX_COUNTED: usize = 500_000;
/// Most GPUs in one limit.
const MAX_GPUS: u32 = 100_000_000;

/// The whole tree, replaced as one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// Nodes of the tree, in any order.
    pub tree: Vec<Quota>,
}

/// One node of the tree: a tenant, a department, a cohort.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Its name, unique in the tree.
    #[cfg_attr(feature = "openapi", schema(value_type = String, max_length = 128))]
    pub name: Label,
    /// The node above it; none for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub parent: Option<Label>,
    /// Its part of what its siblings share, by weight.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000_000))]
    pub shares: u32,
    /// Projects whose jobs count here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub projects: Vec<ProjectName>,
    /// What it is entitled to. Without an entry for a kind of GPU there is no limit here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<QuotaLimit>,
    /// May a job pass one of the same node that is ahead of it and does not fit?
    #[serde(default, skip_serializing_if = "is_default")]
    pub order: QueueOrder,
    /// Highest priority class that tokens bound to its projects may use. When absent, what the node
    /// above it says; `normal` where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<Priority>,
}

/// An entitlement to GPUs of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct QuotaLimit {
    /// Only GPUs of this SKU; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
    /// Only jobs of this tier; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// GPUs it may always have.
    pub nominal: u32,
    /// GPUs it may have beyond that while others leave them idle; any number when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub borrow: Option<u32>,
    /// GPUs of its own that others may have while they are idle; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lend: Option<u32>,
}

/// May a job pass one that is ahead of it and does not fit?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum QueueOrder {
    /// Yes, as long as it delays no reserved start.
    #[default]
    BestEffort,
    /// No: who came first starts first.
    Strict,
}

fn one() -> u32 {
    1
}

fn is_default<T: Default + PartialEq>(v: &T) -> bool {
    *v == T::default()
}

impl Quotas {
    /// The highest priority class that tokens bound to a project may use: what the nearest node of
    /// the tree says, from its own upwards. Where none says anything no project stops the work of
    /// another.
    #[must_use]
    pub fn max_priority(&self, project: &ProjectName) -> Priority {
        let mut at = self.tree.iter().find(|q| q.projects.contains(project));
        for _ in 0..=MAX_DEPTH {
            let Some(q) = at else { break };
            if let Some(most) = q.max_priority {
                return most;
            }
            at = q.parent.as_ref().and_then(|up| self.tree.iter().find(|q| q.name == *up));
        }
        Priority::Normal
    }

    /// Checks what can be judged from the tree alone.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field and how to fix it.
    pub fn check(&self) -> Result<(), SpecProblem> {
        if self.tree.len() > MAX_NODES {
            let message = format!("{} nodes are more than {MAX_NODES}", self.tree.len());
            return Err(problem("tree", message, "let several projects hang on one node"));
        }
        let limits = self.tree.iter().flat_map(|q| &q.gpus);
        let kinds = limits.map(|l| (&l.sku, l.tier)).collect::<BTreeSet<_>>().len();
        if self.tree.len().saturating_mul(kinds) > MAX_COUNTED {
            let nodes = self.tree.len();
            let message = format!(
                "{nodes} nodes with limits for {kinds} different kinds of GPU (SKU and tier) are more \
                 than can be counted: {MAX_COUNTED} of one times the other"
            );
            return Err(problem("tree", message, "name fewer SKUs and tiers, or use fewer nodes"));
        }
        let mut by_name: BTreeMap<&Label, &Quota> = BTreeMap::new();
        let mut owned: BTreeSet<&ProjectName> = BTreeSet::new();
        for (i, q) in self.tree.iter().enumerate() {
            let at = |f: &str| format!("tree[{i}].{f}");
            for (f, have, most) in
                [("projects", q.projects.len(), MAX_NODES), ("gpus", q.gpus.len(), MAX_LIMITS)]
            {
                if have > most {
                    let message = format!("{have} entries are more than {most}");
                    return Err(problem(&at(f), message, "use more nodes with fewer on each"));
                }
            }
            if by_name.insert(&q.name, q).is_some() {
                let message = format!("two nodes are called `{}`", q.name);
                return Err(problem(&at("name"), message, "give each node a name of its own"));
            }
            if !(1..=1_000_000).contains(&q.shares) {
                return Err(problem(
                    &at("shares"),
                    format!("{} is not a weight", q.shares),
                    "use a number from 1 to 1000000",
                ));
            }
            for p in &q.projects {
                if !owned.insert(p) {
                    return Err(problem(
                        &at("projects"),
                        format!("project {p} hangs on two nodes"),
                        "name each project once in the tree",
                    ));
                }
            }
            let mut kinds = BTreeSet::new();
            for (n, l) in q.gpus.iter().enumerate() {
                let at = |f: &str| format!("tree[{i}].gpus[{n}].{f}");
                one_line(&at("sku"), l.sku.as_deref().unwrap_or_default())?;
                if !kinds.insert((&l.sku, l.tier)) {
                    return Err(problem(
                        &at("sku"),
                        "two limits for the same SKU and tier",
                        "keep one of them",
                    ));
                }
                for (f, v) in [("nominal", Some(l.nominal)), ("borrow", l.borrow), ("lend", l.lend)]
                {
                    if v.is_some_and(|v| v > MAX_GPUS) {
                        return Err(problem(
                            &at(f),
                            "more GPUs than any site has",
                            "use a smaller number",
                        ));
                    }
                }
            }
        }
        for (i, q) in self.tree.iter().enumerate() {
            let mut at = q;
            for depth in 0.. {
                let Some(up) = &at.parent else { break };
                let field = format!("tree[{i}].parent");
                let Some(parent) = by_name.get(up) else {
                    return Err(problem(
                        &field,
                        format!("there is no node `{up}`"),
                        "name a node of this tree, or leave it out for a root",
                    ));
                };
                if depth >= MAX_DEPTH || parent.name == q.name {
                    return Err(problem(
                        &field,
                        format!("following the parents of `{}` never ends", q.name),
                        "a tree has no cycles and at most 32 levels",
                    ));
                }
                at = parent;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Quotas {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_circle_is_refused() {
        let q = read(r#"{"tree":[{"name":"a","parent":"b"},{"name":"b","parent":"a"}]}"#);
        assert!(q.check().unwrap_err().message.contains("never ends"));
        let q = read(r#"{"tree":[{"name":"a","parent":"x"}]}"#);
        assert_eq!(q.check().unwrap_err().field, "tree[0].parent");
    }

    #[test]
    fn what_would_take_more_memory_than_a_site_needs_is_refused() {
        let tree = |nodes: usize, kinds: usize| {
            let node = |i: usize| {
                let sku = format!("s{}", i % kinds);
                serde_json::json!({"name": format!("n{i}"), "gpus": [{"sku": sku, "nominal": 1}]})
            };
            let all: Vec<_> = (0..nodes).map(node).collect();
            read(&serde_json::json!({ "tree": all }).to_string())
        };
        let e = tree(1000, 1000).check().unwrap_err();
        assert_eq!(e.field, "tree");
        assert!(e.message.contains("1000 nodes") && e.message.contains("1000 different kinds"));
        tree(MAX_NODES, 8).check().unwrap();
    }

    #[test]
    fn the_nearest_node_says_which_classes_a_project_may_use() {
        let q = read(
            r#"{"tree":[{"name":"co","max_priority":"high"},
                {"name":"a","parent":"co","projects":["pa"],"max_priority":"critical"},
                {"name":"b","parent":"co","projects":["pb"]},
                {"name":"c","projects":["pc"]}]}"#,
        );
        q.check().unwrap();
        let most = |p: &str| q.max_priority(&p.parse().unwrap());
        assert_eq!((most("pa"), most("pb")), (Priority::Critical, Priority::High));
        assert_eq!((most("pc"), most("elsewhere")), (Priority::Normal, Priority::Normal));
    }

    #[test]
    fn a_project_hangs_on_one_node() {
        let q = read(r#"{"tree":[{"name":"a","projects":["p"]},{"name":"b","projects":["p"]}]}"#);
        assert!(q.check().unwrap_err().message.contains("two nodes"));
        let q = read(r#"{"tree":[{"name":"a","projects":["p"],"gpus":[{"nominal":8}]}]}"#);
        assert!(q.check().is_ok());
    }
}
