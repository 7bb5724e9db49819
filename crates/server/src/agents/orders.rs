//! What was sent to one agent, and what must be sent to it next.

use super::{Inner, acts};
use crate::brain::BrainError;
use muster_executors::native::{self, DetailError, WantedRun};
use muster_link::messages::{Action, FromServer, RunDetail, RunOrder, Secrets};
use muster_model::ids::{AttemptKey, Epoch, Seq};
use muster_model::job::{SlotEnd, SlotState};
use muster_model::names::NodeName;
use muster_model::qualification::Qualifying;
use muster_model::remediation::AskedAct;
use muster_model::spec::RunSpec;
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of detail in one message; well below what a frame may have.
const MOST: usize = 8 << 20;

/// What was sent to one agent on this connection.
#[derive(Default)]
pub(super) struct Orders {
    /// Attempts whose detail it has.
    known: BTreeSet<AttemptKey>,
    /// Attempts that cannot be ordered, and were reported so.
    hopeless: BTreeSet<AttemptKey>,
    /// The list it has; none before the first.
    sent: Option<Vec<(AttemptKey, Action)>>,
    /// Checkpoints it was asked for.
    asked: BTreeMap<AttemptKey, Time>,
    /// The test that it knows of.
    testing: Option<u64>,
    /// Acts that were sent to it.
    acting: BTreeSet<u64>,
    /// Its node was held until now: what it was seen with then was not concluded from.
    was_held: bool,
}

/// What to send to it now.
#[derive(Default)]
pub(super) struct OrderUpdate {
    pub(super) messages: Vec<FromServer>,
    /// Attempts that cannot run there, and why.
    pub(super) hopeless: Vec<(AttemptKey, SlotEnd)>,
}

struct NodeOrders {
    test: Option<Qualifying>,
    seq: Seq,
    epoch: Epoch,
    wanted: Vec<(WantedRun, Option<Result<RunDetail, DetailError>>)>,
}

impl Orders {
    pub(super) fn knows(&mut self, keys: &[AttemptKey], testing: Option<u64>) {
        self.known.extend(keys);
        self.testing = testing;
    }

    /// Does the agent know of it, from its greeting or from an order?
    pub(super) fn is_known(&self, key: AttemptKey) -> bool {
        self.known.contains(&key)
    }

    /// An operator let the server decide about its node again.
    pub(super) fn let_go(&mut self) {
        self.was_held = true;
    }

    pub(super) fn forget(&mut self, key: AttemptKey) {
        self.known.remove(&key);
        self.hopeless.remove(&key);
        self.asked.remove(&key);
    }

    /// Compares what must be with what was sent. `again` repeats the list though it is the same.
    pub(super) async fn refresh(
        &mut self,
        inner: &Inner,
        node: &NodeName,
        again: bool,
    ) -> Result<OrderUpdate, BrainError> {
        let mut acts = inner.acts.of(node);
        let look = inner.brain.read(|s| {
            // The list may be a moment older than the log.
            acts.retain(|a| acts::is_open(s, node, a.id));
            let wanted = native::orders_for(s, node).into_iter().map(|w| {
                let new = w.action == Action::Run
                    && !self.known.contains(&w.key)
                    && !self.hopeless.contains(&w.key);
                let detail = new.then(|| native::detail(s, &w));
                (w, detail)
            });
            let test = s.nodes.get(node).filter(|n| n.inventory.can.contains("qualify"));
            // Ranks that are being stopped would spoil a test that begins.
            let test = test.filter(|n| n.orphans.is_empty() || self.testing.is_some());
            let test = test.and_then(|n| n.qualifying);
            NodeOrders { test, seq: s.seq, epoch: s.epoch, wanted: wanted.collect() }
        });
        let mut news = OrderUpdate::default();
        let was_held = std::mem::take(&mut self.was_held);
        self.test(look.test, &mut news);
        self.act(&acts, &mut news);
        let mut list: Vec<(AttemptKey, Action)> = Vec::new();
        let mut runs: Vec<RunOrder> = Vec::new();
        let mut later: Vec<RunOrder> = Vec::new();
        let mut size = 0;
        for (w, detail) in look.wanted {
            if self.hopeless.contains(&w.key) && w.action == Action::Run {
                continue;
            }
            // The log says that it runs there, and the node knows nothing of it. It is not begun a
            // second time under its number: it is placed anew.
            if was_held && detail.is_some() && ran(&w) {
                self.hopeless.insert(w.key);
                news.hopeless.push((w.key, SlotEnd::restored()));
                continue;
            }
            self.ask_checkpoint(&w, &mut news);
            let detail = match detail {
                None => None,
                Some(Ok(d)) => match fill(inner, &w, d).await? {
                    Ok(d) => Some(d),
                    Err(why) => {
                        self.hopeless.insert(w.key);
                        news.hopeless.push((w.key, SlotEnd::Unstartable { reason: why }));
                        continue;
                    }
                },
                Some(Err(e)) => {
                    self.hopeless.insert(w.key);
                    // How it was placed is not the job's fault: it is placed anew.
                    news.hopeless.push((w.key, SlotEnd::fault(e.to_string())));
                    continue;
                }
            };
            list.push((w.key, w.action));
            let cost = detail.as_ref().map_or(0, weight);
            let order = RunOrder { key: w.key, action: w.action, detail: detail.map(Arc::new) };
            if cost > 0 && size > 0 && size + cost > MOST {
                later.push(order);
            } else {
                size += cost;
                runs.push(order);
            }
        }
        if self.sent.as_ref() == Some(&list) && !again {
            return Ok(news);
        }
        self.known.extend(runs.iter().chain(&later).filter(|r| r.detail.is_some()).map(|r| r.key));
        self.sent = Some(list);
        let NodeOrders { seq, epoch, .. } = look;
        // The list is always whole but for those that the agent has never heard of: leaving one
        // of them for the next message stops nothing.
        let mut have: Vec<RunOrder> =
            runs.iter().map(|r| RunOrder { detail: None, ..r.clone() }).collect();
        news.messages.insert(0, FromServer::Desired { epoch, seq, runs });
        for (n, order) in later.into_iter().enumerate() {
            let sent = RunOrder { detail: None, ..order.clone() };
            let runs = have.iter().cloned().chain([order]).collect();
            news.messages.insert(n + 1, FromServer::Desired { epoch, seq, runs });
            have.push(sent);
        }
        Ok(news)
    }

