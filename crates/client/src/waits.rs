//! Nobody waits in silence: what is reported while a server does not answer.

use crate::ClientError;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// From when on it is reported.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);
/// From when on it is of a stream: a server sends something every 15 s.
pub(crate) const STREAM_SILENCE: Duration = Duration::from_secs(20);

/// Who wants to know, shared by all clones of a client.
#[derive(Clone, Default)]
pub(crate) struct Waits(Option<Arc<Listener>>);

struct Listener {
    say: Box<dyn Fn(&str) + Send + Sync>,
    away: Mutex<Absence>,
}

#[derive(Default)]
struct Absence {
    /// When the first try failed since the server last answered.
    since: Option<Instant>,
    said: bool,
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waits").field(&self.0.is_some()).finish()
    }
}

impl Listener {
    fn absence(&self) -> MutexGuard<'_, Absence> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say_once(&self, text: &str) {
        let said = std::mem::replace(&mut self.absence().said, true);
        if !said {
            (self.say)(text);
        }
    }
}

impl Waits {
    pub(crate) fn new(say: impl Fn(&str) + Send + Sync + 'static) -> Waits {
        Waits(Some(Arc::new(Listener { say: Box::new(say), away: Mutex::default() })))
    }

    /// A try failed, and the next one is after this pause.
    pub(crate) fn away(&self, server: &str, error: &ClientError, pause: Duration) {
        let Some(listener) = &self.0 else { return };
        let since = *listener.absence().since.get_or_insert_with(Instant::now);
        if since.elapsed() + pause >= SILENCE {
            listener.say_once(&match error {
                ClientError::Unreachable { .. } => {
                    format!("waiting for the server at {server}: it cannot be reached")
                }
                other => format!("waiting for the server at {server}: {other}"),
            });
        }
    }

    /// The server answered: the next absence is another one.
    pub(crate) fn answered(&self) {
        if let Some(listener) = &self.0 {
            *listener.absence() = Absence::default();
        }
    }

    /// Waits for an answer that may be longer in coming than is usual.
    pub(crate) async fn answer<T>(
        &self,
        usual: Duration,
        server: &str,
        work: impl Future<Output = T>,
    ) -> T {
        let Some(listener) = &self.0 else { return work.await };
        let mut work = pin!(work);
        match tokio::time::timeout(usual, &mut work).await {
            Ok(done) => done,
            Err(_) => {
                listener.say_once(&format!("waiting for an answer of the server at {server}"));
                work.await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening() -> (Waits, Arc<Mutex<Vec<String>>>) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let to = heard.clone();
        let waits = Waits::new(move |text| to.lock().expect("nobody panics").push(text.into()));
        (waits, heard)
    }

    #[tokio::test(start_paused = true)]
    async fn an_absence_is_reported_once_when_it_is_long() {
        let (waits, heard) = listening();
        let error = ClientError::Setup { what: "not now".into(), hint: None };
        let count = || heard.lock().expect("nobody panics").len();
        // As long as the next pause is short, it may be over before anybody wonders.
        waits.away("http://h:1", &error, Duration::ZERO);
        assert_eq!(count(), 0);
        waits.away("http://h:1", &error, SILENCE);
        waits.away("http://h:1", &error, SILENCE);
        assert_eq!(
            *heard.lock().expect("nobody panics"),
            ["waiting for the server at http://h:1: not now"]
        );
        waits.answered();
        waits.away("http://h:1", &error, SILENCE);
        assert_eq!(count(), 2, "another one");
        Waits::default().away("http://h:1", &error, SILENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_long_in_coming_is_reported_once() {
        let (waits, heard) = listening();
        let count = || heard.lock().expect("nobody panics").len();
        assert_eq!(waits.answer(SILENCE, "http://h:1", async { 1 }).await, 1);
        assert_eq!(count(), 0);
        let slow = async {
            tokio::time::sleep(SILENCE * 5).await;
            2
        };
        assert_eq!(waits.answer(SILENCE, "http://h:1", slow).await, 2);
        assert_eq!(count(), 1);
    }
}
