//! Volumes, and secrets that never touch a disk, where the ranks cannot be isolated.

use super::Order;
use crate::container;
use crate::isolation::mounted::ExistingMounts;
use crate::isolation::place::{self, MountPoints};
use crate::isolation::source::open_source;
use crate::isolation::{
    Account, IsolationView, Refusal, as_account, checkpoint_dir, slot_dir, sys,
};
use crate::run_dir::write_private;
use crate::secrets;
use muster_model::spec::Volume;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes a private mount namespace when there is anything to mount, and mounts it. The
/// supervisor lives in it together with its ranks, so it goes away with the last of them.
pub(super) fn prepare(order: &Order) -> Result<(), Refusal> {
    if let Some(container) = &order.container {
        let who = order.contained_as.as_ref();
        container::check_volumes(&order.volumes, who, &container.hidden)?;
        container::check_image(container)?;
        // What is in a volume has another name out here.
        let in_volume = |d: &&Path| order.volumes.iter().any(|v| d.starts_with(&v.at));
        if let Some(dir) = checkpoints(order).filter(|d| !in_volume(d)) {
            as_whom(who, || checkpoint_dir::allowed(dir))?;
            checkpoints_ready(dir, who)?;
            container::check_checkpoints(dir, who, &container.hidden)?;
        }
        // The runtime binds the volumes, and must see the same mounts as its later calls.
        return hand_over_secrets(order, false);
    }
    if !(order.volumes.is_empty() && order.secrets.is_empty()) {
        mount(order)?;
    }
    checkpoints(order).map_or(Ok(()), |dir| checkpoints_ready(dir, None))
}

/// The same for ranks whose account alone separates them: nothing can be mounted, and what they
/// name is looked up as that account.
pub(super) fn prepare_for(
    order: &Order,
    dir: &Path,
    inside: &IsolationView,
) -> Result<(), Refusal> {
    let who = &inside.account;
    if let Some(v) = order.volumes.first() {
        return Err(Refusal::Node(format!(
            "this node cannot bind volume `{}`: the kernel makes no namespaces for the agent",
            v.from
        )));
    }
    let acts = |e: io::Error| Refusal::node("cannot act as another user", &e);
    if let Some(seen) = slot_dir::seen(&inside.hidden, who).map_err(acts)? {
        let (seen, who) = (seen.display(), who.describe_account());
        return Err(Refusal::Node(format!(
            "`{seen}` is to be hidden, which this node cannot do, and lets {who} in: `chmod 700 \
             {seen}`"
        )));
    }
    slot_dir::hand_over(dir, &order.secrets_dir, &order.secrets, who)?;
    checkpoints(order).map_or(Ok(()), |dir| checkpoints_ready(dir, Some(who)))?;
    let enters = |dir: &str| as_account(who, || Path::new(dir).is_dir()).unwrap_or(false);
    match &order.workdir {
        Some(dir) if !enters(dir) => Err(Refusal::Job(format!(
            "workdir `{dir}` is not a directory on this node that {} can enter: create it, or let \
             that user in",
            who.describe_account()
        ))),
        _ => Ok(()),
    }
}

fn checkpoints(order: &Order) -> Option<&Path> {
    order.env.get("MUSTER_CHECKPOINT_DIR").map(Path::new).filter(|d| d.is_absolute())
}

/// Looks something up with the rights of the job's user, if it has one.
fn as_whom(
    who: Option<&Account>,
    look: impl FnOnce() -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let Some(who) = who else { return look() };
    as_account(who, look).map_err(|e| Refusal::node("cannot act as another user", &e))?
}

fn checkpoints_ready(dir: &Path, who: Option<&Account>) -> Result<(), Refusal> {
    let ready = match who {
        Some(who) => as_account(who, || checkpoint_dir::ready(dir)).and_then(|ready| ready),
        None => checkpoint_dir::ready(dir),
    };
    ready.map_err(|e| checkpoint_dir::refusal(dir, who, &e))
}

fn mount(order: &Order) -> Result<(), Refusal> {
    let private = own_namespace();
    if let (Err(e), false) = (&private, order.volumes.is_empty()) {
        return Err(Refusal::Node(format!(
            "this node cannot bind volumes: {e} (the agent must run as root)"
        )));
    }
    // Sources are looked at before anything is mounted: a volume must not hide the next one's.
    let sources = order.volumes.iter().map(source).collect::<Result<Vec<_>, _>>()?;
    let mut places = MountPoints::default();
    for (v, from) in order.volumes.iter().zip(&sources) {
        if let Some(why) = place::refused(Path::new(&v.at), &[]) {
            let (from, at) = (&v.from, &v.at);
            return Err(Refusal::Job(format!("cannot bind volume `{from}` at `{at}`: {why}")));
        }
        bind(&mut places, v, from).map_err(|e| {
            Refusal::Job(format!("cannot bind volume `{}` at `{}`: {e}", v.from, v.at))
        })?;
    }
    hand_over_secrets(order, private.is_ok())
}

fn hand_over_secrets(order: &Order, private: bool) -> Result<(), Refusal> {
    if order.secrets.is_empty() {
        return Ok(());
    }
    write_secrets(order, private).map_err(|e| Refusal::node("cannot hand over secrets", &e))
}

fn own_namespace() -> io::Result<()> {
    sys::unshare(libc::CLONE_NEWNS)?;
    sys::mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE, None)
}

/// What a volume shows, held open: what is bound is what was looked at.
fn source(v: &Volume) -> Result<File, Refusal> {
    open_source(Path::new(&v.from)).map(|(from, _)| from).map_err(|e| e.refusal(v, None))
}

fn bind(places: &mut MountPoints, v: &Volume, from: &File) -> io::Result<()> {
    let at = Path::new(&v.at);
    places.make(at, from.metadata()?.is_dir(), None)?;
    let before = v.read_only.then(ExistingMounts::now).transpose()?;
    let flags = libc::MS_BIND | libc::MS_REC;
    sys::mount(Some(&place::descriptor(from)), at, None, flags, None)?;
    before.as_ref().map_or(Ok(()), ExistingMounts::make_later_read_only)
}

fn write_secrets(order: &Order, private: bool) -> io::Result<()> {
    let dir = &order.secrets_dir;
    if !dir.is_dir() {
        fs::DirBuilder::new().mode(0o700).create(dir)?;
    }
    let in_memory = private
        && sys::mount(Some(Path::new("tmpfs")), dir, Some("tmpfs"), 0, Some("size=8m,mode=0700"))
            .is_ok();
    if !in_memory {
        // Without the right to mount, memory-backed storage is still better than the disk.
        let shared = &order.shared_secrets;
        match secrets::make_shared(shared) {
            Ok(()) => {
                fs::remove_dir(dir)?;
                std::os::unix::fs::symlink(shared, dir)?;
            }
            // This place and no other is bound into it.
            Err(e) if order.container.is_some() => return Err(e),
            Err(_) => {}
        }
    }
    for (name, value) in secrets::files(&order.secrets) {
        write_private(&dir.join(name), value.as_bytes())?;
    }
    let Some(who) = &order.contained_as else { return Ok(()) };
    for (name, _) in secrets::files(&order.secrets) {
        std::os::unix::fs::chown(dir.join(name), Some(who.uid), Some(who.gid))?;
    }
    std::os::unix::fs::chown(dir, Some(who.uid), Some(who.gid))
}

/// Removes the secrets' files.
pub(super) fn clear_secrets(order: &Order) {
    if order.secrets.is_empty() {
        return;
    }
    secrets::remove(&order.secrets_dir);
}
