//! Ranks in real containers, where there is a podman that can run them.

use crate::support::{Bench, LONG, key, long_sleep, with_word};
use muster_agent::container::{Containers, Limits, Pull};
use muster_agent::isolation::Isolation;
use muster_agent::runner::RunnerTools;
use muster_agent::testing::detail;
use muster_link::messages::{ProgressReport, RunDetail, Stream};
use muster_model::job::SlotEnd;
use muster_model::placement::GpuSet;
use muster_model::spec::{OnPartition, Volume};
use muster_model::units::{Bytes, Span};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![container:
        a_rank_runs_in_its_image,
        a_container_sees_volumes_and_secrets_and_nothing_else,
        an_exit_code_comes_through,
        a_stop_reaches_what_runs_inside,
        a_container_that_ignores_sigterm_is_killed,
        a_container_keeps_to_the_limits_of_its_slot,
        containers_are_gone_when_their_supervisor_dies,
        what_cannot_run_is_refused_with_what_to_do,
        gpus_come_by_their_description,
        a_runtime_that_hangs_ends_the_attempt_with_the_command_and_its_limit,
    ]
}

pub(crate) const IMAGE: &str = "localhost/muster-test:2";

/// Whether containers can be run; the image is made once.
pub(crate) fn able() -> bool {
    static ABLE: OnceLock<Result<(), String>> = OnceLock::new();
    // Without runc podman takes another low-level runtime, which not every machine's control
    // groups let work.
    let busybox = muster_testkit::busybox().is_some();
    if !muster_testkit::program("podman", "podman")
        || !muster_testkit::program("runc", "runc")
        || !muster_testkit::component(busybox, "busybox", "apt-get install busybox-static")
    {
        return false;
    }
    // What is there and still runs nothing is kept from it by the machine.
    match ABLE.get_or_init(make_image) {
        Ok(()) => true,
        Err(why) => muster_testkit::machine(false, why),
    }
}

pub(crate) fn podman(args: &[&str]) -> Command {
    let runtime = Containers::default().command().map(<[String]>::to_vec).unwrap_or_default();
    let mut command = Command::new(&runtime[0]);
    command.args(&runtime[1..]).args(args);
    command
}

fn make_image() -> Result<(), String> {
    let runtime = Containers::default().command().map(<[String]>::to_vec)?;
    assert!(runtime[0].ends_with("podman"), "podman is there, and not chosen: {runtime:?}");
    // Kept from one run to the next, so that they do not pile up. Many tests want it at the same time,
    // each in a process of its own: one of them makes it, and the others wait.
    let making = File::create("/tmp/muster-test-image.lock");
    let making = making.and_then(|file| file.lock().map(|()| file));
    if !podman(&["image", "exists", IMAGE]).output().is_ok_and(|out| out.status.success()) {
        import(&podman)?;
    }
    drop(making);
    // A machine may have podman and still refuse to run anything.
    let limits = ["--ulimit", "nofile=512:512", "--ulimit", "nproc=512:512"];
    let mut args = vec!["run", "--rm", "--pull=never", "--network", "host"];
    args.extend(limits);
    args.extend([IMAGE, "/bin/echo", "up"]);
    let ran = podman(&args).output().unwrap();
    if ran.stdout == b"up\n" {
        Ok(())
    } else {
        Err(format!("podman run: {}", muster_testkit::printed(&ran)))
    }
}

/// An image with nothing but one static program in it, by the podman that is called so.
pub(crate) fn import(podman: &impl Fn(&[&str]) -> Command) -> Result<(), String> {
    let busybox = muster_testkit::busybox().unwrap();
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("bin")).unwrap();
    std::fs::create_dir(root.path().join("tmp")).unwrap();
    for (dir, mode) in [("", 0o755), ("tmp", 0o1777)] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(root.path().join(dir), mode).unwrap();
    }
    std::fs::copy(busybox, root.path().join("bin/busybox")).unwrap();
    for name in ["sh", "cat", "ls", "sleep", "env", "touch", "echo", "grep", "head", "tr", "id"] {
        std::os::unix::fs::symlink("busybox", root.path().join("bin").join(name)).unwrap();
    }
    let mut tar = Command::new("tar")
        .arg("-C")
        .arg(root.path())
        .args(["-c", "."])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("tar: {e}"))?;
    let imported = podman(&["import", "-", IMAGE])
        .stdin(tar.stdout.take().unwrap())
        .output()
        .map_err(|e| format!("podman: {e}"))?;
    tar.wait().unwrap();
    if !imported.status.success() {
        return Err(format!("podman import: {}", muster_testkit::printed(&imported)));
    }
    Ok(())
}

