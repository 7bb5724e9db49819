//! Whether a rank gets at what is not its own: the keys of the site, other projects, the node.
//! What is tried from inside is in `attempts`.

use crate::attempts::ARG;
use crate::support::{Bench, key, open_dir, shim};
use muster_agent::cgroup::Cgroups;
use muster_agent::isolation::{self, Isolation};
use muster_agent::runner::{RankBudget, RunnerTools};
use muster_agent::testing::detail;
use muster_link::messages::{RunDetail, Stream};
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use muster_model::spec::{CheckpointSpec, RunSpec, Volume};
use muster_model::units::Span;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![escape:
        every_way_out_is_refused,
        a_rank_is_nobody_but_its_project,
        a_rank_can_do_its_work,
        projects_do_not_read_each_others_files,
        real_accounts_go_before_the_range,
        a_volume_shows_only_what_its_project_may_see,
        a_servers_directory_is_hidden_whatever_its_mode,
        a_volume_never_comes_through_proc,
        a_volume_leaves_nothing_on_the_node,
        a_volume_in_a_volume_leads_nowhere_else,
        a_read_only_volume_is_so_with_all_that_is_mounted_in_it,
        checkpoints_that_cannot_be_written_are_reported_at_the_start,
        a_link_that_changes_leads_nowhere,
        abstract_sockets_are_kept_to_the_slot,
        a_job_cannot_spoil_its_own_isolation,
    ]
}

/// A site as `muster up` makes it, outside of what every slot has of its own.
struct Site {
    data: tempfile::TempDir,
    bench: Bench,
}

