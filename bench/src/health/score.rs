//! The truth beside what was found.

use super::families::{by_line, follows, is_noise, right};
use super::found::{EventDigest, ReportedFinding};
use super::truth::{GroundTruth, Truth};
use crate::stats::percentile;
use std::collections::{BTreeMap, BTreeSet};

/// Milliseconds by the machine's clock that a finding may come after the end of what it is about.
const AFTER_MS: i64 = 20_000;
/// Two clocks are never quite the same.
const BEFORE_MS: i64 = 500;

/// How one kind fared.
#[derive(Debug, Default, Clone)]
pub(super) struct Tally {
    pub(super) of: u32,
    pub(super) good: u32,
    /// A few that went wrong, in words.
    pub(super) examples: Vec<String>,
}

impl Tally {
    fn count(&mut self, good: bool, words: impl FnOnce() -> String) {
        self.of += 1;
        if good {
            self.good += 1;
        } else if self.examples.len() < 4 {
            self.examples.push(words());
        }
    }

    pub(super) fn share(&self) -> Option<f64> {
        (self.of > 0).then(|| f64::from(self.good) / f64::from(self.of))
    }
}

/// Everything that is reported.
#[derive(Debug, Default)]
pub(super) struct Score {
    pub(super) faults: u32,
    pub(super) alikes: u32,
    /// Cut short by another fault before they could be found; not counted.
    pub(super) cut: u32,
    pub(super) detected: u32,
    pub(super) wrong: u32,
    /// Wrong causes of many findings, in a life that is too dense for them.
    pub(super) wrong_conclusions: u32,
    /// Findings that follow from a fault and do not name it.
    pub(super) beside: u32,
    /// By what really failed.
    pub(super) recall: BTreeMap<String, Tally>,
    /// By what was found.
    pub(super) precision: BTreeMap<String, Tally>,
    /// Wrong findings by the look-alike that was going on there, if one was.
    pub(super) fooled: BTreeMap<String, u32>,
    /// Milliseconds from the first sign to the finding: by the clock that counts for its kind,
    /// by the fleet's, by the machine's.
    pub(super) took: Vec<f64>,
    pub(super) took_row: Vec<f64>,
    pub(super) took_wall: Vec<f64>,
    pub(super) took_line: Vec<f64>,
    pub(super) healthy_drained: u32,
    pub(super) drained_examples: Vec<String>,
}

impl Score {
    pub(super) fn precision(&self) -> Option<f64> {
        let all = self.detected + self.wrong;
        (all > 0).then(|| f64::from(self.detected) / f64::from(all))
    }

    pub(super) fn recall(&self) -> Option<f64> {
        (self.faults > 0).then(|| f64::from(self.detected) / f64::from(self.faults))
    }

    /// Both lives together.
    pub(super) fn add(&mut self, o: Score) {
        for (mine, theirs) in [
            (&mut self.faults, o.faults),
            (&mut self.alikes, o.alikes),
            (&mut self.cut, o.cut),
            (&mut self.detected, o.detected),
            (&mut self.wrong, o.wrong),
            (&mut self.wrong_conclusions, o.wrong_conclusions),
            (&mut self.beside, o.beside),
            (&mut self.healthy_drained, o.healthy_drained),
        ] {
            *mine += theirs;
        }
        for (all, more) in [(&mut self.recall, o.recall), (&mut self.precision, o.precision)] {
            for (kind, t) in more {
                let sum = all.entry(kind).or_default();
                sum.of += t.of;
                sum.good += t.good;
                sum.examples.extend(t.examples);
            }
        }
        for (kind, n) in o.fooled {
            *self.fooled.entry(kind).or_default() += n;
        }
        self.took.extend(o.took);
        self.took_row.extend(o.took_row);
        self.took_wall.extend(o.took_wall);
        self.took_line.extend(o.took_line);
        self.drained_examples.extend(o.drained_examples);
    }

    pub(super) fn took(samples: &[f64], percent: f64) -> Option<f64> {
        percentile(&mut samples.to_vec(), percent)
    }
}

fn within(t: &Truth, at: i64) -> bool {
    t.onset_wall.is_some_and(|o| o - BEFORE_MS <= at)
        && t.end_wall.is_none_or(|e| at <= e + AFTER_MS)
}

