//! Why a node gets no new work.

use serde::{Deserialize, Serialize};

/// No new work for a node; running work is untouched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredCordon")]
pub struct Cordon {
    /// Why, for people. Nothing is decided by it.
    pub reason: String,
    /// Whose decision it is.
    pub by: CordonedBy,
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
    Whole { reason: String, by: CordonedBy },
    Reason(String),
}

impl From<StoredCordon> for Cordon {
    fn from(w: StoredCordon) -> Cordon {
        match w {
            StoredCordon::Whole { reason, by } => Cordon { reason, by },
            // All that an old snapshot tells of who it was.
            StoredCordon::Reason(reason) if reason.starts_with("failed qualification") => {
                Cordon { reason, by: CordonedBy::FailedTest }
            }
            StoredCordon::Reason(reason) => Cordon { reason, by: CordonedBy::Operator },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cordon_of_an_older_snapshot_is_read() {
        let read = |text: &str| serde_json::from_str::<Cordon>(text).expect("a cordon");
        assert_eq!(read("\"fan\""), Cordon { reason: "fan".into(), by: CordonedBy::Operator });
        let test = read("\"failed qualification: gemm\"");
        assert_eq!(test.by, CordonedBy::FailedTest);
        // Since it is written down who it was, words say nothing.
        let mine = Cordon { reason: test.reason, by: CordonedBy::Operator };
        let text = serde_json::to_string(&mine).expect("text");
        assert_eq!(read(&text), mine);
    }
}