fn site() -> Option<Site> {
    if let Err(why) = isolation::possible() {
        let _ = muster_testkit::vital(false, why);
        return None;
    }
    let data = tempfile::Builder::new().prefix("muster-escape-").tempdir_in("/var/lib").unwrap();
    // As a server has it.
    std::fs::set_permissions(data.path(), PermissionsExt::from_mode(0o700)).unwrap();
    for (name, mode) in [
        ("admin.token", 0o600),
        ("secrets.key", 0o600),
        ("muster.db", 0o644),
        ("pki/ca.key", 0o600),
    ] {
        let path = data.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "the site's own\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let logs = data.path().join("logs/7");
    std::fs::create_dir_all(&logs).unwrap();
    std::fs::write(logs.join("0.out"), "another job's output\n").unwrap();
    let fleet = data.path().join("fleet");
    std::fs::create_dir(&fleet).unwrap();
    let state = Arc::new(tempfile::tempdir_in(fleet).unwrap());
    let runner_tools = RunnerTools { isolation: Isolation::Required, ..RunnerTools::default() };
    let groups = Arc::new(Cgroups::detect());
    let budget = RankBudget::unlimited();
    let bench = Bench::open_with(state, Arc::new(open_dir()), groups, budget, runner_tools, shim());
    Some(Site { data, bench })
}

pub(crate) fn copy(from: &Path, to: &Path) {
    muster_testkit::succeeds(std::process::Command::new("cp").arg(from).arg(to));
}

/// Puts this executable where ranks can start it.
pub(crate) fn program(dir: &Path) -> PathBuf {
    let (from, to) = (std::env::current_exe().unwrap(), dir.join("program"));
    // By another process: a child that another test starts meanwhile would inherit the descriptor
    // that writes it, and then nobody could run it.
    copy(&from, &to);
    std::fs::set_permissions(&to, PermissionsExt::from_mode(0o755)).unwrap();
    to
}

fn runs(command: &[&str]) -> RunDetail {
    let command = command.iter().map(|w| (*w).to_owned()).collect();
    RunDetail { run: RunSpec { command, ..RunSpec::default() }, ..detail("") }
}

fn end_of(b: &mut Bench, d: &RunDetail) -> (AttemptKey, SlotEnd) {
    let k = key();
    b.runner.start(k, d, Instant::now());
    (k, b.end(k))
}

fn run(b: &mut Bench, d: &RunDetail) -> String {
    let (k, end) = end_of(b, d);
    assert_eq!(end, SlotEnd::Ok, "{}{}", b.out(k), b.text(k, 0, Stream::Stderr));
    b.out(k)
}

fn checkpoints(dir: &Path) -> CheckpointSpec {
    CheckpointSpec { dir: dir.display().to_string(), ..CheckpointSpec::default() }
}

fn volume(from: &Path, at: &Path) -> Volume {
    let text = |p: &Path| p.display().to_string();
    Volume { from: text(from), at: text(at), read_only: false }
}

/// Whether the kernel keeps abstract sockets to a slot (6.12 and later, with Landlock).
fn keeps_abstract_sockets() -> bool {
    #[expect(unsafe_code, reason = "only the kernel knows")]
    // SAFETY: asks for the version; no memory is involved.
    let version = unsafe { libc::syscall(444, 0, 0, 1) };
    muster_testkit::machine(version >= 6, "this kernel's Landlock knows no abstract sockets")
}

fn listen(name: &str) -> UnixListener {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
}

pub(crate) fn every_way_out_is_refused() {
    let Some(Site { data, bench: mut b }) = site() else { return };
    let data = data.path();
    // Another project's rank, with all it has.
    let neighbour = key();
    let mark = format!("mark-{}", neighbour.job);
    let mut d = b.detail(&format!(
        "umask 0; for d in /tmp /var/tmp /dev/shm; do echo x > $d/{mark}; done; echo mine; \
         echo $MUSTER_SECRETS_DIR; touch up; exec sleep 1000"
    ));
    d.project = "rival".parse().unwrap();
    d.secrets.0.insert("token".into(), "hush".into());
    b.runner.start(neighbour, &d, Instant::now());
    let up = b.files.path().join("up");
    b.until("the neighbour", |b| up.exists() && b.recorded(neighbour, "ranks").is_some());
    let files = open_dir();
    let program = program(files.path());
    let set_uid = files.path().join("root");
    copy(&program, &set_uid);
    std::fs::set_permissions(&set_uid, PermissionsExt::from_mode(0o4755)).unwrap();
    let socket = PathBuf::from(format!("/run/muster-escape-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let _listening = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o777)).unwrap();
    let name = format!("muster-escape-{}", std::process::id());
    let _abstract = listen(&name);
    let rank = b.rank_pid(neighbour);
    let runs_dir = b.run_dir(neighbour);
    let mut list = Vec::new();
    let mut add = |kind: &str, path: PathBuf| list.push(format!("{kind} {}", path.display()));
    for file in ["admin.token", "secrets.key", "muster.db", "pki/ca.key", "logs/7/0.out"] {
        add("read", data.join(file));
        add("read", Path::new("/proc/self/root").join(data.join(file).strip_prefix("/").unwrap()));
        add("write", data.join(file));
    }
    for file in ["0.out", "0.err", "0.report", "script", "meta.json", "record", "secrets/token"] {
        add("read", runs_dir.join(file));
    }
    for dir in ["tmp", "var-tmp"] {
        add("read", runs_dir.join("scratch").join(dir).join(&mark));
    }
    for dir in ["/tmp", "/var/tmp", "/dev/shm"] {
        add("read", Path::new(dir).join(&mark));
    }
    for dir in [data, &data.join("logs"), b.dir.path(), &runs_dir] {
        add("list", dir.to_path_buf());
        add("create", dir.to_path_buf());
    }
    for pid in [rank, i32::try_from(std::process::id()).unwrap()] {
        add("pid", PathBuf::from(pid.to_string()));
        add("read", PathBuf::from(format!("/proc/{pid}/root/etc/passwd")));
    }
    add("group", PathBuf::from(neighbour.to_string()));
    add("socket", socket.clone());
    add("setuid", set_uid);
    let shared = SharedMemory::new();
    add("shm", PathBuf::from(shared.key.to_string()));
    if keeps_abstract_sockets() {
        add("abstract", PathBuf::from(&name));
    }
    let config = files.path().join("list");
    std::fs::write(&config, list.join("\n")).unwrap();
    let words = [program.display().to_string(), config.display().to_string()];
    let mut d = runs(&[&words[0], ARG, "all", &words[0], &words[1]]);
    d.run.workdir = Some(files.path().display().to_string());
    let out = run(&mut b, &d);
    let _ = std::fs::remove_file(socket);
    b.runner.stop(neighbour, Span(0), Instant::now());
    b.end(neighbour);
    let open: Vec<&str> = out.lines().filter(|l| !l.starts_with("refused ")).collect();
    assert!(open.is_empty(), "{}", open.join("\n"));
    assert!(out.lines().count() > 120, "all was tried:\n{out}");
    assert!(!files.path().join("core").exists(), "no dump beside the job's files");
}

/// Memory of System V on the node that anybody may use.
pub(crate) struct SharedMemory {
    pub(crate) key: i32,
    id: i32,
}

impl SharedMemory {
    pub(crate) fn new() -> SharedMemory {
        let key = i32::try_from(std::process::id()).unwrap() | 0x4d00_0000;
        #[expect(unsafe_code, reason = "there is no safe interface")]
        // SAFETY: no memory of this process is involved.
        let id = unsafe { libc::shmget(key, 4096, libc::IPC_CREAT | 0o666) };
        assert!(id >= 0);
        SharedMemory { key, id }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "there is no safe interface")]
        // SAFETY: to remove it, nothing is read or written.
        unsafe {
            libc::shmctl(self.id, libc::IPC_RMID, std::ptr::null_mut());
        }
    }
}

pub(crate) fn a_rank_is_nobody_but_its_project() {
    let Some(Site { data: _data, bench: mut b }) = site() else { return };
    let script = "id -u; id -g; id -G; id -un; umask; ulimit -Hc; ulimit -l; echo $HOME $USER
grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status";
    let mut d = detail(script);
    d.account = Some(77);
    let out = run(&mut b, &d);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..3], ["200077", "200077", "200077"], "{out}");
    assert_eq!(lines[3], "default", "{out}");
    assert_eq!(lines[4], "0077", "{out}");
    assert!(matches!(lines[5], "0" | "1"), "no dumps: {out}");
    assert_eq!(lines[7], "/tmp default", "{out}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(out.contains(&format!("{set}:\t0000000000000000\n")), "{set} in {out}");
    }
    assert!(out.contains("NoNewPrivs:\t1\n") && out.contains("Seccomp:\t2"), "{out}");
    d.account = Some(78);
    d.run.env.insert("HOME".into(), "/elsewhere".into());
    let out = run(&mut b, &d);
    assert!(out.starts_with("200078\n") && out.contains("/elsewhere default\n"), "{out}");
}

