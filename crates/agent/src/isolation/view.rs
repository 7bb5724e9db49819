//! What the ranks see of the file system.

use super::account::Account;
use super::mounted::{self, ExistingMounts};
use super::own::{OWN, moved_to};
use super::place::{self, MountPoints, PRIVATE, private_places, replaced};
use super::source::{SourceError, open_source};
use super::{
    IsolationView, Refusal, SCRATCH, SlotPlan, as_account, checkpoint_dir, dev, groups, passwd,
    run, sys,
};
use crate::secrets;
use muster_link::private::write as write_private;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Writing here reaches the whole node.
const READ_ONLY: [&str; 5] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/driver"];

/// Said of a path that led elsewhere a moment ago.
const CHANGED: &str = "a link on the way there changed meanwhile";

/// Something of the node that is shown again at a place that is otherwise private. Held open,
/// because its path is about to be covered.
struct ExposedPath {
    from: File,
    at: PathBuf,
}

impl ExposedPath {
    fn open(from: &Path, at: PathBuf) -> io::Result<ExposedPath> {
        Ok(ExposedPath { from: place::open(from)?.0, at })
    }

    /// Shows it at its place, which is made when it is missing. Looked up with the job's rights,
    /// once: what was mounted before may hold links, which lead anywhere and change.
    fn show(
        &self,
        places: &mut MountPoints,
        read_only: bool,
        who: &Account,
        refused: impl FnOnce(&Path) -> Option<String>,
    ) -> io::Result<()> {
        places.make(&self.at, self.from.metadata()?.is_dir(), Some(who))?;
        let (place, real) = as_account(who, || place::open(&self.at))??;
        if let Some(why) = refused(&real) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let before = read_only.then(ExistingMounts::now).transpose()?;
        self.bind(&place::descriptor(&place))?;
        before.as_ref().map_or(Ok(()), ExistingMounts::make_later_read_only)
    }

    fn bind(&self, at: &Path) -> io::Result<()> {
        let flags = libc::MS_BIND | libc::MS_REC;
        sys::mount(Some(&place::descriptor(&self.from)), at, None, flags, None)
    }
}

/// Paths that a job names, as far as they are paths.
pub(crate) fn named<'a>(words: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = words.map(PathBuf::from).filter(|p| p.is_absolute()).collect();
    all.sort();
    all.dedup();
    all
}

