//! Starting one slot: its directory, its group, its supervisor.

use super::RunnerConfig;
use crate::cgroup::Group;
use crate::env::{self, Env, Places};
use crate::process;
use crate::run_dir::{MetaFile, RunDir, sanitised, write_private};
use crate::shim::{Order, RankOrder};
use muster_link::messages::RunDetail;
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Most ranks of one slot: more is a slip of the keyboard, and each is a process.
const MOST_RANKS: u32 = 4096;

/// What there is after a start, complete or not.
pub(super) struct Started {
    pub(super) group: Option<Group>,
    pub(super) child: Result<Child, SlotEnd>,
}

pub(super) fn start(
    key: AttemptKey,
    dir: &RunDir,
    detail: &RunDetail,
    config: &RunnerConfig,
    base: &Env,
    made: impl FnOnce(&Path),
) -> Started {
    let fault = |what: &str, e: &io::Error| SlotEnd::NodeFault { reason: format!("{what}: {e}") };
    let mut group = None;
    let go = || -> Result<Child, SlotEnd> {
        check(detail)?;
        dir.create().map_err(|e| fault(&format!("cannot create {}", dir.0.display()), &e))?;
        made(&dir.0);
        group =
            Group::create(&config.cgroups, &group_name(config), &key.to_string(), detail.limits)
                .map_err(|e| fault("cannot make a control group", &e))?;
        let meta =
            MetaFile { detail: sanitised(detail), group: group.clone(), boot: process::boot_id() };
        dir.write("meta.json", &meta).map_err(|e| fault("cannot write meta.json", &e))?;
        let argv = argv(dir, detail).map_err(|e| fault("cannot write the script", &e))?;
        let order = order(key, dir, detail, group.clone(), argv, base);
        spawn(config, &order).map_err(|e| fault("cannot start a supervisor", &e))
    };
    let child = go();
    if let (Err(_), Some(group)) = (&child, &group) {
        group.remove();
    }
    Started { group, child }
}

/// Two agents of one machine (two test clusters, say) may well have nodes and jobs of the same
/// name; their groups must differ.
fn group_name(config: &RunnerConfig) -> String {
    let state = std::os::unix::ffi::OsStrExt::as_bytes(config.state.as_os_str());
    let hash =
        state.iter().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193));
    format!("{}-{hash:08x}", config.node)
}

fn check(detail: &RunDetail) -> Result<(), SlotEnd> {
    let job = |reason: String| Err(SlotEnd::Unstartable { reason });
    if let Some(image) = &detail.run.image {
        return job(format!(
            "this node runs no containers (image `{image}`): leave `image` out, or use a node that does"
        ));
    }
    if detail.slot.ranks == 0 || detail.slot.ranks > MOST_RANKS {
        return job(format!(
            "{} ranks on one node: use 1 to {MOST_RANKS} (ranks_per_node)",
            detail.slot.ranks
        ));
    }
    let nul = |s: &String| s.contains('\0');
    if detail.run.command.iter().any(nul) || detail.run.workdir.iter().any(nul) {
        return job("a NUL character in `command` or `workdir`".into());
    }
    Ok(())
}

/// The program and its arguments; a script is written beside the output first.
fn argv(dir: &RunDir, detail: &RunDetail) -> io::Result<Vec<String>> {
    let Some(script) = detail.run.script.as_ref().filter(|_| detail.run.command.is_empty()) else {
        return Ok(detail.run.command.clone());
    };
    let path = dir.path("script");
    write_private(&path, script.as_bytes())?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
    let path = path.display().to_string();
    Ok(if script.starts_with("#!") { vec![path] } else { vec!["/bin/sh".into(), path] })
}

fn order(
    key: AttemptKey,
    dir: &RunDir,
    detail: &RunDetail,
    group: Option<Group>,
    argv: Vec<String>,
    base: &Env,
) -> Order {
    let secrets_dir = dir.secrets();
    let places = Places { run_dir: &dir.0, secrets_dir: &secrets_dir };
    let ranks = (0..detail.slot.ranks).map(|local| RankOrder {
        rank: detail.slot.first_rank + local,
        env: env::of_rank(detail, local, &places),
    });
    Order {
        dir: dir.0.clone(),
        argv,
        workdir: detail.run.workdir.clone(),
        env: env::common(key, detail, &places, base),
        ranks: ranks.collect(),
        volumes: detail.volumes.clone(),
        secrets: detail.secrets.0.clone(),
        secrets_dir,
        group,
    }
}

fn spawn(config: &RunnerConfig, order: &Order) -> io::Result<Child> {
    // Supervisors share it: they write only when something is wrong.
    let log = File::options().append(true).create(true).open(config.state.join("shim.log"))?;
    let mut child = Command::new(&config.shim.program)
        .arg0("muster")
        .args(&config.shim.args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", config.shim.program.display())))?;
    let text = serde_json::to_vec(order)?;
    if let Some(mut stdin) = child.stdin.take()
        && let Err(e) = stdin.write_all(&text)
    {
        let _ = child.kill();
        let _ = child.wait();
        return Err(e);
    }
    Ok(child)
}
