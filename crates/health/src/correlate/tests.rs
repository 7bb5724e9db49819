use super::*;
use crate::draw::Draw;
use muster_model::ids::JobId;
use proptest::prelude::*;

/// 512 nodes: 4 spines of 8 leaves of 16 nodes, 4 racks to a leaf, 8 feeds, two drivers.
struct Fleet {
    nodes: Vec<(NodeName, Location)>,
    old: BTreeMap<String, String>,
    new: BTreeMap<String, String>,
}

fn driver(v: &str) -> BTreeMap<String, String> {
    [("driver".to_owned(), v.to_owned())].into()
}

impl Fleet {
    fn new(n: usize) -> Fleet {
        let nodes = (0..n).map(|i| {
            let name: NodeName = format!("n{i}").parse().unwrap();
            let at = Location {
                region: "eu".into(),
                cluster: "c1".into(),
                spine: format!("s{}", i / 128),
                leaf: format!("l{}", i / 16),
                rack: format!("r{}", i / 4),
                nvlink: name.to_string(),
                feed: format!("f{}", i / 4 % 8),
                rails: Vec::new(),
            };
            (name, at)
        });
        Fleet { nodes: nodes.collect(), old: driver("570"), new: driver("580") }
    }

    fn is_new(i: usize) -> bool {
        i.is_multiple_of(10)
    }

    fn place(&self, i: usize) -> NodeTraits<'_> {
        let (node, location) = &self.nodes[i];
        let versions = if Fleet::is_new(i) { &self.new } else { &self.old };
        let pool = if i.is_multiple_of(2) { "train" } else { "serve" };
        NodeTraits { node, location, pool, sku: "h100", versions }
    }

    fn size(&self, e: &Entity) -> u32 {
        let n = (0..self.nodes.len()).filter(|i| {
            let p = self.place(*i);
            match e {
                Entity::Site => true,
                Entity::Domain(l, _) => Entity::domain(*l, p.node, p.location) == *e,
                Entity::Feed(f) => p.location.feed == *f,
                Entity::Pool(x) => p.pool == x,
                Entity::Sku(x) => p.sku == x,
                Entity::Version(c, v) => p.versions.get(c) == Some(v),
                // Jobs are 8 nodes in a row, unless a test says otherwise.
                Entity::Job(_) => *i < 8,
                _ => false,
            }
        });
        u32::try_from(n.count()).unwrap()
    }
}

