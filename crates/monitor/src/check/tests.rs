use super::*;
use crate::faults::agent_fault;
use crate::host::{IbPort, Memory, Mount, NicNow, Space, Tasks};
use muster_model::fault::{FaultAction, FaultClass};
use muster_model::node::{GpuFacts, GpuLink};
use muster_model::units::Bytes;

fn sample(values: &[(Field, f64)]) -> Sample {
    let mut s = Sample::default();
    let usual = [
        (Field::Temp, 40.0),
        (Field::TempMargin, 47.0),
        (Field::Power, 113.0),
        (Field::Util, 0.0),
        (Field::FbUsed, 4.0),
        (Field::FbTotal, 81_559.0),
        (Field::ClockReasons, 1.0),
        (Field::EccDbeVol, 0.0),
        (Field::PcieGen, 5.0),
        (Field::PcieWidth, 16.0),
        (Field::NvlinkActive, 18.0),
    ];
    for (field, value) in usual.iter().chain(values) {
        s.set(*field, *value);
    }
    s
}

fn facts() -> GpuFacts {
    GpuFacts {
        pcie_gen: Some(5),
        pcie_width: Some(16),
        persistence: Some(true),
        ecc: Some(true),
        power_limit: Some(700),
        power_range: Some((200, 700)),
        vbios: Some("96.00".into()),
        links: (0..4).map(|link| GpuLink { link, active: true, peer: None }).collect(),
        ..GpuFacts::default()
    }
}

fn gpu(index: u32) -> GpuObservation {
    GpuObservation {
        index,
        pci: Some(format!("00000000:{:02x}:00.0", 0x18 + index)),
        gpu: Some(Gpu {
            index,
            sku: "h100-sxm".into(),
            uuid: format!("GPU-{index}"),
            serial: Some("165".into()),
            memory: Bytes::gib(80),
            facts: Some(Box::new(facts())),
            ..Gpu::default()
        }),
        error: None,
        first: Some(sample(&[])),
        last: Some(sample(&[])),
        bus: BusNow::default(),
        recovery: Some(Recovery::None),
    }
}

fn look(gpus: u32) -> NodeObservation {
    NodeObservation {
        hostname: "n1".into(),
        driver: "nvml".into(),
        gpus: (0..gpus).map(gpu).collect(),
        host: HostSample {
            nvidia: (0..gpus).map(|i| format!("0000:{:02x}:00.0", 0x18 + i)).collect(),
            ..HostSample::default()
        },
        past: PastLogSummary { from: Some("/dev/kmsg".into()), ..PastLogSummary::default() },
        ..NodeObservation::default()
    }
}

/// The findings of a look that was spoiled in one way.
fn spoiled(spoil: impl FnOnce(&mut NodeObservation)) -> Report {
    let mut l = look(2);
    spoil(&mut l);
    evaluate(&l)
}

fn only(report: &Report) -> (&str, Verdict, Option<u32>) {
    assert_eq!(report.findings.len(), 1, "{:#?}", report.findings);
    let f = &report.findings[0];
    assert_eq!(f.verdict, report.verdict);
    assert!(!f.what.is_empty() && !f.todo.is_empty());
    (&f.code, f.verdict, f.gpu)
}

/// What the last sample of GPU 1 must say for this finding.
fn by_sample(values: &[(Field, f64)]) -> Report {
    spoiled(|l| l.gpus[1].last = Some(sample(values)))
}

#[test]
fn a_healthy_machine_has_no_findings() {
    let r = evaluate(&look(8));
    assert_eq!((r.verdict, r.findings.len(), r.verdict.exit_code()), (Verdict::Healthy, 0, 0));
    assert_eq!(r.summary, "8 GPUs and the host are healthy");
    assert_eq!(r.gpus[3].temp, Some(40.0));
    // Nothing is said of what was not looked at.
    for (gpus, summary) in
        [(0, "no GPU on this machine"), (1, "1 GPU is healthy"), (8, "8 GPUs are healthy")]
    {
        let r = evaluate(&NodeObservation {
            gpus_only: true,
            past: PastLogSummary::default(),
            ..look(gpus)
        });
        assert_eq!((r.summary.as_str(), r.findings.len()), (summary, 0));
    }
}

