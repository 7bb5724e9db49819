//! What ranks see of each other and of the node, where the machine lets us isolate them.

use crate::support::{Bench, key, long_sleep, open_dir, with_word};
use muster_agent::isolation::{self, Isolation};
use muster_agent::runner::RunnerTools;
use muster_agent::testing::detail;
use muster_link::messages::{RunDetail, Stream};
use muster_model::job::SlotEnd;
use muster_model::placement::GpuSet;
use muster_model::spec::{CheckpointSpec, Volume};
use muster_model::units::{Bytes, Span};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![isolation:
        a_slot_sees_its_own_processes_only,
        scratch_space_is_private_and_gone_afterwards,
        paths_that_a_job_names_stay_what_they_are,
        nobody_has_the_nodes_private_directories_by_naming_them,
        checkpoints_go_through_no_link_to_what_is_the_nodes,
        the_agents_directory_is_hidden,
        the_powers_of_root_stay_outside,
        a_slot_opens_its_own_devices_only,
        a_fence_holds_where_a_node_is_in_sight,
        a_real_gpu_is_reached_by_its_slot_alone,
        what_outlives_the_ranks_is_killed_and_counted,
        ranks_can_be_left_as_they_are,
        the_end_waits_for_who_looks_after_the_gpus,
        a_failure_is_explained_when_the_node_knows_more,
        a_process_is_known_by_its_number,
    ]
}

pub(crate) fn bench(runner_tools: RunnerTools) -> Option<Bench> {
    if let Err(why) = isolation::possible() {
        let _ = muster_testkit::vital(false, why);
        return None;
    }
    Some(Bench::handy(RunnerTools { isolation: Isolation::Required, ..runner_tools }))
}

fn run(b: &mut Bench, d: &RunDetail) -> String {
    let k = key();
    b.runner.start(k, d, Instant::now());
    let end = b.end(k);
    assert_eq!(end, SlotEnd::Ok, "{}{}", b.out(k), b.text(k, 0, Stream::Stderr));
    b.out(k)
}

pub(crate) fn a_slot_sees_its_own_processes_only() {
    let Some(mut b) = bench(RunnerTools::default()) else { return };
    let neighbour = key();
    let word = long_sleep(neighbour);
    b.runner.start(neighbour, &detail(&format!("exec sleep {word}")), Instant::now());
    b.running(neighbour);
    let mut d =
        detail("cat /proc/[0-9]*/comm; cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo; echo $$");
    d.slot.ranks = 1;
    let out = run(&mut b, &d);
    assert!(out.starts_with("muster-init\n"), "the first is ours: {out}");
    assert!(!out.contains(&word), "{out}");
    let own: u32 = out.lines().last().unwrap().parse().unwrap();
    assert!(own < 10, "numbers begin anew: {own}");
    // Semaphores and shared memory of System V are a slot's own, too.
    let ipc = std::fs::read_link("/proc/self/ns/ipc").unwrap().display().to_string();
    let seen = run(&mut b, &detail("readlink /proc/self/ns/ipc"));
    assert_ne!(seen.trim(), ipc);
    b.runner.stop(neighbour, Span(0), Instant::now());
    b.end(neighbour);
}

pub(crate) fn scratch_space_is_private_and_gone_afterwards() {
    let Some(mut b) = bench(RunnerTools::default()) else { return };
    let (k, places) = (key(), ["/tmp", "/var/tmp", "/dev/shm"]);
    let mark = format!("muster-mark-{}", k.job);
    let mut d = b.detail(&format!(
        "for d in {}; do touch $d/{mark}; done; df -k /dev/shm | tail -1; ls /tmp; touch up; \
         until [ -e go ]; do sleep 0.02; done; ls /tmp/{mark}",
        places.join(" ")
    ));
    d.limits.memory = Some(Bytes::mib(256));
    b.runner.start(k, &d, Instant::now());
    let up = b.files.path().join("up");
    b.until("marks", |_| up.exists());
    for place in places {
        assert!(!Path::new(place).join(&mark).exists(), "the node does not see it in {place}");
    }
    let other = run(&mut b, &detail("ls -A /tmp /var/tmp /dev/shm"));
    assert!(!other.contains(&mark), "{other}");
    assert!(b.run_dir(k).join("scratch/tmp").join(&mark).exists(), "on the disk, not in memory");
    std::fs::write(b.files.path().join("go"), "").unwrap();
    assert_eq!(b.end(k), SlotEnd::Ok);
    let out = b.out(k);
    let size = out.lines().next().unwrap().split_whitespace().nth(1).unwrap();
    assert_eq!(size, "131072", "half of the limit: {out}");
    assert!(out.ends_with(&format!("/tmp/{mark}\n")), "{out}");
    assert!(!b.run_dir(k).join("scratch").exists());
    assert!(b.runner.leftovers().is_empty());
}

