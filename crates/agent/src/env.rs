//! The environment every rank sees.

mod slurm;

use muster_link::messages::RunDetail;
use muster_model::ids::AttemptKey;
use muster_model::placement::{AllocatedPart, Fabric};
use muster_model::units::Span;
use std::collections::BTreeMap;
use std::path::Path;

/// Variables by name.
pub(crate) type Env = BTreeMap<String, String>;

/// What the ranks inherit from the agent, with a sane value where the agent has none. Nothing
/// else comes through: the agent's own environment may hold secrets.
pub(crate) fn inherited() -> Env {
    let mut env = Env::new();
    let or = |name: &str, default: &str| {
        std::env::var(name).ok().filter(|v| !v.is_empty()).unwrap_or_else(|| default.to_owned())
    };
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    for (name, default) in [
        ("PATH", path),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("USER", "root"),
        ("SHELL", "/bin/sh"),
    ] {
        env.insert(name.into(), or(name, default));
    }
    for name in ["LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME"] {
        if let Ok(v) = std::env::var(name) {
            env.insert(name.into(), v);
        }
    }
    env
}

/// Where things of a slot are.
pub(crate) struct SlotDirs<'a> {
    pub(crate) run_dir: &'a Path,
    pub(crate) secrets_dir: &'a Path,
}

/// The part that all ranks of a slot share.
pub(crate) fn common(key: AttemptKey, d: &RunDetail, at: &SlotDirs<'_>, base: &Env) -> Env {
    let mut env = base.clone();
    env.extend(d.run.env.iter().map(|(k, v)| (k.clone(), v.clone())));
    env.extend(slurm::common(key, d));
    let slot = &d.slot;
    let mut set = |name: &str, value: String| {
        env.insert(name.to_owned(), value);
    };
    set("MASTER_ADDR", d.master_addr.clone());
    set("MASTER_PORT", d.master_port.to_string());
    set("WORLD_SIZE", d.world_size.to_string());
    set("LOCAL_WORLD_SIZE", slot.ranks.to_string());
    set("NODE_RANK", slot.node_rank.to_string());
    // Every rank sees all GPUs of its slot and picks by LOCAL_RANK; an empty list hides the
    // node's GPUs from a job that asked for none.
    set("CUDA_VISIBLE_DEVICES", slot.gpus.to_string());
    set("MUSTER_JOB_ID", key.job.to_string());
    set("MUSTER_ATTEMPT", key.attempt.to_string());
    set("MUSTER_NODE", slot.node.to_string());
    set("MUSTER_PROJECT", d.project.to_string());
    if let Some(c) = &d.checkpoint {
        set("MUSTER_CHECKPOINT_DIR", c.dir.clone());
        if let Some(every) = c.interval.as_ref().and_then(|i| i.parse::<Span>().ok()) {
            set("MUSTER_CHECKPOINT_INTERVAL", every.0.div_ceil(1000).to_string());
        }
    }
    if let Some(r) = &d.resume {
        set("MUSTER_RESUME", r.clone());
    }
    match &slot.part {
        // The share is kept by CUDA's multi-process service where one runs; it takes whole
        // percents and no zero.
        Some(AllocatedPart::Milli(milli)) => {
            set("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", (milli / 10).max(1).to_string());
            set("MUSTER_GPU_MILLI", milli.to_string());
        }
        Some(AllocatedPart::Mig { profile, start, .. }) => {
            set("MUSTER_GPU_MIG", format!("{profile}@{start}"));
        }
        None => {}
    }
    if let Some(fabric) = d.fabric {
        set("MUSTER_FABRIC", fabric_name(fabric).to_owned());
    }
    if let Some(watts) = d.cap_watts {
        set("MUSTER_POWER_CAP_WATTS", watts.to_string());
    }
    if !d.secrets.0.is_empty() {
        set("MUSTER_SECRETS_DIR", at.secrets_dir.display().to_string());
    }
    // Last, and only where nothing stands yet: a secret called `path` must not become PATH.
    for (name, value) in &d.secrets.0 {
        let name = muster_model::resolve::secret_variable(name);
        if !PER_RANK.contains(&name.as_str()) {
            env.entry(name).or_insert_with(|| value.clone());
        }
    }
    // A value with a NUL cannot be passed to a process at all.
    env.retain(|k, v| !k.is_empty() && !k.contains(['=', '\0']) && !v.contains('\0'));
    env
}

/// So many GPUs as CUDA counts them where no others are to be seen.
pub(crate) fn numbered(gpus: u32) -> String {
    let all: Vec<String> = (0..gpus).map(|i| i.to_string()).collect();
    all.join(",")
}

/// The fabric's class for programs.
fn fabric_name(fabric: Fabric) -> &'static str {
    match fabric {
        Fabric::Nvlink => "nvlink",
        Fabric::Rail => "rail",
        Fabric::Leaf => "leaf",
        Fabric::Spine => "spine",
        Fabric::Core => "core",
    }
}

const PER_RANK: [&str; 5] =
    ["RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURM_LOCALID", "MUSTER_REPORT"];

