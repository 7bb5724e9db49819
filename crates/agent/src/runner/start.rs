//! Starting one slot: its directory, its group, its supervisor.

use super::{RunnerConfig, RunnerTools, Slice};
use crate::cgroup::{Fence, Group};
use crate::container;
use crate::env::{self, Env, SlotDirs};
use crate::inventory;
use crate::isolation::{self, Account, Isolation, IsolationView, Separation, devices, slot_dir};
use crate::lease::LeaseOrder;
use crate::process;
use crate::run_dir::{DirIdentity, MetaFile, RunDir, sanitised, write_private};
use crate::secrets;
use crate::shim::{Order, RankOrder};
use muster_link::messages::{RunDetail, Secrets};
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Most ranks of one slot: more is a slip of the keyboard, and each is a process.
const MOST_RANKS: u32 = 4096;

/// What supervisors complain into, from the first one on.
pub(super) const LOG: &str = "shim.log";

/// The variable of the agent that may have its join token.
const JOIN_TOKEN: &str = "MUSTER_JOIN";

/// What a start needs that all starts share.
pub(super) struct Tools<'a> {
    pub(super) config: &'a RunnerConfig,
    pub(super) runner_tools: &'a RunnerTools,
    /// Variables that ranks inherit from the agent.
    pub(super) base: &'a Env,
    /// How long the ranks may go on without a server.
    pub(super) lease: Option<LeaseOrder>,
    /// The slice of its GPU, when it has one.
    pub(super) slice: Option<Slice>,
}

/// What there is after a start, complete or not.
pub(super) struct StartedSlot {
    pub(super) group: Option<Group>,
    pub(super) child: Result<Child, SlotEnd>,
}

pub(super) fn start(
    key: AttemptKey,
    dir: &RunDir,
    detail: &RunDetail,
    tools: &Tools<'_>,
    made: impl FnOnce(&Path),
) -> StartedSlot {
    let config = tools.config;
    let fault = |what: &str, e: &io::Error| SlotEnd::fault(format!("{what}: {e}"));
    let mut group = None;
    let go = || -> Result<Child, SlotEnd> {
        check(detail)?;
        dir.create().map_err(|e| fault(&format!("cannot create {}", dir.0.display()), &e))?;
        made(&dir.0);
        let mut inside = inside(detail, tools, tools.slice.as_ref())?;
        let contained = contained_as(detail, tools)?;
        if let Some(view) = inside.as_mut().filter(|i| i.open.is_some()) {
            let own = slot_dir::make(&dir.0)
                .map_err(|e| fault("cannot make a directory for the ranks' user", &e))?;
            own_scratch(view, &own, detail);
        }
        let rules = inside.as_ref().map(|i| devices::rules(&i.nodes));
        let required = tools.runner_tools.isolation == Isolation::Required;
        let fence = rules.as_ref().map(|rules| Fence { rules, required });
        let (name, slot) = (group_name(config), key.to_string());
        group = Group::create(&config.cgroups, &name, &slot, detail.limits, fence.as_ref())
            .map_err(|e| fault("cannot make a control group", &e))?;
        if let Some(group) = group.as_mut().filter(|_| detail.run.image.is_some()) {
            group.nest().map_err(|e| fault("cannot make a control group", &e))?;
        }
        let boot = process::boot().map_err(|e| fault("cannot read the id of this boot", &e))?;
        let meta = MetaFile {
            detail: sanitised(detail),
            group: group.clone(),
            boot: boot.to_owned(),
            lease: tools.lease.is_some(),
            place: DirIdentity::of(&dir.0),
        };
        dir.write("meta.json", &meta).map_err(|e| fault("cannot write meta.json", &e))?;
        let argv = argv(dir, detail).map_err(|e| fault("cannot write the script", &e))?;
        let mut order = order(key, dir, detail, group.clone(), argv, tools.base);
        if inside.is_some() && !detail.run.env.contains_key("TMPDIR") {
            // The agent's own would be shared with everybody.
            order.env.remove("TMPDIR");
        }
        order.inside = inside;
        order.lease.clone_from(&tools.lease);
        if let Some(slice) = &tools.slice {
            order.env.insert("CUDA_VISIBLE_DEVICES".into(), slice.uuid.clone());
        }
        if let Some(image) = &detail.run.image {
            order.contained_as = contained;
            contain(&mut order, image, key, detail, tools)
                .map_err(|reason| SlotEnd::Unstartable { reason })?;
            let names = order.container.as_ref().map_or(&[][..], |c| &c.names);
            dir.name_containers(names).map_err(|e| fault("cannot write containers.json", &e))?;
        }
        spawn(config, &order).map_err(|e| fault("cannot start a supervisor", &e))
    };
    let child = go();
    if let (Err(_), Some(group)) = (&child, &group) {
        group.remove();
    }
    StartedSlot { group, child }
}