#[test]
fn a_machine_without_gpus_says_so_and_is_healthy() {
    let mut l = look(0);
    l.no_driver = Some(DeviceError::NoDriver("no library".into()));
    let r = evaluate(&l);
    assert_eq!((r.verdict, r.verdict.exit_code()), (Verdict::Healthy, 0));
    assert_eq!(r.summary, "no GPU on this machine; the host is healthy");
}

#[test]
fn a_driver_that_is_missing_mismatched_or_mute_fails() {
    for (error, code) in [
        (DeviceError::NoDriver("no library".into()), "driver-missing"),
        (DeviceError::Mismatch("580 and 575".into()), "driver-mismatch"),
        (DeviceError::NotAllowed, "driver-error"),
        (DeviceError::Failed("999".into()), "driver-error"),
    ] {
        let r = spoiled(|l| {
            l.gpus.clear();
            l.no_driver = Some(error);
        });
        assert_eq!(only(&r), (code, Verdict::Failed, None));
        assert_eq!(r.verdict.exit_code(), 21);
    }
}

#[test]
fn gpus_that_are_missing_fail() {
    let r = spoiled(|l| {
        l.gpus.pop();
    });
    assert_eq!(only(&r), ("gpu-missing", Verdict::Failed, None));
    let r = spoiled(|l| l.expect = Some(8));
    assert_eq!(only(&r), ("gpu-count", Verdict::Failed, None));
    assert!(spoiled(|l| l.expect = Some(2)).findings.is_empty());
    // Simulated GPUs are on no bus.
    let r = spoiled(|l| {
        l.driver = "simulated".into();
        l.host.nvidia = vec!["0000:01:00.0".into(); 4];
    });
    assert!(r.findings.is_empty());
}

#[test]
fn gpus_that_do_not_answer_fail() {
    for (silence, code) in [
        (DeviceSilence::Lost, "gpu-lost"),
        (DeviceSilence::Hung, "nvml-hang"),
        (DeviceSilence::Other("x".into()), "gpu-silent"),
    ] {
        let r = spoiled(|l| {
            l.gpus[1].error = Some(silence);
            l.gpus[1].last = None;
            l.gpus[1].gpu = None;
        });
        assert_eq!(only(&r), (code, Verdict::Failed, Some(1)));
        assert_eq!((r.gpus[0].verdict, r.gpus[1].verdict), (Verdict::Healthy, Verdict::Failed));
        assert!(r.summary.starts_with("failed: GPU 1: "), "{}", r.summary);
    }
}

#[test]
fn what_the_driver_recommends_counts() {
    for (recovery, verdict) in [
        (Recovery::ResetGpu, Verdict::Failed),
        (Recovery::DrainAndReset, Verdict::Degraded),
        (Recovery::Reboot, Verdict::Failed),
        (Recovery::DrainPeers, Verdict::Degraded),
    ] {
        let r = spoiled(|l| l.gpus[1].recovery = Some(recovery));
        assert_eq!(only(&r), ("recovery", verdict, Some(1)));
    }
}

#[test]
fn memory_that_wears_out() {
    use Verdict::{Degraded, Failed};
    for (field, value, code, verdict) in [
        (Field::RemapFailure, 1.0, "remap-failed", Failed),
        (Field::SramThreshold, 1.0, "sram-threshold", Failed),
        (Field::RemappedUncorrectable, 512.0, "rows-remapped", Failed),
        (Field::RetiredDbe, 64.0, "pages-retired", Failed),
        (Field::RemapPending, 1.0, "remap-pending", Degraded),
        (Field::RetiredPending, 1.0, "retire-pending", Degraded),
        (Field::RemapBanksNone, 2.0, "no-spare-rows", Degraded),
    ] {
        let r = by_sample(&[(field, value)]);
        assert_eq!(only(&r), (code, verdict, Some(1)));
        let below = if value > 2.0 { value - 1.0 } else { 0.0 };
        assert!(by_sample(&[(field, below)]).findings.is_empty(), "{code} at {below}");
    }
    // Old errors are reported; new ones too.
    let r = spoiled(|l| {
        l.gpus[1].first = Some(sample(&[(Field::EccDbeVol, 3.0)]));
        l.gpus[1].last = Some(sample(&[(Field::EccDbeVol, 3.0)]));
    });
    assert_eq!(only(&r), ("ecc-uncorrectable", Degraded, Some(1)));
}

