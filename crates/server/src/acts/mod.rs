//! What is done outside the log and not by an agent: tickets, pages, and power. The log says
//! what is open; whatever was begun before a restart is looked at again.

mod bundle;
mod files;
mod hook;
mod page;
mod power;
#[cfg(test)]
mod tests;
mod ticket;

use crate::brain::Brain;
use crate::follower::Growth;
use hook::Hook;
pub(crate) use hook::signature;
use muster_engine::State;
use muster_model::command::Command;
use muster_model::ids::{Epoch, Seq};
use muster_model::remedy::{Act, AskedAct};
pub use page::was_sent;
use std::collections::HashMap;
use std::io;
use std::mem::{Discriminant, discriminant};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{self, JoinSet};
use tokio_util::sync::CancellationToken;

/// An end that the log refused, or something that could not be tried, is tried again after this.
const AGAIN: Duration = Duration::from_secs(10);
/// Acts of one kind under way at a time.
const UNDER_WAY: usize = 32;

/// What the site plugged in.
#[derive(Debug, Clone, Default)]
pub struct ActsConfig {
    /// Cuts a node's power and gives it back: a program and its arguments, split at spaces, with
    /// `{node}` for the node's name.
    pub power_cycle: Option<String>,
    /// Where tickets are sent.
    pub ticket_webhook: Option<String>,
    /// Where pages are sent.
    pub page_webhook: Option<String>,
    /// A file with the secret that signs what is sent.
    pub webhook_secret: Option<PathBuf>,
}

/// Why acts cannot be carried out here.
#[derive(Debug, thiserror::Error)]
pub enum ActsError {
    /// An address that is none.
    #[error("`{url}` is no address of a webhook: {why}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The HTTP client.
    #[error("webhooks cannot be called")]
    Client(#[from] reqwest::Error),
    /// A file could not be read or written.
    #[error("a file cannot be written")]
    Io(#[from] io::Error),
}

/// What came of an attempt at an act.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It is over.
    Over { ok: bool, message: String },
    /// It was begun, and its end will be seen elsewhere.
    Begun,
    /// It could not be tried now.
    Later,
}

/// Everything that carrying out needs.
struct Desk {
    brain: Brain,
    dir: PathBuf,
    power_cycle: Option<String>,
    tickets: Option<Hook>,
    pages: Option<Hook>,
    stop: CancellationToken,
}

/// Carries out open acts until `stop`. Files go under `dir`.
///
/// # Errors
/// [`ActsError`] when the configuration cannot be used.
pub fn start(
    brain: Brain,
    dir: PathBuf,
    config: ActsConfig,
    stop: CancellationToken,
) -> Result<(), ActsError> {
    let secret = config.webhook_secret;
    let hook = |url: Option<String>| url.map(|u| Hook::new(&u, secret.clone())).transpose();
    let desk = Desk {
        brain,
        dir,
        power_cycle: config.power_cycle,
        tickets: hook(config.ticket_webhook)?,
        pages: hook(config.page_webhook)?,
        stop,
    };
    let desk = Arc::new(desk);
    crate::supervise::task("acts", move || run(desk.clone()));
    Ok(())
}

/// Acts that are ours, and open.
fn ours(s: &State) -> Vec<Arc<AskedAct>> {
    let mine = |a: &&Arc<AskedAct>| match &a.act {
        Act::Ticket { .. } | Act::Page { .. } => true,
        Act::PowerCycle { node, .. } => s.nodes.get(node).is_some_and(|n| !n.inventory.simulated),
        Act::ResetGpu { .. } | Act::Reboot { .. } => false,
    };
    s.health.open_acts().filter(mine).cloned().collect()
}

/// Acts under way, by their tasks. Each kind has room of its own: tickets that nobody takes hold
/// up no page and no power cycle.
#[derive(Default)]
struct UnderWay(HashMap<task::Id, (u64, Discriminant<Act>)>);

impl UnderWay {
    fn has_room(&self, act: &Act) -> bool {
        let kind = discriminant(act);
        self.0.values().filter(|(_, k)| *k == kind).count() < UNDER_WAY
    }

    fn begin(&mut self, task: task::Id, asked: &AskedAct) {
        self.0.insert(task, (asked.id, discriminant(&asked.act)));
    }

