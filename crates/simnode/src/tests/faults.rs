//! What each fault shows to whoever watches.

use super::*;
use muster_model::qualification::{Level, Outcome};

fn at(secs: u64) -> Time {
    START + Span::secs(secs)
}

/// A figure of a GPU now.
fn figure(n: &SimNode, gpu: usize, name: &str) -> f32 {
    let column = COLUMNS.iter().position(|c| *c == name).expect("a column");
    n.telemetry()[gpu][column].expect("reported")
}

/// A busy node after so long.
fn busy(secs: u64) -> SimNode {
    let mut n = node(1, "n");
    n.start(key(1), &work(3_600_000, Some(1000), None), 0xff, START);
    n.advance(at(secs));
    n
}

fn has(n: &mut SimNode, fault: Fault, secs: u64) -> Vec<Effect> {
    let effects = n.apply(&fault, at(secs));
    assert!(!effects.iter().any(|e| matches!(e, Effect::Impossible(_))), "{effects:?}");
    effects
}

fn reasons(n: &SimNode, gpu: usize) -> u32 {
    format!("{}", figure(n, gpu, "throttle")).parse().expect("a whole number")
}

fn passes(n: &SimNode) -> Vec<String> {
    let q = n.test(Level::Standard, 1, START);
    let bad = q.checks.iter().filter(|c| c.outcome == Outcome::Failed);
    bad.map(|c| c.name.clone()).collect()
}

#[test]
fn a_sound_busy_node_shows_nothing() {
    let mut n = busy(600);
    for gpu in 0..8 {
        assert_eq!(reasons(&n, gpu) & !0x4, 0, "at most its power limit");
        let margin = figure(&n, gpu, "thermal_margin");
        assert!(margin > 15.0, "{margin}");
        for (name, value) in [("pcie_width", 16.0), ("pcie_gen", 5.0), ("power_limit", 700.0)] {
            assert!((figure(&n, gpu, name) - value).abs() < 0.5, "{name}");
        }
        for name in ["remap_pending", "remap_failed", "nvlink_errors", "ecc_sbe", "replay"] {
            assert!(figure(&n, gpu, name).abs() < 0.5, "{name}");
        }
    }
    let host = n.host_metrics();
    assert_eq!(host.len(), 8 * 6 + 4 + 2);
    assert_eq!((host["port.mlx5_7.up"], host["fs./data.stalled_s"], host["dstate"]), (1., 0., 0.));
    // An idle link goes to sleep, which is no fault.
    assert!(figure(&node(1, "idle"), 0, "pcie_gen") < 2.0);
    assert!(passes(&n).is_empty());
}

#[test]
fn bad_cooling_heats_up_throttles_and_slows_the_work() {
    let mut n = busy(300);
    let clock = figure(&n, 3, "sm_clock");
    has(&mut n, Fault::Thermal { gpu: 3 }, 300);
    n.advance(at(600));
    assert_eq!(reasons(&n, 3) & 0x60, 0x60);
    assert!(figure(&n, 3, "thermal_margin") < 1.0 && figure(&n, 3, "sm_clock") < clock * 0.95);
    assert_eq!(reasons(&n, 2) & 0x60, 0);
    assert!(n.share_needs(key(1)).unwrap() > 1100);
    assert_eq!(passes(&n), ["gemm-bf16", "gemm-soak"]);
}

#[test]
fn a_power_brake_slows_every_gpu_and_low_clocks_only_one() {
    let mut n = busy(300);
    has(&mut n, Fault::PowerBrake, 300);
    n.advance(at(310));
    assert!((0..8).all(|g| reasons(&n, g) & 0x88 == 0x88 && figure(&n, g, "sm_clock") < 1000.0));
    has(&mut n, Fault::Repair, 310);
    has(&mut n, Fault::LowClocks { gpu: 1, percent: 30 }, 310);
    n.advance(at(320));
    assert_eq!(reasons(&n, 1) & 0xf8, 0, "no reason is named");
    assert!(figure(&n, 1, "sm_clock") < figure(&n, 0, "sm_clock") * 0.8);
    assert!(figure(&n, 1, "power") < figure(&n, 0, "power") * 0.9);
    n.reset_gpu(1, at(320)).unwrap_err();
    n.stop(key(1), at(320));
    n.reset_gpu(1, at(320)).unwrap();
    assert!(passes(&n).is_empty());
}