/// What the tests write: which node, kind, second and attempt.
#[derive(Clone, Copy)]
struct Note(usize, &'static str, u64, Option<(u64, u32)>);

fn ask(fleet: &Fleet, notes: &[Note], size: &dyn Fn(&Entity) -> u32) -> Vec<Common> {
    let t0 = Time(1_000_000_000);
    let entities: Vec<Entity> =
        notes.iter().map(|n| Entity::Node(fleet.nodes[n.0].0.clone())).collect();
    let hits: Vec<CorrelationInput<'_>> = notes
        .iter()
        .zip(&entities)
        .zip(1..)
        .map(|((n, entity), id)| CorrelationInput {
            id,
            kind: n.1,
            severity: mode(n.1).unwrap().severity,
            entity,
            at: t0 + Span::secs(n.2),
            place: Some(fleet.place(n.0)),
            attempt: n.3.map(|(job, attempt)| AttemptKey { job: JobId(job), attempt }),
            template: None,
            image: None,
        })
        .collect();
    let now = hits.iter().map(|h| h.at).max().unwrap_or(t0);
    correlate(&hits, size, now)
}

fn causes(fleet: &Fleet, notes: &[Note]) -> Vec<(String, String, usize)> {
    ask(fleet, notes, &|e| fleet.size(e))
        .into_iter()
        .map(|c| (c.cause.to_string(), c.kind, c.findings.len()))
        .collect()
}

fn one(cause: &str, kind: &str, n: usize) -> Vec<(String, String, usize)> {
    vec![(cause.to_owned(), kind.to_owned(), n)]
}

fn s(i: usize) -> u64 {
    u64::try_from(i).unwrap()
}

#[test]
fn a_leaf_explains_its_racks() {
    let fleet = Fleet::new(512);
    let notes: Vec<Note> = (32..48).map(|i| Note(i, "link-down", s(i), None)).collect();
    assert_eq!(causes(&fleet, &notes), one("leaf:eu/c1/s0/l2", "leaf-loss", 16));
    // Also when half of it has not spoken yet, and something unrelated happens elsewhere.
    let mut some: Vec<Note> = notes.iter().copied().step_by(2).collect();
    some.push(Note(400, "ecc-uncorrectable", 40, None));
    assert_eq!(causes(&fleet, &some), one("leaf:eu/c1/s0/l2", "leaf-loss", 8));
}

#[test]
fn a_rack_is_not_called_a_feed_nor_a_leaf() {
    let fleet = Fleet::new(512);
    let mut notes: Vec<Note> = (100..104).map(|i| Note(i, "node-lost", s(i), None)).collect();
    let rack = one("rack:eu/c1/s0/l6/r25", "rack-loss", 4);
    assert_eq!(causes(&fleet, &notes), rack);
    // One more node of the same feed, and one of the same leaf.
    notes.extend([Note(132, "node-lost", 110, None), Note(96, "ecc-uncorrectable", 90, None)]);
    assert_eq!(causes(&fleet, &notes), rack);
}

#[test]
fn a_feed_takes_its_racks_with_it() {
    let fleet = Fleet::new(512);
    let notes: Vec<Note> =
        (0..512).filter(|i| i / 4 % 8 == 3).map(|i| Note(i, "node-lost", 7, None)).collect();
    assert_eq!(causes(&fleet, &notes), one("feed:f3", "feed-loss", 64));
}

#[test]
fn two_leaves_at_once_are_two() {
    let fleet = Fleet::new(512);
    let notes: Vec<Note> =
        (0..16).chain(304..320).map(|i| Note(i, "link-down", s(i % 9), None)).collect();
    let found = causes(&fleet, &notes);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|c| c.1 == "leaf-loss" && c.2 == 16), "{found:?}");
}

#[test]
fn a_version_that_fails_is_named_and_everybodys_is_not() {
    let fleet = Fleet::new(512);
    let bad: Vec<Note> = (0..8).map(|i| Note(i * 50, "driver-hang", s(i) * 1800, None)).collect();
    assert_eq!(causes(&fleet, &bad), one("version:driver/580", "bad-version", 8));
    // As many on nodes of both versions: nobody's fault in particular.
    let both: Vec<Note> =
        (0..8).map(|i| Note(i * 51 + 3, "driver-hang", s(i) * 1800, None)).collect();
    assert_eq!(causes(&fleet, &both), vec![]);
}

#[test]
fn a_crash_over_77_nodes_in_11_racks_is_attributed_to_the_job() {
    let fleet = Fleet::new(512);
    let nodes = || (0..77).map(|i| 64 + (i / 7) * 4 * 3 + i % 7);
    for kind in ["app-fault", "oom"] {
        let notes: Vec<Note> = nodes().map(|i| Note(i, kind, s(i % 3), Some((9, 1)))).collect();
        assert_eq!(causes(&fleet, &notes), one("job:9", "app-spray", 77));
    }
    // The same errors without a job name no cause, and never a rack.
    let notes: Vec<Note> = nodes().map(|i| Note(i, "app-fault", 1, None)).collect();
    assert_eq!(causes(&fleet, &notes), vec![]);
    // Hardware kinds on all its nodes at once, over many racks: still the job.
    let notes: Vec<Note> =
        nodes().map(|i| Note(i, "gpu-reset-needed", s(i % 3), Some((9, 1)))).collect();
    let size = |e: &Entity| if matches!(e, Entity::Job(_)) { 77 } else { fleet.size(e) };
    let found = ask(&fleet, &notes, &size);
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].cause, found[0].kind.as_str()), (&Entity::Job(JobId(9)), "node-killer"));
    let words = &found[0].summary;
    assert!(words.starts_with("77 nodes failed under job 9 (77 nodes) within "), "{words}");
    assert!(words.ends_with(": gpu-reset-needed on 77 nodes; none elsewhere"), "{words}");
}

