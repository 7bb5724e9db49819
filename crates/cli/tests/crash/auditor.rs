//! An auditor of the log at rest that shares no code with the server: plain SQL, plain JSON, and
//! rules of its own. What the server's own code makes of the same log is looked at in `log`.

use super::audit::none_of;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A row of the log: its number, its time and what it says.
pub(crate) type Row = (i64, i64, Vec<u8>);

/// What the head of the log says: first number that is not archived less one, last number, and
/// the leader's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    base: i64,
    last: i64,
    epoch: i64,
}

/// A submission that was acknowledged, and the end that it must have, where only one is right.
#[derive(Debug, Clone)]
pub(crate) struct Submitted {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) end: Option<&'static str>,
}

const HEAD: &str = "SELECT base_seq, seq, epoch FROM head";
const LOG: &str = "SELECT seq, at, body FROM log ORDER BY seq";

/// The log of a file of SQLite.
pub(crate) fn read_sqlite(path: &Path) -> Result<(Head, Vec<Row>), String> {
    sqlite(path).map_err(|e| format!("the auditor reads {}: {e}", path.display()))
}

fn sqlite(path: &Path) -> Result<(Head, Vec<Row>), rusqlite::Error> {
    // Without the flag that makes a file where there is none.
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    let db = rusqlite::Connection::open_with_flags(path, flags)?;
    let head = db
        .query_row(HEAD, [], |r| Ok(Head { base: r.get(0)?, last: r.get(1)?, epoch: r.get(2)? }))?;
    let mut query = db.prepare(LOG)?;
    let mut found = query.query([])?;
    let mut rows: Vec<Row> = Vec::new();
    while let Some(r) = found.next()? {
        rows.push((r.get(0)?, r.get(1)?, r.get(2)?));
    }
    Ok((head, rows))
}

/// The log of a database of PostgreSQL.
pub(crate) fn read_postgres(url: &str) -> Result<(Head, Vec<Row>), String> {
    database(url).map_err(|e| format!("the auditor reads the database: {e}"))
}

fn database(url: &str) -> Result<(Head, Vec<Row>), postgres::Error> {
    let mut db = postgres::Client::connect(url, postgres::NoTls)?;
    let head = db.query_one(HEAD, &[])?;
    let head = Head { base: head.get(0), last: head.get(1), epoch: head.get(2) };
    let found = db.query(LOG, &[])?;
    let rows: Vec<Row> = found.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect();
    Ok((head, rows))
}

/// Goes through the log and says what must not be in it.
pub(crate) fn check(head: Head, rows: &[Row], acked: &[Submitted]) -> Result<(), String> {
    let mut books = JobAudit::default();
    if head.base != 0 {
        books.problem(0, format!("the log begins after {}: nothing was archived", head.base));
    }
    let (mut last, mut time) = (0, i64::MIN);
    for (seq, at, body) in rows {
        if *seq != last + 1 {
            books.problem(*seq, format!("it follows {last}"));
        }
        if *at < time {
            books.problem(*seq, format!("its time {at} is before {time}"));
        }
        (last, time) = (*seq, *at);
        match serde_json::from_slice::<Value>(body) {
            Ok(record) => books.enter(*seq, *at, &record),
            Err(e) => books.problem(*seq, format!("it is not JSON: {e}")),
        }
    }
    if head.last != last {
        books.problem(last, format!("the log ends here, and its head says {}", head.last));
    }
    if head.epoch < books.epoch {
        books.problem(last, format!("epoch {} after {}", head.epoch, books.epoch));
    }
    books.close(acked);
    none_of(&books.problems)
}