/// Makes a mount namespace and everything in it. Runs in the namespaces' init. What is root's to
/// write is written before anything of the job's is mounted: a link in there must not lead it
/// elsewhere.
pub(super) fn build(plan: &SlotPlan<'_>, inside: &IsolationView) -> Result<(), Refusal> {
    let node = |what: &'static str| move |e: io::Error| Refusal::node(what, &e);
    let who = &inside.account;
    // What is made here is for the ranks to pass through, whatever the agent was started with.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    sys::unshare(libc::CLONE_NEWNS).map_err(node("cannot make a mount namespace"))?;
    let alone = libc::MS_REC | libc::MS_PRIVATE;
    sys::mount(None, Path::new("/"), None, alone, None).map_err(node("cannot keep mounts"))?;
    // What is to be seen is held before its place is covered. The agent's directory is covered
    // first of all, so that nobody gets at it by naming it, or something around it.
    let own = own_files(plan).map_err(node("cannot open the attempt's files"))?;
    let private = private(plan).map_err(node("cannot make private directories"))?;
    let people = passwd::write(plan.dir, who).map_err(node("cannot name the user"))?;
    hide(inside).map_err(node("cannot hide the agent's directory"))?;
    let look_up = || -> Result<_, Refusal> { Ok((shown(plan, inside)?, volumes(plan, inside)?)) };
    let (shown, volumes) =
        as_account(who, look_up).map_err(node("cannot act as another user"))??;
    run::RetainedRunFiles::open().build().map_err(node("cannot make /run"))?;
    dev::build(inside, &Path::new(OWN).join("dev")).map_err(node("cannot make /dev"))?;
    for p in &private {
        p.bind(&p.at).map_err(node("cannot cover what is shared"))?;
    }
    for s in &own {
        fs::write(&s.at, "")
            .and_then(|()| s.bind(&s.at))
            .map_err(node("cannot hand over the attempt's files"))?;
    }
    write_secrets(plan, who).map_err(|e| match e.kind() {
        io::ErrorKind::StorageFull => Refusal::Job("its secrets are larger than 8 MiB".into()),
        _ => Refusal::node("cannot hand over secrets", &e),
    })?;
    for p in people {
        p.show().map_err(node("cannot name the user"))?;
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(node("cannot read mounts"))?;
    groups::show_own(plan.group, &mounts).map_err(node("cannot hide control groups"))?;
    // CUDA does not start where it cannot write the names of its threads.
    let read_only = inside.gpus.is_none() && !super::keeps_oom_score();
    proc_and_sys(read_only).map_err(node("cannot mount /proc"))?;
    let mut places = MountPoints::default();
    for s in &shown {
        let changed = |real: &Path| (real != s.at).then(|| CHANGED.to_owned());
        s.show(&mut places, false, who, changed).map_err(|e| {
            Refusal::Job(format!("`{}` cannot be shown to the ranks: {e}", s.at.display()))
        })?;
    }
    for (v, s) in plan.volumes.iter().zip(&volumes) {
        let refused = |real: &Path| place::refused_at(real, &inside.hidden);
        s.show(&mut places, v.read_only, who, refused).map_err(|e| {
            Refusal::Job(format!("cannot bind volume `{}` at `{}`: {e}", v.from, v.at))
        })?;
    }
    // Others were looked at before their places were covered.
    if let Some(dir) = inside.lasting.as_ref().filter(|d| in_volume(plan, d)) {
        let ready = as_account(who, || checkpoint_dir::ready(dir)).and_then(|ready| ready);
        ready.map_err(|e| checkpoint_dir::refusal(dir, Some(who), &e))?;
    }
    let enters = |dir: &str| as_account(who, || Path::new(dir).is_dir()).unwrap_or(false);
    let hides = |dir: &str| {
        let real = as_account(who, || place::leads_to(Path::new(dir)));
        real.ok().and_then(|real| place::hidden_source(&real, &inside.hidden))
    };
    match plan.workdir.map(|dir| (dir, hides(dir))) {
        Some((dir, Some(why))) => {
            Err(Refusal::Job(format!("workdir `{dir}` cannot be entered: {why}")))
        }
        Some((dir, None)) if !enters(dir) => Err(Refusal::Job(format!(
            "workdir `{dir}` is not a directory on this node that {} can enter: create it, let \
             that user in, or bind it with `volumes`",
            who.describe_account()
        ))),
        _ => Ok(()),
    }
}

/// Whether a path is about to be covered.
fn covered(path: &Path) -> bool {
    private_places().any(|p| path.starts_with(p))
}

/// What a volume is mounted at comes from the volume.
fn in_volume(plan: &SlotPlan<'_>, path: &Path) -> bool {
    plan.volumes.iter().any(|v| path.starts_with(&v.at))
}

fn shown(plan: &SlotPlan<'_>, inside: &IsolationView) -> Result<Vec<ExposedPath>, Refusal> {
    if let Some(dir) = inside.lasting.as_ref().filter(|d| !in_volume(plan, d)) {
        make_lasting(dir, inside)?;
    }
    let mut shown = Vec::new();
    for path in inside.named.iter().chain(&inside.lasting) {
        // The way there may be a link; what it leads to is what would be covered. What does not
        // exist is reported where it is used.
        let Ok(real) = path.canonicalize() else { continue };
        // Whoever names the whole of it means the slot's own.
        if covered(&real) && replaced(&real).is_none() && !in_volume(plan, path) {
            let gone = |why: &dyn std::fmt::Display| {
                Refusal::Job(format!("`{}` cannot be opened: {why}", path.display()))
            };
            let (from, found) = place::open(&real).map_err(|e| gone(&e))?;
            if found != real {
                return Err(gone(&CHANGED));
            }
            shown.push(ExposedPath { from, at: real });
        }
    }
    // What is above comes first, so that it does not cover what is below.
    shown.sort_by(|a, b| a.at.cmp(&b.at));
    shown.dedup_by(|a, b| a.at == b.at);
    Ok(shown)
}

/// Makes the directory for checkpoints when it is missing, and looks at it. Called as the account.
fn make_lasting(dir: &Path, inside: &IsolationView) -> Result<(), Refusal> {
    let real = place::leads_to(dir);
    let within = |d: &Path| dir.starts_with(d) || real.starts_with(d);
    if inside.hidden.iter().any(|d| within(d)) {
        let dir = dir.display();
        return Err(Refusal::Job(format!(
            "`{dir}` is in the agent's own directory: put checkpoints elsewhere"
        )));
    }
    checkpoint_dir::allowed(dir)?;
    let ready = checkpoint_dir::ready(dir);
    ready.map_err(|e| checkpoint_dir::refusal(dir, Some(&inside.account), &e))?;
    // A link on the way there may have changed meanwhile.
    checkpoint_dir::allowed(dir)
}

fn volumes(plan: &SlotPlan<'_>, inside: &IsolationView) -> Result<Vec<ExposedPath>, Refusal> {
    let open = |v: &muster_model::spec::Volume| {
        let bad = |why: &dyn std::fmt::Display| {
            Refusal::Job(format!("cannot bind volume `{}` at `{}`: {why}", v.from, v.at))
        };
        if let Some(why) = place::refused(Path::new(&v.at), &inside.hidden) {
            return Err(bad(&why));
        }
        let hidden = |real: &Path| match place::hidden_source(real, &inside.hidden) {
            Some(why) => Err(bad(&why)),
            None => Ok(()),
        };
        // Where it is by now, whatever links led there.
        let (from, real) = match open_source(Path::new(&v.from)) {
            Ok(opened) => opened,
            Err(e) => {
                // What is in a directory that is covered by now is not missing.
                if matches!(e, SourceError::Io(_)) {
                    hidden(&place::leads_to(Path::new(&v.from)))?;
                }
                return Err(e.refusal(v, Some(&inside.account)));
            }
        };
        hidden(&real)?;
        if let Some(why) = replaced(&real) {
            return Err(bad(&format!("{why}: name a directory in it")));
        }
        Ok(ExposedPath { from, at: PathBuf::from(&v.at) })
    };
    plan.volumes.iter().map(open).collect()
}

/// What the ranks use of the attempt's directory; the rest is between agent and supervisor.
fn own_files(plan: &SlotPlan<'_>) -> io::Result<Vec<ExposedPath>> {
    let reports = plan.ranks.iter().map(|r| format!("{r}.report"));
    let mut own = Vec::new();
    for name in reports.chain(["script".to_owned()]) {
        let path = plan.dir.join(&name);
        match ExposedPath::open(&path, Path::new(OWN).join(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            open => own.push(open?),
        }
    }
    Ok(own)
}

/// Directories of the slot's own for what everybody shares.
fn private(plan: &SlotPlan<'_>) -> io::Result<Vec<ExposedPath>> {
    let scratch = plan.dir.join(SCRATCH);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&scratch)?;
    let mut private = Vec::new();
    for (at, name) in PRIVATE.iter().filter(|(at, _)| Path::new(at).is_dir()) {
        let dir = scratch.join(name);
        if !dir.is_dir() {
            fs::create_dir(&dir)?;
            fs::set_permissions(&dir, Permissions::from_mode(0o1777))?;
        }
        private.push(ExposedPath::open(&dir, PathBuf::from(at))?);
    }
    Ok(private)
}

fn hide(inside: &IsolationView) -> io::Result<()> {
    let (kind, options) = (Some("tmpfs"), Some("mode=0755,size=4k"));
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_RDONLY;
    for dir in &inside.hidden {
        sys::mount(Some(Path::new("tmpfs")), dir, kind, flags, options)?;
    }
    Ok(())
}

/// Processes of the slot alone, and no way to turn the node's knobs. All of `/proc` is read-only where
/// the kernel would let a rank lower its `oom_score_adj`, and be ended after the agent: each process has
/// a file for it.
fn proc_and_sys(read_only: bool) -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let proc = Path::new("/proc");
    let mut before = ExistingMounts::now()?;
    sys::mount(Some(proc), proc, Some("proc"), flags, None)?;
    if !read_only {
        before = ExistingMounts::now()?;
    }
    for path in READ_ONLY.iter().map(Path::new).filter(|p| p.exists()) {
        sys::mount(Some(path), path, None, libc::MS_BIND | libc::MS_REC, None)?;
    }
    before.make_later_read_only()?;
    mounted::make_read_only(Path::new("/sys"))
}

fn write_secrets(plan: &SlotPlan<'_>, who: &Account) -> io::Result<()> {
    if plan.secrets.is_empty() {
        return Ok(());
    }
    let own = Path::new(OWN);
    let dir = moved_to(own, plan.dir, plan.secrets_dir).unwrap_or_else(|| own.join("secrets"));
    fs::create_dir_all(&dir)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let options = format!("size=8m,mode=0700,uid={},gid={}", who.uid, who.gid);
    sys::mount(Some(Path::new("tmpfs")), &dir, Some("tmpfs"), flags, Some(&options))?;
    for (name, value) in secrets::files(plan.secrets) {
        let path = dir.join(name);
        write_private(&path, value.as_bytes())?;
        std::os::unix::fs::chown(&path, Some(who.uid), Some(who.gid))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_are_named() {
        let found = named(["/tmp/a", "python3", "/data", "/tmp/a"].into_iter());
        assert_eq!(found, [PathBuf::from("/data"), PathBuf::from("/tmp/a")]);
    }
}
