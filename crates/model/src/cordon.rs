//! Why a node gets no new work.

use crate::units::Time;
use serde::{Deserialize, Serialize};

/// No new work for a node; running work is untouched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredCordon")]
pub struct Cordon {
    /// Why, for people. Nothing is decided by it.
    pub reason: String,
    /// Whose decision it is.
    pub by: CordonedBy,
    /// Since when: another reason, or a decision of somebody else, does not change it. None: before
    /// this was stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

impl Cordon {
    /// A node is cordoned at a moment; `was` is the cordon that it has already.
    #[must_use]
    pub fn set(was: Option<&Cordon>, reason: String, by: CordonedBy, at: Time) -> Cordon {
        Cordon { reason, by, since: was.map_or(Some(at), |c| c.since) }
    }
}

/// Whose decision a cordon is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CordonedBy {
    /// Somebody's. Only somebody ends it.
    Operator,
    /// The control plane's, because the node failed a test. A remediation that ends with
    /// a passed test ends it.
    FailedTest,
}

/// How snapshots hold it: older ones have the reason alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredCordon {
    Whole {
        reason: String,
        by: CordonedBy,
        #[serde(default)]
        since: Option<Time>,
    },
    Reason(String),
}

impl From<StoredCordon> for Cordon {
    fn from(w: StoredCordon) -> Cordon {
        match w {
            StoredCordon::Whole { reason, by, since } => Cordon { reason, by, since },
            // All that an old snapshot says of who it was.
            StoredCordon::Reason(reason) if reason.starts_with("failed qualification") => {
                Cordon { reason, by: CordonedBy::FailedTest, since: None }
            }
            StoredCordon::Reason(reason) => {
                Cordon { reason, by: CordonedBy::Operator, since: None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cordon_of_an_older_snapshot_is_read() {
        let read = |text: &str| serde_json::from_str::<Cordon>(text).expect("a cordon");
        let (by, since) = (CordonedBy::Operator, None);
        assert_eq!(read("\"fan\""), Cordon { reason: "fan".into(), by, since });
        let test = read("\"failed qualification: gemm\"");
        assert_eq!(test.by, CordonedBy::FailedTest);
        // Since it is written down who it was, words say nothing.
        let mut mine = Cordon { reason: test.reason, by, since };
        let text = serde_json::to_string(&mine).expect("text");
        assert_eq!(read(&text), mine);
        mine.since = Some(Time(5));
        let text = serde_json::to_string(&mine).expect("text");
        assert_eq!(read(&text), mine);
    }

    #[test]
    fn another_reason_does_not_change_since_when_a_node_is_cordoned() {
        let first = Cordon::set(None, "fan".into(), CordonedBy::FailedTest, Time(1));
        let second = Cordon::set(Some(&first), "new fan".into(), CordonedBy::Operator, Time(2));
        assert_eq!((first.since, second.since), (Some(Time(1)), Some(Time(1))));
        assert_eq!(second.reason, "new fan");
    }
}
