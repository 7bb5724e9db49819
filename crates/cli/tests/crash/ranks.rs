//! What the ranks themselves wrote down: the only witness that the control plane cannot fool.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The variable that says where ranks write.
pub(crate) const FILE: &str = "CRASH_FILE";

/// What every rank's script begins with. One short `printf` to a file opened for appending is
/// one write, so that lines never mix and their order is the order of what happened.
///
/// A rank may be stopped at any moment. Before its first trap it has said nothing and just ends;
/// from there on it says both lines: an end without a start would look like a rank that ran twice.
pub(crate) const PROLOGUE: &str = r#"
say() {
  printf '%s %s %s %s %s %s %s\n' "$1" "$MUSTER_JOB_ID" "$MUSTER_ATTEMPT" "$RANK" "$$" \
    "$MUSTER_NODE" "${CUDA_VISIBLE_DEVICES:--}" >> "$CRASH_FILE"
}
child=
stopped=
over() { trap '' TERM; say end; exit "$1"; }
rest() { sleep "$1" & child=$!; wait $child; child=; }
trap 'stopped=1' TERM
say start
trap 'if [ -n "$child" ]; then kill $child 2>/dev/null; fi; over 143' TERM
if [ -n "$stopped" ]; then over 143; fi
"#;

/// One rank of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RankKey {
    pub(crate) job: u64,
    pub(crate) attempt: u32,
    pub(crate) rank: u32,
}

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) start: bool,
    pub(crate) key: RankKey,
    pub(crate) pid: u32,
    pub(crate) node: String,
    pub(crate) gpus: Vec<u32>,
}

/// Reads the file; a last line without its end is not there yet.
pub(crate) fn read(path: &Path) -> Result<Vec<Line>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(format!("cannot read what the ranks wrote: {e}")),
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|l| parse(l).ok_or_else(|| format!("a rank wrote a line that makes no sense: `{l}`")))
        .collect()
}

fn parse(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split(' ').collect();
    let [word, job, attempt, rank, pid, node, gpus] = words.as_slice() else { return None };
    let gpus = match *gpus {
        "-" => Vec::new(),
        list => list.split(',').map(|g| g.parse().ok()).collect::<Option<Vec<u32>>>()?,
    };
    Some(Line {
        start: match *word {
            "start" => true,
            "end" => false,
            _ => return None,
        },
        key: RankKey {
            job: job.parse().ok()?,
            attempt: attempt.parse().ok()?,
            rank: rank.parse().ok()?,
        },
        pid: pid.parse().ok()?,
        node: (*node).to_owned(),
        gpus,
    })
}

/// Goes through the lines in order and says what must not have happened.
pub(crate) fn problems(lines: &[Line]) -> Vec<String> {
    let mut out = Vec::new();
    let mut started: BTreeMap<RankKey, u32> = BTreeMap::new();
    let mut up: BTreeMap<u64, BTreeMap<RankKey, &Line>> = BTreeMap::new();
    let mut held: BTreeMap<(&str, u32), BTreeSet<RankKey>> = BTreeMap::new();
    for line in lines {
        let key = line.key;
        let name = format!("job {} attempt {} rank {}", key.job, key.attempt, key.rank);
        let gpus = line.gpus.iter().map(|g| (line.node.as_str(), *g));
        if !line.start {
            if started.get(&key) != Some(&line.pid) {
                out.push(format!("{name}: process {} ended without having started", line.pid));
            }
            if up.get_mut(&key.job).and_then(|ranks| ranks.remove(&key)).is_none() {
                out.push(format!("{name} ended twice"));
            }
            for gpu in gpus {
                if let Some(holders) = held.get_mut(&gpu) {
                    holders.remove(&key);
                }
            }
            continue;
        }
        if let Some(pid) = started.insert(key, line.pid) {
            out.push(format!("{name} ran twice: as process {pid} and as {}", line.pid));
        }
        let ranks = up.entry(key.job).or_default();
        if let Some(other) = ranks.keys().find(|k| k.attempt != key.attempt) {
            out.push(format!("{name} started while attempt {} still ran", other.attempt));
        }
        ranks.insert(key, line);
        for gpu in gpus {
            let holders = held.entry(gpu).or_default();
            // The ranks of one slot share its GPUs.
            let other = holders.iter().find(|k| (k.job, k.attempt) != (key.job, key.attempt));
            if let Some(o) = other {
                out.push(format!(
                    "gpu {} of {} was held by job {} attempt {} when {name} started on it",
                    gpu.1, gpu.0, o.job, o.attempt
                ));
            }
            holders.insert(key);
        }
    }
    out
}

