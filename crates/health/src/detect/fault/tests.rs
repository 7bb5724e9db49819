use super::*;
use muster_model::fault::FaultSource;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::units::Time;

fn node() -> NodeName {
    "n1".parse().expect("a name")
}

/// As the catalogue judges it, on GPU 3.
fn fault(code: &str) -> ObservedFault {
    let catalogue = Catalogue::builtin();
    let known = catalogue.code(code).unwrap_or_else(|| panic!("{code}"));
    let rule = catalogue.evaluate(known, "", "");
    ObservedFault {
        code: code.to_owned(),
        at: Time(5_000),
        count: 1,
        source: FaultSource::Kernel,
        class: rule.class,
        action: rule.action,
        gpu: Some(3),
        pid: None,
        attempt: None,
        rank: None,
        text: "the line".to_owned(),
    }
}

fn judged(f: &ObservedFault) -> Option<(String, Severity)> {
    evaluate(&node(), f, 0).map(|s| (s.kind, s.severity))
}

#[test]
fn each_fault_is_the_mode_it_should_be() {
    use Severity::{Critical, Degraded, Info, Warning};
    for (code, kind, severity) in [
        ("xid-79", "gpu-off-bus", Critical),
        ("gpu-lost", "gpu-off-bus", Critical),
        ("xid-119", "driver-hang", Critical),
        ("xid-120", "driver-hang", Critical),
        ("xid-48", "ecc-uncorrectable", Critical),
        ("xid-94", "ecc-uncorrectable", Degraded),
        ("xid-95", "ecc-uncorrectable", Critical),
        ("xid-171", "ecc-uncorrectable", Critical),
        ("xid-63", "row-remap-pending", Warning),
        ("xid-64", "row-remap-failure", Critical),
        ("xid-74", "nvlink-errors", Critical),
        ("xid-149", "nvlink-errors", Critical),
        ("xid-92", "ecc-rate", Warning),
        ("xid-62", "gpu-reset-needed", Critical),
        ("xid-167", "gpu-fault", Critical),
        ("sxid-12028", "nvswitch-fault", Critical),
        ("sxid-11001", "nvlink-errors", Critical),
        ("sxid-15008", "nvlink-errors", Info),
        ("xid-13", "app-fault", Info),
        ("xid-31", "app-fault", Info),
        ("oom", "oom", Info),
        ("oom-host", "oom", Info),
        ("mce-fatal", "host-fault", Critical),
        ("mce", "host-fault", Info),
        ("hard-lockup", "kernel-stuck", Critical),
        ("soft-lockup", "kernel-stuck", Info),
        ("io-error", "disk-fault", Info),
        ("nvme-down", "disk-fault", Degraded),
        ("mlx5-health", "nic-missing", Critical),
        ("mlx5-link-down", "link-down", Info),
        ("ib-down", "link-down", Critical),
        ("nfs-stall", "storage-stall", Warning),
        ("aer-correctable", "pcie-replay", Warning),
        ("cpu-throttle", "thermal", Info),
        ("xid-1", "gpu-fault", Info),
    ] {
        assert_eq!(judged(&fault(code)), Some((kind.to_owned(), severity)), "{code}");
    }
}

#[test]
fn a_trace_never_drives_anything() {
    assert_eq!(judged(&fault("xid-45")), None);
    let mut f = fault("xid-45");
    f.class = FaultClass::Gpu;
    f.action = FaultAction::Replace;
    assert_eq!(judged(&f), Some(("app-fault".to_owned(), Severity::Info)));
}

#[test]
fn the_drivers_verdict_is_believed() {
    let mut f = fault("xid-154");
    assert_eq!(judged(&f), None, "a verdict that says nothing");
    f.class = FaultClass::Gpu;
    for (action, kind, severity) in [
        (FaultAction::ResetGpu, "gpu-reset-needed", Severity::Critical),
        (FaultAction::ResetWhenIdle, "gpu-reset-needed", Severity::Degraded),
        (FaultAction::Reboot, "gpu-fault", Severity::Critical),
    ] {
        f.action = action;
        assert_eq!(judged(&f), Some((kind.to_owned(), severity)));
        assert_eq!(evaluate(&node(), &f, 0).map(|s| s.confidence), Some(1000));
    }
}

#[test]
fn an_application_fault_that_the_reader_raised_is_of_the_gpu() {
    let mut f = fault("xid-31");
    f.action = FaultAction::Inspect;
    assert_eq!(judged(&f), Some(("gpu-fault".to_owned(), Severity::Degraded)));
}

#[test]
fn what_an_operator_made_lighter_is_light() {
    let mut f = fault("xid-79");
    f.action = FaultAction::Watch;
    assert_eq!(judged(&f), Some(("gpu-off-bus".to_owned(), Severity::Info)));
    f.action = FaultAction::None;
    assert_eq!(judged(&f), None);
}

#[test]
fn every_fault_of_the_catalogue_has_a_mode_or_no_consequence() {
    for e in Catalogue::builtin().entries() {
        for gpu in [None, Some(0)] {
            let mut f = fault(&e.code.to_string());
            f.gpu = gpu;
            for action in [f.action, FaultAction::Inspect] {
                f.action = action;
                if let Some(seen) = evaluate(&node(), &f, 2) {
                    assert!(mode(&seen.kind).is_some(), "{}: {}", e.code, seen.kind);
                    assert!(seen.evidence.iter().all(|l| !l.is_empty()), "{}", e.code);
                }
            }
        }
        if e.attribution == FaultAttribution::Job {
            let info = judged(&fault(&e.code.to_string())).is_none_or(|j| j.1 == Severity::Info);
            assert!(info, "{}", e.code);
        }
    }
}

#[test]
fn who_was_hit_and_how_often_is_carried() {
    let mut f = fault("xid-79");
    let key = AttemptKey { job: JobId(7), attempt: 2 };
    (f.attempt, f.rank, f.count, f.gpu) = (Some(key), Some(4), 9, None);
    let seen = evaluate(&node(), &f, 3).expect("a finding");
    assert_eq!((seen.attempt, seen.rank, seen.count), (Some(key), Some(4), 9));
    assert_eq!(seen.entity, Entity::Node(node()));
    assert!(seen.evidence.iter().any(|l| l.contains("3 times before")));
}

#[test]
fn a_code_that_nobody_knows_is_a_remark() {
    let mut f = fault("xid-1");
    f.code = "made-up".to_owned();
    assert_eq!(judged(&f), Some(("gpu-fault".to_owned(), Severity::Info)));
}
