//! A real Slurm controller that schedules thousands of nodes which nobody runs: cloud nodes, so
//! that a placed job stays "configuring" and nothing but scheduling is measured.

use super::{Batch, GPUS, LEAF, LEAVES_OF_SPINE, Outcome, RELEASED, STREAMED, Size, jobs, queue};
use crate::Options;
use crate::report::Report;
use crate::slurm::{program, workplace};
use crate::stats::{Meter, ms};
use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use xtask::proc::{Daemon, TempDir, check, free_port};

/// Set for speed, as tried out: the main loop looks at the whole queue, at once and again every
/// second, for as long as it likes. Everything fits, so passes of backfill would only hold locks.
pub(super) const PARAMETERS: &str = "sched/backfill, select/cons_tres, topology/tree, \
    SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,\
    default_queue_depth=10000,max_sched_time=45,bf_interval=300,bf_continue,bf_max_job_test=10000";

/// Submitting processes at once.
const PROCESSES: usize = 4;

struct Cloud {
    controller: Daemon,
    _munge: Daemon,
    dir: TempDir,
    conf: PathBuf,
}

pub(super) fn measure(
    options: &Options,
    size: Size,
    nodes: u32,
    report: &mut Report,
) -> Result<()> {
    for (prefix, streamed) in [(RELEASED, false), (STREAMED, true)] {
        eprintln!("Slurm: {nodes} nodes, {}", if streamed { "streamed" } else { "released" });
        let mut slurm = Cloud::start(&options.scratch(), nodes)?;
        let queue = queue(nodes);
        let meter = Meter::start(slurm.controller.pid().as_raw_nonzero().get())?;
        let outcome = if streamed {
            slurm.stream(&queue, size.bound)?
        } else {
            slurm.release(&queue, size.bound)?
        };
        slurm.controller.must_be_running()?;
        eprintln!(
            "    {} of {} placed in {:.3} s; controller {:.2} cores",
            outcome.placed_s.len(),
            jobs(&queue),
            outcome.placed_s.iter().copied().fold(0.0, f64::max),
            meter.cores()?
        );
        if outcome.placed_s.len() < jobs(&queue) {
            report.note(format!(
                "CUT OFF: Slurm had placed {} of {} jobs on {nodes} nodes ({}) when time was up. A \
                 job costs it less the fewer nodes are free, so its whole run would show more per \
                 second; its waits are longer than shown.",
                outcome.placed_s.len(),
                jobs(&queue),
                if streamed { "streamed" } else { "released" }
            ));
        }
        let peer = slurm.version();
        for (name, unit, value, more) in outcome.cases(prefix, nodes)? {
            report.theirs(&name, unit, &peer, value, more);
        }
    }
    Ok(())
}

impl Cloud {
    fn start(parent: &Path, nodes: u32) -> Result<Cloud> {
        let (dir, munge) = workplace(parent, "slurm-cloud", GPUS)?;
        let s = dir.path();
        let port = free_port()?;
        let conf = s.join("conf/slurm.conf");
        fs::write(&conf, configuration(s, port, nodes))?;
        let gres = format!(
            "NodeName=n[1-{nodes}] Name=gpu File={}/dev/gpu[0-{}]\n",
            s.display(),
            GPUS - 1
        );
        fs::write(s.join("conf/gres.conf"), gres)?;
        fs::write(s.join("conf/topology.conf"), switches(nodes))?;
        fs::write(s.join("job.sh"), "#!/bin/sh\nsleep 1d\n")?;
        let mut command = program("slurmctld")?;
        // Its log's times have no zone.
        command.args(["-D", "-c"]).env("SLURM_CONF", &conf).env("TZ", "UTC").current_dir(s);
        let mut controller = Daemon::spawn("slurmctld", command, &s.join("log/slurmctld.out"))?;
        controller.wait_ready(Duration::from_secs(60), |_| {
            TcpStream::connect(("127.0.0.1", port)).ok()
        })?;
        let cloud = Cloud { controller, _munge: munge, dir, conf };
        // In its first seconds a controller schedules nothing.
        std::thread::sleep(Duration::from_secs(10));
        let idle = check(cloud.command("sinfo")?.args(["-h", "-o", "%D %t"]))?;
        ensure!(idle.trim() == format!("{nodes} idle~"), "Slurm's nodes are not idle: {idle}");
        Ok(cloud)
    }