/// What the ranks are to see of the node; everything when they are whoever the agent is.
fn inside(
    detail: &RunDetail,
    tools: &Tools<'_>,
    slice: Option<&Slice>,
) -> Result<Option<IsolationView>, SlotEnd> {
    if detail.run.image.is_some() {
        return Ok(None);
    }
    let separation = tools.runner_tools.separation();
    if let Some(warning) = separation.warning() {
        static WARNED: std::sync::Once = std::sync::Once::new();
        WARNED.call_once(|| tracing::warn!("{warning}"));
    }
    let open = match separation {
        Separation::Full => None,
        Separation::Account(why) => Some(why),
        Separation::Agent(_) => return Ok(None),
        Separation::Refused(why) => return Err(SlotEnd::fault(why)),
    };
    let share_ipc = devices::shares_mps(&detail.slot);
    let words = detail.run.command.iter().map(String::as_str);
    let paths = detail.run.workdir.iter().chain(&detail.resume).map(String::as_str);
    let mps = share_ipc.then_some(devices::MPS);
    let lasting = detail.checkpoint.as_ref().map(|c| PathBuf::from(&c.dir));
    let of_slice = slice.map_or(&[][..], |s| &s.nodes);
    let mut nodes = devices::nodes(&detail.slot, tools.runner_tools.device_nodes.as_ref());
    nodes.extend(of_slice.iter().cloned());
    let gpus = if has_gpus(detail, tools) { Some(detail.slot.gpus.len()) } else { None };
    let mut account = tools.runner_tools.accounts.of(detail);
    account.join_groups_of(&nodes);
    Ok(Some(IsolationView {
        open,
        env: account.env(&detail.run.env, tools.base),
        account,
        hidden: isolation::hidden(&tools.config.state, &tools.runner_tools.hidden),
        named: isolation::named(words.chain(paths).chain(mps)),
        lasting: lasting.filter(|d| d.is_absolute()),
        nodes,
        shm: shared_memory(detail),
        share_ipc,
        gpus,
    }))
}

/// What everybody shares is not private here: a rank is given a place of its own instead.
fn own_scratch(view: &mut IsolationView, own: &Path, detail: &RunDetail) {
    let tmp = own.join(slot_dir::TMP).display().to_string();
    for name in ["HOME", "TMPDIR"] {
        let homeless = name != "HOME" || view.account.made_up;
        if homeless && !detail.run.env.contains_key(name) {
            view.env.insert(name.to_owned(), tmp.clone());
        }
    }
}

/// Whether the slot's GPUs are really there.
fn has_gpus(detail: &RunDetail, tools: &Tools<'_>) -> bool {
    detail.slot.gpus.iter().any(|i| !(tools.runner_tools.device_nodes)(i).is_empty())
}

/// Half of what the slot may use in all.
fn shared_memory(detail: &RunDetail) -> u64 {
    let meminfo = || std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let all = detail.limits.memory.filter(|m| m.0 > 0);
    all.or_else(|| inventory::memory(&meminfo(), "MemTotal")).map_or(64 << 20, |m| m.0 / 2)
}

