//! Processors, memory, and the kernel itself.

use super::Fault;
use super::text::{after, find, has, number, pid, split, utf8, word};

/// What the kernel says of the machine and of processes.
pub(super) fn read(body: &[u8]) -> Option<Fault<'_>> {
    None.or_else(|| out_of_memory(body))
        .or_else(|| hung(body))
        .or_else(|| lockup(body))
        .or_else(|| memory(body))
        .or_else(|| machine_check(body))
        .or_else(|| kernel(body))
        .or_else(|| heat(body))
        .or_else(|| crash(body))
}

/// `Memory cgroup out of memory: Killed process 12 (python) …`: the line that is written for every
/// kill; the longer report before it may be left out by the kernel.
fn out_of_memory(body: &[u8]) -> Option<Fault<'_>> {
    let (name, rest) = match body.strip_prefix(b"Memory cgroup out of memory") {
        Some(rest) => ("oom", rest),
        None => ("oom-host", body.strip_prefix(b"Out of memory")?),
    };
    let rest = after(rest, b": Kill")?;
    let rest = rest.strip_prefix(b"ed").unwrap_or(rest).strip_prefix(b" process ")?;
    let (_, name_on) = split(rest, b'(')?;
    let process = split(name_on, b')').map(|(name, _)| name);
    Some(Fault { pid: pid(rest), process, ..Fault::other(name, body) })
}

/// `INFO: task kworker/u64:2:1234 blocked for more than 120 seconds.`
fn hung(body: &[u8]) -> Option<Fault<'_>> {
    let rest = body.strip_prefix(b"INFO: task ")?;
    let at = find(rest, b" blocked ")?;
    if !has(rest.get(at..)?, b"for more than ") {
        return None;
    }
    let task = rest.get(..at)?;
    let colon = task.iter().rposition(|b| *b == b':')?;
    let process = task.get(..colon).filter(|n| !n.is_empty());
    Some(Fault {
        pid: task.get(colon + 1..).and_then(pid),
        process,
        ..Fault::other("hung-task", body)
    })
}

/// `watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python:1234]`
fn lockup(body: &[u8]) -> Option<Fault<'_>> {
    let said = body.strip_prefix(b"NMI ").unwrap_or(body);
    let said = said.strip_prefix(b"watchdog: ").unwrap_or(said);
    if said.starts_with(b"Watchdog detected hard LOCKUP") {
        return Some(Fault::other("hard-lockup", body));
    }
    let rest = said.strip_prefix(b"BUG: soft lockup")?;
    let task = split(rest, b'[').and_then(|(_, r)| split(r, b']')).map_or(&[][..], |(t, _)| t);
    let colon = task.iter().rposition(|b| *b == b':');
    let (process, id) = match colon {
        Some(c) => (task.get(..c).filter(|n| !n.is_empty()), task.get(c + 1..).and_then(pid)),
        None => (None, None),
    };
    Some(Fault { pid: id, process, ..Fault::other("soft-lockup", body) })
}

/// `EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (…)`
fn memory(body: &[u8]) -> Option<Fault<'_>> {
    if let Some(rest) = body.strip_prefix(b"Memory failure: ") {
        return has(rest, b"recovery action for").then(|| Fault::other("memory-failure", body));
    }
    let rest = body.strip_prefix(b"EDAC ")?;
    let controller = word(rest);
    controller.strip_prefix(b"MC").and_then(number)?;
    let said = rest.get(controller.len()..)?.strip_prefix(b": ")?;
    let (_, said) = number(said)?;
    let name = if said.starts_with(b" CE ") {
        "edac-ce"
    } else if said.starts_with(b" UE ") {
        "edac-ue"
    } else {
        return None;
    };
    Some(Fault { device: utf8(controller), ..Fault::other(name, body) })
}

/// What processors and firmware report. Of the many lines of one report, the one that says how bad.
fn machine_check(body: &[u8]) -> Option<Fault<'_>> {
    let said = body.strip_prefix(b"mce: ").unwrap_or(body);
    if said.starts_with(b"Uncorrected hardware memory error") {
        return Some(Fault::other("mce-fatal", body));
    }
    let said = match said.strip_prefix(b"{") {
        Some(rest) => split(rest, b'}').filter(|(n, _)| number(n).is_some())?.1,
        None => said,
    };
    let said = said.strip_prefix(b"[Hardware Error]: ")?;
    let bad = said.starts_with(b"CPU ") && has(said, b"Machine Check Exception:")
        || said.starts_with(b"event severity: fatal");
    let mild = said.starts_with(b"Machine check events logged")
        || said.starts_with(b"CPU ") && has(said, b"Machine Check:")
        || said.starts_with(b"event severity: ");
    if bad {
        Some(Fault::other("mce-fatal", body))
    } else {
        mild.then(|| Fault::other("mce", body))
    }
}

/// The kernel's own errors.
fn kernel(body: &[u8]) -> Option<Fault<'_>> {
    let begins = |with: &[u8]| body.starts_with(with);
    let stalled = body.strip_prefix(b"rcu: ").unwrap_or(body);
    let name = if begins(b"Kernel panic - not syncing") {
        "kernel-panic"
    } else if begins(b"BUG: unable to handle")
        || begins(b"BUG: kernel NULL pointer dereference")
        || begins(b"kernel BUG at ")
        || begins(b"Oops: ")
        || begins(b"Internal error: Oops")
    {
        "kernel-oops"
    } else if stalled.starts_with(b"INFO: rcu_")
        && (has(stalled, b"detected stalls on CPUs")
            || has(stalled, b"self-detected stall")
            || has(stalled, b"detected expedited stalls"))
    {
        "rcu-stall"
    } else {
        return None;
    };
    Some(Fault::other(name, body))
}

/// `CPU12: Package temperature above threshold, cpu clock throttled (total events = 1)`
fn heat(body: &[u8]) -> Option<Fault<'_>> {
    let said = body.strip_prefix(b"mce: ").unwrap_or(body);
    number(said.strip_prefix(b"CPU")?)?;
    has(said, b"temperature above threshold").then(|| Fault::other("cpu-throttle", body))
}

/// `python[1234]: segfault at 0 ip 0000… sp 0000… error 4 in libnccl.so.2.18.3[…]`
fn crash(body: &[u8]) -> Option<Fault<'_>> {
    let said = body.strip_prefix(b"traps: ").unwrap_or(body);
    let at =
        find(said, b"]: segfault at ").or_else(|| find(said, b"] general protection fault"))?;
    has(said.get(at..)?, b" in libnccl").then_some(())?;
    let who = said.get(..at)?;
    let open = who.iter().rposition(|b| *b == b'[')?;
    Some(Fault {
        pid: who.get(open + 1..).and_then(pid),
        process: who.get(..open),
        ..Fault::other("segfault-nccl", body)
    })
}