#[test]
fn counters_of_wear_count_by_the_clock() {
    let mut n = busy(10);
    has(&mut n, Fault::EccRate { gpu: 0, per_s: 20 }, 10);
    has(&mut n, Fault::Replay { gpu: 1, per_min: 120 }, 10);
    has(&mut n, Fault::NvlinkErrors { gpu: 2, per_s: 5 }, 10);
    has(&mut n, Fault::PcieDowngrade { gpu: 4 }, 10);
    n.advance(at(70));
    let shown = |gpu, name| figure(&n, gpu, name);
    assert!((shown(0, "ecc_sbe") - 1200.0).abs() < 1.0);
    assert!((shown(1, "replay") - 120.0).abs() < 1.0);
    assert!((shown(2, "nvlink_errors") - 300.0).abs() < 1.0);
    assert!((shown(4, "pcie_width") - 4.0).abs() < 0.1);
    assert!(shown(3, "ecc_sbe").abs() < 0.1);
    assert_eq!(passes(&n), ["pcie-h2d", "pcie-d2h", "nvlink-p2p", "hbm-pattern"]);
    has(&mut n, Fault::EccRate { gpu: 0, per_s: 0 }, 70);
    n.advance(at(200));
    assert!((figure(&n, 0, "ecc_sbe") - 1200.0).abs() < 1.0);
}

#[test]
fn an_uncorrectable_error_is_reported_first_and_then_the_work_dies() {
    let mut n = busy(10);
    n.start(key(2), &work(3_600_000, None, None), 0, at(10));
    let reported = has(&mut n, Fault::EccUncorrectable { gpu: 5 }, 10);
    let xid = |code| Effect::Xid { gpu: 5, code };
    assert_eq!(reported, [xid(48), xid(63)]);
    assert!(figure(&n, 5, "ecc_dbe") > 0.5 && figure(&n, 5, "remap_pending") > 0.5);
    assert!(n.works_on(key(1)), "as in life the XID comes first");
    let events = n.advance(at(20));
    let end = events.iter().find(|e| matches!(e.what, WorkEvent::Ended { .. })).unwrap();
    assert_eq!((end.key, end.at, &end.what), (key(1), at(12), &WorkEvent::Ended { code: 1 }));
    assert!(n.works_on(key(2)), "it has no GPU there");
    assert_eq!(passes(&n), ["ecc"]);
    n.reset_gpu(5, at(20)).unwrap();
    assert!(figure(&n, 5, "ecc_dbe").abs() < 0.1 && figure(&n, 5, "remap_pending").abs() < 0.1);
    assert!(passes(&n).is_empty());
}

#[test]
fn work_that_is_stopped_before_it_dies_was_stopped() {
    let mut n = busy(10);
    let reported = has(&mut n, Fault::Xid { gpu: 0, code: 79 }, 10);
    assert_eq!(reported, [Effect::Xid { gpu: 0, code: 79 }, Effect::Inventory]);
    assert_eq!(n.inventory().gpus.len(), 7);
    let stopped = n.stop(key(1), at(11)).unwrap();
    assert_eq!(stopped.what, WorkEvent::Stopped);
    assert!(n.advance(at(60)).iter().all(|e| !matches!(e.what, WorkEvent::Ended { .. })));
    n.reset_gpu(0, at(60)).unwrap_err();
    let boot = n.boot();
    assert_eq!(n.reboot(at(60)), Effect::Down { until: at(60) + BOOT_TAKES });
    assert_ne!(n.boot(), boot);
    assert_eq!(n.inventory().gpus.len(), 8);
    assert!(passes(&n).is_empty());
}

#[test]
fn a_gpu_that_is_gone_kills_whoever_is_given_it_later() {
    let mut n = node(1, "n");
    has(&mut n, Fault::LoseGpu { gpu: 2 }, 0);
    n.start(key(3), &work(60_000, None, None), 0b100, at(5));
    assert_eq!(n.advance(at(60))[0].what, WorkEvent::Ended { code: 1 });
}

#[test]
fn rows_wait_for_a_reset_or_cannot_be_replaced() {
    let mut n = busy(5);
    let pending = Fault::Remap { gpu: 6, pending: true, failed: false };
    assert_eq!(has(&mut n, pending.clone(), 5), [Effect::Xid { gpu: 6, code: 63 }]);
    assert!(has(&mut n, pending, 6).is_empty(), "reported once");
    let failed = Fault::Remap { gpu: 6, pending: false, failed: true };
    assert_eq!(has(&mut n, failed, 7), [Effect::Xid { gpu: 6, code: 64 }]);
    assert!(figure(&n, 6, "remap_failed") > 0.5 && figure(&n, 6, "remapped_rows") > 0.5);
    n.stop(key(1), at(8));
    n.reset_gpu(6, at(8)).unwrap();
    assert_eq!(passes(&n), ["ecc", "hbm-pattern"], "a reset does not repair that");
}

