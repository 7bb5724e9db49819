//! What is run for each rank.

use super::find::{Containers, Kind, Pull, Runtime, gpus_described};
use super::wanted::ContainerRequest;
use super::{ctr, podman};
use crate::isolation::source::{SourceError, open_source};
use crate::isolation::{Account, Refusal, as_account, replaced};
use muster_model::spec::Volume;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What the supervisor must know of a slot in containers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ContainerOrder {
    pub(crate) runtime: Runtime,
    pub(crate) image: String,
    pub(crate) pull: Pull,
    /// The containers, one for each rank.
    pub(crate) names: Vec<String>,
    /// What is the agent's and the server's alone.
    pub(crate) hidden: Vec<PathBuf>,
}

/// The order for a slot's containers, with the words of each rank. Looks at no path of the job's:
/// one on a file system that does not answer must hold up nobody else. See [`check_volumes`].
///
/// # Errors
/// Why the job cannot run here, with what to do.
pub(crate) fn order(
    containers: &Containers,
    image: &str,
    w: &ContainerRequest<'_>,
) -> Result<(ContainerOrder, Vec<Vec<String>>), String> {
    let runtime = containers.runtime()?.clone();
    if image.is_empty() || image.starts_with('-') || image.contains(char::is_whitespace) {
        return Err(format!("`{image}` is no name of an image: write it as HOST/NAME:TAG"));
    }
    if w.gpus && runtime.kind == Kind::Containerd {
        return Err("this node runs containers with containerd's `ctr`, which is not given GPUs \
                    by description: install podman there"
            .into());
    }
    if w.gpus && !gpus_described() {
        return Err("this node does not describe its GPUs for containers: run `nvidia-ctk cdi \
                    generate --output=/etc/cdi/nvidia.yaml` there"
            .into());
    }
    for v in &w.detail.volumes {
        if v.from.contains([':', ',']) || v.at.contains([':', ',']) {
            return Err(format!("volume `{}`: containers take no `:` or `,` in a path", v.from));
        }
    }
    let ranks = (0..w.detail.slot.ranks).map(|local| w.detail.slot.first_rank + local);
    let names: Vec<String> = ranks.clone().map(|r| format!("{}-{r}", w.prefix)).collect();
    let words = ranks.zip(&names).map(|(rank, name)| match runtime.kind {
        Kind::Podman => podman::words(&runtime, image, w, rank, name),
        Kind::Containerd => ctr::words(&runtime, image, w, rank, name),
    });
    let words = words.collect();
    let (image, pull, hidden) = (image.to_owned(), containers.pull(), w.hidden.to_vec());
    Ok((ContainerOrder { runtime, image, pull, names, hidden }, words))
}

/// Whether the volumes of a slot's containers are there, and whoever runs inside may have them. For
/// the slot's supervisor: it may wait for a file system for as long as that takes.
///
/// # Errors
/// Why the job cannot have one of them, with what to do.
pub(crate) fn check_volumes(
    volumes: &[Volume],
    who: Option<&Account>,
    hidden: &[PathBuf],
) -> Result<(), Refusal> {
    for v in volumes {
        let real = source(Path::new(&v.from), who).map_err(|e| e.refusal(v, who))?;
        if hidden.iter().any(|h| real.starts_with(h) || h.starts_with(&real)) {
            return Err(Refusal::Job(format!(
                "volume `{}` has the agent's own directory in it: name another",
                v.from
            )));
        }
        if let Some(why) = replaced(&real) {
            return Err(Refusal::Job(format!(
                "cannot bind volume `{}` at `{}`: {why}",
                v.from, v.at
            )));
        }
    }
    Ok(())
}

/// Where a volume really comes from, if whoever runs inside may go there.
fn source(from: &Path, who: Option<&Account>) -> Result<PathBuf, SourceError> {
    let look = || open_source(from).map(|(_, real)| real);
    match who {
        Some(who) => as_account(who, look)?,
        None => look(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::detail;
    use muster_link::messages::RunDetail;
    use muster_model::placement::GpuSet;
    use muster_model::units::Bytes;

    fn wanted<'a>(d: &'a RunDetail, argv: &'a [String]) -> ContainerRequest<'a> {
        ContainerRequest {
            detail: d,
            prefix: "muster-ab-7.1".into(),
            argv,
            dir: Path::new("/s/runs/7.1"),
            hidden: &[],
            account: None,
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
        let runtime = Runtime { kind: Kind::Podman, words: vec!["podman".into()] };
        let line = podman::words(&runtime, "local/x:1", &w, 4, "muster-ab-7.1-4").join(" ");
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
        let scored = line.contains("--oom-score-adj 500");
        assert_eq!(scored, crate::process::has_lower_oom_score(), "{line}");
        let runtime = Runtime { kind: Kind::Containerd, words: vec!["ctr".into()] };
        let line = ctr::words(&runtime, "local/x:1", &w, 4, "muster-ab-7.1-4").join(" ");
        for part in [
            "ctr run --rm --net-host",
            "--cgroup /muster/n/7.1/muster-ab-7.1-4",
            "--memory-limit 67108864",
            "src=/s/runs/7.1/4.report,dst=/s/runs/7.1/4.report,options=rbind:rw",
            "local/x:1 muster-ab-7.1-4 python3 train.py",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }

    #[test]
    fn a_name_that_is_an_option_is_refused() {
        let d = detail("");
        for bad in ["", "--privileged", "a b"] {
            let refused = order(&Containers::pretended(), bad, &wanted(&d, &[])).unwrap_err();
            assert!(refused.contains("HOST/NAME:TAG"), "{refused}");
        }
    }

    fn volume(from: &str) -> Volume {
        Volume { from: from.into(), at: "/mnt/x".into(), read_only: true }
    }

    #[test]
    fn the_agent_itself_looks_at_no_path_of_a_volume() {
        let mut d = detail("");
        d.volumes.push(volume("/no/such/file/system"));
        let ordered = order(&Containers::pretended(), "local/x:1", &wanted(&d, &[]));
        assert!(ordered.is_ok(), "its supervisor says that it is not there");
    }

    #[test]
    fn what_is_the_nodes_alone_is_no_volume_of_an_image() {
        for from in
            ["/proc", "/sys/kernel", "/run", "/usr/../proc/self", "/proc/self/root", "/dev/shm"]
        {
            let refused = refused(from, &[]);
            assert!(refused.contains("is the node's alone"), "{refused}");
        }
        assert!(refused("/tmp", &[]).contains("each job has its own"));
    }

    fn refused(from: &str, hidden: &[PathBuf]) -> String {
        match check_volumes(&[volume(from)], None, hidden) {
            Err(Refusal::Job(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_missing_or_the_agents_own_is_no_volume_of_an_image() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let inner = root.join("inner");
        std::fs::create_dir(&inner).unwrap();
        let (root, inner) = (root.display().to_string(), inner.display().to_string());
        assert!(check_volumes(&[volume(&inner)], None, &[]).is_ok());
        for (from, hidden) in [(&root, &inner), (&inner, &root)] {
            let why = refused(from, &[PathBuf::from(hidden)]);
            assert!(why.contains("the agent's own directory"), "{why}");
        }
        let why = refused("/no/such/file/system", &[]);
        assert!(why.contains("does not exist on this node"), "{why}");
    }
}
