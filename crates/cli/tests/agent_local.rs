//! What `muster agent` can do without a server: check, inventory, metrics. The real binary, with
//! simulated GPUs, and with a Slurm that is a script.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn muster(args: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_muster"));
    c.arg("agent").args(args).env_remove("MUSTER_LOG").env_remove("SLURMD_NODENAME");
    c
}

fn run(args: &[&str]) -> (i32, String) {
    let out = muster(args).output().expect("started");
    (code(&out), String::from_utf8_lossy(&out.stdout).into_owned())
}

fn code(out: &Output) -> i32 {
    out.status.code().unwrap_or(-1)
}

#[test]
fn sound_gpus_are_healthy_and_broken_ones_named() {
    let fast = ["check", "--gpus-only", "--during", "100ms", "--simulated", "h100-sxm:4"];
    let (code, text) = run(&fast);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("4 GPUs are healthy"), "{text}");

    let (code, text) = run(&[&fast[..], &["--break", "2:power-brake"]].concat());
    assert_eq!(code, 20, "{text}");
    assert!(text.contains("degraded  GPU 2: "), "{text}");
    assert!(text.contains("do: "), "{text}");

    let all =
        [&fast[..], &["--break", "1:lost", "--break", "3:remap-failed", "-o", "json"]].concat();
    let (code, text) = run(&all);
    assert_eq!(code, 21, "{text}");
    let report: Value = serde_json::from_str(&text).expect("one document");
    assert_eq!(report["verdict"], "failed");
    let found: Vec<(&str, u64)> = report["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|f| f["verdict"] == "failed")
        .filter_map(|f| Some((f["code"].as_str()?, f["gpu"].as_u64()?)))
        .collect();
    assert_eq!(found, [("gpu-lost", 1), ("remap-failed", 3)]);
    assert_eq!(report["gpus"][0]["verdict"], "healthy");

    let (code, text) = run(&[&fast[..], &["--expect", "8"]].concat());
    assert_eq!(code, 21, "{text}");
    assert!(text.contains("there are 4 GPUs, and 8 are expected"), "{text}");
}

#[test]
fn a_gpu_that_hangs_does_not_hold_up_the_check() {
    let (code, text) = run(&[
        "check",
        "--gpus-only",
        "--during",
        "100ms",
        "--simulated",
        "h100-sxm:2",
        "--break",
        "0:hang",
    ]);
    assert_eq!(code, 21, "{text}");
    assert!(text.contains("GPU 0: a call to it does not return"), "{text}");
}

#[test]
fn a_saved_log_is_judged_like_a_live_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("dmesg.txt");
    let text = "[    1.000000] Linux version 6.18\n\
                [ 5000.000000] NVRM: Xid (PCI:0000:28:00): 79, pid=1234, name=python3, GPU has fallen off the bus.\n";
    std::fs::write(&log, text).expect("written");
    let file = log.display().to_string();
    let args = [
        "check",
        "--during",
        "100ms",
        "--simulated",
        "h100-sxm:2",
        "--kernel-log",
        &file,
        "-o",
        "json",
    ];
    let (code, text) = run(&args);
    assert_eq!(code, 21, "{text}");
    let report: Value = serde_json::from_str(&text).expect("one document");
    let xid = report["findings"].as_array().expect("a list").iter().find(|f| f["code"] == "xid-79");
    assert_eq!(xid.map(|f| &f["gpu"]), Some(&Value::from(1)), "{text}");
}

#[test]
fn a_machine_without_gpus_says_so() {
    let bare = !Path::new("/proc/driver/nvidia").exists();
    if !muster_testkit::machine(bare, "it has an NVIDIA driver") {
        return;
    }
    let (code, text) = run(&["check", "--gpus-only", "--during", "0s"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("no GPU on this machine"), "{text}");
    let (code, text) = run(&["inventory"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("no GPU: "), "{text}");
}

/// A Slurm that writes down what it is asked and says that the node is in this state.
fn slurm(dir: &Path, state: &str) -> String {
    let script = dir.join("scontrol");
    let asked = dir.join("asked");
    let text = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >> {}\n[ \"$2\" = show ] && echo \"NodeName=x State={state} Y=1\"\nexit 0\n",
        asked.display()
    );
    std::fs::write(&script, text).expect("written");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("set");
    format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default())
}

const LOST: [&str; 10] = [
    "check",
    "--gpus-only",
    "--during",
    "0s",
    "--simulated",
    "h100-sxm:2",
    "--break",
    "1:lost",
    "--slurm",
    "--slurm-drain",
];

#[test]
fn slurm_is_informed_once_in_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = slurm(dir.path(), "IDLE");
    let out =
        muster(&LOST).env("PATH", &path).env("SLURMD_NODENAME", "gpu-7").output().expect("ran");
    assert_eq!(code(&out), 21);
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(text, "FAILED muster: GPU 1: it is gone from the bus\n");
    let asked = std::fs::read_to_string(dir.path().join("asked")).expect("asked");
    let lines: Vec<&str> = asked.lines().collect();
    let update = "update NodeName=gpu-7 State=DRAIN Reason=muster: GPU 1: it is gone from the bus (gpu-lost)";
    assert_eq!(lines, ["--oneliner show node gpu-7", update]);
}

