//! What the server concluded, read from its log.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Something that was found.
#[derive(Debug, Clone, Default)]
pub(super) struct ReportedFinding {
    pub(super) kind: String,
    /// `gpu:n1/3` and the like.
    pub(super) entity: String,
    pub(super) severity: String,
    /// When it was written down, and when more was.
    pub(super) at: Vec<i64>,
    /// The attempt that it names.
    pub(super) attempt: Option<(u64, u64)>,
    pub(super) evidence: Vec<String>,
    /// Several findings with one cause.
    pub(super) incident: bool,
}

impl ReportedFinding {
    fn part(&self, word: &str) -> Option<&str> {
        let (w, name) = self.entity.split_once(':')?;
        (w == word).then_some(name)
    }

    /// The node it is about.
    pub(super) fn node(&self) -> Option<&str> {
        let on = |word| self.part(word).and_then(|n| Some(n.split_once('/')?.0));
        self.part("node").or_else(|| on("gpu")).or_else(|| on("port"))
    }

    pub(super) fn gpu(&self) -> Option<u32> {
        self.part("gpu")?.split_once('/')?.1.parse().ok()
    }

    pub(super) fn port(&self) -> Option<&str> {
        Some(self.part("port")?.split_once('/')?.1)
    }

    pub(super) fn job(&self) -> Option<u64> {
        self.part("job").and_then(|j| j.parse().ok())
    }

    pub(super) fn mount(&self) -> Option<&str> {
        self.part("storage")
    }

    /// The group it is about, as its word and the parts of its path.
    pub(super) fn group(&self) -> Option<(&str, Vec<&str>)> {
        let (word, path) = self.entity.split_once(':')?;
        let is_group = matches!(
            word,
            "leaf" | "rack" | "feed" | "spine" | "cluster" | "pool" | "sku" | "version"
        );
        is_group.then(|| (word, path.split('/').collect()))
    }
}

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct EventDigest {
    pub(super) cursor: Option<String>,
    pub(super) found: BTreeMap<u64, ReportedFinding>,
    /// Nodes of each attempt.
    pub(super) placed: BTreeMap<(u64, u64), Vec<String>>,
    /// Where each node stands, since when.
    pub(super) stages: BTreeMap<String, (String, i64)>,
    /// Nodes that left `ready` by nobody's word, with when and why.
    pub(super) left: Vec<(String, i64, String)>,
    /// Nodes that somebody drained.
    pub(super) by_hand: BTreeSet<String>,
    /// Jobs that ended and are to be followed by others.
    pub(super) over: Vec<u64>,
    /// Remediations that wait for somebody's word.
    pub(super) waiting: Vec<u64>,
    /// Nodes of each leaf, rack and feed.
    pub(super) groups: BTreeMap<(String, String), Vec<String>>,
    /// Since when each job waits; none while it has its nodes.
    pub(super) waits: BTreeMap<u64, Option<i64>>,
    /// Jobs that were held for what happened under them.
    pub(super) held: Vec<u64>,
    /// Breakers that opened by themselves.
    pub(super) breakers: Vec<String>,
    /// Automation stopped itself.
    pub(super) stopped: u32,
    pub(super) events: u64,
    /// Most nodes that were out of service at a time.
    pub(super) most_out: usize,
}

fn text(v: &Value, pointer: &str) -> String {
    v.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_string()
}

fn number(v: &Value, pointer: &str) -> Option<u64> {
    v.pointer(pointer).and_then(Value::as_u64)
}

impl EventDigest {
    /// Takes a page of the log in.
    pub(super) fn take(&mut self, page: &Value) -> Result<usize> {
        let items = page["items"].as_array().context("a page without items")?;
        for item in items {
            let at = item["at"].as_str().unwrap_or_default();
            let at: jiff::Timestamp = at.parse().with_context(|| format!("the time {at:?}"))?;
            self.event(&text(item, "/kind"), at.as_millisecond(), &item["data"]);
            if let Some(cursor) = item["cursor"].as_str() {
                self.cursor = Some(cursor.to_string());
            }
        }
        self.events += items.len() as u64;
        Ok(items.len())
    }