#[test]
fn clocks_held_back_for_heat_or_power_supply_degrade_and_idle_or_a_cap_do_not() {
    for fine in [0x0, 0x1, 0x2, 0x4, 0x10, 0x100, 0x117] {
        assert!(
            by_sample(&[(Field::ClockReasons, f64::from(fine))]).findings.is_empty(),
            "{fine:x}"
        );
    }
    for bad in [0x8, 0x20, 0x40, 0x80, 0x48, 0x85] {
        let r = by_sample(&[(Field::ClockReasons, f64::from(bad))]);
        assert_eq!(only(&r), ("throttled", Verdict::Degraded, Some(1)), "{bad:x}");
    }
}

#[test]
fn heat_degrades() {
    let r = by_sample(&[(Field::TempMargin, 4.0), (Field::Temp, 83.0)]);
    assert_eq!(only(&r), ("hot", Verdict::Degraded, Some(1)));
    assert!(r.findings[0].what.contains("83"), "{}", r.findings[0].what);
    let r = by_sample(&[(Field::MemTemp, 96.0)]);
    assert_eq!(only(&r), ("hot-memory", Verdict::Degraded, Some(1)));
    // Without a margin the temperature itself has to do.
    let mut s = Sample::default();
    s.set(Field::Temp, 91.0);
    s.set(Field::NvlinkActive, 18.0);
    let r = spoiled(|l| l.gpus[1].last = Some(s));
    assert_eq!(only(&r), ("hot", Verdict::Degraded, Some(1)));
}

#[test]
fn a_narrow_bus_always_counts_and_a_slow_one_under_load() {
    let r = by_sample(&[(Field::PcieWidth, 8.0)]);
    assert_eq!(only(&r), ("pcie-narrow", Verdict::Degraded, Some(1)));
    assert!(by_sample(&[(Field::PcieGen, 1.0)]).findings.is_empty());
    let r = by_sample(&[(Field::PcieGen, 4.0), (Field::Util, 90.0)]);
    assert_eq!(only(&r), ("pcie-slow", Verdict::Degraded, Some(1)));
    // Where the sample does not say, the bus itself does.
    let r = spoiled(|l| {
        let mut s = Sample::default();
        s.set(Field::NvlinkActive, 18.0);
        l.gpus[1].last = Some(s);
        l.gpus[1].bus.pcie_width = Some(4);
    });
    assert_eq!(only(&r), ("pcie-narrow", Verdict::Degraded, Some(1)));
}

#[test]
fn counters_that_should_stand_still() {
    for (field, code, verdict) in [
        (Field::PcieReplay, "pcie-replays", Verdict::Degraded),
        (Field::NvlinkCrcFlit, "nvlink-errors", Verdict::Degraded),
        (Field::NvlinkReplay, "nvlink-errors", Verdict::Degraded),
        (Field::EccSbeVol, "ecc-rising", Verdict::Healthy),
    ] {
        let r = spoiled(|l| {
            l.gpus[1].first = Some(sample(&[(field, 5.0)]));
            l.gpus[1].last = Some(sample(&[(field, 7.0)]));
        });
        assert_eq!(only(&r), (code, verdict, Some(1)));
        // Standing still, falling (a reset in between) or appearing is no error.
        for (a, b) in [(Some(5.0), 5.0), (Some(9.0), 0.0), (None, 5.0)] {
            let r = spoiled(|l| {
                let first: Vec<_> = a.map(|v| (field, v)).into_iter().collect();
                l.gpus[1].first = Some(sample(&first));
                l.gpus[1].last = Some(sample(&[(field, b)]));
            });
            assert!(r.findings.is_empty(), "{field:?} {a:?} {b}");
        }
    }
}

#[test]
fn links_that_are_down() {
    let down = |l: &mut NodeObservation, gpu: usize, n: usize| {
        let facts = l.gpus[gpu].gpu.as_mut().and_then(|g| g.facts.as_mut()).expect("facts");
        for link in facts.links.iter_mut().take(n) {
            link.active = false;
        }
    };
    let r = spoiled(|l| down(l, 1, 1));
    assert_eq!(only(&r), ("nvlink-down", Verdict::Degraded, Some(1)));
    let r = spoiled(|l| down(l, 1, 4));
    assert_eq!(only(&r), ("nvlink-down", Verdict::Failed, Some(1)));
    // A board without bridges: no link leads anywhere.
    let r = spoiled(|l| {
        down(l, 0, 4);
        down(l, 1, 4);
    });
    assert!(r.findings.is_empty());
    let r = by_sample(&[(Field::NvlinkActive, 16.0)]);
    assert_eq!(only(&r), ("nvlink-down", Verdict::Degraded, Some(1)));
}

