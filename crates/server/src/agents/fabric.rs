//! What agents are asked when the network between them is tested, and what they answer.

use super::Agents;
use muster_link::messages::{FabricMeasurement, FromServer};
use muster_model::names::NodeName;
use muster_model::units::Span;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a node may take to say where it listens.
const READY: Duration = Duration::from_secs(30);
/// How much longer than asked for a node may measure: connections that open slowly, and answers
/// that come late over a bad path.
const PATIENCE: Duration = Duration::from_secs(40);

/// Who waits for which answer of which node.
#[derive(Debug)]
struct Waiting<T>(Mutex<HashMap<u64, (NodeName, oneshot::Sender<T>)>>);

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Waiting(Mutex::default())
    }
}

impl<T> Waiting<T> {
    fn expect(&self, node: &NodeName, id: u64) -> oneshot::Receiver<T> {
        let (tx, rx) = oneshot::channel();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(id, (node.clone(), tx));
        rx
    }

    fn give_up(&self, id: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Only the node that was asked may answer.
    fn answer(&self, node: &NodeName, id: u64, answer: T) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(&id).is_some_and(|(asked, _)| asked == node)
            && let Some((_, tx)) = all.remove(&id)
        {
            // Whoever asked may have given up.
            let _ = tx.send(answer);
        }
    }
}

/// Questions about the network that are open.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    ready: Waiting<Result<u16, String>>,
    done: Waiting<FabricMeasurement>,
}

impl Exchange {
    pub(super) fn ready(&self, node: &NodeName, id: u64, port: u16, error: Option<String>) {
        self.ready.answer(node, id, error.map_or(Ok(port), Err));
    }

    pub(super) fn done(&self, node: &NodeName, id: u64, mut result: FabricMeasurement) {
        result.error = result.error.map(|e| e.chars().take(300).collect());
        result.held = result.held.map(|h| h.min(1000));
        if !(result.mbps.is_finite() && result.mbps >= 0.0) {
            result.error.get_or_insert_with(|| "a number that makes no sense".into());
            result.mbps = 0.0;
        }
        self.done.answer(node, id, result);
    }
}

impl Agents {
    async fn ask<T>(
        &self,
        of: impl Fn(&Exchange) -> &Waiting<T>,
        node: &NodeName,
        id: u64,
        question: FromServer,
        wait: Duration,
    ) -> Result<T, String> {
        let session = self.inner.node_entry(node).and_then(|s| s.session());
        let session = session.ok_or("its agent is not connected")?;
        let answer = of(&self.inner.fabric).expect(node, id);
        session.send_message(question);
        let answer = tokio::time::timeout(wait, answer).await;
        of(&self.inner.fabric).give_up(id);
        match answer {
            Ok(Ok(a)) => Ok(a),
            _ => Err("its agent did not answer in time".into()),
        }
    }

    /// Has a node listen for a test of the network; the port.
    ///
    /// # Errors
    /// In words, when the node is not there or cannot do it.
    pub async fn fabric_listen(
        &self,
        node: &NodeName,
        id: u64,
        length: Span,
    ) -> Result<u16, String> {
        let question = FromServer::FabricServe { id, bind: None, length };
        self.ask(|x| &x.ready, node, id, question, READY).await?
    }

    /// Has a node measure the path to one that listens, for so long over so many connections.
    ///
    /// # Errors
    /// In words, when the node is not there or does not answer. That nothing came through is
    /// reported in the figures.
    pub async fn fabric_dial(
        &self,
        node: &NodeName,
        id: u64,
        to: String,
        (streams, length): (u32, Span),
        one_way: bool,
    ) -> Result<FabricMeasurement, String> {
        let question = FromServer::FabricDial { id, to, bind: None, streams, length, one_way };
        self.ask(|x| &x.done, node, id, question, length.to_std() + PATIENCE).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_who_was_asked_is_heard() {
        let (one, two): (NodeName, NodeName) = ("n1".parse().unwrap(), "n2".parse().unwrap());
        let x = Exchange::default();
        let asked = x.ready.expect(&one, 7);
        x.ready(&two, 7, 1, None);
        x.ready(&one, 8, 2, None);
        x.ready(&one, 7, 3, None);
        x.ready(&one, 7, 4, None);
        assert_eq!(asked.await, Ok(Ok(3)));
        let asked = x.done.expect(&one, 9);
        x.done(&one, 9, FabricMeasurement { mbps: f64::NAN, ..FabricMeasurement::default() });
        let reported = asked.await.unwrap();
        assert!(reported.error.is_some() && reported.mbps.abs() < 1e-9);
        assert!(x.ready.0.lock().unwrap().is_empty() && x.done.0.lock().unwrap().is_empty());
    }
}
