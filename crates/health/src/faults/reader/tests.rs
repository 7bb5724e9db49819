use super::*;
use muster_model::fault::FaultClass;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

fn reader() -> Reader {
    let context = Context { driver_major: Some(580), sku: "h200-sxm".into(), pool: "p".into() };
    Reader::new(Arc::new(Catalogue::builtin().clone()), context)
}

fn xid(gpu: u8, n: u32, rest: &str) -> String {
    format!("NVRM: Xid (PCI:0000:{gpu:02x}:00): {n}, {rest}")
}

/// One line, and what is reported at once.
fn one(r: &mut Reader, at: i64, line: &str) -> Vec<FaultReport> {
    r.line(Time(at), line.as_bytes());
    r.take(Time(at))
}

fn action(r: &mut Reader, at: i64, line: &str) -> FaultAction {
    let seen = one(r, at, line);
    assert_eq!(seen.len(), 1, "{line}: {seen:?}");
    seen[0].action
}

#[test]
fn the_first_line_is_reported_at_once_with_all_it_says() {
    let mut r = reader();
    let line = "NVRM: Xid (PCI:0000:00:06): 31, pid=423, name=bad, channel 0x0000000a, intr \
                00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x8314_97e00000.";
    r.line(Time(5), line.as_bytes());
    assert_eq!(r.next_due(), Some(Time(5)));
    let seen = r.take(Time(6));
    let [s] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(s.code, Code::Xid(31));
    assert_eq!((s.first, s.last, s.count), (Time(5), Time(5), 1));
    assert_eq!((s.class, s.action), (FaultClass::Application, FaultAction::RestartJob));
    assert_eq!(s.pci, Pci::parse("00000000:00:06.0"));
    assert_eq!((s.pid, s.process.as_deref()), (Some(423), Some("bad")));
    assert!(s.fresh && s.text == line && s.source == FaultSource::Kernel);
    assert_eq!(r.next_due(), None);
    let reported = s.clone().into_fault(Some(0), None, Some(3));
    assert_eq!((reported.code.as_str(), reported.gpu, reported.rank), ("xid-31", Some(0), Some(3)));
}

#[test]
fn repeats_are_reported_ever_further_apart() {
    let mut r = reader();
    let line = xid(0x3b, 95, "pid=7, name=x, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No");
    let mut reports = Vec::new();
    // Thirteen minutes, a thousand lines each second, looked at four times a second.
    for ms in 0..800_000 {
        r.line(Time(ms), line.as_bytes());
        if ms % 250 == 0 {
            reports.extend(r.take(Time(ms)));
        }
    }
    reports.extend(r.take(Time(HOUR)));
    assert_eq!(reports.iter().map(|s| s.count).sum::<u64>(), 800_000);
    assert!(reports.len() <= 18, "{}", reports.len());
    assert!(reports[0].fresh && reports[0].count == 1);
    assert!(reports[1..].iter().all(|s| !s.fresh));
    assert_eq!(reports[1].last.since(reports[0].first), Span::secs(5));
}

#[test]
fn what_was_silent_is_reported_afresh() {
    let mut r = reader();
    let line = xid(1, 43, "pid=7, name=x, channel 0x0000000a");
    assert!(one(&mut r, 0, &line)[0].fresh);
    assert!(r.take(Time(2 * MINUTE)).is_empty());
    assert!(one(&mut r, 2 * MINUTE, &line)[0].fresh);
}

#[test]
fn a_slow_trickle_ends_at_a_report_a_minute() {
    let mut r = reader();
    let line = xid(1, 43, "pid=7, name=x, channel 0x0000000a");
    let mut reports = Vec::new();
    for s in (0..7200).step_by(7) {
        reports.extend(one(&mut r, s * 1000, &line));
    }
    assert!((110..=130).contains(&reports.len()), "{}", reports.len());
}

