//! Who ends what is left of a slot whose supervisor was killed. The kernel does it where the ranks
//! have namespaces of their own. Elsewhere only the ranks themselves die with their supervisor, not
//! what they started, nor containers: there its parent stays behind as a guard.

use super::{Order, kill_descendants, wait_any, wait_for_children};
use crate::isolation::sys;
use std::io;
use std::time::Duration;

/// How long the guard tries to empty the slot's control group.
const PATIENCE: Duration = Duration::from_secs(5);

/// Goes on as the supervisor, in a child of this process where a guard is needed: under a lease the
/// server counts on it that nobody is left.
pub(super) fn continue_as_supervisor(order: &Order) -> io::Result<()> {
    let namespaces = order.inside.as_ref().is_some_and(|i| i.open.is_none());
    if order.lease.is_none() || namespaces {
        return Ok(());
    }
    match sys::fork()? {
        0 => {
            // Whoever signals the guard's group does not mean the supervisor.
            let _ = rustix::process::setsid();
            super::adopt_orphans();
            Ok(())
        }
        supervisor => guard(supervisor, order),
    }
}

/// Waits for the supervisor. What it leaves behind becomes this process's: it adopts orphans, too.
fn guard(supervisor: i32, order: &Order) -> ! {
    #[expect(unsafe_code, reason = "prctl has no safe interface")]
    // SAFETY: the name is a NUL-terminated string.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"muster-guard".as_ptr(), 0, 0, 0);
    }
    loop {
        match wait_any(None::<fn()>) {
            Some((pid, Some(0), _)) if pid == supervisor => std::process::exit(0),
            Some((pid, ..)) if pid != supervisor => {}
            _ => break,
        }
    }
    // At once: a container runtime may take its time.
    order.group.iter().for_each(|g| g.kill());
    kill_descendants();
    if let Some(c) = &order.container
        && let Err(why) = crate::container::remove_all(&c.runtime, &c.names)
    {
        eprintln!("{}: {why}", order.dir.display());
    }
    if let Some(group) = &order.group {
        group.kill_and_wait(PATIENCE);
    }
    wait_for_children(Duration::ZERO);
    std::process::exit(1)
}
