//! Network interfaces and InfiniBand ports.

use super::files;
use serde::Serialize;
use std::path::Path;

/// Interfaces and ports reported at most.
const MOST: usize = 64;
/// Counters of one port reported at most.
const MOST_COUNTERS: usize = 96;

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NicNow {
    /// The interface's name, such as `eth0`.
    pub name: String,
    /// The link is there; absent when the kernel does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
    /// Megabits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u64>,
    /// How often the link came or went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier_changes: Option<u64>,
    /// Counters since boot, by the kernel's names.
    pub counters: Vec<(&'static str, u64)>,
}

const STATISTICS: [&str; 8] = [
    "rx_bytes",
    "tx_bytes",
    "rx_packets",
    "tx_packets",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
];

pub(super) fn nics(root: &Path) -> Vec<NicNow> {
    let dir = root.join("sys/class/net");
    let names = files::names(&dir);
    // Virtual ones come and go with containers; they matter only where there is nothing else.
    let has_device = |n: &String| dir.join(n).join("device").exists();
    let physical = names.iter().any(has_device);
    names
        .iter()
        .filter(|n| *n != "lo" && (!physical || has_device(n)))
        .take(MOST)
        .map(|name| {
            let at = dir.join(name);
            NicNow {
                up: match files::word(&at.join("operstate")).as_deref() {
                    Some("up") => Some(true),
                    Some("unknown") | None => None,
                    Some(_) => Some(false),
                },
                // -1 while the link is down.
                speed_mbps: files::number(&at.join("speed")),
                carrier_changes: files::number(&at.join("carrier_changes")),
                counters: STATISTICS
                    .iter()
                    .filter_map(|s| Some((*s, files::number(&at.join("statistics").join(s))?)))
                    .collect(),
                name: name.clone(),
            }
        })
        .collect()
}

/// A port of an InfiniBand or RoCE card.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct IbPort {
    /// The card's name, such as `mlx5_0`.
    pub device: String,
    /// The port's number on the card, from 1.
    pub port: u32,
    /// `ACTIVE`, `DOWN`, `INIT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// `LinkUp`, `Disabled`, `Polling`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub physical: Option<String>,
    /// `InfiniBand` or `Ethernet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_layer: Option<String>,
    /// Gigabits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_gbps: Option<f64>,
    /// Counters, by the kernel's names.
    pub counters: Vec<(String, u64)>,
}

pub(super) fn infiniband(root: &Path) -> Vec<IbPort> {
    let dir = root.join("sys/class/infiniband");
    let mut all = Vec::new();
    for device in files::names(&dir) {
        let ports = dir.join(&device).join("ports");
        for name in files::names(&ports) {
            let Ok(port) = name.parse::<u32>() else { continue };
            if all.len() == MOST {
                return all;
            }
            let at = ports.join(&name);
            // `4: ACTIVE`
            let state = |file| {
                let word = files::word(&at.join(file))?;
                let (_, text) = word.split_once(':')?;
                Some(text.trim().to_owned())
            };
            // `400 Gb/sec (4X NDR)`
            let rate = files::word(&at.join("rate"))
                .and_then(|r| r.split(' ').next().and_then(|n| n.parse::<f64>().ok()));
            let mut counters = Vec::new();
            for kind in ["counters", "hw_counters"] {
                let from = at.join(kind);
                for counter in files::names(&from) {
                    if counter != "lifespan"
                        && counters.len() < MOST_COUNTERS
                        && let Some(n) = files::number(&from.join(&counter))
                    {
                        counters.push((counter, n));
                    }
                }
            }
            all.push(IbPort {
                device: device.clone(),
                port,
                state: state("state"),
                physical: state("phys_state"),
                link_layer: files::word(&at.join("link_layer")),
                rate_gbps: rate,
                counters,
            });
        }
    }
    all
}