/// Is the finding about what the truth is about?
fn same_thing(t: &Truth, f: &ReportedFinding, placed: &EventDigest) -> bool {
    if let Some((word, path)) = f.group() {
        // A part of what failed, or a whole of which it is most.
        let name = path.last().copied().unwrap_or_default();
        let members = placed.groups.get(&(word.to_string(), name.to_string()));
        let hit = |m: &Vec<String>| m.iter().filter(|n| t.nodes.contains(n)).count();
        return t.group.is_some() && members.is_some_and(|m| hit(m) * 2 >= m.len());
    }
    if let Some(mount) = f.mount() {
        return t.mount.as_deref() == Some(mount);
    }
    if let Some(job) = f.job() {
        if t.job.is_some() {
            return t.job == Some(job);
        }
        // The work of a node that is gone stands still.
        let on = |key: &(u64, u64)| {
            let nodes = placed.placed.get(key);
            nodes.is_some_and(|n| n.iter().any(|n| t.nodes.contains(n)))
        };
        return match f.attempt {
            Some(key) => on(&key),
            None => placed.placed.keys().filter(|k| k.0 == job).any(on),
        };
    }
    let Some(node) = f.node() else { return false };
    if !t.nodes.iter().any(|n| n == node) {
        return false;
    }
    let port = match (f.port(), &t.port) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    let gpu = match (f.gpu(), t.gpu) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    port && gpu
}

/// Only the whole group is the answer to the loss of a group; a part of it is reported on the way.
fn names_group(t: &Truth, f: &ReportedFinding) -> bool {
    let Some((word, name)) = &t.group else { return true };
    f.group().is_some_and(|(w, path)| w == word && path.last() == Some(&name.as_str()))
}

/// What is concluded from many findings by the server's clock.
fn is_conclusion(f: &ReportedFinding) -> bool {
    f.incident || matches!(f.kind.as_str(), "node-killer" | "lemon")
}

/// In a `dense` life faults come so many times faster than by the server's clock that what it
/// concludes from many findings is counted apart.
pub(super) fn score(life: &GroundTruth, story: &EventDigest, dense: bool) -> Score {
    let mut s = Score::default();
    let mut hit: BTreeMap<u64, i64> = BTreeMap::new();
    for f in story.found.values().filter(|f| !is_noise(&f.kind)) {
        let mut is_right = false;
        let mut is_beside = false;
        for t in life.truths.iter().filter(|t| t.fault && same_thing(t, f, story)) {
            let Some(at) = f.at.iter().find(|at| within(t, **at)) else { continue };
            let opened = f.at.first().is_some_and(|a| within(t, *a));
            if right(&t.kind).contains(&f.kind.as_str()) && names_group(t, f) {
                let first = hit.entry(t.id).or_insert(*at);
                *first = (*first).min(*at);
                is_right |= opened;
            } else if right(&t.kind).contains(&f.kind.as_str()) || follows(&t.kind, &f.kind) {
                is_beside |= opened;
            }
        }
        // What was opened for a fault whose traces were seen a little later is still right.
        if is_right || !is_beside {
            if dense && !is_right && is_conclusion(f) {
                s.wrong_conclusions += 1;
                continue;
            }
            let fooled = || truth_near(life, f, story);
            s.precision.entry(f.kind.clone()).or_default().count(is_right, || {
                format!("{} at {}: {}{}", f.kind, f.entity, f.evidence.join("; "), fooled().1)
            });
            if !is_right {
                s.wrong += 1;
                *s.fooled.entry(fooled().0).or_default() += 1;
            }
        } else {
            s.beside += 1;
        }
    }
    s.alikes = u32::try_from(life.truths.iter().filter(|t| !t.fault).count()).unwrap_or(u32::MAX);
    for t in life.truths.iter().filter(|t| t.fault) {
        let at = hit.get(&t.id);
        if at.is_none() && t.ended_by == "cut" {
            s.cut += 1;
            continue;
        }
        s.faults += 1;
        s.detected += u32::from(at.is_some());
        s.recall.entry(t.kind.clone()).or_default().count(at.is_some(), || {
            let at = short(&t.nodes);
            format!("{} at {at} gpu {:?} job {:?} {:?}", t.kind, t.gpu, t.job, t.params)
        });
        let Some(at) = at else { continue };
        let wall = t.onset_wall.map_or(0.0, |o| (at - o).max(0) as f64);
        let row = match (t.onset, life.row_time(*at)) {
            (Some(from), Some(to)) => (to - from).max(0) as f64,
            _ => wall,
        };
        s.took_wall.push(wall);
        s.took_row.push(row);
        if by_line(&t.kind) {
            s.took_line.push(wall);
        }
        s.took.push(if by_line(&t.kind) { wall } else { row });
    }
    drained(life, story, &mut s);
    s
}

fn short(nodes: &[String]) -> String {
    match nodes {
        [one] => one.clone(),
        [first, ..] => format!("{first} and {} more", nodes.len() - 1),
        [] => "nothing".into(),
    }
}