/// Ranks that started and have not ended.
pub(crate) fn running(lines: &[Line]) -> BTreeMap<RankKey, Line> {
    let mut up = BTreeMap::new();
    for line in lines {
        if line.start {
            up.insert(line.key, line.clone());
        } else {
            up.remove(&line.key);
        }
    }
    up
}

/// The process of a rank, by the number that this machine knows: its own is of its own namespace.
/// Of the rank and what it started, the eldest.
pub(crate) fn process(key: RankKey, file: &Path) -> Option<(u32, u64)> {
    let wanted = [
        format!("MUSTER_JOB_ID={}", key.job),
        format!("MUSTER_ATTEMPT={}", key.attempt),
        format!("RANK={}", key.rank),
        format!("{FILE}={}", file.display()),
    ];
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let mine = |pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let has = |w: &String| environ.split(|b| *b == 0).any(|v| v == w.as_bytes());
        wanted.iter().all(has)
    };
    let alive = pids.filter(mine).filter_map(|pid| Some((pid, birth(pid)?)));
    alive.min_by_key(|(pid, birth)| (*birth, *pid))
}

/// When a process started, in the kernel's count: a number that came back to another process
/// does not count as alive. `None` when it is gone.
pub(crate) fn birth(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let birth = fields.nth(18)?.parse().ok()?;
    (state != "Z").then_some(birth)
}

#[cfg(test)]
mod tests {
    use super::{FILE, PROLOGUE, parse, problems, read};
    use std::process::Command;

    fn of(lines: &[&str]) -> Vec<String> {
        let lines: Vec<_> = lines.iter().map(|l| parse(l).expect("a good line")).collect();
        problems(&lines)
    }

    #[test]
    fn what_is_sound_is_not_complained_about() {
        let sound = [
            "start 1 1 0 100 a 0,1",
            "start 1 1 1 101 a 0,1",
            "start 2 1 0 102 a 2",
            "end 1 1 0 100 a 0,1",
            "end 1 1 1 101 a 0,1",
            "start 1 2 0 103 a 0,1",
            "start 3 1 0 104 b -",
        ];
        assert_eq!(of(&sound), Vec::<String>::new());
    }

    #[test]
    fn every_violation_is_seen() {
        let twice = of(&["start 1 1 0 100 a -", "end 1 1 0 100 a -", "start 1 1 0 101 a -"]);
        assert!(twice[0].contains("ran twice"), "{twice:?}");
        let overlap = of(&["start 1 1 0 100 a -", "start 1 2 0 101 b -"]);
        assert!(overlap[0].contains("still ran"), "{overlap:?}");
        let shared = of(&["start 1 1 0 100 a 3", "start 2 1 0 101 a 3"]);
        assert!(shared[0].contains("gpu 3 of a was held by job 1"), "{shared:?}");
        let ghost = of(&["end 1 1 0 100 a -"]);
        assert!(ghost[0].contains("without having started"), "{ghost:?}");
    }

    /// Stopped before each line of the prologue in turn, and after all of them.
    #[test]
    fn a_rank_that_is_stopped_as_it_starts_says_both_lines_or_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let lines: Vec<&str> = PROLOGUE.lines().collect();
        for at in 0..=lines.len() {
            // Not into the middle of what belongs together.
            if lines.get(at).is_some_and(|l| l.starts_with(' ') || *l == "}") {
                continue;
            }
            let (before, after) = lines.split_at(at);
            let script =
                format!("{}\nkill -TERM $$\n{}\nover 0\n", before.join("\n"), after.join("\n"));
            let file = dir.path().join(at.to_string());
            let env = [("MUSTER_JOB_ID", "1"), ("MUSTER_ATTEMPT", "1"), ("RANK", "0")];
            Command::new("/bin/sh")
                .args(["-c", &script])
                .envs(env)
                .env("MUSTER_NODE", "a")
                .env_remove("CUDA_VISIBLE_DEVICES")
                .env(FILE, &file)
                .status()
                .expect("a shell");
            let said: Vec<bool> =
                read(&file).expect("good lines").iter().map(|l| l.start).collect();
            assert!(said.is_empty() || said == [true, false], "stopped before line {at}: {said:?}");
        }
    }
}