pub(crate) fn a_rank_can_do_its_work() {
    let Some(Site { data: _data, bench: mut b }) = site() else { return };
    let shared = open_dir();
    std::fs::write(shared.path().join("in"), "data\n").unwrap();
    std::fs::set_permissions(shared.path().join("in"), PermissionsExt::from_mode(0o644)).unwrap();
    let saved = shared.path().join("not/yet/there");
    let script = "set -e
cat data/in; echo saved > $MUSTER_CHECKPOINT_DIR/1; echo out > result
echo a > /tmp/a; echo a > /var/tmp/a; echo a > /dev/shm/a; echo a > /dev/null; mkfifo /tmp/f
echo to stdout >> /dev/stdout; echo to stderr >> /dev/stderr
cat $MUSTER_SECRETS_DIR/token; echo; echo '{\"step\":1}' >> $MUSTER_REPORT
(sleep 0) & wait; kill -0 $$; head -c 4 /dev/urandom | wc -c; ls /run/lock; cat /etc/passwd > /dev/null";
    let mut d = b.detail(script);
    d.secrets.0.insert("token".into(), "hush".into());
    d.volumes = vec![volume(shared.path(), &b.files.path().join("data"))];
    d.checkpoint = Some(checkpoints(&saved));
    d.account = Some(5);
    let k = key();
    b.runner.start(k, &d, Instant::now());
    let end = b.end(k);
    assert_eq!(end, SlotEnd::Ok, "{}{}", b.out(k), b.text(k, 0, Stream::Stderr));
    assert_eq!(b.out(k), "data\nto stdout\nhush\n4\n");
    assert_eq!(b.text(k, 0, Stream::Stderr), "to stderr\n");
    assert_eq!(b.progress_reports.len(), 1, "the report came through");
    for made in [saved.join("1"), saved, b.files.path().join("result")] {
        assert_eq!(std::fs::metadata(&made).unwrap().uid(), 200_005, "{}", made.display());
    }
    assert_eq!(std::fs::metadata(shared.path().join("in")).unwrap().uid(), 0, "is not touched");
    let mode = std::fs::metadata(shared.path().join("not/yet/there")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o700, "checkpoints are their project's alone");
}

