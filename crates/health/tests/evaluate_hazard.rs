//! The hazard model against the lives of Titan's GPUs: fitted on one half of the serial numbers,
//! measured on the other. `MUSTER_HAZARD_OUT=FILE` also writes what was measured.
//!
//! A GPU's life is cut into months of 30 days from each time it was put into a slot. A month counts
//! when it was watched to its end, or to a failure: a double-bit error or the GPU off the bus.

use flate2::read::MultiGzDecoder;
use muster_health::hazard::{Model, Precursors, RECENT, Slot, TITAN};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

const MONTH: f64 = 30.0;
const CAGES: [Slot; 3] = [Slot::Cool, Slot::Middle, Slot::Hot];
/// Never failed, failed long ago, failed lately.
const PAST: [Option<u32>; 3] = [None, Some(RECENT + 1), Some(RECENT)];
/// The age bin and the cage that the base rate is about.
const AGE_REF: usize = 5;

/// Months and months with a failure.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    months: u64,
    failed: u64,
}

/// Age, cage, past.
type Key = (usize, usize, usize);
type Cells = BTreeMap<Key, Cell>;
/// Time in one slot: from, to, cage.
type SlotSpan = (f64, f64, usize);

#[derive(Default)]
struct Data {
    serials: usize,
    /// Those to fit, those to measure.
    halves: [Cells; 2],
    /// The measured half by calendar year.
    years: BTreeMap<u32, Cells>,
}

fn traces() -> Option<PathBuf> {
    let dir = std::env::var_os("MUSTER_TRACES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
        PathBuf::from,
    );
    let file = dir.join("titan-gpu-life/gc_full.csv.gz");
    muster_testkit::data(file.exists(), "no traces of Titan: name their folder in MUSTER_TRACES")
        .then_some(file)
}

/// `2014-01-21 10:28:50` in days since some day, and the year.
fn moment(text: &str) -> (f64, u32) {
    let n: Vec<u32> = text.split(['-', ' ', ':']).map(|p| p.parse().expect("a number")).collect();
    let (y, m) = if n[1] > 2 { (n[0], n[1] - 3) } else { (n[0] - 1, n[1] + 9) };
    let day = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + n[2];
    (f64::from(day) + f64::from(n[3] * 3600 + n[4] * 60 + n[5]) / 86_400.0, n[0])
}

/// Halves by a hash of the serial number: neighbours in a batch must not go to the same one.
fn half(serial: &str) -> usize {
    let fnv = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    ((serial.bytes().fold(0xcbf2_9ce4_8422_2325, fnv) >> 32) & 1) as usize
}

/// `c11-2c1s4n1`: the cage is the figure after the second c, 0 at the bottom, where the air is cool.
fn cage(location: &str) -> usize {
    let after = location.rsplit_once('c').expect("a cage").1;
    usize::from(after.as_bytes()[0] - b'0')
}

fn age_bin(days: f64) -> usize {
    TITAN.age.iter().rposition(|(from, _)| days >= f64::from(*from)).unwrap_or(0)
}

fn read(file: &Path) -> Data {
    let mut text = String::new();
    let raw = std::fs::File::open(file).expect("the file opens");
    MultiGzDecoder::new(raw).read_to_string(&mut text).expect("gzip");
    // Lives and failures of each serial number.
    let mut gpus: BTreeMap<&str, (Vec<SlotSpan>, Vec<f64>)> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let f: Vec<&str> = line.split(',').map(|f| f.trim_matches('"')).collect();
        let [serial, location, insert, remove, .., event] = f[..] else { continue };
        let gpu = gpus.entry(serial).or_default();
        let end = moment(remove).0;
        if !insert.is_empty() {
            gpu.0.push((moment(insert).0, end, cage(location)));
        }
        if !event.is_empty() {
            gpu.1.push(end);
        }
    }
    let years: Vec<(f64, u32)> =
        (2010..2025).map(|y| moment(&format!("{y}-01-01 00:00:00"))).collect();
    let year_of = |t: f64| years.iter().rev().find(|(from, _)| t >= *from).map_or(0, |y| y.1);
    let mut data = Data { serials: gpus.len(), ..Data::default() };
    for (serial, (mut lives, mut failures)) in gpus {
        lives.sort_by(|a, b| a.0.total_cmp(&b.0));
        failures.sort_by(f64::total_cmp);
        let born = lives.first().map_or(0.0, |l| l.0);
        for (from, to, cage) in lives {
            let mut t = from;
            while t < to {
                let fails = failures.iter().any(|e| *e > t && *e <= t + MONTH);
                if !fails && t + MONTH > to {
                    break;
                }
                let last = failures.iter().rev().find(|e| **e <= t);
                let past = last.map_or(0, |e| if t - e > f64::from(RECENT) { 1 } else { 2 });
                let key = (age_bin(t - born), cage, past);
                let note = |cells: &mut Cells| {
                    let c = cells.entry(key).or_default();
                    c.months += 1;
                    c.failed += u64::from(fails);
                };
                note(&mut data.halves[half(serial)]);
                if half(serial) == 1 {
                    note(data.years.entry(year_of(t)).or_default());
                }
                t += MONTH;
            }
        }
    }
    data
}

