//! Pages made of invented runs: that they are well formed, small, and never say NaN.

use super::{ReportSheet, Run, page, page_with};
use crate::outcome::{
    FaultMark, History, Outcome, Prediction, Sample, SizeClass, SpareOutcome, Spread, Waterfall,
};

/// Elements that have no end.
const VOID: [&str; 2] = ["meta", "!doctype"];

/// Says what is wrong with the nesting of tags, if anything is.
fn unbalanced(html: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let Some(end) = rest.find('>') else { return Some(format!("no end: {rest:.40}")) };
        let tag = &rest[..end];
        if tag.contains('<') || tag.matches('"').count() % 2 == 1 {
            return Some(format!("broken tag: {tag}"));
        }
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or("");
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("</{name}> ends something else"));
            }
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
            if name == "script" || name == "style" {
                rest = &rest[rest.find("</")?..];
            }
        }
    }
    (!open.is_empty()).then(|| format!("left open: {open:?}"))
}

/// Numbers that look random and are always the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

const CAUSES: [&str; 16] = [
    "gpu_hbm",
    "gpu_fault",
    "nic",
    "link_flap",
    "software",
    "host",
    "nvlink",
    "pcie",
    "storage",
    "power_supply",
    "thermal",
    "kernel_panic",
    "silent_corruption",
    "switch",
    "dns",
    "bmc",
];

fn spread(p50: f64, count: u64) -> Spread {
    Spread { mean: p50 * 3.0, p50, p95: p50 * 14.0, p99: p50 * 60.0, count }
}

/// A life of a fleet in leaves of 64 nodes.
fn invented(nodes: u32, faults: u32, samples: u32, seed: u64) -> (Outcome, History) {
    let mut dice = Dice(seed);
    let (gpus, length_s) = (u64::from(nodes) * 8, 54.0 * 86_400.0);
    let mut history =
        History { every_s: length_s / f64::from(samples.max(1)), ..History::default() };
    let mut held = gpus * 95 / 100;
    let (mut queue, mut broken) = (0, 4);
    for i in 0..samples {
        broken =
            (broken + dice.below(2) as u32).saturating_sub(dice.below(2) as u32).min(nodes / 8);
        let in_service = gpus - u64::from(broken) * 8;
        held = (held + dice.below(gpus / 40 + 9)).saturating_sub(dice.below(gpus / 40 + 9));
        held =
            if dice.below(400) == 0 { gpus / 3 } else { held.max(gpus * 8 / 10).min(in_service) };
        queue = (queue + dice.below(gpus / 30 + 9)).saturating_sub(dice.below(gpus / 30 + 9));
        history.samples.push(Sample {
            at_s: f64::from(i) * history.every_s,
            allocated: held,
            in_service,
            waiting: queue / 64,
            waiting_gpus: queue,
            broken_nodes: broken,
            spares_ready: 12_u32.saturating_sub(broken / 2),
        });
    }
    let mut outcome = Outcome {
        scenario: "llama3-405b".into(),
        seed,
        nodes,
        gpus,
        spares: 12,
        jobs: 48_211,
        jobs_completed: 48_190,
        makespan_s: length_s,
        gpu_allocation_ratio: 0.957,
        gpu_utilization: 0.931,
        goodput: 0.9534,
        ettr: 0.9672,
        ettr_expected: Some(0.9652),
        mtbi_s: Some(11_160.0),
        lost_gpu_seconds: 61_234.0 * 3_600.0,
        preemptions: 311,
        migrations: 12,
        interruptions: u64::from(faults) * 3 / 4,
        records: 1_203_441,
        decisions: 88_211,
        wall_s: 41.2,
        peak_rss_bytes: 512_000_000,
        log_digest: "9f2c51d7b0aa43e1c7725d".into(),
        ..Outcome::default()
    };
    for i in 0..faults {
        let node = dice.below(nodes.into()).min(dice.below(u64::from(nodes) * 4)) as u32;
        let cause = CAUSES[(dice.below(16) * dice.below(16) / 16) as usize];
        let hit = dice.below(4) > 0;
        history.faults.push(FaultMark {
            at_s: length_s * f64::from(i) / f64::from(faults),
            node,
            name: format!("node-{node:05}"),
            cause: cause.into(),
            hit,
        });
        *outcome.faults.entry(cause.into()).or_default() += 1;
        if hit {
            *outcome.failures.entry(cause.into()).or_default() += 1;
        }
    }
    for leaf in 0..nodes.div_ceil(64) {
        history.leaves.push((format!("leaf-{leaf:03}"), 64.min(nodes - leaf * 64)));
    }
    let classes = ["guaranteed, high", "guaranteed, normal", "spot, normal", "standard, low"];
    for (i, class) in classes.into_iter().enumerate() {
        let mut waits: Vec<f64> = (0..3_000)
            .map(|_| {
                let (a, b) = (dice.below(1_000) as f64, dice.below(300) as f64);
                a * a * b / 4e7 * (i * i * i * 60 + 3) as f64
            })
            .collect();
        waits.sort_by(f64::total_cmp);
        history.waits.insert(class.into(), waits);
        outcome.wait_by_class.insert(class.into(), spread((i * i * 300) as f64 + 4.0, 12_000));
    }
    outcome.wait_s = spread(14.0, 48_190);
    let whole = gpus as f64 * length_s;
    outcome.waterfall = Waterfall {
        productive: whole * (0.871 - seed as f64 * 0.004),
        checkpoint: whole * 0.011,
        restart: whole * (0.018 + seed as f64 * 0.004),
        lost: whole * 0.0146,
        degraded: whole * 0.0004,
        queued: whole * 0.031,
        idle: whole * 0.042,
        spare: 0.0,
        broken: whole * 0.012,
    };
    for i in 0..9_u32 {
        outcome.by_size.push(SizeClass {
            gpus_from: if i == 0 { 1 } else { (8 << i) / 2 + 1 },
            gpus_to: 8 << i,
            jobs: 20_000 >> i,
            ettr: 0.9991 - 0.0006 * f64::from(i) * f64::from(i * i),
            interruptions: u64::from(i * i * i),
            running_s: 86_400.0 * 900.0 / f64::from(i + 1),
            mtbi_s: (i > 0).then(|| 86_400.0 * 30.0 / f64::from(i * i * i)),
            interrupted_share: 0.001 * f64::from(i * i),
            wait_s: spread(f64::from(i * i * 40) + 2.0, 20_000 >> i),
        });
    }
    outcome.spares_found =
        Some(SpareOutcome { needed: 302, found: 299, share: 0.99, interval: [0.971, 0.997] });
    outcome.prediction =
        Some(Prediction { signs: 91, right: 70, failures: 302, precision: 0.769, recall: 0.232 });
    (outcome, history)
}

