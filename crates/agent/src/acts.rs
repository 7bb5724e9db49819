//! Acts that the server asks of this machine: each is done to its end once, however often it is asked
//! for and whoever restarts meanwhile, and what came of it is reported until the server has it.

use crate::run_dir::RunDir;
use muster_link::messages::FromAgent;
use muster_model::remediation::Act;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Acts that are remembered at most; the oldest go first.
const MOST: usize = 64;
/// A reset that was cut short so often is not tried again.
const TRIES: u8 = 2;
/// Where they are remembered.
const FILE: &str = "acts.json";

/// An act and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    act: Act,
    /// The boot in which it was begun.
    boot: String,
    /// How often it was begun.
    #[serde(default)]
    tries: u8,
    /// What came of it, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<(bool, String)>,
    /// The process that did it is gone.
    #[serde(skip)]
    cut_short: bool,
    #[serde(skip)]
    reported: bool,
}

/// What is known of acts.
#[derive(Debug, Default)]
pub(crate) struct Acts {
    /// None for nodes that keep no directory: they remember for as long as the process lives.
    dir: Option<PathBuf>,
    known: BTreeMap<u64, Entry>,
}

impl Acts {
    /// Reads what was written down before. In which boot the machine is now says which restarts
    /// have happened. A reset that was cut short may be done again, since nobody uses the GPU then: what
    /// a restart of the agent left half done is no fault of the hardware. After the second time it is
    /// given up: it may be what ends the agent.
    pub(crate) fn open(dir: Option<PathBuf>, boot: &str) -> Acts {
        let known = dir.as_ref().and_then(|d| RunDir(d.clone()).read(FILE));
        let mut acts = Acts { dir, known: known.unwrap_or_default() };
        acts.complete_restarts(boot);
        let mut given_up = Vec::new();
        for (id, e) in acts.known.iter_mut().filter(|(_, e)| e.end.is_none() && !restarts(&e.act)) {
            e.cut_short = true;
            if e.tries >= TRIES {
                given_up.push(*id);
            }
        }
        for id in given_up {
            acts.ended(id, Err(format!("the agent was restarted during it {TRIES} times")));
        }
        acts
    }

    /// Takes an act in. True when it is to be carried out: it is new, a reset that was cut short, or
    /// a restart that has not happened and can be asked for again without harm.
    pub(crate) fn begin(&mut self, id: u64, act: &Act, boot: &str) -> bool {
        if let Some(known) = self.known.get_mut(&id) {
            known.reported = false;
            if known.end.is_none() && std::mem::take(&mut known.cut_short) {
                known.tries = known.tries.saturating_add(1);
                self.save();
                return true;
            }
            return known.end.is_none() && restarts(&known.act) && known.boot == boot;
        }
        while self.known.len() >= MOST {
            self.known.pop_first();
        }
        let already = match act {
            Act::Reboot { boot: before, .. } | Act::PowerCycle { boot: before, .. } => {
                (before != boot).then(|| (true, "it has restarted since".to_owned()))
            }
            _ => None,
        };
        let new = already.is_none();
        let entry = Entry {
            act: act.clone(),
            boot: boot.to_owned(),
            tries: 1,
            end: already,
            cut_short: false,
            reported: false,
        };
        self.known.insert(id, entry);
        self.save();
        new
    }

    /// What came of it.
    pub(crate) fn ended(&mut self, id: u64, end: Result<String, String>) {
        let Some(entry) = self.known.get_mut(&id).filter(|e| e.end.is_none()) else { return };
        entry.end = Some(match end {
            Ok(message) => (true, message),
            Err(message) => (false, message),
        });
        entry.reported = false;
        self.save();
    }

    /// The machine is up in this boot: restarts that were begun in another are done.
    pub(crate) fn complete_restarts(&mut self, boot: &str) {
        let back = |e: &Entry| e.end.is_none() && restarts(&e.act) && e.boot != boot;
        let done: Vec<u64> = self.known.iter().filter(|(_, e)| back(e)).map(|(i, _)| *i).collect();
        for id in done {
            self.ended(id, Ok("it has restarted".into()));
        }
    }

    /// Its end is written down elsewhere, or nobody wants it any more.
    pub(crate) fn over(&mut self, id: u64) {
        if self.known.remove(&id).is_some() {
            self.save();
        }
    }

    /// A new connection: everything is reported again.
    pub(crate) fn rewind(&mut self) {
        self.known.values_mut().for_each(|e| e.reported = false);
    }

    /// What there is to report.
    pub(crate) fn turn(&mut self, out: &mut Vec<FromAgent>) {
        for (id, e) in self.known.iter_mut().filter(|(_, e)| !e.reported) {
            if let Some((ok, message)) = &e.end {
                e.reported = true;
                out.push(FromAgent::Acted { id: *id, ok: *ok, message: message.clone() });
            }
        }
    }

