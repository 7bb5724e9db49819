//! Starting the ranks.

use super::{Order, Ranks, mounts};
use crate::run_dir::RunDir;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Why the ranks could not be started, by whose fault it is.
pub(super) enum LaunchError {
    Job(String),
    Node(String),
}

/// Told apart from everything that starting a program can say by itself.
const GROUP_REFUSED: i32 = libc::EXDEV;

pub(super) fn launch(order: &Order, dir: &RunDir) -> Result<Ranks, (Ranks, LaunchError)> {
    let mut ranks = Ranks::new();
    prepare(order).map_err(|e| (Ranks::new(), e))?;
    let entrances = order
        .group
        .iter()
        .flat_map(|g| g.entrances())
        .map(|p| OpenOptions::new().write(true).open(&p).map_err(|e| (p, e)))
        .collect::<Result<Vec<File>, _>>()
        .map_err(|(p, e)| (Ranks::new(), LaunchError::Node(format!("{}: {e}", p.display()))))?;
    for rank in &order.ranks {
        match start(order, dir, rank, &entrances) {
            Ok(pid) => ranks.insert(pid, rank.rank),
            Err(e) => return Err((ranks, e)),
        };
    }
    Ok(ranks)
}

fn prepare(order: &Order) -> Result<(), LaunchError> {
    mounts::prepare(order)?;
    if let Some(dir) = &order.workdir
        && !Path::new(dir).is_dir()
    {
        return Err(LaunchError::Job(format!(
            "workdir `{dir}` is not a directory on this node: create it, or bind it with `volumes`"
        )));
    }
    Ok(())
}

fn start(
    order: &Order,
    dir: &RunDir,
    rank: &super::RankOrder,
    entrances: &[File],
) -> Result<i32, LaunchError> {
    let node = |e: io::Error| LaunchError::Node(format!("cannot start rank {}: {e}", rank.rank));
    let Some((program, args)) = order.argv.split_first() else {
        return Err(LaunchError::Job("there is nothing to run: set `command` or `script`".into()));
    };
    let open = |suffix: &str| {
        let path = dir.path(&format!("{}.{suffix}", rank.rank));
        OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(node)
    };
    // Made beforehand, so that a job that only ever appends finds it.
    open("report")?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(&order.env)
        .envs(&rank.env)
        .stdin(Stdio::null())
        .stdout(open("out")?)
        .stderr(open("err")?)
        .process_group(0);
    if let Some(dir) = &order.workdir {
        command.current_dir(dir);
    }
    let fds: Vec<i32> = entrances.iter().map(AsRawFd::as_raw_fd).collect();
    #[expect(unsafe_code, reason = "a rank joins its group before its program starts")]
    // SAFETY: between fork and exec only async-signal-safe calls are made, and nothing is
    // allocated; the descriptors outlive the call to spawn.
    unsafe {
        command.pre_exec(move || {
            for fd in &fds {
                if libc::write(*fd, c"0".as_ptr().cast(), 1) != 1 {
                    return Err(io::Error::from_raw_os_error(GROUP_REFUSED));
                }
            }
            for s in [libc::SIGHUP, libc::SIGINT] {
                libc::signal(s, libc::SIG_DFL);
            }
            // A rank must not outlive its supervisor: nobody would learn how it ended.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            Ok(())
        });
    }
    match command.spawn() {
        // The process is waited for by number, together with the others.
        Ok(child) => Ok(child.id().cast_signed()),
        Err(e) => Err(explain(&e, program, order, rank.rank)),
    }
}

fn explain(e: &io::Error, program: &str, order: &Order, rank: u32) -> LaunchError {
    let path = order.env.get("PATH").map_or("", String::as_str);
    match (e.kind(), e.raw_os_error()) {
        (_, Some(GROUP_REFUSED)) => {
            LaunchError::Node(format!("rank {rank} could not join its control group"))
        }
        (io::ErrorKind::NotFound, _) if program.contains('/') => LaunchError::Job(format!(
            "`{program}` was not found on this node (or the interpreter its first line names)"
        )),
        (io::ErrorKind::NotFound, _) => LaunchError::Job(format!(
            "program `{program}` was not found on this node (PATH is {path})"
        )),
        (io::ErrorKind::PermissionDenied, _) => {
            LaunchError::Job(format!("`{program}` may not be run: is it executable?"))
        }
        (_, Some(libc::ENOEXEC)) => LaunchError::Job(format!(
            "`{program}` is not a program this node can run: no `#!` line, or another architecture"
        )),
        (io::ErrorKind::ArgumentListTooLong, _) => {
            LaunchError::Job(format!("arguments and environment of `{program}` are too long"))
        }
        _ => LaunchError::Node(format!("cannot start rank {rank} (`{program}`): {e}")),
    }
}
