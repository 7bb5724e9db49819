//! The wall clock as the server under test sees it: a library in front of the C library adds so
//! many seconds to it. The machine's own clock, and that of agents and ranks, stays as it is.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds of an hour.
pub(crate) const HOUR: i64 = 3600;
/// Seconds of a day.
pub(crate) const DAY: i64 = 24 * HOUR;

/// Names a library that was built before, for a machine without a C compiler.
const READY: &str = "MUSTER_CRASH_CLOCK";
/// Shows the library where the seconds are.
const FILE: &str = "CRASH_CLOCK_FILE";

/// System calls in place of the C library's own functions: those would be found only by way of
/// the loader, which may ask for the time itself. The time since the start of the machine, which
/// nobody can set, is not touched.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("CRASH_CLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *at = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) ahead = at;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
    int r = syscall(SYS_clock_gettime, id, ts);
    if (r == 0 && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        ts->tv_sec += *ahead;
    return r;
}

int timespec_get(struct timespec *ts, int base) {
    return clock_gettime(CLOCK_REALTIME, ts) == 0 ? base : 0;
}

int gettimeofday(struct timeval *tv, void *zone) {
    struct timespec ts;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0) return -1;
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec ts;
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0) return -1;
    if (at) *at = ts.tv_sec;
    return ts.tv_sec;
}
"#;

/// A wall clock that can be set.
#[derive(Debug)]
pub(crate) struct WallClock {
    library: PathBuf,
    path: PathBuf,
    file: File,
    /// How far it is ahead of the machine's, in seconds.
    ahead: i64,
    /// How often it was set.
    pub(crate) steps: u64,
}

impl WallClock {
    /// Builds the library in this directory. None where no C compiler is: that is reported as a
    /// skip.
    pub(crate) fn new(dir: &Path) -> Option<WallClock> {
        let library = match std::env::var_os(READY) {
            Some(ready) => PathBuf::from(ready),
            None => {
                let how = format!("apt-get install gcc, or name a library in {READY}");
                let there = muster_testkit::which("cc").is_some();
                if !muster_testkit::component(there, "a C compiler", &how) {
                    return None;
                }
                compile(dir)
            }
        };
        let path = dir.join("clock");
        let file = File::create(&path).expect("a file for the clock");
        let mut clock = WallClock { library, path, file, ahead: 0, steps: 0 };
        clock.set(0);
        Some(clock)
    }

    /// Has a program go by this clock.
    pub(crate) fn show(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env(FILE, &self.path);
    }

    /// Whether a process goes by this clock: one that is linked statically does not.
    pub(crate) fn shown_to(&self, pid: u32) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        maps.contains(&*self.path.to_string_lossy())
    }

    /// Sets it so far ahead of the machine's own, or behind.
    pub(crate) fn set(&mut self, ahead: i64) {
        self.file.write_all_at(&ahead.to_ne_bytes(), 0).expect("the clock can be set");
        if self.ahead != ahead {
            self.steps += 1;
        }
        self.ahead = ahead;
    }
}

fn compile(dir: &Path) -> PathBuf {
    let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
    std::fs::write(&source, SOURCE).expect("the source of the clock");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]);
    muster_testkit::succeeds(&mut compile);
    library
}

/// A step in words.
pub(crate) fn words(seconds: i64) -> String {
    let way = if seconds < 0 { "behind" } else { "ahead" };
    format!("{} h {way}", seconds.abs() / HOUR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn a_program_goes_by_the_clock_that_it_is_shown() {
        let dir = tempfile::tempdir().expect("a directory");
        let Some(mut clock) = WallClock::new(dir.path()) else { return };
        for ahead in [DAY, -DAY, HOUR, 0] {
            clock.set(ahead);
            let mut date = Command::new("date");
            clock.show(date.arg("+%s"));
            let said = date.output().expect("date runs").stdout;
            let said: i64 = String::from_utf8_lossy(&said).trim().parse().expect("seconds");
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
            let found = said - i64::try_from(now).expect("in range");
            // In a minute a machine is not as busy as that.
            assert!((found - ahead).abs() < 60, "{found} for {ahead}");
        }
        assert_eq!(clock.steps, 4);
    }
}
