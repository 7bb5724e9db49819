//! The map of the console: its layout, its live picture, and the same moment as a past one.

use super::Contradictions;
use super::fold::Fold;
use super::moment::MomentAnswers;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const LIVE: &str = "GET /v1/console/frames";
const LOG: &str = "the log";

/// Bytes of a frame before its columns, and of one cell in all columns.
const HEAD: usize = 32;
const CELL: usize = 16;
/// The kinds of frame that are read here, and the bit of a GPU that is held.
const WHOLE: u8 = 0;
const LAYOUT: u8 = 4;
const HELD: u8 = 1 << 7;
/// The job of a GPU that another project holds, as a tenant is shown it.
const OTHERS: u32 = u32::MAX;

/// A GPU of the picture: the job's number, its state as a number, its flags.
pub(super) type Cell = (u32, u8, u8);

/// The first frame of this kind: how many things it says that it holds, and its body.
fn frame(mut bytes: &[u8], kind: u8) -> Option<(usize, &[u8])> {
    let number = |b: &[u8]| Some(u32::from_le_bytes(b.try_into().ok()?) as usize);
    loop {
        let length = number(bytes.get(..4)?)?;
        let one = bytes.get(4..4 + length)?;
        let count = number(one.get(4..8)?)?;
        if one.get(1) == Some(&kind) {
            return Some((count, one.get(HEAD..)?));
        }
        bytes = bytes.get(4 + length..)?;
    }
}

/// Every GPU of the picture; none while it has not come whole.
pub(super) fn cells(bytes: &[u8]) -> Option<Vec<Cell>> {
    let (count, body) = frame(bytes, WHOLE)?;
    if body.len() < count * CELL {
        return None;
    }
    // Columns: job, then four of two bytes, then state and flags.
    let (states, flags) = (count * 12, count * 13);
    let cell = |i: usize| {
        let job: [u8; 4] = body[i * 4..i * 4 + 4].try_into().expect("four bytes");
        (u32::from_le_bytes(job), body[states + i], body[flags + i])
    };
    Some((0..count).map(cell).collect())
}

/// Nodes of a layout in order, each with its cells.
fn places(layout: &Value) -> Vec<(&str, usize)> {
    let nodes = layout["nodes"].as_array().into_iter().flatten();
    let gpus = |n: &Value| n["gpus"].as_u64().and_then(|g| usize::try_from(g).ok()).unwrap_or(0);
    nodes.map(|n| (n["name"].as_str().unwrap_or_default(), gpus(n))).collect()
}

/// On the map stands every node that is not gone for good.
pub(super) fn layout_and_nodes(said: &MomentAnswers, wrong: &mut Contradictions) {
    let there = said.nodes.iter().filter(|n| n["state"] != "retired");
    let listed: BTreeSet<&str> = there.filter_map(|n| n["id"].as_str()).collect();
    let shown: BTreeSet<&str> = places(&said.layout).into_iter().map(|(n, _)| n).collect();
    wrong.same(
        "which nodes there are",
        ("GET /v1/console/layout", json!(shown)),
        ("GET /v1/nodes", json!(listed)),
    );
}

/// Every GPU of the live map: the state of its node, and the job that holds it.
pub(super) fn cells_and_log(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let Some(cells) = cells(&said.live) else {
        wrong.holds(false, "there is a picture", LIVE, &json!(said.live.len()));
        return;
    };
    let mut rest = cells.into_iter();
    for (name, gpus) in places(&said.layout) {
        let held = log.held(name);
        let Some((_, node)) = log.nodes.iter().find(|(n, _)| n.as_str() == name) else { continue };
        for gpu in 0..u32::try_from(gpus.max(1)).expect("few GPUs") {
            let Some((job, state, flags)) = rest.next() else {
                wrong.holds(false, format!("there is a cell for {name}"), LIVE, &said.layout);
                return;
            };
            let reported = said.layout["states"][usize::from(state)].clone();
            let bit = |set: u64| set >> gpu.min(63) & 1 == 1;
            let why = said.nodes.iter().find(|n| n["id"] == name).map(|n| &n["no_new_work"]);
            let why = why.and_then(Value::as_str).unwrap_or_default();
            let known = match () {
                () if gpus > 0 && !bit(node.gpus.0) => "missing",
                () if bit(node.excluded.0) => "excluded",
                () if node.word() == "ready" && why == "still stopping old ranks" => "stopping",
                () if node.word() == "ready" && why.starts_with("maintenance window ") => {
                    "maintenance"
                }
                () => node.word(),
            };
            let what = format!("GPU {gpu} of {name}: its state");
            wrong.same(what, (LIVE, reported), (LOG, json!(known)));
            let holders = held.get(&gpu).cloned().unwrap_or_default();
            let what = format!("GPU {gpu} of {name}: whether it is held");
            let is_held = json!(flags & HELD != 0);
            wrong.same(what, (LIVE, is_held), (LOG, json!(!holders.is_empty())));
            // Parts of one GPU may be held by several: the picture has room for one.
            if !holders.contains(&u64::from(job)) {
                let what = format!("GPU {gpu} of {name}: who holds it");
                let known = if holders.is_empty() { json!(0) } else { json!(holders) };
                wrong.same(what, (LIVE, json!(job)), (LOG, known));
            }
        }
    }
    wrong.holds(rest.next().is_none(), "every cell has its GPU", LIVE, &said.layout);
}

/// The picture of a moment is the same, whether it is now or has passed.
pub(super) fn live_and_past(said: &MomentAnswers, wrong: &mut Contradictions) {
    let layout: Option<Value> = frame(&said.past, LAYOUT)
        .and_then(|(count, body)| serde_json::from_slice(body.get(..count)?).ok());
    let past = "GET /v1/console/past";
    let (one, other) = (said.layout.clone(), layout.unwrap_or_default());
    wrong.same("the layout of the map", ("GET /v1/console/layout", one), (past, other));
    let (live, then) = (cells(&said.live), cells(&said.past));
    wrong.same("the cells of the map", (LIVE, json!(live)), (past, json!(then)));
}

/// A tenant's picture is the operator's, but for whose the GPUs of others are.
pub(super) fn of_tenant(
    own: &Fold,
    said: &MomentAnswers,
    theirs: &MomentAnswers,
    wrong: &mut Contradictions,
) {
    let (Some(whole), Some(shown)) = (cells(&said.live), cells(&theirs.live)) else {
        wrong.holds(false, "there is a picture", LIVE, &json!(theirs.live.len()));
        return;
    };
    let mine: BTreeSet<u64> = own.jobs.keys().map(|id| id.0).collect();
    let masked = |(job, state, flags): &Cell| {
        let job = match *job {
            0 => 0,
            n if mine.contains(&u64::from(n)) => n,
            _ => OTHERS,
        };
        json!([job, state, flags & HELD != 0])
    };
    let plain = |(job, state, flags): &Cell| json!([job, state, flags & HELD != 0]);
    let whole: Vec<Value> = whole.iter().map(masked).collect();
    let shown: Vec<Value> = shown.iter().map(plain).collect();
    let operators = "the same to an operator, without others' jobs";
    wrong.same("the cells of the map", (LIVE, json!(shown)), (operators, json!(whole)));
}