#[test]
fn a_flood_of_different_faults_stays_bounded_and_hides_nothing_new() {
    let mut r = reader();
    let mut reports = 0;
    for n in 0..200_000_u32 {
        let (gpu, pid) = ((n % 251) as u8, n);
        let line = xid(gpu, 1 + n % 9_000, &format!("pid={pid}, name=x"));
        r.line(Time(i64::from(n)), line.as_bytes());
        if n % 1000 == 0 {
            reports += r.take(Time(i64::from(n))).len();
        }
    }
    assert!(r.folded() > 0);
    assert!(reports < 12_000, "{reports}");
    let _ = r.take(Time(200_000));
    let seen = one(&mut r, 200_001, &xid(0xfe, 79, "GPU has fallen off the bus."));
    // Known faults have a place of their own even then; one was reported or is counted there.
    assert!(seen.iter().all(|s| s.code == Code::Xid(79)), "{seen:?}");
    // Once it is quiet, everything is distinguished again.
    let _ = r.take(Time(HOUR));
    let seen = one(&mut r, HOUR + 1, &xid(0xfe, 79, "GPU has fallen off the bus."));
    assert_eq!(seen[0].pci, Pci::parse("0000:fe:00"));
    assert_eq!(r.folded(), 0);
}

#[test]
fn many_processes_of_one_fault_are_not_reported_one_by_one() {
    let mut r = reader();
    let mut reports = Vec::new();
    for pid in 1..=1000 {
        reports.extend(one(&mut r, pid, &xid(1, 45, &format!("pid={pid}, name=x, Ch 00000001"))));
    }
    reports.extend(r.take(Time(10_000)));
    assert!(reports.len() <= 20, "{}", reports.len());
    assert_eq!(reports.iter().map(|s| s.count).sum::<u64>(), 1000);
    assert!(reports.iter().all(|s| s.action == FaultAction::None));
    // A kill for want of memory is about its process alone: each may be another job's.
    let mut r = reader();
    for pid in 1..=100 {
        let line =
            format!("Memory cgroup out of memory: Killed process {pid} (python3) total-vm:1kB");
        assert_eq!(one(&mut r, i64::from(pid), &line)[0].pid, Some(pid));
    }
}

#[test]
fn the_drivers_verdict_goes_before_the_table() {
    let mut r = reader();
    let ecc = |pid: i32| xid(0x3b, 94, &format!("pid={pid}, name=x, Contained: SM (0x1)"));
    assert_eq!(action(&mut r, 0, &ecc(1)), FaultAction::RestartJob);
    let verdict = |words: &str| {
        xid(0x3b, 154, &format!("GPU recovery action changed from 0x0 (None) to 0x1 ({words})"))
    };
    assert_eq!(action(&mut r, 1, &verdict("GPU Reset Required")), FaultAction::ResetGpu);
    let pci = Pci::parse("0000:3b:00").expect("an address");
    assert_eq!(r.verdict(pci), Some(FaultAction::ResetGpu));
    let seen = one(&mut r, 2, &ecc(2));
    assert_eq!(seen[0].action, FaultAction::ResetGpu);
    assert!(seen[0].detail.as_deref().is_some_and(|d| d.contains("154")));
    // Another GPU is not meant; neither are faults that the driver gives no verdict on.
    assert_eq!(action(&mut r, 3, &xid(0x3c, 94, "pid=1, name=x")), FaultAction::RestartJob);
    assert_eq!(action(&mut r, 4, &xid(0x3b, 43, "pid=1, name=x")), FaultAction::None);
    // Spare rows that are used up stay a matter for replacement.
    assert_eq!(action(&mut r, 5, &xid(0x3b, 64, "Row Remapper: failed")), FaultAction::Replace);
    for (at, words, want) in [
        (6, "Drain and Reset", FaultAction::ResetWhenIdle),
        (7, "Drain P2P", FaultAction::ResetWhenIdle),
        (8, "Node Reboot Required", FaultAction::Reboot),
    ] {
        let _ = one(&mut r, at, &verdict(words));
        assert_eq!(r.verdict(pci), Some(want), "{words}");
    }
    r.take(Time(HOUR));
    assert_eq!(action(&mut r, HOUR, &verdict("None")), FaultAction::None);
    assert_eq!(r.verdict(pci), None);
    assert_eq!(action(&mut r, HOUR + 1, &ecc(3)), FaultAction::RestartJob);
}

