//! Starting the ranks.

use super::{Lease, Order, Ranks, mounts};
use crate::cgroup::Group;
use crate::container;
use crate::env;
use crate::isolation::sys::c_path;
use crate::isolation::{
    Account, Inner, OWN, Refusal, TargetAccount, filter, grant_access, keep_abstract_sockets,
    moved_to, slot_dir,
};
use crate::process;
use crate::run_dir::RunDir;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Distinct from everything that starting a program can say by itself.
const GROUP_REFUSED: i32 = libc::EXDEV;
const NAMESPACE_REFUSED: i32 = libc::ENOTUNIQ;
const WORKDIR_REFUSED: i32 = libc::EREMCHG;
const ACCOUNT_REFUSED: i32 = libc::EKEYREVOKED;
const FILTER_REFUSED: i32 = libc::EKEYREJECTED;

/// What has been started so far.
#[derive(Default)]
pub(super) struct Launched {
    pub(super) ranks: Ranks,
    pub(super) inner: Option<Inner>,
    /// Why only their account separates the ranks, where that is so.
    pub(super) open: Option<String>,
}

pub(super) fn launch(
    order: &Order,
    dir: &RunDir,
    up: &mut Launched,
    mut lease: Option<&mut Lease>,
) -> Result<(), Refusal> {
    let own = RunDir(slot_dir::of(&dir.0).unwrap_or_else(|| dir.0.clone()));
    // Made beforehand, so that a job that only ever appends finds them.
    for rank in &order.ranks {
        create(&own, rank.rank, "report")?;
    }
    if let Some(who) = order.account() {
        give_files(order, &own, who).map_err(|e| Refusal::node("cannot hand over files", &e))?;
    }
    prepare(order, dir, up)?;
    if order.inside.is_some() {
        keep_abstract_sockets();
    }
    let base = if up.inner.is_some() { Path::new(OWN) } else { &own.0 };
    let entrances = order
        .group
        .iter()
        .flat_map(|g| g.entrances())
        .map(|p| OpenOptions::new().write(true).open(&p).map_err(|e| (p, e)))
        .collect::<Result<Vec<File>, _>>()
        .map_err(|(p, e)| Refusal::node(&p.display().to_string(), &e))?;
    for rank in &order.ranks {
        // What came before may have taken its time.
        lease.as_deref_mut().map_or(Ok(()), Lease::check)?;
        let pid = start(order, dir, rank, &entrances, (up.inner.as_ref(), base))?;
        up.ranks.insert(pid, rank.rank);
    }
    Ok(())
}

/// Lets the ranks' account use what is theirs of the attempt's directory.
fn give_files(order: &Order, dir: &RunDir, who: &Account) -> io::Result<()> {
    for rank in &order.ranks {
        grant_access(&dir.path(&format!("{}.report", rank.rank)), who, 0o660)?;
    }
    grant_access(&dir.path("script"), who, 0o550)
}

fn prepare(order: &Order, dir: &RunDir, up: &mut Launched) -> Result<(), Refusal> {
    if let Some(inside) = &order.inside {
        if let Some(why) = &inside.open {
            up.open = Some(why.clone());
            return mounts::prepare_for(order, &dir.0, inside);
        }
        // What fails from here on ends the attempt: ranks are never left less separated than the
        // agent decided.
        let inner = Inner::make(&order.plan(), inside).map_err(|refusal| match refusal {
            Refusal::Node(why) => Refusal::Node(format!("ranks cannot be isolated here: {why}")),
            other => other,
        })?;
        up.inner = Some(inner);
        return Ok(());
    }
    mounts::prepare(order)?;
    if let Some(dir) = &order.workdir
        && !Path::new(dir).is_dir()
    {
        return Err(Refusal::Job(format!(
            "workdir `{dir}` is not a directory on this node: create it, or bind it with `volumes`"
        )));
    }
    Ok(())
}

fn create(dir: &RunDir, rank: u32, suffix: &str) -> Result<File, Refusal> {
    let path = dir.path(&format!("{rank}.{suffix}"));
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    opened.map_err(|e| Refusal::node(&format!("cannot start rank {rank}"), &e))
}

