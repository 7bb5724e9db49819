//! What the agent may do to this machine when it is allowed to: reset a GPU, restart.

use crate::watch::Watch;
use muster_agent::hooks::Actor;
use muster_agent::runner::PidMap;
use muster_supervise::{foreign, output_within};
use std::collections::BTreeSet;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// What the agent may do to this machine. By default nothing.
#[derive(Debug, Clone)]
pub struct Allowed {
    /// GPUs that nobody uses may be reset.
    pub reset: bool,
    /// The machine may be restarted.
    pub reboot: bool,
    /// How it is restarted, by way of the shell.
    pub reboot_command: String,
    /// How a GPU is reset; its name is put last.
    pub reset_command: Vec<String>,
}

impl Default for Allowed {
    fn default() -> Allowed {
        Allowed {
            reset: false,
            reboot: false,
            reboot_command: "systemctl reboot".into(),
            reset_command: ["nvidia-smi", "--gpu-reset", "-i"].map(str::to_owned).into(),
        }
    }
}

/// How long a reset may take.
const RESET: Duration = Duration::from_secs(120);
/// How long the command that restarts the machine may take to say that it will.
const REBOOT: Duration = Duration::from_secs(60);
/// What is kept of a command's last words.
const WORDS: usize = 400;

/// Resets and restarts.
pub(crate) struct ActExecutor {
    allowed: Allowed,
    watch: Arc<Watch>,
    pids: PidMap,
}

impl ActExecutor {
    pub(crate) fn new(allowed: Allowed, watch: Arc<Watch>, pids: PidMap) -> ActExecutor {
        ActExecutor { allowed, watch, pids }
    }

    /// Who uses a GPU, in words.
    fn used_by(&self, gpu: u32) -> Option<String> {
        if let Some(h) = self.pids.holder_of(gpu) {
            return Some(format!("attempt {}", h.key));
        }
        let now = self.watch.monitor().latest();
        let processes = &now.gpus.iter().find(|g| g.index == gpu)?.processes;
        let first = processes.first()?;
        Some(format!("process {}", first.pid))
    }
}

impl Actor for ActExecutor {
    fn can(&self) -> BTreeSet<String> {
        let all = [("reset", self.allowed.reset), ("reboot", self.allowed.reboot)];
        all.into_iter().filter(|(_, may)| *may).map(|(what, _)| what.to_owned()).collect()
    }

    fn reset_gpu(&self, gpu: u32) -> Result<String, String> {
        if let Some(who) = self.used_by(gpu) {
            return Err(format!("GPU {gpu} is used by {who}; a reset would kill it"));
        }
        let now = self.watch.monitor().latest();
        // A GPU that fell off the bus shifts the numbers of those after it; its name stays.
        let known = now.gpus.iter().find(|g| g.index == gpu).map(|g| g.uuid.to_string());
        let name = known.filter(|u| !u.is_empty()).unwrap_or_else(|| gpu.to_string());
        let Some((program, args)) = self.allowed.reset_command.split_first() else {
            return Err("no command resets a GPU here".into());
        };
        let mut command = foreign(program);
        command.args(args).arg(name);
        run(command, RESET).map(|said| format!("GPU {gpu} was reset: {said}"))
    }

    fn reboot(&self) -> Result<(), String> {
        let mut command = foreign("/bin/sh");
        command.arg("-c").arg(&self.allowed.reboot_command);
        run(command, REBOOT).map(drop)
    }
}

/// Runs a command for a bounded time; what it said last, or why it failed.
fn run(mut command: Command, most: Duration) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = output_within(&mut command, most).map_err(|e| match e.kind() {
        io::ErrorKind::TimedOut => format!("{name} did not end within {} s", most.as_secs()),
        _ => format!("cannot start {name}: {e}"),
    })?;
    let said = [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let said: String = said.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = said.chars().take(WORDS).collect();
    let status = out.status;
    if status.success() { Ok(said) } else { Err(format!("{name} failed ({status}): {said}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_gpu::device::DeviceError;
    use muster_monitor::kmsg::KernelLog;
    use muster_monitor::{Config, Monitor};

    fn hand(allowed: Allowed) -> ActExecutor {
        let catalogue = Arc::new(muster_health::faults::Catalogue::builtin().clone());
        let mut config = Config::reading(catalogue, muster_health::faults::Context::default());
        config.kernel_log = KernelLog::Off;
        let none = DeviceError::NoDriver("none here".into());
        let monitor = Monitor::start_without(config, &none).unwrap();
        let watch = Arc::new(Watch::new(monitor, Arc::default()));
        ActExecutor::new(allowed, watch, PidMap::default())
    }

    fn shell(script: &str) -> Vec<String> {
        ["/bin/sh", "-c", script, "sh"].map(str::to_owned).into()
    }

    #[test]
    fn nothing_is_allowed_unless_it_was_said() {
        assert!(hand(Allowed::default()).can().is_empty());
        let allowed = Allowed { reset: true, reboot: true, ..Allowed::default() };
        assert_eq!(hand(allowed).can(), ["reboot", "reset"].map(str::to_owned).into());
    }

    #[test]
    fn what_a_command_says_and_how_it_ends_is_reported() {
        let allowed = |script: &str| Allowed {
            reset: true,
            reset_command: shell(script),
            reboot_command: script.into(),
            ..Allowed::default()
        };
        let done = hand(allowed("echo GPU $1 was successfully reset")).reset_gpu(3);
        assert_eq!(done.unwrap(), "GPU 3 was reset: GPU 3 was successfully reset");
        let no = hand(allowed("echo in use >&2; exit 19")).reset_gpu(0).unwrap_err();
        assert!(no.contains("19") && no.contains("in use"), "{no}");
        assert!(hand(allowed("exit 0")).reboot().is_ok());
        assert!(hand(allowed("exit 1")).reboot().is_err());
        let none = Allowed { reset_command: vec!["/nowhere/x".into()], ..Allowed::default() };
        assert!(hand(none).reset_gpu(0).unwrap_err().contains("cannot start"));
    }

    #[test]
    fn a_command_that_hangs_is_given_up() {
        let mut hangs = Command::new("/bin/sh");
        hangs.args(["-c", "exec sleep 100000"]);
        let why = run(hangs, Duration::from_millis(1)).unwrap_err();
        assert!(why.contains("did not end within"), "{why}");
    }

    /// Not a test of its own: what the test below runs in a process that has tokens.
    #[test]
    #[ignore = "runs inside a_command_gets_no_secret_of_the_agent"]
    fn child_with_secrets() {
        let reset_command = shell("env | grep ^MUSTER_ || echo nothing");
        let done = hand(Allowed { reset: true, reset_command, ..Allowed::default() }).reset_gpu(3);
        println!("{done:?}");
    }

    #[test]
    fn a_command_gets_no_secret_of_the_agent() {
        let out = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "act::tests::child_with_secrets", "--ignored", "--nocapture"])
            .env("MUSTER_JOIN", "not-for-others")
            .env("MUSTER_TOKEN", "not-for-others")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(said.contains("GPU 3 was reset: nothing"), "{said}");
    }
}