    /// The act of a task that is over.
    fn end(&mut self, task: task::Id) -> Option<u64> {
        self.0.remove(&task).map(|(id, _)| id)
    }
}

async fn run(desk: Arc<Desk>) {
    let mut growth = Growth::new(&desk.brain);
    // Acts that are not to be begun again before then.
    let mut held: HashMap<u64, Option<Instant>> = HashMap::new();
    let mut tasks: JoinSet<bool> = JoinSet::new();
    let mut under_way = UnderWay::default();
    power::tidy(&desk);
    loop {
        let open = desk.brain.read(ours);
        held.retain(|id, until| {
            open.iter().any(|a| a.id == *id) && until.is_none_or(|t| t > Instant::now())
        });
        for act in open {
            if under_way.has_room(&act.act) && !held.contains_key(&act.id) {
                held.insert(act.id, None);
                let (desk, asked) = (desk.clone(), act.clone());
                let task = tasks.spawn(async move { desk.handle(&asked).await });
                under_way.begin(task.id(), &act);
            }
        }
        tokio::select! {
            () = growth.wait() => {}
            Some(done) = tasks.join_next_with_id() => {
                let (task, goes_on) = match done {
                    Ok(done) => done,
                    Err(e) => {
                        tracing::error!(error = %e, "an act fell over; it is tried again");
                        (e.id(), false)
                    }
                };
                // Begun, and seen elsewhere: it stays held until it is over.
                if let Some(id) = under_way.end(task).filter(|_| !goes_on) {
                    held.insert(id, Some(Instant::now() + AGAIN));
                }
            }
            () = tokio::time::sleep(AGAIN), if !held.is_empty() => {}
            () = desk.stop.cancelled() => return,
        }
    }
}

/// What files and messages of an act are called by. Acts are numbered by their records, and those
/// numbers return in the next life of the log.
fn label(life: u64, id: u64) -> String {
    if life == 0 { id.to_string() } else { format!("{life}-{id}") }
}

/// The life of the log in which an act was asked for.
fn life(s: &State, id: u64) -> u64 {
    s.life_at(Seq(id)).0
}

/// Was an act asked for before the lead `epoch` began? The server that led then may have begun it.
fn asked_before(s: &State, epoch: Epoch, id: u64) -> bool {
    let present = s.leads.last().filter(|(_, e)| *e == epoch);
    // While the log does not hold this lead, all that it holds is of earlier ones.
    present.is_none_or(|(first, _)| Seq(id) < *first)
}

impl Desk {
    /// Is it still wanted?
    fn is_open(&self, id: u64) -> bool {
        self.brain.read(|s| s.health.acts.get(&id).is_some_and(|a| a.ended.is_none()))
    }

    /// Carries an act out and tells the log; true: it goes on by itself.
    async fn handle(&self, act: &AskedAct) -> bool {
        let (ok, message) = match self.carry_out(act).await {
            Outcome::Over { ok, message } => (ok, message),
            Outcome::Begun => return true,
            Outcome::Later => return false,
        };
        // What was done is told until the log has it; it is not done again for that.
        let wanted = || self.brain.is_leading() && self.is_open(act.id);
        self.brain.tell(Command::ActDone { id: act.id, ok, message }, wanted).await;
        false
    }

    async fn carry_out(&self, asked: &AskedAct) -> Outcome {
        match &asked.act {
            Act::Ticket { .. } => {
                let Some(bundle) = self.brain.read(|s| bundle::of(s, asked)) else {
                    return Outcome::Later;
                };
                let open = || self.is_open(asked.id);
                ticket::carry_out(&self.dir, self.tickets.as_ref(), &bundle, open).await
            }
            Act::Page { title, detail } => {
                let (site, life) = self.brain.read(|s| (s.site.clone(), life(s, asked.id)));
                let site = site.unwrap_or_default().to_string();
                let page = page::Page::new(site, life, asked, title, detail);
                let open = || self.is_open(asked.id);
                page::carry_out(&self.dir, self.pages.as_ref(), &page, open).await
            }
            Act::PowerCycle { node, .. } => {
                // Another server may lead by now, and may cut it as well.
                if !self.brain.leads_for_certain() {
                    return Outcome::Later;
                }
                let epoch = self.brain.epoch();
                let (life, earlier) =
                    self.brain.read(|s| (life(s, asked.id), asked_before(s, epoch, asked.id)));
                let label = label(life, asked.id);
                let command = self.power_cycle.as_deref();
                power::carry_out(&self.dir, command, &label, node, earlier).await
            }
            Act::ResetGpu { .. } | Act::Reboot { .. } => Outcome::Begun,
        }
    }
}