fn chance(rate: f64) -> f64 {
    1.0 - (-rate).exp()
}

/// Factors for which each margin (age, cage, past) fails as often as was seen: the base rate at the
/// reference, then age, cage and past relative to it.
fn fit(cells: &Cells) -> (f64, [Vec<f64>; 3]) {
    let pick = |k: &Key, d: usize| [k.0, k.1, k.2][d];
    let mut f = [vec![0.01; TITAN.age.len()], vec![1.0; 3], vec![1.0; 3]];
    for _ in 0..200 {
        for d in 0..3 {
            let mut seen = vec![0.0; f[d].len()];
            let mut forecast = seen.clone();
            for (k, c) in cells {
                let rate = f[0][k.0] * f[1][k.1] * f[2][k.2];
                seen[pick(k, d)] += c.failed as f64;
                forecast[pick(k, d)] += c.months as f64 * chance(rate);
            }
            for i in 0..f[d].len() {
                f[d][i] *= seen[i] / forecast[i];
            }
        }
    }
    let base = f[0][AGE_REF] * f[1][1] * f[2][0];
    let reference = [f[0][AGE_REF], f[1][1], f[2][0]];
    for (factors, by) in f.iter_mut().zip(reference) {
        factors.iter_mut().for_each(|x| *x /= by);
    }
    (base, f)
}

fn predicted(model: &Model, key: Key) -> f64 {
    let p = Precursors {
        age_days: Some(TITAN.age[key.0].0),
        slot: Some(CAGES[key.1]),
        failed_days_ago: PAST[key.2],
        ..Precursors::default()
    };
    f64::from(model.chance_ppm(&p)) / 1e6
}

fn sum(cells: &Cells) -> Cell {
    cells.values().fold(Cell::default(), |a, c| Cell {
        months: a.months + c.months,
        failed: a.failed + c.failed,
    })
}

/// Mean square of chance minus what happened.
fn brier(cells: &Cells, chance: impl Fn(Key) -> f64) -> f64 {
    let of = |(k, c): (&Key, &Cell)| {
        let p = chance(*k);
        c.failed as f64 * (1.0 - p) * (1.0 - p) + (c.months - c.failed) as f64 * p * p
    };
    cells.iter().map(of).sum::<f64>() / sum(cells).months as f64
}

/// How often a month with a failure was given a higher chance than one without.
fn auc(cells: &Cells) -> f64 {
    let mut by: Vec<(f64, Cell)> = cells.iter().map(|(k, c)| (predicted(&TITAN, *k), *c)).collect();
    by.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut won) = (0.0, 0.0);
    for (_, c) in &by {
        let good = (c.months - c.failed) as f64;
        won += c.failed as f64 * (below + good / 2.0);
        below += good;
    }
    won / (sum(cells).failed as f64 * below)
}

/// Months, failures predicted and failures seen where the chance lies within bounds.
fn band(cells: &Cells, from: f64, to: f64) -> (u64, f64, u64) {
    let within = cells.iter().filter(|(k, _)| (from..to).contains(&predicted(&TITAN, **k)));
    within.fold((0, 0.0, 0), |a, (k, c)| {
        (a.0 + c.months, a.1 + c.months as f64 * predicted(&TITAN, *k), a.2 + c.failed)
    })
}