#[test]
fn settings_are_remarks() {
    type Spoil = fn(&mut GpuFacts);
    let cases: [(&str, Spoil); 3] = [
        ("persistence-off", |f| f.persistence = Some(false)),
        ("ecc-off", |f| f.ecc = Some(false)),
        ("power-limited", |f| f.power_limit = Some(500)),
    ];
    for (code, spoil) in cases {
        let r = spoiled(|l| {
            spoil(l.gpus[1].gpu.as_mut().and_then(|g| g.facts.as_mut()).expect("facts"));
        });
        assert_eq!(only(&r), (code, Verdict::Healthy, Some(1)));
        assert_eq!(r.verdict.exit_code(), 0);
    }
    let r = spoiled(|l| {
        l.gpus[1].gpu.as_mut().and_then(|g| g.facts.as_mut()).expect("facts").vbios =
            Some("97".into());
    });
    assert_eq!(only(&r), ("mixed-vbios", Verdict::Healthy, None));
}

#[test]
fn faults_of_the_log_weigh_what_they_ask_for() {
    use FaultAction as A;
    use FaultClass as C;
    for (class, action, verdict) in [
        (C::Application, A::RestartJob, Verdict::Healthy),
        (C::Application, A::Inspect, Verdict::Healthy),
        (C::Notice, A::None, Verdict::Healthy),
        (C::Gpu, A::Watch, Verdict::Healthy),
        (C::Memory, A::ResetWhenIdle, Verdict::Degraded),
        (C::Gpu, A::ResetGpu, Verdict::Degraded),
        (C::Link, A::Inspect, Verdict::Degraded),
        (C::Bus, A::Reboot, Verdict::Failed),
        (C::Memory, A::Replace, Verdict::Failed),
    ] {
        let r = spoiled(|l| {
            let mut f = agent_fault("xid-31", Time(0), Some(1), "line");
            (f.class, f.action, f.count) = (class, action, 3);
            l.faults = vec![f.clone(), f];
        });
        assert_eq!(only(&r), ("xid-31", verdict, Some(1)), "{class:?} {action:?}");
        assert!(r.findings[0].what.contains("6 times"), "{}", r.findings[0].what);
    }
}

#[test]
fn a_log_that_was_not_read_is_a_remark() {
    let r = spoiled(|l| {
        l.past = PastLogSummary { why_not: Some("denied".into()), ..PastLogSummary::default() }
    });
    assert_eq!(only(&r), ("no-kernel-log", Verdict::Healthy, None));
}

fn mount(point: &str, readonly: bool, free: u64) -> Mount {
    Mount {
        point: point.into(),
        device: "/dev/sda1".into(),
        kind: "ext4".into(),
        readonly,
        meant: false,
        space: Some(Space { size: 1000, free, files: 0, files_free: 0 }),
    }
}

#[test]
fn disks_that_are_full_or_read_only() {
    use Verdict::{Degraded, Failed, Healthy};
    for (m, code, verdict) in [
        (mount("/", true, 500), "ro-mount", Failed),
        (mount("/data", true, 0), "ro-mount", Degraded),
        (mount("/var", false, 5), "disk-full", Failed),
        (mount("/data", false, 0), "disk-full", Degraded),
        (mount("/data", false, 40), "disk-nearly-full", Healthy),
    ] {
        let r = spoiled(|l| l.host.mounts = vec![m]);
        assert_eq!(only(&r), (code, verdict, None));
    }
    let r = spoiled(|l| {
        l.host.mounts =
            vec![Mount { meant: true, ..mount("/usr", true, 0) }, mount("/", false, 500)];
    });
    assert!(r.findings.is_empty());
}