pub(crate) fn paths_that_a_job_names_stay_what_they_are() {
    let Some(mut b) = bench(RunnerTools::default()) else { return };
    let (data, away) = (open_dir(), open_dir());
    std::fs::write(data.path().join("in"), "treasure\n").unwrap();
    let saved = away.path().join("not/yet/there");
    let mut d = b.detail("cat data/in; echo saved > $MUSTER_CHECKPOINT_DIR/1; pwd");
    let at = b.files.path().join("data");
    d.volumes = vec![Volume {
        from: data.path().display().to_string(),
        at: at.display().to_string(),
        read_only: true,
    }];
    d.checkpoint = Some(checkpoints(&saved));
    let out = run(&mut b, &d);
    assert_eq!(out, format!("treasure\n{}\n", b.files.path().display()));
    assert_eq!(std::fs::read_to_string(saved.join("1")).unwrap(), "saved\n");
    // A program and its arguments are named as well.
    let program = away.path().join("program");
    std::fs::write(&program, "#!/bin/sh\ncat $1\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    d = detail("");
    d.run.script = None;
    d.run.command =
        vec![program.display().to_string(), data.path().join("in").display().to_string()];
    assert_eq!(run(&mut b, &d), "treasure\n");
}

pub(crate) fn nobody_has_the_nodes_private_directories_by_naming_them() {
    let Some(mut b) = bench(RunnerTools::default()) else { return };
    // Not in what each slot has of its own: there the links would not be found.
    let links = tempfile::tempdir_in("/var").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(links.path(), mode).unwrap();
    let mark = format!("muster-named-{}", key().job);
    for place in ["/tmp", "/var/tmp", "/dev/shm"] {
        let link = links.path().join(place.replace('/', "-"));
        std::os::unix::fs::symlink(place, &link).unwrap();
        let ways = [place.to_owned(), format!("{place}/."), link.display().to_string()];
        for (way, argument) in ways.iter().flat_map(|w| [(w, false), (w, true)]) {
            let script = format!("cd {way} && touch {mark}");
            let mut d = detail(&script);
            if argument {
                d.run.script = None;
                let words = ["/bin/sh", "-c", script.as_str(), way.as_str()];
                d.run.command = words.map(str::to_owned).to_vec();
            } else {
                d.run.workdir = Some(way.clone());
            }
            run(&mut b, &d);
            assert!(!Path::new(place).join(&mark).exists(), "{way}, an argument: {argument}");
        }
    }
}

pub(crate) fn checkpoints_go_through_no_link_to_what_is_the_nodes() {
    let Some(mut b) = bench(RunnerTools::default()) else { return };
    let links = open_dir();
    let below = format!("muster-named-{}", key().job);
    for (i, place) in ["/dev/shm", "/run", "/run/lock", "/tmp", "/"].into_iter().enumerate() {
        let link = links.path().join(i.to_string());
        std::os::unix::fs::symlink(place, &link).unwrap();
        // In the node's `/tmp` a directory may be had, and is what it is there.
        let within = place != "/tmp" && place != "/";
        for dir in [Some(link.clone()), within.then(|| link.join(&below).join("deep"))] {
            let Some(dir) = dir else { continue };
            let mut d = detail("true");
            d.checkpoint = Some(checkpoints(&dir));
            let k = key();
            b.runner.start(k, &d, Instant::now());
            let end = b.end(k);
            let SlotEnd::Unstartable { reason } = &end else { panic!("{place}: {end:?}") };
            assert!(reason.contains("checkpoints cannot be written"), "{place}: {reason}");
            assert!(!Path::new(place).join(&below).exists(), "{place}: nothing was made there");
        }
    }
}

pub(crate) fn the_agents_directory_is_hidden() {
    let Some(mut b) = bench(RunnerTools::default()) else { return };
    std::fs::write(b.dir.path().join("key.pem"), "private").unwrap();
    std::fs::create_dir(b.dir.path().join("keys")).unwrap();
    let dir = b.dir.path().display().to_string();
    let mut d = detail(&format!(
        "find {dir} $(dirname $MUSTER_REPORT) -type f; echo '{{\"step\":1}}' >> $MUSTER_REPORT"
    ));
    d.secrets.0.insert("token".into(), "hush".into());
    let out = run(&mut b, &d);
    let names: Vec<&str> = out.lines().filter_map(|l| l.rsplit('/').next()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["0.report", "script", "token"], "{out}");
    assert_eq!(b.progress_reports.len(), 1, "the report came through");
    // Naming it, or something around it, does not help.
    let around = b.dir.path().parent().unwrap().display().to_string();
    let mut d = b.detail("cat around/*/key.pem");
    let at = b.files.path().join("around").display().to_string();
    d.volumes = vec![Volume { from: around.clone(), at, read_only: true }];
    d.checkpoint = Some(checkpoints(Path::new(&around)));
    let k = key();
    b.runner.start(k, &d, Instant::now());
    // Refused where it is the node's /tmp itself.
    let end = b.end(k);
    assert!(matches!(end, SlotEnd::Failed { .. } | SlotEnd::Unstartable { .. }), "{end:?}");
    let out = b.out(k);
    assert!(!out.contains("private"), "{out}");
    d.volumes.clear();
    for named in ["workdir", "checkpoint"] {
        let mut d = detail("true");
        match named {
            "workdir" => d.run.workdir = Some(b.dir.path().join("keys").display().to_string()),
            _ => d.checkpoint = Some(checkpoints(&b.dir.path().join("checkpoints"))),
        }
        let k = key();
        b.runner.start(k, &d, Instant::now());
        let end = b.end(k);
        assert!(matches!(end, SlotEnd::Unstartable { .. }), "{named}: {end:?}");
    }
}

fn checkpoints(dir: &Path) -> CheckpointSpec {
    CheckpointSpec { dir: dir.display().to_string(), ..CheckpointSpec::default() }
}

pub(crate) fn the_powers_of_root_stay_outside() {
    let Some(mut b) = bench(RunnerTools::default()) else { return };
    let script = "no() { \"$@\" 2>/dev/null && echo \"could: $*\"; }
grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status
no mount -t tmpfs none /mnt
no umount /proc
no mknod /tmp/null c 1 3
no chroot /proc/1/root true
no sh -c 'echo 1 > /proc/sys/vm/drop_caches'
no sh -c 'mkdir /sys/fs/cgroup/x /sys/fs/cgroup/*/x'
no sh -c 'echo b > /proc/sysrq-trigger'
no cat /proc/1/environ
no nsenter -t 1 -m true
no unshare -U true
no unshare -m true
python3 -c 'import threading; t = threading.Thread(target=print, args=(\"thread\",)); t.start()' || echo no python
echo end";
    let out = run(&mut b, &detail(script));
    assert!(out.ends_with("end\n") && !out.contains("could"), "{out}");
    assert!(out.contains("thread") || out.contains("no python"), "threads still start: {out}");
    let caps = |name: &str| {
        let line = out.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_eq!((caps("CapEff:"), caps("CapBnd:")), (0, 0), "{out}");
    assert!(out.contains("NoNewPrivs:\t1"), "{out}");
}

/// A device that no rank has by itself stands in for a GPU.
const FAKE_GPU: &str = "/dev/loop7";

fn with_fake_gpu() -> RunnerTools {
    RunnerTools {
        device_nodes: Arc::new(|i| if i == 3 { vec![PathBuf::from(FAKE_GPU)] } else { Vec::new() }),
        ..RunnerTools::default()
    }
}

fn has_fake_gpu() -> bool {
    muster_testkit::machine(Path::new(FAKE_GPU).exists(), format!("there is no {FAKE_GPU}"))
}

pub(crate) fn a_slot_opens_its_own_devices_only() {
    let Some(mut b) = bench(with_fake_gpu()).filter(|_| has_fake_gpu()) else { return };
    let script = format!(
        "ls /dev; unset CUDA_VISIBLE_DEVICES; (: < {FAKE_GPU}) && echo open
mknod /tmp/again b 7 7 2>/dev/null && (: < /tmp/again) && echo made
echo x > /dev/null; head -c 4 /dev/urandom | wc -c; echo y > /dev/shm/y; exit 0"
    );
    let mut d = detail(&script);
    let without = run(&mut b, &d);
    assert!(!without.contains("open") && !without.contains("made"), "{without}");
    assert!(!without.contains("loop") && !without.contains("kmsg"), "{without}");
    for name in ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd"] {
        assert!(without.lines().any(|l| l == name), "{name} in {without}");
    }
    d.slot.gpus = GpuSet(0b1000);
    let with = run(&mut b, &d);
    assert!(with.contains("open\n") && !with.contains("made"), "{with}");
    // CUDA counts what it sees, from zero.
    d.run.script = Some("echo $CUDA_VISIBLE_DEVICES".into());
    assert_eq!(run(&mut b, &d), "0\n");
    d.slot.gpus = GpuSet(0b100);
    assert_eq!(run(&mut b, &d), "2\n", "of a GPU that is only simulated nothing is hidden");
}

pub(crate) fn a_fence_holds_where_a_node_is_in_sight() {
    let Some(mut b) = bench(with_fake_gpu()).filter(|_| has_fake_gpu()) else { return };
    if !muster_testkit::machine(b.cgroups.has("devices"), "no control group for devices") {
        return;
    }
    let mut d = b.detail("cat node/null && echo null; (: < node/loop7) && echo gpu; exit 0");
    // Nodes that are elsewhere than in /dev, as a careless volume might bind them.
    let nodes = tempfile::tempdir_in("/var/lib").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(nodes.path(), mode).unwrap();
    for (name, numbers) in [("null", ["c", "1", "3"]), ("loop7", ["b", "7", "7"])] {
        let mut mknod = std::process::Command::new("mknod");
        mknod.args(["-m", "666"]).arg(nodes.path().join(name)).args(numbers);
        muster_testkit::succeeds(&mut mknod);
    }
    let at = b.files.path().join("node").display().to_string();
    let from = nodes.path().display().to_string();
    d.volumes = vec![Volume { from, at, read_only: false }];
    assert_eq!(run(&mut b, &d), "null\n");
    d.slot.gpus = GpuSet(0b1000);
    assert_eq!(run(&mut b, &d), "null\ngpu\n");
}

pub(crate) fn a_real_gpu_is_reached_by_its_slot_alone() {
    let gpu = !muster_agent::isolation::devices::nvidia_nodes(0).is_empty();
    if !muster_testkit::machine(gpu, "no NVIDIA GPU") {
        return;
    }
    let Some(mut b) = bench(RunnerTools::default()) else { return };
    let script = "ls /dev | grep nvidia; nvidia-smi -L
python3 - <<'EOF'
import ctypes
cuda = ctypes.CDLL('libcuda.so.1')
count, device, context, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
print('init', cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count)), 'count', count.value)
if count.value:
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    print('context', cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device))
    print('memory', cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)))
