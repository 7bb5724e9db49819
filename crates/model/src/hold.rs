//! What keeps a waiting job from starting until it is released.

use crate::entity::Entity;
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A waiting job does not start, whatever the fleet has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredHold")]
pub struct Hold {
    /// Who or what holds it, for people. Nothing is decided by it.
    pub name: String,
    /// What kind of hold it is, and with that what ends it.
    pub by: HeldBy,
    /// Since when; snapshots of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// What a job is held by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// Somebody, when the job was submitted or later. Only somebody ends it.
    Somebody,
    /// A breaker. It ends with the breaker, when the job is its probe, or by somebody's decision.
    Breaker {
        /// The template or image that the breaker is about.
        entity: Entity,
    },
    /// Ranks of it from before a restore, which still run. It ends when they are gone, and by
    /// nobody's decision before.
    LostRanks,
    /// The control plane, because nodes failed under it. It ends when somebody has looked, or when
    /// the nodes turn out to have failed for another cause.
    Suspicion,
}

impl HeldBy {
    /// What the breaker is about, if it is one.
    #[must_use]
    pub fn breaker(&self) -> Option<&Entity> {
        match self {
            HeldBy::Breaker { entity } => Some(entity),
            _ => None,
        }
    }
}

impl Hold {
    /// What somebody asked for, by the name that the log has for them.
    #[must_use]
    pub fn asked(name: impl Into<String>) -> Hold {
        Hold { name: name.into(), by: HeldBy::Somebody, since: None }
    }

    /// The same with the moment at which it began.
    #[must_use]
    pub fn at(self, since: Time) -> Hold {
        Hold { since: Some(since), ..self }
    }

    /// The hold that a record shows. Older records and snapshots have the name alone: this is
    /// the one place that reads what it says.
    #[must_use]
    pub fn from_record(name: &str, by: Option<&HeldBy>) -> Hold {
        let by = by.cloned().unwrap_or_else(|| {
            match name.strip_prefix("breaker ").map(str::parse::<Entity>) {
                Some(Ok(entity)) => HeldBy::Breaker { entity },
                _ if name.starts_with("a restored log: ") => HeldBy::LostRanks,
                _ if name.starts_with("muster: ") => HeldBy::Suspicion,
                _ => HeldBy::Somebody,
            }
        });
        Hold { name: name.to_owned(), by, since: None }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// How snapshots hold it: older ones have the name alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredHold {
    Whole {
        name: String,
        by: HeldBy,
        #[serde(default)]
        since: Option<Time>,
    },
    Name(String),
}

impl From<StoredHold> for Hold {
    fn from(w: StoredHold) -> Hold {
        match w {
            StoredHold::Whole { name, by, since } => Hold { name, by, since },
            StoredHold::Name(name) => Hold::from_record(&name, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_of_an_older_snapshot_is_read_and_a_newer_one_does_not_go_by_its_words() {
        let read = |text: &str| serde_json::from_str::<Hold>(text).expect("a hold");
        let entity = Entity::Image("team/x:1".into());
        let lost = "a restored log: ranks of it run on node n1, and `muster node reconcile n1` \
                    stops them";
        for (name, by) in [
            ("user:ann", HeldBy::Somebody),
            ("system", HeldBy::Somebody),
            ("breaker image:team/x:1", HeldBy::Breaker { entity }),
            ("breaker", HeldBy::Somebody),
            (lost, HeldBy::LostRanks),
            ("muster: nodes fail under it one after another", HeldBy::Suspicion),
        ] {
            let old = read(&serde_json::to_string(name).expect("text"));
            assert_eq!(old, Hold { name: name.into(), by, since: None });
            assert_eq!(read(&serde_json::to_string(&old).expect("text")), old);
            let mine = Hold::asked(name).at(Time(7));
            assert_eq!(read(&serde_json::to_string(&mine).expect("text")), mine);
        }
    }
}
