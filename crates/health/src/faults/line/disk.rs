//! Disks and file systems.

use super::Fault;
use super::text::{after, has, split, utf8, word};

/// What disks and file systems say.
pub(super) fn read(body: &[u8]) -> Option<Fault<'_>> {
    let (name, device) = None
        .or_else(|| file_system(body))
        .or_else(|| nvme(body))
        .or_else(|| block(body))
        .or_else(|| array(body))
        .or_else(|| server(body))?;
    Some(Fault { device: utf8(device), ..Fault::other(name, body) })
}

fn file_system(body: &[u8]) -> Option<(&'static str, &[u8])> {
    let inside = |rest| split(rest, b')').map_or(&[][..], |(d, _)| d);
    if let Some(rest) = body.strip_prefix(b"EXT4-fs (") {
        let gone = has(rest, b"emounting filesystem read-only");
        return gone.then(|| ("ro-remount", inside(rest)));
    }
    if let Some(rest) = body.strip_prefix(b"EXT4-fs error (device ") {
        return Some(("fs-error", inside(rest)));
    }
    if let Some(rest) = body.strip_prefix(b"XFS (") {
        let name = if has(rest, b"hutting down filesystem") || has(rest, b"has been shut down") {
            "ro-remount"
        } else if has(rest, b"orruption detected") {
            "fs-error"
        } else if has(rest, b"I/O error") {
            "io-error"
        } else {
            return None;
        };
        return Some((name, inside(rest)));
    }
    let rest = body.strip_prefix(b"BTRFS ")?;
    let device = inside(after(rest, b"(device ")?);
    if has(rest, b"forced readonly") {
        Some(("ro-remount", device))
    } else {
        let bad = rest.starts_with(b"error (") || rest.starts_with(b"critical (");
        bad.then_some(("fs-error", device))
    }
}

fn nvme(body: &[u8]) -> Option<(&'static str, &[u8])> {
    if !body.starts_with(b"nvme") {
        return None;
    }
    // `nvme0n1: I/O Cmd(0x2) @ LBA 5, 8 blocks, I/O Error (sct 0x2 / sc 0x81)`
    if let Some((device, said)) = split(body, b':')
        && device.iter().all(u8::is_ascii_alphanumeric)
    {
        return has(said, b"I/O Error (sct").then_some(("io-error", device));
    }
    let rest = body.strip_prefix(b"nvme ")?;
    let (device, said) = split(rest, b':')?;
    let said = said.trim_ascii_start();
    let name = if said.starts_with(b"I/O ") && has(said, b" QID ") && has(said, b" timeout")
        || said.starts_with(b"controller is down")
    {
        "nvme-timeout"
    } else if said.starts_with(b"Removing after probe failure")
        || said.starts_with(b"Disabling device after reset failure")
        || said.starts_with(b"Device not ready; aborting")
        || said.starts_with(b"Remove after probe failure")
    {
        "nvme-down"
    } else {
        return None;
    };
    Some((name, device))
}

/// `I/O error, dev sda, sector 5`, with or without the name of the kernel's function.
fn block(body: &[u8]) -> Option<(&'static str, &[u8])> {
    let said = [&b"blk_update_request: "[..], b"print_req_error: ", b"end_request: "]
        .iter()
        .find_map(|p| body.strip_prefix(*p))
        .unwrap_or(body);
    let rest = said
        .strip_prefix(b"I/O error, dev ")
        .or_else(|| said.strip_prefix(b"critical medium error, dev "))
        .or_else(|| said.strip_prefix(b"Buffer I/O error on dev "))
        .or_else(|| said.strip_prefix(b"Buffer I/O error on device "))
        .or_else(|| said.strip_prefix(b"lost async page write due to I/O error on "))?;
    let device = word(rest);
    // Drives without a medium, and files that only look like disks: not the machine's trouble.
    let odd = [&b"fd"[..], b"sr", b"loop", b"zram", b"ram"].iter().any(|p| device.starts_with(p));
    (!odd).then_some(("io-error", device))
}

/// `md/raid1:md0: Disk failure on sda1, disabling device.`
fn array(body: &[u8]) -> Option<(&'static str, &[u8])> {
    let rest = body.strip_prefix(b"md/raid")?;
    Some(("raid-degraded", word(after(rest, b"Disk failure on ")?)))
}

/// `nfs: server fs1 not responding, still trying`
fn server(body: &[u8]) -> Option<(&'static str, &[u8])> {
    let (name, said) = split(body.strip_prefix(b"nfs: server ")?, b' ')?;
    said.starts_with(b"not responding").then_some(("nfs-stall", name))
}
