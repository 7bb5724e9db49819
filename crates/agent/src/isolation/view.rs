//! What the ranks see of the file system.

use super::{Inside, Refusal, SCRATCH, dev, sys};
use crate::run_dir::write_private;
use crate::shim::Order;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Private directories and what they are called in the scratch space.
const PRIVATE: [(&str, &str); 2] = [("/tmp", "tmp"), ("/var/tmp", "var-tmp")];
/// Writing here reaches the whole node.
const READ_ONLY: [&str; 5] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/driver"];

/// Something of the node that is shown again at a place that is otherwise private. Held open,
/// because its path is about to be covered.
struct Shown {
    from: File,
    at: PathBuf,
}

impl Shown {
    fn open(from: &Path, at: PathBuf) -> io::Result<Shown> {
        let from = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(from)?;
        Ok(Shown { from, at })
    }

    fn show(&self, read_only: bool) -> io::Result<()> {
        let from = PathBuf::from(format!("/proc/self/fd/{}", self.from.as_raw_fd()));
        place(&self.at, self.from.metadata()?.is_dir())?;
        bind(&from, &self.at, read_only)
    }
}

/// Makes a place to mount something at, when there is none.
fn place(at: &Path, directory: bool) -> io::Result<()> {
    if at.exists() {
        return Ok(());
    }
    if directory {
        return fs::create_dir_all(at);
    }
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(at, "")
}

fn bind(from: &Path, at: &Path, read_only: bool) -> io::Result<()> {
    sys::mount(Some(from), at, None, libc::MS_BIND | libc::MS_REC, None)?;
    if read_only {
        let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
        sys::mount(None, at, None, flags, None)?;
    }
    Ok(())
}

/// Paths that a job names, as far as they are paths.
pub(crate) fn named<'a>(words: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = words.map(PathBuf::from).filter(|p| p.is_absolute()).collect();
    all.sort();
    all.dedup();
    all
}

/// Makes a mount namespace and everything in it. Runs in the namespaces' init.
pub(super) fn build(order: &Order, inside: &Inside) -> Result<(), Refusal> {
    let node = |what: &'static str| move |e: io::Error| Refusal::node(what, &e);
    sys::unshare(libc::CLONE_NEWNS).map_err(node("cannot make a mount namespace"))?;
    let alone = libc::MS_REC | libc::MS_PRIVATE;
    sys::mount(None, Path::new("/"), None, alone, None).map_err(node("cannot keep mounts"))?;
    // What is to be seen is held before its place is covered. The agent's directory is covered
    // first of all, so that nobody gets at it by naming it, or something around it.
    let own = own_files(order).map_err(node("cannot open the attempt's files"))?;
    let private = private(order).map_err(node("cannot make private directories"))?;
    hide(inside).map_err(node("cannot hide the agent's directory"))?;
    let shown = shown(order, inside)?;
    let volumes = volumes(order)?;
    dev::build(inside, &inside.hidden.join("dev")).map_err(node("cannot make /dev"))?;
    for p in &private {
        p.show(false).map_err(node("cannot cover what is shared"))?;
    }
    for s in &shown {
        s.show(false).map_err(|e| {
            Refusal::Job(format!("`{}` cannot be shown to the ranks: {e}", s.at.display()))
        })?;
    }
    proc_and_sys().map_err(node("cannot mount /proc"))?;
    for (v, s) in order.volumes.iter().zip(&volumes) {
        s.show(v.read_only).map_err(|e| {
            Refusal::Job(format!("cannot bind volume `{}` at `{}`: {e}", v.from, v.at))
        })?;
    }
    for s in &own {
        s.show(false).map_err(node("cannot hand over the attempt's files"))?;
    }
    secrets(order).map_err(node("cannot hand over secrets"))?;
    match &order.workdir {
        Some(dir) if !Path::new(dir).is_dir() => Err(Refusal::Job(format!(
            "workdir `{dir}` is not a directory on this node: create it, or bind it with `volumes`"
        ))),
        _ => Ok(()),
    }
}

/// Whether a path is about to be covered.
fn covered(path: &Path) -> bool {
    let mut places = PRIVATE.iter().map(|(p, _)| Path::new(*p)).chain([Path::new("/dev/shm")]);
    places.any(|p| path.starts_with(p))
}

fn shown(order: &Order, inside: &Inside) -> Result<Vec<Shown>, Refusal> {
    // What a volume is mounted at comes from the volume.
    let from_volume = |p: &Path| order.volumes.iter().any(|v| p.starts_with(&v.at));
    if let Some(dir) = inside.lasting.as_ref().filter(|d| d.starts_with(&inside.hidden)) {
        return Err(Refusal::Job(format!(
            "`{}` is in the agent's own directory: put checkpoints elsewhere",
            dir.display()
        )));
    }
    if let Some(dir) = inside.lasting.as_ref().filter(|d| covered(d) && !from_volume(d)) {
        fs::create_dir_all(dir)
            .map_err(|e| Refusal::Job(format!("cannot make `{}`: {e}", dir.display())))?;
    }
    let mut shown = Vec::new();
    for path in inside.named.iter().chain(&inside.lasting) {
        // The way there may be a link; what it leads to is what would be covered. What does not
        // exist is told where it is used.
        let Ok(real) = path.canonicalize() else { continue };
        if covered(&real) && !from_volume(path) {
            let open = Shown::open(&real, real.clone());
            shown.push(open.map_err(|e| Refusal::node("cannot open a path of the job", &e))?);
        }
    }
    // What is above comes first, so that it does not cover what is below.
    shown.sort_by(|a, b| a.at.cmp(&b.at));
    shown.dedup_by(|a, b| a.at == b.at);
    Ok(shown)
}

