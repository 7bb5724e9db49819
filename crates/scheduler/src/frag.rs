//! Which kind of node a small job should go to: the one whose choice leaves least that nobody
//! can use.

use crate::fleet::{Class, Fleet};
use crate::mig;
use crate::node::{Ask, Part, shape};

impl Fleet {
    /// Kinds of node on which the share fits now, the best first.
    pub(crate) fn by_score(&self, a: &Ask) -> Vec<&Class> {
        let mut out: Vec<(Score, &Class)> =
            self.classes.keys().filter(|c| fits(c, a)).map(|c| (score(c, a), c)).collect();
        out.sort();
        out.into_iter().map(|(_, c)| c).collect()
    }
}

type Score = (u32, u32, u32);

fn fits(c: &Class, a: &Ask) -> bool {
    a.skus >> c.sku & 1 == 1
        && c.cpus >= a.cpus
        && c.memory >= a.memory
        && (!a.simulated || c.simulated)
        && (!c.lemon || a.lemon)
        && match a.part {
            None => u32::from(c.whole) >= a.gpus,
            Some(Part::Milli(m)) => c.whole > 0 || c.shared.iter().any(|s| *s >= m),
            Some(Part::Mig(g, m)) => {
                shape(g, m).is_some_and(|p| c.mig.iter().any(|u| mig::place(*u, p).is_some()))
            }
        }
}

fn score(c: &Class, a: &Ask) -> Score {
    let whole = u32::from(c.whole);
    match a.part {
        None => (whole, 0, 0),
        Some(Part::Milli(m)) => {
            let best = c.shared.iter().filter(|s| **s >= m).min();
            best.map_or((1, whole, 0), |s| (0, u32::from(*s - m), whole))
        }
        Some(Part::Mig(g, m)) => {
            let Some(p) = shape(g, m) else { return (u32::MAX, 0, 0) };
            let loss = c
                .mig
                .iter()
                .filter_map(|u| {
                    mig::place(*u, p).map(|s| mig::worth(*u) - mig::worth(*u | mig::slices(s, m)))
                })
                .min();
            (loss.unwrap_or(u32::MAX), whole, 0)
        }
    }
}
