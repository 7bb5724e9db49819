//! A simulated GPU's memory going bad: single bits that are corrected, double bits that are not,
//! and rows that are mapped to spares.

use muster_simnode::Random;
use std::collections::BTreeMap;

/// Spare rows of a bank.
const SPARES: u32 = 8;
/// Corrected errors after which one row has had two of them and is remapped.
const CORRECTED_PER_REMAP: u64 = 64;
/// Corrected errors since the last reset from which the driver warns.
const MANY_CORRECTED: u64 = 1_000;

/// Errors and spare rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pub(super) sbe: u64,
    pub(super) dbe: u64,
    pub(super) sbe_life: u64,
    pub(super) dbe_life: u64,
    pub(super) remapped_uncorrectable: u64,
    pub(super) remapped_correctable: u64,
    pub(super) pending: bool,
    pub(super) failed: bool,
    /// Spare rows used, of banks that used any.
    used: BTreeMap<u32, u32>,
}

impl Memory {
    /// A bit was flipped and corrected. Returns the XIDs the driver reports.
    pub(super) fn single(&mut self, random: &mut Random, banks: u32) -> Vec<u32> {
        self.sbe += 1;
        self.sbe_life += 1;
        let mut xids = Vec::new();
        if self.sbe_life.is_multiple_of(CORRECTED_PER_REMAP) {
            self.remapped_correctable += 1;
            xids.extend(self.remap(random, banks));
        }
        if self.sbe == MANY_CORRECTED {
            xids.push(92);
        }
        xids
    }

    /// Two bits were flipped: who used them is killed, and the row is to be replaced.
    pub(super) fn double(&mut self, random: &mut Random, banks: u32) -> Vec<u32> {
        self.dbe += 1;
        self.dbe_life += 1;
        self.remapped_uncorrectable += 1;
        let mut xids = vec![48, 94];
        xids.extend(self.remap(random, banks));
        xids
    }

    /// A row is to be replaced in a bank that has no spare left.
    pub(super) fn fail(&mut self, random: &mut Random, banks: u32) -> Vec<u32> {
        let bank = pick(random, banks);
        self.used.insert(bank, SPARES);
        self.dbe += 1;
        self.dbe_life += 1;
        self.failed = true;
        vec![48, 94, 64]
    }

    fn remap(&mut self, random: &mut Random, banks: u32) -> Option<u32> {
        let used = self.used.entry(pick(random, banks)).or_default();
        if *used >= SPARES {
            self.failed = true;
            return Some(64);
        }
        *used += 1;
        self.pending = true;
        Some(63)
    }

    /// Banks by spare rows left: all, most, some, few, none.
    pub(super) fn histogram(&self, banks: u32) -> [u32; 5] {
        let mut out = [banks, 0, 0, 0, 0];
        for used in self.used.values() {
            let class = match SPARES - used {
                0 => 4,
                1 => 3,
                2..=4 => 2,
                5..=7 => 1,
                _ => continue,
            };
            out[0] = out[0].saturating_sub(1);
            out[class] += 1;
        }
        out
    }

    /// The GPU is reset: spares are taken into use, and what is counted since the driver was
    /// loaded begins anew. A failed remap stays failed.
    pub(super) fn reset(&mut self) {
        self.pending = false;
        self.sbe = 0;
        self.dbe = 0;
    }
}

fn pick(random: &mut Random, banks: u32) -> u32 {
    u32::try_from(random.below(u64::from(banks.max(1)))).unwrap_or(0)
}
