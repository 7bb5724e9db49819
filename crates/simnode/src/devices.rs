//! What is in a simulated node, with figures as the makers publish them.

use crate::condition::Condition;
use crate::host::{Host, nic_name};
use crate::random::Random;
use crate::specs::SkuSpecs;
use crate::telemetry::Thermal;
use muster_model::node::{Disk, Gpu, Inventory, Nic, Numa};
use muster_model::units::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Kinds of GPU that can be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sku {
    /// H100 SXM, 80 GB.
    #[default]
    H100Sxm,
    /// H200 SXM, 141 GB.
    H200Sxm,
    /// B200 SXM, 180 GB.
    B200Sxm,
    /// GB200, 186 GB, four to a tray.
    Gb200,
}

/// A kind of GPU that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a kind of GPU that can be simulated: use h100-sxm, h200-sxm, b200-sxm or gb200"
)]
pub struct SkuError(String);

impl FromStr for Sku {
    type Err = SkuError;
    fn from_str(s: &str) -> Result<Sku, SkuError> {
        Ok(match s.to_ascii_lowercase().as_str() {
            "h100-sxm" | "h100" => Sku::H100Sxm,
            "h200-sxm" | "h200" => Sku::H200Sxm,
            "b200-sxm" | "b200" => Sku::B200Sxm,
            "gb200" => Sku::Gb200,
            _ => return Err(SkuError(s.chars().take(40).collect())),
        })
    }
}

impl fmt::Display for Sku {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.specs().name)
    }
}

impl Sku {
    pub(crate) fn specs(self) -> SkuSpecs {
        let xeon = "Intel(R) Xeon(R) Platinum 8480C";
        match self {
            Sku::H100Sxm => SkuSpecs {
                name: "h100-sxm",
                memory: Bytes::mib(81_559),
                idle_w: 72,
                busy_w: 690,
                sm_mhz: 1_980,
                mem_mhz: 2_619,
                nvlink_gbps: 450,
                cpu: xeon,
                nic_mbps: 400_000,
            },
            Sku::H200Sxm => SkuSpecs {
                name: "h200-sxm",
                memory: Bytes::mib(143_771),
                idle_w: 76,
                busy_w: 695,
                sm_mhz: 1_980,
                mem_mhz: 3_201,
                nvlink_gbps: 450,
                cpu: xeon,
                nic_mbps: 400_000,
            },
            Sku::B200Sxm => SkuSpecs {
                name: "b200-sxm",
                memory: Bytes::mib(183_359),
                idle_w: 140,
                busy_w: 990,
                sm_mhz: 1_965,
                mem_mhz: 3_996,
                nvlink_gbps: 900,
                cpu: "Intel(R) Xeon(R) Platinum 8570",
                nic_mbps: 400_000,
            },
            Sku::Gb200 => SkuSpecs {
                name: "gb200",
                memory: Bytes::mib(189_471),
                idle_w: 150,
                busy_w: 1_190,
                sm_mhz: 2_062,
                mem_mhz: 3_996,
                nvlink_gbps: 900,
                cpu: "Neoverse-V2",
                nic_mbps: 400_000,
            },
        }
    }
}

/// Size of a simulated node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimConfig {
    /// Kind of its GPUs.
    pub sku: Sku,
    /// How many GPUs it has.
    pub gpus: u32,
    /// Logical processors.
    pub cpus: u32,
    /// Memory of the host, in bytes.
    pub memory: Bytes,
    /// The last so many of its GPUs are in MIG mode.
    pub mig_gpus: u32,
    /// The pool it belongs to; empty stands for the default one.
    pub pool: String,
    /// GPUs that ranks which really run keep busy, as a set.
    #[serde(skip)]
    pub(crate) real_load: u64,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig {
            sku: Sku::default(),
            gpus: 8,
            cpus: 224,
            memory: Bytes::gib(2048),
            mig_gpus: 0,
            pool: String::new(),
            real_load: 0,
        }
    }
}

impl SimConfig {
    /// The usual machine around so many GPUs of a kind.
    #[must_use]
    pub fn of(sku: Sku, gpus: u32) -> SimConfig {
        let (cpus, memory) = match sku {
            Sku::Gb200 => (144, Bytes::gib(960)),
            _ => (224, Bytes::gib(2048)),
        };
        SimConfig { sku, gpus: gpus.min(64), cpus, memory, ..SimConfig::default() }
    }
}

