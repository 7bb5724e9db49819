//! `ps`, `describe`, `explain` and the report of a job.

use super::Contradictions;
use super::fold::Fold;
use super::moment::MomentAnswers;
use muster_api::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const LIST: &str = "GET /v1/jobs";
const LOG: &str = "the log";

fn text<'a>(v: &'a Value, field: &str) -> &'a str {
    v[field].as_str().unwrap_or_default()
}

/// Words without those that have a number in them: moments and lengths of time go on between two
/// questions.
pub(super) fn timeless(text: &str) -> String {
    let words = text.split_whitespace().filter(|w| !w.contains(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// Which jobs there are, where each stands, how it ended, what it holds.
pub(super) fn list_and_log(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let listed: BTreeSet<&str> = said.jobs.iter().map(|j| text(j, "id")).collect();
    let known: BTreeSet<&str> = log.jobs.values().map(|j| j.name.as_str()).collect();
    wrong.same("which jobs there are", (LIST, json!(listed)), (LOG, json!(known)));
    for job in log.jobs.values() {
        let Some(shown) = said.jobs.iter().find(|j| text(j, "id") == job.name) else { continue };
        let slots = job.attempt.iter().flat_map(|a| {
            a.placement.slots.iter().zip(&a.slots).map(|(slot, at)| {
                let gpus: Vec<u32> = slot.gpus.iter().collect();
                json!([slot.node.as_str(), gpus, format!("{at:?}").to_lowercase()])
            })
        });
        let parts = [
            ("state", shown["state"].clone(), json!(job.state)),
            ("being held", json!(!shown["held"].is_null()), json!(job.held)),
            ("attempts", shown["attempts"].clone(), json!(job.attempts)),
            ("submission", shown["submitted_at"].clone(), json!(Timestamp(job.submitted_at))),
            ("end", shown["ended_at"].clone(), json!(job.ended_at.map(Timestamp))),
            ("reason", shown["reason"].clone(), json!(job.reason)),
            ("exit code", shown["exit_code"].clone(), json!(job.exit_code)),
            ("attempt", shown["attempt"]["no"].clone(), json!(job.attempt.as_ref().map(|a| a.no))),
        ];
        for (part, says, known) in parts {
            wrong.same(format!("job {}: its {part}", job.name), (LIST, says), (LOG, known));
        }
        let reported = shown["attempt"]["slots"].as_array().cloned().unwrap_or_default();
        let reported: Vec<Value> =
            reported.iter().map(|s| json!([s["node"], s["gpus"], s["state"]])).collect();
        let what = format!("job {}: its ranks by node", job.name);
        wrong.same(what, (LIST, json!(reported)), (LOG, slots.collect()));
    }
}

/// `ps` and `describe` show the same job; only why it waits may be said at greater length, and what
/// ranks reported is shown alone.
pub(super) fn list_and_description(said: &MomentAnswers, wrong: &mut Contradictions) {
    for listed in &said.jobs {
        let name = text(listed, "id");
        let Some(described) = said.described.get(name) else { continue };
        let (mut one, mut other) = (listed.clone(), described.clone());
        for v in [&mut one, &mut other] {
            v["waiting"].take();
            v["progress"].take();
        }
        // One that passes between the two questions is shown by the first answer alone.
        if other["reserved_start"].is_null() {
            one["reserved_start"].take();
        }
        let who = format!("GET /v1/jobs/{name}");
        wrong.same(format!("job {name}"), (LIST, one), (&who, other));
    }
}

/// Words that `ps --state` takes.
pub(super) const WORDS: [&str; 9] = [
    "queued",
    "starting",
    "running",
    "stopping",
    "succeeded",
    "failed",
    "cancelled",
    "held",
    "active",
];

/// Jobs that are asked for by their state are those that the whole list shows so; an array in short
/// shows its tasks as the list does.
pub(super) fn parts_of_the_list(said: &MomentAnswers, wrong: &mut Contradictions) {
    for (word, found) in &said.jobs_in {
        let fits = |j: &&Value| match word.as_str() {
            "held" => j["state"] == "queued" && !j["held"].is_null(),
            "active" => j["ended_at"].is_null(),
            state => j["state"] == state,
        };
        let whole: BTreeSet<&str> = said.jobs.iter().filter(fits).map(|j| text(j, "id")).collect();
        let found: BTreeSet<&str> = found.iter().map(|j| text(j, "id")).collect();
        let who = format!("{LIST}?state={word}");
        wrong.same(format!("which jobs are {word}"), (LIST, json!(whole)), (&who, json!(found)));
    }
    for (number, array) in &said.arrays {
        let who = format!("GET /v1/jobs/{number}/array");
        let items = array["items"].as_array().cloned().unwrap_or_default();
        wrong.same(
            format!("array {number}: how many tasks"),
            (&who, array["count"].clone()),
            (&who, json!(items.len())),
        );
        let one = |j: &Value| (text(j, "id").to_owned(), text(j, "state").to_owned());
        let tasks: BTreeSet<(String, String)> = items.iter().map(one).collect();
        let mine = |j: &&Value| j["array"]["parent"].as_u64() == number.parse().ok();
        let listed: BTreeSet<(String, String)> = said.jobs.iter().filter(mine).map(one).collect();
        wrong.same(format!("array {number}"), (&who, json!(tasks)), (LIST, json!(listed)));
    }
}

/// What must be true of a job in its state.
pub(super) fn state_and_parts(said: &MomentAnswers, wrong: &mut Contradictions) {
    for job in said.jobs.iter().chain(said.described.values()) {
        let (name, state) = (text(job, "id"), text(job, "state"));
        let over = ["succeeded", "failed", "cancelled"].contains(&state);
        let active = ["starting", "running", "stopping"].contains(&state);
        let mut rule = |ok: bool, what: &str| {
            wrong.holds(ok, format!("job {name} is {state}: {what}"), "GET /v1/jobs", job);
        };
        rule(over || active || state == "queued", "its state is none");
        rule(over != job["ended_at"].is_null(), "it has an end exactly when it is over");
        rule(over || job["exit_code"].is_null(), "only what is over has an exit code");
        rule(active != job["attempt"].is_null(), "it has an attempt exactly while it is active");
        rule(
            (state == "queued") != job["waiting"].is_null(),
            "it waits exactly while it is queued",
        );
        // Where it goes on with other nodes, they are kept for it while its ranks still stop; a
        // gang that is resized may be warned beforehand, and runs until it has a checkpoint.
        let basis = text(&job["reserved_start"], "basis");
        let kept = match state {
            "queued" => true,
            "stopping" => ["swap", "resize"].contains(&basis),
            "running" => basis == "resize" && !job["attempt"]["notice"].is_null(),
            _ => false,
        };
        rule(kept || job["reserved_start"].is_null(), "a start is reserved for waiting jobs");
        rule(state != "running" || !job["started_at"].is_null(), "what runs has started");
        rule(!active || job["attempt"]["state"] == job["state"], "its attempt stands elsewhere");
        rule(!active || job["attempt"]["no"] == job["attempts"], "it has more attempts than these");
    }
}

/// `explain` says why a job waits, with the words of `describe` and `ps`, or that it does not.
pub(super) fn explanation(said: &MomentAnswers, wrong: &mut Contradictions) {
    for listed in &said.jobs {
        let name = text(listed, "id");
        let (Some(described), Some(explained)) =
            (said.described.get(name), said.explained.get(name))
        else {
            continue;
        };
        let (explain, describe) =
            (format!("GET /v1/jobs/{name}/explain"), format!("GET /v1/jobs/{name}"));
        let (state, summary) = (text(listed, "state"), text(explained, "summary"));
        let held = !listed["held"].is_null();
        let word = text(explained, "state");
        let known = match state {
            "queued" if held => word == "held",
            "stopping" => ["stopping", "ending"].contains(&word),
            other => word == other,
        };
        wrong.holds(known, format!("job {name} is {state}: its state"), &explain, explained);
        if state != "queued" {
            let waits = !explained["estimated_start"].is_null()
                || explained["ahead_count"] != json!(0)
                || !explained["would_go"].is_null()
                || !explained["possible"].as_bool().unwrap_or(false);
            let what = format!("job {name} is {state}: it does not wait for anything");
            wrong.holds(!waits, what, &explain, explained);
        }
        if ["succeeded", "failed", "cancelled"].contains(&state) {
            let why = text(listed, "reason");
            let reported = summary.contains(state) && summary.contains(why);
            let what = format!("job {name} is {state}, because of `{why}`: both are reported");
            wrong.holds(reported, what, &explain, explained);
        }
        if state == "queued" && held {
            let by = text(listed, "held");
            let what = format!("job {name}: who holds it");
            wrong.holds(summary.contains(by), &what, &explain, explained);
            wrong.same(
                &what,
                (LIST, listed["waiting"].clone()),
                (&describe, described["waiting"].clone()),
            );
        }
        if state == "queued" && !held {
            let says = json!(timeless(summary));
            let same = json!(timeless(text(described, "waiting")));
            wrong.same(
                format!("job {name}: why it waits"),
                (&describe, same),
                (&explain, says.clone()),
            );
            // A list says the very reason, or only that it is room.
            let waiting = text(listed, "waiting");
            let short = ["waits for free capacity", "reserved start", "is tried again"];
            if !short.iter().any(|s| waiting.starts_with(s)) {
                let same = json!(timeless(waiting));
                wrong.same(format!("job {name}: why it waits"), (LIST, same), (&explain, says));
            }
            // Where it is free capacity, a list says what the explanation begins with.
            let capacity = "waits for free capacity";
            if waiting.starts_with(capacity) {
                let begins = [capacity, "there is free capacity: it starts in the next cycle"];
                let same = begins.iter().any(|b| summary.starts_with(b));
                wrong.holds(same, format!("job {name}: {waiting}"), &explain, explained);
            }
        }
    }
}

/// A reserved start is the late end that `explain` gives, to the moment.
pub(super) fn reserved_starts(said: &MomentAnswers, wrong: &mut Contradictions) {
    for (name, explained) in &said.explained {
        let Some(described) = said.described.get(name) else { continue };
        let (reserved, start) = (&described["reserved_start"], &explained["estimated_start"]);
        if described["state"] != "queued" || reserved.is_null() || start.is_null() {
            continue;
        }
        let parts = |at: &Value, reserved: &Value| json!([at, reserved]);
        wrong.same(
            format!("job {name}: its reserved start"),
            (&format!("GET /v1/jobs/{name}"), parts(&reserved["at"], &json!(true))),
            (&format!("GET /v1/jobs/{name}/explain"), parts(&start["at"], &start["reserved"])),
        );
    }
}

/// What can never start does not wait for room.
pub(super) fn never_is_not_for_want_of_room(said: &MomentAnswers, wrong: &mut Contradictions) {
    for listed in said.jobs.iter().filter(|j| j["state"] == "queued" && j["held"].is_null()) {
        let name = text(listed, "id");
        let Some(explained) = said.explained.get(name) else { continue };
        if explained["possible"] == json!(false) {
            let waiting = text(listed, "waiting");
            let room = waiting.starts_with("waits for free capacity")
                || !listed["reserved_start"].is_null();
            let what = format!("job {name} can never start ({})", explained["summary"]);
            wrong.holds(!room, what, LIST, &listed["waiting"]);
        }
    }
}

/// The report of a job counts the attempts that the job has.
pub(super) fn reports_of_jobs(said: &MomentAnswers, wrong: &mut Contradictions) {
    for (name, report) in &said.reported {
        let Some(described) = said.described.get(name) else { continue };
        let (one, other) = (format!("GET /v1/jobs/{name}/report"), format!("GET /v1/jobs/{name}"));
        for (field, there) in [
            ("state", "state"),
            ("number", "number"),
            ("attempts_made", "attempts"),
            ("project", "project"),
            ("user", "user"),
        ] {
            let (a, b) = (report[field].clone(), described[there].clone());
            wrong.same(format!("job {name}: its {there}"), (&one, a), (&other, b));
        }
        // Both end with its last rank.
        let early =
            described["ended_at"].is_null() || text(report, "until") <= text(described, "ended_at");
        wrong.holds(early, format!("job {name} has no time after its end"), &one, report);
        let parts = report["time_ms"].as_object().into_iter().flatten();
        let sum: u64 = parts.filter_map(|(_, v)| v.as_u64()).sum();
        let what = format!("job {name}: its parts of time together");
        wrong.same(what, (&one, json!(sum)), (&one, report["wall_ms"].clone()));
        if report["complete"] == json!(true) {
            let (a, b) = (report["since"].clone(), described["submitted_at"].clone());
            wrong.same(format!("job {name}: its submission"), (&one, a), (&other, b));
        }
    }
}

/// Where the GPU time of a project went is the same by the reports of its jobs and by that of the fleet, once all
/// of its jobs have ended: what goes on grows between two questions.
pub(super) fn reports_of_jobs_and_fleet(
    log: &Fold,
    said: &MomentAnswers,
    wrong: &mut Contradictions,
) {
    let fleet = "GET /v1/reports/fleet";
    for row in said.fleet["projects"].as_array().into_iter().flatten() {
        let project = text(row, "name");
        let jobs: Vec<_> = log.jobs.values().filter(|j| j.project == project).collect();
        let submitted = log.ends_of.get(project).map_or(0, |e| e.submitted);
        let reports: Vec<&Value> = jobs
            .iter()
            .filter(|j| j.ended_at.is_some())
            .filter_map(|j| said.reported.get(&j.name))
            .filter(|r| r["complete"] == json!(true))
            .collect();
        // One may be forgotten, go on, or not have been asked for.
        if reports.len() != jobs.len() || jobs.len() as u64 != submitted {
            continue;
        }
        for part in ["starting", "checkpointing", "restarting", "lost"] {
            let of = |v: &Value| v["gpu_seconds"][part].as_f64().unwrap_or(f64::NAN);
            let (one, all): (f64, f64) = (of(row), reports.iter().map(|r| of(r)).sum());
            if (one - all).abs() < 0.01 {
                continue;
            }
            let what = format!("project {project}: GPU-seconds {part}");
            let jobs = format!("its {} jobs by GET /v1/jobs/{{id}}/report", jobs.len());
            wrong.same(what, (fleet, json!(one)), (&jobs, json!(all)));
        }
    }
}
