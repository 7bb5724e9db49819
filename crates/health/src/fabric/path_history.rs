//! What paths could do in the past, and what that makes of a new figure. A path is compared with
//! its own past and with its peers: paths of the same kind that were measured in the same test,
//! or before when those are too few.

use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// A path is slow below this share of its baseline, in percent.
pub const SLOW_PERCENT: f64 = 90.0;
/// Figures of a path that are kept.
const PATH_KEPT: usize = 16;
/// Figures of a kind of paths that are kept.
const CLASS_KEPT: usize = 64;
/// With fewer of its own figures a path has no past.
const PAST_LEAST: usize = 3;
/// With fewer peers in the same test, earlier ones count as well.
const PEERS_LEAST: usize = 2;
/// Paths that are kept.
const PATHS_MAX: usize = 65_536;

/// Two ends and, where there are several networks, which of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// The end whose name comes first.
    pub a: String,
    /// The end whose name comes last.
    pub b: String,
    /// Rail, where one is meant.
    pub rail: Option<String>,
}

impl Path {
    /// The path between two ends, in either direction.
    #[must_use]
    pub fn between(x: &str, y: &str, rail: Option<&str>) -> Path {
        let (a, b) = if x <= y { (x, y) } else { (y, x) };
        Path { a: a.to_owned(), b: b.to_owned(), rail: rail.map(ToOwned::to_owned) }
    }

    // Names of nodes and rails have no blanks.
    fn key(&self) -> String {
        let Path { a, b, rail } = self;
        match rail {
            Some(r) => format!("{a} {b} {r}"),
            None => format!("{a} {b}"),
        }
    }
}

/// The past of one path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct PathHistory {
    /// Megabits a second, oldest first; only of tests that were not slow.
    mbps: VecDeque<f64>,
    /// The test it was last part of: the oldest go first when there are too many.
    test: u64,
}

/// What a figure is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Baseline {
    /// The greater of the two below.
    pub mbps: Option<f64>,
    /// The median of its own past.
    pub own: Option<f64>,
    /// The median of its peers.
    pub peers: Option<f64>,
    /// Below this it is slow.
    pub floor: Option<f64>,
}

/// What a figure says of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It is as fast as it should be.
    Fast,
    /// It is not.
    Slow,
    /// Nothing: the machines at its ends were held up by something else, and that may be why.
    Unsure,
}

impl Baseline {
    /// Whether a figure is too low for it. Without a baseline nothing is.
    #[must_use]
    pub fn is_slow(&self, mbps: f64) -> bool {
        self.floor.is_some_and(|f| mbps < f)
    }

    /// What a figure says, if the machines were held up for so many thousandths of the time. A
    /// busy machine is no slow link, but it does not excuse everything: a moment in which nobody
    /// sends costs a connection that moment and about as long to find its speed again.
    #[must_use]
    pub fn reads(&self, mbps: f64, held: u16) -> Reading {
        if !self.is_slow(mbps) {
            return Reading::Fast;
        }
        let used = 1.0 - 2.0 * f64::from(held.min(500)) / 1000.0;
        match self.floor {
            Some(floor) if mbps >= floor * used => Reading::Unsure,
            _ => Reading::Slow,
        }
    }
}

/// The past of all paths.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FabricHistory {
    paths: BTreeMap<String, PathHistory>,
    classes: BTreeMap<String, VecDeque<f64>>,
    /// When nodes were last found good.
    good: BTreeMap<String, Time>,
    tests: u64,
}

impl FabricHistory {
    /// A new test begins: its number.
    pub fn begin(&mut self) -> u64 {
        self.tests += 1;
        self.tests
    }

