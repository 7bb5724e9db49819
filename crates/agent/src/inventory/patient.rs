//! What is known of a machine's GPUs while their driver hangs.

use super::GpuSource;
use muster_model::node::Gpu;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long the first answer is waited for: the driver may have to wake every GPU.
const FIRST: Duration = Duration::from_secs(60);
/// How long a later one is.
const AGAIN: Duration = Duration::from_secs(10);

/// What the driver last said.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownGpus {
    gpus: Vec<Gpu>,
    versions: BTreeMap<String, String>,
}

impl GpuSource for KnownGpus {
    fn gpus(&self) -> Vec<Gpu> {
        self.gpus.clone()
    }

    fn versions(&self) -> BTreeMap<String, String> {
        self.versions.clone()
    }
}

/// Asks a source on a thread of its own, one at a time.
pub(crate) struct PatientSource {
    source: Arc<dyn GpuSource>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Option<KnownGpus>,
    /// A question without an answer.
    asked: Option<Receiver<KnownGpus>>,
}

impl PatientSource {
    pub(crate) fn new(source: Arc<dyn GpuSource>) -> PatientSource {
        PatientSource { source, state: Mutex::default() }
    }

    /// What the driver says, or what it said last: whoever connects does not wait for ever for one
    /// that hangs.
    pub(crate) fn known(&self) -> KnownGpus {
        let first = self.lock().known.is_none();
        self.known_within(if first { FIRST } else { AGAIN })
    }

    fn known_within(&self, most: Duration) -> KnownGpus {
        let mut state = self.lock();
        if let Some(asked) = state.asked.take() {
            match asked.try_recv() {
                // It may have come long ago: asked again.
                Ok(known) => state.known = Some(known),
                Err(TryRecvError::Empty) => {
                    state.asked = Some(asked);
                    return state.known.clone().unwrap_or_default();
                }
                Err(TryRecvError::Disconnected) => {}
            }
        }
        if let Some(asked) = self.ask() {
            match asked.recv_timeout(most) {
                Ok(known) => state.known = Some(known),
                Err(RecvTimeoutError::Timeout) => {
                    tracing::warn!("the GPU driver does not answer; what it said last is reported");
                    state.asked = Some(asked);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    tracing::warn!("asking the GPU driver broke off");
                }
            }
        }
        state.known.clone().unwrap_or_default()
    }

    fn ask(&self) -> Option<Receiver<KnownGpus>> {
        let (sender, receiver) = channel();
        let source = self.source.clone();
        let body = move || {
            let _ = sender.send(KnownGpus { gpus: source.gpus(), versions: source.versions() });
        };
        thread::Builder::new().name("gpu-inventory".into()).spawn(body).ok()?;
        Some(receiver)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Answers with what it is sent, and hangs until then.
    struct Slow {
        answers: Mutex<Receiver<String>>,
        asked: AtomicUsize,
    }

    impl GpuSource for Slow {
        fn gpus(&self) -> Vec<Gpu> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            Vec::new()
        }

        fn versions(&self) -> BTreeMap<String, String> {
            let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.recv().into_iter().map(|version| ("driver".to_owned(), version)).collect()
        }
    }

    #[test]
    fn while_the_driver_hangs_what_it_said_last_is_known() {
        let (answer, answers) = channel::<String>();
        let slow = Slow { answers: Mutex::new(answers), asked: AtomicUsize::default() };
        let slow = Arc::new(slow);
        let patient = PatientSource::new(slow.clone());
        let version = |known: KnownGpus| known.versions().get("driver").cloned();
        assert_eq!(version(patient.known_within(Duration::ZERO)), None, "nothing is known yet");
        answer.send("1".into()).unwrap();
        // The question that was given up is answered late, and the answer is used.
        while version(patient.known_within(Duration::ZERO)).is_none() {
            thread::yield_now();
        }
        let asked = slow.asked.load(Ordering::SeqCst);
        for _ in 0..3 {
            let known = patient.known_within(Duration::ZERO);
            assert_eq!(version(known).as_deref(), Some("1"), "it hangs again");
        }
        assert!(slow.asked.load(Ordering::SeqCst) <= asked + 1, "one question at a time");
        answer.send("2".into()).unwrap();
        while version(patient.known_within(Duration::ZERO)).as_deref() != Some("2") {
            thread::yield_now();
        }
    }
}
