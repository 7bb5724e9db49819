//! What stands in the way of work that waits.

use super::Site;
use crate::outcome::{History, Outcome};
use std::collections::BTreeMap;

/// From this percentage on, it is the number of GPUs that is short.
const NEARLY: u64 = 85;

/// With a shorter mean wait nothing binds, in seconds.
const HARDLY_S: f64 = 0.5;

/// What one life showed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SaturationCounts {
    /// Moments that were looked at, those at which somebody waited, and those of them at which
    /// nearly every GPU was held.
    moments: u64,
    waited: u64,
    full: u64,
    /// Failed nodes that needed a spare, and those that found one.
    needed: u64,
    found: u64,
}

impl SaturationCounts {
    /// `wait_s`: the mean wait. Work that starts at once is in the queue for a moment, and a life
    /// of a few moments may be looked at just then.
    pub(crate) fn of(h: &History, spare_gpus: u64, o: &Outcome, wait_s: f64) -> SaturationCounts {
        let mut s = SaturationCounts::default();
        for x in &h.samples {
            s.moments += 1;
            if x.waiting == 0 || wait_s < HARDLY_S {
                continue;
            }
            s.waited += 1;
            let usable = x.in_service.saturating_sub(spare_gpus);
            // Some are always free: on their way to the next job, or too few beside others.
            s.full += u64::from(x.allocated * 100 >= usable * NEARLY);
        }
        if let Some(f) = &o.spares_found {
            (s.needed, s.found) = (f.needed, f.found);
        }
        s
    }

    pub(crate) fn and(self, o: SaturationCounts) -> SaturationCounts {
        SaturationCounts {
            moments: self.moments + o.moments,
            waited: self.waited + o.waited,
            full: self.full + o.full,
            needed: self.needed + o.needed,
            found: self.found + o.found,
        }
    }

    /// In words, for a site in which jobs are kept from starting by `other` when it is not the
    /// number of GPUs.
    pub(crate) fn words(self, other: Option<&str>, spares: u32) -> String {
        let percent = |part: u64, whole: u64| (part * 100).checked_div(whole).unwrap_or(0);
        let waits = percent(self.waited, self.moments);
        let full = percent(self.full, self.waited);
        let mut text = if self.waited == 0 || waits == 0 {
            "nothing: hardly any job waits".to_string()
        } else if full >= 50 {
            format!(
                "GPUs: jobs wait {waits}% of the time, and in {full}% of that at least {NEARLY}% \
                 of the GPUs are allocated"
            )
        } else {
            let what = other.unwrap_or("where the free GPUs are (gangs do not fit next to others)");
            format!(
                "not the number of GPUs: jobs wait {waits}% of the time, and in {}% of that GPUs \
                 are free; what keeps them from it is {what}",
                100 - full
            )
        };
        if spares > 0 && self.needed > 0 && self.found * 100 < self.needed * 99 {
            text.push_str(&format!(
                "; of {} failures of nodes under gangs {} found a spare at once",
                self.needed, self.found
            ));
        }
        text
    }
}

/// Waiting jobs that are asked.
const ASKED: usize = 50;

/// What keeps most of the waiting jobs from starting now, other than others who hold the GPUs.
pub(crate) fn other(site: &Site) -> Option<String> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for id in site.state.queue().take(ASKED) {
        let Some(e) = site.state.why(id, site.now) else { continue };
        if let Some(c) = e.constraints.iter().find(|c| c.binding) {
            *count.entry(c.name.clone()).or_default() += 1;
        }
    }
    let most = count.into_iter().max_by_key(|(_, n)| *n)?;
    let words = match most.0.as_str() {
        "quota" => "the quotas",
        "user limit" => "the limits of each user",
        "power" => "the budgets of power",
        "reservation" => "the reservations of others",
        "topology" => "that gangs must stay within one domain",
        _ => return None,
    };
    Some(words.into())
}
