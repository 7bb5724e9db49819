//! How many lines of a kernel's log one core reads: 95 of 100 are no fault, as on a node that is
//! worse off than any should be.

use muster_health::faults::{Catalogue, Context, Reader};
use muster_model::units::Time;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Lines read.
const LINES: usize = 1_000_000;
/// Different lines, read again and again.
const DIFFERENT: usize = 20_000;

/// Lines of every kind that nodes with GPUs write, as `/dev/kmsg` gives them.
const BORING: [&str; 19] = [
    "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ACTIVE",
    "pcieport 0000:30:03.0: AER: broadcast resume message",
    "NVRM: nvCheckOkFailedNoLog: Check failed: Object not found [NV_ERR_OBJECT_NOT_FOUND] (0x57)",
    "EXT4-fs (md127p3): re-mounted 0f3cd65a-338b-4574-bba3-ecef214e1917 r/w. Quota mode: none.",
    "nvme nvme0: 63/0/0 default/read/poll queues",
    "docker0: port 1(veth8c2d) entered disabled state",
    "device veth12ab entered promiscuous mode",
    "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "audit: type=1400 audit(1718000000.123:45): apparmor=\"ALLOWED\" operation=\"open\" profile=\"x\"",
    "oom_reaper: reaped process 18245 (python), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
    "python[124512]: segfault at 0 ip 000055d0c0ffee00 sp 00007ffd1a2b3c40 error 4 in python3.11",
    "perf: interrupt took too long (2502 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
    "TCP: request_sock_TCP: Possible SYN flooding on port 8080. Sending cookies.",
    " ? nvidia_unlocked_ioctl+0x1ab/0x1f0 [nvidia]",
    "workqueue: ib_cache_event_task [ib_core] hogged CPU for >10000us 4 times, consider switching",
    "XFS (nvme1n1): Ending clean mount",
    "systemd-journald[812]: Received client request to flush runtime journal.",
    "usb 1-14.1: Product: Virtual Keyboard and Mouse",
    "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further",
];

/// Faults, with a place for the process and one for the device.
const FAULTS: [&str; 8] = [
    "NVRM: Xid (PCI:0000:{b}:00): 31, pid={p}, name=python3, channel 0x0000000a, intr 00000000. MMU \
     Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x8314_97e00000.",
    "NVRM: Xid (PCI:0000:{b}:00): 95, pid='<unknown>', name=<unknown>, Uncontained: LTC TAG (0x2,0x0).",
    "NVRM: Xid (PCI:0000:{b}:00): 45, pid={p}, name=python3, Ch 00000008",
    "NVRM: Xid (PCI:0000:{b}:00): 74, pid={p}, name=x, NVLink: fatal error detected on link 6(0x10000, \
     0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    "nvidia-nvswitch1: SXid (PCI:0000:{b}:00.0): 20009, Non-fatal, Link 04 RX Short Error Rate",
    "pcieport 0000:{b}:00.0: AER: Corrected error received: 0000:{b}:00.0",
    "Memory cgroup out of memory: Killed process {p} (python3) total-vm:41932800kB, anon-rss:16738412kB",
    "mlx5_core 0000:{b}:00.0 ens1f0np0: Link down",
];

/// The lines, the same on every machine.
fn lines() -> Vec<Vec<u8>> {
    (0..DIFFERENT)
        .map(|n| {
            let words = if n % 20 == 7 {
                let k = n / 20;
                let bus = format!("{:02x}", 0x10 + k % 8);
                FAULTS[k % FAULTS.len()]
                    .replace("{b}", &bus)
                    .replace("{p}", &(1_000 + k % 64).to_string())
            } else {
                BORING[n % BORING.len()].to_owned()
            };
            format!("{},{n},{},-;{words}", 3 + n % 4, 1_000_000 + 137 * n).into_bytes()
        })
        .collect()
}

/// Lines a second that one core reads and judges.
pub(crate) fn lines_per_second() -> f64 {
    let lines = lines();
    let context = Context { driver_major: Some(580), sku: "h200-sxm".into(), pool: "train".into() };
    let mut reader = Reader::new(Arc::new(Catalogue::builtin().clone()), context);
    let start = Instant::now();
    let mut reported = 0;
    for n in 0..LINES {
        // A thousand lines each second, looked at as often.
        let now = Time(i64::try_from(n).unwrap_or(i64::MAX));
        reader.line(now, black_box(&lines[n % DIFFERENT]));
        if n % 1_000 == 999 {
            reported += reader.take(now).len();
        }
    }
    let took = start.elapsed().as_secs_f64();
    black_box(reported);
    LINES as f64 / took
}