fn run<'a>(label: &'a str, (outcome, history): &'a (Outcome, History)) -> Run<'a> {
    Run { label, about: "What it teaches, in a paragraph.", outcome, history }
}

fn sound(html: &str) {
    assert_eq!(unbalanced(html), None);
    for bad in ["NaN", "inf ", "inf%", "inf\"", "http:", "https:", "//", "@import", "url(h"] {
        assert!(!html.replace("// Shows", "").contains(bad), "the page says {bad}");
    }
}

#[test]
fn the_checker_sees_what_is_wrong() {
    assert_eq!(unbalanced("<!doctype html><p>a<b>b</b><path/></p>"), None);
    assert!(unbalanced("<p><b></p></b>").is_some());
    assert!(unbalanced("<p>").is_some());
    assert!(unbalanced("<p class=\"a>").is_some());
}

#[test]
fn one_run_is_a_sound_page() {
    let one = invented(2_048, 419, 8_000, 1);
    let html = page(&[run("seed 1", &one)], "muster sim run llama3 --seed 1");
    sound(&html);
    for said in
        ["16,384 GPUs", "54 d long", "96.7%", "formula expects 96.5%", "3.1 h", "9f2c51d7b0aa<"]
    {
        assert!(html.contains(said), "{said}");
    }
    assert!(html.contains("muster sim run llama3 --seed 1"));
    assert!(html.contains(env!("CARGO_PKG_VERSION")));
    assert!(!html.contains("<details"));
}

#[test]
fn several_runs_are_compared() {
    let all = [invented(64, 40, 500, 1), invented(64, 30, 500, 2), invented(64, 20, 500, 3)];
    let runs: Vec<Run<'_>> = ["a", "b", "c"].iter().zip(&all).map(|(l, o)| run(l, o)).collect();
    let html = page(&runs, "muster sim sweep");
    sound(&html);
    assert_eq!(html.matches("<details").count(), 3);
    assert_eq!(html.matches("<details open").count(), 1);
    assert!(html.contains("mean of 3"));
}

#[test]
fn a_sheet_stands_in_the_place_of_the_key_figures() {
    let all = [invented(64, 40, 500, 1), invented(64, 30, 500, 2)];
    let runs: Vec<Run<'_>> = ["a", "b"].iter().zip(&all).map(|(l, o)| run(l, o)).collect();
    let sheet = ReportSheet {
        title: "A <and> B".into(),
        note: "paired".into(),
        heads: vec!["figure".into(), "A".into()],
        rows: vec![vec!["ETTR".into(), "0.9 & more".into()]],
    };
    for runs in [&runs[..], &runs[..1]] {
        let html = page_with(runs, "muster sim compare", Some(&sheet));
        sound(&html);
        assert!(html.contains("A &lt;and&gt; B") && html.contains("0.9 &amp; more"));
        assert!(!html.contains("mean of"), "runs of different scenarios have no mean");
    }
}