/// What became of a job.
#[derive(Debug, Default)]
struct Job {
    name: String,
    /// Attempts that were placed, and the record that ended each.
    attempts: BTreeMap<u64, Option<i64>>,
    /// How it ended, and in which record.
    end: Option<(&'static str, i64)>,
}

/// Everything that the log says about jobs, entered record by record.
#[derive(Debug, Default)]
struct JobAudit {
    jobs: BTreeMap<u64, Job>,
    names: BTreeSet<String>,
    /// Keys of requests, and the record that carries each.
    keys: BTreeMap<String, i64>,
    /// Which attempt holds a GPU of a node.
    held: BTreeMap<(String, u32), (u64, u64)>,
    epoch: i64,
    problems: Vec<String>,
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl JobAudit {
    fn problem(&mut self, seq: i64, what: impl std::fmt::Display) {
        self.problems.push(format!("auditor, record {seq}: {what}"));
    }

    fn enter(&mut self, seq: i64, at: i64, record: &Value) {
        if record["seq"].as_i64() != Some(seq) || record["at"].as_i64() != Some(at) {
            self.problem(seq, format!("it calls itself {} of {}", record["seq"], record["at"]));
        }
        if let Some(key) = record["key"]["key"].as_str()
            && let Some(first) = self.keys.insert(key.to_owned(), seq)
        {
            self.problem(seq, format!("the request `{key}` was carried out in record {first}"));
        }
        let data = &record["data"];
        let job = match &data["job"] {
            Value::Null => number(&data["key"]["job"]),
            job => number(job),
        };
        let key = (job, number(&data["key"]["attempt"]));
        match record["kind"].as_str().unwrap_or_default() {
            "" => self.problem(seq, "it has no kind"),
            "leader_changed" => self.lead(seq, data["epoch"].as_i64().unwrap_or(0)),
            "job_submitted" => self.submitted(seq, data),
            "job_placed" => self.placed(seq, key, &data["placement"]["slots"]),
            "slot_started" | "attempt_started" => self.goes_on(seq, key),
            // What is on a lost node can be given to nobody; the ranks' own lines show the rest.
            "slot_ended" | "slot_lost" => self.release(key, data["node"].as_str()),
            "attempt_ended" => self.attempt_ended(seq, key),
            "job_requeued" => self.open(seq, job, "queued again"),
            "job_succeeded" => self.ended(seq, job, "succeeded"),
            "job_failed" => self.ended(seq, job, "failed"),
            "job_cancelled" => self.ended(seq, job, "cancelled"),
            _ => {}
        }
    }

    fn lead(&mut self, seq: i64, epoch: i64) {
        if epoch < self.epoch {
            self.problem(seq, format!("a leader of epoch {epoch} after one of {}", self.epoch));
        }
        self.epoch = epoch;
    }

    fn submitted(&mut self, seq: i64, data: &Value) {
        let (id, name) = (number(&data["id"]), text(&data["name"]));
        if !self.names.insert(name.clone()) {
            self.problem(seq, format!("a second job is called {name}"));
        }
        let job = Job { name, ..Job::default() };
        if id == 0 || self.jobs.insert(id, job).is_some() {
            self.problem(seq, format!("a second job has the number {id}"));
        }
    }

    /// Nothing happens to a job that has ended, or never was.
    fn open(&mut self, seq: i64, job: u64, what: &str) {
        match self.jobs.get(&job).map(|j| j.end) {
            Some(None) => {}
            Some(Some((end, at))) => {
                self.problem(seq, format!("job {job} is {what}, and {end} since record {at}"));
            }
            None => self.problem(seq, format!("job {job} is {what}, and nobody submitted it")),
        }
    }

    fn ended(&mut self, seq: i64, job: u64, end: &'static str) {
        self.open(seq, job, end);
        let Some(j) = self.jobs.get_mut(&job) else { return };
        j.end = Some((end, seq));
        let open = j.attempts.iter().find(|(_, ended)| ended.is_none()).map(|(no, _)| *no);
        if let Some(no) = open {
            self.problem(seq, format!("job {job} is {end}, and its attempt {no} is not over"));
        }
    }

    fn placed(&mut self, seq: i64, key: (u64, u64), slots: &Value) {
        let (job, attempt) = key;
        self.open(seq, job, "placed");
        if let Some(j) = self.jobs.get_mut(&job) {
            let last = j.attempts.last_key_value().map(|(no, ended)| (*no, ended.is_some()));
            j.attempts.insert(attempt, None);
            if attempt != last.map_or(0, |(no, _)| no) + 1 {
                self.problem(seq, format!("attempt {attempt} of job {job} follows {last:?}"));
            } else if last.is_some_and(|(_, over)| !over) {
                self.problem(seq, format!("attempt {attempt} of job {job}: the last goes on"));
            }
        }
        for slot in slots.as_array().into_iter().flatten() {
            let (node, set) = (text(&slot["node"]), number(&slot["gpus"]));
            for gpu in (0..64u32).filter(|gpu| (set >> gpu) & 1 == 1) {
                let before = self.held.insert((node.clone(), gpu), key);
                if let Some((j, a)) = before.filter(|k| *k != key) {
                    let what = format!("gpu {gpu} of {node} is given to {job}.{attempt}");
                    self.problem(seq, format!("{what}, and {j}.{a} holds it"));
                }
            }
        }
    }

    /// An attempt that is over does not start.
    fn goes_on(&mut self, seq: i64, (job, attempt): (u64, u64)) {
        let known = self.jobs.get(&job).and_then(|j| j.attempts.get(&attempt)).copied();
        match known {
            Some(None) => {}
            Some(Some(at)) => {
                self.problem(seq, format!("{job}.{attempt} starts, and ended in record {at}"));
            }
            None => self.problem(seq, format!("{job}.{attempt} starts, and was never placed")),
        }
    }

    fn attempt_ended(&mut self, seq: i64, key: (u64, u64)) {
        let (job, attempt) = key;
        match self.jobs.get(&job).and_then(|j| j.attempts.get(&attempt)).copied() {
            Some(None) => {
                let job = self.jobs.entry(job).or_default();
                job.attempts.insert(attempt, Some(seq));
            }
            Some(Some(at)) => {
                self.problem(seq, format!("{job}.{attempt} ends, as it did in record {at}"));
            }
            None => self.problem(seq, format!("{job}.{attempt} ends, and was never placed")),
        }
        self.release(key, None);
    }

    /// An attempt holds nothing any more, there or anywhere.
    fn release(&mut self, key: (u64, u64), node: Option<&str>) {
        self.held.retain(|(n, _), holder| *holder != key || node.is_some_and(|node| node != n));
    }

    /// At the end: every acknowledged submission is there, once, and ended as it had to; and
    /// every attempt is over.
    fn close(&mut self, acked: &[Submitted]) {
        let mut found = Vec::new();
        for a in acked {
            let Some(job) = self.jobs.get(&a.number) else {
                found.push(format!("job {} ({}) was acknowledged and is gone", a.number, a.name));
                continue;
            };
            if job.name != a.name {
                found.push(format!("job {} is {}, and was {}", a.number, job.name, a.name));
            }
            let end = job.end.map(|(end, _)| end);
            if end.is_none() || a.end.is_some_and(|right| end != Some(right)) {
                found.push(format!("job {} ({}) ended {end:?}, not {:?}", a.number, a.name, a.end));
            }
        }
        for (id, job) in &self.jobs {
            if let Some((no, _)) = job.attempts.iter().find(|(_, ended)| ended.is_none()) {
                found.push(format!("attempt {no} of job {id} has no end"));
            }
        }
        if let Some(((node, gpu), (job, attempt))) = self.held.first_key_value() {
            found.push(format!("gpu {gpu} of {node} is held by {job}.{attempt} for ever"));
        }
        self.problems.extend(found.into_iter().map(|p| format!("auditor, at the end: {p}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A log of these events.
    fn log(events: &[(&str, Value)]) -> Vec<Row> {
        let rows = events.iter().zip(1i64..).map(|((kind, data), seq)| {
            let record = json!({ "seq": seq, "at": seq * 10, "kind": kind, "data": data });
            (seq, seq * 10, record.to_string().into_bytes())
        });
        rows.collect()
    }

    fn of(rows: &[Row]) -> String {
        let last = rows.last().map_or(0, |r| r.0);
        let acked = [Submitted { number: 1, name: "a".into(), end: Some("succeeded") }];
        check(Head { base: 0, last, epoch: 2 }, rows, &acked).err().unwrap_or_default()
    }

    fn key(attempt: u64) -> Value {
        json!({ "job": 1, "attempt": attempt })
    }

    fn placed(attempt: u64) -> (&'static str, Value) {
        let slots = json!([{ "node": "n", "gpus": 5 }]);
        ("job_placed", json!({ "key": key(attempt), "placement": { "slots": slots } }))
    }

    fn over(attempt: u64) -> (&'static str, Value) {
        ("attempt_ended", json!({ "key": key(attempt) }))
    }

    fn sound() -> Vec<(&'static str, Value)> {
        vec![
            ("leader_changed", json!({ "epoch": 1 })),
            ("job_submitted", json!({ "id": 1, "name": "a" })),
            placed(1),
            ("attempt_started", json!({ "key": key(1) })),
            over(1),
            ("job_requeued", json!({ "job": 1 })),
            ("leader_changed", json!({ "epoch": 2 })),
            placed(2),
            ("slot_started", json!({ "key": key(2), "node": "n" })),
            ("slot_ended", json!({ "key": key(2), "node": "n" })),
            over(2),
            ("job_succeeded", json!({ "job": 1 })),
        ]
    }

    #[test]
    fn a_sound_log_is_not_complained_about() {
        assert_eq!(of(&log(&sound())), "");
    }

    #[test]
    fn every_violation_of_a_job_is_seen() {
        let end = sound().len();
        let with = |at: usize, events: &[(&'static str, Value)]| {
            let mut all = sound();
            drop(all.splice(at..at, events.iter().cloned()));
            of(&log(&all))
        };
        let again = ("job_submitted", json!({ "id": 1, "name": "a" }));
        let cases = [
            (2, vec![again.clone()], "a second job has the number 1"),
            (2, vec![again], "a second job is called a"),
            (end, vec![placed(3), over(3)], "job 1 is placed, and succeeded since record 12"),
            (end, vec![("job_requeued", json!({ "job": 1 }))], "job 1 is queued again"),
            (end, vec![("job_failed", json!({ "job": 1 }))], "job 1 is failed, and succeeded"),
            (end, vec![("job_failed", json!({ "job": 9 }))], "nobody submitted it"),
            (5, vec![over(1)], "1.1 ends, as it did in record 5"),
            (5, vec![("slot_started", json!({ "key": key(1) }))], "1.1 starts, and ended"),
            (4, vec![placed(2)], "the last goes on"),
            (6, vec![placed(4), over(4)], "attempt 4 of job 1 follows"),
            (6, vec![("leader_changed", json!({ "epoch": 0 }))], "a leader of epoch 0 after"),
        ];
        for (at, events, says) in cases {
            let said = with(at, &events);
            assert!(said.contains(says), "{says}: {said}");
        }
        let other = json!({ "job": 2, "attempt": 1 });
        let slots = json!([{ "node": "n", "gpus": 4 }]);
        let shared = [
            ("job_submitted", json!({ "id": 2, "name": "b" })),
            ("job_placed", json!({ "key": other, "placement": { "slots": slots } })),
        ];
        let said = with(4, &shared);
        assert!(said.contains("gpu 2 of n is given to 2.1, and 1.1 holds it"), "{said}");
        assert!(said.contains("attempt 1 of job 2 has no end"), "{said}");
    }

    #[test]
    fn a_log_with_a_hole_a_lost_end_or_a_lost_job_is_seen() {
        let whole = log(&sound());
        let mut hole = whole.clone();
        hole.remove(3);
        assert!(of(&hole).contains("record 5: it follows 3"), "{}", of(&hole));
        let short = check(Head { base: 0, last: 12, epoch: 2 }, &whole[..11], &[]);
        assert!(short.is_err_and(|e| e.contains("its head says 12")));
        let lost = Submitted { number: 7, name: "x".into(), end: None };
        let gone = check(Head { base: 0, last: 12, epoch: 2 }, &whole, &[lost]);
        assert!(gone.is_err_and(|e| e.contains("job 7 (x) was acknowledged and is gone")));
        let mut back = whole.clone();
        back[5].1 = 1;
        assert!(of(&back).contains("is before"), "{}", of(&back));
        let mut torn = whole;
        torn[5].2.truncate(3);
        assert!(of(&torn).contains("it is not JSON"), "{}", of(&torn));
    }
}