    /// How many paths are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// What a path of this class is held to. `peers` are the figures of all paths of its class in
    /// this test, its own among them.
    #[must_use]
    pub fn baseline(&self, path: &Path, class: &str, peers: &[f64]) -> Baseline {
        let past: Vec<f64> =
            self.paths.get(&path.key()).map_or_else(Vec::new, |p| p.mbps.iter().copied().collect());
        let own = (past.len() >= PAST_LEAST).then(|| usual(past)).flatten();
        let mut all = peers.to_vec();
        if all.len() < PEERS_LEAST {
            all.extend(self.classes.get(class).into_iter().flatten());
        }
        let peers = usual(all);
        // One that was slow from the first day is seen by its peers, one that fell by its past.
        let best = [own, peers].into_iter().flatten().max_by(|a, b| a.middle.total_cmp(&b.middle));
        Baseline {
            mbps: best.map(|u| u.middle),
            own: own.map(|u| u.middle),
            peers: peers.map(|u| u.middle),
            floor: best.map(PathBaseline::floor),
        }
    }

    /// A figure that was not slow becomes part of the past.
    pub fn note(&mut self, path: &Path, class: &str, mbps: f64) {
        if !mbps.is_finite() || mbps <= 0.0 {
            return;
        }
        let tests = self.tests;
        let past = self.paths.entry(path.key()).or_default();
        past.test = tests;
        push(&mut past.mbps, mbps, PATH_KEPT);
        push(self.classes.entry(class.to_owned()).or_default(), mbps, CLASS_KEPT);
        if self.paths.len() > PATHS_MAX {
            let oldest = self.paths.iter().min_by_key(|(_, p)| p.test).map(|(k, _)| k.clone());
            if let Some(k) = oldest {
                self.paths.remove(&k);
            }
        }
    }

    /// A node was found good.
    pub fn good(&mut self, node: &str, at: Time) {
        self.good.insert(node.to_owned(), at);
        if self.good.len() > PATHS_MAX {
            let oldest = self.good.iter().min_by_key(|(_, at)| **at).map(|(n, _)| n.clone());
            if let Some(n) = oldest {
                self.good.remove(&n);
            }
        }
    }

    /// A node was found slow: it is tested again however lately it was good.
    pub fn bad(&mut self, node: &str) {
        self.good.remove(node);
    }

    /// When a node was last found good.
    #[must_use]
    pub fn good_at(&self, node: &str) -> Option<Time> {
        self.good.get(node).copied()
    }

    /// The past of a path does not count any more: its hardware was changed on purpose.
    pub fn forget(&mut self, path: &Path) {
        self.paths.remove(&path.key());
    }
}

fn push(into: &mut VecDeque<f64>, value: f64, most: usize) {
    into.push_back(value);
    while into.len() > most {
        into.pop_front();
    }
}

/// The middle of figures, and how far they are from it.
#[derive(Clone, Copy)]
struct PathBaseline {
    middle: f64,
    spread: f64,
}

impl PathBaseline {
    /// 90 %, or lower where figures scatter more than that of themselves: three standard
    /// deviations, of which the median deviation is 0.6745 (normal distribution). Half of the
    /// middle is slow however they scatter: of three figures, a sound and a bad one may do so.
    fn floor(self) -> f64 {
        let wide = self.middle - 3.0 * self.spread / 0.6745;
        (self.middle * SLOW_PERCENT / 100.0).min(wide.max(self.middle / 2.0))
    }
}