pub(crate) fn projects_do_not_read_each_others_files() {
    let Some(Site { data: _data, bench: mut b }) = site() else { return };
    let shared = open_dir();
    let mut d = b.detail("echo mine > result; mkdir dir; echo mine > dir/result");
    d.run.workdir = Some(shared.path().display().to_string());
    run(&mut b, &d);
    d.run.script = Some("cat result dir/result; ls dir".into());
    assert_eq!(run(&mut b, &d), "mine\nmine\nresult\n", "the project itself does");
    d.project = "rival".parse().unwrap();
    d.run.script = Some("cat result dir/result; ls dir; echo x >> result; exit 0".into());
    assert_eq!(run(&mut b, &d), "");
    assert_eq!(std::fs::read_to_string(shared.path().join("result")).unwrap(), "mine\n");
}

pub(crate) fn real_accounts_go_before_the_range() {
    let Some(Site { data: _data, bench: b }) = site() else { return };
    let accounts = isolation::Accounts::default();
    let accounts = accounts.with_file("project default 5001:5002:5003 /srv\nuser ann 6001:6002");
    let runner_tools = RunnerTools { accounts: accounts.unwrap(), ..b.runner_tools.clone() };
    drop(b);
    let mut b = Bench::handy(runner_tools);
    let mut d = detail("echo $(id -u) $(id -g) $(id -G) $HOME");
    assert_eq!(run(&mut b, &d), "5001 5002 5002 5003 /srv\n");
    d.user = "ann".into();
    assert_eq!(run(&mut b, &d), "6001 6002 6002 /tmp\n");
}

