//! MIG slices of this machine's GPUs: found where they are, cut where an operator allows it.

use muster_agent::isolation::devices;
use muster_agent::runner::{Slice, Slices};
use muster_gpu::device::Driver;
use muster_gpu::mig::{Creation, MigPlan};
use muster_model::node::{GpuFacts, MigSlice};
use muster_model::placement::AllocatedPart;
use std::sync::{Arc, Mutex, PoisonError};

/// Finds slices on this driver's GPUs; with `may_cut` it makes those that are missing, out of what
/// no job holds. It never turns MIG mode on or off.
pub(crate) fn slices(driver: Arc<dyn Driver>, may_cut: bool) -> Slices {
    // Two slots that start at once must not cut the same GPU at once.
    let one_at_a_time = Mutex::new(());
    Arc::new(move |gpu, part| {
        let _turn = one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let AllocatedPart::Mig { profile, start, size } = part else {
            return Err("the slot has no slice".into());
        };
        let wanted = WantedSlice { gpu, profile, start: u32::from(*start), size: u32::from(*size) };
        let slice = wanted.find_or_cut(driver.as_ref(), may_cut)?;
        Ok(Slice { nodes: nodes(gpu, &slice), uuid: slice.uuid })
    })
}

struct WantedSlice<'a> {
    gpu: u32,
    profile: &'a str,
    start: u32,
    size: u32,
}

impl WantedSlice<'_> {
    fn find_or_cut(&self, driver: &dyn Driver, may_cut: bool) -> Result<MigSlice, String> {
        let WantedSlice { gpu, profile, start, .. } = self;
        let facts = facts(driver, *gpu)?;
        if let Some(there) = self.among(&facts.mig_slices) {
            return Ok(there.clone());
        }
        if !may_cut {
            return Err(format!(
                "GPU {gpu} has no slice {profile} at {start}: cut it by hand, or start the agent \
                 with --allow-mig"
            ));
        }
        let plan = self.plan(&facts)?;
        tracing::info!(gpu, profile, start, gone = plan.destroy.len(), "cutting a GPU");
        driver.apply_mig(*gpu, &plan).map_err(|e| format!("GPU {gpu} could not be cut: {e}"))?;
        let after = self::facts(driver, *gpu)?;
        let made = self.among(&after.mig_slices).cloned();
        made.ok_or_else(|| format!("GPU {gpu} was cut, and has no slice {profile} at {start}"))
    }

    fn among<'s>(&self, slices: &'s [MigSlice]) -> Option<&'s MigSlice> {
        slices.iter().find(|s| s.profile == self.profile && s.start == self.start)
    }

    /// What overlaps goes: the log gave this place to us, so no job of ours holds it; whoever else
    /// does is refused by the driver.
    fn plan(&self, facts: &GpuFacts) -> Result<MigPlan, String> {
        let size_of = |name: &str| facts.mig_profiles.iter().find(|p| p.name == name);
        let known = size_of(self.profile)
            .ok_or_else(|| format!("GPU {} knows no profile {}", self.gpu, self.profile))?;
        let (from, to) = (self.start, self.start + self.size.max(known.size));
        let overlaps = |s: &MigSlice| {
            let size = size_of(&s.profile).map_or(1, |p| p.size);
            s.start < to && s.start + size > from
        };
        let (destroy, keep) = facts.mig_slices.iter().cloned().partition(overlaps);
        let create = Creation {
            profile: known.name.clone(),
            id: known.id,
            start: self.start,
            size: known.size,
        };
        Ok(MigPlan { keep, destroy, create: vec![create], ..MigPlan::default() })
    }
}

fn facts(driver: &dyn Driver, gpu: u32) -> Result<GpuFacts, String> {
    let devices = driver.devices().into_iter().flatten();
    let device = devices.into_iter().find(|d| d.index() == gpu);
    let device = device.ok_or_else(|| format!("GPU {gpu} does not answer"))?;
    let described = device.describe().map_err(|e| format!("GPU {gpu}: {e}"))?;
    if described.mig != Some(true) {
        return Err(format!("GPU {gpu} is not in MIG mode"));
    }
    described.facts.map(|f| *f).ok_or_else(|| format!("GPU {gpu} does not report its slices"))
}

fn nodes(gpu: u32, slice: &MigSlice) -> Vec<std::path::PathBuf> {
    let minor = devices::nvidia_nodes(gpu)
        .first()
        .and_then(|p| p.file_name()?.to_str()?.strip_prefix("nvidia")?.parse::<u32>().ok());
    minor.map_or_else(Vec::new, |m| {
        devices::mig_nodes(m, slice.gpu_instance, slice.compute_instance)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_gpu::simulated::{SimDriver, SimGpus, SimSku};

    fn part(profile: &str, start: u8, size: u8) -> AllocatedPart {
        AllocatedPart::Mig { profile: profile.into(), start, size }
    }

    fn cut_world() -> Arc<dyn Driver> {
        let world = SimDriver::new(&SimGpus::of(SimSku::H200Sxm, "n1", 1));
        world.apply_mig(0, &MigPlan { switch: Some(true), ..MigPlan::default() }).unwrap();
        Arc::new(world)
    }

    #[test]
    fn a_slice_is_found_or_cut_only_where_that_is_allowed() {
        let driver = cut_world();
        let want = part("3g.71gb", 4, 4);
        let refused = slices(driver.clone(), false)(0, &want).unwrap_err();
        assert!(refused.contains("--allow-mig"), "{refused}");
        let cut = slices(driver.clone(), true);
        let made = cut(0, &want).unwrap();
        assert!(made.uuid.starts_with("MIG-"), "{made:?}");
        assert_eq!(slices(driver.clone(), false)(0, &want).unwrap(), made, "it stays");
        let other = cut(0, &part("1g.18gb", 0, 1)).unwrap();
        assert_ne!(other.uuid, made.uuid);
        assert_eq!(cut(0, &want).unwrap(), made, "what does not overlap is left alone");
        cut(0, &part("7g.141gb", 0, 8)).unwrap();
        assert!(slices(driver, false)(0, &want).is_err(), "what overlapped is gone");
    }

    #[test]
    fn a_gpu_that_is_not_cut_and_a_profile_it_has_not_are_refused() {
        let driver = cut_world();
        let cut = slices(driver, true);
        assert!(cut(1, &part("3g.71gb", 0, 4)).unwrap_err().contains("not in MIG mode"));
        assert!(cut(0, &part("9g.999gb", 0, 4)).unwrap_err().contains("knows no profile"));
        assert!(cut(99, &part("3g.71gb", 0, 4)).unwrap_err().contains("does not answer"));
    }
}
