//! Checks of the node around its GPUs: a disk and the loopback path.

use muster_model::qualification::{Check, Milli, Outcome};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Written to the disk.
const DISK_BYTES: usize = 1 << 30;
/// Sent over the loopback.
const NET_BYTES: usize = 4 << 30;
const BLOCK: usize = 8 << 20;

fn check(name: &str, value: Result<f64, io::Error>, unit: &str) -> Check {
    let (outcome, value, note) = match value {
        Ok(v) => (Outcome::Passed, Some(Milli::from_f64(v)), String::new()),
        Err(e) => (Outcome::Failed, None, e.to_string()),
    };
    Check { value, unit: unit.into(), ..Check::plain(name, None, outcome, note) }
}

#[expect(clippy::cast_precision_loss, reason = "bandwidths have few digits")]
fn gb_per_s(bytes: usize, took: Duration) -> f64 {
    bytes as f64 / took.as_secs_f64().max(1e-9) / 1e9
}

/// Writes a file and reads it back, past the cache where the file system lets us.
#[must_use]
pub fn disk(dir: &Path) -> Vec<Check> {
    // Others may write in that directory, so nobody is to know the name before.
    let random = fs::read_to_string("/proc/sys/kernel/random/uuid");
    let random = random.unwrap_or_else(|_| std::process::id().to_string());
    let path = dir.join(format!(".muster-disk-test-{}", random.trim()));
    let mut block = vec![0u8; BLOCK];
    for (i, b) in block.iter_mut().enumerate() {
        #[expect(clippy::cast_possible_truncation, reason = "noise")]
        {
            *b = (i.wrapping_mul(2_654_435_761) >> 13) as u8;
        }
    }
    let nothing = || Err(io::Error::other("nothing was written"));
    let (wrote, got) = match new_file(&path) {
        Ok(mut file) => {
            let wrote = write(&mut file, &block);
            let got = if wrote.is_ok() { read(&mut file, &block) } else { nothing() };
            let _ = fs::remove_file(&path);
            (wrote, got)
        }
        Err(e) => (Err(e), nothing()),
    };
    vec![check("disk-write", wrote, "GB/s"), check("disk-read", got, "GB/s")]
}

/// A file that was not there before: neither another one nor what a link leads to.
fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).read(true).write(true).mode(0o600).open(path)
}

fn write(file: &mut File, block: &[u8]) -> io::Result<f64> {
    let start = Instant::now();
    for _ in 0..DISK_BYTES / BLOCK {
        file.write_all(block)?;
    }
    file.sync_all()?;
    Ok(gb_per_s(DISK_BYTES, start.elapsed()))
}

fn read(file: &mut File, block: &[u8]) -> io::Result<f64> {
    file.rewind()?;
    // What was just written is in the page cache; ask for it to be dropped.
    let _ = rustix::fs::fadvise(&*file, 0, None, rustix::fs::Advice::DontNeed);
    let start = Instant::now();
    let mut back = vec![0u8; BLOCK];
    for _ in 0..DISK_BYTES / BLOCK {
        file.read_exact(&mut back)?;
        if back != block {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "what was read is not what was written",
            ));
        }
    }
    Ok(gb_per_s(DISK_BYTES, start.elapsed()))
}

/// Sends bytes to ourselves: the network stack, not the card, but a stack that is broken or
/// misconfigured shows here.
#[must_use]
pub fn loopback() -> Check {
    let run = || -> io::Result<f64> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let to = listener.local_addr()?;
        let sender = std::thread::spawn(move || -> io::Result<()> {
            let mut s = TcpStream::connect(to)?;
            let block = vec![0x5a_u8; 1 << 20];
            for _ in 0..NET_BYTES / block.len() {
                s.write_all(&block)?;
            }
            Ok(())
        });
        let (mut s, _) = listener.accept()?;
        s.set_read_timeout(Some(Duration::from_secs(10)))?;
        let start = Instant::now();
        let mut block = vec![0u8; 1 << 20];
        let mut got = 0;
        while got < NET_BYTES {
            match s.read(&mut block)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => got += n,
            }
        }
        let took = start.elapsed();
        sender.join().map_err(|_| io::Error::other("the sender failed"))??;
        Ok(gb_per_s(NET_BYTES, took))
    };
    check("net-loopback", run(), "GB/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_somebody_else_made_is_not_written() {
        let tmp = tempfile::tempdir().unwrap();
        let (theirs, link) = (tmp.path().join("theirs"), tmp.path().join("link"));
        fs::write(&theirs, "data").unwrap();
        std::os::unix::fs::symlink(&theirs, &link).unwrap();
        for path in [&theirs, &link] {
            assert_eq!(new_file(path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "data");
        assert!(new_file(&tmp.path().join("ours")).is_ok());
    }

    #[test]
    fn a_disk_that_cannot_be_written_fails_and_says_why() {
        let checks = disk(Path::new("/nonexistent"));
        assert!(checks.iter().all(|c| c.outcome == Outcome::Failed), "{checks:?}");
        assert!(checks[0].note.contains("No such file"), "{checks:?}");
    }
}
