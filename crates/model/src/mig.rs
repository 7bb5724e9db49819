//! How to cut a GPU so that a list of slices is there, with the least destroyed. Pure: nothing is
//! touched here.

use crate::ids::AttemptKey;
use crate::node::{MigProfile, MigSlice};
use std::collections::BTreeMap;

/// Memory slices that a plan can count; no GPU has as many.
const MOST_SLICES: u32 = 32;

/// A slice that exists, and who uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    /// The slice as the driver reports it.
    pub slice: MigSlice,
    /// The attempt that runs in it.
    pub user: Option<AttemptKey>,
}

/// A slice to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Creation {
    /// Name of its profile.
    pub profile: String,
    /// The driver's number for the profile.
    pub id: u32,
    /// First memory slice.
    pub start: u32,
    /// Memory slices it takes.
    pub size: u32,
}

/// What is to be done with one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigPlan {
    /// Turn the GPU's MIG mode on or off first; nothing may run on it then.
    pub switch: Option<bool>,
    /// Slices that stay as they are.
    pub keep: Vec<MigSlice>,
    /// Slices that go, before any is made.
    pub destroy: Vec<MigSlice>,
    /// Slices that come.
    pub create: Vec<Creation>,
    /// Those of `destroy` that somebody uses: the plan can be carried out once they have left.
    pub must_leave: Vec<MigSlice>,
}

impl MigPlan {
    /// True when there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.switch.is_none() && self.destroy.is_empty() && self.create.is_empty()
    }

    /// Whether the plan was made for what is there now: numbers of instances are given out again,
    /// so an old plan would take away somebody else's slice.
    ///
    /// # Errors
    /// When a slice the plan knows is not there any more.
    pub fn fits(&self, present: &[MigSlice]) -> Result<(), MigRefusal> {
        let mut known = self.keep.iter().chain(&self.destroy);
        if known.all(|s| present.contains(s)) { Ok(()) } else { Err(MigRefusal::Stale) }
    }

    /// True when nobody has to leave first.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.must_leave.is_empty()
    }
}

/// Why a GPU cannot be cut so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigRefusal {
    /// The GPU has no such profile.
    #[error("the GPU has no slices of {wanted}; it has {}", known.join(", "))]
    NoSuchProfile {
        /// What was asked for.
        wanted: String,
        /// What there is.
        known: Vec<String>,
    },
    /// More of one profile than a GPU can have.
    #[error("a GPU can have {most} of {profile}, not {wanted}")]
    TooMany {
        /// The name of the profile, such as `3g.71gb`.
        profile: String,
        /// How many are wanted.
        wanted: u32,
        /// How many fit on one GPU.
        most: u32,
    },
    /// They do not fit beside each other, even on an empty GPU.
    #[error("these do not fit on one GPU together")]
    DoNotFit,
    /// The device cannot be cut, or does not say how.
    #[error("the GPU cannot be cut into slices")]
    NotCuttable,
    /// The mode is off, and the plan may not turn it on.
    #[error("MIG is off on this GPU, and turning it on was not allowed")]
    ModeOff,
    /// The plan was made for slices that are not there any more.
    #[error("the plan was made for slices that are not there any more")]
    Stale,
}

/// What a plan starts from.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// Profiles of the GPU.
    pub profiles: &'a [MigProfile],
    /// Slices that exist.
    pub present: &'a [Present],
    /// Whether MIG is on.
    pub on: bool,
    /// Whether the plan may turn it on.
    pub may_switch: bool,
}

/// Plans one GPU so that at least the wanted slices are there. Slices that are not wanted and not
/// in the way stay. First as few as possible of those in use go, then as few as possible of the
/// others; among equals, what is left free is as useful as can be.
///
/// # Errors
/// When no arrangement of this GPU holds what is wanted.
pub fn plan(start: &Start<'_>, wanted: &[&str]) -> Result<MigPlan, MigRefusal> {
    let wanted = check(start, wanted)?;
    let switch = match (start.on, wanted.is_empty()) {
        (true, _) | (false, true) => None,
        (false, false) if start.may_switch => Some(true),
        (false, false) => return Err(MigRefusal::ModeOff),
    };
    let mut present = start.present.to_vec();
    present.sort_by_key(|p| (p.slice.gpu_instance, p.slice.compute_instance));
    let start = &Start { present: &present, ..*start };
    let mut sets: Vec<u32> = (0..1u32 << present.len().min(16)).collect();
    let cost = |kept: u32| {
        let gone = present.iter().enumerate().filter(|(i, _)| kept & (1 << i) == 0);
        gone.fold((0, 0), |(used, idle), (_, p)| match p.user {
            Some(_) => (used + 1, idle),
            None => (used, idle + 1),
        })
    };
    // Compute instances of one GPU instance stay or go together.
    sets.retain(|kept| {
        let pairs = present.iter().enumerate().zip(present.iter().skip(1));
        let mut same = pairs.filter(|((_, a), b)| a.slice.gpu_instance == b.slice.gpu_instance);
        same.all(|((i, _), _)| (kept >> i) & 1 == (kept >> (i + 1)) & 1)
    });
    sets.sort_by_key(|kept| (cost(*kept), *kept));
    let mut best: Option<(Cost, i64, u32, Vec<Creation>)> = None;
    for kept in sets {
        let cost = cost(kept);
        if best.as_ref().is_some_and(|(c, ..)| *c < cost) {
            break;
        }
        if let Some((room, create)) = arrange(start, kept, &wanted)
            && best.as_ref().is_none_or(|(_, r, ..)| *r < room)
        {
            best = Some((cost, room, kept, create));
        }
    }
    let (_, _, kept, create) = best.ok_or(MigRefusal::DoNotFit)?;
    let mut out = MigPlan { switch, create, ..MigPlan::default() };
    for (i, p) in present.iter().enumerate() {
        if kept & (1 << i) != 0 {
            out.keep.push(p.slice.clone());
        } else {
            out.destroy.push(p.slice.clone());
            if p.user.is_some() {
                out.must_leave.push(p.slice.clone());
            }
        }
    }
    Ok(out)
}

