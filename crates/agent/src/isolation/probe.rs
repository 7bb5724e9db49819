//! Whether the kernel makes namespaces for this process: tried, because a filter of calls or a
//! security module refuses them without a word beforehand.

use super::{SYS_ADMIN, has_power, sys};
use std::io;
use std::path::Path;
use std::sync::OnceLock;

/// What the ranks of a slot need of the kernel.
const KINDS: i32 = libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWNS;

/// Whether they can be had, or what is missing. Tried once: it does not change while a process runs.
pub(super) fn namespaces() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND.get_or_init(look).clone()
}

fn look() -> Result<(), String> {
    let no = |why: &str| Err(format!("ranks are not isolated from each other: {why}"));
    if !has_power(SYS_ADMIN) {
        return match rustix::process::geteuid().is_root() {
            true => no("the agent lacks CAP_SYS_ADMIN"),
            false => no("run the agent as root"),
        };
    }
    for kind in ["pid", "mnt", "ipc"] {
        if !Path::new("/proc/self/ns").join(kind).exists() {
            return no(&format!("this kernel has no {kind} namespaces"));
        }
    }
    match attempt() {
        Ok(()) => Ok(()),
        Err(e) => no(&format!("the kernel refuses namespaces: {e}")),
    }
}

/// Makes them for a thread that ends at once, and does to its mounts what comes first in a slot.
fn attempt() -> io::Result<()> {
    let body = || {
        sys::unshare(KINDS)?;
        sys::mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE, None)
    };
    let thread = std::thread::Builder::new().name("namespaces".into()).spawn(body)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("it broke off")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_leaves_this_process_as_it_was() {
        let own =
            || ["mnt", "ipc", "pid"].map(|n| std::fs::read_link(format!("/proc/self/ns/{n}")));
        let before = own().map(Result::unwrap);
        let found = namespaces();
        assert_eq!(own().map(Result::unwrap), before);
        assert_eq!(namespaces(), found, "and says the same again");
        if rustix::process::geteuid().is_root() {
            return;
        }
        assert!(found.unwrap_err().contains("run the agent as root"));
    }
}
