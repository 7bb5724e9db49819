//! Tests of the network between nodes.

use crate::{Kind, Timestamp};
use serde::{Deserialize, Serialize};

/// `POST /v1/fabric/tests`. Without nodes and without a domain, all nodes that are idle.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct FabricRequest {
    /// Test these nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// All nodes of a part of the site, such as `leaf:eu/c1/s1/l2`, `pool:train` or `feed:A`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Rounds in which everybody is paired, before suspects are paired again; 0 means that all
    /// meet all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 4096))]
    pub rounds: Option<u32>,
    /// Seconds that the test of one pair takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 60))]
    pub seconds: Option<u32>,
    /// Connections side by side.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 32))]
    pub streams: Option<u32>,
    /// Nodes that have work as well; it is disturbed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub busy: bool,
    /// Decides which nodes are paired; chosen when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 4_294_967_295_u64))]
    pub seed: Option<u32>,
    /// The past of these paths does not count any more: the network was changed on purpose.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forget: bool,
    /// All nodes of a cluster at once, each sending to the next as in a collective; a group that is
    /// slow is halved until it is known which node or link is slow.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub group: bool,
}

/// How far a test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FabricState {
    /// Another one goes on.
    Waiting,
    /// It goes on.
    Running,
    /// It has ended.
    Done,
    /// It could not be done.
    Failed,
}

/// What came of the test of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FabricVerdict {
    /// As fast as it should be, or there is nothing yet to compare it with.
    Ok,
    /// Below 90 % of its baseline.
    Slow,
    /// Nothing came through.
    Failed,
    /// A node could not be tested.
    Skipped,
}

/// The test of one pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FabricPair {
    /// In which round.
    pub round: u32,
    /// One node.
    pub a: String,
    /// The other node.
    pub b: String,
    /// What the two have in common, such as `leaf`: paths of one class are peers.
    pub class: String,
    /// Megabits a second in the slower direction.
    pub mbps: Option<f64>,
    /// What it must reach: the greater of the two below.
    pub baseline_mbps: Option<f64>,
    /// The median of its own past.
    pub past_mbps: Option<f64>,
    /// The median of its peers.
    pub peers_mbps: Option<f64>,
    /// Microseconds there and back, the median of many.
    pub rtt_us: Option<u64>,
    /// Of a hundred, the worst but one.
    pub rtt_p99_us: Option<u64>,
    /// Packets that were sent again.
    pub resent: Option<u64>,
    /// The share of the time, in thousandths, in which other work delayed its machines.
    pub held: Option<u16>,
    /// How often it was measured; the best number is reported.
    pub times: u32,
    /// What came of it.
    pub verdict: FabricVerdict,
    /// Why nothing was measured.
    pub error: Option<String>,
}

/// The status of a node after a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FabricNodeHealth {
    /// A pair with it was fast.
    Good,
    /// Slow also with a node that is good.
    Slow,
    /// Slow, and it is not known which node causes it.
    Undecided,
    /// Not tested.
    Skipped,
}

/// A node after a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FabricNode {
    /// Its name, unique in the site.
    pub name: String,
    /// Its status.
    pub health: FabricNodeHealth,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// What a slow one's finding is about.
    pub entity: Option<String>,
    /// How sure that is, in thousandths.
    pub confidence: Option<u16>,
}

/// A test of the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FabricTest {
    /// Its number, as text.
    pub id: String,
    /// Always `FabricTest`.
    pub kind: Kind,
    /// How far it is.
    pub state: FabricState,
    /// Who asked for it.
    pub by: String,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Seconds that the test of one pair takes.
    pub seconds: u32,
    /// Decided which nodes were paired.
    pub seed: u64,
    /// Rounds so far.
    pub rounds: u32,
    /// Tests of pairs, in order.
    pub pairs: Vec<FabricPair>,
    /// Nodes by name; their status is known at the end.
    pub nodes: Vec<FabricNode>,
    /// Pairs that were slow though both nodes are good with others.
    pub paths: Vec<[String; 2]>,
    /// Whether all nodes were tested at once.
    #[serde(default)]
    pub group: bool,
    /// Groups that were slow as a whole though each half was well: attributed to what lies between.
    #[serde(default)]
    pub together: Vec<Vec<String>>,
    /// Why it could not be done.
    pub error: Option<String>,
}

/// Tests of the network, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FabricTestList {
    /// The tests; pairs and nodes are left out.
    pub items: Vec<FabricTest>,
}