    fn command(&self, name: &str) -> Result<Command> {
        let mut command = program(name)?;
        command.env("SLURM_CONF", &self.conf).current_dir(self.dir.path());
        Ok(command)
    }

    fn sbatch(&self, batch: Batch) -> Result<Command> {
        let mut command = self.command("sbatch")?;
        command
            .args(["--parsable", "-o", "/dev/null", "-e", "/dev/null"])
            .args(["--ntasks-per-node=1", &format!("--gpus-per-node={GPUS}")])
            .arg(format!("--nodes={}", batch.nodes));
        // One leaf is one switch. There is no word for one spine, but the lowest switch that has
        // enough nodes is what it chooses by itself.
        if batch.level() == Some("leaf") {
            command.arg("--switches=1");
        }
        Ok(command)
    }

    fn partition(&self, state: &str) -> Result<()> {
        let state = format!("State={state}");
        check(self.command("scontrol")?.args(["update", "PartitionName=main", &state]))?;
        Ok(())
    }

    /// Arrays that wait for their partition, which is then set up: of what we tried the fastest.
    fn release(&self, queue: &[Batch], bound: Duration) -> Result<Outcome> {
        self.partition("DOWN")?;
        for batch in queue {
            let array = format!("--array=1-{}", batch.jobs);
            check(self.sbatch(*batch)?.args([&array, "job.sh"]))?;
        }
        let wanted = jobs(queue);
        let (began, at) = (Instant::now(), Timestamp::now());
        self.partition("UP")?;
        let placed = self.watch(wanted, began, bound)?;
        let placed_s: Vec<f64> = placed.values().map(|t| since(at, *t)).collect();
        let mut waited_ms: Vec<f64> = placed_s.iter().map(|s| s * 1000.0).collect();
        waited_ms.resize(wanted, ms(bound));
        Ok(Outcome { placed_s, waited_ms })
    }

    /// One by one, in the queue's order, from several processes at once.
    fn stream(&self, queue: &[Batch], bound: Duration) -> Result<Outcome> {
        let all: Vec<Batch> =
            queue.iter().flat_map(|b| std::iter::repeat_n(*b, b.jobs as usize)).collect();
        let next = AtomicUsize::new(0);
        let submitted = Mutex::new(BTreeMap::new());
        let (began, at) = (Instant::now(), Timestamp::now());
        let placed = std::thread::scope(|scope| {
            let one = || -> Result<()> {
                while let Some(batch) = all.get(next.fetch_add(1, Ordering::Relaxed))
                    && began.elapsed() < bound
                {
                    let at = Timestamp::now();
                    let id = check(self.sbatch(*batch)?.arg("job.sh"))?;
                    let mut submitted = submitted.lock().unwrap_or_else(PoisonError::into_inner);
                    submitted.insert(id.trim().to_string(), at);
                }
                Ok(())
            };
            let threads: Vec<_> = (0..PROCESSES).map(|_| scope.spawn(one)).collect();
            let placed = self.watch(all.len(), began, bound);
            for thread in threads {
                thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            }
            placed
        })?;
        let submitted = submitted.into_inner().unwrap_or_else(PoisonError::into_inner);
        let placed_s = placed.values().map(|t| since(at, *t)).collect();
        let mut waited_ms: Vec<f64> = placed
            .iter()
            .filter_map(|(id, t)| Some(since(*submitted.get(id)?, *t) * 1000.0))
            .collect();
        waited_ms.resize(all.len(), ms(bound));
        Ok(Outcome { placed_s, waited_ms })
    }

