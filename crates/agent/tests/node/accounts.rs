//! What is done with ranks where the agent cannot isolate them: they are their project's user, or
//! they do not start. They are never root because root started the agent.

use crate::isolation::bench;
use crate::support::{Bench, key};
use muster_agent::isolation::{Abilities, Isolation};
use muster_agent::runner::{RunnerTools, ShimCommand};
use muster_agent::testing::detail;
use muster_link::messages::{RunDetail, Stream};
use muster_model::job::SlotEnd;
use muster_model::spec::{CheckpointSpec, Volume};
use muster_model::units::Span;
use std::path::Path;
use std::time::Instant;

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![accounts:
        a_machine_that_turns_out_not_to_isolate_starts_nothing,
        without_namespaces_ranks_are_their_projects_user_and_never_root,
        without_namespaces_checkpoints_last_in_the_nodes_tmp,
        an_agent_that_is_root_and_cannot_change_users_starts_nothing,
    ]
}

/// A supervisor without the power over namespaces.
fn weak_shim() -> Option<ShimCommand> {
    let exe = std::env::current_exe().unwrap().display().to_string();
    let args = ["--bounding-set", "-sys_admin", &exe, muster_agent::shim::SHIM_ARG];
    let there = muster_testkit::program("setpriv", "util-linux");
    there.then(|| ShimCommand { program: "setpriv".into(), args: args.map(Into::into).to_vec() })
}

/// What is found out too late, when the ranks are about to start, never makes them root.
pub(crate) fn a_machine_that_turns_out_not_to_isolate_starts_nothing() {
    let Some(b) = bench(RunnerTools::default()) else { return };
    let Some(shim) = weak_shim() else { return };
    drop(b);
    for isolation in [Isolation::Required, Isolation::Best] {
        let runner_tools = RunnerTools { isolation, ..RunnerTools::default() };
        let mut b = Bench::handy_with(runner_tools, shim.clone());
        let k = key();
        b.runner.start(k, &detail("echo ran"), Instant::now());
        let end = b.end(k);
        assert!(
            matches!(&end, SlotEnd::NodeFault { reason, .. }
                if reason.contains("cannot be isolated")),
            "{isolation:?}: {end:?}"
        );
        assert_eq!(b.out(k), "");
    }
}

/// Those of an agent that the kernel makes no namespaces for, as in an unprivileged container.
pub(crate) fn without_namespaces() -> RunnerTools {
    let runner_tools = RunnerTools::default();
    let namespaces = Err("no namespaces".into());
    RunnerTools {
        abilities: Abilities { namespaces, ..runner_tools.abilities.clone() },
        ..runner_tools
    }
}