impl SimConfig {
    /// Network cards: one for each GPU, as far as the board has room.
    pub(crate) fn nics(&self) -> u32 {
        self.gpus.min(8)
    }
}

/// Number of the bus that a GPU sits on.
pub(crate) fn bus(gpu: u32) -> u32 {
    0x18 + gpu * 0x10 % 0xd0
}

#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) index: u32,
    uuid: String,
    serial: String,
    /// Hotter or cooler than the average one, in thousandths of a degree.
    pub(crate) offset: i64,
    pub(crate) condition: Condition,
    pub(crate) thermal: Thermal,
}

pub(crate) fn devices(seed: u64, config: &SimConfig, name: &str) -> Vec<Device> {
    let one = |index: u32| {
        let mut r = Random::new(seed, &[name, "gpu", &index.to_string()]);
        let uuid = format!("GPU-{}", r.uuid());
        let serial = format!("165{:010}", r.below(10_000_000_000));
        let offset = i64::try_from(r.below(6000)).unwrap_or(0) - 3000;
        Device {
            index,
            uuid,
            serial,
            offset,
            condition: Condition::default(),
            thermal: Thermal::new(offset),
        }
    };
    (0..config.gpus.min(64)).map(one).collect()
}

pub(crate) fn inventory(
    seed: u64,
    config: &SimConfig,
    name: &str,
    devices: &[Device],
    host: &Host,
) -> Inventory {
    let f = config.sku.specs();
    let half = config.cpus / 2;
    let numa_of = |i: u32| u32::from(i >= config.gpus.div_ceil(2));
    let first_mig = config.gpus.min(64).saturating_sub(config.mig_gpus);
    let gpus = devices.iter().filter(|d| !d.condition.lost).map(|d| Gpu {
        index: d.index,
        sku: f.name.into(),
        uuid: d.uuid.clone(),
        serial: Some(d.serial.clone()),
        memory: f.memory,
        pci: Some(format!("00000000:{:02X}:00.0", bus(d.index))),
        numa: Some(numa_of(d.index)),
        mig: Some(d.index >= first_mig),
        facts: None,
    });
    let there = |i: &u32| host.ports.iter().any(|p| p.name == nic_name(*i) && !p.lost);
    let nics = (0..config.nics()).filter(there).map(|i| {
        let mut r = Random::new(seed, &[name, "nic", &i.to_string()]);
        let guid = r.next();
        Nic {
            name: nic_name(i),
            kind: "infiniband".into(),
            address: Some(format!(
                "{:04x}:{:02x}ff:fe{:02x}:{:04x}",
                guid >> 48,
                guid >> 40 & 0xff,
                guid >> 32 & 0xff,
                guid & 0xffff
            )),
            speed_mbps: Some(f.nic_mbps),
            state: Some("active".into()),
            rail: Some(format!("rail{i}")),
        }
    });
    let numa = |id: u32, from: u32, to: u32| Numa {
        id,
        cpus: format!("{from}-{}", to.saturating_sub(1)),
        memory: Bytes(config.memory.0 / 2),
    };
    let numa = if config.cpus >= 2 {
        vec![numa(0, 0, half), numa(1, half, config.cpus)]
    } else {
        Vec::new()
    };
    let versions = [("driver", "580.95.05"), ("cuda", "13.0"), ("nccl", "2.28.3")];
    Inventory {
        cpu_model: f.cpu.into(),
        cpus: config.cpus,
        sockets: 2,
        numa,
        memory: config.memory,
        gpus: gpus.collect(),
        nics: nics.collect(),
        disks: vec![Disk {
            name: "nvme0n1".into(),
            size: Bytes(3_840_755_982_336),
            model: Some("simulated NVMe".into()),
            rotational: Some(false),
        }],
        kernel: "6.8.0-simulated".into(),
        os: "Simulated Linux".into(),
        versions: BTreeMap::from(versions.map(|(k, v)| (k.to_owned(), v.to_owned()))),
        isolation: String::new(),
        simulated: true,
        pool: config.pool.clone(),
        // What the node can be asked for is up to whoever hosts it.
        can: std::collections::BTreeSet::new(),
    }
}
