//! Faults that are injected under an Idempotency-Key: a repeat is answered, and injects nothing again.

use super::error::{Failure, Reply};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use muster_model::{IdempotencyKey, Time};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Keys that are remembered at most, each as long as that of any write; the oldest is forgotten first.
const KEYS: usize = 1024;

/// What came of one, in words.
type Outcome = Result<String, String>;

/// One that is under way, for everybody who asks for it.
type Injection = Shared<BoxFuture<'static, Outcome>>;

/// What was injected lately. It is not in the log: another server knows nothing of it.
#[derive(Default)]
pub(crate) struct Injections(Mutex<VecDeque<(IdempotencyKey, Injection)>>);

impl Injections {
    /// Does it, or says what came of the one that was begun under this key. One that failed is tried
    /// again.
    pub(crate) fn once(
        &self,
        key: Option<IdempotencyKey>,
        now: Time,
        inject: impl Future<Output = Outcome> + Send + 'static,
    ) -> Reply<Injection> {
        let begin = move || {
            // It goes on when its caller has given up.
            let begun = tokio::spawn(inject);
            begun.map(|done| done.unwrap_or_else(|e| Err(e.to_string()))).boxed().shared()
        };
        let Some(key) = key else { return Ok(begin()) };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(seen, _)| seen.keep_until > now);
        if let Some(at) = known.iter().position(|(seen, _)| seen.key == key.key) {
            let (seen, injection) = &known[at];
            if seen.fingerprint != key.fingerprint {
                let message = "this Idempotency-Key was used before with another request";
                return Err(Failure::conflict(message)
                    .field("Idempotency-Key")
                    .hint("use a new key for a new request, and the same key only to repeat one"));
            }
            if !matches!(injection.peek(), Some(Err(_))) {
                return Ok(injection.clone());
            }
            known.remove(at);
        }
        if known.len() >= KEYS {
            known.pop_front();
        }
        let injection = begin();
        known.push_back((key, injection.clone()));
        Ok(injection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn key(name: &str, fingerprint: &str) -> Option<IdempotencyKey> {
        let (key, fingerprint) = (name.to_owned(), fingerprint.to_owned());
        Some(IdempotencyKey { key, fingerprint, keep_until: Time(10) })
    }

    #[tokio::test]
    async fn a_repeat_injects_nothing_again_and_one_that_failed_is_tried_again() {
        let (all, times) = (Injections::default(), Arc::new(AtomicU32::new(0)));
        let inject = |answer: Outcome| {
            let times = times.clone();
            async move {
                times.fetch_add(1, Ordering::Relaxed);
                answer
            }
        };
        let good = || Ok("done".to_owned());
        let now = Time(9);
        // Whoever asked first has hung up.
        assert!(all.once(key("a", "1"), now, inject(good())).is_ok());
        let again = all.once(key("a", "1"), now, inject(Err("again".into())));
        assert_eq!(again.unwrap().await, good());
        assert_eq!(times.load(Ordering::Relaxed), 1);
        assert!(all.once(key("a", "2"), now, inject(good())).is_err(), "another request");
        let failed = all.once(key("b", "1"), now, inject(Err("away".into())));
        assert!(failed.unwrap().await.is_err());
        let retried = all.once(key("b", "1"), now, inject(good()));
        assert_eq!(retried.unwrap().await, good());
        assert_eq!(times.load(Ordering::Relaxed), 3);
        let late = all.once(key("a", "1"), Time(10), inject(good()));
        assert_eq!(late.unwrap().await, good());
        assert_eq!(times.load(Ordering::Relaxed), 4, "no write's key is kept for longer");
    }
}
