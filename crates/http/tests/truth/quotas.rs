//! The report on quotas: what each project has allocated and has waiting, and how it adds up.

use super::Contradictions;
use super::asker::listed;
use super::fold::{Fold, Job};
use super::moment::MomentAnswers;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const WHO: &str = "GET /v1/quotas";
const LOG: &str = "the log";

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap_or(0)
}

/// Accounts of whole projects, not of their users.
fn projects(said: &MomentAnswers) -> Vec<Value> {
    let accounts = listed(&said.quotas["report"]["accounts"]);
    accounts.into_iter().filter(|a| a["user"].is_null()).collect()
}

/// The tree and the report on it name the same quotas.
pub(super) fn tree_and_report(said: &MomentAnswers, wrong: &mut Contradictions) {
    let names = |all: &Value| -> BTreeSet<String> {
        let all = listed(all);
        all.iter().filter_map(|q| q["name"].as_str().map(str::to_owned)).collect()
    };
    let tree = names(&said.quotas["quotas"]["tree"]);
    let rows = names(&said.quotas["report"]["quotas"]);
    wrong.same("which quotas there are", (WHO, json!(tree)), (WHO, json!(rows)));
}

/// A project has allocated what its jobs hold, until the last of their ranks has ended. What waits is
/// queued.
pub(super) fn accounts(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    let accounts = projects(said);
    let with_jobs: BTreeSet<&str> = log.jobs.values().map(|j| j.project.as_str()).collect();
    for project in with_jobs {
        let account = accounts.iter().find(|a| a["project"] == project);
        let says = |part: &str| account.map_or(json!(0), |a| a[part].clone());
        let jobs = || log.jobs.values().filter(move |j| j.project == project);
        let holding = jobs().filter(|j| j.holds()).count();
        let what = format!("project {project}: jobs with allocated resources");
        wrong.same(what, (WHO, says("running")), (LOG, json!(holding)));
        // Nobody adds up slices here.
        if let Some(milli) = jobs().map(Job::milli).sum::<Option<u64>>() {
            let what = format!("project {project}: its GPUs in thousandths");
            wrong.same(what, (WHO, says("used_milli")), (LOG, json!(milli)));
        }
        let queued = jobs().filter(|j| j.state == "queued" && !j.held).count() as u64;
        let what = format!("project {project}: no more wait than the {queued} that are queued");
        wrong.holds(number(&says("waiting")) <= queued, what, WHO, &json!(account));
    }
}

/// Users add up to their project, and projects to the quotas above them.
pub(super) fn sums(said: &MomentAnswers, wrong: &mut Contradictions) {
    let all = listed(&said.quotas["report"]["accounts"]);
    let projects = projects(said);
    for whole in &projects {
        let users = all.iter().filter(|a| a["project"] == whole["project"] && !a["user"].is_null());
        for part in ["used_milli", "running", "waiting"] {
            let together: u64 = users.clone().map(|a| number(&a[part])).sum();
            let what = format!("project {}: {part} of its users", whole["project"]);
            wrong.same(what, (WHO, json!(together)), (WHO, whole[part].clone()));
        }
    }
    // Parents come before their children.
    let mut below: BTreeMap<String, u64> = BTreeMap::new();
    for quota in listed(&said.quotas["report"]["quotas"]).iter().rev() {
        let name = quota["name"].as_str().unwrap_or_default();
        let own = listed(&quota["projects"]);
        let own = projects.iter().filter(|a| own.contains(&a["project"]));
        let own: u64 = own.map(|a| number(&a["used_milli"])).sum();
        let used = own + below.get(name).copied().unwrap_or(0);
        let what = format!("quota {name}: what its projects and those below it use");
        wrong.same(&what, (WHO, json!(used)), (WHO, quota["used_milli"].clone()));
        if let Some(parent) = quota["parent"].as_str() {
            *below.entry(parent.to_owned()).or_default() += used;
        }
        for limit in listed(&quota["limits"]) {
            let used_of_limit = number(&limit["used_milli"]);
            if limit["sku"].is_null() && limit["tier"].is_null() {
                wrong.same(&what, (WHO, json!(used)), ("its limit", json!(used_of_limit)));
            }
            let beyond = used_of_limit.saturating_sub(number(&limit["owned_milli"]));
            let what = format!("quota {name}: what is borrowed is used beyond what is owned");
            wrong.same(what, (WHO, limit["borrowed_milli"].clone()), (WHO, json!(beyond)));
        }
    }
}