pub(crate) fn a_volume_shows_only_what_its_project_may_see() {
    let Some(Site { data, bench: mut b }) = site() else { return };
    // What everybody may read, behind a door that only root opens.
    let guarded = tempfile::tempdir_in("/var/lib").unwrap();
    std::fs::set_permissions(guarded.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let inner = guarded.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("file"), "private\n").unwrap();
    let link = b.files.path().join("link");
    symlink(&inner, &link).unwrap();
    let at = b.files.path().join("at");
    for from in [
        inner.as_path(),
        &link,
        &inner.join("file"),
        &data.path().join("logs"),
        Path::new("/proc"),
        Path::new("/proc/1/root"),
        Path::new("/sys/fs/cgroup"),
        Path::new("/run"),
        Path::new("/dev/shm"),
        Path::new("/tmp"),
        Path::new("/var/tmp"),
    ] {
        let mut d = b.detail("find at; cat at/file at/7/0.out; exit 0");
        d.volumes = vec![volume(from, &at)];
        let (k, end) = end_of(&mut b, &d);
        assert!(
            matches!(end, SlotEnd::Unstartable { .. }),
            "{}: {end:?} {}",
            from.display(),
            b.out(k)
        );
    }
    let mut d = runs(&["cat", &inner.join("file").display().to_string()]);
    d.run.workdir = Some(inner.display().to_string());
    let (_, end) = end_of(&mut b, &d);
    assert!(
        matches!(&end, SlotEnd::Unstartable { reason } if reason.contains("can enter")),
        "{end:?}"
    );
    // Nothing is made for a job where it may make nothing itself.
    let closed = tempfile::tempdir_in("/var/lib").unwrap();
    std::fs::set_permissions(closed.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let link = b.files.path().join("closed");
    symlink(closed.path(), &link).unwrap();
    for made in [closed.path().join("new"), link.join("new"), link.join("a/b")] {
        let mut d = b.detail("true");
        d.checkpoint = Some(checkpoints(&made));
        let (_, end) = end_of(&mut b, &d);
        // Who follows the hint must not be led elsewhere by a link of the job's.
        let hint = if made.starts_with(&link) { "closed` is a link" } else { "chown" };
        assert!(
            matches!(&end, SlotEnd::Unstartable { reason } if reason.contains(hint)),
            "{end:?}"
        );
        let mut d = b.detail("true");
        d.volumes = vec![volume(b.files.path(), &made)];
        let (_, end) = end_of(&mut b, &d);
        assert!(matches!(end, SlotEnd::Unstartable { .. }), "{end:?}");
    }
    assert_eq!(std::fs::read_dir(closed.path()).unwrap().count(), 0);
}

pub(crate) fn a_servers_directory_is_hidden_whatever_its_mode() {
    let Some(Site { data, bench: mut b }) = site() else { return };
    let (data, around) = (data.path(), data.path().parent().unwrap());
    let (link, at) = (b.files.path().join("link"), b.files.path().join("at"));
    symlink(data, &link).unwrap();
    for mode in [0o755, 0o777] {
        // By hand, while everything runs.
        std::fs::set_permissions(data, PermissionsExt::from_mode(mode)).unwrap();
        let below = at.join(data.file_name().unwrap());
        let ways = [data, &link, &below].map(|way| way.display().to_string()).join(" ");
        let mut d = b.detail(&format!(
            "for d in {ways}; do ls -A $d; cat $d/muster.db $d/logs/7/0.out; done; echo over"
        ));
        d.volumes = vec![volume(around, &at)];
        assert_eq!(run(&mut b, &d), "over\n", "mode {mode:o}");
        for way in [data, &link] {
            let (_, end) =
                end_of(&mut b, &runs(&["cat", &way.join("muster.db").display().to_string()]));
            assert!(matches!(end, SlotEnd::Failed { .. }), "mode {mode:o}: {end:?}");
            // An empty directory would look like one whose content is lost.
            for from in [way.to_path_buf(), way.join("logs"), way.join("muster.db")] {
                let mut d = b.detail("true");
                d.run.workdir = Some(from.display().to_string());
                let reason = refusal(&mut b, &d);
                // The link is in what each slot has of its own.
                let said = if way == data { "server's own directory" } else { "workdir" };
                assert!(reason.contains(said), "{}: {reason}", from.display());
                let mut d = b.detail("true");
                d.volumes = vec![volume(&from, &at)];
                let reason = refusal(&mut b, &d);
                assert!(reason.contains("server's own directory"), "{}: {reason}", from.display());
            }
            let mut d = b.detail("true");
            d.checkpoint = Some(checkpoints(&way.join("saved")));
            refusal(&mut b, &d);
        }
    }
    assert!(!data.join("saved").exists(), "nothing was made there");
}

/// What is in there depends on who looks: the agent's supervisor has more open than a job may see.
pub(crate) fn a_volume_never_comes_through_proc() {
    let Some(Site { data: _data, bench: mut b }) = site() else { return };
    let at = b.files.path().join("at");
    let mut ways: Vec<PathBuf> = ["/", "/dev"].map(PathBuf::from).into();
    for (i, to) in [
        "/proc/self/root",
        "/proc/self/root/etc",
        "/proc/thread-self/cwd",
        "/proc/self/ns/mnt",
        "/proc/self/fd/5",
        "/proc/self/fd",
        "/",
    ]
    .into_iter()
    .enumerate()
    {
        let link = b.files.path().join(format!("way-{i}"));
        symlink(to, &link).unwrap();
        ways.extend([PathBuf::from(to), link]);
    }
    for from in ways {
        let mut d = b.detail("find at -maxdepth 1; exit 0");
        d.volumes = vec![volume(&from, &at)];
        let reason = refusal(&mut b, &d);
        // A number that nothing is open under is not there at all, and a link may not be read.
        let reasons = ["is the node's alone", "is the whole node", "does not exist", "may not go"];
        assert!(reasons.iter().any(|t| reason.contains(t)), "{}: {reason}", from.display());
    }
}

fn refusal(b: &mut Bench, d: &RunDetail) -> String {
    match end_of(b, d) {
        (_, SlotEnd::Unstartable { reason }) => reason,
        (_, end) => panic!("{end:?}"),
    }
}

pub(crate) fn a_volume_leaves_nothing_on_the_node() {
    let Some(Site { data, bench: mut b }) = site() else { return };
    let shared = open_dir();
    std::fs::write(shared.path().join("in"), "data\n").unwrap();
    std::fs::set_permissions(shared.path().join("in"), PermissionsExt::from_mode(0o644)).unwrap();
    // What is there already stays in sight beside it.
    let there = tempfile::tempdir_in("/srv").unwrap();
    std::fs::set_permissions(there.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(there.path().join("file"), "there\n").unwrap();
    let name = format!("muster-volume-{}", std::process::id());
    let [one, two] = ["/srv", "/mnt"].map(|dir| Path::new(dir).join(&name));
    let script = format!(
        "set -e; cat {}/in {}/deep/in {}/also/in {}/file; echo out > {}/out",
        one.display(),
        two.display(),
        two.display(),
        there.path().display(),
        one.display()
    );
    let mut d = detail(&script);
    // Two of them share a directory that is missing.
    let shared_at = |at: &Path| volume(shared.path(), at);
    d.volumes = vec![shared_at(&one), shared_at(&two.join("deep")), shared_at(&two.join("also"))];
    assert_eq!(run(&mut b, &d), "data\ndata\ndata\nthere\n");
    assert_eq!(std::fs::read_to_string(shared.path().join("out")).unwrap(), "out\n");
    let root = Path::new("/").join(&name);
    d = detail("true");
    d.volumes = vec![volume(shared.path(), &root)];
    let said = refusal(&mut b, &d);
    assert!(said.contains("it does not exist") && said.contains("choose a place"), "{said}");
    for left in [one, two, root] {
        assert!(!left.exists(), "{} is left on the node", left.display());
    }
    let link = b.files.path().join("link");
    symlink("/etc", &link).unwrap();
    for (at, why) in [
        (PathBuf::from("/"), "the whole node"),
        (PathBuf::from("/run/data"), "the node's own"),
        (PathBuf::from("/proc"), "the node's own"),
        (PathBuf::from("/sys/data"), "the node's own"),
        (PathBuf::from("/dev/data"), "the node's own"),
        (PathBuf::from("/etc"), "the node's own"),
        (link.join("data"), "the node's own"),
        (data.path().join("logs"), "own directory"),
        (b.dir.path().join("new"), "own directory"),
    ] {
        d.volumes = vec![volume(shared.path(), &at)];
        let said = refusal(&mut b, &d);
        assert!(said.contains(why), "{}: {said}", at.display());
    }
}

/// What a volume brings along is seen only once it is bound.
pub(crate) fn a_volume_in_a_volume_leads_nowhere_else() {
    let Some(Site { data: _data, bench: mut b }) = site() else { return };
    let (outer, inner) = (open_dir(), open_dir());
    std::fs::create_dir(outer.path().join("dir")).unwrap();
    std::fs::write(inner.path().join("passwd"), "the job's own\n").unwrap();
    std::fs::set_permissions(inner.path().join("passwd"), PermissionsExt::from_mode(0o644))
        .unwrap();
    let at = PathBuf::from(format!("/mnt/muster-nested-{}", std::process::id()));
    let mut d = b.detail(&format!("cat {}/dir/passwd", at.display()));
    let (third, inner) = (volume(b.files.path(), &at.join("dir/third")), inner.path());
    d.volumes = vec![volume(outer.path(), &at), volume(inner, &at.join("dir"))];
    assert_eq!(run(&mut b, &d), "the job's own\n");
    for node in ["/proc", "/etc"] {
        let link = outer.path().join("b");
        symlink(node, &link).unwrap();
        d.volumes = vec![volume(outer.path(), &at), volume(inner, &at.join("b")), third.clone()];
        let said = refusal(&mut b, &d);
        assert!(said.contains(&format!("what is in {node} is the node's own")), "{said}");
        std::fs::remove_file(link).unwrap();
    }
}

/// Something mounted on the node for as long as the test runs.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

pub(crate) fn a_read_only_volume_is_so_with_all_that_is_mounted_in_it() {
    let Some(Site { data: _data, bench: mut b }) = site() else { return };
    let outer = open_dir();
    let below = outer.path().join("be low");
    std::fs::create_dir(&below).unwrap();
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "mode=0777,size=64k,nosuid,nodev,noexec", "tmpfs"]);
    muster_testkit::succeeds(mount.arg(&below));
    let _mounted = Mounted(below);
    let at = b.files.path().join("at");
    let mut d = b.detail(
        "touch at/new 'at/be low/new' 2>/dev/null; ls at/new 'at/be low'
grep -F '/at/be\\040low' /proc/self/mountinfo | cut -d ' ' -f 6",
    );
    d.volumes = vec![Volume { read_only: true, ..volume(outer.path(), &at) }];
    let out = run(&mut b, &d);
    let flags = out.lines().last().unwrap();
    assert!(flags.starts_with("ro,nosuid,nodev,noexec"), "{out}");
    assert!(!out.contains("new"), "{out}");
}