#[test]
fn what_a_dead_gpu_sprayed_is_its_own_incident() {
    let fleet = Fleet::new(512);
    let mut notes: Vec<Note> =
        (0..32).map(|i| Note(i * 3, "app-fault", 20, Some((9, 1)))).collect();
    notes.push(Note(6, "gpu-off-bus", 15, Some((9, 1))));
    assert_eq!(causes(&fleet, &notes), one("node:n6", "gpu-off-bus", 33));
}

#[test]
fn nodes_that_fall_one_after_another_name_the_job() {
    let fleet = Fleet::new(512);
    let under = |n: u32| -> Vec<Note> {
        (0..n)
            .map(|i| {
                let at = u64::from(i) * 1500;
                Note(17 + i as usize * 37, "gpu-fault", at, Some((5, i + 1)))
            })
            .collect()
    };
    assert_eq!(causes(&fleet, &under(3)), one("job:5", "node-killer", 3));
    assert_eq!(causes(&fleet, &under(2)), vec![]);
    // A job on all nodes meets three failures in six hours without doing anything.
    let size = |e: &Entity| if matches!(e, Entity::Job(_)) { 512 } else { fleet.size(e) };
    assert_eq!(ask(&fleet, &under(3), &size), vec![]);
    // Between two attempts it is not known how large the job is.
    let size = |e: &Entity| if matches!(e, Entity::Job(_)) { 0 } else { fleet.size(e) };
    assert_eq!(ask(&fleet, &under(3), &size), vec![]);
    // A job that only makes its nodes slow is named, and not as a killer.
    let slow: Vec<Note> = under(3).into_iter().map(|n| Note(n.0, "thermal", n.2, n.3)).collect();
    assert_eq!(causes(&fleet, &slow), one("job:5", "thermal", 3));
    // Cables are not pulled by jobs.
    let cables: Vec<Note> =
        under(4).into_iter().map(|n| Note(n.0, "link-down", n.2, n.3)).collect();
    assert_eq!(causes(&fleet, &cables), vec![]);
}

#[test]
fn a_version_that_fails_without_the_job_too_explains_what_failed_under_it() {
    let fleet = Fleet::new(512);
    let small = |e: &Entity| if matches!(e, Entity::Job(_)) { 3 } else { fleet.size(e) };
    let under = |jobs: u32| -> Vec<Note> {
        (0..8)
            .map(|i| {
                let attempt = (i < jobs).then_some((5, i + 1));
                Note(i as usize * 50, "driver-hang", u64::from(i) * 1800, attempt)
            })
            .collect()
    };
    let named = |notes: &[Note]| -> Vec<(String, usize)> {
        let all = ask(&fleet, notes, &small);
        all.into_iter().map(|c| (c.cause.to_string(), c.findings.len())).collect()
    };
    assert_eq!(named(&under(3)), [("version:driver/580".to_owned(), 8)]);
    // Where nothing fails without the job, the job is named.
    assert_eq!(named(&under(8)[..3]), [("job:5".to_owned(), 3)]);
}

