//! How long a job runs that only says how many steps it makes.

use crate::traces::TraceJob;
use muster_model::units::Span;

/// Steps in 1000 s on one V100, as measured by Gavel's authors (Narayanan et al., OSDI'20;
/// `simulation_throughputs.json` of stanford-futuredata/gavel, MIT).
const STEPS_PER_1000_S: [(&str, u64); 26] = [
    ("A3C", 7176),
    ("CycleGAN", 4426),
    ("LM (batch size 10)", 81_652),
    ("LM (batch size 20)", 64_742),
    ("LM (batch size 40)", 45_237),
    ("LM (batch size 5)", 109_167),
    ("LM (batch size 80)", 28_240),
    ("Recommendation (batch size 1024)", 13_283),
    ("Recommendation (batch size 2048)", 7470),
    ("Recommendation (batch size 4096)", 3906),
    ("Recommendation (batch size 512)", 23_318),
    ("Recommendation (batch size 8192)", 2842),
    ("ResNet-18 (batch size 128)", 17_995),
    ("ResNet-18 (batch size 16)", 32_353),
    ("ResNet-18 (batch size 256)", 10_300),
    ("ResNet-18 (batch size 32)", 29_947),
    ("ResNet-18 (batch size 64)", 24_093),
    ("ResNet-50 (batch size 128)", 2497),
    ("ResNet-50 (batch size 16)", 11_396),
    ("ResNet-50 (batch size 32)", 7787),
    ("ResNet-50 (batch size 64)", 4395),
    ("Transformer (batch size 128)", 5446),
    ("Transformer (batch size 16)", 11_064),
    ("Transformer (batch size 256)", 1595),
    ("Transformer (batch size 32)", 10_621),
    ("Transformer (batch size 64)", 8618),
];

/// What a reader of the figures must know.
pub const ASSUMED: &str = "the trace names steps, not run times: each job makes as many steps a \
                           second as its model made on one V100 in Gavel's measurements, whatever \
                           its size";

/// Gives every job the time that its steps take. Jobs whose model is not known are taken out of
/// the list and counted by model.
#[must_use]
pub fn timed(jobs: Vec<TraceJob>) -> (Vec<TraceJob>, std::collections::BTreeMap<String, u64>) {
    let mut unknown = std::collections::BTreeMap::new();
    let mut out = Vec::with_capacity(jobs.len());
    for mut j in jobs {
        let model = j.work.as_deref().unwrap_or_default();
        let rate = STEPS_PER_1000_S.iter().find(|(name, _)| *name == model).map(|(_, r)| *r);
        if let (Some(rate), Some(steps)) = (rate, j.steps) {
            j.run = Some(Span(steps.saturating_mul(1_000_000) / rate));
            out.push(j);
        } else {
            *unknown.entry(model.to_string()).or_default() += 1;
        }
    }
    (out, unknown)
}
