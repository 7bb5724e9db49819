//! What is known of one kind of GPU and of the machines that hold it.

use muster_model::units::Bytes;

/// Figures of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SkuSpecs {
    pub(crate) name: &'static str,
    pub(crate) memory: Bytes,
    pub(crate) idle_w: i64,
    pub(crate) busy_w: i64,
    pub(crate) sm_mhz: i64,
    pub(crate) mem_mhz: i64,
    pub(crate) nvlink_gbps: i64,
    pub(crate) cpu: &'static str,
    pub(crate) nic_mbps: u64,
}
