//! A real Slurm of our own: controller, four nodes with eight simulated GPUs each, REST server.
//! Debian's packages; its own ports, keys and directories; gone afterwards.

use anyhow::{Context, Result, bail};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use xtask::proc::{Daemon, TempDir, account, check, free_port, is_root, which};

const NODES: u16 = 4;
const GPUS: u32 = 8;
/// The REST server refuses to run as root or as Slurm's own user.
const REST_USER: &str = "nobody";
const REST_VERSION: &str = "v0.0.38";

/// A running Slurm; stopped when dropped, in the order of the fields.
pub(crate) struct Slurm {
    _rest: Daemon,
    _nodes: Vec<Daemon>,
    _controller: Daemon,
    _munge: Daemon,
    dir: TempDir,
    conf: PathBuf,
    rest_port: u16,
    token: String,
}

/// Whether all of its programs are installed.
pub(crate) fn is_installed() -> bool {
    ["slurmctld", "slurmd", "slurmrestd", "sbatch", "srun", "munged"]
        .iter()
        .all(|program| which(program).is_some())
}

/// Installs what is missing when asked to; says whether the peer can be measured.
pub(crate) fn available(install: bool) -> Result<bool> {
    if !is_installed() && install {
        xtask::install::apt(xtask::install::SLURM_PACKAGES)?;
    }
    Ok(is_installed() && is_root())
}

/// One of its programs, wherever it is.
pub(crate) fn program(name: &str) -> Result<Command> {
    Ok(Command::new(which(name).with_context(|| format!("{name} is not installed"))?))
}

fn random(bytes: usize) -> Result<Vec<u8>> {
    let mut key = vec![0; bytes];
    fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(key)
}

fn write_secret(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o400))?;
    Ok(())
}

impl Slurm {
    /// Starts one with its state in a fresh directory in `parent`.
    pub(crate) fn start(parent: &Path) -> Result<Slurm> {
        let (dir, munge) = workplace(parent, "slurm", GPUS)?;
        let s = dir.path();
        write_secret(&s.join("state/jwt_hs256.key"), &random(32)?)?;
        let (controller_port, rest_port) = (free_port()?, free_port()?);
        let node_ports: Vec<u16> = (0..NODES).map(|_| free_port()).collect::<Result<_>>()?;
        let conf = s.join("conf/slurm.conf");
        fs::write(&conf, configuration(s, controller_port, &node_ports))?;
        let gres = format!(
            "NodeName=n[1-{NODES}] Name=gpu Type=h100 File={}/dev/gpu[0-{}]\n",
            s.display(),
            GPUS - 1
        );
        fs::write(s.join("conf/gres.conf"), gres)?;
        let with_conf = |name: &str| -> Result<Command> {
            let mut command = program(name)?;
            command.env("SLURM_CONF", &conf).current_dir(s);
            Ok(command)
        };
        let mut command = with_conf("slurmctld")?;
        command.args(["-D", "-c"]);
        let mut controller = Daemon::spawn("slurmctld", command, &s.join("log/slurmctld.out"))?;
        controller.wait_ready(Duration::from_secs(30), |_| {
            TcpStream::connect(("127.0.0.1", controller_port)).ok()
        })?;
        let mut nodes = Vec::new();
        for i in 1..=NODES {
            dir.sub(&format!("spool/n{i}"))?;
            let mut command = with_conf("slurmd")?;
            command.args(["-D", "-N", &format!("n{i}")]);
            let log = s.join(format!("log/slurmd.n{i}.out"));
            nodes.push(Daemon::spawn("slurmd", command, &log)?);
        }
        wait_idle(&conf, &mut controller)?;
        let token = with_conf("scontrol")?;
        let token = make_token(token)?;
        let (uid, gid) = account(REST_USER).context("there is no ordinary account to use")?;
        let mut command = with_conf("slurmrestd")?;
        command
            .env("SLURM_JWT", "daemon")
            .args(["-a", "rest_auth/jwt", "-s", &format!("openapi/{REST_VERSION}")])
            .arg(format!("127.0.0.1:{rest_port}"))
            .current_dir("/")
            .uid(uid)
            .gid(gid);
        let mut rest = Daemon::spawn("slurmrestd", command, &s.join("log/slurmrestd.out"))?;
        rest.wait_ready(Duration::from_secs(30), |_| {
            TcpStream::connect(("127.0.0.1", rest_port)).ok()
        })?;
        Ok(Slurm {
            _rest: rest,
            _nodes: nodes,
            _controller: controller,
            _munge: munge,
            dir,
            conf,
            rest_port,
            token,
        })
    }