#[test]
fn a_node_that_is_drained_keeps_its_reason_and_a_sound_one_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = slurm(dir.path(), "IDLE+DRAIN");
    let out = muster(&LOST).env("PATH", &path).output().expect("ran");
    assert_eq!(code(&out), 21);
    let asked = std::fs::read_to_string(dir.path().join("asked")).expect("asked");
    assert!(!asked.contains("update"), "{asked}");
    std::fs::remove_file(dir.path().join("asked")).expect("removed");
    // Degraded is no reason to drain, nor to end a prolog badly.
    let warm = LOST.map(|a| if a == "1:lost" { "1:power-brake" } else { a });
    let out = muster(&warm).env("PATH", &path).output().expect("ran");
    assert_eq!(code(&out), 0);
    assert!(String::from_utf8_lossy(&out.stdout).starts_with("DEGRADED muster: GPU 1: "));
    assert!(!dir.path().join("asked").exists());
    // Without Slurm the verdict is printed all the same.
    let out = muster(&LOST).env("PATH", "/nowhere").output().expect("ran");
    assert_eq!(code(&out), 1);
    assert!(String::from_utf8_lossy(&out.stdout).starts_with("FAILED muster: "));
    assert!(String::from_utf8_lossy(&out.stderr).contains("scontrol"));
}

#[test]
fn the_inventory_is_everything_a_gpu_says() {
    let (code, text) = run(&["inventory", "--simulated", "h200-sxm:2", "-o", "json"]);
    assert_eq!(code, 0, "{text}");
    let all: Value = serde_json::from_str(&text).expect("one document");
    assert_eq!(
        (&all["driver"], all["gpus"].as_array().map(Vec::len)),
        (&"simulated".into(), Some(2))
    );
    let gpu = &all["gpus"][1];
    assert_eq!(gpu["sku"], "h200-sxm");
    assert!(gpu["facts"]["vbios"].is_string() && gpu["facts"]["mig_profiles"].is_array(), "{gpu}");
    let (code, text) = run(&["inventory", "--simulated", "h200-sxm:2", "--break", "0:lost"]);
    assert_eq!(code, 21, "{text}");
    assert!(text.contains("GPU 0: it is gone from the bus"), "{text}");
}

#[test]
fn figures_are_printed_and_served() {
    let (code, text) =
        run(&["metrics", "--once", "--simulated", "h100-sxm:2", "--metric-names", "dcgm46"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("DCGM_FI_DEV_GPU_TEMP_CELSIUS{gpu=\"1\""), "{text}");

    let args = ["metrics", "--listen", "127.0.0.1:0", "--simulated", "h100-sxm:2"];
    let mut child = muster(&args).stdout(Stdio::piped()).spawn().expect("started");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
    let address =
        first.trim().trim_start_matches("metrics at http://").trim_end_matches("/metrics");
    let mut page = String::new();
    for _ in 0..600 {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("written");
        page.clear();
        stream.read_to_string(&mut page).expect("read");
        if page.contains("muster_gpu_up{gpu=\"1\"") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(page.contains("DCGM_FI_DEV_GPU_TEMP{gpu=\"1\""), "{page}");
    let pid =
        i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    let how = child.wait().expect("ended");
    assert!(how.success(), "{how}");
}

#[test]
fn gpus_are_measured_without_a_server_and_unhealthy_ones_named() {
    let fast = ["qualify", "--simulated", "h100-sxm:4", "--speed", "1000"];
    let (code, text) = run(&fast);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("gemm-bf16") && text.contains("passed: "), "{text}");

    let unhealthy = [&fast[..], &["--slow", "3:20", "--wrong", "2", "-o", "json"]].concat();
    let (code, text) = run(&unhealthy);
    assert_eq!(code, 21, "{text}");
    let report: Value = serde_json::from_str(&text).expect("one document");
    let failed: Vec<(&str, u64)> = report["checks"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|c| c["outcome"] == "failed")
        .filter_map(|c| Some((c["name"].as_str()?, c["gpu"].as_u64()?)))
        .collect();
    assert!(failed.contains(&("gemm-bf16", 3)), "{failed:?}");
    assert!(failed.contains(&("sm-agree", 2)), "{failed:?}");
    assert!(failed.iter().all(|(_, gpu)| [2, 3].contains(gpu)), "{failed:?}");

    let (code, text) = run(&[&fast[..], &["--want", "h100-sxm:8"]].concat());
    assert_eq!(code, 21, "{text}");
    assert!(text.contains("4 GPUs answer where 8 should be"), "{text}");
    assert_eq!(run(&["qualify", "--simulated", "x9:4"]).0, 2);
    assert_eq!(run(&["qualify", "--slow", "3:20"]).0, 2, "only simulated ones are made slow");
}
