//! The host.

use super::{Findings, NodeObservation, Verdict};
use crate::host::IbPort;
use Verdict::{Degraded, Failed, Healthy};

/// More processes that nobody waits for than these are a program that forgets its children.
const MANY_ZOMBIES: u32 = 100;
const TOO_MANY_ZOMBIES: u32 = 5000;
/// A link that came and went this often since boot is loose.
const MANY_CHANGES: u64 = 20;
/// Without these nothing runs.
const NEEDED: [&str; 4] = ["/", "/var", "/tmp", "/home"];

pub(super) fn evaluate(look: &NodeObservation, found: &mut Findings) {
    disks(look, found);
    tasks(look, found);
    ports(look, found);
    for n in &look.host.nics {
        if let Some(changes) = n.carrier_changes.filter(|c| *c >= MANY_CHANGES) {
            found.add(
                Healthy,
                "nic-flaps",
                None,
                format!("the link of {} came and went {changes} times since boot", n.name),
                "look at cable and transceiver",
            );
        }
    }
    // The log says more about each of them.
    let reported = found.0.iter().any(|f| f.code.contains("oom"));
    if let Some(n) = look.host.oom_kills.filter(|n| *n > 0 && !reported) {
        found.add(
            Healthy,
            "oom",
            None,
            format!("{n} processes were killed by the OOM killer since boot"),
            "give jobs memory limits, or ask for more memory",
        );
    }
    if let Some(n) = look.host.memory.as_ref().and_then(|m| m.corrupted).filter(|n| *n > 0) {
        found.add(
            Degraded,
            "memory-corrupted",
            None,
            format!("the kernel offlined {} KiB of memory for errors", n / 1024),
            "have the memory module replaced (`dmesg` and `edac-util` say which)",
        );
    }
}

fn disks(look: &NodeObservation, found: &mut Findings) {
    for m in &look.host.mounts {
        let needed = NEEDED.contains(&m.point.as_str());
        if m.readonly && !m.meant {
            found.add(
                if needed { Failed } else { Degraded },
                "ro-mount",
                None,
                format!("{} on {} can only be read", m.device, m.point),
                "look into `dmesg` for errors of the disk; check the file system; replace the disk",
            );
        }
        let Some(space) = m.space.filter(|_| !m.readonly) else { continue };
        if space.is_full() {
            found.add(
                if needed { Failed } else { Degraded },
                "disk-full",
                None,
                format!("{} is full ({})", m.point, m.device),
                "free some space",
            );
        } else if space.is_nearly_full() {
            found.add(
                Healthy,
                "disk-nearly-full",
                None,
                format!("{} is nearly full ({})", m.point, m.device),
                "free some space",
            );
        }
    }
}

fn tasks(look: &NodeObservation, found: &mut Findings) {
    let Some(now) = &look.host.tasks else { return };
    // Waiting for a disk is everyday; the same process still waiting seconds later is not.
    let before = look.before.tasks.as_ref().map(|t| t.stuck.as_slice()).unwrap_or_default();
    let stuck: Vec<String> = now
        .stuck
        .iter()
        .filter(|s| before.contains(s))
        .map(|(name, pid)| format!("{name} ({pid})"))
        .collect();
    if !stuck.is_empty() {
        found.add(
            Degraded,
            "tasks-stuck",
            None,
            format!("processes are stuck in the kernel: {}", stuck.join(", ")),
            "look at /proc/PID/stack: a driver, a disk or a file server does not answer",
        );
    }
    if now.zombies >= MANY_ZOMBIES {
        found.add(
            if now.zombies >= TOO_MANY_ZOMBIES { Degraded } else { Healthy },
            "zombies",
            None,
            format!("{} processes ended and nobody waited for them", now.zombies),
            "restart their parent",
        );
    }
}

fn ports(look: &NodeObservation, found: &mut Findings) {
    let active = |p: &IbPort| p.state.as_deref() == Some("ACTIVE");
    let most = look.host.ib.iter().filter(|p| active(p)).filter_map(|p| p.rate_gbps);
    let most = most.fold(0.0, f64::max);
    for p in &look.host.ib {
        let name = format!("{} port {}", p.device, p.port);
        let state = p.state.as_deref().unwrap_or("unknown");
        if p.state.is_some() && !active(p) {
            let physical = p.physical.as_deref().unwrap_or("unknown");
            // Switched off by somebody, or no cable was ever meant to be there.
            let meant = physical == "Disabled" || p.link_layer.as_deref() == Some("Ethernet");
            found.add(
                if meant { Healthy } else { Degraded },
                "ib-down",
                None,
                format!("{name} is {state} ({physical})"),
                "look at cable, transceiver and the switch's port; is a subnet manager there?",
            );
        } else if let Some(rate) = p.rate_gbps.filter(|r| *r < most && active(p)) {
            found.add(
                Degraded,
                "ib-slow",
                None,
                format!("{name} runs at {rate} Gb/s, others at {most}"),
                "look at cable and transceiver; it may have trained down",
            );
        }
        let downed = p.counters.iter().find(|(n, v)| n == "link_downed" && *v > 0);
        if let Some((_, n)) = downed {
            found.add(
                Healthy,
                "ib-flaps",
                None,
                format!("the link of {name} went down {n} times"),
                "look at cable and transceiver",
            );
        }
    }
}
