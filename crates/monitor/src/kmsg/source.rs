//! Where the kernel's log comes from.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Where the kernel's own log is.
const KMSG: &str = "/dev/kmsg";

/// Where the kernel's log is read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KernelLog {
    /// `/dev/kmsg`, or `journalctl` where that cannot be read.
    #[default]
    Auto,
    /// This device, pipe or file, from its present end on.
    File(PathBuf),
    /// The log is not read.
    Off,
}

/// Something that gives bytes of a log as it grows.
pub trait LogSource: Send {
    /// Bytes that are there; `WouldBlock` when there are none yet.
    ///
    /// # Errors
    /// `BrokenPipe` when records were overwritten before they were read.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Waits for more, at most so long.
    fn wait(&mut self, most: Duration);
    /// Whether nothing to read means that nothing will ever come.
    fn ends(&self) -> bool {
        false
    }
}

pub(super) struct OpenedLog {
    pub(super) source: Box<dyn LogSource>,
    pub(super) from: String,
}

impl KernelLog {
    pub(super) fn open(&self) -> Result<OpenedLog, String> {
        match self {
            KernelLog::Off => Err("reading the kernel's log is switched off".into()),
            KernelLog::File(path) => file(path),
            KernelLog::Auto => file(Path::new(KMSG)).or_else(|why| {
                journal().map_err(|other| {
                    format!("{why}; {other}: no fault of the kernel's log is seen")
                })
            }),
        }
    }
}

fn file(path: &Path) -> Result<OpenedLog, String> {
    let cannot = |e: io::Error| format!("{} cannot be read: {e}", path.display());
    let mut file = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(cannot)?;
    let kind = file.metadata().map_err(cannot)?.file_type();
    let ready = if kind.is_fifo() {
        Ready::Pipe
    } else {
        // What was written before is for whoever asks about the past.
        file.seek(SeekFrom::End(0)).map_err(cannot)?;
        if kind.is_char_device() { Ready::Device } else { Ready::Plain }
    };
    let source = Box::new(FileSource { file, ready });
    Ok(OpenedLog { source, from: path.display().to_string() })
}

#[derive(PartialEq, Eq)]
enum Ready {
    Device,
    Pipe,
    Plain,
}

struct FileSource {
    file: File,
    ready: Ready,
}

impl LogSource for FileSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.file.read(buffer) {
            // No writer yet, or the file has not grown: not the end.
            Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
            other => other,
        }
    }

    fn wait(&mut self, most: Duration) {
        match self.ready {
            // A plain file is always ready, and a pipe nobody writes to always ended.
            Ready::Plain => std::thread::sleep(most.min(Duration::from_millis(100))),
            Ready::Pipe => {
                if !wait(self.file.as_fd(), most) {
                    std::thread::sleep(most.min(Duration::from_millis(20)));
                }
            }
            Ready::Device => {
                wait(self.file.as_fd(), most);
            }
        }
    }
}

/// Whether there is something to read within that time.
fn wait(fd: BorrowedFd<'_>, most: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let most = Timespec::try_from(most).ok();
    matches!(poll(&mut fds, most.as_ref()), Ok(n) if n > 0)
        && fds[0].revents().contains(PollFlags::IN)
}

fn journal() -> Result<OpenedLog, String> {
    let cannot = |e: io::Error| format!("journalctl cannot be started: {e}");
    let last = muster_supervise::foreign("journalctl")
        .args(["--dmesg", "--lines=1", "--output=cat", "--no-pager", "--quiet"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(cannot)?;
    // It follows an empty log without a word when this user may see nothing.
    if last.stdout.is_empty() {
        return Err("journalctl shows nothing of the kernel's log to this user".into());
    }
    let mut child = muster_supervise::foreign("journalctl")
        .args(["--dmesg", "--follow", "--lines=0", "--output=cat", "--no-pager", "--quiet"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(cannot)?;
    let Some(out) = child.stdout.take() else {
        let _ = child.kill();
        let _ = child.wait();
        return Err("journalctl gives no output".into());
    };
    let flags = rustix::fs::fcntl_getfl(&out).map_err(|e| cannot(e.into()))?;
    rustix::fs::fcntl_setfl(&out, flags | rustix::fs::OFlags::NONBLOCK)
        .map_err(|e| cannot(e.into()))?;
    let source = Box::new(JournalSource { child, out });
    Ok(OpenedLog { source, from: "journalctl".into() })
}

struct JournalSource {
    child: Child,
    out: std::process::ChildStdout,
}

impl LogSource for JournalSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.out.read(buffer)
    }

    fn wait(&mut self, most: Duration) {
        wait(self.out.as_fd(), most);
    }

    fn ends(&self) -> bool {
        true
    }
}

impl Drop for JournalSource {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
