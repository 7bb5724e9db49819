//! Processes in states that mean trouble.

use muster_model::units::{Span, Time};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Processes looked at in one go.
const MOST: usize = 32_768;
/// Names kept of those that are stuck.
const MOST_NAMES: usize = 8;

/// Processes, by the states that mean trouble.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tasks {
    /// All processes, in whatever state.
    pub all: u32,
    /// Inside the kernel and not to be woken (state D).
    pub blocked: u32,
    /// Ended and not waited for (state Z).
    pub zombies: u32,
    /// Some of those that are blocked: name and number.
    pub stuck: Vec<(String, i32)>,
}

/// A process that was blocked at every look for so long is stuck.
const STUCK_AFTER: Span = Span::secs(30);
/// Blocked processes that are followed.
const MOST_BLOCKED: usize = 4096;

/// A process that is blocked: number, when it started, and the time it has had of a processor. One
/// whose time goes on is only busy with its disk.
pub(super) type Block = (i32, u64, u64);

/// Follows blocked processes from look to look.
#[derive(Debug, Default)]
pub(super) struct Blocked(BTreeMap<Block, Time>);

impl Blocked {
    /// How many have been blocked for too long.
    pub(super) fn count_blocked(&mut self, at: Time, blocked: &[Block]) -> u32 {
        let before = std::mem::take(&mut self.0);
        // A clock that went back begins anew.
        let since = |b: &Block| before.get(b).copied().unwrap_or(at).min(at);
        self.0 = blocked.iter().map(|b| (*b, since(b))).collect();
        let stuck = self.0.values().filter(|s| at.since(**s) > STUCK_AFTER).count();
        u32::try_from(stuck).unwrap_or(u32::MAX)
    }
}

/// Looks at all processes: those that mean trouble, and those that are blocked.
pub(super) fn tasks(root: &Path) -> Option<(Tasks, Vec<Block>)> {
    let mut blocked = Vec::new();
    let proc = root.join("proc");
    let mut found = Tasks::default();
    let mut buffer = Vec::with_capacity(512);
    for entry in std::fs::read_dir(&proc).ok()?.take(MOST) {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        buffer.clear();
        // A process that ended meanwhile is none.
        let Ok(file) = File::open(proc.join(&name).join("stat")) else { continue };
        if file.take(1024).read_to_end(&mut buffer).is_err() {
            continue;
        }
        let Some((name, state)) = name_and_state(&buffer) else { continue };
        found.all += 1;
        match state {
            b'D' => {
                found.blocked += 1;
                // The kernel's own threads wait like that for years where a driver is so written.
                if let Some((parent, started, used)) = times(&buffer)
                    && parent != KTHREADD
                    && blocked.len() < MOST_BLOCKED
                {
                    blocked.push((pid, started, used));
                }
                if found.stuck.len() < MOST_NAMES {
                    found.stuck.push((String::from_utf8_lossy(name).into_owned(), pid));
                }
            }
            b'Z' => found.zombies += 1,
            _ => {}
        }
    }
    (found.all > 0).then_some((found, blocked))
}

/// Parent of the kernel's own threads.
const KTHREADD: u64 = 2;

/// Parent, start and processor time; zero where the line is shorter than the kernel's.
fn times(stat: &[u8]) -> Option<(u64, u64, u64)> {
    let close = stat.iter().rposition(|b| *b == b')')?;
    let rest = String::from_utf8_lossy(stat.get(close + 2..)?);
    let words: Vec<u64> = rest.split_ascii_whitespace().map(|w| w.parse().unwrap_or(0)).collect();
    let word = |i: usize| words.get(i).copied().unwrap_or(0);
    // After the name come state, parent, …, utime (11), stime (12), …, start (19).
    Some((word(1), word(19), word(11).saturating_add(word(12))))
}

/// `12 (name) S …`: the name may hold brackets and blanks itself.
fn name_and_state(stat: &[u8]) -> Option<(&[u8], u8)> {
    let open = stat.iter().position(|b| *b == b'(')?;
    let close = stat.iter().rposition(|b| *b == b')')?;
    let name = stat.get(open + 1..close)?;
    Some((name, *stat.get(close + 2)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_stuck_only_when_it_gets_nowhere() {
        let t = |s| Time(1000) + Span::secs(s);
        let mut b = Blocked::default();
        assert_eq!(b.count_blocked(t(0), &[(1, 5, 9), (2, 5, 9)]), 0);
        assert_eq!(b.count_blocked(t(20), &[(1, 5, 9), (2, 5, 10), (3, 6, 0)]), 0);
        // The second one worked meanwhile, the third is too new.
        assert_eq!(b.count_blocked(t(31), &[(1, 5, 9), (2, 5, 10), (3, 6, 0)]), 1);
        assert_eq!(b.count_blocked(t(60), &[(1, 5, 9), (2, 5, 10), (3, 6, 0)]), 3);
        assert_eq!(
            b.count_blocked(t(70), &[(1, 7, 9)]),
            0,
            "another process under the same number"
        );
        assert_eq!(b.count_blocked(t(1), &[(1, 7, 9)]), 0);
        let stat = b"12 (a b) D 1 12 12 0 -1 4194560 8 0 0 0 3 4 0 0 20 0 1 0 77 9";
        assert_eq!(times(stat), Some((1, 77, 7)));
        assert_eq!(times(b"12 (a b) D 2"), Some((2, 0, 0)));
    }

    #[test]
    fn names_may_hold_brackets() {
        assert_eq!(name_and_state(b"1 (a) b) D 0"), Some((&b"a) b"[..], b'D')));
        assert_eq!(name_and_state(b"1 (x) Z"), Some((&b"x"[..], b'Z')));
        assert_eq!(name_and_state(b"1 x"), None);
        assert_eq!(name_and_state(b")("), None);
        assert_eq!(name_and_state(b"1 (x)"), None);
    }
}