#[test]
fn ports_go_down_flap_err_and_vanish() {
    let mut n = node(1, "n");
    has(&mut n, Fault::PortDown { port: "mlx5_3".into(), length: Span::secs(60) }, 0);
    has(&mut n, Fault::PortFlap { port: "4".into() }, 0);
    has(&mut n, Fault::SymbolErrors { port: "5".into(), per_s: 12 }, 0);
    n.advance(at(30));
    let h = n.host_metrics();
    assert_eq!((h["port.mlx5_3.up"], h["port.mlx5_3.downed"]), (0.0, 1.0));
    assert_eq!((h["port.mlx5_4.up"], h["port.mlx5_4.downed"]), (1.0, 1.0));
    assert_eq!((h["port.mlx5_5.symbol_errors"], h["port.mlx5_5.recoveries"]), (360.0, 3.0));
    assert_eq!(passes(&n), ["ports"]);
    n.advance(at(182));
    let h = n.host_metrics();
    assert_eq!((h["port.mlx5_3.up"], h["port.mlx5_3.downed"]), (1.0, 1.0));
    assert_eq!((h["port.mlx5_4.up"], h["port.mlx5_4.downed"]), (0.0, 4.0));
    let gone = Fault::LosePort { port: "mlx5_0".into() };
    assert_eq!(has(&mut n, gone.clone(), 190), [Effect::Inventory]);
    assert_eq!(n.inventory().nics.len(), 7);
    assert!(!n.host_metrics().contains_key("port.mlx5_0.up"));
    assert!(matches!(&n.apply(&gone, at(190))[..], [Effect::Impossible(_)]));
    assert_eq!(has(&mut n, Fault::Repair, 200), [Effect::Inventory]);
    n.advance(at(900));
    let h = n.host_metrics();
    assert_eq!((h["port.mlx5_4.up"], h["port.mlx5_4.downed"]), (1.0, 4.0), "counted is counted");
    assert_eq!(n.inventory().nics.len(), 8);
}

#[test]
fn storage_stalls_and_slows_and_processes_hang() {
    let mut n = node(1, "n");
    let sound = n.host_metrics()["fs./data.read_ms"];
    has(&mut n, Fault::StorageStall { mount: "/data".into(), length: Span::secs(90) }, 0);
    has(&mut n, Fault::StuckProcesses { count: 3 }, 0);
    n.advance(at(40));
    let h = n.host_metrics();
    assert_eq!((h["fs./data.stalled_s"], h["dstate"]), (40.0, 3.0));
    assert!(!h.contains_key("fs./data.read_ms"));
    has(&mut n, Fault::StorageSlow { mount: "/data".into(), factor: 30 }, 100);
    n.advance(at(101));
    let h = n.host_metrics();
    assert!(h["fs./data.read_ms"] > 20.0 * sound && h["fs./data.stalled_s"] < 0.1, "{h:?}");
    let no = n.apply(&Fault::StorageSlow { mount: "/home".into(), factor: 2 }, at(101));
    assert!(matches!(&no[..], [Effect::Impossible(why)] if why.contains("/data")), "{no:?}");
}

#[test]
fn an_agent_that_hangs_reports_nothing_and_then_how_long() {
    let mut n = node(1, "n");
    has(&mut n, Fault::AgentHang { length: Span::secs(45) }, 0);
    assert!(!n.reports(at(44)) && n.reports(at(45)));
    n.advance(at(50));
    assert_eq!(n.host_metrics()["agent.gap_ms"], 45_000.0);
    assert_eq!(n.host_metrics()["agent.gap_ms"], 1000.0);
}

fn steps(events: &[SimEvent]) -> Vec<(u64, Stages)> {
    let step = |e: &SimEvent| match &e.what {
        WorkEvent::Step { step, stages, .. } => Some((*step, *stages)),
        _ => None,
    };
    events.iter().filter_map(step).collect()
}

