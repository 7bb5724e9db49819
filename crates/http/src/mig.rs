//! How a GPU would be cut into MIG slices: which go, which come, who has to leave and what that
//! costs. Only looked at; nothing is cut here.

use super::auth::Reader;
use super::error::{Failure, Reply};
use super::extract::{Query, Segment};
use super::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{Kind, MigLeaver, MigPlan, MigPlanSlice, MigQuery};
use muster_engine::State as Site;
use muster_model::ids::AttemptKey;
use muster_model::job::{Attempt, Job, SlotState};
use muster_model::mig::{self, Present, Start};
use muster_model::names::{NameError, NodeName};
use muster_model::node::{Gpu, MigProfile, MigSlice};
use muster_model::placement::{AllocatedPart, Slot};
use muster_model::tenant::Role;
use muster_model::units::{Bytes, Time};
use muster_scheduler::mig as shapes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// More slices than any GPU has.
const MOST: usize = 16;

/// Say how a GPU would be cut so that these slices are there. Nothing changes.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/nodes/{name}/mig", tag = "nodes",
    params(("name" = String, Path, description = "The node's name."), MigQuery),
    responses((status = 200, description = "What would be done.", body = MigPlan))))]
pub(crate) async fn plan(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(name): Segment,
    Query(q): Query<MigQuery>,
) -> Reply {
    caller.over_site(Role::Operator)?;
    let name: NodeName =
        name.parse().map_err(|e: NameError| Failure::bad(e.to_string()).field("name"))?;
    let wanted: Vec<&str> =
        q.profiles.split(',').map(str::trim).filter(|p| !p.is_empty()).collect();
    if wanted.is_empty() || wanted.len() > MOST {
        return Err(Failure::bad("it names no slices, or more than a GPU has")
            .field("profiles")
            .hint("like profiles=3g.71gb,3g.71gb"));
    }
    let now = app.brain().now();
    let (seq, plan) = app.brain().read(|s| (s.seq, planned(s, &name, q.gpu, &wanted, now)));
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &plan?))
}

/// What holds something on a GPU.
struct Holder {
    job: Arc<Job>,
    key: AttemptKey,
    part: Option<AllocatedPart>,
}

fn planned(s: &Site, name: &NodeName, index: u32, wanted: &[&str], now: Time) -> Reply<MigPlan> {
    let node = s.nodes.get(name).ok_or_else(|| {
        Failure::not_found(format!("there is no node {name}")).hint("`muster nodes` lists them")
    })?;
    let gpu = node
        .inventory
        .gpus
        .iter()
        .find(|g| g.index == index)
        .ok_or_else(|| Failure::bad(format!("node {name} has no GPU {index}")).field("gpu"))?;
    let holders = holders(s, name, index);
    let (profiles, present, names) = match &gpu.facts {
        Some(f) if !f.mig_profiles.is_empty() => {
            (f.mig_profiles.clone(), list_slices(&f.mig_slices, &holders), BTreeMap::new())
        }
        _ => by_tables(gpu, &holders, wanted),
    };
    let wanted: Vec<&str> =
        wanted.iter().map(|w| names.get(*w).map_or(*w, String::as_str)).collect();
    let on = gpu.mig == Some(true);
    let start = Start { profiles: &profiles, present: &present, on, may_switch: true };
    let plan = mig::plan(&start, &wanted).map_err(|e| Failure::conflict(e.to_string()))?;
    let goes = |h: &&Holder| {
        // Changing the mode takes the whole GPU away from everybody.
        plan.switch.is_some() || plan.must_leave.iter().any(|m| holds(h, m))
    };
    let mut leave: Vec<MigLeaver> = Vec::new();
    for h in holders.iter().filter(goes) {
        let leaver = leaver(h, now);
        if !leave.contains(&leaver) {
            leave.push(leaver);
        }
    }
    let there = |all: &[MigSlice]| all.iter().map(slice).collect();
    Ok(MigPlan {
        kind: Kind::MigPlan,
        node: name.to_string(),
        gpu: index,
        switch: plan.switch,
        keep: there(&plan.keep),
        destroy: there(&plan.destroy),
        create: plan
            .create
            .iter()
            .map(|c| MigPlanSlice { profile: c.profile.clone(), start: c.start, uuid: None })
            .collect(),
        lost_gpu_seconds: leave.iter().map(|l| l.lost_gpu_seconds).sum(),
        leave,
    })
}