    /// One of Slurm's own commands, as root.
    pub(crate) fn command(&self, name: &str) -> Command {
        let path = which(name).unwrap_or_else(|| PathBuf::from(name));
        let mut command = Command::new(path);
        command.env("SLURM_CONF", &self.conf).current_dir(self.dir.path());
        command
    }

    /// Where and how its REST server takes jobs.
    pub(crate) fn rest(&self) -> Result<crate::http::Target> {
        let headers = [("X-SLURM-USER-NAME", REST_USER), ("X-SLURM-USER-TOKEN", &self.token)];
        crate::http::Target::new(self.rest_port, &headers)
    }

    /// The path that takes jobs.
    pub(crate) fn submit_path() -> String {
        format!("/slurm/{REST_VERSION}/job/submit")
    }

    /// A trivial job as its REST server takes it.
    pub(crate) fn job(&self, hold: bool) -> serde_json::Value {
        serde_json::json!({
            "script": "#!/bin/sh\ntrue\n",
            "job": {
                "name": "bench",
                "partition": "main",
                "current_working_directory": self.dir.path(),
                "standard_output": "/dev/null",
                "standard_error": "/dev/null",
                "environment": {"PATH": "/bin:/usr/bin"},
                "hold": hold,
            },
        })
    }

    /// Jobs that ended well since it started.
    pub(crate) fn completed(&self) -> Result<u64> {
        let text = check(&mut self.command("sdiag"))?;
        text.lines()
            .find_map(|l| l.trim().strip_prefix("Jobs completed:")?.trim().parse().ok())
            .context("sdiag does not count jobs")
    }

