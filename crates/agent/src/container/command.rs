//! What is run for each rank.

use super::find::{Containers, Kind, Pull, Runtime, gpus_described};
use super::wanted::ContainerRequest;
use super::{ctr, podman};
use crate::isolation::source::{SourceError, open_source};
use crate::isolation::{Account, Refusal, as_account, replaced};
use muster_model::contained::is_image_name;
use muster_model::node_paths::check_source;
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
    if !is_image_name(image) {
        let image = image.escape_debug();
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
    let ranks = (0..w.detail.slot.ranks).map(|local| w.detail.slot.first_rank + local);
    let names: Vec<String> = ranks.clone().map(|r| format!("{}-{r}", w.prefix)).collect();
    let words = ranks.zip(&names).map(|(rank, name)| match runtime.kind {
        Kind::Podman => podman::words(&runtime, image, w, rank, name),
        Kind::Containerd => ctr::words(&runtime, image, w, rank, name),
    });
    let words = words.collect::<Result<_, String>>()?;
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
                "cannot bind volume `{}` at `{}`: {why}: name a directory in it",
                v.from, v.at
            )));
        }
    }
    Ok(())
}

/// Whether the directory for checkpoints, which is there, may be bound into a container: whoever runs
/// inside is to see no more of the node by it than by a volume.
///
/// # Errors
/// Why the job cannot have it, with what to do.
pub(crate) fn check_checkpoints(
    dir: &Path,
    who: Option<&Account>,
    hidden: &[PathBuf],
) -> Result<(), Refusal> {
    let look = || dir.canonicalize();
    let refused = |why: &dyn std::fmt::Display| {
        let dir = dir.display();
        Refusal::Job(format!("checkpoint directory `{dir}` cannot be bound: {why}; choose another"))
    };
    let real = match who {
        Some(who) => as_account(who, look).and_then(|real| real),
        None => look(),
    };
    let real = real.map_err(|e| refused(&e))?;
    check_source(&real.to_string_lossy()).map_err(|why| refused(&why))?;
    if hidden.iter().any(|h| real.starts_with(h) || h.starts_with(&real)) {
        return Err(refused(&"the agent's own directory is in it, or it in that"));
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
    use muster_model::spec::CheckpointSpec;
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
            shared_secrets: Path::new("/dev/shm/muster-1f"),
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
        d.secrets.0.insert("key".into(), "hush".into());
        let argv = ["python3".to_owned(), "train.py".to_owned()];
        let mut w = wanted(&d, &argv);
        w.gpus = true;
        let runtime = Runtime::new(Kind::Podman, vec!["podman".into()]);
        let line =
            podman::words(&runtime, "local/x:1", &w, 4, "muster-ab-7.1-4").unwrap().join(" ");
        for part in [
            "podman run --rm",
            "--name muster-ab-7.1-4",
            "--pid private --network host",
            "--cgroup-parent /muster/n/7.1",
            "--memory 67108864b",
            "--device nvidia.com/gpu=0 --device nvidia.com/gpu=2",
            "-v /s/runs/7.1/4.report:/s/runs/7.1/4.report:rw",
            "-v /dev/shm/muster-1f:/s/runs/7.1/secrets:ro",
            "--entrypoint python3 local/x:1 train.py",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(!line.contains("hush"), "values are not on the command line");
        let scored = line.contains("--oom-score-adj 500");
        assert_eq!(scored, crate::process::has_lower_oom_score(), "{line}");
        let runtime = Runtime::new(Kind::Containerd, vec!["ctr".into()]);
        let line = ctr::words(&runtime, "local/x:1", &w, 4, "muster-ab-7.1-4").unwrap().join(" ");
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
        for bad in ["", "--privileged", "a b", "x,name!=y", "dir:/etc", "{variables}"] {
            let refused = order(&Containers::with_podman(), bad, &wanted(&d, &[])).unwrap_err();
            assert!(refused.contains("HOST/NAME:TAG"), "{refused}");
        }
    }

    /// The arguments of both runtimes, or why there are none.
    fn both(d: &RunDetail) -> [Result<Vec<String>, String>; 2] {
        let argv = ["true".to_owned()];
        let runtime = |kind| Runtime::new(kind, vec!["x".into()]);
        let (p, c) = (runtime(Kind::Podman), runtime(Kind::Containerd));
        let w = wanted(d, &argv);
        [podman::words(&p, "x:1", &w, 0, "c"), ctr::words(&c, "x:1", &w, 0, "c")]
    }

    #[test]
    fn no_path_of_a_job_becomes_another_part_of_an_argument() {
        for bad in
            ["/ckpt,src=/etc,dst=/host", "/ckpt:/host", "/ckpt\"x", "/ckpt\\", "/ckpt\n", "ckpt"]
        {
            let checkpoint = CheckpointSpec { dir: bad.into(), ..CheckpointSpec::default() };
            let named = [
                ("checkpoint.dir", RunDetail { checkpoint: Some(checkpoint), ..detail("") }),
                ("volumes[0]", RunDetail { volumes: vec![volume(bad)], ..detail("") }),
                ("volumes[0]", {
                    let v = Volume { at: bad.into(), ..volume("/data") };
                    RunDetail { volumes: vec![v], ..detail("") }
                }),
            ];
            for (field, d) in named {
                for words in both(&d) {
                    let why = words.unwrap_err();
                    assert!(why.starts_with(field) && why.contains("container"), "{bad}: {why}");
                }
            }
        }
        let mut d = detail("");
        d.volumes.push(volume("/data/a b=c"));
        for words in both(&d) {
            assert!(words.unwrap().iter().any(|w| w.contains("/data/a b=c")));
        }
    }

    #[test]
    fn a_program_that_looks_like_a_list_is_one_program() {
        let (d, argv) = (detail(""), [r#"["/bin/sh","-c"]"#.to_owned()]);
        let runtime = Runtime::new(Kind::Podman, vec!["podman".into()]);
        let words = podman::words(&runtime, "x:1", &wanted(&d, &argv), 0, "c").unwrap();
        let at = words.iter().position(|w| w == "--entrypoint").unwrap() + 1;
        assert_eq!(serde_json::from_str::<Vec<String>>(&words[at]).unwrap(), argv);
    }

    fn volume(from: &str) -> Volume {
        Volume { from: from.into(), at: "/mnt/x".into(), read_only: true }
    }

    #[test]
    fn the_agent_itself_looks_at_no_path_of_a_volume() {
        let mut d = detail("");
        d.volumes.push(volume("/no/such/file/system"));
        let ordered = order(&Containers::with_podman(), "local/x:1", &wanted(&d, &[]));
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
        let own = "each job has its own, which is gone afterwards: name a directory in it";
        assert!(refused("/tmp", &[]).contains(own));
    }

    fn refused(from: &str, hidden: &[PathBuf]) -> String {
        match check_volumes(&[volume(from)], None, hidden) {
            Err(Refusal::Job(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn checkpoints_show_no_more_of_the_node_than_volumes() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (inner, link) = (root.join("inner"), root.join("link"));
        std::fs::create_dir(&inner).unwrap();
        std::os::unix::fs::symlink("/proc/self", &link).unwrap();
        assert!(check_checkpoints(&inner, None, &[]).is_ok());
        for (dir, hidden) in [
            (Path::new("/"), vec![]),
            (Path::new("/dev/shm"), vec![]),
            (link.as_path(), vec![]),
            (inner.as_path(), vec![root.clone()]),
            (root.as_path(), vec![inner.clone()]),
        ] {
            let refused = check_checkpoints(dir, None, &hidden);
            assert!(matches!(refused, Err(Refusal::Job(_))), "{}", dir.display());
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
