//! Ranks from start to end, without a server.

use crate::support::{Bench, LONG, alive, key, long_sleep, open_dir, shim, with_word};
use muster_agent::BootTime;
use muster_agent::cgroup::Cgroups;
use muster_agent::runner::RankBudget;
use muster_agent::testing::detail;
use muster_link::messages::{LogMark, ProgressReport, Stream};
use muster_model::command::Observed;
use muster_model::job::SlotEnd;
use muster_model::spec::{CheckpointRequest, CheckpointSpec, OnPartition, Volume};
use muster_model::units::Span;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![ranks:
        every_rank_prints_and_the_end_comes_after_the_last_byte,
        a_failing_rank_takes_the_others_with_it,
        a_signal_is_reported_as_one,
        a_program_that_does_not_exist_is_the_jobs_fault,
        a_missing_workdir_is_the_jobs_fault,
        a_script_runs_by_its_first_line,
        a_stopped_rank_gets_its_grace,
        a_rank_that_ignores_sigterm_is_killed,
        a_restarted_agent_adopts_running_ranks,
        an_agent_on_a_copy_of_a_directory_leaves_the_ranks_of_the_other_alone,
        an_end_while_the_agent_is_away_is_reported_after_its_restart,
        what_ended_without_an_agent_ended_by_itself_and_then,
        a_stop_that_began_before_a_restart_is_still_a_stop,
        a_dead_supervisor_is_the_nodes_fault,
        a_rank_that_failed_before_its_supervisor_died_is_reported,
        an_attempt_is_never_started_twice,
        volumes_are_bound_for_the_ranks_only,
        secrets_are_seen_by_the_ranks_and_never_on_disk,
        output_is_shipped_again_from_what_is_kept,
        ranks_are_heard_and_asked_for_a_checkpoint,
        without_a_server_an_attempt_stops_itself,
        a_rank_with_a_lease_hears_of_its_children,
        a_rank_inherits_no_ignored_signals,
        ranks_of_an_older_supervisor_are_stopped_by_the_agent,
        ranks_beyond_the_budget_are_refused_with_the_reason,
        a_start_waits_for_room_and_begins_when_it_comes,
        a_start_that_waits_can_be_stopped,
        more_ranks_than_the_whole_budget_do_not_wait,
        a_stop_that_was_never_sent_is_sent_after_a_restart,
        the_rest_of_a_grace_survives_a_restart,
        a_checkpoint_is_reported_again_after_a_restart_and_on_every_connection,
        forgetting_removes_every_trace,
        odd_output_comes_through_unchanged,
        leftovers_die_with_their_rank,
        when_memory_is_short_a_rank_is_ended_before_what_watches_it,
        the_python_example_steps_saves_when_asked_and_resumes,
        a_node_that_shuts_down_is_the_cause,
    ]
}

pub(crate) fn every_rank_prints_and_the_end_comes_after_the_last_byte() {
    let mut b = Bench::new();
    let k = key();
    let mut d = detail("echo out $RANK of $WORLD_SIZE; echo err $LOCAL_RANK >&2");
    d.slot.ranks = 3;
    d.slot.first_rank = 4;
    d.world_size = 7;
    b.runner.start(k, &d, Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok);
    for local in 0..3 {
        let rank = 4 + local;
        assert_eq!(b.text(k, rank, Stream::Stdout), format!("out {rank} of 7\n"));
        assert_eq!(b.text(k, rank, Stream::Stderr), format!("err {local}\n"));
    }
}