fn start(
    order: &Order,
    dir: &RunDir,
    rank: &super::RankOrder,
    entrances: &[File],
    (inner, base): (Option<&Inner>, &Path),
) -> Result<i32, Refusal> {
    let argv = if rank.argv.is_empty() { &order.argv } else { &rank.argv };
    let Some((program, args)) = argv.split_first() else {
        return Err(Refusal::Job("there is nothing to run: set `command` or `script`".into()));
    };
    let mut command = Command::new(program);
    command.env_clear();
    // Held open until the program runs.
    let mut variables = None;
    if order.container.is_some() {
        let mut log = create(dir, rank.rank, "err")?;
        let left_out = |name: &str| {
            let _ = writeln!(
                log,
                "muster: {name} has several lines and is left out: containers take no such variables"
            );
        };
        let file = container::variables(order.env.iter().chain(&rank.env), left_out)
            .map_err(|e| Refusal::node("cannot hand over variables", &e))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        command.args(container::with_variables(args, &path));
        command.envs(&order.base);
        variables = Some(file);
    } else {
        match &order.inside {
            Some(inside) => {
                let moved = |a: &String| match moved_to(base, &order.dir, Path::new(a)) {
                    Some(path) => path.display().to_string(),
                    None => a.clone(),
                };
                command = Command::new(moved(program));
                command.env_clear().args(args.iter().map(moved));
                command.envs(order.env.iter().map(|(k, v)| (k, moved(v))));
                command.envs(&inside.env).envs(rank.env.iter().map(|(k, v)| (k, moved(v))));
            }
            None => {
                command.args(args).envs(&order.env).envs(&rank.env);
            }
        }
        let seen = order.inside.as_ref().and_then(|i| i.gpus);
        if let Some(gpus) = seen.filter(|_| hides_devices(order, inner)) {
            command.env("CUDA_VISIBLE_DEVICES", env::numbered(gpus));
        }
    }
    let (out, err) = (create(dir, rank.rank, "out")?, create(dir, rank.rank, "err")?);
    let who = order.inside.as_ref().map(|i| &i.account);
    if let Some(who) = who {
        for stream in ["out", "err"] {
            grant_access(&dir.path(&format!("{}.{stream}", rank.rank)), who, 0o660)
                .map_err(|e| Refusal::node("cannot hand over output", &e))?;
        }
    }
    command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    let bad = |e: io::Error| Refusal::node("workdir", &e);
    let workdir = order.workdir.as_ref().map(|d| c_path(Path::new(d))).transpose().map_err(bad)?;
    let fds: Vec<i32> = entrances.iter().map(AsRawFd::as_raw_fd).collect();
    let mounts = inner.map(|i| i.mounts().as_raw_fd());
    let becoming = who.map(TargetAccount::new);
    // What runs a container needs the powers that it keeps from the container.
    let plain = rank.argv.is_empty();
    // It would hand a score on to what watches the container: only the program inside gets one.
    let score = plain.then(process::rank_oom_score);
    #[expect(unsafe_code, reason = "a rank joins its group before its program starts")]
    // SAFETY: between fork and exec only async-signal-safe calls are made, and nothing is
    // allocated; the descriptors outlive the call to spawn.
    unsafe {
        command.pre_exec(move || {
            // The supervisor ignores and blocks signals for itself, as may whoever started the agent. A
            // shell that waits for its children would wait for ever; one that wants to handle a signal
            // that is ignored cannot.
            process::reset_signals()?;
            if let Some(score) = &score {
                process::set_oom_score(score);
            }
            for fd in &fds {
                if libc::write(*fd, c"0".as_ptr().cast(), 1) != 1 {
                    return Err(io::Error::from_raw_os_error(GROUP_REFUSED));
                }
            }
            // A rank must not outlive its supervisor: nobody would learn how it ended.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            if let Some(fd) = mounts
                // In a namespace of their own the ranks' control group is called `/`.
                && (libc::setns(fd, libc::CLONE_NEWNS) != 0
                    || libc::unshare(libc::CLONE_NEWCGROUP) != 0)
            {
                return Err(io::Error::from_raw_os_error(NAMESPACE_REFUSED));
            }
            if let Some(account) = &becoming
                && !account.for_good()
            {
                return Err(io::Error::from_raw_os_error(ACCOUNT_REFUSED));
            }
            if let Some(dir) = &workdir
                && libc::chdir(dir.as_ptr()) != 0
            {
                return Err(io::Error::from_raw_os_error(WORKDIR_REFUSED));
            }
            if plain {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            }
            if becoming.is_some() && filter().is_err() {
                return Err(io::Error::from_raw_os_error(FILTER_REFUSED));
            }
            Ok(())
        });
    }
    let spawned = command.spawn();
    drop(variables);
    match spawned {
        // The process is waited for by number, together with the others.
        Ok(child) => Ok(child.id().cast_signed()),
        Err(e) => Err(explain(&e, program, order, rank.rank)),
    }
}

/// Whether the ranks see no other GPUs than their own, which CUDA then counts from zero.
fn hides_devices(order: &Order, inner: Option<&Inner>) -> bool {
    inner.is_some() || order.group.as_ref().is_some_and(Group::fenced)
}

fn explain(e: &io::Error, program: &str, order: &Order, rank: u32) -> Refusal {
    match (e.kind(), e.raw_os_error()) {
        (_, Some(GROUP_REFUSED)) => {
            Refusal::Node(format!("rank {rank} could not join its control group"))
        }
        (_, Some(NAMESPACE_REFUSED)) => {
            Refusal::Node(format!("rank {rank} could not join its namespaces"))
        }
        (_, Some(FILTER_REFUSED)) => {
            Refusal::Node(format!("rank {rank}'s calls to the kernel could not be filtered"))
        }
        (_, Some(ACCOUNT_REFUSED)) => Refusal::Node(format!(
            "rank {rank} could not become {}",
            order.account().map_or_else(String::new, Account::describe_account)
        )),
        (_, Some(WORKDIR_REFUSED)) => Refusal::Job(format!(
            "workdir `{}` cannot be entered",
            order.workdir.as_deref().unwrap_or_default()
        )),
        (io::ErrorKind::NotFound, _) if program.contains('/') => Refusal::Job(format!(
            "`{program}` was not found on this node (or the interpreter its first line names)"
        )),
        (io::ErrorKind::NotFound, _) => {
            Refusal::Job(format!("program `{program}` was not found in the PATH of this node"))
        }
        (io::ErrorKind::PermissionDenied, _) => {
            let who =
                order.account().map_or_else(|| "the agent".to_owned(), Account::describe_account);
            Refusal::Job(format!("`{program}` may not be run by {who}: is it executable?"))
        }
        (_, Some(libc::ENOEXEC)) => Refusal::Job(format!(
            "`{program}` is not a program this node can run: no `#!` line, or another architecture"
        )),
        (io::ErrorKind::ArgumentListTooLong, _) => {
            Refusal::Job(format!("arguments and environment of `{program}` are too long"))
        }
        _ => Refusal::Node(format!("cannot start rank {rank} (`{program}`): {e}")),
    }
}
