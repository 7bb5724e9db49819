//! Lines of kernels' logs, and what must be made of them.
//!
//! The files hold lines as drivers and kernels write them; the formats are published, the figures
//! in them are made up. Each line is read as it stands and with what loggers put before it, and
//! some are written many times over with other processes, addresses and links.

use muster_health::faults::{Catalogue, Code, Context, FaultReport, Line, Reader, parse};
use muster_model::units::Time;
use proptest::prelude::*;
use std::sync::Arc;

const FAULTS: [&str; 3] = [
    include_str!("corpus/xid.txt"),
    include_str!("corpus/sxid.txt"),
    include_str!("corpus/host.txt"),
];
const BORING: &str = include_str!("corpus/boring.txt");

/// What loggers put before the kernel's words.
const PREFIXES: [&str; 14] = [
    "",
    "[    4.123456] ",
    "[1234567.654321] ",
    "[12345.678901] [  T4711] ",
    "[  912.000001][  C12] ",
    "[Fri Aug 30 11:43:09 2024] ",
    "<4>[   12.345678] ",
    "3,1042,8462102,-;",
    "4,99123,18446744073,-,caller=T812;",
    "Feb 14 05:03:41 gpu-0017 kernel: ",
    "Oct  2 10:41:07 srv-r07-u12 kernel: [159259.989773] ",
    "2025-01-25T10:34:54.859532+00:00 node-3 kernel: ",
    "kern  :err   : 2025-01-25T10:34:54,859532+00:00 ",
    "kern  :warn  : [  123.456789] ",
];

/// What programs, not the kernel, put before their words.
const FOREIGN: [&str; 5] = [
    "Feb 14 05:03:41 gpu-0017 systemd[1]: ",
    "2025-01-25T10:34:54.859532+00:00 node-3 app[1234]: ",
    "12,1042,8462102,-;",
    "<30>",
    "user  :info  : [  123.456789] ",
];

/// The expected verdict and the line.
fn faults() -> impl Iterator<Item = (&'static str, &'static str)> {
    FAULTS
        .iter()
        .flat_map(|f| f.lines())
        .filter(|l| !l.starts_with('#'))
        .map(|l| l.split_once(" || ").unwrap_or_else(|| panic!("no verdict in the corpus: {l}")))
}

fn boring() -> impl Iterator<Item = &'static str> {
    BORING.lines().filter(|l| !l.starts_with('#'))
}

fn reader() -> Reader {
    let context = Context { driver_major: None, sku: "h100-sxm".into(), pool: "train".into() };
    Reader::new(Arc::new(Catalogue::builtin().clone()), context)
}

/// What a reader that has read nothing else makes of a line.
fn verdict(catalogue: &Arc<Catalogue>, line: &[u8]) -> Vec<FaultReport> {
    let context = Context { driver_major: None, sku: "h100-sxm".into(), pool: "train".into() };
    let mut reader = Reader::new(Arc::clone(catalogue), context);
    reader.line(Time(1_000), line);
    reader.take(Time(1_000))
}