EOF
exit 0";
    let mut d = detail(script);
    d.slot.gpus = GpuSet(1);
    d.run.env.insert("HOME".into(), "/tmp".into());
    let with = run(&mut b, &d);
    println!("with its GPU:\n{with}");
    assert!(with.contains("GPU 0: ") && !with.contains("GPU 1: "), "{with}");
    assert!(with.contains("init 0 0 count 1\ncontext 0\nmemory 0\n"), "{with}");
    // A real program, with workers that pass their batches through shared memory.
    d.run.script = Some(
        "python3 - <<'EOF'
try:
    import torch
except ImportError:
    print('no torch')
    raise SystemExit
data = torch.utils.data.TensorDataset(torch.ones(64, 1000))
loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2)
total = sum(float((b[0].cuda() @ b[0].cuda().T).sum()) for b in loader)
print('torch', total)
EOF"
        .into(),
    );
    let torch = run(&mut b, &d);
    println!("{torch}");
    assert!(torch == "no torch\n" || torch == "torch 512000.0\n", "{torch}");
    d.slot.gpus = GpuSet::EMPTY;
    d.run.script = Some(script.replace("python3", "unset CUDA_VISIBLE_DEVICES; python3"));
    let without = run(&mut b, &d);
    println!("without:\n{without}");
    assert!(!without.contains("nvidia") && !without.contains("GPU 0: "), "{without}");
    assert!(without.contains("count 0"), "{without}");
}

