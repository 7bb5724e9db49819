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

use crate::effect::{self, Effect, Log, Outcome};
use hook::Hook;
use muster_engine::State;
use muster_model::command::Command;
use muster_model::ids::{Epoch, Seq};
use muster_model::remediation::{Act, AskedAct};
pub use page::was_sent;
use std::io;
use std::mem::{Discriminant, discriminant};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Acts of one kind under way at a time. Each kind has room of its own: tickets that nobody takes hold
/// up no page and no power cycle.
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

/// How an act ended.
#[derive(Debug, PartialEq, Eq)]
struct End {
    ok: bool,
    message: String,
}

/// What distinguishes an act from the others: its kind, and its number.
type Key = (Discriminant<Act>, u64);

/// Everything that carrying out needs.
struct Acts<L> {
    log: L,
    dir: PathBuf,
    power_cycle: Option<String>,
    tickets: Option<Hook>,
    pages: Option<Hook>,
}

/// Carries out open acts until `stop`. Files go under `dir`.
///
/// # Errors
/// [`ActsError`] when the configuration cannot be used.
pub fn start<L: Log>(
    log: L,
    dir: PathBuf,
    config: ActsConfig,
    stop: CancellationToken,
) -> Result<(), ActsError> {
    let secret = config.webhook_secret;
    let hook = |url: Option<String>| url.map(|u| Hook::new(&u, secret.clone())).transpose();
    let acts = Arc::new(Acts {
        log: log.clone(),
        dir,
        power_cycle: config.power_cycle,
        tickets: hook(config.ticket_webhook)?,
        pages: hook(config.page_webhook)?,
    });
    power::tidy(&acts);
    muster_supervise::task("acts", move || {
        effect::run(Arc::clone(&acts), log.clone(), stop.clone().cancelled_owned())
    });
    Ok(())
}

/// Acts that are ours, and open.
fn ours(s: &State) -> Vec<Arc<AskedAct>> {
    let mine = |a: &&Arc<AskedAct>| match &a.act {
        Act::Ticket { .. } | Act::Page { .. } => true,
        Act::PowerCycle { node, .. } => {
            s.nodes.get(node).is_some_and(|n| !a.act.is_done_by_agent(n.inventory.simulated))
        }
        Act::ResetGpu { .. } | Act::Reboot { .. } => false,
    };
    s.health.open_acts().filter(mine).cloned().collect()
}

/// Is an act still open?
fn is_open(s: &State, id: u64) -> bool {
    s.health.acts.get(&id).is_some_and(|a| a.ended.is_none())
}

fn has_capacity<'a>((kind, _): &Key, under_way: impl Iterator<Item = &'a Key>) -> bool {
    under_way.filter(|(k, _)| k == kind).count() < UNDER_WAY
}

/// What files and messages of an act are called by. Acts are numbered by their records, and those
/// numbers return in the next life of the log.
fn label(life: u64, id: u64) -> String {
    if life == 0 { id.to_string() } else { format!("{life}-{id}") }
}

/// The life of the log in which an act was asked for.
fn life(s: &State, id: u64) -> u64 {
    s.generation_at(Seq(id)).0
}

/// Was an act asked for before the lead `epoch` began? The server that led then may have begun it.
fn asked_before(s: &State, epoch: Epoch, id: u64) -> bool {
    let present = s.leads.last().filter(|(_, e)| *e == epoch);
    // While the log does not hold this lead, all that it holds is of earlier ones.
    present.is_none_or(|(first, _)| Seq(id) < *first)
}

impl<L: Log> Effect for Acts<L> {
    type Key = Key;
    type Task = Arc<AskedAct>;
    type End = End;

    fn intended(&self) -> (Vec<(Key, Arc<AskedAct>)>, Option<Duration>) {
        let open = self.log.read(ours);
        (open.into_iter().map(|a| ((discriminant(&a.act), a.id), a)).collect(), None)
    }

    fn has_capacity<'a>(&self, key: &Key, under_way: impl Iterator<Item = &'a Key>) -> bool {
        has_capacity(key, under_way)
    }

    fn is_wanted(&self, (_, id): &Key) -> bool {
        self.log.read(|s| is_open(s, *id))
    }

    async fn execute(&self, _: &Key, asked: Arc<AskedAct>) -> Outcome<End> {
        match &asked.act {
            Act::Ticket { .. } => {
                let Some(bundle) = self.log.read(|s| bundle::of(s, &asked)) else {
                    return Outcome::Later;
                };
                ticket::execute(&self.dir, self.tickets.as_ref(), &bundle).await
            }
            Act::Page { title, detail } => {
                let (site, life) = self.log.read(|s| (s.site.clone(), life(s, asked.id)));
                let site = site.unwrap_or_default().to_string();
                let page = page::Page::new(site, life, &asked, title, detail);
                page::execute(&self.dir, self.pages.as_ref(), &page).await
            }
            Act::PowerCycle { node, .. } => {
                // Another server may lead by now, and may cut it as well.
                let Some(epoch) = self.log.certain_epoch() else { return Outcome::Later };
                let (life, earlier) =
                    self.log.read(|s| (life(s, asked.id), asked_before(s, epoch, asked.id)));
                let label = label(life, asked.id);
                let command = self.power_cycle.as_deref();
                power::execute(&self.dir, command, &label, node, earlier).await
            }
            Act::ResetGpu { .. } | Act::Reboot { .. } => Outcome::Begun,
        }
    }

    fn report(&self, (_, id): &Key, End { ok, message }: End) -> Option<Command> {
        Some(Command::ActDone { id: *id, ok, message })
    }
}
