//! Checks that need no server.

use super::{Check, fail, ok, warn};
use muster_agent::isolation::{Abilities, Accounts, Isolation, Separation};
use muster_link::private::{self, Refused};
use muster_model::units::{Span, Time};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The data directory has keys and tokens: a server and an agent start only with one that is their
/// user's own and that nobody else can have changed. What they look at is looked at here.
pub(super) fn data_dir(dir: &Path) -> Check {
    let name = "data";
    let meta = match std::fs::metadata(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return ok(name, format!("{} does not exist yet; `muster up` makes it", dir.display()));
        }
        Err(e) => {
            return fail(
                name,
                format!("cannot look at {}: {e}", dir.display()),
                "choose another with --data-dir",
            );
        }
        Ok(meta) => meta,
    };
    if !meta.is_dir() {
        return fail(
            name,
            format!("{} is not a directory", dir.display()),
            "choose another with --data-dir",
        );
    }
    let (owner, own) = (meta.uid(), rustix::process::geteuid().as_raw());
    if owner != own {
        // Whoever runs this need not be whoever runs the server.
        return warn(
            name,
            format!(
                "{} belongs to user {owner} and this check runs as user {own}: a server or an \
                 agent uses only a directory of its own user",
                dir.display()
            ),
            format!(
                "run the server as user {owner}, and `muster doctor` too for the files in it; or \
                 choose another with --data-dir"
            ),
        );
    }
    if let Err(e) = private::check_data_dir(dir) {
        return match e.get_ref().and_then(|e| e.downcast_ref::<Refused>()) {
            Some(Refused { what, fix }) => {
                fail(name, format!("no server or agent starts with it: {what}"), fix.as_str())
            }
            None => fail(
                name,
                format!("cannot look at {}: {e}", dir.display()),
                "choose another with --data-dir",
            ),
        };
    }
    if meta.permissions().mode() & 0o077 != 0 {
        return warn(
            name,
            format!("others may read {}, which has keys and tokens", dir.display()),
            format!("chmod 700 {}", dir.display()),
        );
    }
    if rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_err() {
        return warn(
            name,
            format!("{} cannot be written by this user", dir.display()),
            "run the server as its owner, or choose another with --data-dir",
        );
    }
    ok(name, format!("{} is this user's own, private and can be written", dir.display()))
}

/// A full disk stops the log, and with it everything.
pub(super) fn disk(dir: &Path) -> Check {
    let existing = dir.ancestors().find(|d| d.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(existing) {
        Err(e) => {
            warn("disk", format!("cannot measure {}: {e}", existing.display()), "look with df")
        }
        Ok(s) => {
            let free = s.f_bavail.saturating_mul(s.f_frsize);
            let percent = s.f_bavail.saturating_mul(100) / s.f_blocks.max(1);
            let gib = free >> 30;
            let detail = format!("{gib} GiB ({percent}%) free at {}", existing.display());
            if free < 1 << 30 {
                fail("disk", detail, "free some space: the log needs it")
            } else if percent < 5 {
                warn("disk", detail, "free some space soon: the log needs it")
            } else {
                ok("disk", detail)
            }
        }
    }
}

/// What an agent that root starts here would not separate; nothing to say of anybody else's.
pub(super) fn isolation() -> Option<Check> {
    let (name, fix) = ("isolation", "see docs/isolation.md, \"Where it works\"");
    let can = Abilities::of_this_process(&Accounts::default());
    let separation = Isolation::default().separation(&can);
    let warning = separation.warning().filter(|_| can.root)?;
    Some(match separation {
        Separation::Refused(_) => fail(name, warning, fix),
        _ => warn(name, warning, fix),
    })
}

/// Without cgroups, ranks run without limits.
pub(super) fn cgroups() -> Check {
    let name = "cgroups";
    let root = Path::new("/sys/fs/cgroup");
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if let Ok(controllers) = std::fs::read_to_string(root.join("cgroup.controllers")) {
        let missing: Vec<&str> = ["cpu", "memory", "pids"]
            .into_iter()
            .filter(|c| !controllers.split_whitespace().any(|have| have == *c))
            .collect();
        if !missing.is_empty() {
            return warn(
                name,
                format!("version 2, without the controllers {}", missing.join(", ")),
                "enable them in the parent's cgroup.subtree_control",
            );
        }
        let path = own.lines().find_map(|l| l.strip_prefix("0::/")).unwrap_or_default();
        return writable(name, "version 2", &root.join(path));
    }
    if root.join("memory").is_dir() {
        let path =
            own.lines().find_map(|l| l.split_once(":memory:/").map(|(_, p)| p)).unwrap_or_default();
        return writable(name, "version 1", &root.join("memory").join(path));
    }
    warn(
        name,
        "none are mounted: ranks run in process groups, without limits",
        "mount cgroup2 at /sys/fs/cgroup, or give the container access to it",
    )
}

fn writable(name: &'static str, version: &str, own: &Path) -> Check {
    if rustix::fs::access(own, rustix::fs::Access::WRITE_OK).is_ok() {
        ok(name, format!("{version}, limits can be set"))
    } else {
        warn(
            name,
            format!("{version}, but this user cannot make groups: ranks run without limits"),
            "run the agent as root, or under systemd with Delegate=yes",
        )
    }
}

/// When nothing answers: is the port free, or does something else sit on it?
pub(super) fn ports(server: &str) -> Option<Check> {
    let rest = server.split_once("://")?.1;
    let authority = rest.split('/').next()?;
    let (host, port) = authority.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    if !matches!(host, "127.0.0.1" | "localhost" | "[::1]") {
        return None;
    }
    Some(match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => ok("port", format!("{port} is free for a server")),
        Err(e) => warn(
            "port",
            format!("{port} cannot be used: {e}"),
            format!(
                "find who uses it with `ss -ltnp sport = :{port}`, or choose another with --listen"
            ),
        ),
    })
}

