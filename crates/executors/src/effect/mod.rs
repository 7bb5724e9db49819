//! What the log wants done outside of it, in one loop: what is intended follows from the durable
//! state, it is carried out, and what came of it is reported until the log has it. A server that
//! starts anew finds in the log what is still to be done; a repeat is distinguished from a second
//! act by the key that the other side is given, or by what was written down before.

#[cfg(test)]
mod tests;

use muster_engine::State;
use muster_model::command::Command;
use muster_model::ids::Epoch;
use muster_model::names::ProjectName;
use muster_model::units::Time;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{self, JoinSet};
use tokio::time::Instant;

/// The log, as whoever acts on it needs it: the server's brain.
pub trait Log: Clone + Send + Sync + 'static {
    /// Notices that the log has grown.
    type Growth: Send;

    /// Begins to notice that.
    fn growth(&self) -> Self::Growth;

    /// Waits until the log has grown since it last did. Whoever is cut off while waiting has missed
    /// nothing.
    fn grown(growth: &mut Self::Growth) -> impl Future<Output = ()> + Send;

    /// Looks at the durable state, shortly.
    fn read<R>(&self, look: impl FnOnce(&State) -> R) -> R;

    /// Now, by the server's clock.
    fn now(&self) -> Time;

    /// Under which epoch this server leads; none unless it is certain that nobody else does.
    fn certain_epoch(&self) -> Option<Epoch>;

    /// Writes something to the log, again and again while it cannot be written, this server leads
    /// and it is `wanted`. True when the log has it, false when it was refused or need not have it.
    fn record_command(
        &self,
        command: Command,
        wanted: impl Fn() -> bool + Send + Sync,
    ) -> impl Future<Output = bool> + Send;

    /// A project's secret; none when there is none of this name.
    fn secret(
        &self,
        project: &ProjectName,
        name: &str,
    ) -> impl Future<Output = Result<Option<String>, String>> + Send;
}

/// What is to be done, and after which time to look again.
pub type Intended<E> = (Vec<(<E as Effect>::Key, <E as Effect>::Task)>, Option<Duration>);

/// Things of one kind that the log wants done outside of it.
pub trait Effect: Sized + Send + Sync + 'static {
    /// What distinguishes one from another, for as long as it is intended.
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// All that is needed to do one.
    type Task: Send + 'static;
    /// What came of it.
    type End: Send + 'static;

    /// The first pause after a try that came to nothing, or whose end the log refused, and the longest;
    /// each is twice the one before.
    const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
    /// Between the growth of the log and a look at it.
    const PAUSE: Duration = Duration::ZERO;

    /// All that is intended now; and after which time to look again, though nothing has happened.
    fn intended(&self) -> Intended<Self>;

    /// May it be begun beside those that are under way?
    fn has_capacity<'a>(
        &self,
        _key: &Self::Key,
        _under_way: impl Iterator<Item = &'a Self::Key>,
    ) -> bool {
        true
    }

    /// Is its end still to be reported?
    fn is_wanted(&self, _key: &Self::Key) -> bool {
        true
    }

    /// Does it, such that doing it a second time is harmless.
    fn execute(
        &self,
        key: &Self::Key,
        task: Self::Task,
    ) -> impl Future<Output = Outcome<Self::End>> + Send;

    /// What the log is to know of its end, if anything.
    fn report(&self, key: &Self::Key, end: Self::End) -> Option<Command>;
}

/// What came of trying.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<E> {
    /// It is over.
    Over(E),
    /// It was begun, and its end will be seen elsewhere.
    Begun,
    /// It could not be done now.
    Later,
}

/// Why something that is intended is not begun.
enum NotStarted {
    UnderWay,
    /// Its end is seen elsewhere.
    Begun,
    Until(Instant),
}

/// Carries out what is intended until `stop`.
pub async fn run<L: Log, E: Effect>(effect: Arc<E>, log: L, stop: impl Future<Output = ()> + Send) {
    let mut stop = pin!(stop);
    let mut growth = log.growth();
    let mut held: HashMap<E::Key, NotStarted> = HashMap::new();
    // The last pause of what came to nothing so far.
    let mut pauses: HashMap<E::Key, Duration> = HashMap::new();
    let mut tasks: JoinSet<Outcome<()>> = JoinSet::new();
    let mut under_way: HashMap<task::Id, E::Key> = HashMap::new();
    loop {
        let (intended, wait) = effect.intended();
        let now = Instant::now();
        {
            let open: HashSet<&E::Key> = intended.iter().map(|(key, _)| key).collect();
            held.retain(|key, why| match why {
                NotStarted::UnderWay => true,
                NotStarted::Begun => open.contains(key),
                NotStarted::Until(at) => *at > now && open.contains(key),
            });
            pauses.retain(|key, _| open.contains(key));
        }
        for (key, task) in intended {
            if held.contains_key(&key) || !effect.has_capacity(&key, under_way.values()) {
                continue;
            }
            held.insert(key.clone(), NotStarted::UnderWay);
            let begun = tasks.spawn(try_one(Arc::clone(&effect), log.clone(), key.clone(), task));
            under_way.insert(begun.id(), key);
        }
        let held_until = held.values().filter_map(|why| match why {
            NotStarted::Until(at) => Some(*at),
            NotStarted::UnderWay | NotStarted::Begun => None,
        });
        let next = held_until.chain(wait.map(|w| now + w)).min();
        tokio::select! {
            () = L::grown(&mut growth) => {}
            Some(done) = tasks.join_next_with_id() => {
                let (id, outcome) = done.unwrap_or_else(|e| {
                    tracing::error!(error = %e, "an action failed; it is tried again");
                    (e.id(), Outcome::Later)
                });
                let Some(key) = under_way.remove(&id) else { continue };
                match outcome {
                    Outcome::Over(()) => held.remove(&key),
                    Outcome::Begun => held.insert(key, NotStarted::Begun),
                    Outcome::Later => {
                        let (first, longest) = E::PAUSES;
                        let pause = pauses.get(&key).map_or(first, |p| (*p * 2).min(longest));
                        pauses.insert(key.clone(), pause);
                        held.insert(key, NotStarted::Until(Instant::now() + pause))
                    }
                };
                continue;
            }
            () = tokio::time::sleep_until(next.unwrap_or(now)), if next.is_some() => {}
            () = &mut stop => return,
        }
        tokio::time::sleep(E::PAUSE).await;
    }
}

async fn try_one<L: Log, E: Effect>(
    effect: Arc<E>,
    log: L,
    key: E::Key,
    task: E::Task,
) -> Outcome<()> {
    let end = match effect.execute(&key, task).await {
        Outcome::Over(end) => end,
        Outcome::Begun => return Outcome::Begun,
        Outcome::Later => return Outcome::Later,
    };
    let Some(command) = effect.report(&key, end) else { return Outcome::Over(()) };
    // What was done is reported until the log has it; it is not done again for that.
    let recorded = log.record_command(command, || effect.is_wanted(&key)).await;
    if recorded { Outcome::Over(()) } else { Outcome::Later }
}