#[test]
fn a_file_system_is_the_cause_and_not_its_nodes() {
    let fleet = Fleet::new(512);
    let mount = Entity::Storage("/data".into());
    let nodes: Vec<Entity> = (0..40).map(|i| Entity::Node(fleet.nodes[i * 12].0.clone())).collect();
    let hit = |i: usize, id, kind, entity| CorrelationInput {
        id,
        kind,
        severity: mode(kind).unwrap().severity,
        entity,
        at: Time(1_000_000_000) + Span::secs(s(i)),
        place: Some(fleet.place(i * 12)),
        attempt: None,
        template: None,
        image: None,
    };
    let mut hits: Vec<_> = (0..40).map(|i| hit(i, s(i), "storage-stall", &mount)).collect();
    hits.extend((0..40).map(|i| hit(i, 100 + s(i), "kernel-stuck", &nodes[i])));
    let found = correlate(&hits, &|e| fleet.size(e), Time(1_000_100_000));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0].cause, found[0].kind.as_str()), (&mount, "storage-stall"));
    assert_eq!(found[0].findings.len(), 80);
    // One finding about the file system as such, and what hangs on it.
    let mut hits = vec![hit(0, 500, "storage-stall", &mount)];
    hits[0].place = None;
    hits.push(hit(1, 501, "kernel-stuck", &nodes[1]));
    assert_eq!(correlate(&hits, &|e| fleet.size(e), Time(1_000_100_000)), vec![]);
    hits.push(hit(2, 502, "kernel-stuck", &nodes[2]));
    let found = correlate(&hits, &|e| fleet.size(e), Time(1_000_100_000));
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].cause, &found[0].findings), (&mount, &vec![500, 501, 502]));
}

#[test]
fn warnings_make_no_incident() {
    let fleet = Fleet::new(512);
    let notes: Vec<Note> = (0..16).map(|i| Note(i, "symbol-errors", s(i), None)).collect();
    assert_eq!(causes(&fleet, &notes), vec![]);
}

#[test]
fn half_of_everything_is_not_a_place() {
    let fleet = Fleet::new(16);
    // One leaf and one spine hold all nodes: eight of them are too few to name it as the cause.
    let notes: Vec<Note> =
        (0..8).map(|i| Note(i / 2 * 4 + i % 2, "node-lost", s(i), None)).collect();
    assert_eq!(causes(&fleet, &notes), vec![]);
    let all: Vec<Note> = (0..16).map(|i| Note(i, "link-down", s(i), None)).collect();
    assert_eq!(causes(&fleet, &all), one("leaf:eu/c1/s0/l0", "leaf-loss", 16));
}

#[test]
fn a_place_with_nearly_all_nodes_is_no_cause() {
    // 16 nodes under one spine, and one that stands elsewhere.
    let mut fleet = Fleet::new(17);
    fleet.nodes[16].1 = Location::unplaced(&fleet.nodes[16].0);
    let half: Vec<Note> =
        (0..8).map(|i| Note(i / 2 * 4 + i % 2, "gpu-off-bus", s(i), None)).collect();
    assert_eq!(causes(&fleet, &half), vec![]);
    // All of them fail: that has one cause, and a card that fails as well is not of it.
    let mut all: Vec<Note> = (0..16).map(|i| Note(i, "gpu-off-bus", s(i), None)).collect();
    let found = causes(&fleet, &all);
    assert_eq!(found.len(), 1, "{found:?}");
    all.push(Note(11, "nic-missing", 20, None));
    assert_eq!(causes(&fleet, &all), found);
}

#[test]
fn unrelated_faults_of_one_place_are_not_one() {
    let fleet = Fleet::new(512);
    let mut notes: Vec<Note> = (100..104).map(|i| Note(i, "node-lost", s(i), None)).collect();
    let rack = one("rack:eu/c1/s0/l6/r25", "rack-loss", 4);
    notes.push(Note(101, "gpu-off-bus", 102, None));
    assert_eq!(causes(&fleet, &notes), rack);
    // Heat goes with either.
    notes.push(Note(102, "thermal", 103, None));
    assert_eq!(causes(&fleet, &notes), one("rack:eu/c1/s0/l6/r25", "rack-loss", 5));
}