fn report(data: &Data) -> String {
    let [train, test] = &data.halves;
    let (a, b) = (sum(train), sum(test));
    let base = a.failed as f64 / a.months as f64;
    let mut o = String::from("{\n  \"name\": \"hazard-titan\",\n");
    let mut line = |text: String| writeln!(o, "{text}").expect("a string grows");
    line(format!("  \"serials\": {},", data.serials));
    for (name, c) in [("fitted", a), ("measured", b)] {
        line(format!("  \"{name}\": {{ \"months\": {}, \"failed\": {} }},", c.months, c.failed));
    }
    let (model, plain) = (brier(test, |k| predicted(&TITAN, k)), brier(test, |_| base));
    line(format!(
        "  \"brier\": {{ \"model\": {model:.6}, \"base_rate\": {plain:.6}, \"skill\": {:.4} }},",
        1.0 - model / plain
    ));
    line(format!("  \"auc\": {:.4},", auc(test)));
    line("  \"calibration\": [".into());
    let edges = [0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.01];
    for (i, w) in edges.windows(2).enumerate() {
        let (months, expected, failed) = band(test, w[0], w[1]);
        let n = (months as f64).max(1.0);
        let comma = if i + 2 < edges.len() { "," } else { "" };
        line(format!(
            "    {{ \"from\": {}, \"months\": {months}, \"told\": {:.5}, \"seen\": {:.5}, \"failed\": {failed} }}{comma}",
            w[0],
            expected / n,
            failed as f64 / n
        ));
    }
    line("  ],\n  \"thresholds\": [".into());
    let cuts = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2];
    for (i, cut) in cuts.into_iter().enumerate() {
        let (months, _, failed) = band(test, cut, 1.01);
        let precision = failed as f64 / (months as f64).max(1.0);
        let comma = if i + 1 < cuts.len() { "," } else { "" };
        line(format!(
            "    {{ \"at\": {cut}, \"flagged\": {months}, \"precision\": {precision:.4}, \"times_base_rate\": {:.1}, \"recall\": {:.4} }}{comma}",
            precision / base,
            failed as f64 / b.failed as f64
        ));
    }
    line("  ],\n  \"years\": [".into());
    for (i, (year, cells)) in data.years.iter().enumerate() {
        let (months, expected, failed) = band(cells, 0.0, 1.01);
        let comma = if i + 1 < data.years.len() { "," } else { "" };
        line(format!(
            "    {{ \"year\": {year}, \"months\": {months}, \"told\": {expected:.1}, \"failed\": {failed} }}{comma}"
        ));
    }
    line("  ]\n}".into());
    o
}

#[test]
fn titans_gpus_fail_as_often_as_the_model_says() {
    let Some(file) = traces() else { return };
    let data = read(&file);
    let (base, factors) = fit(&data.halves[0]);
    println!("base {:.1} millionths a month; age, cage and past:\n{factors:.4?}", base * 1e6);
    let report = report(&data);
    println!("{report}");
    if let Some(out) = std::env::var_os("MUSTER_HAZARD_OUT") {
        std::fs::write(out, &report).expect("the file is written");
    }
    // The figures in the code are those of the fit.
    let near = |code: u32, fit: f64| (f64::from(code) - fit).abs() <= fit * 0.01 + 0.51;
    assert!(near(TITAN.base_ppm, base * 1e6), "{base}");
    for ((_, code), fit) in TITAN.age.iter().zip(&factors[0]) {
        assert!(near(*code, fit * 1000.0), "age {fit}");
    }
    for (code, fit) in TITAN.slot.iter().zip(&factors[1]) {
        assert!(near(*code, fit * 1000.0), "slot {fit}");
    }
    let past = [1000, TITAN.failed_once, TITAN.failed_lately];
    for (code, fit) in past.iter().zip(&factors[2]) {
        assert!(near(*code, fit * 1000.0), "past {fit}");
    }
    // On GPUs that it has not seen: better than the base rate, and right on the whole.
    let test = &data.halves[1];
    let all = sum(&data.halves[0]);
    let plain = all.failed as f64 / all.months as f64;
    assert!(brier(test, |k| predicted(&TITAN, k)) < brier(test, |_| plain));
    let (_, expected, failed) = band(test, 0.0, 1.01);
    assert!((expected / failed as f64 - 1.0).abs() < 0.25, "{expected} predicted, {failed} seen");
    assert!(auc(test) > 0.75);
}