/// What was really going on where a wrong finding was made.
fn truth_near(life: &GroundTruth, f: &ReportedFinding, story: &EventDigest) -> (String, String) {
    let Some(at) = f.at.first() else { return (String::new(), String::new()) };
    let about = |t: &&Truth| {
        within(t, *at)
            && (same_thing(t, f, story) || f.node().is_some_and(|n| t.nodes.iter().any(|m| m == n)))
    };
    match life.truths.iter().find(about) {
        Some(t) => {
            let words = format!(" [really: {} {:?} gpu {:?}]", t.kind, t.params, t.gpu);
            (t.kind.clone(), words)
        }
        None => ("nothing".into(), " [really: nothing]".into()),
    }
}

/// Nodes that left service for something that was no fault of theirs.
fn drained(life: &GroundTruth, story: &EventDigest, s: &mut Score) {
    let mut reported = BTreeSet::new();
    for (node, at, why) in &story.left {
        let unhealthy = life
            .truths
            .iter()
            .any(|t| t.fault && within(t, *at) && t.nodes.iter().any(|n| n == node));
        if unhealthy || !reported.insert((node, at)) {
            continue;
        }
        s.healthy_drained += 1;
        if s.drained_examples.len() < 8 {
            s.drained_examples.push(format!("{node}: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(id: u64, kind: &str, fault: bool, node: &str) -> Truth {
        Truth {
            id,
            kind: kind.into(),
            fault,
            nodes: vec![node.into()],
            gpu: Some(3),
            onset: Some(1000),
            onset_wall: Some(10_000),
            end_wall: Some(20_000),
            ..Truth::default()
        }
    }

    fn found(kind: &str, entity: &str, at: i64) -> ReportedFinding {
        ReportedFinding {
            kind: kind.into(),
            entity: entity.into(),
            at: vec![at],
            ..ReportedFinding::default()
        }
    }

    fn judged(truths: Vec<Truth>, all: Vec<ReportedFinding>) -> Score {
        let mut life = GroundTruth::default();
        life.truths = truths;
        let found = all.into_iter().enumerate().map(|(i, f)| (i as u64, f)).collect();
        let groups = [
            (("leaf".to_string(), "l3".to_string()), vec!["n1".to_string()]),
            (("rack".to_string(), "r9".to_string()), vec!["n1".to_string()]),
            (("leaf".to_string(), "l4".to_string()), vec!["n7".to_string()]),
        ];
        score(&life, &EventDigest { found, groups: groups.into(), ..EventDigest::default() }, false)
    }

    #[test]
    fn right_wrong_and_missed_are_distinguished() {
        let s = judged(
            vec![
                truth(1, "thermal", true, "n1"),
                truth(2, "thermal", true, "n2"),
                truth(3, "power-dips", false, "n3"),
            ],
            vec![
                found("thermal", "gpu:n1/3", 12_000),
                found("straggler", "node:n1", 13_000),
                found("thermal", "gpu:n2/4", 12_000),
                found("clocks-low", "gpu:n3/3", 12_000),
                found("job-slow", "job:4", 12_000),
            ],
        );
        assert_eq!((s.faults, s.alikes, s.detected, s.wrong), (2, 1, 1, 2));
        assert_eq!(s.fooled.get("power-dips"), Some(&1));
        assert_eq!(s.took_wall, [2000.0]);
    }

    #[test]
    fn a_finding_far_from_its_time_is_wrong() {
        let s = judged(
            vec![truth(1, "thermal", true, "n1")],
            vec![found("thermal", "gpu:n1/3", 5000), found("thermal", "gpu:n1/3", 60_000)],
        );
        assert_eq!((s.detected, s.wrong), (0, 2));
    }

    #[test]
    fn the_loss_of_a_group_is_found_as_a_group() {
        let mut t = truth(1, "leaf-loss", true, "n1");
        (t.gpu, t.group) = (None, Some(("leaf".into(), "l3".into())));
        let s = judged(vec![t.clone()], vec![found("node-lost", "node:n1", 12_000)]);
        assert_eq!((s.detected, s.wrong, s.beside), (0, 0, 1));
        let s = judged(
            vec![t],
            vec![
                found("leaf-loss", "leaf:eu/c1/s1/l3", 12_000),
                found("rack-loss", "rack:eu/c1/s1/l3/r9", 12_000),
                found("leaf-loss", "leaf:eu/c1/s1/l4", 12_000),
            ],
        );
        assert_eq!((s.detected, s.wrong, s.beside), (1, 1, 1));
    }
}