/// Certificates renew themselves; one that is about to end means that this does not work.
pub(super) fn certificates(dir: &Path, now: Time) -> Vec<Check> {
    let mut files = Vec::new();
    find_pem(dir, 3, &mut files);
    let mut checks = Vec::new();
    for file in files {
        let bytes = match std::fs::read(&file) {
            Ok(bytes) => bytes,
            Err(e) => {
                let detail = format!("{} cannot be read: {e}", file.display());
                let fix = "run it as the user whose file that is, or as root";
                checks.push(warn("certificate", detail, fix));
                continue;
            }
        };
        for pem in x509_parser::pem::Pem::iter_from_buffer(&bytes).flatten() {
            if pem.label != "CERTIFICATE" {
                continue;
            }
            let Ok(cert) = pem.parse_x509() else {
                checks.push(warn(
                    "certificate",
                    format!("{} cannot be read", file.display()),
                    "let the agent join again",
                ));
                continue;
            };
            let end = Time(cert.validity().not_after.timestamp().saturating_mul(1000));
            checks.push(expiry(&file, end, now));
        }
    }
    checks
}

fn expiry(file: &Path, end: Time, now: Time) -> Check {
    let left = end.since(now);
    let name = "certificate";
    if end <= now {
        fail(
            name,
            format!("{} has expired", file.display()),
            "let the agent join again with a new join token",
        )
    } else if left < Span::mins(60) {
        warn(
            name,
            format!("{} ends in {}", file.display(), muster_terminal::output::time::length(left)),
            "agents renew by themselves: is this one running, and does it reach the server?",
        )
    } else {
        ok(
            name,
            format!(
                "{} is good for {}",
                file.display(),
                muster_terminal::output::time::length(left)
            ),
        )
    }
}

/// Certificates under a directory; at most a handful, so that a fleet of simulated nodes does
/// not flood the report.
fn find_pem(dir: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    const MOST: usize = 8;
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if found.len() >= MOST {
            return;
        }
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        // Simulated nodes by the hundred and copies of the authority say nothing new.
        let name = entry.file_name();
        if name == "simulated" || (name == "ca.pem" && !dir.ends_with("pki")) {
            continue;
        }
        if kind.is_dir() && depth > 0 {
            find_pem(&path, depth - 1, found);
        } else if kind.is_file()
            && path.extension().is_some_and(|e| e == "pem" || e == "crt")
            && !path.file_name().is_some_and(|n| n.to_string_lossy().contains("key"))
        {
            found.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn an_open_data_directory_is_warned_of() {
        let dir = tempfile::tempdir().expect("a directory");
        let set = |mode| {
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode))
                .expect("ours");
        };
        set(0o755);
        assert_eq!(data_dir(dir.path()).state, State::Warn);
        set(0o700);
        assert_eq!(data_dir(dir.path()).state, State::Ok);
        assert_eq!(data_dir(&dir.path().join("none")).state, State::Ok);
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("written");
        assert_eq!(data_dir(&file).state, State::Fail);
    }

    #[test]
    fn a_data_directory_that_a_server_refuses_fails_with_the_way_to_fix_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
        };
        let key = dir.path().join("node.key");
        std::fs::write(&key, "x").expect("written");
        set(&key, 0o600);
        for (path, bad, good, fix) in
            [(dir.path(), 0o777, 0o755, "chmod 700"), (key.as_path(), 0o644, 0o600, "chmod 600")]
        {
            set(path, bad);
            let check = data_dir(dir.path());
            assert_eq!(check.state, State::Fail, "{check:?}");
            let refused = private::data_dir(dir.path()).expect_err("as a server").to_string();
            let advice = check.fix.clone().unwrap_or_default();
            assert!(refused.ends_with(&advice) && advice.contains(fix), "{check:?} {refused}");
            assert!(check.detail.contains(&path.display().to_string()), "{check:?}");
            set(path, good);
        }
        set(dir.path(), 0o700);
        assert_eq!(data_dir(dir.path()).state, State::Ok);
        // Whoever runs this need not be whoever runs the server.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(dir.path(), Some(65534), None).expect("root may");
            let check = data_dir(dir.path());
            assert_eq!(check.state, State::Warn, "{check:?}");
            assert!(check.detail.contains("belongs to user 65534"), "{check:?}");
        }
    }

    #[test]
    fn an_ending_certificate_is_reported_in_time() {
        let file = Path::new("cert.pem");
        assert_eq!(expiry(file, Time(0), Time(1)).state, State::Fail);
        assert_eq!(expiry(file, Time(60_000), Time(1)).state, State::Warn);
        assert_eq!(expiry(file, Time(86_400_000), Time(1)).state, State::Ok);
    }

    #[test]
    fn a_taken_port_is_reported() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("bound").port();
        let check = ports(&format!("http://127.0.0.1:{port}")).expect("a local port");
        assert_eq!(check.state, State::Warn);
        assert_eq!(ports("https://muster.example:7070"), None);
    }
}