    /// Waits until so many jobs ended well.
    pub(crate) fn wait_completed(&self, at_least: u64, within: Duration) -> Result<()> {
        let until = Instant::now() + within;
        loop {
            let done = self.completed()?;
            if done >= at_least {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("Slurm completed {done} of {at_least} jobs within {within:?}");
            }
            // Each look costs the controller something.
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// How many jobs wait on hold: to see that "held" means the same on both sides.
    pub(crate) fn held(&self) -> Result<usize> {
        let text = check(self.command("squeue").args(["-h", "-t", "PD", "-o", "%r"]))?;
        Ok(text.lines().filter(|reason| reason.contains("Held")).count())
    }

    /// Its version, in words.
    pub(crate) fn version(&self) -> String {
        check(self.command("sbatch").arg("--version"))
            .map_or_else(|_| "Slurm".into(), |v| v.trim().replace("slurm-wlm", "Slurm"))
    }
}

/// The daemon that signs its messages, with a key and a socket of its own in `s/munge`.
/// A fresh directory with all that a Slurm of one's own needs in it: subdirectories, munge, and
/// devices that look like GPUs.
pub(crate) fn workplace(parent: &Path, name: &str, gpus: u32) -> Result<(TempDir, Daemon)> {
    let dir = TempDir::in_dir(parent, name)?;
    let s = dir.path();
    // The REST server's user must reach the configuration and the key's socket.
    fs::set_permissions(s, fs::Permissions::from_mode(0o755))?;
    for name in ["conf", "state", "log", "run", "dev", "munge"] {
        dir.sub(name)?;
    }
    let munge = start_munge(s)?;
    // Count-only GPUs are reported as none: it wants device files.
    for i in 0..gpus {
        let device = s.join(format!("dev/gpu{i}"));
        let null = rustix::fs::makedev(1, 3);
        mknodat(CWD, &device, FileType::CharacterDevice, Mode::from(0o666), null)
            .with_context(|| format!("cannot make {}", device.display()))?;
    }
    Ok((dir, munge))
}

fn start_munge(s: &Path) -> Result<Daemon> {
    // It insists on its own account's files in a directory that nobody else can write to.
    let (uid, gid) = account("munge").context("there is no `munge` account")?;
    let home = s.join("munge");
    let key = home.join("munge.key");
    write_secret(&key, &random(128)?)?;
    for path in [&home, &key] {
        std::os::unix::fs::chown(path, Some(uid), Some(gid))?;
    }
    let mut command = program("munged")?;
    command.arg("--foreground").arg("--force");
    for (flag, file) in [
        ("key-file", "munge.key"),
        ("socket", "munge.socket"),
        ("pid-file", "munge.pid"),
        ("log-file", "munge.log"),
        ("seed-file", "munge.seed"),
    ] {
        command.arg(format!("--{flag}={}", home.join(file).display()));
    }
    command.uid(uid).gid(gid).current_dir(&home);
    let mut munge = Daemon::spawn("munged", command, &s.join("log/munged.out"))?;
    munge.wait_ready(Duration::from_secs(10), |_| {
        home.join("munge.socket").exists().then_some(())
    })?;
    Ok(munge)
}

fn wait_idle(conf: &Path, controller: &mut Daemon) -> Result<()> {
    controller
        .wait_ready(Duration::from_secs(60), |_| {
            let mut sinfo = program("sinfo").ok()?;
            let text = check(
                sinfo.env("SLURM_CONF", conf).args(["-h", "-N", "-p", "main", "-o", "%N %t"]),
            );
            let idle = text.ok()?.lines().filter(|l| l.ends_with(" idle")).count();
            (idle == usize::from(NODES)).then_some(())
        })
        .context("Slurm's nodes did not come up")
}

fn make_token(mut scontrol: Command) -> Result<String> {
    let text = check(scontrol.args(["token", &format!("username={REST_USER}"), "lifespan=7200"]))?;
    let token = text.trim().strip_prefix("SLURM_JWT=").context("scontrol made no token")?;
    Ok(token.to_string())
}

/// Set for speed: schedules at every chance, looks at many jobs, keeps no accounts.
fn configuration(s: &Path, controller_port: u16, node_ports: &[u16]) -> String {
    let dir = s.display();
    let mut conf = format!(
        "ClusterName=bench
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
SlurmdParameters=config_overrides
AuthType=auth/munge
AuthInfo=socket={dir}/munge/munge.socket
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={dir}/state/jwt_hs256.key
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/run/slurmctld.pid
SlurmdPidFile={dir}/run/slurmd.%n.pid
SlurmctldLogFile={dir}/log/slurmctld.log
SlurmdLogFile={dir}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=5,bf_max_job_test=1000,bf_continue,sched_min_interval=0,default_queue_depth=1000,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/basic
GresTypes=gpu
MaxJobCount=200000
MaxArraySize=100001
MinJobAge=60
SlurmdTimeout=60
KillWait=5
"
    );
    for (i, port) in node_ports.iter().enumerate() {
        let _ = writeln!(
            conf,
            "NodeName=n{} NodeAddr=127.0.0.1 NodeHostname=localhost Port={port} CPUs=16 Boards=1 \
             SocketsPerBoard=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=8000 \
             Gres=gpu:h100:{GPUS} State=UNKNOWN",
            i + 1
        );
    }
    let _ = writeln!(
        conf,
        "PartitionName=main Nodes=n[1-{}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO",
        node_ports.len()
    );
    conf
}
