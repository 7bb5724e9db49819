//! Reservations: which nodes they cover.

use crate::state::{Booked, State};
use muster_model::command::{Refusal, RefusalCode};
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::reservation::{Over, Reservation};
use muster_model::topology::Level;
use std::collections::BTreeSet;
use std::sync::Arc;

impl State {
    /// Nodes of a domain, named by its whole path or by its last name.
    pub fn in_domain<'a>(
        &'a self,
        level: Level,
        path: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Node>> + use<'a> {
        self.nodes.values().filter(move |n| {
            let p = n.location.path(&n.name, level);
            n.stage != Stage::Retired && (p.last() == Some(&path) || p.join("/") == path)
        })
    }

    /// Nodes that a reservation covers now.
    #[must_use]
    pub fn reserved_nodes(&self, b: &Booked) -> Vec<NodeName> {
        match &b.reservation.over {
            Over::Nodes(n) => n.clone(),
            Over::Gpus { .. } => b.nodes.clone(),
            Over::Domain { level, path } => {
                self.in_domain(*level, path).map(|n| n.name.clone()).collect()
            }
        }
    }

    /// Whole nodes with so many GPUs in all that no other reservation covers in the same windows:
    /// of the kind asked for, near each other, in the order of the topology.
    pub(crate) fn choose_for_reservation(
        &self,
        r: &Reservation,
        count: u32,
        sku: &Option<String>,
    ) -> Result<Vec<NodeName>, Refusal> {
        let taken: BTreeSet<NodeName> = self
            .reservations
            .values()
            .filter(|b| b.reservation.name != r.name && overlap(&b.reservation, r))
            .flat_map(|b| self.reserved_nodes(b))
            .collect();
        let mut able: Vec<&Arc<Node>> = self
            .nodes
            .values()
            .filter(|n| n.stage != Stage::Retired && !n.inventory.gpus.is_empty())
            .filter(|n| sku.as_ref().is_none_or(|s| s == n.sku()))
            .filter(|n| !taken.contains(&n.name))
            .collect();
        able.sort_by(|a, b| {
            a.location.path(&a.name, Level::Node).cmp(&b.location.path(&b.name, Level::Node))
        });
        let mut have = 0u64;
        let mut out = Vec::new();
        for n in able {
            if have >= u64::from(count) {
                break;
            }
            have += n.inventory.gpus.len() as u64;
            out.push(n.name.clone());
        }
        if have < u64::from(count) {
            return Err(Refusal::new(
                RefusalCode::Policy,
                format!("only {have} GPUs of that kind are not reserved in that time"),
            )
            .field("over.gpus.count")
            .hint("ask for fewer, for another time, or see `muster reservation`"));
        }
        Ok(out)
    }
}

/// May two reservations ever cover the same moment? Recurring ones are looked at for their next
/// hundred windows.
fn overlap(a: &Reservation, b: &Reservation) -> bool {
    let windows = |r: &Reservation| {
        let mut t = r.start;
        let mut out = Vec::new();
        while let Some(w) = r.window(t) {
            out.push(w);
            t = w.1;
            if out.len() >= 100 || r.every.is_none() {
                break;
            }
        }
        out
    };
    let (wa, wb) = (windows(a), windows(b));
    wa.iter().any(|x| wb.iter().any(|y| x.0 < y.1 && y.0 < x.1))
}
