//! What people would do beside it: hand in work, repair what is out, drain a node now and then.

use super::fleet::{Api, submit};
use super::found::EventDigest;
use super::truth::Truth;
use anyhow::Result;
use hyper::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Milliseconds after which people have repaired what was given to them.
const REPAIR_MS: i64 = 4000;
/// Milliseconds that a job waits before another takes its place.
const WAIT_MS: i64 = 8000;
/// Milliseconds after which somebody takes a node back that nothing moves.
const STUCK_MS: i64 = 25_000;

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

pub(super) struct Operator {
    pub(super) api: Api,
    pub(super) story: EventDigest,
    /// Size of each job that is to go on.
    jobs: BTreeMap<u64, u32>,
    submitted: u64,
    /// Draws that need not be good, only the same for the same seed.
    draw: u64,
    names: Vec<String>,
    /// Nodes drained by hand, until when, and the look-alike that it is.
    drained: BTreeMap<String, (Instant, Truth)>,
    pub(super) planned: Vec<Truth>,
    next_drain: Instant,
    drain_every: Option<Duration>,
    /// Breakers are closed by hand: faults come far more densely than the server's clock expects.
    closes: bool,
    asked: BTreeSet<(String, i64)>,
    pub(super) refused: BTreeMap<String, u32>,
}

/// Sizes of gangs, over and over until the fleet is as full as it should be.
const SIZES: [u32; 12] = [2, 4, 8, 2, 3, 16, 2, 6, 4, 2, 12, 3];