fn usual(mut all: Vec<f64>) -> Option<PathBaseline> {
    all.retain(|v| v.is_finite());
    all.sort_by(f64::total_cmp);
    // Of an even number the upper one: bad paths are low, and fewer than half.
    let middle = *all.get(all.len() / 2)?;
    let mut off: Vec<f64> = all.iter().map(|v| (v - middle).abs()).collect();
    off.sort_by(f64::total_cmp);
    let spread = *off.get((off.len() - 1) / 2)?;
    Some(PathBaseline { middle, spread })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path() -> Path {
        Path::between("n2", "n1", None)
    }

    #[test]
    fn a_path_is_the_same_both_ways() {
        assert_eq!(path(), Path::between("n1", "n2", None));
        assert_ne!(path(), Path::between("n1", "n2", Some("r1")));
    }

    #[test]
    fn without_a_past_and_peers_nothing_is_slow() {
        let b = FabricHistory::default().baseline(&path(), "leaf", &[]);
        assert_eq!(b, Baseline::default());
        assert!(!b.is_slow(0.0));
    }

    #[test]
    fn slow_is_below_nine_tenths_of_the_past() {
        let mut book = FabricHistory::default();
        for v in [100.0, 101.0, 99.0, 100.0] {
            book.note(&path(), "leaf", v);
        }
        let b = book.baseline(&path(), "leaf", &[]);
        assert_eq!((b.own, b.peers), (Some(100.0), Some(100.0)));
        assert!(b.is_slow(89.0) && !b.is_slow(91.0), "{b:?}");
    }

    #[test]
    fn a_busy_machine_is_no_slow_link_but_does_not_excuse_everything() {
        let b = FabricHistory::default().baseline(&path(), "leaf", &[100.0, 100.0, 100.0]);
        assert_eq!(b.reads(91.0, 900), Reading::Fast);
        assert_eq!(b.reads(80.0, 0), Reading::Slow);
        assert_eq!(b.reads(80.0, 100), Reading::Unsure);
        assert_eq!(b.reads(25.0, 100), Reading::Slow);
        assert_eq!(b.reads(25.0, 500), Reading::Unsure);
        assert_eq!(Baseline::default().reads(0.0, 0), Reading::Fast);
    }

    #[test]
    fn one_that_was_slow_from_the_first_day_is_seen_by_its_peers() {
        let mut book = FabricHistory::default();
        for _ in 0..8 {
            book.note(&path(), "leaf", 30.0);
        }
        let b = book.baseline(&path(), "leaf", &[100.0, 99.0, 98.0]);
        assert_eq!((b.own, b.peers, b.mbps), (Some(30.0), Some(99.0), Some(99.0)));
        assert!(b.is_slow(30.0));
        // Its whole class being faster elsewhere is no reason.
        assert!(!book.baseline(&path(), "leaf", &[]).is_slow(30.0));
    }

    #[test]
    fn figures_that_scatter_make_nothing_slow() {
        let b =
            FabricHistory::default().baseline(&path(), "leaf", &[100.0, 40.0, 70.0, 130.0, 90.0]);
        assert!(!b.is_slow(60.0), "{b:?}");
        // Of two, the better one is believed.
        assert!(FabricHistory::default().baseline(&path(), "leaf", &[30.0, 100.0]).is_slow(30.0));
    }

    #[test]
    fn a_past_can_be_forgotten_and_is_bounded() {
        let mut book = FabricHistory::default();
        (0..100).for_each(|_| book.note(&path(), "leaf", 100.0));
        assert_eq!(book.paths["n1 n2"].mbps.len(), PATH_KEPT);
        book.note(&path(), "leaf", f64::NAN);
        book.forget(&path());
        assert!(book.is_empty());
    }

    #[test]
    fn it_is_known_who_was_good_and_when() {
        let mut book = FabricHistory::default();
        book.good("n1", Time(5));
        book.good("n1", Time(9));
        assert_eq!((book.good_at("n1"), book.good_at("n2")), (Some(Time(9)), None));
        book.bad("n1");
        assert_eq!(book.good_at("n1"), None);
    }

    proptest! {
        #[test]
        fn a_floor_is_never_above_nine_tenths_and_equal_peers_are_never_slow(
            peers in prop::collection::vec(1.0..1e6f64, 1..20), own in prop::collection::vec(1.0..1e6f64, 0..20),
        ) {
            let mut book = FabricHistory::default();
            own.iter().for_each(|v| book.note(&path(), "leaf", *v));
            let b = book.baseline(&path(), "leaf", &peers);
            let (base, floor) = (b.mbps.unwrap_or(0.0), b.floor.unwrap_or(0.0));
            prop_assert!(floor <= base * 0.900_000_1 && floor >= 0.0);
            prop_assert!(!b.is_slow(base));
        }
    }
}
