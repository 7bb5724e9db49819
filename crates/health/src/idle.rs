//! GPUs that are allocated and do nothing, as rows of figures show them.

mod attempts;

pub use attempts::{AttemptGpus, IdleReports, candidates};

use muster_model::units::{Span, Time};

/// Memory beyond what the driver takes for itself, in MiB: a process has something there.
const IN_USE_MIB: f32 = 100.0;
/// The driver never takes more than this for itself, in MiB.
const DRIVER_MIB: f32 = 1024.0;
/// No GPU rests at more than this, in watts.
const REST_W: f32 = 150.0;
/// A GPU with a process on it that computes nothing runs at higher clocks than one at rest, but
/// takes less than so many times as much.
const NEAR_REST: f32 = 2.0;

/// What was seen of one GPU.
#[derive(Debug, Clone, Copy)]
struct Gpu {
    /// Least memory seen.
    memory: f32,
    /// Least power seen.
    power: f32,
    /// It was idle in every row since then.
    since: Option<Time>,
}

/// Which GPUs of a node are held and do nothing.
#[derive(Debug, Default)]
pub struct IdleGpus {
    gpus: Vec<Gpu>,
    /// When the newest row came.
    last: Option<Time>,
}

impl IdleGpus {
    /// Takes a row in that came at `now` on a clock that never jumps. A row that came later than
    /// `gap` after the one before says nothing of the time between.
    pub fn push(&mut self, columns: &[String], values: &[f32], now: Time, gap: Span) {
        let at = |name: &str| columns.iter().position(|c| c == name);
        let (Some(util), Some(memory), Some(power)) = (at("util"), at("mem_used"), at("power"))
        else {
            self.gpus.clear();
            return;
        };
        let broken = self.last.replace(now).is_none_or(|l| now.since(l) > gap);
        let rows = values.chunks_exact(columns.len());
        let new = Gpu { memory: DRIVER_MIB, power: REST_W, since: None };
        self.gpus.resize(rows.len(), new);
        for (gpu, row) in self.gpus.iter_mut().zip(rows) {
            let (util, memory, power) = (row[util], row[memory], row[power]);
            // The lesser of the two, and never NaN.
            gpu.memory = gpu.memory.min(memory);
            gpu.power = gpu.power.min(power);
            // A figure that is not there is NaN and compares as false: then nothing is claimed.
            let idle =
                util <= 0.0 && memory > gpu.memory + IN_USE_MIB && power <= gpu.power * NEAR_REST;
            gpu.since = idle.then(|| gpu.since.filter(|_| !broken).unwrap_or(now));
        }
    }

    /// Since when all GPUs of a set have been idle; none when one is not, or when the newest row
    /// is old.
    #[must_use]
    pub fn since(&self, gpus: impl Iterator<Item = u32>, now: Time, gap: Span) -> Option<Time> {
        if self.last.is_none_or(|l| now.since(l) > gap) {
            return None;
        }
        let mut latest = None;
        for g in gpus {
            latest = latest.max(Some(self.gpus.get(usize::try_from(g).ok()?)?.since?));
        }
        latest
    }

    /// Has any GPU been idle since then, or longer?
    #[must_use]
    pub fn any_since(&self, t: Time) -> bool {
        self.gpus.iter().any(|g| g.since.is_some_and(|s| s <= t))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Span = Span::secs(30);

    fn columns() -> [String; 3] {
        ["util", "mem_used", "power"].map(String::from)
    }

    fn at(s: u64) -> Time {
        Time(1_000_000) + Span::secs(s)
    }

    #[test]
    fn a_gpu_is_idle_while_it_holds_memory_and_nothing_else() {
        let mut i = IdleGpus::default();
        let mut push = |s: u64, row: [f32; 3]| {
            i.push(&columns(), &row, at(s), GAP);
            i.since([0].into_iter(), at(s), GAP)
        };
        assert_eq!(push(0, [0.0, 4.0, 72.0]), None, "nobody is there");
        assert_eq!(push(10, [97.0, 60_000.0, 690.0]), None);
        assert_eq!(push(20, [0.0, 60_000.0, 118.0]), Some(at(20)));
        assert_eq!(push(30, [0.0, 60_000.0, 75.0]), Some(at(20)));
        assert_eq!(push(40, [0.0, 60_000.0, 300.0]), None, "something draws power");
        assert_eq!(push(50, [0.0, 60_000.0, 80.0]), Some(at(50)));
        assert_eq!(push(60, [0.0, 60.0, 80.0]), None, "the driver's own memory");
        assert_eq!(push(70, [0.0, 200.0, 80.0]), Some(at(70)));
        assert_eq!(push(80, [f32::NAN, 200.0, 80.0]), None, "nobody knows");
        assert_eq!(push(90, [0.0, f32::NAN, 80.0]), None);
        assert_eq!(push(100, [0.0, 200.0, f32::NAN]), None);
        assert_eq!(push(110, [0.0, 200.0, 80.0]), Some(at(110)));
    }

    #[test]
    fn work_that_was_idle_before_this_server_began_is_seen_too() {
        let mut i = IdleGpus::default();
        i.push(&columns(), &[0.0, 60_000.0, 118.0], at(0), GAP);
        assert_eq!(i.since([0].into_iter(), at(1), GAP), Some(at(0)));
    }

    #[test]
    fn time_without_telemetry_is_not_idle_time() {
        let mut i = IdleGpus::default();
        let row = [0.0, 60_000.0, 80.0];
        i.push(&columns(), &row, at(0), GAP);
        i.push(&columns(), &row, at(30), GAP);
        assert_eq!(i.since([0].into_iter(), at(60), GAP), Some(at(0)));
        assert_eq!(i.since([0].into_iter(), at(61), GAP), None, "the newest row is old");
        i.push(&columns(), &row, at(100), GAP);
        assert_eq!(i.since([0].into_iter(), at(100), GAP), Some(at(100)));
    }

    #[test]
    fn a_set_is_idle_since_the_last_of_it_is() {
        let mut i = IdleGpus::default();
        let (idle, busy) = ([0.0, 60_000.0, 80.0], [90.0, 60_000.0, 600.0]);
        i.push(&columns(), &[idle, busy, idle].concat(), at(0), GAP);
        i.push(&columns(), &[idle, busy, busy].concat(), at(10), GAP);
        i.push(&columns(), &[idle, idle, busy].concat(), at(20), GAP);
        let of = |set: &[u32]| i.since(set.iter().copied(), at(20), GAP);
        assert_eq!((of(&[0]), of(&[0, 1]), of(&[0, 1, 2])), (Some(at(0)), Some(at(20)), None));
        assert_eq!((of(&[]), of(&[3])), (None, None), "no GPUs, and one that reports nothing");
        assert!(i.any_since(at(0)) && !i.any_since(at(0) - Span(1)));
        // Other columns: nothing is known.
        i.push(&["temp".to_string()], &[60.0; 3], at(30), GAP);
        assert_eq!(i.since([0].into_iter(), at(30), GAP), None);
    }
}
