//! What the simulated kinds are made of, with figures as their makers publish them; what makers
//! do not publish is chosen so that a GPU under load reads like a real one.

use muster_model::node::MigProfile;
use muster_model::units::Bytes;
use std::str::FromStr;

/// Kinds of GPU that can be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SimSku {
    /// A100 SXM, 80 GB.
    A100Sxm,
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

/// A kind of GPU that cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be simulated: use a100-sxm, h100-sxm, h200-sxm, b200-sxm or gb200")]
pub struct SimSkuError(String);

impl FromStr for SimSku {
    type Err = SimSkuError;
    fn from_str(s: &str) -> Result<SimSku, SimSkuError> {
        let known =
            [SimSku::A100Sxm, SimSku::H100Sxm, SimSku::H200Sxm, SimSku::B200Sxm, SimSku::Gb200];
        let found = known.into_iter().find(|k| k.specs().name == s);
        found.ok_or_else(|| SimSkuError(s.chars().take(40).collect()))
    }
}

/// Figures of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct SkuSpecs {
    pub(super) name: &'static str,
    pub(super) product: &'static str,
    pub(super) compute: &'static str,
    pub(super) memory: Bytes,
    /// Watts with nothing to do, with everything to do, and the limit.
    pub(super) idle_w: f64,
    pub(super) busy_w: f64,
    pub(super) limit_w: f64,
    pub(super) least_w: f64,
    pub(super) sm_mhz: f64,
    pub(super) idle_mhz: f64,
    pub(super) mem_mhz: f64,
    pub(super) links: u32,
    /// Bytes a second in one direction, all links.
    pub(super) nvlink: f64,
    pub(super) pcie_gen: u32,
    /// Bytes a second in one direction.
    pub(super) pcie: f64,
    /// Highest temperature it is meant to work at; it slows itself down from there.
    pub(super) max_c: f64,
    /// Where the hardware steps in.
    pub(super) slowdown_c: f64,
    /// Banks with spare rows.
    pub(super) banks: u32,
    /// Names of slices: one small, one wide small, two, three, four, seven.
    slices: [&'static str; 6],
    slice_mib: u64,
    sms: u32,
}

impl SimSku {
    /// The name under which jobs ask for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.specs().name
    }

    pub(super) fn specs(self) -> SkuSpecs {
        let h100 = SkuSpecs {
            name: "h100-sxm",
            product: "NVIDIA H100 80GB HBM3",
            compute: "9.0",
            memory: Bytes::mib(81_559),
            idle_w: 72.0,
            busy_w: 690.0,
            limit_w: 700.0,
            least_w: 200.0,
            sm_mhz: 1_980.0,
            idle_mhz: 345.0,
            mem_mhz: 2_619.0,
            links: 18,
            nvlink: 450e9,
            pcie_gen: 5,
            pcie: 63e9,
            max_c: 87.0,
            slowdown_c: 90.0,
            banks: 2_560,
            slices: ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"],
            slice_mib: 9_984,
            sms: 132,
        };
        match self {
            SimSku::H100Sxm => h100,
            SimSku::A100Sxm => SkuSpecs {
                name: "a100-sxm",
                product: "NVIDIA A100-SXM4-80GB",
                compute: "8.0",
                memory: Bytes::mib(81_920),
                idle_w: 58.0,
                busy_w: 394.0,
                limit_w: 400.0,
                least_w: 100.0,
                sm_mhz: 1_410.0,
                idle_mhz: 210.0,
                mem_mhz: 1_593.0,
                links: 12,
                nvlink: 300e9,
                pcie_gen: 4,
                pcie: 31e9,
                max_c: 85.0,
                slowdown_c: 89.0,
                banks: 640,
                sms: 108,
                ..h100
            },
            SimSku::H200Sxm => SkuSpecs {
                name: "h200-sxm",
                product: "NVIDIA H200",
                memory: Bytes::mib(143_771),
                idle_w: 76.0,
                busy_w: 695.0,
                mem_mhz: 3_201.0,
                slices: ["1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"],
                slice_mib: 16_384,
                ..h100
            },
            SimSku::B200Sxm => SkuSpecs {
                name: "b200-sxm",
                product: "NVIDIA B200",
                compute: "10.0",
                memory: Bytes::mib(183_359),
                idle_w: 140.0,
                busy_w: 990.0,
                limit_w: 1_000.0,
                sm_mhz: 1_965.0,
                idle_mhz: 120.0,
                mem_mhz: 3_996.0,
                nvlink: 900e9,
                slices: ["1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"],
                slice_mib: 22_272,
                sms: 148,
                ..h100
            },
            SimSku::Gb200 => SkuSpecs {
                name: "gb200",
                product: "NVIDIA GB200",
                compute: "10.0",
                memory: Bytes::mib(189_471),
                idle_w: 150.0,
                busy_w: 1_190.0,
                limit_w: 1_200.0,
                sm_mhz: 2_062.0,
                idle_mhz: 120.0,
                mem_mhz: 3_996.0,
                nvlink: 900e9,
                slices: ["1g.23gb", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"],
                slice_mib: 23_040,
                sms: 152,
                ..h100
            },
        }
    }
}

impl SkuSpecs {
    /// Profiles it can be cut into: the places are the same on every kind with seven slices.
    pub(super) fn profiles(&self) -> Vec<MigProfile> {
        let shape: [(u32, u32, &[u32], u32, u32); 6] = [
            (19, 7, &[0, 1, 2, 3, 4, 5, 6], 1, 1),
            (15, 4, &[0, 2, 4, 6], 2, 1),
            (14, 3, &[0, 2, 4], 2, 2),
            (9, 2, &[0, 4], 4, 3),
            (5, 1, &[0], 4, 4),
            (0, 1, &[0], 8, 7),
        ];
        let one =
            |(name, (id, most, starts, size, part)): (&&str, (u32, u32, &[u32], u32, u32))| {
                MigProfile {
                    name: (*name).into(),
                    id,
                    most,
                    memory: Bytes::mib(self.slice_mib * u64::from(size)),
                    sms: self.sms * part / 8,
                    starts: starts.to_vec(),
                    size,
                }
            };
        self.slices.iter().zip(shape).map(one).collect()
    }
}