    fn event(&mut self, kind: &str, at: i64, data: &Value) {
        match kind {
            "finding_opened" => {
                let Some(id) = number(data, "/finding/id") else { return };
                let f = seen(&data["finding"], at, false);
                if f.kind == "node-killer" {
                    self.held.extend(f.job());
                }
                self.found.insert(id, f);
            }
            "finding_changed" => {
                let over = data.pointer("/seen/over").and_then(Value::as_bool) == Some(true);
                if let Some(f) = number(data, "/id").and_then(|id| self.found.get_mut(&id))
                    && !over
                {
                    f.at.push(at);
                }
            }
            "incident_opened" => {
                let Some(id) = number(data, "/incident/id") else { return };
                let mut f = seen(&data["incident"], at, true);
                f.entity = text(data, "/incident/cause");
                f.evidence = vec![text(data, "/incident/summary")];
                self.found.insert(id, f);
            }
            "job_placed" => {
                let Some(key) = key(data, "/key") else { return };
                let slots = data.pointer("/placement/slots").and_then(Value::as_array);
                let nodes = slots.into_iter().flatten().map(|s| text(s, "/node")).collect();
                self.placed.insert(key, nodes);
                self.waits.insert(key.0, None);
            }
            "attempt_ended" => {
                if let Some((job, _)) = key(data, "/key") {
                    self.waits.insert(job, Some(at));
                }
            }
            "job_succeeded" | "job_failed" | "job_cancelled" => {
                self.over.extend(number(data, "/job").or_else(|| number(data, "/key/job")));
            }
            "remediation_stepped" if data["step"] == "approval" => {
                self.waiting.extend(number(data, "/id"));
            }
            "breaker_set" if data["by_operator"] != true && data["breaker"]["state"] == "open" => {
                self.breakers.push(text(data, "/breaker/entity"));
            }
            "automation_stopped" => self.stopped += 1,
            "node_staged" => {
                let word = data["by_operator"].as_bool().unwrap_or(false);
                self.stage(text(data, "/node"), text(data, "/stage"), at, word, data);
            }
            "node_ready" => self.stage(text(data, "/node"), "ready".into(), at, true, data),
            _ => {}
        }
    }

    fn stage(&mut self, node: String, stage: String, at: i64, word: bool, data: &Value) {
        let was = self.stages.get(&node).map_or("ready", |s| s.0.as_str());
        if was == "ready" && stage != "ready" && !word && !self.by_hand.contains(&node) {
            self.left.push((node.clone(), at, text(data, "/reason")));
        }
        self.stages.insert(node, (stage, at));
        let out = self.stages.values().filter(|s| s.0 != "ready").count();
        self.most_out = self.most_out.max(out);
    }
}

fn key(v: &Value, pointer: &str) -> Option<(u64, u64)> {
    let key = v.pointer(pointer)?;
    Some((key["job"].as_u64()?, key["attempt"].as_u64()?))
}

fn seen(v: &Value, at: i64, incident: bool) -> ReportedFinding {
    let lines = v["evidence"].as_array();
    ReportedFinding {
        kind: text(v, "/kind"),
        entity: text(v, "/entity"),
        severity: text(v, "/severity"),
        at: vec![at],
        attempt: key(v, "/attempt"),
        evidence: lines
            .into_iter()
            .flatten()
            .filter_map(|l| Some(l.as_str()?.to_string()))
            .collect(),
        incident,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn findings_and_departures_are_read_from_a_page() {
        let mut story = EventDigest::default();
        let page = json!({"cursor": null, "items": [
            {"cursor": "7", "at": "2026-01-31T12:00:00.000Z", "kind": "finding_opened", "data":
                {"finding": {"id": 7, "kind": "thermal", "entity": "gpu:n1/3", "severity": "degraded",
                 "confidence": 900, "attempt": {"job": 4, "attempt": 1}}}},
            {"cursor": "8", "at": "2026-01-31T12:00:01.000Z", "kind": "node_staged",
                "data": {"node": "n1", "stage": "suspect", "reason": "hot"}},
            {"cursor": "9", "at": "2026-01-31T12:00:02.000Z", "kind": "node_staged",
                "data": {"node": "n1", "stage": "draining", "reason": "hot"}},
        ]});
        assert_eq!(story.take(&page).unwrap(), 3);
        let f = &story.found[&7];
        assert_eq!((f.node(), f.gpu(), f.attempt), (Some("n1"), Some(3), Some((4, 1))));
        assert_eq!(story.left.len(), 1);
        assert_eq!(story.cursor.as_deref(), Some("9"));
    }
}