    /// When each job was placed, until all are or time is up.
    fn watch(
        &self,
        wanted: usize,
        began: Instant,
        bound: Duration,
    ) -> Result<BTreeMap<String, Timestamp>> {
        let log = self.dir.path().join("log/slurmctld.log");
        loop {
            // The log only: asking the controller would cost it something.
            std::thread::sleep(Duration::from_millis(250));
            let text = fs::read_to_string(&log).context("Slurm writes no log")?;
            let placed: BTreeMap<String, Timestamp> = text.lines().filter_map(placement).collect();
            if placed.len() >= wanted || began.elapsed() > bound {
                return Ok(placed);
            }
        }
    }

    fn version(&self) -> String {
        self.command("sbatch")
            .and_then(|mut c| check(c.arg("--version")))
            .map_or_else(|_| "Slurm".into(), |v| v.trim().replace("slurm-wlm", "Slurm"))
    }
}

fn since(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// The job and the time of a line of the log that reports a placement, by either loop.
fn placement(line: &str) -> Option<(String, Timestamp)> {
    if !line.contains("sched: Allocate JobId=") && !line.contains("_start_job: Started JobId=") {
        return None;
    }
    let (at, rest) = line.strip_prefix('[')?.split_once(']')?;
    let job = rest.split_once("JobId=")?.1.split_whitespace().next()?;
    Some((job.to_string(), format!("{at}Z").parse().ok()?))
}

/// The same tree that ours is given.
fn switches(nodes: u32) -> String {
    let mut text = String::new();
    let leaves = nodes.div_ceil(LEAF);
    for leaf in 1..=leaves {
        let (first, last) = ((leaf - 1) * LEAF + 1, (leaf * LEAF).min(nodes));
        let _ = writeln!(text, "SwitchName=leaf{leaf} Nodes=n[{first}-{last}]");
    }
    let spines = leaves.div_ceil(LEAVES_OF_SPINE);
    for spine in 1..=spines {
        let (first, last) =
            ((spine - 1) * LEAVES_OF_SPINE + 1, (spine * LEAVES_OF_SPINE).min(leaves));
        let _ = writeln!(text, "SwitchName=spine{spine} Switches=leaf[{first}-{last}]");
    }
    let _ = writeln!(text, "SwitchName=core Switches=spine[1-{spines}]");
    text
}

fn configuration(s: &Path, port: u16, nodes: u32) -> String {
    let dir = s.display();
    let scheduling = PARAMETERS.rsplit_once(' ').map_or("", |(_, p)| p);
    format!(
        "ClusterName=bench
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge/munge.socket
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/run/slurmctld.pid
SlurmctldLogFile={dir}/log/slurmctld.log
SlurmctldDebug=info
LogTimeFormat=iso8601_ms
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
{scheduling}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/basic
TopologyPlugin=topology/tree
GresTypes=gpu
MaxJobCount=200000
MaxArraySize=100001
MessageTimeout=100
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=3600
ResumeTimeout=3600
ResumeRate=0
SuspendRate=0
PrivateData=cloud
NodeName=n[1-{nodes}] CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 \
         RealMemory=8000 Gres=gpu:{GPUS} State=CLOUD
PartitionName=main Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_of_both_loops_are_read() {
        let main =
            "[2026-11-15T05:10:39.694] sched: Allocate JobId=3_9(3) NodeList=n[1-64] #CPUs=64";
        let back = "[2026-11-15T05:09:46.169] sched/backfill: _start_job: Started JobId=7 in main";
        assert_eq!(placement(main).unwrap().0, "3_9(3)");
        let (job, at) = placement(back).unwrap();
        assert_eq!((job.as_str(), at), ("7", "2026-11-15T05:09:46.169Z".parse().unwrap()));
        assert!(placement("[2026-11-15T05:09:46.169] sched: _slurm_rpc_submit JobId=7").is_none());
    }

    #[test]
    fn the_switches_are_a_tree() {
        let text = switches(1024);
        assert_eq!(text.lines().count(), 32 + 4 + 1);
        assert!(text.contains("SwitchName=leaf32 Nodes=n[993-1024]"));
        assert!(text.contains("SwitchName=spine4 Switches=leaf[25-32]"));
        assert!(configuration(Path::new("/x"), 1, 64).contains("\nSchedulerParameters=sched_int"));
    }
}