#[test]
fn a_verdict_is_on_what_came_before_it() {
    let mut r = reader();
    let poison = |pid: i32| xid(1, 95, &format!("pid={pid}, name=x, Uncontained: FBHUB"));
    assert_eq!(action(&mut r, 0, &poison(1)), FaultAction::ResetGpu);
    let drain = xid(1, 154, "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)");
    assert_eq!(action(&mut r, 1, &drain), FaultAction::ResetWhenIdle);
    assert_eq!(action(&mut r, 2, &poison(2)), FaultAction::ResetWhenIdle, "lighter, and meant");
    let lost = xid(1, 79, "pid=3, name=x, GPU has fallen off the bus.");
    assert_eq!(action(&mut r, 3, &lost), FaultAction::Reboot, "worse than what the driver knew");
}

#[test]
fn a_verdict_that_grows_heavier_is_reported_at_once() {
    let mut r = reader();
    let verdict = |words| xid(1, 154, &format!("GPU recovery action changed to 0x1 ({words})"));
    assert_eq!(action(&mut r, 0, &verdict("Drain and Reset")), FaultAction::ResetWhenIdle);
    let seen = one(&mut r, 1, &verdict("Node Reboot Required"));
    assert!(seen[0].fresh && seen[0].action == FaultAction::Reboot, "{seen:?}");
}

#[test]
fn a_trace_never_acts() {
    let mut r = reader();
    for day in 0..9 {
        let line = xid(1, 45, "pid=1, name=x, Ch 00000001 caused by previous Xid 149");
        let seen = one(&mut r, day * HOUR, &line);
        assert_eq!(seen[0].action, FaultAction::None);
        assert_eq!(seen[0].detail.as_deref(), Some("follows XID 149"));
    }
}

#[test]
fn exceptions_at_one_place_of_a_gpu_make_it_suspect() {
    let line = |pid: i32, gpc, tpc| {
        let said = format!("SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM 0): Illegal Address");
        xid(1, 13, &format!("pid={pid}, name=x, Graphics {said}"))
    };
    let mut r = reader();
    assert_eq!(action(&mut r, 0, &line(1, 7, 3)), FaultAction::RestartJob);
    // The same crash writes several lines; other places are other crashes.
    assert!(one(&mut r, 10, &line(1, 7, 3)).is_empty());
    assert_eq!(action(&mut r, 20, &line(2, 7, 4)), FaultAction::RestartJob);
    let seen = one(&mut r, HOUR, &line(3, 7, 3));
    assert_eq!(seen[0].action, FaultAction::Inspect);
    assert_eq!(seen[0].detail.as_deref(), Some("2 times at GPC 7, TPC 3"));
    // A day later it is forgotten.
    assert_eq!(action(&mut r, 26 * HOUR, &line(4, 7, 3)), FaultAction::RestartJob);
    // Without a place it is the job's.
    let plain = xid(1, 13, "pid=9, name=x, Graphics Exception: ESR 0x57c730=0xc04000b");
    assert_eq!(action(&mut r, 26 * HOUR + 1, &plain), FaultAction::RestartJob);
}

#[test]
fn page_faults_of_several_processes_on_one_gpu_alone_make_it_suspect() {
    let line = |gpu, pid: i32| xid(gpu, 31, &format!("pid={pid}, name=x, MMU Fault"));
    let mut r = reader();
    assert_eq!(action(&mut r, 0, &line(1, 10)), FaultAction::RestartJob);
    assert_eq!(action(&mut r, HOUR, &line(1, 10)), FaultAction::RestartJob);
    let seen = one(&mut r, 2 * HOUR, &line(1, 11));
    assert_eq!(seen[0].action, FaultAction::Inspect);
    assert_eq!(seen[0].detail.as_deref(), Some("2 processes, and only on this GPU"));
    // As soon as another GPU shows it, it is the job.
    assert_eq!(action(&mut r, 3 * HOUR, &line(2, 12)), FaultAction::RestartJob);
    let seen = one(&mut r, 4 * HOUR, &line(1, 13));
    assert_eq!(seen[0].action, FaultAction::RestartJob);
    assert_eq!(seen[0].detail.as_deref(), Some("on several GPUs: the job"));
}