#[test]
fn processes_that_are_stuck_twice_are_stuck() {
    let tasks = |names: &[(&str, i32)], zombies| {
        let stuck: Vec<_> = names.iter().map(|(n, p)| ((*n).to_string(), *p)).collect();
        Some(Tasks { all: 9, blocked: 1, zombies, stuck })
    };
    let r = spoiled(|l| {
        l.before.tasks = tasks(&[("nvidia-smi", 7), ("dd", 8)], 0);
        l.host.tasks = tasks(&[("nvidia-smi", 7), ("cp", 9)], 0);
    });
    assert_eq!(only(&r), ("tasks-stuck", Verdict::Degraded, None));
    assert!(r.findings[0].what.ends_with("nvidia-smi (7)"), "{}", r.findings[0].what);
    assert!(spoiled(|l| l.host.tasks = tasks(&[("cp", 9)], 5)).findings.is_empty());
    let r = spoiled(|l| l.host.tasks = tasks(&[], 200));
    assert_eq!(only(&r), ("zombies", Verdict::Healthy, None));
    let r = spoiled(|l| l.host.tasks = tasks(&[], 6000));
    assert_eq!(only(&r), ("zombies", Verdict::Degraded, None));
}

#[test]
fn the_rest_of_the_host() {
    let r = spoiled(|l| l.host.oom_kills = Some(2));
    assert_eq!(only(&r), ("oom", Verdict::Healthy, None));
    let r = spoiled(|l| {
        l.host.memory = Some(Memory { corrupted: Some(4096), ..Memory::default() });
    });
    assert_eq!(only(&r), ("memory-corrupted", Verdict::Degraded, None));
    let r = spoiled(|l| {
        l.host.nics =
            vec![NicNow { name: "eth0".into(), carrier_changes: Some(99), ..NicNow::default() }];
    });
    assert_eq!(only(&r), ("nic-flaps", Verdict::Healthy, None));
}

#[test]
fn ports_that_are_down_or_slow() {
    let port = |name: &str, state: &str, physical: &str, rate| IbPort {
        device: name.into(),
        port: 1,
        state: Some(state.into()),
        physical: Some(physical.into()),
        link_layer: Some("InfiniBand".into()),
        rate_gbps: Some(rate),
        counters: Vec::new(),
    };
    let good = || port("mlx5_0", "ACTIVE", "LinkUp", 400.0);
    let r = spoiled(|l| l.host.ib = vec![good(), port("mlx5_1", "DOWN", "Polling", 10.0)]);
    assert_eq!(only(&r), ("ib-down", Verdict::Degraded, None));
    let r = spoiled(|l| l.host.ib = vec![good(), port("mlx5_1", "DOWN", "Disabled", 10.0)]);
    assert_eq!(only(&r), ("ib-down", Verdict::Healthy, None));
    let r = spoiled(|l| l.host.ib = vec![good(), port("mlx5_1", "ACTIVE", "LinkUp", 200.0)]);
    assert_eq!(only(&r), ("ib-slow", Verdict::Degraded, None));
    let flaps = IbPort { counters: vec![("link_downed".into(), 3)], ..good() };
    let r = spoiled(|l| l.host.ib = vec![flaps]);
    assert_eq!(only(&r), ("ib-flaps", Verdict::Healthy, None));
    assert!(spoiled(|l| l.host.ib = vec![good(), good()]).findings.is_empty());
}

#[test]
fn the_worst_comes_first_and_the_rest_is_counted() {
    let r = spoiled(|l| {
        l.host.oom_kills = Some(1);
        l.gpus[0].last = Some(sample(&[(Field::ClockReasons, 64.0)]));
        l.gpus[1].last = Some(sample(&[(Field::RemapFailure, 1.0)]));
    });
    let codes: Vec<_> = r.findings.iter().map(|f| f.code.as_str()).collect();
    assert_eq!(codes, ["remap-failed", "throttled", "oom"]);
    assert_eq!(r.verdict, Verdict::Failed);
    assert!(r.summary.ends_with("(and 1 more)"), "{}", r.summary);
    let json = serde_json::to_value(&r).expect("plain data");
    assert_eq!(json["verdict"], "failed");
    assert_eq!(json["gpus"][0]["verdict"], "degraded");
}

#[test]
fn a_look_at_nothing_finds_nothing() {
    let r = evaluate(&NodeObservation::default());
    assert_eq!((r.verdict, r.findings.len()), (Verdict::Healthy, 0));
}
