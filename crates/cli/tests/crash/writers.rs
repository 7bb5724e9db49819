//! Jobs that keep their work in a checkpoint directory. Each rank goes on from the last step that
//! it finds there and adds a line for each further one: two attempts that write at once, and a
//! step that was lost, are seen in the file.

use super::work;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Steps of each rank at least. A first attempt goes on beyond them: it is there to be lost, and
/// must still run when the lease is over, however long the way to there is.
const STEPS: u64 = 100;
/// How long ranks may go on without a server. Longer than the server takes to miss their node and
/// to be killed and started again: that is when a second attempt could start too early.
const LEASE: &str = "10s";

/// The line is one write to a file that is opened for appending. The time is the machine's since
/// its start, which no step of a clock changes.
const BODY: &str = r#"
f="$MUSTER_CHECKPOINT_DIR/steps"
i=0
while read -r attempt rank step now; do
  if [ "$rank" = "$RANK" ]; then i=$step; fi
done < "$f"
last=STEPS
if [ "$i" -ge "$last" ]; then last=$((i + 1)); fi
while [ "$MUSTER_ATTEMPT" = 1 ] || [ "$i" -lt "$last" ]; do
  i=$((i + 1))
  read -r now idle < /proc/uptime
  printf '%s %s %s %s\n' "$MUSTER_ATTEMPT" "$RANK" "$i" "$now" >> "$f"
  rest 0.2
done
over 0
"#;

/// A job with a checkpoint directory.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) name: String,
    /// One rank on each.
    pub(crate) nodes: u32,
    dir: PathBuf,
}

impl Writer {
    /// Makes its directory beside the file of the ranks.
    pub(crate) fn new(name: String, nodes: u32, file: &Path) -> Result<Writer, String> {
        let dir = file.with_file_name(&name);
        let writer = Writer { name, nodes, dir };
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        };
        // Ranks are not who runs the tests.
        std::fs::create_dir(&writer.dir)
            .and_then(|()| open(&writer.dir, 0o777))
            .and_then(|()| std::fs::write(writer.file(), ""))
            .and_then(|()| open(&writer.file(), 0o666))
            .map_err(|e| format!("{}: {e}", writer.dir.display()))?;
        Ok(writer)
    }

    fn file(&self) -> PathBuf {
        self.dir.join("steps")
    }

    /// The request body.
    pub(crate) fn spec(&self, file: &Path) -> Value {
        let gang = json!({ "nodes": self.nodes, "gpus_per_node": 2, "ranks_per_node": 1 });
        let body = BODY.replace("STEPS", &STEPS.to_string());
        let mut spec = work::script(&self.name, gang, &body, file);
        spec["checkpoint"] = json!({ "dir": self.dir, "grace": "5s" });
        spec["on_partition"] = json!({ "stop_after": LEASE });
        spec
    }

    fn lines(&self) -> Result<Vec<Step>, String> {
        let text = std::fs::read_to_string(self.file())
            .map_err(|e| format!("{}: {e}", self.file().display()))?;
        parse(&text)
    }

    /// The newest attempt of which every rank has written.
    pub(crate) fn attempt(&self) -> Result<u32, String> {
        let mut ranks: BTreeMap<u32, std::collections::BTreeSet<u32>> = BTreeMap::new();
        for line in self.lines()? {
            ranks.entry(line.attempt).or_default().insert(line.rank);
        }
        let whole = ranks.iter().filter(|(_, r)| r.len() == self.nodes as usize);
        Ok(whole.map(|(attempt, _)| *attempt).max().unwrap_or(0))
    }

    /// What must not be in its file; `done`: it has succeeded, so that every step is there.
    pub(crate) fn problems(&self, done: bool) -> Result<Vec<String>, String> {
        let found = problems(&self.lines()?, done.then_some(self.nodes));
        Ok(found.into_iter().map(|p| format!("{}: {p}", self.name)).collect())
    }
}

/// One line.
#[derive(Debug, Clone, Copy)]
struct Step {
    attempt: u32,
    rank: u32,
    step: u64,
    /// Hundredths of a second since the machine started.
    at: u64,
}

fn parse(text: &str) -> Result<Vec<Step>, String> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let line = |l: &str| {
        let words: Vec<&str> = l.split(' ').collect();
        let [attempt, rank, step, at] = words.as_slice() else { return None };
        // The kernel writes two digits.
        let (seconds, hundredths) = at.split_once('.')?;
        let at = seconds.parse::<u64>().ok()? * 100 + hundredths.parse::<u64>().ok()?;
        let (attempt, rank) = (attempt.parse().ok()?, rank.parse().ok()?);
        Some(Step { attempt, rank, step: step.parse().ok()?, at })
    };
    let bad = |l: &str| format!("a rank wrote a step that makes no sense: `{l}`");
    whole.lines().map(|l| line(l).ok_or_else(|| bad(l))).collect()
}

/// `ranks`: so many have succeeded.
fn problems(lines: &[Step], ranks: Option<u32>) -> Vec<String> {
    let mut out = Vec::new();
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    let mut spans: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for line in lines {
        let before = last.insert(line.rank, line.step).unwrap_or(0);
        if line.step != before + 1 {
            let Step { attempt, rank, step, .. } = line;
            out.push(format!("attempt {attempt}, rank {rank}: step {step} after step {before}"));
        }
        let span = spans.entry(line.attempt).or_insert((line.at, line.at));
        *span = (span.0.min(line.at), span.1.max(line.at));
    }
    for ((old, (_, end)), (new, (begin, _))) in spans.iter().zip(spans.iter().skip(1)) {
        if end > begin {
            out.push(format!(
                "two writers: attempt {old} wrote until {end}, attempt {new} from {begin} on \
                 (hundredths of a second)"
            ));
        }
    }
    for rank in 0..ranks.unwrap_or(0) {
        let step = last.get(&rank).copied().unwrap_or(0);
        if step < STEPS {
            out.push(format!("it succeeded, and the last step of rank {rank} is {step}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str], ranks: Option<u32>) -> Vec<String> {
        let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
        problems(&parse(&text).expect("good lines"), ranks)
    }

    #[test]
    fn one_attempt_after_the_other_is_sound() {
        let sound = ["1 0 1 10.00", "1 1 1 10.00", "1 0 2 10.20", "2 0 3 30.00", "2 1 2 30.00"];
        assert_eq!(of(&sound, None), Vec::<String>::new());
        let all: Vec<String> = (1..=STEPS).map(|n| format!("1 0 {n} 1.00")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(of(&all, Some(1)), Vec::<String>::new());
        assert!(parse("1 0 1 10.0").is_ok_and(|l| l.is_empty()), "no whole line yet");
    }

    #[test]
    fn two_writers_and_lost_steps_are_seen() {
        let twice = of(&["1 0 1 10.00", "2 0 2 10.10", "1 0 2 10.20"], None);
        assert!(twice.iter().any(|p| p.contains("two writers: attempt 1")), "{twice:?}");
        assert!(twice.iter().any(|p| p.contains("step 2 after step 2")), "{twice:?}");
        let lost = of(&["1 0 1 10.00", "2 0 3 20.00"], None);
        assert!(lost[0].contains("step 3 after step 1"), "{lost:?}");
        let short = of(&["1 0 1 10.00"], Some(2));
        assert!(short[0].contains("rank 0 is 1") && short[1].contains("rank 1 is 0"), "{short:?}");
        assert!(parse("1 0 x 10.00\n").is_err());
    }
}