#[test]
fn heat_goes_with_what_it_does_to_gpus() {
    let fleet = Fleet::new(512);
    let mut notes: Vec<Note> = (100..104).map(|i| Note(i, "thermal", s(i), None)).collect();
    notes.extend((100..104).map(|i| Note(i, "gpu-fault", 10 + s(i), None)));
    let found = causes(&fleet, &notes);
    assert_eq!((found.len(), found[0].2), (1, 8), "{found:?}");
}

#[test]
fn a_small_fleet_has_leaves_too() {
    let fleet = Fleet::new(16);
    // One leaf is everything here; three of four nodes of a rack are enough.
    let notes: Vec<Note> = (4..7).map(|i| Note(i, "node-lost", s(i), None)).collect();
    assert_eq!(causes(&fleet, &notes), one("rack:eu/c1/s0/l0/r1", "rack-loss", 3));
    assert_eq!(causes(&fleet, &notes[..2]), vec![]);
}

#[test]
fn nodes_without_a_place_share_nothing() {
    let mut fleet = Fleet::new(64);
    for (name, at) in &mut fleet.nodes {
        *at = Location::unplaced(name);
    }
    let notes: Vec<Note> = (0..40).map(|i| Note(i, "node-lost", 3, None)).collect();
    assert_eq!(causes(&fleet, &notes), vec![]);
}

const KINDS: [&str; 10] = [
    "gpu-fault",
    "ecc-uncorrectable",
    "nvlink-errors",
    "driver-hang",
    "link-down",
    "link-flap",
    "host-fault",
    "thermal",
    "node-lost",
    "gpu-off-bus",
];

/// Independent faults over days, asked every five minutes in which there was one. Returns how many
/// causes were named, and of what.
fn random_days(seed: u64, per_1000_node_days: f64, days: u64) -> Vec<(String, String, usize)> {
    let fleet = Fleet::new(512);
    let mut draw = Draw(seed);
    let (mut at, mut notes) = (0.0, Vec::new());
    loop {
        at += draw.exponential(86_400_000.0 / (per_1000_node_days * 0.512));
        if at > (days * 86_400_000) as f64 {
            break;
        }
        let node = (draw.uniform() * 512.0) as usize % 512;
        let kind = KINDS[(draw.uniform() * 10.0) as usize % 10];
        // Every node runs a job of eight, a new one every six hours.
        let job = s(node / 8) + 64 * ((at / 21_600_000.0) as u64);
        notes.push(Note(node, kind, (at / 1000.0) as u64, Some((job, 1))));
    }
    let mut found = Vec::new();
    for (i, n) in notes.iter().enumerate() {
        let from = notes.partition_point(|o| o.2 + 21_600 < n.2);
        found.extend(causes(&fleet, &notes[from..=i]));
    }
    found
}

#[test]
fn a_year_of_random_faults_is_no_incident() {
    // 6.5 per 1,000 node-days is what a fleet of 16,000 A100 saw (arXiv:2410.21680).
    assert_eq!(random_days(1, 6.5, 365), vec![]);
    // Three times as bad is as bad as the fleets that are known get.
    assert_eq!(random_days(2, 20.0, 100), vec![]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn random_faults_are_not_grouped(seed in any::<u64>()) {
        prop_assert_eq!(random_days(seed, 6.5, 10), vec![]);
    }

    #[test]
    fn every_finding_is_in_at_most_one_cause(
        notes in prop::collection::vec((0usize..64, 0usize..10, 0u64..900, 1u64..5), 0..80),
    ) {
        let fleet = Fleet::new(64);
        let notes: Vec<Note> =
            notes.into_iter().map(|(n, k, t, j)| Note(n, KINDS[k], t, Some((j, 1)))).collect();
        let found = ask(&fleet, &notes, &|e| fleet.size(e));
        let mut all: Vec<u64> = found.iter().flat_map(|c| c.findings.clone()).collect();
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        prop_assert_eq!(all.len(), n);
        prop_assert!(found.iter().all(|c| c.findings.len() >= NODES_MIN));
        prop_assert_eq!(&found, &ask(&fleet, &notes, &|e| fleet.size(e)));
    }
}