pub(crate) fn contained(script: &str) -> RunDetail {
    let mut d = detail(script);
    d.run.image = Some(IMAGE.into());
    d
}

fn containers_of(b: &Bench, key: muster_model::ids::AttemptKey) -> Vec<String> {
    let names = std::fs::read(b.run_dir(key).join("containers.json")).unwrap();
    serde_json::from_slice(&names).unwrap()
}

fn exists(name: &str) -> bool {
    let out = podman(&["container", "exists", name]).output().unwrap();
    match out.status.code() {
        Some(0) => true,
        Some(1) => false,
        _ => panic!("podman container exists: {}", muster_testkit::printed(&out)),
    }
}

pub(crate) fn a_rank_runs_in_its_image() {
    if !able() {
        return;
    }
    let mut b = Bench::handy(RunnerTools::default());
    let k = key();
    let mut d = contained(
        "ls /; echo rank $RANK of $WORLD_SIZE; echo \"$GREETING\"; echo err >&2
echo '{\"step\":3}' >> $MUSTER_REPORT; cat /proc/[0-9]*/cmdline | tr '\\0' ' '",
    );
    d.run.env.insert("GREETING".into(), "a b  \"c\"".into());
    d.run.env.insert("POEM".into(), "two\nlines".into());
    (d.slot.ranks, d.world_size) = (2, 2);
    b.runner.start(k, &d, Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok, "{}", b.text(k, 0, Stream::Stderr));
    for rank in 0..2 {
        let out = b.text(k, rank, Stream::Stdout);
        assert!(out.contains(&format!("rank {rank} of 2\na b  \"c\"\n")), "{out}");
        assert!(out.starts_with("bin\n") && !out.contains("usr\n"), "the image's root: {out}");
        assert!(!out.contains("podman"), "processes of its own: {out}");
        let err = b.text(k, rank, Stream::Stderr);
        assert!(err.starts_with("muster: POEM has several lines") && err.ends_with("\nerr\n"));
    }
    assert!(b.progress_reports.iter().any(|v| matches!(v, ProgressReport::Step { step: 3, .. })));
    assert!(containers_of(&b, k).iter().all(|n| !exists(n)));
    assert!(b.runner.leftovers().is_empty(), "{:?}", b.runner.leftovers());
}

pub(crate) fn a_container_sees_volumes_and_secrets_and_nothing_else() {
    if !able() {
        return;
    }
    let mut b = Bench::handy(RunnerTools::default());
    let k = key();
    std::fs::write(b.files.path().join("in"), "treasure\n").unwrap();
    let mut d = contained(
        "cat /data/in; echo out > /data/out; cat $MUSTER_SECRETS_DIR/token; echo; \
         echo env:$TOKEN; echo score:$(cat /proc/self/oom_score_adj); ls /dev | tr '\\n' ' '; grep -E 'Cap|NoNewPrivs' /proc/self/status; \
         id -u",
    );
    d.secrets.0.insert("token".into(), "hunter3value".into());
    d.volumes = vec![Volume {
        from: b.files.path().display().to_string(),
        at: "/data".into(),
        read_only: false,
    }];
    b.runner.start(k, &d, Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok, "{}", b.text(k, 0, Stream::Stderr));
    let out = b.out(k);
    assert!(out.starts_with("treasure\nhunter3value\nenv:\n"), "{out}");
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    let own: i32 = own.trim().parse().unwrap();
    assert!(out.contains(&format!("score:{}\n", own.max(500))), "{out}");
    assert!(!out.contains("loop") && !out.contains("vda"), "{out}");
    assert!(out.contains("NoNewPrivs:\t1"), "{out}");
    for set in ["CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(out.contains(&format!("{set}:\t0000000000000000\n")), "{set} in {out}");
    }
    let user: u32 = out.lines().last().unwrap().parse().unwrap();
    assert!((200_000..=265_535).contains(&user), "its project's: {out}");
    assert_eq!(std::fs::read_to_string(b.files.path().join("out")).unwrap(), "out\n");
}

