//! Which wish of a group no node of the fleet can meet, and what the fleet has at most.

use crate::fleet::Fleet;
use crate::mig;
use crate::node::{Ask, Entry, Part};
use crate::words::plural;
use muster_model::distinct;
use muster_model::near::closest;
use muster_model::node::NodeRole;
use muster_model::spec::{GpuPart, Group};
use muster_model::units::Bytes;

/// SKUs that are named one by one.
const SKUS_SHOWN: usize = 8;

/// A wish that no node can meet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unmet {
    /// What the fleet has instead, as it follows after "but".
    pub(crate) words: String,
    /// What to ask for instead.
    pub(crate) instead: Option<String>,
}

impl Unmet {
    fn because(words: impl Into<String>, instead: Option<String>) -> Option<Unmet> {
        Some(Unmet { words: words.into(), instead })
    }
}

/// The first wish of a share that no node which meets the wishes before it can meet: the
/// conditions of [`Entry::ever_capable`] in turn. `None` when some node could carry the share.
pub(crate) fn unmet(f: &Fleet, g: &Group, a: &Ask) -> Option<Unmet> {
    if f.entries().any(|e| e.ever_capable(a)) {
        return None;
    }
    let mut left: Vec<&Entry> = f.entries().collect();
    if left.is_empty() {
        return Unmet::because("this fleet has no nodes", None);
    }
    left.retain(|e| e.facts.simulated || !a.simulated);
    if left.is_empty() {
        let words = "no node of this fleet is simulated";
        return Unmet::because(words, Some("leave `simulate` out".into()));
    }
    let mut node = String::from("node of this fleet");
    if let Some(names) = &g.sku {
        // A node without GPUs has no SKU.
        let known = left.iter().map(|e| e.facts.sku.as_str());
        let known: Vec<&str> = distinct(known.filter(|s| !s.is_empty()));
        left.retain(|e| names.split('|').any(|n| n == e.facts.sku));
        let sku = names.replace('|', " or ");
        if left.is_empty() {
            if known.is_empty() {
                return Unmet::because(format!("no {node} is of SKU {sku}: none has GPUs"), None);
            }
            let near = names.split('|').find_map(|n| closest(n, &known));
            let there = known[..known.len().min(SKUS_SHOWN)].join(", ");
            let words = format!("no {node} is of SKU {sku}: there is {there}");
            return Unmet::because(words, near.map(|n| format!("ask for SKU {n}")));
        }
        node = format!("node of SKU {sku}");
    }
    if let Some(GpuPart::Mig(profile)) = &g.part {
        left.retain(|e| !e.own_gpus().and(e.facts.mig).is_empty());
        if left.is_empty() {
            return Unmet::because(format!("no {node} has a GPU in MIG mode"), None);
        }
        let known: Vec<String> = distinct(left.iter().flat_map(|e| mig::profiles(&e.facts.sku)));
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        left.retain(|e| a.skus >> e.sku & 1 == 1);
        if left.is_empty() {
            let there = known.join(", ");
            let words =
                format!("no {node} in MIG mode has the profile {profile}: there is {there}");
            let near = closest(profile, &known);
            return Unmet::because(words, near.map(|n| format!("ask for MIG profile {n}")));
        }
    }
    left.retain(|e| a.skus >> e.sku & 1 == 1);
    match a.part {
        Some(Part::Mig(..)) => {}
        Some(Part::Milli(_)) => {
            left.retain(|e| whole(e) > 0);
            if left.is_empty() {
                return Unmet::because(format!("no {node} has a GPU to share"), None);
            }
        }
        None => {
            let most = left.iter().map(|e| whole(e)).max().unwrap_or(0);
            if most == 0 && a.gpus > 0 {
                return Unmet::because(format!("no {node} has GPUs"), None);
            }
            let gpus = plural(most.into(), "GPU");
            if most < a.gpus {
                let words = format!("no {node} has more than {gpus}");
                return Unmet::because(words, Some(format!("ask for at most {gpus} a node")));
            }
            left.retain(|e| whole(e) >= a.gpus);
            if a.gpus > 0 {
                node = format!("{node} with {}", plural(a.gpus.into(), "GPU"));
            }
        }
    }
    let most = left.iter().map(|e| e.facts.memory.0).max().unwrap_or(0);
    if most < a.memory {
        let memory = whole_gib(most);
        let words = format!("no {node} has more than {memory} memory");
        return Unmet::because(words, Some(format!("ask for at most {memory} memory a node")));
    }
    left.retain(|e| e.facts.memory.0 >= a.memory);
    let most = left.iter().map(|e| e.facts.cpus).max().unwrap_or(0);
    if most < a.cpus {
        let cpus = plural(most.into(), "CPU");
        let memory = if a.memory > 0 { " and so much memory" } else { "" };
        let words = format!("no {node}{memory} has more than {cpus}");
        return Unmet::because(words, Some(format!("ask for at most {cpus} a node")));
    }
    left.retain(|e| e.facts.cpus >= a.cpus);
    if !a.lemon && left.iter().all(|e| e.facts.role == NodeRole::Lemon) {
        let words = "every node that satisfies the per-node request is marked as a lemon, which \
                     takes small preemptible work only";
        return Unmet::because(words, None);
    }
    Unmet::because("no node of this fleet satisfies the per-node request", None)
}

/// GPUs that are given out whole, those that are not there now included.
fn whole(e: &Entry) -> u32 {
    e.own_gpus().minus(e.facts.mig).len()
}

/// An amount that a person can read; never more than there is.
fn whole_gib(bytes: u64) -> Bytes {
    const GIB: u64 = 1 << 30;
    Bytes(if bytes < GIB { bytes } else { bytes / GIB * GIB })
}