#[test]
fn slow_work_computes_longer_and_its_peer_waits() {
    let mut slow = busy(100);
    let mut peer = SimNode::new(1, SimConfig::default(), "peer", START);
    peer.start(key(1), &work(3_600_000, Some(1000), None), 0xff, START);
    let before = steps(&peer.advance(at(100)));
    assert_eq!(before.len(), 100);
    has(&mut slow, Fault::SlowWork { key: key(1), percent: 50 }, 100);
    let needs = slow.share_needs(key(1)).unwrap();
    assert_eq!((needs, peer.share_needs(key(1))), (1390, Some(1000)));
    peer.set_gang(key(1), needs, at(100));
    let (s, p) = (steps(&slow.advance(at(239))), steps(&peer.advance(at(239))));
    assert!((98..=101).contains(&s.len()) && s.len() == p.len(), "{} {}", s.len(), p.len());
    let (s, p) = (s[50].1, p[50].1);
    assert_eq!(s.total(), p.total());
    assert!(s.compute > p.compute * 14 / 10 && p.comm > s.comm * 2, "{s:?} {p:?}");
    // The one that works is the busy one.
    assert!(figure(&slow, 0, "power") > figure(&peer, 0, "power") + 50.0);
    assert!(figure(&peer, 0, "util") > 90.0, "waiting in a collective looks busy");
}

#[test]
fn hung_work_looks_busy_and_draws_little_until_it_is_repaired() {
    let mut n = busy(100);
    let power = figure(&n, 0, "power");
    has(&mut n, Fault::HangWork { key: key(1) }, 100);
    assert_eq!(n.share_needs(key(1)), Some(u32::MAX));
    n.advance(at(100));
    assert!(steps(&n.advance(at(400))).is_empty());
    assert!(figure(&n, 0, "util") > 90.0 && figure(&n, 0, "power") < power * 0.45);
    has(&mut n, Fault::Repair, 400);
    assert_eq!(steps(&n.advance(at(410))).len(), 10);
    // A peer that knows that the gang hangs does the same.
    n.set_gang(key(1), u32::MAX, at(410));
    assert!(steps(&n.advance(at(500))).is_empty());
}

#[test]
fn a_starved_loader_reads_most_of_the_time() {
    let mut n = busy(100);
    has(&mut n, Fault::StarveLoader { key: key(1) }, 100);
    let reported = steps(&n.advance(at(160)));
    let last = reported.last().unwrap().1;
    assert!(last.read * 2 > last.total(), "{last:?}");
    assert!(figure(&n, 0, "util") < 60.0);
    let no = n.apply(&Fault::StarveLoader { key: key(9) }, at(160));
    assert!(matches!(&no[..], [Effect::Impossible(_)]));
    let line = Fault::KernelLine { text: "mce: x".into() };
    assert_eq!(has(&mut n, line, 161), [Effect::Line("mce: x".into())]);
}

#[test]
fn repair_brings_everything_back() {
    let mut n = busy(10);
    for fault in [
        Fault::LoseGpu { gpu: 0 },
        Fault::Thermal { gpu: 1 },
        Fault::SlowGpu { gpu: 2, percent: 40 },
        Fault::Remap { gpu: 3, pending: true, failed: true },
        Fault::PcieDowngrade { gpu: 4 },
        Fault::PowerBrake,
    ] {
        has(&mut n, fault, 10);
    }
    assert_eq!(has(&mut n, Fault::Repair, 20), [Effect::Inventory]);
    assert_eq!((n.inventory().gpus.len(), passes(&n).len()), (8, 0));
}

#[test]
fn wrong_results_show_in_a_test_and_nowhere_else() {
    let mut n = busy(10);
    assert_eq!(has(&mut n, Fault::WrongResults { gpu: 3 }, 20), []);
    assert!(figure(&n, 3, "util") > 90.0 && reasons(&n, 3) == reasons(&n, 2));
    let test = n.test(Level::Quick, 1, at(20));
    let failed: Vec<_> = test.checks.iter().filter(|c| c.outcome == Outcome::Failed).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!((failed[0].name.as_str(), failed[0].gpu), ("sm-agree", Some(3)));
    has(&mut n, Fault::Repair, 30);
    assert_eq!(n.test(Level::Quick, 2, at(30)).outcome, Outcome::Passed);
}

#[test]
fn a_node_says_which_version_it_has() {
    let mut n = busy(10);
    let version = |c: &str| Fault::Version { component: c.into(), version: "590.1".into() };
    assert_eq!(has(&mut n, version("driver"), 20), [Effect::Inventory]);
    assert_eq!(n.inventory().versions["driver"], "590.1");
    assert!(matches!(&n.apply(&version("bios"), at(20))[..], [Effect::Impossible(_)]));
    assert_eq!(has(&mut n, Fault::Repair, 30), [Effect::Inventory]);
    assert_eq!(n.inventory(), busy(10).inventory());
}