pub(crate) fn a_failing_rank_takes_the_others_with_it() {
    let mut b = Bench::new();
    let k = key();
    let mut d = detail("[ $RANK = 1 ] && exit 7; exec sleep 1000");
    d.slot.ranks = 3;
    b.runner.start(k, &d, Instant::now());
    match b.end(k) {
        SlotEnd::Failed { exit } => assert_eq!((exit.rank, exit.code), (1, Some(7))),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_signal_is_reported_as_one() {
    let mut b = Bench::new();
    let k = key();
    b.runner.start(k, &detail("kill -SEGV $$"), Instant::now());
    assert!(matches!(b.end(k), SlotEnd::Failed { exit } if exit.signal == Some(11)));
}

pub(crate) fn a_program_that_does_not_exist_is_the_jobs_fault() {
    let mut b = Bench::new();
    let k = key();
    let mut d = detail("");
    d.run.script = None;
    d.run.command = vec!["no-such-program-here".into()];
    b.runner.start(k, &d, Instant::now());
    match b.end(k) {
        SlotEnd::Unstartable { reason } => assert!(reason.contains("no-such-program"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_missing_workdir_is_the_jobs_fault() {
    let mut b = Bench::new();
    let k = key();
    let mut d = detail("pwd");
    d.run.workdir = Some("/no/such/dir".into());
    b.runner.start(k, &d, Instant::now());
    match b.end(k) {
        SlotEnd::Unstartable { reason } => assert!(reason.contains("/no/such/dir"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let (k, d) = (key(), &mut detail("pwd"));
    d.run.workdir = Some("/usr".into());
    b.runner.start(k, d, Instant::now());
    b.end(k);
    assert_eq!(b.out(k), "/usr\n");
}

pub(crate) fn a_script_runs_by_its_first_line() {
    let mut b = Bench::new();
    let k = key();
    b.runner.start(k, &detail("#!/bin/cat\nhello\n"), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok);
    assert_eq!(b.out(k), "#!/bin/cat\nhello\n");
    let k = key();
    b.runner.start(k, &detail("#!/no/such/interpreter\n"), Instant::now());
    assert!(matches!(b.end(k), SlotEnd::Unstartable { .. }));
}

pub(crate) fn a_stopped_rank_gets_its_grace() {
    let mut b = Bench::new();
    let k = key();
    b.runner.start(
        k,
        &detail("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"),
        Instant::now(),
    );
    b.running(k);
    b.until("up", |b| b.out(k).contains("up"));
    b.runner.stop(k, Span::secs(60), Instant::now());
    b.runner.stop(k, Span::secs(60), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Stopped);
    assert_eq!(b.out(k), "up\nsaved\n");
}

pub(crate) fn a_rank_that_ignores_sigterm_is_killed() {
    let mut b = Bench::new();
    let k = key();
    let script = "trap '' TERM; echo up; while :; do sleep 0.05; done";
    b.runner.start(k, &detail(script), Instant::now());
    b.until("up", |b| b.out(k).contains("up"));
    b.runner.stop(k, Span(100), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Stopped);
}

pub(crate) fn a_restarted_agent_adopts_running_ranks() {
    let mut b = Bench::new();
    let k = key();
    let go = b.files.path().join("go");
    let script = "echo one; until [ -e go ]; do sleep 0.02; done; echo two";
    b.runner.start(k, &b.detail(script), Instant::now());
    b.running(k);
    b.until("one", |b| b.out(k) == "one\n");
    let mut b = b.restarted();
    assert_eq!(b.runner.observed(), vec![(k, Observed::Running)]);
    b.runner.start(k, &detail(script), Instant::now());
    std::fs::write(go, "").unwrap();
    assert_eq!(b.end(k), SlotEnd::Ok);
    // Nothing was known to be kept, so everything is shipped again, once.
    assert_eq!(b.out(k), "one\ntwo\n");
}

pub(crate) fn an_agent_on_a_copy_of_a_directory_leaves_the_ranks_of_the_other_alone() {
    let mut b = Bench::new();
    let k = key();
    b.runner.start(k, &b.detail("until [ -e go ]; do sleep 0.02; done"), Instant::now());
    b.running(k);
    let rank = b.rank_pid(k);
    let copy = Arc::new(tempfile::tempdir().unwrap());
    let from = format!("{}/.", b.dir.path().display());
    let mut cp = std::process::Command::new("cp");
    muster_testkit::succeeds(cp.arg("-a").arg(from).arg(copy.path()));
    let (files, budget) = (b.files.clone(), RankBudget::unlimited());
    let (cgroups, runner_tools) = (b.cgroups.clone(), b.runner_tools.clone());
    let mut other = Bench::open_with(copy, files, cgroups, budget, runner_tools, shim());
    other.runner.stop(k, Span(100), Instant::now());
    let end = other.end(k);
    assert!(end.is_unproven(), "that it ended was not seen: {end:?}");
    assert!(
        matches!(&end, SlotEnd::NodeFault { reason, .. } if reason.contains("is a copy")),
        "{end:?}"
    );
    assert!(alive(rank), "nobody stopped it");
    std::fs::write(b.files.path().join("go"), "").unwrap();
    assert_eq!(b.end(k), SlotEnd::Ok);
}

pub(crate) fn an_end_while_the_agent_is_away_is_reported_after_its_restart() {
    let mut b = Bench::new();
    let k = key();
    // It waits for us, so that it is seen to run however late we look.
    let script = "until [ -e go ]; do sleep 0.02; done; echo bye; exit 3";
    b.runner.start(k, &b.detail(script), Instant::now());
    b.running(k);
    let rank = b.rank_pid(k);
    let record = b.run_dir(k).join("record");
    let b = b;
    let mut b = {
        // Nobody looks while it ends.
        std::fs::write(b.files.path().join("go"), "").unwrap();
        while !std::fs::read_to_string(&record).unwrap().contains("\"end\"") {
            std::thread::sleep(Duration::from_millis(5));
        }
        b.restarted()
    };
    match b.end(k) {
        SlotEnd::Failed { exit } => assert_eq!(exit.code, Some(3)),
        other => panic!("{other:?}"),
    }
    assert_eq!(b.out(k), "bye\n");
    assert!(!alive(rank));
    // And a second restart reports the same again.
    let mut b = b.restarted();
    assert!(matches!(b.end(k), SlotEnd::Failed { .. }));
}

pub(crate) fn a_stop_that_began_before_a_restart_is_still_a_stop() {
    let mut b = Bench::new();
    let k = key();
    let script = "trap 'sleep 0.2; exit 5' TERM; echo up; while :; do sleep 0.02; done";
    b.runner.start(k, &detail(script), Instant::now());
    b.until("up", |b| b.out(k) == "up\n");
    b.runner.stop(k, Span::secs(30), Instant::now());
    let mut b = b.restarted();
    assert_eq!(b.end(k), SlotEnd::Stopped);
}

pub(crate) fn a_dead_supervisor_is_the_nodes_fault() {
    let mut b = Bench::new();
    let k = key();
    let (word, shell) = (long_sleep(k), "setsid sleep $0 & exec sleep $0");
    let mut d = detail("");
    d.run.script = None;
    d.run.command = ["sh", "-c", shell, &word].map(Into::into).to_vec();
    b.runner.start(k, &d, Instant::now());
    b.running(k);
    b.until("both", |_| with_word(&word).len() == 2);
    let shim = b.recorded(k, "supervisor").unwrap();
    let shim = i32::try_from(shim["pid"].as_i64().unwrap()).unwrap();
    let shim = rustix::process::Pid::from_raw(shim).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    assert!(matches!(b.end(k), SlotEnd::NodeFault { reason, .. } if reason.contains("supervisor")));
    b.until("the death of the rank and its child", |_| with_word(&word).is_empty());
}

pub(crate) fn a_rank_that_failed_before_its_supervisor_died_is_reported() {
    let mut b = Bench::new();
    let k = key();
    // The other one stays, so that the supervisor does too.
    let mut d = detail("trap '' TERM; [ $RANK = 1 ] && exit 7; exec sleep 1000");
    d.slot.ranks = 2;
    d.world_size = 2;
    b.runner.start(k, &d, Instant::now());
    b.until("the first failure", |b| b.recorded(k, "first").is_some());
    let shim = b.recorded(k, "supervisor").unwrap();
    let shim = i32::try_from(shim["pid"].as_i64().unwrap()).unwrap();
    let shim = rustix::process::Pid::from_raw(shim).unwrap();
    // It is gone already if SIGTERM came before the trap; the end is the same.
    let _ = rustix::process::kill_process(shim, rustix::process::Signal::KILL);
    match b.end(k) {
        SlotEnd::Failed { exit } => assert_eq!((exit.rank, exit.code), (1, Some(7))),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn an_attempt_is_never_started_twice() {
    let mut b = Bench::new();
    let k = key();
    let d = detail("echo once");
    b.runner.start(k, &d, Instant::now());
    b.runner.start(k, &d, Instant::now());
    b.end(k);
    b.runner.start(k, &d, Instant::now());
    let mut b = b.restarted();
    b.runner.start(k, &d, Instant::now());
    b.end(k);
    assert_eq!(b.out(k), "once\n");
}

pub(crate) fn volumes_are_bound_for_the_ranks_only() {
    let mut b = Bench::new();
    let (from, at) = (open_dir(), open_dir());
    std::fs::write(from.path().join("data"), "treasure").unwrap();
    let k = key();
    let mut d = detail("cat data; touch new 2>/dev/null || echo ' read-only'");
    d.run.workdir = Some(at.path().display().to_string());
    d.volumes = vec![Volume {
        from: from.path().display().to_string(),
        at: at.path().display().to_string(),
        read_only: true,
    }];
    b.runner.start(k, &d, Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok);
    assert_eq!(b.out(k), "treasure read-only\n");
    assert!(!at.path().join("data").exists(), "the node itself does not see it");
    let k = key();
    d.volumes[0].from = "/no/such/volume".into();
    b.runner.start(k, &d, Instant::now());
    assert!(
        matches!(b.end(k), SlotEnd::Unstartable { reason } if reason.contains("/no/such/volume"))
    );
}

pub(crate) fn secrets_are_seen_by_the_ranks_and_never_on_disk() {
    let mut b = Bench::new();
    let k = key();
    let go = b.files.path().join("go");
    let mut d = b.detail(
        "echo $WANDB_KEY | rev; rev $MUSTER_SECRETS_DIR/wandb-key; until [ -e go ]; do sleep 0.02; done",
    );
    d.secrets.0.insert("wandb-key".into(), "hunter2value".into());
    d.run.env.insert("LR".into(), "envvalue42".into());
    b.runner.start(k, &d, Instant::now());
    b.until("both", |b| b.out(k).matches("eulav2retnuh").count() == 2);
    let grep = std::process::Command::new("grep")
        .args(["-r", "-l", "-e", "hunter2value", "-e", "envvalue42"])
        .arg(b.dir.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&grep.stdout), "", "nothing in the state directory");
    std::fs::write(go, "").unwrap();
    assert_eq!(b.end(k), SlotEnd::Ok);
}

pub(crate) fn what_ended_without_an_agent_ended_by_itself_and_then() {
    let mut b = Bench::new();
    let k = key();
    let go = b.files.path().join("go");
    b.runner.start(k, &b.detail("until [ -e go ]; do sleep 0.02; done"), Instant::now());
    b.running(k);
    assert_eq!(b.runner.ended_ago(k), None, "it runs");
    // Nobody looks while it ends.
    std::fs::write(go, "").unwrap();
    let from = Instant::now();
    while b.recorded(k, "end").is_none() {
        assert!(from.elapsed() < LONG, "it never ended");
        std::thread::sleep(Duration::from_millis(3));
    }
    let at = BootTime::now();
    while BootTime::now() <= at {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut b = b.restarted();
    // The first thing that the next agent hears is an order to stop it.
    b.runner.stop(k, Span::secs(10), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok);
    let least = BootTime::now().since(at);
    let ago = b.runner.ended_ago(k).unwrap();
    assert!(ago >= least, "{ago} {least}");
    // Whoever comes after it knows the same.
    b.runner.save();
    let mut b = b.restarted();
    assert_eq!(b.end(k), SlotEnd::Ok);
    assert!(b.runner.ended_ago(k) >= Some(ago));
}

pub(crate) fn output_is_shipped_again_from_what_is_kept() {
    let mut b = Bench::new();
    let k = key();
    b.runner.start(k, &detail("printf 0123456789"), Instant::now());
    b.end(k);
    b.runner.kept(LogMark { key: k, rank: 0, stream: Stream::Stdout, offset: 4 });
    b.runner.rewind();
    assert_eq!(b.runner.observed(), vec![(k, Observed::Running)], "its output comes first");
    let again = b.runner.logs(1 << 20);
    assert_eq!((again[0].offset, &again[0].data[..]), (4, &b"456789"[..]));
    assert_eq!(b.runner.poll(Instant::now(), true), vec![(k, Observed::Ended(SlotEnd::Ok))]);
    b.runner.save();
    let mut b = b.restarted();
    b.until("output", |b| !b.logs.is_empty());
    assert_eq!(b.logs[0].offset, 4, "a restarted agent knows what is kept");
}

pub(crate) fn ranks_are_heard_and_asked_for_a_checkpoint() {
    let mut b = Bench::new();
    let k = key();
    // The shell that waits in the foreground has no handler and must survive the signal.
    let inner = r#"trap 'echo "{\"checkpoint\":{\"state\":\"done\",\"step\":9}}" >> $MUSTER_REPORT; exit 0' USR1
echo '{"step":8,"t":0.5}' >> $MUSTER_REPORT
echo nonsense >> $MUSTER_REPORT
while :; do sleep 0.02; done"#;
    let mut d = b.detail(&format!("cat > inner.sh <<'EOF'\n{inner}\nEOF\nsh inner.sh\necho after"));
    d.checkpoint = Some(CheckpointSpec {
        dir: b.files.path().join("checkpoints").display().to_string(),
        request: CheckpointRequest { signal: Some("SIGUSR1".into()) },
        ..CheckpointSpec::default()
    });
    b.runner.start(k, &d, Instant::now());
    b.until("a step", |b| {
        b.progress_reports.iter().any(|v| matches!(v, ProgressReport::Step { step: 8, .. }))
    });
    b.until("a garbled line", |b| {
        b.progress_reports.contains(&ProgressReport::Garbled { lines: 1 })
    });
    b.runner.ask_checkpoint(k);
    assert_eq!(b.end(k), SlotEnd::Ok);
    assert_eq!(b.out(k), "after\n");
    assert!(b.progress_reports.iter().any(
        |v| matches!(v, ProgressReport::Checkpoint { state, step: Some(9), .. } if state == "done")
    ));
}

pub(crate) fn without_a_server_an_attempt_stops_itself() {
    let mut b = Bench::new();
    let (k, stays) = (key(), key());
    let mut d = detail("exec sleep 1000");
    d.on_partition = OnPartition::Continue;
    b.runner.start(stays, &d, Instant::now());
    b.running(stays);
    let lease = Span::secs(8);
    d.on_partition = OnPartition::StopAfter(lease);
    b.runner.renewed(BootTime::now());
    b.runner.start(k, &d, Instant::now());
    assert_eq!(b.runner.shortest_lease(), Some(lease));
    // However long it takes to come up.
    b.until("running", |b| {
        b.runner.renewed(BootTime::now());
        b.seen.contains(&(k, Observed::Running))
    });
    let no_server = SlotEnd::no_server(lease);
    assert_eq!(b.end(k), no_server);
    assert!(b.recorded(k, "lease").is_some(), "the supervisor wrote down why");
    // One that is too late is not even started.
    let late = key();
    b.runner.start(late, &d, Instant::now());
    assert_eq!(b.end(late), no_server);
    assert!(b.recorded(late, "ranks").is_none());
    assert_eq!(b.runner.active().collect::<Vec<_>>(), vec![stays]);
    assert_eq!(b.runner.shortest_lease(), None);
    b.runner.stop(stays, Span(0), Instant::now());
    assert_eq!(b.end(stays), SlotEnd::Stopped);
}

/// A shell ignores some for what it starts in the background.
pub(crate) fn a_rank_inherits_no_ignored_signals() {
    #[expect(unsafe_code, reason = "dispositions have no safe interface")]
    // SAFETY: these are valid dispositions; no test depends on the effect of these signals on itself.
    unsafe {
        for s in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR2, libc::SIGRTMAX()] {
            libc::signal(s, libc::SIG_IGN);
        }
    }
    let mut b = Bench::new();
    for lease in [None, Some(Span::secs(600))] {
        let k = key();
        let mut d = detail("exec grep -E '^Sig(Ign|Blk):' /proc/self/status");
        if let Some(lease) = lease {
            d.on_partition = OnPartition::StopAfter(lease);
            b.runner.renewed(BootTime::now());
        }
        b.runner.start(k, &d, Instant::now());
        assert_eq!(b.end(k), SlotEnd::Ok);
        assert_eq!(b.out(k), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    }
}

/// Its supervisor blocks the signal about children, for itself.
pub(crate) fn a_rank_with_a_lease_hears_of_its_children() {
    let mut b = Bench::new();
    let k = key();
    let mut d = detail("sleep 0 & wait; grep SigBlk /proc/self/status");
    d.on_partition = OnPartition::StopAfter(Span::secs(600));
    b.runner.renewed(BootTime::now());
    b.runner.start(k, &d, Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok);
    assert_eq!(b.out(k), "SigBlk:\t0000000000000000\n");
}

pub(crate) fn ranks_of_an_older_supervisor_are_stopped_by_the_agent() {
    let mut b = Bench::new();
    let (k, stays) = (key(), key());
    let mut d = detail("exec sleep 1000");
    d.on_partition = OnPartition::StopAfter(Span::secs(60));
    b.runner.start(k, &d, Instant::now());
    d.on_partition = OnPartition::Continue;
    b.runner.start(stays, &d, Instant::now());
    b.running(k);
    b.running(stays);
    // What an agent leaves behind whose supervisors held no lease.
    let path = b.run_dir(k).join("meta.json");
    let mut meta: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(meta.as_object_mut().unwrap().remove("lease"), Some(true.into()));
    std::fs::write(&path, meta.to_string()).unwrap();
    let mut b = b.restarted();
    let heard = Instant::now();
    b.runner.unheard(heard, heard + Duration::from_secs(59));
    assert_eq!(b.runner.active().count(), 2);
    assert_eq!(b.runner.next_unheard_deadline(heard), Some(heard + Duration::from_secs(60)));
    b.runner.unheard(heard, heard + Duration::from_secs(61));
    assert!(matches!(b.end(k), SlotEnd::NodeFault { reason, .. } if reason == "no server for 1m"));
    assert_eq!(b.runner.active().collect::<Vec<_>>(), vec![stays]);
    b.runner.stop(stays, Span(0), Instant::now());
    assert_eq!(b.end(stays), SlotEnd::Stopped);
}

pub(crate) fn ranks_beyond_the_budget_are_refused_with_the_reason() {
    let mut b = Bench::with(Arc::new(Cgroups::none()), RankBudget::patient(2, Duration::ZERO));
    let (one, two) = (key(), key());
    let mut d = detail("exec sleep 1000");
    d.slot.ranks = 2;
    b.runner.start(one, &d, Instant::now());
    b.runner.start(two, &d, Instant::now());
    assert!(
        matches!(b.end(two), SlotEnd::NodeFault { reason, .. } if reason.contains("2 ranks already"))
    );
    b.runner.stop(one, Span(0), Instant::now());
    b.end(one);
    let three = key();
    d.run.script = Some("true".into());
    b.runner.start(three, &d, Instant::now());
    assert_eq!(b.end(three), SlotEnd::Ok);
}

pub(crate) fn a_start_waits_for_room_and_begins_when_it_comes() {
    let mut b = Bench::with(Arc::new(Cgroups::none()), RankBudget::patient(2, LONG));
    let (one, two) = (key(), key());
    let mut d = detail("exec sleep 1000");
    d.slot.ranks = 2;
    b.runner.start(one, &d, Instant::now());
    b.running(one);
    d.run.script = Some("echo ran".into());
    b.runner.start(two, &d, Instant::now());
    b.runner.start(two, &d, Instant::now());
    b.turn();
    assert!(b.runner.knows(two) && !b.run_dir(two).exists(), "it waits");
    assert!(b.runner.observed().contains(&(two, Observed::Running)), "a stop must find it");
    b.runner.stop(one, Span(0), Instant::now());
    assert_eq!(b.end(two), SlotEnd::Ok);
    assert_eq!(b.out(two), "ran\n");
}

pub(crate) fn a_start_that_waits_can_be_stopped() {
    let mut b = Bench::with(Arc::new(Cgroups::none()), RankBudget::new(1));
    let (one, two) = (key(), key());
    let d = detail("exec sleep 1000");
    b.runner.start(one, &d, Instant::now());
    b.runner.start(two, &d, Instant::now());
    assert_eq!(b.runner.active().count(), 2);
    b.runner.stop(two, Span(0), Instant::now());
    assert_eq!(b.end(two), SlotEnd::Stopped);
    b.runner.stop(one, Span(0), Instant::now());
    assert_eq!(b.end(one), SlotEnd::Stopped);
    assert!(!b.seen.contains(&(two, Observed::Running)), "it never ran");
}

pub(crate) fn more_ranks_than_the_whole_budget_do_not_wait() {
    let mut b = Bench::with(Arc::new(Cgroups::none()), RankBudget::new(1));
    let k = key();
    let mut d = detail("true");
    d.slot.ranks = 2;
    b.runner.start(k, &d, Instant::now());
    assert!(matches!(b.end(k), SlotEnd::NodeFault { reason, .. } if reason.contains("limit 1")));
}

pub(crate) fn a_stop_that_was_never_sent_is_sent_after_a_restart() {
    let mut b = Bench::new();
    let k = key();
    let script = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.02; done";
    b.runner.start(k, &detail(script), Instant::now());
    b.until("up", |b| b.out(k) == "up\n");
    b.runner.save();
    // What an agent leaves that dies after it wrote the stop down and before it did anything.
    let path = b.run_dir(k).join("state.json");
    let mut state: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    state["stop"] = "asked".into();
    state["kill"] = serde_json::json!({ "at": i64::MAX, "grace": 600_000 });
    std::fs::write(&path, state.to_string()).unwrap();
    let mut b = b.restarted();
    assert_eq!(b.end(k), SlotEnd::Stopped);
    assert_eq!(b.out(k), "up\nasked\n");
}

pub(crate) fn the_rest_of_a_grace_survives_a_restart() {
    let mut b = Bench::new();
    let k = key();
    let script = "trap '' TERM; echo up; while :; do sleep 0.02; done";
    b.runner.start(k, &detail(script), Instant::now());
    b.until("up", |b| b.out(k) == "up\n");
    b.runner.stop(k, Span::mins(60), Instant::now());
    let mut b = b.restarted();
    b.running(k);
    // Far longer than the grace of those who named none.
    let due = b.runner.due().expect("something runs");
    assert!(due <= Instant::now() + Duration::from_secs(2));
    b.runner.poll(Instant::now() + Duration::from_secs(1800), true);
    assert_eq!(b.runner.active().count(), 1);
    b.runner.poll(Instant::now() + Duration::from_secs(3601), true);
    assert_eq!(b.end(k), SlotEnd::Stopped);
}

pub(crate) fn a_checkpoint_is_reported_again_after_a_restart_and_on_every_connection() {
    let mut b = Bench::new();
    let k = key();
    let go = b.files.path().join("go");
    let script = r#"echo '{"checkpoint":{"state":"done","step":4}}' >> $MUSTER_REPORT
until [ -e go ]; do sleep 0.02; done"#;
    let reported = |b: &Bench| {
        let done =
            |v: &&ProgressReport| matches!(v, ProgressReport::Checkpoint { step: Some(4), .. });
        b.progress_reports.iter().filter(done).count()
    };
    b.runner.start(k, &b.detail(script), Instant::now());
    b.until("the checkpoint", |b| reported(b) == 1);
    b.runner.rewind();
    b.until("the checkpoint again", |b| reported(b) == 2);
    b.runner.save();
    let mut b = b.restarted();
    b.until("the checkpoint of an earlier agent", |b| reported(b) == 1);
    std::fs::write(go, "").unwrap();
    assert_eq!(b.end(k), SlotEnd::Ok);
    // An end that the server may not have, and the checkpoint that belongs before it.
    b.runner.rewind();
    assert_eq!(b.runner.observed(), vec![(k, Observed::Running)]);
    b.turn();
    assert_eq!(reported(&b), 2);
    assert!(matches!(b.runner.observed()[..], [(_, Observed::Ended(SlotEnd::Ok))]));
    // A third agent, to which nobody said that the attempt may be forgotten.
    let mut b = b.restarted();
    b.until("the checkpoint of an ended attempt", |b| reported(b) == 1);
}

pub(crate) fn forgetting_removes_every_trace() {
    let mut b = Bench::new();
    let k = key();
    b.runner.start(k, &detail("exec sleep 1000"), Instant::now());
    b.running(k);
    b.runner.forget(k);
    assert!(b.runner.knows(k), "what runs is not forgotten");
    b.runner.stop(k, Span(0), Instant::now());
    b.end(k);
    b.runner.forget(k);
    assert!(!b.runner.knows(k) && !b.run_dir(k).exists());
    b.until("rest", |b| b.runner.due().is_none());
}

pub(crate) fn odd_output_comes_through_unchanged() {
    let mut b = Bench::new();
    let k = key();
    let script = r"printf '\033[31m\000\377\n'; head -c 200000 /dev/zero | tr '\0' y; echo";
    b.runner.start(k, &detail(script), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok);
    let bytes: Vec<u8> = b.logs.iter().flat_map(|c| c.data.to_vec()).collect();
    assert_eq!(&bytes[..8], b"\x1b[31m\x00\xff\n");
    assert_eq!(bytes.len(), 8 + 200_000 + 1);
}

pub(crate) fn leftovers_die_with_their_rank() {
    let mut b = Bench::new();
    let k = key();
    let word = long_sleep(k);
    let script = format!(
        "setsid sh -c 'touch up; exec sleep {word}' & until [ -e up ]; do sleep 0.01; done"
    );
    b.runner.start(k, &b.detail(&script), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok);
    assert!(with_word(&word).is_empty());
    assert!(b.files.path().join("up").exists(), "it was there");
    assert!(b.runner.leftovers().is_empty());
}

pub(crate) fn the_python_example_steps_saves_when_asked_and_resumes() {
    if !muster_testkit::program("python3", "python3") {
        return;
    }
    let mut b = Bench::new();
    let k = key();
    let dir = b.files.path().join("ckpt").display().to_string();
    // Ranks have a /tmp of their own: they would not find the example of a checkout below it.
    let example = b.files.path().join("examples/train_toy.py");
    for file in ["examples/train_toy.py", "python/muster_report.py"] {
        let copy = b.files.path().join(file);
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        std::fs::copy(std::path::Path::new(kept).join(file), copy).unwrap();
    }
    let mut d = b.detail(&format!("python3 {}", example.display()));
    for (name, value) in [("STEPS", "100000"), ("STEP_SECONDS", "0.005"), ("EVERY", "1000000")] {
        d.run.env.insert(name.into(), value.into());
    }
    d.checkpoint = Some(CheckpointSpec {
        dir: dir.clone(),
        request: CheckpointRequest { signal: Some("SIGUSR1".into()) },
        ..CheckpointSpec::default()
    });
    b.runner.start(k, &d, Instant::now());
    b.until("a step", |b| {
        b.progress_reports.iter().any(|v| matches!(v, ProgressReport::Step { .. }))
    });
    b.runner.ask_checkpoint(k);
    let done = |b: &Bench| {
        b.progress_reports.iter().find_map(|v| match v {
            ProgressReport::Checkpoint { state, path, .. } if state == "done" => path.clone(),
            _ => None,
        })
    };
    b.until("a checkpoint", |b| done(b).is_some());
    let path = done(&b).unwrap();
    assert!(path.starts_with(&dir) && std::path::Path::new(&path).exists(), "{path}");
    b.runner.stop(k, Span::secs(20), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Stopped);
    let again = key();
    d.resume = Some(path);
    d.run.env.insert("STEPS".into(), "1".into());
    b.runner.start(again, &d, Instant::now());
    assert_eq!(b.end(again), SlotEnd::Ok);
    assert!(b.out(again).contains("resumed at step"), "{}", b.out(again));
}

pub(crate) fn when_memory_is_short_a_rank_is_ended_before_what_watches_it() {
    let mut b = Bench::new();
    let k = key();
    b.runner.start(k, &detail("cat /proc/self/oom_score_adj; exec sleep 1000"), Instant::now());
    b.running(k);
    b.until("its score", |b| b.out(k).ends_with('\n'));
    let score = |of: &str| -> i32 {
        let text = std::fs::read_to_string(format!("/proc/{of}/oom_score_adj")).unwrap();
        text.trim().parse().unwrap()
    };
    let own = score("self");
    assert_eq!(b.out(k).trim(), own.max(500).to_string());
    let shim = b.recorded(k, "supervisor").unwrap();
    assert_eq!(score(&shim["pid"].to_string()), own, "its supervisor is as this process");
    b.runner.stop(k, Span(0), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Stopped);
}

pub(crate) fn a_node_that_shuts_down_is_the_cause() {
    let mut b = Bench::new();
    let k = key();
    b.runner.start(k, &detail("exec sleep 1000"), Instant::now());
    b.running(k);
    b.runner.shut_down(Span(0), Instant::now());
    assert!(matches!(b.end(k), SlotEnd::NodeFault { reason, .. } if reason.contains("shut down")));
}