fn volumes(order: &Order) -> Result<Vec<Shown>, Refusal> {
    let open = |v: &muster_model::spec::Volume| {
        let bad = |e: &io::Error| {
            Refusal::Job(format!("cannot bind volume `{}` at `{}`: {e}", v.from, v.at))
        };
        if !Path::new(&v.at).is_absolute() {
            return Err(bad(&io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path must start with /",
            )));
        }
        Shown::open(Path::new(&v.from), PathBuf::from(&v.at)).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Refusal::Job(format!(
                "volume `{}` does not exist on this node: create it, or mend `from`",
                v.from
            )),
            _ => bad(&e),
        })
    };
    order.volumes.iter().map(open).collect()
}

/// What the ranks use of the attempt's directory; the rest is between agent and supervisor.
fn own_files(order: &Order) -> io::Result<Vec<Shown>> {
    let reports = order.ranks.iter().map(|r| format!("{}.report", r.rank));
    let mut own = Vec::new();
    for name in reports.chain(["script".to_owned()]) {
        let path = order.dir.join(name);
        match Shown::open(&path, path.clone()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            open => own.push(open?),
        }
    }
    Ok(own)
}

/// Directories of the slot's own for what everybody shares.
fn private(order: &Order) -> io::Result<Vec<Shown>> {
    let scratch = order.dir.join(SCRATCH);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&scratch)?;
    let mut private = Vec::new();
    for (at, name) in PRIVATE.iter().filter(|(at, _)| Path::new(at).is_dir()) {
        let dir = scratch.join(name);
        if !dir.is_dir() {
            fs::create_dir(&dir)?;
            fs::set_permissions(&dir, Permissions::from_mode(0o1777))?;
        }
        private.push(Shown::open(&dir, PathBuf::from(at))?);
    }
    Ok(private)
}

fn hide(inside: &Inside) -> io::Result<()> {
    let (kind, options) = (Some("tmpfs"), Some("mode=0755,size=1m"));
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    sys::mount(Some(Path::new("tmpfs")), &inside.hidden, kind, flags, options)
}

/// Processes of the slot alone, and no way to turn the node's knobs.
fn proc_and_sys() -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let proc = Path::new("/proc");
    sys::mount(Some(proc), proc, Some("proc"), flags, None)?;
    for path in READ_ONLY.iter().map(Path::new).filter(|p| p.exists()) {
        bind(path, path, true)?;
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    for (point, flags) in below("/sys", &mounts) {
        let flags = flags | libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
        sys::mount(None, Path::new(&point), None, flags, None)?;
    }
    Ok(())
}

/// Mounts at and below a directory, with the flags to keep.
fn below<'a>(dir: &'a str, mountinfo: &'a str) -> impl Iterator<Item = (String, u64)> + 'a {
    mountinfo.lines().filter_map(move |line| {
        let mut fields = line.split(' ').skip(4);
        let (point, options) = (fields.next()?, fields.next()?);
        let here = point == dir || point.strip_prefix(dir)?.starts_with('/');
        let flags = options.split(',').map(|o| match o {
            "nosuid" => libc::MS_NOSUID,
            "nodev" => libc::MS_NODEV,
            "noexec" => libc::MS_NOEXEC,
            _ => 0,
        });
        here.then(|| (point.to_owned(), flags.fold(0, |a, b| a | b)))
    })
}

fn secrets(order: &Order) -> io::Result<()> {
    if order.secrets.is_empty() {
        return Ok(());
    }
    let dir = &order.secrets_dir;
    if !dir.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let (kind, options) = (Some("tmpfs"), Some("size=8m,mode=0700"));
    sys::mount(Some(Path::new("tmpfs")), dir, kind, flags, options)?;
    for (name, value) in crate::shim::secret_files(order) {
        write_private(&dir.join(name), value.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_directory_keep_their_flags() {
        let info = "22 27 0:21 / /proc rw - proc proc rw\n\
                    23 27 0:22 / /sys rw,nosuid,noexec - sysfs sysfs rw\n\
                    31 23 0:28 / /sys/fs/cgroup rw,nodev shared:3 - tmpfs tmpfs rw\n\
                    32 27 0:29 / /system rw - ext4 /dev/vda rw\n";
        let found: Vec<_> = below("/sys", info).collect();
        let flags = [libc::MS_NOSUID | libc::MS_NOEXEC, libc::MS_NODEV];
        assert_eq!(found, [("/sys".into(), flags[0]), ("/sys/fs/cgroup".into(), flags[1])]);
    }

    #[test]
    fn only_absolute_paths_are_named() {
        let found = named(["/tmp/a", "python3", "/data", "/tmp/a"].into_iter());
        assert_eq!(found, [PathBuf::from("/data"), PathBuf::from("/tmp/a")]);
    }
}
