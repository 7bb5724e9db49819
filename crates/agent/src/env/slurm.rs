//! The variables that Slurm sets, as far as an order says what they are.

use super::Env;
use crate::hostlist;
use muster_link::messages::RunDetail;
use muster_model::ids::AttemptKey;

/// What all ranks of a slot share. A job's partition is none of it: whoever reads `#SBATCH -p` puts
/// `SLURM_JOB_PARTITION` into the environment of the job.
///
/// There is no `SLURM_STEP_…`: Open MPI takes these for a step of `srun`, and asks for its PMI.
pub(super) fn common(key: AttemptKey, d: &RunDetail) -> Env {
    let mut env = Env::new();
    let mut names: Vec<&str> = d.nodes.iter().map(|n| n.as_str()).collect();
    names.dedup();
    let nodes = hostlist::compress(names.iter().copied());
    let slot = &d.slot;
    let mut set = |name: &str, value: String| {
        env.insert(name.to_owned(), value);
    };
    for name in ["SLURM_JOB_ID", "SLURM_JOBID"] {
        set(name, key.job.to_string());
    }
    set("SLURM_JOB_NAME", d.name.clone());
    set("SLURM_JOB_ACCOUNT", d.project.to_string());
    for name in ["SLURM_NNODES", "SLURM_JOB_NUM_NODES"] {
        set(name, names.len().to_string());
    }
    set("SLURM_NODEID", slot.node_rank.to_string());
    for name in ["SLURM_NTASKS", "SLURM_NPROCS"] {
        set(name, d.world_size.to_string());
    }
    set("SLURM_NTASKS_PER_NODE", slot.ranks.to_string());
    // Known where every node has as many as this one.
    if usize::try_from(d.world_size).ok() == names.len().checked_mul(slot.ranks as usize) {
        let times = if names.len() > 1 { format!("(x{})", names.len()) } else { String::new() };
        set("SLURM_TASKS_PER_NODE", format!("{}{times}", slot.ranks));
    }
    for name in ["SLURM_JOB_NODELIST", "SLURM_NODELIST"] {
        set(name, nodes.clone());
    }
    set("SLURMD_NODENAME", slot.node.to_string());
    set("SLURM_GPUS_ON_NODE", slot.gpus.len().to_string());
    if !slot.gpus.is_empty() && slot.part.is_none() {
        set("SLURM_GPUS_PER_NODE", slot.gpus.len().to_string());
    }
    set("SLURM_RESTART_COUNT", key.attempt.saturating_sub(1).to_string());
    if slot.cpus > 0 {
        set("SLURM_CPUS_ON_NODE", slot.cpus.to_string());
    }
    // As in Slurm, only where the job asks for processors, or for memory.
    if let Some(each) = d.limits.cpus.and_then(|cpus| cpus.checked_div(slot.ranks)) {
        set("SLURM_CPUS_PER_TASK", each.max(1).to_string());
    }
    if let Some(memory) = d.limits.memory {
        set("SLURM_MEM_PER_NODE", (memory.0 >> 20).to_string());
    }
    if let Some(dir) = &d.run.workdir {
        set("SLURM_SUBMIT_DIR", dir.clone());
    }
    if let Some(a) = d.array {
        set("SLURM_ARRAY_JOB_ID", a.parent.to_string());
        set("SLURM_ARRAY_TASK_ID", a.index.to_string());
        set("SLURM_ARRAY_TASK_COUNT", a.count.to_string());
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::detail;
    use muster_model::ids::JobId;
    use muster_model::placement::GpuSet;
    use muster_model::units::Bytes;

    fn env_of(d: &RunDetail) -> Env {
        common(AttemptKey { job: JobId(7), attempt: 1 }, d)
    }

    #[test]
    fn a_script_finds_what_its_options_asked_for() {
        let mut d = detail("sh");
        d.project = "lab".parse().unwrap();
        d.nodes = vec!["a01".parse().unwrap(), "a02".parse().unwrap()];
        d.world_size = 4;
        d.slot.ranks = 2;
        d.slot.cpus = 16;
        d.slot.gpus = GpuSet(0b1111);
        d.limits.cpus = Some(16);
        d.limits.memory = Some(Bytes::gib(64));
        d.run.workdir = Some("/home/lab/run".into());
        let env = env_of(&d);
        for (name, value) in [
            ("SLURM_JOB_ACCOUNT", "lab"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_NTASKS_PER_NODE", "2"),
            ("SLURM_TASKS_PER_NODE", "2(x2)"),
            ("SLURM_GPUS_PER_NODE", "4"),
            ("SLURM_CPUS_ON_NODE", "16"),
            ("SLURM_CPUS_PER_TASK", "8"),
            ("SLURM_MEM_PER_NODE", "65536"),
            ("SLURM_SUBMIT_DIR", "/home/lab/run"),
        ] {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn what_a_job_does_not_ask_for_has_no_variable() {
        let mut d = detail("sh");
        d.slot.cpus = 1;
        let env = env_of(&d);
        for name in [
            "SLURM_CPUS_PER_TASK",
            "SLURM_MEM_PER_NODE",
            "SLURM_GPUS_PER_NODE",
            "SLURM_SUBMIT_DIR",
            "SLURM_ARRAY_TASK_ID",
        ] {
            assert!(!env.contains_key(name), "{name}");
        }
        assert_eq!(env["SLURM_TASKS_PER_NODE"], "1");
        // Another group of the gang has other numbers.
        d.world_size = 9;
        assert!(!env_of(&d).contains_key("SLURM_TASKS_PER_NODE"));
    }
}
