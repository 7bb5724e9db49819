//! Disks and network cards.

use super::read;
use muster_model::node::{Disk, Nic};
use muster_model::units::Bytes;
use std::fs;
use std::path::PathBuf;

fn entries(dir: &str) -> Vec<(String, PathBuf)> {
    let all = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut named: Vec<(String, PathBuf)> =
        all.filter_map(|e| Some((e.file_name().to_str()?.to_owned(), e.path()))).collect();
    named.sort();
    named
}

pub(super) fn disks() -> Vec<Disk> {
    let virtual_disks = ["loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd"];
    let real = |name: &str| !virtual_disks.iter().any(|p| name.starts_with(p));
    let disk = |(name, path): (String, PathBuf)| {
        let sectors: u64 = read(path.join("size"))?.parse().ok()?;
        Some(Disk {
            name,
            size: Bytes(sectors.checked_mul(512).filter(|s| *s > 0)?),
            model: read(path.join("device/model")),
            rotational: read(path.join("queue/rotational")).map(|r| r == "1"),
        })
    };
    entries("/sys/block").into_iter().filter(|(n, _)| real(n)).filter_map(disk).collect()
}

pub(super) fn nics() -> Vec<Nic> {
    let mut nics: Vec<Nic> = Vec::new();
    for (name, path) in entries("/sys/class/net") {
        // Only what has a device behind it: bridges and tunnels are not in the machine.
        if !path.join("device").exists() {
            continue;
        }
        let speed = read(path.join("speed")).and_then(|s| s.parse::<i64>().ok());
        nics.push(Nic {
            kind: "ethernet".into(),
            address: read(path.join("address")),
            speed_mbps: speed.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0),
            state: read(path.join("operstate")),
            rail: None,
            name,
        });
    }
    for (name, path) in entries("/sys/class/infiniband") {
        let port = path.join("ports/1");
        // `400 Gb/sec (4X NDR)`
        let rate = read(port.join("rate")).and_then(|r| r.split(' ').next()?.parse::<u64>().ok());
        let state = read(port.join("state"))
            .map(|s| s.split_once(": ").map_or(s.as_str(), |(_, word)| word).to_ascii_lowercase());
        nics.push(Nic {
            kind: "infiniband".into(),
            address: read(path.join("node_guid")),
            speed_mbps: rate.and_then(|g| g.checked_mul(1000)),
            state,
            rail: None,
            name,
        });
    }
    nics
}
