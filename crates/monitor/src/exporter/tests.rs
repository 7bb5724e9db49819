use super::*;
use crate::snapshot::{GpuNow, LogNow, Snapshot};
use muster_gpu::device::Process;
use muster_gpu::sample::{Field, Sample};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::node::{Gpu, GpuFacts, MigSlice};
use muster_model::units::{Bytes, Time};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

fn gpu(index: u32) -> GpuNow {
    let mut sample = Sample::default();
    sample.set(Field::SmClock, 1980.0);
    sample.set(Field::Temp, 41.5);
    sample.set(Field::Util, 97.0);
    sample.set(Field::Energy, 123_456_789_012.0);
    let facts = GpuFacts {
        product: Some("NVIDIA H100 80GB HBM3".into()),
        mig_slices: vec![MigSlice {
            uuid: "MIG-1".into(),
            profile: "3g.40gb".into(),
            gpu_instance: 2,
            compute_instance: 0,
            start: 0,
        }],
        ..GpuFacts::default()
    };
    GpuNow {
        index,
        uuid: format!("GPU-{index}").into(),
        pci: Some("00000000:18:00.0".into()),
        gpu: Some(Arc::new(Gpu {
            index,
            sku: "h100-sxm".into(),
            uuid: format!("GPU-{index}"),
            memory: Bytes::gib(80),
            facts: Some(Box::new(facts)),
            ..Gpu::default()
        })),
        up: true,
        hung: false,
        lost: false,
        why: None,
        at: Time(1),
        sample: Some(Arc::new(sample)),
        slices: Arc::default(),
        processes: Arc::new(vec![Process { pid: 77, memory: Some(3 << 20), slice: None }]),
        xid: None,
        xids: Vec::new(),
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        at: crate::clock::now(),
        driver: "nvml",
        versions: Arc::new(BTreeMap::from([("driver".to_string(), "580.1".to_string())])),
        gpus: vec![gpu(0), gpu(1)],
        host: Some(Arc::new(crate::host::HostReader::new("/").sample_host(Time(0)))),
        log: LogNow { codes: BTreeMap::from([("xid-31".into(), 2)]), ..LogNow::default() },
        ..Snapshot::default()
    }
}

#[test]
fn a_line_is_what_dcgm_exporter_writes() {
    let mut page = Page::new(PageConfig::new("node-1"));
    let text = page.render(&snapshot());
    let line = "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"00000000:18:00.0\",\
                device=\"nvidia0\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node-1\",\
                DCGM_FI_DRIVER_VERSION=\"580.1\"} 1980\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("# TYPE DCGM_FI_DEV_SM_CLOCK gauge\nDCGM_FI_DEV_SM_CLOCK{"), "{text}");
    assert!(text.contains("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"), "{text}");
    assert!(text.contains(" 123456789012\n"), "{text}");
    assert!(text.contains("process_cpu_seconds_total "), "{text}");
    assert!(text.contains("muster_kernel_log_faults_total{code=\"xid-31\"} 2\n"), "{text}");
    assert!(text.contains("muster_host_cpu_seconds_total{mode=\"user\"} "), "{text}");
    // What was not measured is not there.
    assert!(!text.contains("DCGM_FI_DEV_MEM_CLOCK"), "{text}");
}

#[test]
fn the_switches_rename_label_and_figures() {
    let mut config = PageConfig::new("n");
    config.hostname_label = "hostname".parse().expect("a label");
    config.names = "dcgm46".parse().expect("names");
    let mut page = Page::new(config);
    let text = page.render(&snapshot());
    assert!(text.contains(",hostname=\"n\"") && !text.contains("Hostname="), "{text}");
    assert!(text.contains("DCGM_FI_DEV_GPU_TEMP_CELSIUS{"), "{text}");
    assert!(text.contains("DCGM_FI_DEV_XID_ERROR{"), "{text}");
    assert!(!text.contains("DCGM_FI_DEV_GPU_TEMP{"), "{text}");
    assert!("HOSTNAME".parse::<HostnameLabel>().is_err() && "dcgm5".parse::<Names>().is_err());
}

#[test]
fn jobs_come_and_go_in_the_labels() {
    let job = Arc::new(Mutex::new(None));
    let mut config = PageConfig::new("n");
    let read = job.clone();
    config.labels_of =
        Arc::new(move |gpu| if gpu == 1 { read.lock().expect("whole").clone() } else { None });
    let mut page = Page::new(config.clone());
    assert!(!page.render(&snapshot()).contains("hpc_job"));
    *job.lock().expect("whole") = Some(JobLabels {
        job: "42".into(),
        attempt: 3,
        rank: Some(5),
        project: "a \"b\"".into(),
        pool: "h100".into(),
    });
    let text = page.render(&snapshot());
    let labels = ",hpc_job=\"42\",job=\"42\",attempt=\"3\",rank=\"5\",project=\"a \\\"b\\\"\",pool=\"h100\"}";
    assert!(text.contains(labels), "{text}");
    assert!(text.lines().filter(|l| l.contains("gpu=\"0\"")).all(|l| !l.contains("hpc_job")));
    config.job_prefix = "muster_".into();
    let mut page = Page::new(config);
    let text = page.render(&snapshot()).to_owned();
    assert!(text.contains("muster_job=\"42\"") && text.contains("hpc_job=\"42\""), "{text}");
    *job.lock().expect("whole") = None;
    assert!(!page.render(&snapshot()).contains("hpc_job"));
}