#[test]
fn memory_errors_are_reported_with_what_belongs_to_them() {
    let mut r = reader();
    let dbe = xid(1, 48, "pid=1, name=x, DBE (double bit error) ECC Error");
    let row = xid(1, 63, "pid=1, name=x, Row Remapper: New row marked for remapping");
    assert_eq!(action(&mut r, 0, &dbe), FaultAction::ResetGpu);
    let seen = one(&mut r, 1, &row);
    assert_eq!(seen[0].action, FaultAction::ResetWhenIdle);
    assert!(seen[0].detail.as_deref().is_some_and(|d| d.contains("48")));
    let mut r = reader();
    let _ = one(&mut r, 0, &row);
    assert_eq!(action(&mut r, 1, &dbe), FaultAction::ResetWhenIdle);
    let other = xid(2, 48, "pid=1, name=x");
    assert_eq!(action(&mut r, 2, &other), FaultAction::ResetGpu);
    assert_eq!(action(&mut r, 3, &xid(1, 64, "Row Remapper: failed")), FaultAction::Replace);
}

#[test]
fn a_second_trouble_of_one_link_is_for_somebody_to_look_at() {
    let line = |link, first| {
        let regs = format!("(0x{first:x}, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)");
        xid(1, 74, &format!("pid=5, name=x, NVLink: fatal error detected on link {link}{regs}"))
    };
    let mut r = reader();
    let seen = one(&mut r, 0, &line(6, 0x1_0000));
    assert_eq!(seen[0].action, FaultAction::ResetGpu);
    assert!(seen[0].detail.as_deref().is_some_and(|d| d.starts_with("link 6: ")));
    let _ = r.take(Time(HOUR));
    assert_eq!(action(&mut r, HOUR, &line(7, 0x1_0000)), FaultAction::ResetGpu);
    let _ = r.take(Time(2 * HOUR));
    assert_eq!(action(&mut r, 2 * HOUR, &line(6, 0x1_0000)), FaultAction::Inspect);
    let mut r = reader();
    assert_eq!(action(&mut r, 0, &line(6, 0x80_0000)), FaultAction::None);
}

#[test]
fn newer_links_are_decoded_by_the_drivers_age() {
    let line = "NVRM: Xid (PCI:0000:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 03 (0x025001c6 \
                0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)";
    let context = Context { driver_major: Some(570), ..Context::default() };
    let mut r = Reader::new(Arc::new(Catalogue::builtin().clone()), context);
    let seen = one(&mut r, 0, line);
    assert_eq!(seen[0].action, FaultAction::ResetGpu);
    assert_eq!(seen[0].detail.as_deref(), Some("link 3: look at the other end of the link"));
}

