use super::watch::HostWatch;
use super::*;
use std::fs;

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().expect("a parent")).expect("made");
    fs::write(file, text).expect("written");
}

fn fixture() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let r = dir.path();
    write(
        r,
        "proc/stat",
        "cpu  1000 0 500 8000 500 0 0 0 0 0\ncpu0 1 0 0 1\ncpu1 1 0 0 1\nintr 1\n",
    );
    write(r, "proc/loadavg", "1.50 2.00 0.25 2/345 999\n");
    write(r, "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 600 kB\n");
    write(r, "proc/vmstat", "nr_free_pages 1\noom_kill 3\noom_killed 9\n");
    write(
        r,
        "proc/pressure/io",
        "some avg10=1.25 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0 avg300=0 total=7\n",
    );
    write(
        r,
        "proc/diskstats",
        " 259 0 nvme0n1 10 0 20 5 30 0 40 5 0 1500 10 0 0 0 0\n 259 1 nvme0n1p1 1 0 2 3 4 5 6 7 8 9 10\n \
         7 0 loop0 1 0 2 3 4 5 6 7 8 9 10\n",
    );
    fs::create_dir_all(r.join("sys/block/nvme0n1")).expect("made");
    fs::create_dir_all(r.join("data disk")).expect("made");
    write(
        r,
        "proc/mounts",
        "/dev/nvme0n1p1 / ext4 rw,relatime 0 0\nproc /proc proc rw 0 0\n\
         /dev/sdb1 /data\\040disk xfs ro,noatime 0 0\nfiler:/x /home nfs4 rw 0 0\n",
    );
    write(r, "proc/12/stat", "12 (a b) D 1 1\n");
    write(r, "proc/13/stat", "13 (z) Z 1 1\n");
    write(r, "proc/14/stat", "14 (s) S 1 1\n");
    write(r, "sys/class/net/eth0/operstate", "up\n");
    write(r, "sys/class/net/eth0/speed", "100000\n");
    write(r, "sys/class/net/eth0/carrier_changes", "4\n");
    write(r, "sys/class/net/eth0/statistics/rx_bytes", "77\n");
    fs::create_dir_all(r.join("sys/class/net/eth0/device")).expect("made");
    write(r, "sys/class/net/veth1/operstate", "up\n");
    write(r, "sys/class/net/lo/operstate", "unknown\n");
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    write(r, &format!("{port}/state"), "4: ACTIVE\n");
    write(r, &format!("{port}/phys_state"), "5: LinkUp\n");
    write(r, &format!("{port}/rate"), "400 Gb/sec (4X NDR)\n");
    write(r, &format!("{port}/link_layer"), "InfiniBand\n");
    write(r, &format!("{port}/counters/link_downed"), "2\n");
    write(r, &format!("{port}/counters/symbol_error"), "not a number\n");
    write(r, &format!("{port}/hw_counters/out_of_sequence"), "5\n");
    write(r, "sys/bus/pci/devices/0000:18:00.0/vendor", "0x10de\n");
    write(r, "sys/bus/pci/devices/0000:18:00.0/class", "0x030200\n");
    write(r, "sys/bus/pci/devices/0000:19:00.0/vendor", "0x10de\n");
    write(r, "sys/bus/pci/devices/0000:19:00.0/class", "0x068000\n");
    dir
}

#[test]
fn everything_is_read() {
    let dir = fixture();
    let mut reader = HostReader::new(dir.path());
    let h = reader.sample_host(Time(5));
    let cpu = h.cpu.expect("there");
    assert_eq!((cpu.count, cpu.seconds[0]), (2, ("user", 10.0)));
    assert_eq!(h.busy, None);
    assert_eq!(h.load, Some([1.5, 2.0, 0.25]));
    let memory = h.memory.expect("there");
    assert_eq!((memory.total, memory.available), (1_024_000, Some(614_400)));
    assert_eq!(memory.corrupted, None);
    assert_eq!(h.oom_kills, Some(3));
    assert_eq!(h.pressure.len(), 2);
    assert_eq!((h.pressure[0].resource, h.pressure[0].seconds), ("io", 2.5));
    assert_eq!(h.disks.len(), 1);
    assert_eq!((h.disks[0].read_bytes, h.disks[0].busy_seconds), (20 * 512, 1.5));
    let tasks = h.tasks.expect("there");
    assert_eq!((tasks.all, tasks.blocked, tasks.zombies), (3, 1, 1));
    assert_eq!(tasks.stuck, vec![("a b".to_string(), 12)]);
    assert_eq!(h.stuck, Some(0), "not for long enough");
    assert_eq!(h.nics.len(), 1);
    assert_eq!((h.nics[0].up, h.nics[0].speed_mbps), (Some(true), Some(100_000)));
    assert_eq!(h.nics[0].counters, vec![("rx_bytes", 77)]);
    assert_eq!(h.ib.len(), 1);
    assert_eq!((h.ib[0].state.as_deref(), h.ib[0].rate_gbps), (Some("ACTIVE"), Some(400.0)));
    assert_eq!(
        h.ib[0].counters,
        vec![("link_downed".to_string(), 2), ("out_of_sequence".to_string(), 5)]
    );
    assert_eq!(h.nvidia, vec!["0000:18:00.0".to_string()]);
    let points: Vec<_> = h.mounts.iter().map(|m| (m.point.as_str(), m.readonly)).collect();
    assert_eq!(points, vec![("/", false), ("/data disk", true), ("/home", false)]);
    assert!(h.mounts[0].space.is_some());
    assert!(h.mounts[2].space.is_none(), "a file system over the network is not asked");

    write(dir.path(), "proc/stat", "cpu  1100 0 500 8300 500 0 0 0 0 0\ncpu0 1\n");
    assert_eq!(reader.sample_host(Time(6)).busy, Some(25.0));
    assert_eq!(reader.sample_host(Time(40_000)).stuck, Some(1));
    // Counters that fall (a clone of a machine, a bug of the kernel) are no rate.
    write(dir.path(), "proc/stat", "cpu  5 0 5 5 5 0 0 0 0 0\ncpu0 1\n");
    assert_eq!(reader.sample_host(Time(7)).busy, None);
}