fn slice(s: &MigSlice) -> MigPlanSlice {
    let uuid = Some(s.uuid.clone()).filter(|u| !u.is_empty());
    MigPlanSlice { profile: s.profile.clone(), start: s.start, uuid }
}

fn holders(s: &Site, node: &NodeName, gpu: u32) -> Vec<Holder> {
    let mut out = Vec::new();
    for job in s.attempts_on(node) {
        let (Some(key), Some(a)) = (job.attempt_key(), &job.attempt) else { continue };
        for (slot, state) in a.placement.slots.iter().zip(&a.slots) {
            let here = slot.node == *node && slot.gpus.iter().any(|g| g == gpu);
            if here && !matches!(state, SlotState::Ended { .. }) {
                out.push(Holder { job: Arc::clone(job), key, part: slot.part.clone() });
            }
        }
    }
    out
}

fn holds(h: &Holder, slice: &MigSlice) -> bool {
    matches!(&h.part, Some(AllocatedPart::Mig { start, .. }) if u32::from(*start) == slice.start)
}

/// Slices as the driver reports them, with who runs in each.
fn list_slices(slices: &[MigSlice], holders: &[Holder]) -> Vec<Present> {
    let one = |s: &MigSlice| {
        let user = holders.iter().find(|h| holds(h, s)).map(|h| h.key);
        Present { slice: s.clone(), user }
    };
    slices.iter().map(one).collect()
}

/// A GPU that does not report how it can be cut: by the tables of its kind, with a slice for each
/// job that holds one. The third is what profiles are called in the tables that are asked for under
/// another name.
fn by_tables(
    gpu: &Gpu,
    holders: &[Holder],
    wanted: &[&str],
) -> (Vec<MigProfile>, Vec<Present>, BTreeMap<String, String>) {
    let known: Vec<(String, shapes::Profile)> = shapes::profiles(&gpu.sku)
        .into_iter()
        .filter_map(|n| shapes::profile(&gpu.sku, &n).map(|p| (n, p)))
        .collect();
    let profiles = (0..).zip(&known).map(|(id, (name, p))| MigProfile {
        name: name.clone(),
        id,
        most: u32::try_from(p.starts.len()).unwrap_or(0),
        memory: Bytes(gpu.memory.0 / 8 * u64::from(p.memory)),
        sms: 0,
        starts: p.starts.iter().map(|s| u32::from(*s)).collect(),
        size: u32::from(p.memory),
    });
    let name_of = |asked: &str| {
        let p = shapes::profile(&gpu.sku, asked)?;
        known.iter().find(|(_, k)| *k == p).map(|(n, _)| n.clone())
    };
    let mut present: Vec<Present> = Vec::new();
    for h in holders {
        if let Some(AllocatedPart::Mig { profile, start, .. }) = &h.part {
            let n = u32::try_from(present.len()).unwrap_or(0);
            present.push(Present {
                slice: MigSlice {
                    uuid: String::new(),
                    profile: name_of(profile).unwrap_or_else(|| profile.clone()),
                    gpu_instance: n,
                    compute_instance: 0,
                    start: u32::from(*start),
                },
                user: Some(h.key),
            });
        }
    }
    let names = wanted.iter().filter_map(|w| Some(((*w).to_owned(), name_of(w)?)));
    (profiles.collect(), present, names.collect())
}

fn leaver(h: &Holder, now: Time) -> MigLeaver {
    let a = h.job.attempt.as_ref();
    let gpus_milli = a.map_or(0, gang_milli);
    let begun = a.map_or(now, |a| a.started_at.unwrap_or(a.placed_at));
    let saved = h.job.checkpoint.as_ref().map_or(begun, |c| c.at.max(begun));
    MigLeaver {
        job: h.job.display_id(),
        name: h.job.name.to_string(),
        project: h.job.project.to_string(),
        gpus_milli,
        since: saved.into(),
        lost_gpu_seconds: gpus_milli.saturating_mul(now.since(saved).0) / 1_000_000,
    }
}

fn gang_milli(a: &Attempt) -> u64 {
    let one = |s: &Slot| match &s.part {
        None => u64::from(s.gpus.len()) * 1000,
        Some(AllocatedPart::Milli(m)) => u64::from(*m),
        Some(AllocatedPart::Mig { size, .. }) => u64::from(*size) * 1000 / 8,
    };
    a.placement.slots.iter().map(one).sum()
}