/// What differs from rank to rank.
pub(crate) fn of_rank(d: &RunDetail, local: u32, at: &SlotDirs<'_>) -> Env {
    let rank = d.slot.first_rank + local;
    let report = at.run_dir.join(format!("{rank}.report")).display().to_string();
    let values = [rank.to_string(), local.to_string(), rank.to_string(), local.to_string(), report];
    PER_RANK.iter().map(|n| (*n).to_owned()).zip(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::detail;
    use muster_model::ids::JobId;
    use muster_model::job::ArrayTask;
    use muster_model::placement::GpuSet;

    fn env_of(d: &RunDetail) -> Env {
        let places = SlotDirs {
            run_dir: Path::new("/s/runs/7.3"),
            secrets_dir: Path::new("/s/runs/7.3/secrets"),
        };
        let key = AttemptKey { job: JobId(7), attempt: 3 };
        let mut env = common(key, d, &places, &inherited());
        env.extend(of_rank(d, 1, &places));
        env
    }

    #[test]
    fn a_rank_knows_its_place_in_the_gang() {
        let mut d = detail("sh");
        d.slot.first_rank = 2;
        d.slot.ranks = 2;
        d.slot.node_rank = 1;
        d.slot.gpus = GpuSet(0b1100);
        d.world_size = 4;
        d.nodes = vec!["a01".parse().unwrap(), "a02".parse().unwrap()];
        d.array = Some(ArrayTask { parent: JobId(5), index: 2, count: 9 });
        let env = env_of(&d);
        for (name, value) in [
            ("RANK", "3"),
            ("LOCAL_RANK", "1"),
            ("WORLD_SIZE", "4"),
            ("LOCAL_WORLD_SIZE", "2"),
            ("NODE_RANK", "1"),
            ("CUDA_VISIBLE_DEVICES", "2,3"),
            ("SLURM_JOB_ID", "7"),
            ("SLURM_PROCID", "3"),
            ("SLURM_JOB_NODELIST", "a[01-02]"),
            ("SLURM_NNODES", "2"),
            ("SLURM_RESTART_COUNT", "2"),
            ("SLURM_ARRAY_TASK_ID", "2"),
            ("SLURM_ARRAY_JOB_ID", "5"),
            ("MUSTER_ATTEMPT", "3"),
            ("MUSTER_REPORT", "/s/runs/7.3/3.report"),
        ] {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn a_job_without_gpus_sees_none() {
        assert_eq!(env_of(&detail("sh"))["CUDA_VISIBLE_DEVICES"], "");
    }

    #[test]
    fn a_rank_knows_its_part_of_a_gpu() {
        let mut d = detail("sh");
        d.slot.gpus = GpuSet(0b100);
        for (milli, percent) in [(500, "50"), (255, "25"), (3, "1")] {
            d.slot.part = Some(AllocatedPart::Milli(milli));
            let env = env_of(&d);
            assert_eq!(env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], percent);
            assert_eq!(env["MUSTER_GPU_MILLI"], milli.to_string());
            assert_eq!(env["CUDA_VISIBLE_DEVICES"], "2");
        }
        d.slot.part = Some(AllocatedPart::Mig { profile: "3g.40gb".into(), start: 4, size: 4 });
        let env = env_of(&d);
        assert_eq!(env["MUSTER_GPU_MIG"], "3g.40gb@4");
        assert_eq!((&*env["CUDA_VISIBLE_DEVICES"], &*env["SLURM_GPUS_ON_NODE"]), ("2", "1"));
        assert!(!env.contains_key("MUSTER_GPU_MILLI"));
        d.slot.part = None;
        let env = env_of(&d);
        for name in ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "MUSTER_GPU_MILLI", "MUSTER_GPU_MIG"] {
            assert!(!env.contains_key(name), "{name} of a whole GPU");
        }
    }

    #[test]
    fn a_rank_knows_its_fabric_and_its_power_cap() {
        let mut d = detail("sh");
        let env = env_of(&d);
        assert!(!env.contains_key("MUSTER_FABRIC"), "an older server does not say");
        assert!(!env.contains_key("MUSTER_POWER_CAP_WATTS"));
        d.cap_watts = Some(550);
        for fabric in [Fabric::Nvlink, Fabric::Rail, Fabric::Leaf, Fabric::Spine, Fabric::Core] {
            d.fabric = Some(fabric);
            let env = env_of(&d);
            let word = serde_json::to_value(fabric).unwrap();
            assert_eq!(word, env["MUSTER_FABRIC"], "the same word as in the API");
            assert_eq!(env["MUSTER_POWER_CAP_WATTS"], "550");
        }
    }

    #[test]
    fn a_secret_that_a_variable_of_every_rank_would_hide_is_refused() {
        for name in env_of(&detail("sh")).keys() {
            assert!(muster_model::resolve::check_secret(name).is_err(), "{name} is set");
        }
    }

    #[test]
    fn a_secret_never_takes_the_place_of_a_known_variable() {
        let mut d = detail("sh");
        for (n, v) in [("rank", "x"), ("path", "x"), ("wandb-key", "s3"), ("master.addr", "x")] {
            d.secrets.0.insert(n.into(), v.into());
        }
        d.run.env.insert("WORLD_SIZE".into(), "99".into());
        let env = env_of(&d);
        assert_eq!(env["WANDB_KEY"], "s3");
        assert_eq!(env["RANK"], "1");
        assert_ne!(env["PATH"], "x");
        assert_ne!(env["MASTER_ADDR"], "x");
        assert_eq!(env["WORLD_SIZE"], "1", "the platform's names win over the job's");
    }
}