impl Operator {
    pub(super) fn new(
        api: Api,
        names: Vec<String>,
        seed: u64,
        drain_every: Option<Duration>,
    ) -> Operator {
        Operator {
            api,
            story: EventDigest::default(),
            jobs: BTreeMap::new(),
            submitted: 0,
            draw: seed | 1,
            names,
            drained: BTreeMap::new(),
            planned: Vec::new(),
            next_drain: Instant::now() + Duration::from_secs(30),
            closes: drain_every.is_some(),
            drain_every,
            asked: BTreeSet::new(),
            refused: BTreeMap::new(),
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.draw ^= self.draw << 13;
        self.draw ^= self.draw >> 7;
        self.draw ^= self.draw << 17;
        self.draw % n.max(1)
    }

    /// Fills four fifths of the fleet with gangs; the rest is for those that lose a node.
    pub(super) async fn fill(&mut self, nodes: u32) -> Result<()> {
        let mut left = nodes * 4 / 5;
        for i in 0.. {
            let size = SIZES[i % SIZES.len()];
            if size > left {
                break;
            }
            left -= size;
            self.submit(size).await?;
        }
        Ok(())
    }

    async fn submit(&mut self, size: u32) -> Result<()> {
        self.submitted += 1;
        let run = 4000 + self.below(9000);
        let id = submit(&mut self.api, self.submitted, size, run).await?;
        self.jobs.insert(id, size);
        Ok(())
    }

    pub(super) fn gangs(&self) -> usize {
        self.jobs.len()
    }

    /// Reads the log up to its end and does what follows from it.
    pub(super) async fn turn(&mut self) -> Result<()> {
        loop {
            let after = self.story.cursor.as_deref().unwrap_or("0");
            let path = format!("/v1/events?limit=1000&after={after}");
            let page = self.api.call(Method::GET, &path, &Value::Null).await?;
            if self.story.take(&page)? < 1000 {
                break;
            }
        }
        for job in std::mem::take(&mut self.story.over) {
            if let Some(size) = self.jobs.remove(&job) {
                self.submit(size).await?;
            }
        }
        for id in std::mem::take(&mut self.story.waiting) {
            self.ask(&format!("/v1/remediations/{id}/approve"), &json!({})).await?;
        }
        // By the fleet's clock a held job, or one that waits before it is tried again, waits for
        // hours: another takes its place.
        let mut give_up = std::mem::take(&mut self.story.held);
        let now = now_ms();
        for id in self.jobs.keys() {
            let since = self.story.waits.entry(*id).or_insert(Some(now));
            if since.is_some_and(|t| now - t > WAIT_MS) {
                give_up.push(*id);
                *since = Some(now);
            }
        }
        for job in give_up {
            self.ask(&format!("/v1/jobs/{job}/cancel"), &Value::Null).await?;
        }
        for entity in std::mem::take(&mut self.story.breakers) {
            if self.closes {
                let body = json!({"entity": entity, "state": "closed", "reason": "looked at"});
                self.ask("/v1/breakers/force", &body).await?;
            }
        }
        self.repair().await?;
        self.drain().await
    }

    /// Something that may be refused: it is counted and goes on.
    async fn ask(&mut self, path: &str, body: &Value) -> Result<bool> {
        let (status, bytes) = self.api.raw(Method::POST, path, body).await?;
        if status >= 300 {
            let what = path.rsplit('/').next().unwrap_or(path);
            let words: String = String::from_utf8_lossy(&bytes).chars().take(160).collect();
            *self.refused.entry(format!("{what} {status} {words}")).or_default() += 1;
        }
        Ok(status < 300)
    }

    async fn repair(&mut self) -> Result<()> {
        let now = now_ms();
        let out: Vec<(String, String, i64)> = self
            .story
            .stages
            .iter()
            .filter(|(_, s)| s.0 != "ready")
            .map(|(n, s)| (n.clone(), s.0.clone(), s.1))
            .collect();
        for (node, stage, since) in out {
            let repairs = matches!(&stage[..], "repairing" | "quarantined");
            if repairs
                && now - since > REPAIR_MS
                && self.asked.insert((format!("{node} repaired"), since))
            {
                self.ask(&format!("/v1/nodes/{node}/repaired"), &json!({"note": "parts swapped"}))
                    .await?;
            }
            if now - since > STUCK_MS && self.asked.insert((format!("{node} return"), since)) {
                let body = json!({"reason": "nothing moves it"});
                self.ask(&format!("/v1/nodes/{node}/return"), &body).await?;
            }
        }
        Ok(())
    }

    /// Now and then a healthy node is taken out for upkeep.
    async fn drain(&mut self) -> Result<()> {
        let Some(every) = self.drain_every else { return Ok(()) };
        let back: Vec<String> = self
            .drained
            .iter()
            .filter(|(_, d)| d.0 <= Instant::now())
            .map(|(n, _)| n.clone())
            .collect();
        for node in back {
            self.ask(&format!("/v1/nodes/{node}/undrain"), &Value::Null).await?;
            if let Some((_, mut truth)) = self.drained.remove(&node) {
                truth.end_wall = Some(now_ms());
                self.planned.push(truth);
            }
            self.story.by_hand.remove(&node);
        }
        if Instant::now() < self.next_drain {
            return Ok(());
        }
        self.next_drain = Instant::now() + every;
        let count = self.names.len() as u64;
        let drawn = usize::try_from(self.below(count)).unwrap_or(0);
        let node = self.names[drawn].clone();
        let ready = self.story.stages.get(&node).is_none_or(|s| s.0 == "ready");
        if !ready || self.drained.contains_key(&node) {
            return Ok(());
        }
        let body = json!({"reason": "planned upkeep", "stop": self.below(2) == 0});
        self.story.by_hand.insert(node.clone());
        if self.ask(&format!("/v1/nodes/{node}/drain"), &body).await? {
            let truth = Truth {
                id: 1_000_000 + self.planned.len() as u64,
                kind: "planned-drain".into(),
                nodes: vec![node.clone()],
                onset_wall: Some(now_ms()),
                ..Truth::default()
            };
            self.drained.insert(node, (Instant::now() + Duration::from_secs(10), truth));
        }
        Ok(())
    }
}