#[test]
fn nothing_to_report_is_reported() {
    sound(&page(&[], ""));
    let empty = (Outcome::default(), History::default());
    let html = page(&[run("", &empty)], "");
    sound(&html);
    for said in
        ["No samples", "No GPU time", "No job ran", "No waits", "No fault", "Nothing failed"]
    {
        assert!(html.contains(said), "{said}");
    }
    sound(&page(&[run("", &empty), run("", &empty)], ""));
}

#[test]
fn figures_that_are_no_numbers_are_not_printed() {
    let mut broken = invented(16, 5, 10, 1);
    let o = &mut broken.0;
    for x in
        [&mut o.ettr, &mut o.goodput, &mut o.makespan_s, &mut o.lost_gpu_seconds, &mut o.wall_s]
    {
        *x = f64::NAN;
    }
    o.mtbi_s = Some(f64::INFINITY);
    o.waterfall.idle = f64::INFINITY;
    o.waterfall.lost = f64::NAN;
    o.by_size[0].ettr = f64::NAN;
    o.wait_s.p50 = f64::NAN;
    broken.1.samples[3].at_s = f64::NAN;
    broken.1.faults[0].at_s = f64::INFINITY;
    broken.1.waits.insert("odd".into(), vec![f64::NAN, f64::INFINITY, -1.0, 1e300]);
    sound(&page(&[run("x", &broken)], ""));
    sound(&page(&[run("x", &broken), run("y", &broken)], ""));
}

#[test]
fn one_sample_and_one_fault_at_the_beginning_are_enough() {
    let mut one = invented(8, 1, 1, 1);
    one.0.makespan_s = 0.0;
    sound(&page(&[run("x", &one)], ""));
}

#[test]
fn names_stay_names() {
    let evil = "<script>alert('x')</script>\"&";
    let mut one = invented(16, 5, 10, 1);
    one.0.scenario = evil.into();
    one.0.log_digest = evil.into();
    one.0.faults.insert(evil.into(), 1);
    one.0.wait_by_class.insert(evil.into(), Spread::default());
    one.1.waits.insert(evil.into(), vec![1.0]);
    one.1.leaves[0].0 = evil.into();
    one.1.faults[0].name = evil.into();
    one.1.faults[1].cause = evil.into();
    let r = Run { label: evil, about: evil, outcome: &one.0, history: &one.1 };
    for html in [page(&[r], evil), page(&[r, r], evil)] {
        sound(&html);
        assert_eq!(html.matches("<script>").count(), 1);
        assert!(!html.contains("alert('"));
    }
}

#[test]
fn the_largest_fleet_stays_small() {
    let large = invented(12_500, 10_000, 100_000, 1);
    let html = page(&[run("x", &large)], "");
    sound(&html);
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    let unhealthy = invented(12_500, 100_000, 100_000, 1);
    let html = page(&[run("x", &unhealthy)], "");
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
}

#[test]
fn the_same_run_makes_the_same_page() {
    let one = invented(64, 40, 500, 1);
    assert_eq!(page(&[run("a", &one)], "x"), page(&[run("a", &one)], "x"));
}

/// Writes pages to look at into `MUSTER_REPORT_OUT`.
#[test]
#[ignore = "writes files for a person to look at"]
#[allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "writes files")]
fn pages_to_look_at() {
    let dir =
        std::path::PathBuf::from(std::env::var("MUSTER_REPORT_OUT").expect("MUSTER_REPORT_OUT"));
    let write = |name: &str, runs: &[Run<'_>]| {
        let html =
            page(runs, "muster sim run examples/scenarios/llama3.toml --seed 1 --report out.html");
        println!("{name}: {} bytes", html.len());
        std::fs::write(dir.join(name), html).expect("the folder takes files");
    };
    let about = "The 54 days of a 16,384-GPU training run with its published failure rates, and \
                 what hot spares and fast detection make of them.";
    let titled = |label, one: &'static (Outcome, History)| Run { about, ..run(label, one) };
    let keep = |one| -> &'static (Outcome, History) { Box::leak(Box::new(one)) };
    write("one.html", &[titled("seed 1", keep(invented(2_048, 419, 8_000, 1)))]);
    write("small.html", &[titled("seed 1", keep(invented(128, 60, 300, 2)))]);
    write("large.html", &[titled("seed 1", keep(invented(12_500, 10_000, 100_000, 3)))]);
    write("empty.html", &[titled("seed 1", keep((Outcome::default(), History::default())))]);
    let runs: Vec<Run<'_>> = (1..=5)
        .map(|seed| {
            titled(format!("hot spares, seed {seed}").leak(), keep(invented(256, 90, 900, seed)))
        })
        .collect();
    write("several.html", &runs);
}
