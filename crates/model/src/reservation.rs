//! Reservations: windows of time in which nodes belong to somebody, or to nobody.

use crate::names::{Label, NodeName, ProjectName};
use crate::resolve::{one_line, some_lines};
use crate::spec::{MAX_NODES, SpecProblem, problem};
use crate::topology::Level;
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// A window, once or recurring, over a set of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// Its name, unique in the site.
    #[cfg_attr(feature = "openapi", schema(value_type = String, max_length = 128))]
    pub name: Label,
    /// Whose work may run in it; empty for maintenance: nobody's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub projects: Vec<ProjectName>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The nodes it covers.
    pub over: ReservationTarget,
    /// When it (first) begins.
    pub start: Time,
    /// How long it lasts.
    pub length: Span,
    /// Begins again after so long, for ever or until it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// What happens to work of others that still runs when it begins.
    #[serde(default)]
    pub overrun: Overrun,
    /// Spot work of others may use what stays idle in it, and is stopped when it is needed.
    #[serde(default)]
    pub lend: bool,
}

/// Which nodes a reservation covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReservationTarget {
    /// These nodes, by name.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    Nodes(Vec<NodeName>),
    /// Whole nodes with at least so many GPUs in all, chosen when it is made.
    Gpus {
        /// The least number of GPUs of all its nodes together.
        count: u32,
        /// Of which SKU.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sku: Option<String>,
    },
    /// Every node of a domain, also those that join later.
    Domain {
        /// The level the domain is of: leaf, rack and so on.
        level: Level,
        /// Its path from the region down, as in `muster topology`, or its last name alone.
        path: String,
    },
}

/// What happens to work of others that still runs when a reservation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Overrun {
    /// It is asked for a checkpoint in time, stopped at the beginning and queued again.
    #[default]
    Stop,
    /// It goes on to its end; the reservation gets the node after it.
    Finish,
}

/// Most projects of one reservation.
const MAX_PROJECTS: usize = 1000;
/// Longest path of a domain, or SKU.
const MAX_TEXT: usize = 1000;

impl Reservation {
    /// For nobody's work.
    #[must_use]
    pub fn is_maintenance(&self) -> bool {
        self.projects.is_empty()
    }

    /// Its name, for those who may know it: everybody where it is for maintenance, else its projects.
    #[must_use]
    pub fn name_for(&self, project: &ProjectName) -> Option<&Label> {
        (self.is_maintenance() || self.projects.contains(project)).then_some(&self.name)
    }

    /// The window that goes on at `t`, or the next one after it.
    #[must_use]
    pub fn window(&self, t: Time) -> Option<(Time, Time)> {
        self.start.window(self.length, self.every, t)
    }

    /// Checks what can be judged from the reservation alone.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field and how to fix it.
    pub fn check(&self) -> Result<(), SpecProblem> {
        some_lines("reason", &self.reason)?;
        if let ReservationTarget::Gpus { sku: Some(text), .. }
        | ReservationTarget::Domain { path: text, .. } = &self.over
        {
            one_line("over", text)?;
        }
        if self.length.0 == 0 {
            return Err(problem("length", "it is zero", "write how long, like 2h"));
        }
        if self.every.is_some_and(|e| e.0 < self.length.0) {
            return Err(problem(
                "every",
                "it begins again before it is over",
                "make `every` at least as long as `length`",
            ));
        }
        if self.projects.len() > MAX_PROJECTS {
            let message = format!("{} projects are more than {MAX_PROJECTS}", self.projects.len());
            return Err(problem("projects", message, "name fewer projects"));
        }
        match &self.over {
            ReservationTarget::Nodes(n) if n.len() > MAX_NODES as usize => Err(problem(
                "over.nodes",
                format!("{} nodes are more than {MAX_NODES}", n.len()),
                "use `over: {domain: …}`",
            )),
            ReservationTarget::Gpus { sku: Some(text), .. }
            | ReservationTarget::Domain { path: text, .. }
                if text.len() > MAX_TEXT =>
            {
                Err(problem("over", format!("a text has more than {MAX_TEXT} bytes"), "shorten it"))
            }
            ReservationTarget::Nodes(n) if n.is_empty() => {
                Err(problem("over.nodes", "no node is named", "name the nodes"))
            }
            ReservationTarget::Gpus { count: 0, .. } => {
                Err(problem("over.gpus.count", "it is zero", "ask for at least one GPU"))
            }
            ReservationTarget::Domain { level: Level::Node, .. } => Err(problem(
                "over.domain.level",
                "a node is not a domain",
                "use `over: {nodes: […]}`",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recurring_window_comes_again() {
        let r: Reservation = serde_json::from_str(
            r#"{"name":"night","over":{"nodes":["n1"]},"start":1000,"length":"10s","every":"1m"}"#,
        )
        .unwrap();
        assert_eq!(r.window(Time(0)), Some((Time(1000), Time(11_000))));
        assert_eq!(r.window(Time(10_999)), Some((Time(1000), Time(11_000))));
        assert_eq!(r.window(Time(11_000)), Some((Time(61_000), Time(71_000))));
        assert_eq!(r.window(Time(131_500)), Some((Time(181_000), Time(191_000))));
        let once = Reservation { every: None, ..r };
        assert_eq!(once.window(Time(11_000)), None);
    }
}
