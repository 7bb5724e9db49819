//! The log at rest, read record by record.

use super::audit::none_of;
use muster_engine::State;
use muster_model::event::{Event, Record};
use muster_model::ids::Seq;
use muster_store::{Snapshot, Store, StoreUrl};
use serde_json::Value;
use std::io::Read;

/// Thorough looks at the state: each rebuilds every index, and costs what the log has grown to.
const LOOKS: usize = 1500;
/// Records that may come between the last page of events and the server's end.
const LATE: usize = 100;

/// The whole log is dense, adds up after every record, is what the API shows, and equals the
/// newest snapshot with what came after it. Blocks: the store does.
pub(crate) fn check(store: &StoreUrl, reported: &[Value]) -> Result<usize, String> {
    let mut store =
        muster_store::open(store).map_err(|e| format!("the store does not open: {e}"))?;
    let records = read(&mut *store)?;
    let mut problems = compare(&records, reported)?;
    let snapshot = store.latest_snapshot().map_err(|e| format!("the snapshot: {e}"))?;
    let (state, resumed) = fold(&records, snapshot.as_ref(), &mut problems)?;
    let (second, _) = fold(&records, None, &mut Vec::new())?;
    if state.digest() != second.digest() {
        problems.push("two folds of one log differ".into());
    }
    match resumed {
        Some(s) if s.digest() != state.digest() => {
            problems.push("the snapshot and what came after it differ from the whole log".into());
        }
        None => problems.push("no snapshot was ever written".into()),
        Some(_) => {}
    }
    none_of(&problems)?;
    Ok(records.len())
}

fn read(store: &mut dyn Store) -> Result<Vec<Record>, String> {
    let mut records: Vec<Record> = Vec::new();
    loop {
        let after = records.last().map_or(Seq(0), |r| r.seq);
        let page = store.read(after, 4096).map_err(|e| format!("the log cannot be read: {e}"))?;
        if page.is_empty() {
            return Ok(records);
        }
        for entry in page {
            let record: Record = serde_json::from_slice(&entry.body)
                .map_err(|e| format!("record {} cannot be read: {e}", entry.seq))?;
            let place = u64::try_from(records.len()).unwrap_or(u64::MAX) + 1;
            if record.seq != Seq(place) || entry.seq != Seq(place) {
                return Err(format!("record {place} of the log calls itself {}", record.seq));
            }
            records.push(record);
        }
    }
}

/// What the API shows of the log is the log.
fn compare(records: &[Record], reported: &[Value]) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for (record, event) in records.iter().zip(reported) {
        let shown = serde_json::to_value(muster_api::Event::of(record))
            .map_err(|e| format!("record {} cannot be shown: {e}", record.seq))?;
        for field in ["seq", "at", "kind", "origin", "project", "actor", "data"] {
            if shown[field] != event[field] {
                let (is, reported) = (&shown[field], &event[field]);
                problems.push(format!(
                    "{field} of record {}: {is}, the API showed {reported}",
                    record.seq
                ));
            }
        }
    }
    if reported.len() > records.len() || reported.len() + LATE < records.len() {
        problems.push(format!("the API showed {} events of {}", reported.len(), records.len()));
    }
    Ok(problems)
}

/// Adds the records up, from the start and from the snapshot on.
fn fold(
    records: &[Record],
    snapshot: Option<&Snapshot>,
    problems: &mut Vec<String>,
) -> Result<(State, Option<State>), String> {
    let mut state = State::default();
    let mut resumed: Option<State> = None;
    let every = records.len().div_ceil(LOOKS).max(1);
    let mut ending = None;
    for (n, record) in records.iter().enumerate() {
        problems.extend(held_twice(&state, record));
        let epoch = state.epoch;
        state.apply(record).map_err(|e| format!("record {} does not follow: {e}", record.seq))?;
        if state.epoch < epoch {
            problems.push(format!("record {} goes back to an older leader", record.seq));
        }
        if let Some(s) = &mut resumed {
            s.apply(record).map_err(|e| format!("record {}, snapshot: {e}", record.seq))?;
        }
        if let Some(s) = snapshot.filter(|s| s.seq == record.seq) {
            resumed = Some(unpack(s)?);
        }
        // The end of an attempt and what follows for its job are one decision in several records.
        match &record.event {
            Event::AttemptEnded { key, .. } => ending = Some(key.job),
            Event::JobSucceeded { job }
            | Event::JobFailed { job, .. }
            | Event::JobCancelled { job, .. }
            | Event::JobRequeued { job, .. }
                if ending == Some(*job) =>
            {
                ending = None;
            }
            _ => {}
        }
        if (n % every == 0 && ending.is_none()) || n + 1 == records.len() {
            let found = state.problems().into_iter();
            problems.extend(found.map(|p| format!("after record {}: {p}", record.seq)));
        }
    }
    Ok((state, resumed))
}

/// A placement on GPUs that another attempt still holds.
fn held_twice(state: &State, record: &Record) -> Vec<String> {
    let Event::JobPlaced { key, placement } = &record.event else { return Vec::new() };
    let mut found = Vec::new();
    for slot in &placement.slots {
        for gpu in state.used_gpus(&slot.node).and(slot.gpus).iter() {
            found.push(format!(
                "record {} gives gpu {gpu} of {} to {key}, and somebody holds it",
                record.seq, slot.node
            ));
        }
    }
    found
}

fn unpack(snapshot: &Snapshot) -> Result<State, String> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&snapshot.body[..])
        .read_to_end(&mut bytes)
        .map_err(|e| format!("the snapshot does not unpack: {e}"))?;
    State::from_bytes(snapshot.format, &bytes).map_err(|e| format!("the snapshot: {e}"))
}