/// Slices in use that go, and slices that nobody uses that go.
type Cost = (u32, u32);

/// Wanted slices by profile, largest profile first.
fn check<'a>(start: &Start<'a>, wanted: &[&str]) -> Result<Vec<(&'a MigProfile, u32)>, MigRefusal> {
    if start.profiles.is_empty() && !wanted.is_empty() {
        return Err(MigRefusal::NotCuttable);
    }
    let mut count: BTreeMap<&str, u32> = BTreeMap::new();
    for name in wanted {
        *count.entry(name).or_default() += 1;
    }
    let mut out = Vec::new();
    for (name, n) in count {
        let Some(profile) = start.profiles.iter().find(|p| p.name == name) else {
            let known = start.profiles.iter().map(|p| p.name.clone()).collect();
            return Err(MigRefusal::NoSuchProfile { wanted: name.into(), known });
        };
        if n > profile.most {
            let (profile, most) = (name.into(), profile.most);
            return Err(MigRefusal::TooMany { profile, wanted: n, most });
        }
        out.push((profile, n));
    }
    out.sort_by(|(a, _), (b, _)| b.size.cmp(&a.size).then(a.name.cmp(&b.name)));
    Ok(out)
}

/// The profile of the GPU instance that a part such as `1c.3g.71gb` belongs to.
fn whole(profile: &str) -> &str {
    match profile.split_once("c.") {
        Some((n, rest)) if n.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => profile,
    }
}

/// Memory slices as bits; none when out of range.
fn bits(start: u32, size: u32) -> Option<u32> {
    let end = start.checked_add(size)?;
    (end <= MOST_SLICES).then(|| {
        let ones = |n: u32| u32::try_from((1u64 << n) - 1).unwrap_or(u32::MAX);
        ones(end) & !ones(start)
    })
}

/// The best arrangement of what is wanted around what is kept: how useful the rest is, and what to
/// make.
fn arrange(
    start: &Start<'_>,
    kept: u32,
    wanted: &[(&MigProfile, u32)],
) -> Option<(i64, Vec<Creation>)> {
    let mut taken = 0;
    let mut have: BTreeMap<&str, u32> = BTreeMap::new();
    for (i, p) in start.present.iter().enumerate() {
        if kept & (1 << i) == 0 {
            continue;
        }
        // A slice of a profile that the GPU does not report stands in the way of the whole GPU:
        // what it takes is not known.
        let whole = whole(&p.slice.profile);
        let size = start.profiles.iter().find(|q| q.name == whole).map(|q| q.size);
        taken |= size.and_then(|s| bits(p.slice.start, s)).unwrap_or(u32::MAX);
        *have.entry(&p.slice.profile).or_default() += 1;
    }
    let mut missing = Vec::new();
    for (profile, n) in wanted {
        let there = have.get(profile.name.as_str()).copied().unwrap_or(0);
        let more = n.saturating_sub(there);
        if there + more > profile.most {
            return None;
        }
        missing.extend((0..more).map(|_| *profile));
    }
    let mut best = None;
    place(start.profiles, &missing, taken, 0, &mut Vec::new(), &mut best);
    best
}

fn place<'a>(
    profiles: &[MigProfile],
    missing: &[&'a MigProfile],
    taken: u32,
    from: u32,
    done: &mut Vec<(&'a MigProfile, u32)>,
    best: &mut Option<(i64, Vec<Creation>)>,
) {
    let Some((profile, rest)) = missing.split_first() else {
        let room = usefulness(profiles, taken);
        if best.as_ref().is_none_or(|(b, _)| *b < room) {
            let create = done.iter().map(|(p, at)| Creation {
                profile: p.name.clone(),
                id: p.id,
                start: *at,
                size: p.size,
            });
            *best = Some((room, create.collect()));
        }
        return;
    };
    for at in profile.starts.iter().copied().filter(|at| *at >= from) {
        let Some(cells) = bits(at, profile.size) else { continue };
        if taken & cells != 0 {
            continue;
        }
        // Equal slices in one order only: the others are the same arrangement.
        let same = rest.first().is_some_and(|next| next.name == profile.name);
        let next_from = if same { at + 1 } else { 0 };
        done.push((*profile, at));
        place(profiles, rest, taken | cells, next_from, done, best);
        done.pop();
    }
}

/// How much can still be placed in what is free: large profiles count more.
fn usefulness(profiles: &[MigProfile], taken: u32) -> i64 {
    let free = |p: &MigProfile| {
        let fits = |at: &&u32| bits(**at, p.size).is_some_and(|cells| cells & taken == 0);
        i64::try_from(p.starts.iter().filter(fits).count()).unwrap_or(0)
    };
    profiles.iter().map(|p| free(p) * i64::from(p.size) * i64::from(p.size)).sum()
}

#[cfg(test)]
#[path = "mig_tests.rs"]
mod tests;