#[test]
fn a_device_that_does_not_answer_has_no_figures_and_is_not_up() {
    let mut now = snapshot();
    now.gpus[1].up = false;
    now.gpus[1].lost = true;
    now.gpus[1].sample = None;
    now.gpus[1].processes = Arc::default();
    let mut page = Page::new(PageConfig::new("n"));
    let text = page.render(&now);
    let of_1: Vec<&str> = text.lines().filter(|l| l.contains("UUID=\"GPU-1\"")).collect();
    assert_eq!(of_1.len(), 3, "{of_1:#?}");
    assert!(of_1.iter().any(|l| l.starts_with("muster_gpu_up{") && l.ends_with(" 0")));
    assert!(of_1.iter().any(|l| l.starts_with("muster_gpu_lost{") && l.ends_with(" 1")));
    assert!(text.lines().any(|l| l.starts_with("muster_gpu_up{gpu=\"0\"") && l.ends_with(" 1")));
}

#[test]
fn xids_are_reported_with_their_names_and_counts() {
    let mut now = snapshot();
    now.gpus[0].xid = Some(79);
    now.gpus[0].xids = vec![(31, 2), (79, 1)];
    let mut page = Page::new(PageConfig::new("n"));
    let text = page.render(&now);
    let line = |start: &str, gpu: &str| {
        let gpu = format!("gpu=\"{gpu}\"");
        text.lines().find(|l| l.starts_with(start) && l.contains(&gpu)).unwrap_or_default()
    };
    let last = line("DCGM_FI_DEV_XID_ERRORS{", "0");
    assert!(last.contains("err_code=\"79\",err_msg=\"") && last.ends_with(" 79"), "{last}");
    let none = line("DCGM_FI_DEV_XID_ERRORS{", "1");
    assert!(none.contains("err_code=\"0\",err_msg=\"No Error\"") && none.ends_with(" 0"), "{none}");
    let counted = line("DCGM_EXP_XID_ERRORS_COUNT{", "0");
    assert!(counted.contains("window_size_in_ms=\"300000\",xid=\"31\"") && counted.ends_with(" 2"));
}

#[test]
fn slices_have_their_own_lines() {
    let mut now = snapshot();
    let mut sample = Sample::default();
    sample.set(Field::SmClock, 7.0);
    now.gpus[0].slices = Arc::new(vec![(2, 0, sample)]);
    let mut page = Page::new(PageConfig::new("n"));
    let text = page.render(&now);
    let want =
        "modelName=\"NVIDIA H100 80GB HBM3\",GPU_I_PROFILE=\"3g.40gb\",GPU_I_ID=\"2\",Hostname=";
    assert!(text.contains(want), "{text}");
}

#[test]
fn a_page_of_nothing_is_still_a_page() {
    let mut page = Page::new(PageConfig::new("n"));
    let text = page.render(&Snapshot { no_driver: Some("none".into()), ..Snapshot::default() });
    assert!(text.contains("muster_driver_up{driver=\"\"} 0\n"), "{text}");
    assert!(!text.contains("DCGM_"), "{text}");
}

fn ask(addr: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(addr).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    stream.write_all(request.as_bytes()).expect("written");
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn the_server_answers_what_it_should_and_nothing_more() {
    let source = Arc::new(snapshot());
    let at: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let mut e = Exporter::start(at, PageConfig::new("n"), Arc::new(move || source.clone()))
        .expect("started");
    let metrics = ask(e.addr(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
    let (head, body) = metrics.split_once("\r\n\r\n").expect("a body");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    for (request, status) in [
        ("GET /healthz HTTP/1.1\r\n\r\n", "200"),
        ("GET /metrics?x=y HTTP/1.0\r\n\r\n", "200"),
        ("GET /nothing HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("\0\u{1}\r\n\r\n", "400"),
    ] {
        let answer = ask(e.addr(), request);
        assert_eq!(answer.get(9..12), Some(status), "{request:?}: {answer}");
    }
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(9000));
    let answer = ask(e.addr(), &long);
    assert!(answer.is_empty() || answer.contains("431"), "{answer}");
    // Somebody who says nothing does not keep others waiting.
    let silent: Vec<_> = (0..2).map(|_| TcpStream::connect(e.addr()).expect("connected")).collect();
    assert!(ask(e.addr(), "HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
    drop(silent);
    let taken = Exporter::start(e.addr(), PageConfig::new("n"), Arc::new(Arc::default));
    assert!(matches!(taken, Err(ExporterError::Listen { .. })));
    e.stop();
}

#[test]
fn memory_is_reported_by_process_and_rank() {
    let mut config = PageConfig::new("n1");
    config.owner_of = Arc::new(|pid| {
        let key = AttemptKey { job: JobId(42), attempt: 2 };
        (pid == 77).then_some((key, 5))
    });
    let now = Snapshot { gpus: vec![gpu(0)], ..Snapshot::default() };
    let text = Page::new(config).render(&now).to_owned();
    let line = text.lines().find(|l| l.starts_with("muster_gpu_process_memory_bytes{"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("pid=\"77\",owner=\"42.2\",owner_rank=\"5\","), "{line}");
    assert!(line.ends_with(" 3145728"), "{line}");
}

#[test]
fn a_reader_that_takes_a_little_now_and_then_is_cut_off() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let seen = over.clone();
    let reader = std::thread::spawn(move || {
        let mut little = [0; 512];
        while !seen.load(Ordering::Relaxed) && client.read(&mut little).is_ok_and(|n| n > 0) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    // It would take minutes, and never stand still for long.
    let page = vec![b'x'; 64 << 20];
    let until = std::time::Instant::now() + Duration::from_millis(300);
    let cut = serve::write_all(&mut server, &page, until).unwrap_err().kind();
    assert!(matches!(cut, std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock), "{cut}");
    over.store(true, Ordering::Relaxed);
    drop(server);
    reader.join().unwrap();
}
