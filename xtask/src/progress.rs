//! Whether a command still gets on. How long a build or a test run takes is up to the machine; one
//! that prints nothing and uses no processor stands still on any machine.

use rustix::process::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// What stands still for so long is stopped.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
/// Who waits looks at the clock now and then: less than this is no work.
const IDLE: Duration = Duration::from_secs(1);

/// When a command last did something.
#[derive(Debug)]
pub(crate) struct Progress {
    patience: Duration,
    since: Duration,
    printed: usize,
    used: Duration,
}

impl Progress {
    /// Of a command that was just started.
    pub(crate) fn new(patience: Duration) -> Progress {
        Progress { patience, since: Duration::ZERO, printed: 0, used: Duration::ZERO }
    }

    /// Whether it did nothing for too long: `now` counts from its start, `printed` is how much it
    /// said so far, `used` the processor time of all its processes.
    pub(crate) fn stands_still(&mut self, now: Duration, printed: usize, used: Duration) -> bool {
        // Less than before is a sign of life as well: a process ended that nobody waited for.
        if printed != self.printed || used.abs_diff(self.used) >= IDLE {
            *self = Progress { patience: self.patience, since: now, printed, used };
            return false;
        }
        now.saturating_sub(self.since) >= self.patience
    }
}

/// What we read of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    pid: i32,
    parent: i32,
    /// Its own, in ticks of the clock.
    own: u64,
    /// Of the children that it waited for, and theirs.
    children: u64,
}

fn parse(text: &str) -> Option<Stat> {
    // The name is in parentheses and may hold anything, parentheses too.
    let (head, rest) = text.rsplit_once(')')?;
    let pid = head.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
    Some(Stat {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        own: number(11)? + number(12)?,
        children: number(13)? + number(14)?,
    })
}

fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second())
}

/// The process and all that descend from it.
fn family(of: Pid) -> Vec<Stat> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        parse(&fs::read_to_string(entry.path().join("stat")).ok()?)
    });
    let mut by_parent: BTreeMap<i32, Vec<Stat>> = BTreeMap::new();
    let mut found = Vec::new();
    for stat in all {
        if stat.pid == of.as_raw_nonzero().get() {
            found.push(stat);
        } else {
            by_parent.entry(stat.parent).or_default().push(stat);
        }
    }
    let mut next = 0;
    while let Some(stat) = found.get(next) {
        let children = by_parent.remove(&stat.pid);
        found.extend(children.into_iter().flatten());
        next += 1;
    }
    found
}

/// The ids of the process and all that descend from it.
pub(crate) fn family_ids(of: Pid) -> Vec<Pid> {
    family(of).iter().filter_map(|stat| Pid::from_raw(stat.pid)).collect()
}

/// Processor time of the process, of all that descend from it and of those of them that ended.
pub(crate) fn used_by(pid: Pid) -> Duration {
    time(family(pid).iter().map(|stat| stat.own + stat.children).sum())
}

/// Processor time of all processes that we started and that ended, and of theirs.
pub(crate) fn used_by_our_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").ok().and_then(|text| parse(&text));
    time(stat.map_or(0, |stat| stat.children))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_what_neither_prints_nor_works_stands_still() {
        let mut progress = Progress::new(s(600));
        assert!(!progress.stands_still(s(599), 0, s(0)));
        // It worked for a second, and is given its ten minutes anew.
        assert!(!progress.stands_still(s(600), 0, s(1)));
        assert!(!progress.stands_still(s(1199), 0, s(1)));
        // It said something.
        assert!(!progress.stands_still(s(1200), 7, s(1)));
        assert!(!progress.stands_still(s(1799), 7, s(1)));
        // A child that worked much ended, and nobody waited for it.
        assert!(!progress.stands_still(s(1800), 7, s(0)));
        assert!(!progress.stands_still(s(2399), 7, s(0)));
        // Looking at the clock is no work.
        assert!(progress.stands_still(s(2400), 7, Duration::from_millis(990)));
    }

    #[test]
    fn slow_work_is_work() {
        let mut progress = Progress::new(s(600));
        for look in 1..1000 {
            // A fifth of a percent of a processor.
            assert!(!progress.stands_still(s(look * 5), 0, Duration::from_millis(look * 10)));
        }
    }

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_name_is() {
        let text = "42 (a) b (c)) S 7 42 42 0 -1 4194560 100 200 0 0 11 5 300 20 20 0 1 0 99 1 2";
        let stat = Stat { pid: 42, parent: 7, own: 16, children: 320 };
        assert_eq!(parse(text), Some(stat));
        assert_eq!(parse("42 (sh) S 7"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn the_work_of_a_grandchild_counts() {
        let mut child =
            Command::new("sh").args(["-c", "sh -c 'while :; do :; done'; true"]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        while used_by(pid) < Duration::from_millis(50) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let family = family_ids(pid);
        assert_eq!(family.first(), Some(&pid));
        assert_eq!(family.len(), 2);
        for pid in family {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        child.wait().unwrap();
    }

    #[test]
    fn what_ended_is_counted_with_our_children() {
        let before = used_by_our_children();
        while used_by_our_children() == before {
            let count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
            assert!(Command::new("sh").args(["-c", count]).status().unwrap().success());
        }
    }
}
