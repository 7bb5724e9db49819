//! What `resolve` and `check_run` refuse beyond the size of the gang.

use muster_model::Span;
use muster_model::resolve::{MAX_SCRIPT, check_run, resolve};
use muster_model::spec::{
    CheckpointRequest, CheckpointSpec, JobSpec, OnPartition, RunSpec, Simulate, SpecProblem, Volume,
};

fn spec(edit: impl FnOnce(&mut JobSpec)) -> JobSpec {
    let mut s = JobSpec::default();
    edit(&mut s);
    s
}

fn refused(edit: impl FnOnce(&mut JobSpec)) -> SpecProblem {
    let e = resolve(&spec(edit)).unwrap_err();
    assert!(e.hint.is_some(), "every problem says how to fix it: {e}");
    e
}

#[test]
fn volumes_stay_out_of_the_systems_own_places() {
    let volume =
        |from: &str, at: &str| Volume { from: from.into(), at: at.into(), read_only: false };
    assert!(resolve(&spec(|s| s.volumes = vec![volume("/data", "/data")])).is_ok());
    for at in ["/", "//", "/./", "/proc", "/sys/x", "/dev/shm", "data", "/a/../proc", "/a\0"] {
        assert_eq!(refused(|s| s.volumes = vec![volume("/d", at)]).field, "volumes[0].at");
    }
    // What images have of their own is theirs.
    for at in ["/etc", "/etc/passwd", "/run/data"] {
        let e = refused(|s| s.volumes = vec![volume("/d", at)]);
        assert_eq!(e.field, "volumes[0].at");
        assert!(e.message.contains("the node's own"), "{e}");
        let in_image = spec(|s| {
            s.run.image = Some("local/x:1".into());
            s.volumes = vec![volume("/d", at)];
        });
        assert!(resolve(&in_image).is_ok(), "{at}");
    }
    assert_eq!(refused(|s| s.volumes = vec![volume("d", "/d")]).field, "volumes[0].from");
    let e = refused(|s| s.volumes = vec![volume("/a", "/d"), volume("/b", "/d/")]);
    assert_eq!(e.field, "volumes[1].at");
}

#[test]
fn checkpoints_limits_and_tags_are_checked() {
    let checkpoint = |dir: &str, signal: Option<&str>, interval: Option<&str>| {
        Some(CheckpointSpec {
            dir: dir.into(),
            request: CheckpointRequest { signal: signal.map(String::from) },
            grace: None,
            interval: interval.map(String::from),
        })
    };
    let good = checkpoint("/ckpt", Some("SIGUSR1"), Some("auto"));
    assert!(resolve(&spec(|s| s.checkpoint = good)).is_ok());
    let cases = [
        ("checkpoint.dir", checkpoint("ckpt", None, None)),
        ("checkpoint.request.signal", checkpoint("/c", Some("SIGKILL"), None)),
        ("checkpoint.request.signal", checkpoint("/c", Some("10"), None)),
        ("checkpoint.interval", checkpoint("/c", None, Some("often"))),
        ("checkpoint.interval", checkpoint("/c", None, Some("0s"))),
    ];
    for (field, c) in cases {
        assert_eq!(refused(|s| s.checkpoint = c).field, field);
    }
    for dir in ["/", "/./", "/proc/self/root", "/sys/x", "/dev/shm/ckpt", "/run/ckpt"] {
        let e = refused(|s| s.checkpoint = checkpoint(dir, None, None));
        assert_eq!(e.field, "checkpoint.dir", "{dir}");
        assert!(e.message.contains("cannot be written to"), "{e}");
    }
    // In a volume it is the volume's.
    let in_volume = spec(|s| {
        s.run.image = Some("local/x:1".into());
        s.volumes = vec![Volume { from: "/data".into(), at: "/run/v".into(), read_only: false }];
        s.checkpoint = checkpoint("/run/v/ckpt", None, None);
    });
    assert!(resolve(&in_volume).is_ok());
    assert_eq!(refused(|s| s.time_limit = Some(Span(0))).field, "time_limit");
    assert_eq!(refused(|s| s.retries.application = 10_001).field, "retries.application");
    let e = refused(|s| s.on_partition = Some(OnPartition::StopAfter(Span(0))));
    assert_eq!(e.field, "on_partition.stop_after");
    let e = refused(|s| {
        s.simulate = Some(Simulate {
            run: Span(1),
            step: Some(Span(0)),
            checkpoint: None,
            exit_code: 0,
            idle: false,
            ..Simulate::default()
        });
    });
    assert_eq!(e.field, "simulate.step");
    let e = refused(|s| s.tags = (0..65).map(|i| (i.to_string(), String::new())).collect());
    assert_eq!(e.field, "tags");
    let e = refused(|s| s.tags = [("team".into(), "é".repeat(257))].into());
    assert_eq!(e.field, "tags.team");
}

#[test]
fn exactly_one_thing_runs() {
    let run = |script: Option<&str>, command: &[&str]| RunSpec {
        script: script.map(String::from),
        command: command.iter().map(ToString::to_string).collect(),
        ..RunSpec::default()
    };
    assert!(check_run(&run(Some("true"), &[]), false).is_ok());
    assert!(check_run(&run(None, &["true"]), false).is_ok());
    assert!(check_run(&run(None, &[]), true).is_ok());
    assert_eq!(check_run(&run(None, &[]), false).unwrap_err().field, "run");
    assert_eq!(check_run(&run(Some("true"), &[]), true).unwrap_err().field, "run.script");
    assert_eq!(check_run(&run(None, &["true"]), true).unwrap_err().field, "run.command");
    assert_eq!(check_run(&run(Some("true"), &["true"]), false).unwrap_err().field, "run");
    assert_eq!(check_run(&run(Some("a\0b"), &[]), false).unwrap_err().field, "run.script");
    let long = "x".repeat(MAX_SCRIPT + 1);
    assert_eq!(check_run(&run(Some(&long), &[]), false).unwrap_err().field, "run.script");
    assert_eq!(check_run(&run(None, &["a", "\0"]), false).unwrap_err().field, "run.command[1]");
}

#[test]
fn reserved_and_malformed_variables_are_refused() {
    let with = |k: &str| RunSpec {
        script: Some("true".into()),
        env: [(k.to_owned(), "v".to_owned())].into(),
        ..RunSpec::default()
    };
    assert!(check_run(&with("LR"), false).is_ok());
    for bad in ["RANK", "MASTER_PORT", "MUSTER_JOB_ID", "LOCAL_WORLD_SIZE", "1A", "", "A-B", "A="] {
        assert!(check_run(&with(bad), false).is_err(), "{bad:?}");
    }
}