#[test]
fn five_bursts_in_a_day_are_for_somebody_to_look_at() {
    let mut r = reader();
    let line = xid(1, 62, "pid=1, name=x, 3f01(2c4c) 00000000 00000000");
    for n in 0..4 {
        let _ = r.take(Time(n * HOUR));
        assert_eq!(action(&mut r, n * HOUR, &line), FaultAction::ResetGpu, "{n}");
        // The same burst.
        let _ = one(&mut r, n * HOUR + MINUTE, &line);
    }
    let _ = r.take(Time(4 * HOUR));
    let seen = one(&mut r, 4 * HOUR, &line);
    assert_eq!(seen[0].action, FaultAction::Inspect);
    assert_eq!(seen[0].detail.as_deref(), Some("5 times in 1d"));
    // What lingers is one burst for hours.
    let mut r = reader();
    let line = xid(1, 119, "pid=1, name=x, Timeout after 6s of waiting for RPC response");
    for n in 0..6 {
        let _ = r.take(Time(n * HOUR));
        assert_eq!(action(&mut r, n * HOUR, &line), FaultAction::ResetGpu, "{n}");
    }
    // A job that crashes again and again does not make a GPU suspect.
    let mut r = reader();
    for n in 0..9 {
        let _ = r.take(Time(n * HOUR));
        let line = xid(1, 43, "pid=1, name=x, channel 0x0000000a");
        assert_eq!(action(&mut r, n * HOUR, &line), FaultAction::None, "{n}");
    }
}

#[test]
fn one_fault_can_end_another() {
    let mut r = reader();
    let out = xid(1, 163, "power smoothing disengaged");
    let _ = one(&mut r, 0, &out);
    let _ = one(&mut r, 1, &out);
    let seen = one(&mut r, 2, &xid(1, 162, "power smoothing re-engaged"));
    assert_eq!(seen[0].ends, Some(Code::Xid(163)));
    assert!(r.take(Time(HOUR)).is_empty(), "what ended is not reported any more");
    let seen = one(&mut r, HOUR, "nvidia-nvswitch0: SXid (PCI:0000:84:00.0): 10005, Non-fatal, x");
    assert_eq!(seen[0].ends, Some(Code::Sxid(10_004)));
}

#[test]
fn what_the_driver_reports_is_not_counted_twice() {
    let line = xid(0x3b, 79, "pid=1, name=x, GPU has fallen off the bus.");
    // The log first: the driver adds nothing.
    let mut r = reader();
    assert_eq!(one(&mut r, 0, &line).len(), 1);
    r.driver_event(Time(100), Some("00000000:3B:00.0"), 79);
    assert!(r.take(Time(3_000)).is_empty());
    // The driver first: the log comes within the time that it is held.
    let mut r = reader();
    r.driver_event(Time(0), Some("00000000:3B:00.0"), 79);
    assert_eq!(r.next_due(), Some(Time(700)));
    assert!(r.take(Time(100)).is_empty());
    let seen = one(&mut r, 200, &line);
    assert_eq!((seen.len(), seen[0].count, seen[0].pid), (1, 1, Some(1)));
    assert!(r.take(Time(5_000)).is_empty());
    // The driver alone.
    let mut r = reader();
    r.driver_event(Time(0), Some("00000000:3B:00.0"), 79);
    let seen = r.take(Time(900));
    assert_eq!((seen.len(), seen[0].source), (1, FaultSource::Driver));
    assert_eq!((seen[0].action, seen[0].count), (FaultAction::Reboot, 1));
    // The log, late: it adds the process and counts for nothing.
    let seen = one(&mut r, 2_000, &line);
    assert_eq!((seen.len(), seen[0].count, seen[0].pid), (1, 0, Some(1)));
    assert!(!seen[0].fresh);
    // Much later it is another one.
    assert_eq!(one(&mut r, HOUR, &line)[0].count, 1);
    // Another GPU is another fault; no GPU at all can be any.
    let mut r = reader();
    assert_eq!(one(&mut r, 0, &line).len(), 1);
    r.driver_event(Time(1), Some("00000000:3C:00.0"), 79);
    r.driver_event(Time(1), None, 79);
    assert_eq!(r.take(Time(1_000)).len(), 1);
}

#[test]
fn a_lost_gpu_is_reported_once() {
    let mut r = reader();
    assert_eq!(one(&mut r, 0, &xid(0x3b, 79, "GPU has fallen off the bus.")).len(), 1);
    assert!(one(&mut r, 1, "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.").is_empty());
    let seen = one(&mut r, 2, "NVRM: GPU 0000:3c:00.0: GPU has fallen off the bus.");
    assert_eq!(seen[0].code, Code::Other("gpu-lost"));
    // Newer drivers write it as a sentence over three lines.
    for line in [
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: (PCI ID: 10de:26b5) installed in this system has",
    ] {
        assert!(one(&mut r, 3, line).is_empty());
    }
    let seen = one(&mut r, 3, "NVRM: fallen off the bus and is not responding to commands.");
    assert_eq!(seen[0].pci, Pci::parse("0000:b3:00"));
}

