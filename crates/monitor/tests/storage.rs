//! A file system that really stands still: ext4 on a loop device, frozen as for a snapshot.

use muster_model::units::Time;
use muster_monitor::host::HostReader;
use muster_monitor::probe::Probes;
use muster_testkit::until;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|o| o.status.success())
}

/// A file system of its own that can be frozen; thawed and unmounted when dropped.
struct FrozenMount {
    dir: tempfile::TempDir,
    mount: PathBuf,
}

impl FrozenMount {
    fn new() -> Option<FrozenMount> {
        if !muster_testkit::program("mkfs.ext4", "e2fsprogs")
            || !muster_testkit::program("fsfreeze", "util-linux")
        {
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let (image, mount) = (dir.path().join("image"), dir.path().join("data"));
        std::fs::create_dir(&mount).expect("made");
        let file = std::fs::File::create(&image).expect("made");
        file.set_len(32 << 20).expect("room");
        let there = works(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))
            && works(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mount));
        if !muster_testkit::machine(there, "ext4 cannot be mounted on a loop device") {
            return None;
        }
        Some(FrozenMount { dir, mount })
    }

    fn set(&self, frozen: bool) -> bool {
        let how = if frozen { "--freeze" } else { "--unfreeze" };
        works(Command::new("fsfreeze").arg(how).arg(&self.mount))
    }

    fn path(&self) -> &Path {
        &self.mount
    }
}

impl Drop for FrozenMount {
    fn drop(&mut self) {
        self.set(false);
        let gone = works(Command::new("umount").arg(&self.mount))
            || works(Command::new("umount").arg("-l").arg(&self.mount));
        if !gone {
            eprintln!("{} is still mounted", self.dir.path().display());
        }
    }
}

#[test]
fn a_frozen_file_system_is_seen_to_stall_and_holds_up_nobody() {
    let Some(ice) = FrozenMount::new() else { return };
    let every = Duration::from_millis(100);
    let probes = Probes::start(&[ice.path().to_path_buf()], every).expect("threads");
    let stalled = format!("fs.{}.stalled_s", ice.path().display());
    until("all figures", || probes.metrics().len() == 4);
    if !muster_testkit::machine(ice.set(true), "this kernel does not freeze file systems") {
        return;
    }
    let script = "echo x > \"$0/file\"";
    let mut writer =
        Command::new("sh").args(["-c", script]).arg(ice.path()).spawn().expect("started");
    until("the stall", || probes.metrics()[&stalled] > 1.0);
    // What the last probe found is no longer reported.
    until("nothing but the stall", || probes.metrics().len() == 1);
    // A process that writes there is stuck too, by a clock that shows half a minute more.
    let mut reader = HostReader::new("/");
    until("a stuck process", || {
        let _ = reader.sample_host(Time(0));
        reader.sample_host(Time(40_000)).stuck.is_some_and(|n| n >= 1)
    });
    assert!(ice.set(false));
    let how = writer.wait().expect("ended");
    assert!(how.success(), "the writer on the frozen file system: {how}");
    until("figures again", || probes.metrics().len() == 4 && probes.metrics()[&stalled] < 1.0);
    drop(probes);
}