/// Turns the order into one whose ranks run in containers.
fn contain(
    order: &mut Order,
    image: &str,
    key: AttemptKey,
    detail: &RunDetail,
    tools: &Tools<'_>,
) -> Result<(), String> {
    let hidden = isolation::hidden(&tools.config.state, &tools.runner_tools.hidden);
    let wanted = container::ContainerRequest {
        detail,
        prefix: format!("muster-{:08x}-{key}", state_hash(tools.config)),
        argv: &order.argv,
        dir: &order.dir,
        hidden: &hidden,
        account: order.contained_as.as_ref(),
        secrets_dir: &order.secrets_dir,
        shared_secrets: &order.shared_secrets,
        group: order.group.as_ref().and_then(Group::path),
        gpus: has_gpus(detail, tools),
        shm: shared_memory(detail),
    };
    let (container, words) = container::order(&tools.runner_tools.containers, image, &wanted)?;
    for (rank, words) in order.ranks.iter_mut().zip(words) {
        rank.argv = words;
    }
    // What the agent's own environment says is about this machine, not about the image. A
    // runtime writes variables to its disk, so secrets come as files alone.
    let plain = RunDetail { secrets: Secrets::default(), ..detail.clone() };
    let places = SlotDirs { run_dir: &order.dir, secrets_dir: &order.secrets_dir };
    let mut variables = env::common(key, &plain, &places, &Env::new());
    if let Some(dir) = order.env.get("MUSTER_SECRETS_DIR") {
        variables.insert("MUSTER_SECRETS_DIR".into(), dir.clone());
    }
    if has_gpus(detail, tools) {
        variables.insert("CUDA_VISIBLE_DEVICES".into(), env::numbered(detail.slot.gpus.len()));
    }
    order.env = variables;
    order.workdir = None;
    order.base = tools.base.clone();
    order.container = Some(container);
    Ok(())
}

/// Who runs inside a container; whoever the agent is when absent.
fn contained_as(detail: &RunDetail, tools: &Tools<'_>) -> Result<Option<Account>, SlotEnd> {
    let runner_tools = tools.runner_tools;
    if detail.run.image.is_none()
        || !runner_tools.isolation.contained(&runner_tools.abilities).map_err(SlotEnd::fault)?
    {
        return Ok(None);
    }
    // Root in a container is root to the volumes that it sees: not in silence.
    let job = |reason: String| SlotEnd::Unstartable { reason };
    if !runner_tools.containers.knows_users().map_err(job)? {
        return Err(job("this node's `ctr` has no `--user` and can run containers as root only: \
                        install podman or a newer containerd, or start the agent with \
                        `--isolation off`"
            .into()));
    }
    Ok(Some(runner_tools.accounts.of(detail)))
}

/// Two agents of one machine (two test clusters, say) may well have nodes and jobs of the same
/// name; their groups must differ.
pub(super) fn group_name(config: &RunnerConfig) -> String {
    format!("{}-{:08x}", config.node, state_hash(config))
}

fn state_hash(config: &RunnerConfig) -> u32 {
    let state = std::os::unix::ffi::OsStrExt::as_bytes(config.state.as_os_str());
    state.iter().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193))
}

fn check(detail: &RunDetail) -> Result<(), SlotEnd> {
    let job = |reason: String| Err(SlotEnd::Unstartable { reason });
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
    let places = SlotDirs { run_dir: &dir.0, secrets_dir: &secrets_dir };
    let ranks = (0..detail.slot.ranks).map(|local| RankOrder {
        rank: detail.slot.first_rank + local,
        env: env::of_rank(detail, local, &places),
        argv: Vec::new(),
    });
    Order {
        dir: dir.0.clone(),
        argv,
        workdir: detail.run.workdir.clone(),
        env: env::common(key, detail, &places, base),
        ranks: ranks.collect(),
        lease: None,
        volumes: detail.volumes.clone(),
        secrets: detail.secrets.0.clone(),
        secrets_dir,
        shared_secrets: secrets::shared(),
        group,
        inside: None,
        container: None,
        base: Env::new(),
        contained_as: None,
    }
}

fn spawn(config: &RunnerConfig, order: &Order) -> io::Result<Child> {
    // Supervisors share it: they write only when something is wrong.
    let log = File::options().append(true).create(true).open(config.state.join(LOG))?;
    let mut child = Command::new(&config.shim.program)
        .arg0("muster")
        .args(&config.shim.args)
        // It lives as long as the ranks, and has no use for the agent's token.
        .env_remove(JOIN_TOKEN)
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