#[test]
fn three_lines_of_a_switch_are_one_fault() {
    let mut r = reader();
    let say = |rest: &str| format!("nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, {rest}");
    let seen = one(&mut r, 0, &say("Non-fatal, Link 32 egress non-posted PRIV error (First)"));
    assert_eq!((seen[0].action, seen[0].count), (FaultAction::Reboot, 1));
    assert!(one(&mut r, 1, &say("Severity 1 Engine instance 32")).is_empty());
    assert!(one(&mut r, 2, &say("Data {0x000001c0, 0x00bd5c8a}")).is_empty());
    assert!(r.take(Time(MINUTE)).is_empty());
    // Figures alone, where the other lines were lost, are still reported.
    let mut r = reader();
    assert_eq!(one(&mut r, 0, &say("Data {0x000001c0, 0x00bd5c8a}"))[0].count, 1);
    // Nobody knows it, but the line says fatal.
    let mut r = reader();
    let line = "nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 29999, Fatal, Link 3 something new";
    assert_eq!(action(&mut r, 0, line), FaultAction::Reboot);
}

#[test]
fn a_clock_that_goes_back_stops_nothing() {
    let mut r = reader();
    let line = xid(1, 62, "pid=1, name=x");
    assert_eq!(one(&mut r, 100 * HOUR, &line).len(), 1);
    for s in 1..=10 {
        r.line(Time(s * 1000), line.as_bytes());
        let _ = r.take(Time(s * 1000));
    }
    r.line(Time(11_000), line.as_bytes());
    let reported: u64 = r.take(Time(2 * MINUTE)).iter().map(|s| s.count).sum();
    assert!(reported > 0, "repeats are reported though the clock was set back");
    for at in [i64::MIN, i64::MAX, 0, -1, i64::MAX, i64::MIN] {
        r.line(Time(at), line.as_bytes());
        r.driver_event(Time(at), None, 79);
        let _ = (r.take(Time(at)), r.next_due());
    }
}

#[test]
fn operators_are_obeyed() {
    let text = "[[fault]]\ncode=\"xid-79\"\npool=\"p\"\naction=\"inspect\"\n\
                [[fault]]\ncode=\"xid-13\"\nrepeat={count=0}\n\
                [[fault]]\ncode=\"xid-900\"\nclass=\"gpu\"\naction=\"replace\"\n";
    let catalogue = Catalogue::builtin().with_overrides(text).expect("a good file");
    let mut r = reader();
    r.set_catalogue(Arc::new(catalogue));
    assert_eq!(action(&mut r, 0, &xid(1, 79, "x")), FaultAction::Inspect);
    assert_eq!(action(&mut r, 0, &xid(1, 900, "x")), FaultAction::Replace);
    assert_eq!(action(&mut r, 0, &xid(1, 901, "x")), FaultAction::Watch);
    for n in 0..5 {
        let line = xid(1, 13, &format!("pid={}, name=x, on (GPC 1, TPC 1, SM 0): y", n + 1));
        assert_eq!(action(&mut r, n * HOUR, &line), FaultAction::RestartJob);
    }
}

#[test]
fn uuids_are_kept() {
    let mut r = reader();
    r.line(Time(0), b"NVRM: GPU at PCI:0000:00:06: GPU-b0f49ed7-02c3-2281-a53a-518bb49efb38");
    let pci = Pci::parse("0000:00:06").expect("an address");
    assert_eq!(r.uuid(pci), Some("GPU-b0f49ed7-02c3-2281-a53a-518bb49efb38"));
    assert_eq!(r.next_due(), None);
}
