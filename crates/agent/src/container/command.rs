//! The words of `podman run`.

use super::find::{Containers, Pull, gpus_described};
use crate::isolation::{self, KEPT_NAMES};
use muster_link::messages::RunDetail;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Stands for the file of variables, which is known only when it is made.
pub(crate) const VARIABLES: &str = "{variables}";

/// What the supervisor must know of a slot in containers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ContainerOrder {
    /// Program and options before every command.
    pub(crate) runtime: Vec<String>,
    pub(crate) image: String,
    pub(crate) pull: Pull,
    /// The containers, one for each rank.
    pub(crate) names: Vec<String>,
}

/// What a slot wants to run, and where.
pub(crate) struct Wanted<'a> {
    pub(crate) detail: &'a RunDetail,
    /// Names what differs between agents of one machine.
    pub(crate) prefix: String,
    /// Program and arguments inside.
    pub(crate) argv: &'a [String],
    /// The attempt's directory.
    pub(crate) dir: &'a Path,
    pub(crate) secrets_dir: &'a Path,
    /// The slot's control group.
    pub(crate) group: Option<String>,
    /// Whether its GPUs are really there.
    pub(crate) gpus: bool,
    /// Most shared memory in bytes.
    pub(crate) shm: u64,
}

/// The order for a slot's containers, with the words of each rank.
///
/// # Errors
/// Why the job cannot run here, with what to do.
pub(crate) fn order(
    containers: &Containers,
    image: &str,
    w: &Wanted<'_>,
) -> Result<(ContainerOrder, Vec<Vec<String>>), String> {
    let runtime = containers.runtime()?.to_vec();
    if image.is_empty() || image.starts_with('-') || image.contains(char::is_whitespace) {
        return Err(format!("`{image}` is no name of an image: write it as HOST/NAME:TAG"));
    }
    if w.gpus && !gpus_described() {
        return Err("this node does not describe its GPUs for containers: run `nvidia-ctk cdi \
                    generate --output=/etc/cdi/nvidia.yaml` there"
            .into());
    }
    for v in &w.detail.volumes {
        if !Path::new(&v.from).exists() {
            return Err(format!(
                "volume `{}` does not exist on this node: create it, or mend `from`",
                v.from
            ));
        }
        if v.from.contains([':', ',']) || v.at.contains([':', ',']) {
            return Err(format!("volume `{}`: containers take no `:` or `,` in a path", v.from));
        }
    }
    let ranks = (0..w.detail.slot.ranks).map(|local| w.detail.slot.first_rank + local);
    let names: Vec<String> = ranks.clone().map(|r| format!("{}-{r}", w.prefix)).collect();
    let words = ranks.zip(&names).map(|(r, name)| words(&runtime, image, w, r, name)).collect();
    let pull = containers.pull();
    Ok((ContainerOrder { runtime, image: image.to_owned(), pull, names }, words))
}