pub(crate) fn an_exit_code_comes_through() {
    if !able() {
        return;
    }
    let mut b = Bench::handy(RunnerTools::default());
    let k = key();
    b.runner.start(k, &contained("exit 7"), Instant::now());
    assert!(matches!(b.end(k), SlotEnd::Failed { exit } if exit.code == Some(7)));
    let k = key();
    let mut d = contained("");
    d.run.script = None;
    d.run.command = vec!["/no/such/program".into()];
    b.runner.start(k, &d, Instant::now());
    match b.end(k) {
        SlotEnd::Failed { exit } => {
            assert_eq!(exit.code, Some(127), "{exit:?}");
            assert!(exit.note.contains("container"), "{exit:?}");
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_stop_reaches_what_runs_inside() {
    if !able() {
        return;
    }
    let mut b = Bench::handy(RunnerTools::default());
    let k = key();
    let script = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    b.runner.start(k, &contained(script), Instant::now());
    b.until("up", |b| b.out(k) == "up\n");
    b.runner.stop(k, Span::mins(10), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Stopped);
    assert_eq!(b.out(k), "up\nsaved\n");
    // One that says nothing about the signal dies of it, as it would outside.
    let k = key();
    b.runner.start(k, &contained("echo up; exec sleep 1000"), Instant::now());
    b.until("up", |b| b.out(k) == "up\n");
    b.runner.stop(k, Span::mins(10), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Stopped);
}

pub(crate) fn a_container_that_ignores_sigterm_is_killed() {
    if !able() {
        return;
    }
    let mut b = Bench::handy(RunnerTools::default());
    let k = key();
    let word = long_sleep(k);
    let script = format!("trap '' TERM; echo up; sleep {word} & sleep {word}");
    b.runner.start(k, &contained(&script), Instant::now());
    b.until("both", |_| with_word(&word).len() == 2);
    let inside = with_word(&word)[0];
    assert_eq!(b.runner.owner_of(inside), Some((k, 0)), "its processes are the slot's");
    b.runner.stop(k, Span(100), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Stopped);
    assert!(with_word(&word).is_empty());
    assert!(containers_of(&b, k).iter().all(|n| !exists(n)));
    let node = format!("/{k}");
    let left = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-path"])
        .arg(format!("*{node}*"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "no control group is left");
}

pub(crate) fn a_container_keeps_to_the_limits_of_its_slot() {
    if !able() {
        return;
    }
    let mut b = Bench::handy(RunnerTools::default());
    if !muster_testkit::machine(b.cgroups.has("memory"), "no control group for memory") {
        return;
    }
    let k = key();
    let mut d = contained("x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done");
    d.limits.memory = Some(Bytes::mib(64));
    b.runner.start(k, &d, Instant::now());
    assert!(matches!(b.end(k), SlotEnd::Failed { exit } if exit.code == Some(137)));
}

pub(crate) fn containers_are_gone_when_their_supervisor_dies() {
    if !able() {
        return;
    }
    for lease in [OnPartition::Continue, OnPartition::StopAfter(Span::mins(600))] {
        let mut b = Bench::handy(RunnerTools::default());
        let k = key();
        let word = long_sleep(k);
        let mut d = contained(&format!("sleep {word}; true"));
        d.on_partition = lease;
        b.runner.start(k, &d, Instant::now());
        b.until("it", |_| !with_word(&word).is_empty());
        b.running(k);
        let shim = b.recorded(k, "supervisor").unwrap();
        let shim = i32::try_from(shim["pid"].as_i64().unwrap()).unwrap();
        let shim = rustix::process::Pid::from_raw(shim).unwrap();
        rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
        // Under a lease nobody else is needed: the agent does nothing meanwhile.
        let from = Instant::now();
        while lease != OnPartition::Continue && !with_word(&word).is_empty() {
            assert!(from.elapsed() < LONG, "it goes on without anybody");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(matches!(b.end(k), SlotEnd::NodeFault { .. }));
        assert!(with_word(&word).is_empty());
        let left = b.runner.leftovers();
        assert!(containers_of(&b, k).iter().all(|n| !exists(n)), "{left:?}");
    }
}

pub(crate) fn refusal(b: &mut Bench, d: &RunDetail) -> String {
    let k = key();
    b.runner.start(k, d, Instant::now());
    match b.end(k) {
        SlotEnd::Unstartable { reason } => reason,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn what_cannot_run_is_refused_with_what_to_do() {
    let none = RunnerTools { containers: Arc::new(Containers::none()), ..RunnerTools::default() };
    let mut b = Bench::handy(none);
    let reason = refusal(&mut b, &contained("true"));
    assert!(reason.contains("install podman"), "{reason}");
    if !able() {
        return;
    }
    let mut b = Bench::handy(RunnerTools::default());
    let mut d = contained("true");
    d.run.image = Some("localhost/no-such-image:9".into());
    let reason = refusal(&mut b, &d);
    assert!(reason.contains("podman pull localhost/no-such-image:9"), "{reason}");
    d.run.image = Some("Not/An/Image:::".into());
    let reason = refusal(&mut b, &d);
    assert!(reason.contains("HOST/NAME:TAG"), "{reason}");
    let mut missing = contained("true");
    let (from, at) = ("/no/such/volume".to_owned(), "/data".to_owned());
    missing.volumes = vec![Volume { from, at, read_only: true }];
    let reason = refusal(&mut b, &missing);
    assert!(reason.contains("`/no/such/volume` does not exist"), "{reason}");
    let pulls = RunnerTools {
        containers: Arc::new(Containers::new(Pull::Missing)),
        ..RunnerTools::default()
    };
    let mut b = Bench::handy(pulls);
    d.run.image = Some("localhost:1/no-such-image:9".into());
    let reason = refusal(&mut b, &d);
    assert!(reason.contains("cannot be fetched"), "{reason}");
}

pub(crate) fn gpus_come_by_their_description() {
    let dir = Path::new("/var/run/cdi");
    if !able() {
        return;
    }
    let described = ["/etc/cdi", "/var/run/cdi"]
        .iter()
        .any(|d| std::fs::read_dir(d).into_iter().flatten().flatten().next().is_some());
    let fit = !described && Path::new("/dev/loop7").exists();
    if !muster_testkit::machine(fit, "it describes devices of its own, or has no /dev/loop7") {
        return;
    }
    let runner_tools = RunnerTools {
        device_nodes: Arc::new(|_| vec![PathBuf::from("/dev/loop7")]),
        ..RunnerTools::default()
    };
    let mut b = Bench::handy(runner_tools);
    let mut d = contained("ls /dev | grep loop; echo $CUDA_VISIBLE_DEVICES");
    d.slot.gpus = GpuSet(0b10);
    let reason = refusal(&mut b, &d);
    assert!(reason.contains("nvidia-ctk cdi generate"), "{reason}");
    let spec = serde_json::json!({
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{ "name": "1", "containerEdits": {
            "deviceNodes": [{ "path": "/dev/loop7", "type": "b", "major": 7, "minor": 7 }],
        } }],
    });
    std::fs::create_dir_all(dir).unwrap();
    let file = dir.join("muster-test.json");
    std::fs::write(&file, spec.to_string()).unwrap();
    let k = key();
    b.runner.start(k, &d, Instant::now());
    let end = b.end(k);
    std::fs::remove_file(file).unwrap();
    assert_eq!(end, SlotEnd::Ok, "{}", b.text(k, 0, Stream::Stderr));
    assert_eq!(b.out(k), "loop7\n0\n");
}

pub(crate) fn a_runtime_that_hangs_ends_the_attempt_with_the_command_and_its_limit() {
    let k = key();
    let word = long_sleep(k);
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("podman");
    // It hangs with another program that it started, such as a hook: that is no container.
    let script = format!(
        "case \"$1\" in image) exit 0;; run) sleep {word} & exec sleep {word};; *) exec sleep {word};; esac\n"
    );
    std::fs::write(&program, script).unwrap();
    let words = vec!["/bin/sh".to_owned(), program.display().to_string()];
    let short = Duration::from_millis(1);
    let limits = Limits { start: Duration::from_secs(1), remove: short, ..Limits::default() };
    let containers = Arc::new(Containers::podman(Pull::Never, words).with_limits(limits));
    let mut b = Bench::ungrouped(RunnerTools {
        containers,
        isolation: Isolation::Off,
        ..RunnerTools::default()
    });
    b.runner.start(k, &contained("true"), Instant::now());
    let end = format!("{:?}", b.end(k));
    assert!(end.contains("NodeFault") && end.contains("started no container within"), "{end}");
    // That the container could not be removed either is reported, with the command.
    let left = format!("{:?}", b.runner.leftovers());
    assert!(left.contains("… rm -f") && left.contains("did not end within"), "{left}");
    b.until("nothing is left", |_| with_word(&word).is_empty());
}
