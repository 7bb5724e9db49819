//! The same work on every multiprocessor, which must agree.

use super::{Buffer, Cuda, CudaError, launch};
use cudarc::driver::{LaunchConfig, PushKernelArg};
use std::collections::BTreeMap;

/// Stands for all of them in [`Agreement::dissent`]: they agreed, on another answer than before.
pub const EVERY_SM: u32 = u32::MAX;

/// What the multiprocessors said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agreement {
    /// The answer of the majority.
    pub answer: u64,
    /// How many multiprocessors took part.
    pub took_part: u32,
    /// Those that answered differently, and how often.
    pub dissent: BTreeMap<u32, u32>,
}

impl Cuda {
    /// Has every multiprocessor do the same arithmetic of all kinds, several times over.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn agree(&self, rounds: u32, seed: u64) -> Result<Agreement, CudaError> {
        let blocks = self.sms * 16;
        let sums = Buffer::new(self, blocks as usize * 8)?;
        let wheres = Buffer::new(self, blocks as usize * 4)?;
        let f = self.function("agree")?;
        let mut args = self.stream.launch_builder(&f);
        args.arg(&rounds).arg(&seed).arg(&sums.ptr).arg(&wheres.ptr);
        let config =
            LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        launch(&mut args, config)?;
        let sums: Vec<u64> = sums.read(self, blocks as usize)?;
        let wheres: Vec<u32> = wheres.read(self, blocks as usize)?;
        Ok(evaluate(&sums, &wheres))
    }
}

fn evaluate(sums: &[u64], wheres: &[u32]) -> Agreement {
    let mut votes: BTreeMap<u64, u32> = BTreeMap::new();
    for s in sums {
        *votes.entry(*s).or_default() += 1;
    }
    let answer = votes.iter().max_by_key(|(_, n)| **n).map_or(0, |(s, _)| *s);
    let mut dissent = BTreeMap::new();
    for (s, w) in sums.iter().zip(wheres) {
        if *s != answer {
            *dissent.entry(*w).or_default() += 1;
        }
    }
    let mut seen: Vec<u32> = wheres.to_vec();
    seen.sort_unstable();
    seen.dedup();
    Agreement { answer, took_part: u32::try_from(seen.len()).unwrap_or(0), dissent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_is_right_and_the_odd_one_is_named() {
        let a = evaluate(&[7, 7, 9, 7, 9], &[0, 1, 2, 3, 2]);
        assert_eq!((a.answer, a.took_part), (7, 4));
        assert_eq!(a.dissent, BTreeMap::from([(2, 2)]));
        assert_eq!(evaluate(&[], &[]), Agreement::default());
    }
}
