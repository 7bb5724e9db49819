//! Work for all cores, with results in the order of the work.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// How many threads are used: as many as asked for, or as there are cores.
pub fn threads(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    asked.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// Does `work` for each item and gives the results in the order of the items. Which thread does
/// what has no influence on them: on failure it is always the first failing item that is reported.
pub fn each<T: Sync, R: Send, E: Send>(
    items: &[T],
    threads: NonZeroUsize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done: Mutex<Vec<(usize, Result<R, E>)>> = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || {
        while !stop.load(Ordering::Relaxed) {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { return };
            let result = work(item);
            // Items before this one were taken before and will be finished.
            if result.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
        }
    };
    thread::scope(|s| {
        for _ in 0..threads.get().min(items.len()) {
            s.spawn(worker);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, r)| r).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(threads: usize, items: &[u32]) -> Result<Vec<u32>, u32> {
        let threads = NonZeroUsize::new(threads).expect("one at least");
        each(items, threads, |n| if n % 10 == 7 { Err(*n) } else { Ok(n * 2) })
    }

    #[test]
    fn results_stand_in_order_whatever_the_number_of_threads() {
        let items: Vec<u32> = (0..7).chain(10..17).collect();
        let want: Vec<u32> = items.iter().map(|n| n * 2).collect();
        for n in [1, 2, 3, 64] {
            assert_eq!(on(n, &items), Ok(want.clone()), "{n} threads");
        }
        assert_eq!(on(4, &[]), Ok(Vec::new()));
    }

    #[test]
    fn the_first_failure_is_reported() {
        let items: Vec<u32> = (0..100).collect();
        for n in [1, 2, 8] {
            assert_eq!(on(n, &items), Err(7), "{n} threads");
        }
    }
}