    /// The node is to be tested, or not any more.
    fn test(&mut self, wanted: Option<Qualifying>, news: &mut OrderUpdate) {
        let id = wanted.map(|q| q.id);
        if self.testing == id {
            return;
        }
        if let Some(id) = std::mem::replace(&mut self.testing, id) {
            news.messages.push(FromServer::QualifyOver { id });
        }
        if let Some(Qualifying { id, level, .. }) = wanted {
            news.messages.push(FromServer::Qualify { id, level });
        }
    }

    /// What the node is to do, and what is over.
    fn act(&mut self, wanted: &[Arc<AskedAct>], news: &mut OrderUpdate) {
        self.acting.retain(|id| {
            let still = wanted.iter().any(|a| a.id == *id);
            if !still {
                news.messages.push(FromServer::ActOver { id: *id });
            }
            still
        });
        for a in wanted {
            if self.acting.insert(a.id) {
                news.messages.push(FromServer::Act { id: a.id, act: a.act.clone() });
            }
        }
    }

    /// An act is over: was it sent to the agent, and not its end?
    pub(super) fn act_over(&mut self, id: u64) -> bool {
        self.acting.remove(&id)
    }

    fn ask_checkpoint(&mut self, w: &WantedRun, news: &mut OrderUpdate) {
        let Some(at) = w.job.checkpoint_asked else { return };
        if w.action == Action::Run && self.asked.insert(w.key, at) != Some(at) {
            news.messages.push(FromServer::AskCheckpoint { key: w.key });
        }
    }
}

/// Was it seen running?
fn ran(w: &WantedRun) -> bool {
    w.job
        .attempt
        .as_ref()
        .is_some_and(|a| w.slots.iter().any(|i| a.slots.get(*i) == Some(&SlotState::Running)))
}

/// Puts in what runs and the secrets, which are kept beside the log.
async fn fill(
    inner: &Inner,
    w: &WantedRun,
    mut d: RunDetail,
) -> Result<Result<RunDetail, String>, BrainError> {
    d.run = match inner.beside.payload(&inner.brain, w.job.payload).await? {
        Some(run) => RunSpec::clone(&run),
        None if d.simulate.is_some() => RunSpec::default(),
        None => return Ok(Err("what the job runs is not stored any more: submit it again".into())),
    };
    let mut secrets = BTreeMap::new();
    for name in &w.job.spec.secrets {
        let Some(value) = inner.beside.secret(&inner.brain, &w.job.project, name).await? else {
            let project = &w.job.project;
            return Ok(Err(format!(
                "project {project} has no secret {name}: set it, then requeue the job"
            )));
        };
        secrets.insert(name.to_string(), value);
    }
    d.secrets = Secrets(secrets);
    Ok(Ok(d))
}

/// About how many bytes a detail takes.
fn weight(d: &RunDetail) -> usize {
    let run = &d.run;
    let text = run.script.as_ref().map_or(0, String::len)
        + run.command.iter().map(String::len).sum::<usize>()
        + run.env.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>()
        + d.secrets.0.values().map(String::len).sum::<usize>();
    // JSON may escape each byte of a script into six; most scripts into little more than one.
    2048 + 2 * text + 40 * d.nodes.len()
}
