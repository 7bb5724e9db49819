//! The ways out of a slot, tried by a rank in an image.

use crate::attempts::ARG;
use crate::container::{able, contained};
use crate::escape::{SharedMemory, copy, program};
use crate::support::{Bench, key, open_dir};
use muster_agent::isolation::Isolation;
use muster_agent::runner::RunnerTools;
use muster_link::messages::Stream;
use muster_model::job::SlotEnd;
use muster_model::spec::Volume;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![contained: no_way_leads_out_of_an_image]
}

fn shown(path: &Path, read_only: bool) -> Volume {
    let from = path.canonicalize().unwrap().display().to_string();
    Volume { from, at: path.display().to_string(), read_only }
}

pub(crate) fn no_way_leads_out_of_an_image() {
    if !able() {
        return;
    }
    let runner_tools = RunnerTools { isolation: Isolation::Required, ..RunnerTools::default() };
    let (mut b, k) = (Bench::handy(runner_tools), key());
    // What everybody on the node may read: it is not in the image.
    let data = tempfile::Builder::new().prefix("muster-escape-").tempdir_in("/var/lib").unwrap();
    std::fs::set_permissions(data.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let token = data.path().join("admin.token");
    std::fs::write(&token, "the site's own\n").unwrap();
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o644)).unwrap();
    let socket = PathBuf::from(format!("/run/muster-image-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let _listening = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o777)).unwrap();
    let files = open_dir();
    let program = program(files.path());
    let set_uid = files.path().join("root");
    copy(&program, &set_uid);
    std::fs::set_permissions(&set_uid, PermissionsExt::from_mode(0o4755)).unwrap();
    let shared = SharedMemory::new();
    let mut list = vec![
        format!("read {}", token.display()),
        format!("list {}", data.path().display()),
        format!("read {}", b.run_dir(k).join("meta.json").display()),
        format!("read {}", b.run_dir(k).join("record").display()),
        format!("pid {}", std::process::id()),
        format!("socket {}", socket.display()),
        format!("setuid {}", set_uid.display()),
        format!("shm {}", shared.key),
    ];
    for dir in ["/", "/bin", "/dev", "/etc", "/usr/lib"] {
        list.push(format!("create {dir}"));
    }
    for file in ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/bin/busybox"] {
        list.push(format!("write {file}"));
    }
    let config = files.path().join("list");
    std::fs::write(&config, list.join("\n")).unwrap();
    let mut d = contained("");
    d.run.script = None;
    let (program, config) = (program.display().to_string(), config.display().to_string());
    d.run.command = [&*program, ARG, "contained", &*program, &*config].map(str::to_owned).to_vec();
    // The image has one static program; ours needs the libraries of the node.
    let libraries = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].map(Path::new);
    d.volumes = libraries.iter().filter(|l| l.is_dir()).map(|l| shown(l, true)).collect();
    d.volumes.push(shown(files.path(), false));
    b.runner.start(k, &d, Instant::now());
    let end = b.end(k);
    let _ = std::fs::remove_file(&socket);
    let out = b.out(k);
    assert_eq!(end, SlotEnd::Ok, "{out}{}", b.text(k, 0, Stream::Stderr));
    let open: Vec<&str> = out.lines().filter(|l| !l.starts_with("refused ")).collect();
    assert!(open.is_empty(), "{}", open.join("\n"));
    assert!(out.lines().count() > 40, "all was tried:\n{out}");
}
