//! Ranks in containers of a containerd that the test starts.

use crate::container::{IMAGE, able, contained, import, podman, refusal};
use crate::support::{Bench, LONG, key, long_sleep, with_word};
use muster_agent::container::{Containers, Pull};
use muster_agent::isolation::Isolation;
use muster_agent::runner::RunnerTools;
use muster_link::messages::Stream;
use muster_model::command::Observed;
use muster_model::job::SlotEnd;
use muster_model::spec::Volume;
use muster_model::units::Span;
use muster_testkit::{printed, succeeds};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![containerd: containerd_does_it_too]
}

/// A containerd of the test's own.
struct Daemon {
    dir: tempfile::TempDir,
    child: Child,
}

impl Daemon {
    fn start() -> Option<Daemon> {
        if !muster_testkit::program("containerd", "containerd")
            || !muster_testkit::program("ctr", "containerd")
        {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        let config = format!(
            "version = 2\nroot = \"{at}/root\"\nstate = \"{at}/state\"\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = \"{at}/socket\"\n"
        );
        std::fs::write(dir.path().join("config.toml"), config).unwrap();
        let child = Command::new("containerd")
            .arg("-c")
            .arg(dir.path().join("config.toml"))
            .stdout(Stdio::null())
            .stderr(File::create(dir.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut daemon = Daemon { dir, child };
        let from = Instant::now();
        loop {
            let asked = daemon.ctr(&["version"]).output().unwrap();
            if asked.status.success() {
                return Some(daemon);
            }
            let ended = daemon.child.try_wait().unwrap();
            assert!(ended.is_none(), "containerd ended ({ended:?}): {}", daemon.log());
            let late = from.elapsed() >= LONG;
            assert!(!late, "containerd never came up: {}\n{}", printed(&asked), daemon.log());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// The last of what it wrote about itself.
    fn log(&self) -> String {
        let text = std::fs::read(self.dir.path().join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    fn ctr(&self, args: &[&str]) -> Command {
        let mut command = Command::new("ctr");
        command.arg("--address").arg(self.socket()).args(args);
        command
    }

    /// Gives it the image. Podman makes it in a storage of this test's own: the node's is changed by
    /// other tests at this moment.
    fn import_image(&self) {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        let (root, run, archive) = (at("images"), at("images-run"), at("image.tar"));
        let own = ["--root", &root, "--runroot", &run, "--storage-driver", "vfs"];
        let podman = |args: &[&str]| podman(&[&own[..], args].concat());
        import(&podman).unwrap_or_else(|why| panic!("{why}"));
        succeeds(&mut podman(&["save", "-q", "--format", "oci-archive", "-o", &archive, IMAGE]));
        let imported = self.ctr(&["images", "import", &archive]).output().unwrap();
        assert!(imported.status.success(), "{}\n{}", printed(&imported), self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn containerd_does_it_too() {
    if !able() {
        return;
    }
    let Some(daemon) = Daemon::start() else { return };
    daemon.import_image();
    let containers = Arc::new(Containers::containerd(Pull::Never, &daemon.socket()));
    let mut b =
        Bench::handy(RunnerTools { containers: containers.clone(), ..RunnerTools::default() });
    let mut user = "-ge 200000";
    // It gives up on a program that does not answer for seconds, and asks again.
    let from = Instant::now();
    let knows_users = loop {
        match containers.knows_users() {
            Ok(knows) => break knows,
            Err(e) => assert!(from.elapsed() < LONG, "{e}"),
        }
    };
    if !knows_users {
        let reason = refusal(&mut b, &contained("true"));
        assert!(reason.contains("no `--user`"), "{reason}");
        b = Bench::handy(RunnerTools {
            containers,
            isolation: Isolation::Off,
            ..RunnerTools::default()
        });
        user = "-eq 0";
    }
    let k = key();
    // It ends only after all of its output was read: `ctr` may lose what a container printed that ended
    // before `ctr` had opened its pipes.
    let mut d = contained(&format!(
        "echo rank $RANK $GREETING; cat /data/in; cat $MUSTER_SECRETS_DIR/token; \
         until [ -e /data/go ]; do sleep 0.05; done; [ $(id -u) {user} ] && exit 7"
    ));
    d.run.env.insert("GREETING".into(), "hello".into());
    d.secrets.0.insert("token".into(), "hush\n".into());
    std::fs::write(b.files.path().join("in"), "treasure\n").unwrap();
    let from = b.files.path().display().to_string();
    d.volumes = vec![Volume { from, at: "/data".into(), read_only: true }];
    b.runner.start(k, &d, Instant::now());
    b.until("its output, or its end", |b| {
        let ended = b.seen.iter().any(|(of, o)| *of == k && matches!(o, Observed::Ended(_)));
        ended || b.out(k).ends_with("hush\n")
    });
    std::fs::write(b.files.path().join("go"), "").unwrap();
    let end = b.end(k);
    assert!(
        matches!(&end, SlotEnd::Failed { exit } if exit.code == Some(7)),
        "{end:?} {}\n{}",
        b.text(k, 0, Stream::Stderr),
        daemon.log()
    );
    assert_eq!(b.out(k), "rank 0 hello\ntreasure\nhush\n");
    // A stop, and what ignores it.
    let k = key();
    let word = long_sleep(k);
    let script = format!("trap '' TERM; echo up; sleep {word} & sleep {word}");
    b.runner.start(k, &contained(&script), Instant::now());
    b.until("both", |_| with_word(&word).len() == 2);
    b.runner.stop(k, Span(100), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Stopped, "{}", daemon.log());
    assert!(with_word(&word).is_empty());
    let left = b.runner.leftovers();
    let listed = succeeds(&mut daemon.ctr(&["containers", "ls", "-q"]));
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "", "{left:?}\n{}", daemon.log());
    assert!(left.is_empty(), "{left:?}");
    let mut d = contained("true");
    d.run.image = Some("localhost/no-such-image:9".into());
    let reason = refusal(&mut b, &d);
    assert!(reason.contains("ctr images pull localhost/no-such-image:9"), "{reason}");
}
