//! From a life that ends badly to the shortest one that still does.

use super::acts::SiteScript;
use super::test_site::TestSite;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Lives a life. What went wrong, if anything did.
pub(crate) fn run_script(life: &SiteScript) -> Option<String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| TestSite::new(life.clone()).run()));
    outcome.unwrap_or_else(|p| {
        let text = p.downcast_ref::<String>().cloned();
        let text = text.or_else(|| p.downcast_ref::<&str>().map(ToString::to_string));
        Some(format!("panicked: {}", text.unwrap_or_default()))
    })
}

/// Leaves out whatever is not needed for the life to end badly.
pub(crate) fn shrink(life: &SiteScript, within: Duration) -> SiteScript {
    let until = Instant::now() + within;
    let mut best = life.clone();
    let smaller = |best: &mut SiteScript, try_it: SiteScript| {
        let bad = Instant::now() < until && run_script(&try_it).is_some();
        if bad {
            *best = try_it;
        }
        bad
    };
    for (late, twice) in [(1, 0), (20, 0), (best.late, 0)] {
        let calmer = SiteScript { late, twice, ..best.clone() };
        if calmer != best && smaller(&mut best, calmer) {
            break;
        }
    }
    loop {
        let before = best.clone();
        let mut size = best.acts.len().div_ceil(2).max(1);
        loop {
            let mut from = 0;
            while from < best.acts.len() {
                let mut acts = best.acts.clone();
                let to = (from + size).min(acts.len());
                // The time they took still passes.
                let waits: u32 = acts.drain(from..to).map(|(wait, _)| wait).sum();
                let mut later = acts.clone();
                if let Some(next) = later.get_mut(from) {
                    next.0 = next.0.saturating_add(waits);
                }
                let (sooner, later) = (
                    SiteScript { acts, ..best.clone() },
                    SiteScript { acts: later, ..best.clone() },
                );
                if !smaller(&mut best, sooner) && !smaller(&mut best, later) {
                    from += size;
                }
            }
            if size == 1 {
                break;
            }
            size = size.div_ceil(2);
        }
        for spares in 0..best.spares {
            let fewer = SiteScript { spares, ..best.clone() };
            smaller(&mut best, fewer);
        }
        if best == before || Instant::now() >= until {
            return best;
        }
    }
}

/// The life as a test that can be kept.
pub(crate) fn as_test(life: &SiteScript, why: &str) -> String {
    let SiteScript { seed, nodes, gpus, spares, late, twice, acts } = life;
    let acts: String =
        acts.iter().map(|(wait, act)| format!("        ({wait}, {act:?}),\n")).collect();
    format!(
        "// {}\n#[test]\nfn seed_{seed}() {{\n    check(({seed}, {nodes}, {gpus}, {spares}, {late}, {twice}), &[\n{acts}    ]);\n}}\n",
        why.lines().next().unwrap_or_default()
    )
}