#[test]
fn what_cannot_be_read_is_absent_and_nothing_breaks() {
    let dir = tempfile::tempdir().expect("a directory");
    let h = HostReader::new(dir.path()).sample_host(Time(1));
    assert_eq!(h, HostSample { at: Time(1), ..HostSample::default() });

    let dir = fixture();
    let r = dir.path();
    for file in [
        "proc/stat",
        "proc/loadavg",
        "proc/meminfo",
        "proc/vmstat",
        "proc/pressure/io",
        "proc/diskstats",
        "proc/mounts",
        "sys/class/net/eth0/speed",
        "sys/class/net/eth0/carrier_changes",
        "sys/class/net/eth0/operstate",
        "sys/class/infiniband/mlx5_0/ports/1/state",
        "sys/class/infiniband/mlx5_0/ports/1/rate",
        "sys/bus/pci/devices/0000:18:00.0/vendor",
    ] {
        // Neither text nor numbers, and no end of line.
        fs::write(r.join(file), b"\xff\xfe: -\0 12e99999").expect("written");
    }
    for pid in ["12", "13", "14"] {
        fs::remove_file(r.join("proc").join(pid).join("stat")).expect("removed");
    }
    let h = HostReader::new(r).sample_host(Time(2));
    assert_eq!((h.cpu, h.load, h.memory, h.oom_kills), (None, None, None, None));
    assert!(h.pressure.is_empty() && h.disks.is_empty() && h.mounts.is_empty());
    assert_eq!((h.nics[0].speed_mbps, h.nics[0].carrier_changes), (None, None));
    assert_eq!(h.ib[0].rate_gbps, None);
    assert_eq!(h.tasks, None);
    assert!(h.nvidia.is_empty());
}

#[test]
fn directories_in_place_of_files_are_absent_too() {
    let dir = tempfile::tempdir().expect("a directory");
    for file in ["proc/stat", "proc/meminfo", "sys/class/net/eth0/speed", "proc/5/stat"] {
        fs::create_dir_all(dir.path().join(file)).expect("made");
    }
    let h = HostReader::new(dir.path()).sample_host(Time(0));
    assert_eq!((h.cpu, h.memory, h.tasks), (None, None, None));
    assert_eq!(h.nics[0].speed_mbps, None);
}

#[test]
fn this_machine_can_be_looked_at() {
    let h = HostReader::new("/").sample_host(Time(0));
    assert!(h.cpu.is_some() && h.memory.is_some());
    assert!(h.tasks.is_some_and(|t| t.all > 0));
}

#[test]
fn a_mount_that_turns_read_only_is_reported_once() {
    let dir = fixture();
    let mut reader = HostReader::new(dir.path());
    let mut watch = HostWatch::new(Vec::new());
    assert!(watch.find_faults(&reader.sample_host(Time(0)), false).is_empty());
    write(dir.path(), "proc/mounts", "/dev/nvme0n1p1 / ext4 ro,relatime 0 0\n");
    let faults = watch.find_faults(&reader.sample_host(Time(1)), false);
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].code, "ro-remount");
    assert!(watch.find_faults(&reader.sample_host(Time(2)), false).is_empty());
}

#[test]
fn a_port_that_goes_down_and_processes_that_were_killed_are_reported_once() {
    let dir = fixture();
    let mut reader = HostReader::new(dir.path());
    let mut watch = HostWatch::new(Vec::new());
    assert!(watch.find_faults(&reader.sample_host(Time(0)), false).is_empty());
    write(dir.path(), "sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
    write(dir.path(), "proc/vmstat", "oom_kill 5\n");
    let faults = watch.find_faults(&reader.sample_host(Time(1)), false);
    let reported: Vec<_> = faults.iter().map(|f| (f.code.as_str(), f.count)).collect();
    assert_eq!(reported, vec![("ib-down", 1), ("oom", 2)]);
    assert!(watch.find_faults(&reader.sample_host(Time(2)), false).is_empty());
    // Where the kernel's log is read, it reports killed processes better than a count.
    write(dir.path(), "proc/vmstat", "oom_kill 6\n");
    assert!(watch.find_faults(&reader.sample_host(Time(3)), true).is_empty());
}

#[test]
fn ports_that_were_ever_linked_report_their_counters() {
    let dir = fixture();
    let mut reader = HostReader::new(dir.path());
    let mut used: std::collections::BTreeSet<String> =
        crate::parts::linked(&reader.sample_host(Time(0))).collect();
    write(dir.path(), "sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
    write(dir.path(), "sys/class/net/eth0/operstate", "down\n");
    let h = reader.sample_host(Time(1));
    used.extend(crate::parts::linked(&h));
    let f = crate::parts::ports(&h, &used);
    assert_eq!((f["port.mlx5_0.up"], f["port.mlx5_0.downed"]), (0.0, 2.0));
    assert_eq!((f["port.eth0.up"], f["port.eth0.downed"]), (0.0, 2.0));
    assert!(!f.contains_key("port.mlx5_0.symbol_errors"), "what cannot be read is absent: {f:?}");
    // Nothing is plugged in there: that is no fault.
    assert!(crate::parts::ports(&h, &std::collections::BTreeSet::new()).is_empty());
}