pub(crate) fn checkpoints_that_cannot_be_written_are_reported_at_the_start() {
    let Some(Site { data: _data, bench: mut b }) = site() else { return };
    let closed = tempfile::tempdir_in("/var/lib").unwrap();
    std::fs::set_permissions(closed.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut d = b.detail("touch started");
    d.account = Some(5);
    d.checkpoint = Some(checkpoints(closed.path()));
    let said = refusal(&mut b, &d);
    let dir = closed.path().display().to_string();
    for part in ["user 200005", &format!("chown 200005:200005 {dir}"), "Permission denied"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    // In a volume that cannot be written it is no better.
    let at = b.files.path().join("at");
    d.volumes = vec![Volume { read_only: true, ..volume(b.files.path(), &at) }];
    d.checkpoint = Some(checkpoints(&at));
    let said = refusal(&mut b, &d);
    assert!(said.contains("Read-only"), "{said}");
    assert!(!b.files.path().join("started").exists(), "no rank ran");
    std::os::unix::fs::chown(closed.path(), Some(200_005), Some(200_005)).unwrap();
    d.volumes.clear();
    d.checkpoint = Some(checkpoints(closed.path()));
    run(&mut b, &d);
}

pub(crate) fn a_link_that_changes_leads_nowhere() {
    let Some(Site { data, bench: mut b }) = site() else { return };
    let (guarded, open) = (tempfile::tempdir_in("/var/lib").unwrap(), open_dir());
    std::fs::set_permissions(guarded.path(), PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::create_dir(guarded.path().join("dir")).unwrap();
    std::fs::write(guarded.path().join("dir/file"), "private\n").unwrap();
    std::fs::create_dir(open.path().join("dir")).unwrap();
    let mode = PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(open.path().join("dir"), mode).unwrap();
    std::fs::write(open.path().join("dir/file"), "open\n").unwrap();
    let turned = AtomicBool::new(true);
    let (files, at) = (b.files.clone(), b.files.path().join("at"));
    // From the beginning: where there is none, the agent makes a directory of this name.
    symlink(open.path(), files.path().join("link")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (new, link) = (files.path().join("new"), files.path().join("link"));
            let targets = [open.path(), guarded.path(), data.path()];
            // Bounded, so that a test that fails ends.
            for to in targets.iter().cycle().take(1_000_000) {
                if !turned.load(Ordering::Relaxed) {
                    break;
                }
                symlink(to, &new).unwrap();
                std::fs::rename(&new, &link).unwrap();
            }
        });
        for _ in 0..12 {
            let mut d = b.detail("cat at/file; cat $MUSTER_CHECKPOINT_DIR/../file; exit 0");
            d.volumes = vec![volume(&files.path().join("link/dir"), &at)];
            d.checkpoint = Some(checkpoints(&files.path().join("link/dir/saved")));
            let (k, end) = end_of(&mut b, &d);
            let out = b.out(k);
            let refused = matches!(end, SlotEnd::Unstartable { .. });
            if end != SlotEnd::Ok && !refused || out.contains("private") {
                turned.store(false, Ordering::Relaxed);
                panic!("{end:?}: {out}");
            }
        }
        turned.store(false, Ordering::Relaxed);
    });
    assert!(!guarded.path().join("dir/saved").exists(), "nothing is made there");
}

pub(crate) fn abstract_sockets_are_kept_to_the_slot() {
    let Some(Site { data: _data, bench: mut b }) = site() else { return };
    if !keeps_abstract_sockets() {
        return;
    }
    let files = open_dir();
    let program = program(files.path()).display().to_string();
    let name = format!("muster-kept-{}", std::process::id());
    let _listening = listen(&name);
    let out = run(&mut b, &runs(&[&program, ARG, "connect", &name]));
    assert!(out.starts_with("not connected: Operation not permitted"), "{out}");
}

/// Where isolation is not required, ranks run without it on machines that have none; a job that
/// breaks it is not such a machine.
pub(crate) fn a_job_cannot_spoil_its_own_isolation() {
    let Some(Site { data: _data, bench }) = site() else { return };
    drop(bench);
    let mut b = Bench::handy(RunnerTools::default());
    let mut d = b.detail("id -u");
    d.secrets.0.insert("large".into(), "x".repeat(9 << 20));
    let (k, end) = end_of(&mut b, &d);
    assert!(matches!(&end, SlotEnd::Unstartable { reason } if reason.contains("8 MiB")), "{end:?}");
    assert_eq!((b.out(k), b.recorded(k, "open")), (String::new(), None));
}