pub(crate) fn without_namespaces_ranks_are_their_projects_user_and_never_root() {
    let Some(b) = bench(RunnerTools::default()) else { return };
    let Some(shim) = weak_shim() else { return };
    drop(b);
    let mut b = Bench::handy_with(without_namespaces(), shim);
    std::fs::write(b.dir.path().join("key.pem"), "private").unwrap();
    let mode = |mode: u32| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(b.dir.path().join("key.pem"), mode(0o644)).unwrap();
    // Another project's rank, with all it has.
    let neighbour = key();
    let mut d = b.detail(
        "echo $TMPDIR; echo mine > $TMPDIR/a; umask 0; echo mine > $TMPDIR/b; touch up; \
         exec sleep 1000",
    );
    d.account = Some(8);
    b.runner.start(neighbour, &d, Instant::now());
    let up = b.files.path().join("up");
    b.until("the neighbour", |b| up.exists() && !b.out(neighbour).is_empty());
    let theirs = b.out(neighbour).trim().to_owned();
    let (k, state) = (key(), b.dir.path().display().to_string());
    let script = format!(
        "id -u; id -G; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status
cat {state}/key.pem {state}/runs/*/meta.json; ls {state}
cat {theirs}/a {theirs}/b {theirs}/../script {theirs}/../0.report; ls {theirs} {theirs}/../..
unshare -m true && echo could; touch {theirs}/c && echo could
echo a > $TMPDIR/a; echo a > $HOME/b; cat $MUSTER_SECRETS_DIR/token; echo; umask
echo to stdout >> /dev/stdout; echo '{{\"step\":1}}' >> $MUSTER_REPORT; echo $TMPDIR; exit 0"
    );
    d = b.detail(&script);
    d.account = Some(7);
    d.secrets.0.insert("token".into(), "hush".into());
    b.runner.start(k, &d, Instant::now());
    let end = b.end(k);
    assert_eq!(end, SlotEnd::Ok, "{}{}", b.out(k), b.text(k, 0, Stream::Stderr));
    let (out, nothing) = (b.out(k), "0000000000000000");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..2], ["200007", "200007"], "{out}");
    for line in ["CapEff", "CapBnd"] {
        assert!(out.contains(&format!("{line}:\t{nothing}\n")), "{out}");
    }
    assert!(out.contains("NoNewPrivs:\t1\n") && out.contains("Seccomp:\t2\n"), "{out}");
    for secret in ["private", "mine", "could", "meta"] {
        assert!(!out.contains(secret), "{secret} in {out}");
    }
    assert!(out.contains("hush\n0077\nto stdout\n"), "{out}");
    assert_eq!(b.progress_reports.len(), 1, "the report came through");
    assert_eq!(b.recorded(k, "open").unwrap(), "no namespaces", "it is written down");
    assert!(!Path::new(lines[lines.len() - 1]).exists(), "scratch space is gone: {out}");
    b.runner.stop(neighbour, Span(0), Instant::now());
    b.end(neighbour);
    // What cannot be done is the node's fault: another one may.
    let fault = |b: &mut Bench, d: &RunDetail, part: &str| {
        let k = key();
        b.runner.start(k, d, Instant::now());
        let end = b.end(k);
        assert!(
            matches!(&end, SlotEnd::NodeFault { reason, .. } if reason.contains(part)),
            "{end:?}"
        );
    };
    let mut bound = b.detail("true");
    let text = b.files.path().display().to_string();
    bound.volumes = vec![Volume { from: text.clone(), at: text, read_only: true }];
    fault(&mut b, &bound, "cannot bind volume");
    std::fs::set_permissions(b.dir.path(), mode(0o755)).unwrap();
    fault(&mut b, &detail("true"), "chmod 700");
}

/// No rank has a `/tmp` of its own there.
pub(crate) fn without_namespaces_checkpoints_last_in_the_nodes_tmp() {
    let Some(b) = bench(RunnerTools::default()) else { return };
    let Some(shim) = weak_shim() else { return };
    drop(b);
    let mut b = Bench::handy_with(without_namespaces(), shim);
    let k = key();
    let mut d = detail("echo $MUSTER_CHECKPOINT_DIR");
    d.checkpoint = Some(CheckpointSpec { dir: "/tmp".into(), ..CheckpointSpec::default() });
    b.runner.start(k, &d, Instant::now());
    assert_eq!((b.end(k), b.out(k).as_str()), (SlotEnd::Ok, "/tmp\n"));
}

pub(crate) fn an_agent_that_is_root_and_cannot_change_users_starts_nothing() {
    let runner_tools = RunnerTools::default();
    let accounts = Err("the agent lacks CAP_SETUID".into());
    let abilities = Abilities { root: true, accounts, ..runner_tools.abilities.clone() };
    let mut b = Bench::handy(RunnerTools { abilities, ..runner_tools });
    let plain = detail("echo ran");
    let mut contained = plain.clone();
    contained.run.image = Some("localhost/none".into());
    for d in [plain, contained] {
        let k = key();
        b.runner.start(k, &d, Instant::now());
        let end = b.end(k);
        assert!(
            matches!(&end, SlotEnd::NodeFault { reason, .. }
                if reason.contains("CAP_SETUID") && reason.contains("--isolation off")),
            "{end:?}"
        );
        assert_eq!(b.out(k), "");
    }
}