    /// Whether something waits to be reported.
    pub(crate) fn waits(&self) -> bool {
        self.known.values().any(|e| e.end.is_some() && !e.reported)
    }

    fn save(&self) {
        let Some(dir) = &self.dir else { return };
        if let Err(e) = RunDir(dir.clone()).write(FILE, &self.known) {
            tracing::warn!(dir = %dir.display(), error = %e, "cannot write down what is to be done");
        }
    }
}

/// Acts after which the machine is in another boot.
fn restarts(act: &Act) -> bool {
    matches!(act, Act::Reboot { .. } | Act::PowerCycle { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reset() -> Act {
        Act::ResetGpu { node: "n1".parse().unwrap(), gpu: 3 }
    }

    fn reboot(boot: &str) -> Act {
        Act::Reboot { node: "n1".parse().unwrap(), boot: boot.into() }
    }

    fn take_acted(acts: &mut Acts) -> Vec<(u64, bool)> {
        let mut out = Vec::new();
        acts.turn(&mut out);
        let said = |m: &FromAgent| match m {
            FromAgent::Acted { id, ok, .. } => Some((*id, *ok)),
            _ => None,
        };
        out.iter().filter_map(said).collect()
    }

    #[test]
    fn an_act_is_done_once_and_reported_until_it_is_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = Some(dir.path().to_path_buf());
        let mut acts = Acts::open(path.clone(), "a");
        assert!(acts.begin(7, &reset(), "a"));
        assert!(!acts.begin(7, &reset(), "a"), "it is under way");
        assert!(take_acted(&mut acts).is_empty());
        acts.ended(7, Ok("done".into()));
        assert!(acts.waits());
        assert_eq!(take_acted(&mut acts), [(7, true)]);
        assert!(take_acted(&mut acts).is_empty() && !acts.waits());
        assert!(!acts.begin(7, &reset(), "a"), "it was done");
        assert_eq!(take_acted(&mut acts), [(7, true)], "whoever asks again gets it again");
        acts.rewind();
        assert_eq!(take_acted(&mut acts), [(7, true)]);
        // Another process knows it too.
        let mut acts = Acts::open(path.clone(), "a");
        assert!(!acts.begin(7, &reset(), "a"));
        assert_eq!(take_acted(&mut acts), [(7, true)]);
        acts.over(7);
        assert!(take_acted(&mut Acts::open(path, "a")).is_empty());
    }

    #[test]
    fn a_reset_that_was_cut_short_is_done_again_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = Some(dir.path().to_path_buf());
        assert!(Acts::open(path.clone(), "a").begin(1, &reset(), "a"));
        let mut acts = Acts::open(path.clone(), "a");
        assert!(take_acted(&mut acts).is_empty(), "nothing is known of it yet");
        assert!(acts.begin(1, &reset(), "a"), "it is done again");
        assert!(!acts.begin(1, &reset(), "a"), "it is under way");
        acts.ended(1, Ok("done".into()));
        assert_eq!(take_acted(&mut acts), [(1, true)]);
        assert!(!Acts::open(path, "a").begin(1, &reset(), "a"), "it was done");
    }

    #[test]
    fn a_reset_that_is_cut_short_twice_has_failed() {
        let dir = tempfile::tempdir().unwrap();
        let path = Some(dir.path().to_path_buf());
        assert!(Acts::open(path.clone(), "a").begin(1, &reset(), "a"));
        assert!(Acts::open(path.clone(), "a").begin(1, &reset(), "a"));
        let mut acts = Acts::open(path, "a");
        assert!(!acts.begin(1, &reset(), "a"));
        assert_eq!(take_acted(&mut acts), [(1, false)]);
    }

    #[test]
    fn a_restart_is_done_when_the_boot_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = Some(dir.path().to_path_buf());
        let mut acts = Acts::open(path.clone(), "a");
        assert!(acts.begin(1, &reboot("a"), "a"));
        // The agent died before the machine did: it is asked for again.
        let mut acts2 = Acts::open(path.clone(), "a");
        assert!(acts2.begin(1, &reboot("a"), "a"));
        let mut acts3 = Acts::open(path, "b");
        assert_eq!(take_acted(&mut acts3), [(1, true)]);
        assert!(!acts3.begin(1, &reboot("a"), "b"));
        // One that was asked for before the machine came up by itself needs no restart.
        assert!(!acts3.begin(2, &reboot("a"), "b"));
        assert_eq!(take_acted(&mut acts3), [(1, true), (2, true)]);
        acts.complete_restarts("c");
        assert_eq!(take_acted(&mut acts), [(1, true)]);
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let mut acts = Acts::open(None, "a");
        for id in 0..500 {
            assert!(acts.begin(id, &reset(), "a"));
        }
        assert_eq!(acts.known.len(), MOST);
    }
}