pub(crate) fn what_outlives_the_ranks_is_killed_and_counted() {
    for groups in [true, false] {
        let Some(mut b) = bench(RunnerTools::default()) else { return };
        if !groups {
            b = Bench::new();
        }
        let k = key();
        let word = long_sleep(k);
        // What starts the shells must be gone, or it is counted as well.
        let script = format!(
            "for i in 1 2 3; do setsid setsid sh -c 'trap \"\" TERM; sleep {word}' & done
until [ $(cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^{word}$') = 3 ] \
  && ! cat /proc/[0-9]*/comm | grep -q setsid; do sleep 0.02; done"
        );
        b.runner.start(k, &detail(&script), Instant::now());
        assert_eq!(b.end(k), SlotEnd::Ok);
        let end = b.recorded(k, "end").unwrap();
        // Three shells and what they sleep.
        assert_eq!(end["cleanup"]["killed"], 6, "{end}");
        assert!(end["cleanup"].get("left").is_none(), "{end}");
        assert!(with_word(&word).is_empty());
    }
}

pub(crate) fn ranks_can_be_left_as_they_are() {
    let mut b = Bench::handy(RunnerTools { isolation: Isolation::Off, ..RunnerTools::default() });
    let k = key();
    b.runner.start(k, &detail("echo $$"), Instant::now());
    b.end(k);
    let pid: i32 = b.out(k).trim().parse().unwrap();
    assert_eq!(pid, b.rank_pid(k));
}

pub(crate) fn the_end_waits_for_who_looks_after_the_gpus() {
    let calls = Arc::new(AtomicU32::new(0));
    let (seen, (open, gate)) = (calls.clone(), std::sync::mpsc::channel::<()>());
    let gate = std::sync::Mutex::new(gate);
    let runner_tools = RunnerTools {
        after_slot: Some(Arc::new(move |slot| {
            assert_eq!(slot.gpus, GpuSet(0b10));
            let _ = gate.lock().unwrap().recv();
            seen.fetch_add(1, Ordering::SeqCst);
            Err("a process still uses GPU 1".into())
        })),
        ..RunnerTools::simulated()
    };
    let mut b = Bench::handy(runner_tools);
    let k = key();
    let mut d = detail("echo done");
    d.slot.gpus = GpuSet(0b10);
    b.runner.start(k, &d, Instant::now());
    b.until("the last process", |b| b.recorded(k, "end").is_some());
    for _ in 0..5 {
        b.turn();
    }
    assert!(b.seen.iter().all(|(_, o)| !matches!(o, muster_model::command::Observed::Ended(_))));
    assert!(b.runner.leftovers().is_empty());
    open.send(()).unwrap();
    assert_eq!(b.end(k), SlotEnd::Ok, "the job's own end stays");
    assert_eq!(b.runner.leftovers(), [(k, "a process still uses GPU 1".to_owned())]);
    // Nobody is asked about a slot without GPUs, and nobody twice.
    let k = key();
    b.runner.start(k, &detail("true"), Instant::now());
    b.end(k);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let mut b = b.restarted();
    b.turn();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

pub(crate) fn a_failure_is_explained_when_the_node_knows_more() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let runner_tools = RunnerTools {
        explain: Some(Arc::new(move |_, pids| {
            // The kernel's word comes a little later than the death. A second time it is always
            // asked, however long that took.
            let late = count.fetch_add(1, Ordering::SeqCst) >= 1;
            (late && !pids.is_empty()).then(|| "XID 31 on GPU 0: MMU fault".into())
        })),
        ..RunnerTools::simulated()
    };
    let mut b = Bench::handy(runner_tools);
    let k = key();
    let mut d = detail("exit 1");
    d.slot.gpus = GpuSet(1);
    b.runner.start(k, &d, Instant::now());
    match b.end(k) {
        SlotEnd::Failed { exit } => {
            assert_eq!((exit.code, &*exit.note), (Some(1), "XID 31 on GPU 0: MMU fault"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    // The same is reported again, and nobody asked, after a restart.
    let mut b = b.restarted();
    assert!(matches!(b.end(k), SlotEnd::Failed { exit } if exit.note.contains("XID 31")));
    d.run.script = Some("true".into());
    let k = key();
    b.runner.start(k, &d, Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok);
    assert_eq!(asked.load(Ordering::SeqCst), 2, "a success needs no explanation");
}

pub(crate) fn a_process_is_known_by_its_number() {
    let mut b = Bench::handy(RunnerTools::default());
    let k = key();
    let word = long_sleep(k);
    let mut d = detail(&format!(
        "[ $RANK = 5 ] && (sleep {word} & setsid setsid sh -c 'sleep {word}'); exec sleep 1000"
    ));
    (d.slot.first_rank, d.slot.ranks) = (4, 2);
    b.runner.start(k, &d, Instant::now());
    b.running(k);
    b.until("all", |_| with_word(&word).len() == 2);
    let map = b.runner.pid_map();
    assert_eq!(b.runner.owner_of(b.rank_pid(k)), Some((k, 4)));
    let pids = with_word(&word);
    for pid in &pids {
        assert_eq!(map.owner_of(*pid), Some((k, 5)), "also of one whose parents are gone");
    }
    let me = i32::try_from(std::process::id()).unwrap();
    assert_eq!(map.owner_of(me), None);
    b.runner.stop(k, Span(0), Instant::now());
    b.end(k);
    assert_eq!(map.owner_of(pids[0]), Some((k, 5)), "for a while after");
}