fn words(runtime: &[String], image: &str, w: &Wanted<'_>, rank: u32, name: &str) -> Vec<String> {
    let d = w.detail;
    let mut all = runtime.to_vec();
    let mut add = |words: &[&str]| all.extend(words.iter().map(|s| (*s).to_owned()));
    // Signals are sent to the container's processes themselves.
    add(&["run", "--rm", "--pull=never", "--sig-proxy=false", "--name", name]);
    add(&["--network", "host", "--log-driver", "none"]);
    add(&["--security-opt", "no-new-privileges", "--cap-drop", "all", "--cap-add", KEPT_NAMES]);
    add(&["--env-file", VARIABLES, "--shm-size", &w.shm.to_string()]);
    if let Some(group) = &w.group {
        add(&["--cgroup-parent", group]);
    }
    if let Some(memory) = d.limits.memory.filter(|m| m.0 > 0) {
        add(&["--memory", &format!("{}b", memory.0), "--memory-swap", &format!("{}b", memory.0)]);
    }
    if let Some(cpus) = d.limits.cpus.filter(|c| *c > 0) {
        add(&["--cpus", &cpus.to_string()]);
    }
    let pids = d.limits.pids.filter(|p| *p > 0).map_or("-1".to_owned(), |p| p.to_string());
    add(&["--pids-limit", &pids]);
    if isolation::has_power(isolation::SYS_RESOURCE) {
        add(&["--ulimit", "memlock=-1:-1"]);
    } else {
        // The runtime would raise them, which this root may not. It keeps to as many processes
        // as the kernel has numbers for, and what it starts cannot have more.
        let numbers = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok();
        let numbers = numbers.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(u64::MAX);
        let limits = [("nofile", Resource::Nofile, u64::MAX), ("nproc", Resource::Nproc, numbers)];
        for (what, limit, most) in limits {
            if let Some(own) = getrlimit(limit).maximum {
                let most = own.min(most);
                add(&["--ulimit", &format!("{what}={most}:{most}")]);
            }
        }
    }
    if w.gpus {
        for gpu in d.slot.gpus.iter() {
            add(&["--device", &format!("nvidia.com/gpu={gpu}")]);
        }
    }
    let show = |from: &str, at: &str, read_only: bool| {
        format!("{from}:{at}:{}", if read_only { "ro,rbind" } else { "rw,rbind" })
    };
    let report = w.dir.join(format!("{rank}.report")).display().to_string();
    add(&["-v", &show(&report, &report, false)]);
    let script = w.dir.join("script").display().to_string();
    if w.argv.contains(&script) {
        add(&["-v", &show(&script, &script, true)]);
    }
    if !d.secrets.0.is_empty() {
        let dir = w.secrets_dir.display().to_string();
        let real = crate::shim::shared_secrets(w.dir).display().to_string();
        add(&["-v", &show(&real, &dir, true)]);
    }
    for v in &d.volumes {
        add(&["-v", &show(&v.from, &v.at, v.read_only)]);
    }
    if let Some(c) = &d.checkpoint
        && d.volumes.iter().all(|v| !Path::new(&c.dir).starts_with(&v.at))
    {
        add(&["-v", &show(&c.dir, &c.dir, false)]);
    }
    if let Some(dir) = &d.run.workdir {
        add(&["--workdir", dir]);
    }
    // The image's own entry point would swallow the job's command.
    if let Some((program, _)) = w.argv.split_first() {
        add(&["--entrypoint", program]);
    }
    add(&[image]);
    all.extend(w.argv.iter().skip(1).cloned());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::detail;
    use muster_model::placement::GpuSet;
    use muster_model::units::Bytes;

    fn wanted<'a>(d: &'a RunDetail, argv: &'a [String]) -> Wanted<'a> {
        Wanted {
            detail: d,
            prefix: "muster-ab-7.1".into(),
            argv,
            dir: Path::new("/s/runs/7.1"),
            secrets_dir: Path::new("/s/runs/7.1/secrets"),
            group: Some("/muster/n/7.1".into()),
            gpus: false,
            shm: 1 << 20,
        }
    }

    #[test]
    fn a_rank_becomes_a_container_of_its_own() {
        let mut d = detail("");
        d.slot.first_rank = 4;
        d.slot.gpus = GpuSet(0b101);
        d.limits.memory = Some(Bytes::mib(64));
        d.run.env.insert("TOKEN".into(), "hush".into());
        let argv = ["python3".to_owned(), "train.py".to_owned()];
        let mut w = wanted(&d, &argv);
        w.gpus = true;
        let runtime = ["podman".to_owned()];
        let line = words(&runtime, "local/x:1", &w, 4, "muster-ab-7.1-4").join(" ");
        for part in [
            "podman run --rm",
            "--name muster-ab-7.1-4",
            "--network host",
            "--cgroup-parent /muster/n/7.1",
            "--memory 67108864b",
            "--device nvidia.com/gpu=0 --device nvidia.com/gpu=2",
            "-v /s/runs/7.1/4.report:/s/runs/7.1/4.report:rw",
            "--entrypoint python3 local/x:1 train.py",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(!line.contains("hush"), "values are not on the command line");
    }

    #[test]
    fn a_name_that_is_an_option_is_refused() {
        let d = detail("");
        let containers = Containers::new(Pull::Never);
        if containers.runtime().is_err() {
            println!("skipped: no podman here");
            return;
        }
        for bad in ["", "--privileged", "a b"] {
            let refused = order(&containers, bad, &wanted(&d, &[])).unwrap_err();
            assert!(refused.contains("HOST/NAME:TAG"), "{refused}");
        }
    }
}