fn word(value: impl serde::Serialize) -> String {
    // The model's own word, as files and the API write it.
    toml::Value::try_from(value)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn says(seen: &[FaultReport]) -> String {
    match seen {
        [] => "none".into(),
        [s] => format!("{} {} {}", s.code, word(s.class), word(s.action)),
        more => format!("{} reports", more.len()),
    }
}

#[test]
fn every_line_of_the_corpus_is_judged_as_it_should_be() {
    let catalogue = Arc::new(Catalogue::builtin().clone());
    let mut read = 0;
    let mut wrong = Vec::new();
    for (want, line) in faults() {
        for prefix in PREFIXES {
            let text = format!("{prefix}{line}");
            let got = says(&verdict(&catalogue, text.as_bytes()));
            if got != want {
                wrong.push(format!("want {want}, got {got}: {text}"));
            }
            read += 1;
        }
        for prefix in FOREIGN {
            let text = format!("{prefix}{line}");
            let got = says(&verdict(&catalogue, text.as_bytes()));
            if got != "none" {
                wrong.push(format!("not the kernel's, got {got}: {text}"));
            }
            read += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {read}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(read >= 5_000, "{read}");
}

#[test]
fn nothing_is_made_of_boring_lines() {
    let mut read = 0;
    let mut wrong = Vec::new();
    for line in boring() {
        for prefix in PREFIXES {
            let text = format!("{prefix}{line}");
            if let Some(got @ (Line::Fault(_) | Line::Gpu { .. })) = parse(text.as_bytes()) {
                wrong.push(format!("{got:?}: {text}"));
            }
            read += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {read}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(read >= 1_000, "{read}");
}

#[test]
fn the_corpus_is_large_and_its_lines_differ() {
    let mut lines: Vec<&str> = faults().map(|(_, l)| l).chain(boring()).collect();
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all, "a line stands twice in the corpus");
    assert!(faults().count() >= 300);
    assert!(boring().count() >= 300);
}

#[test]
fn every_xid_is_read_in_every_form_that_drivers_write() {
    let catalogue = Arc::new(Catalogue::builtin().clone());
    let mut read = 0;
    for n in 1..=173_u32 {
        for (gpu, form) in [
            "Xid (PCI:0000:{bus}:00): {n}, pid={pid}, name=python3, Ch 00000008",
            "Xid (PCI:0000:{bus}:00): {n}, pid='<unknown>', name=<unknown>, x",
            "Xid (PCI:0000:{bus}:00.0): {n}, pid={pid}, x",
            "Xid (PCI:0000:{bus}:00): {n}, x",
            "Xid (0000:{bus}:00): {n}, Ch 00000018",
            "Xid (PCI:0000:{bus}:00 GPU-I:05): {n}, pid={pid}, name=a b, x",
            "Xid (PCI:0000:{bus}:00): {n}",
            "Xid (PCI:0000:{bus}:00):{n}, x",
        ]
        .iter()
        .enumerate()
        {
            let bus = format!("{:02x}", 0x10 + 0x11 * gpu);
            let pid = 1000 + n * 7;
            let line = format!("NVRM: {form}")
                .replace("{bus}", &bus)
                .replace("{n}", &n.to_string())
                .replace("{pid}", &pid.to_string());
            let seen = verdict(&catalogue, line.as_bytes());
            let [s] = &seen[..] else { panic!("{line}: {seen:?}") };
            assert_eq!(s.code, Code::Xid(n), "{line}");
            assert_eq!(s.pci.map(|p| p.to_string()), Some(format!("0000:{bus}:00.0")), "{line}");
            let named = form.contains("{pid}");
            assert_eq!(s.pid, named.then(|| i32::try_from(pid).expect("small")), "{line}");
            let rule = &catalogue.entry(s.code).expect("in the catalogue").rule;
            if n != 154 {
                assert_eq!((s.class, s.action), (rule.class, rule.action), "{line}");
            }
            read += 1;
        }
    }
    assert!(read >= 1_300, "{read}");
}

#[test]
fn every_sxid_is_read_with_its_port() {
    let catalogue = Arc::new(Catalogue::builtin().clone());
    for e in catalogue.entries() {
        let Code::Sxid(n) = e.code else { continue };
        for (switch, port) in [(0, 0), (1, 7), (3, 63)] {
            let line = format!(
                "nvidia-nvswitch{switch}: SXid (PCI:0000:{:02x}:00.0): {n}, Non-fatal, Link {port} x",
                0x80 + switch
            );
            let seen = verdict(&catalogue, line.as_bytes());
            let [s] = &seen[..] else { panic!("{line}: {seen:?}") };
            assert_eq!(
                (s.code, s.class, s.action),
                (e.code, e.rule.class, e.rule.action),
                "{line}"
            );
        }
    }
}

#[test]
fn what_a_line_names_is_kept() {
    let fault = |line: &'static str| match parse(line.as_bytes()) {
        Some(Line::Fault(f)) => f,
        other => panic!("{line}: {other:?}"),
    };
    let f = fault("Memory cgroup out of memory: Killed process 18245 (python3) total-vm:1kB");
    assert_eq!((f.pid, f.process), (Some(18_245), Some(&b"python3"[..])));
    let f = fault("INFO: task kworker/u64:2:1834 blocked for more than 241 seconds.");
    assert_eq!((f.pid, f.process), (Some(1_834), Some(&b"kworker/u64:2"[..])));
    let f = fault("watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python:12345]");
    assert_eq!((f.pid, f.process), (Some(12_345), Some(&b"python"[..])));
    let f = fault("NVRM: Xid (PCI:0002:00:00): 119, pid=15, name=nvc:[driver], Timeout");
    assert_eq!((f.pid, f.process), (Some(15), Some(&b"nvc:[driver]"[..])));
    let f = fault("nvme nvme3: I/O 683 QID 12 timeout, aborting");
    assert_eq!(f.device, Some("nvme3"));
    let f = fault("mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link DOWN");
    assert_eq!((f.device, f.pci.map(|p| p.bus)), (Some("mlx5_5"), Some(0xab)));
    let f =
        fault("pcieport 0000:17:01.0: AER: Correctable error message received from 0000:3d:00.0");
    assert_eq!(f.pci.map(|p| p.bus), Some(0x3d), "the device, not the port that reports");
    let f = fault("ray::Worker [x][9]: segfault at 0 ip 0 sp 0 error 4 in libnccl.so");
    assert_eq!((f.pid, f.process), (Some(9), Some(&b"ray::Worker [x]"[..])));
}

#[test]
fn a_huge_line_is_cut_and_costs_no_more() {
    use muster_health::faults::MAX_LINE;
    for piece in
        ["NVRM: Xid (", "AER: ", "I/O ", "[", "<", "(((", "INFO: task ", "kernel: ", "NVR", "0,"]
    {
        let huge = piece.repeat(200_000);
        let cut = &huge.as_bytes()[..MAX_LINE];
        assert_eq!(parse(huge.as_bytes()), parse(cut), "{piece}");
    }
    let mut line = String::from("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, ");
    line.push_str(&"x".repeat(1 << 20));
    let Some(Line::Fault(f)) = parse(line.as_bytes()) else { panic!("it is a fault") };
    assert_eq!(f.body.len(), MAX_LINE, "no byte beyond the cut is looked at");
}

/// Bytes that are likely to lead a reader astray.
fn tokens() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"NVRM: Xid (PCI:0000:3b:00): ".to_vec()),
        Just(b"pid=".to_vec()),
        Just(b"name=".to_vec()),
        Just(b"GPC ".to_vec()),
        Just(b"link 3(0x".to_vec()),
        Just(b" Fatal XC0 i0 Link ".to_vec()),
        Just(b"GPU recovery action changed to 0x".to_vec()),
        Just(b"nvidia-nvswitch0: SXid (PCI:".to_vec()),
        Just(b"pcieport 0000:00:1c.0: AER: ".to_vec()),
        Just(b"mlx5_core 0000:".to_vec()),
        Just(b"nvme nvme0: I/O ".to_vec()),
        Just(b"[12345.678901] ".to_vec()),
        Just(b"Feb 14 05:03:41 h kernel: ".to_vec()),
        Just(b"INFO: task :".to_vec()),
        Just(b" blocked for more than ".to_vec()),
        Just(b"Memory cgroup out of memory: Killed process ".to_vec()),
        Just(b"]: segfault at  in libnccl".to_vec()),
        (0_u64..=u64::MAX).prop_map(|n| n.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..6),
        Just(b", ".to_vec()),
        Just(b"(".to_vec()),
        Just(b")".to_vec()),
        Just(b":".to_vec()),
    ];
    prop::collection::vec(token, 0..24).prop_map(|t| t.concat())
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<&'static str> = faults().map(|(_, l)| l).chain(boring()).collect();
    let line = prop::sample::select(lines);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 0..6);
    let prefix = prop::sample::select(PREFIXES.to_vec());
    (prefix, line, edits).prop_map(|(prefix, line, edits)| {
        let mut bytes = format!("{prefix}{line}").into_bytes();
        for (at, byte, how) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn odd_mixtures_never_panic(bytes in tokens()) {
        let _ = parse(&bytes);
    }

    #[test]
    fn lines_with_mistakes_never_panic(bytes in mutated()) {
        let _ = parse(&bytes);
    }

    #[test]
    fn any_order_of_lines_and_any_clock_loses_nothing(
        lines in prop::collection::vec((mutated(), any::<i64>()), 1..40),
        xids in prop::collection::vec((0..200_u32, any::<i64>()), 0..5),
    ) {
        let mut r = reader();
        let mut read = 0_u64;
        let mut reported = 0_u64;
        for (line, at) in &lines {
            read += u64::from(matches!(parse(line), Some(Line::Fault(_))));
            r.line(Time(*at), line);
            let _ = r.next_due();
        }
        for (xid, at) in xids {
            r.driver_event(Time(at), Some("0000:3b:00"), xid);
        }
        let mut now = 0;
        for _ in 0..40 {
            reported += r.take(Time(now)).iter().map(|s| s.count).sum::<u64>();
            now += 120_000;
        }
        // Lines that only add to others are not counted; everything else is reported once.
        prop_assert!(reported <= read + 5, "{reported} of {read}");
        prop_assert!(read == 0 || reported > 0, "{reported} of {read}");
        prop_assert!(r.next_due().is_none());
    }
}
