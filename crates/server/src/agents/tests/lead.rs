//! What agents are told by a server that cannot be certain that it leads.

use super::kit::{Line, Site, site_with_lease};
use muster_link::messages::{FromAgent, FromServer};
use muster_model::units::Span;
use std::time::Duration;

/// Sends heartbeats until the answer is of this kind.
async fn beat_until(s: &Site, line: &mut Line, wanted: bool) {
    let beats = async {
        loop {
            line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
            let uncertain = line
                .hear_of(|m| match m {
                    FromServer::Ack { uncertain, .. } => Some(uncertain),
                    _ => None,
                })
                .await;
            if uncertain == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, beats).await.expect("the answer never changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_renewed_only_while_it_is_certain_that_this_server_leads() {
    let s = site_with_lease(Span::secs(5)).await;
    let (agent, mut line) = s.idle("n1").await;
    beat_until(&s, &mut line, false).await;
    let lock = s.lock_store();
    beat_until(&s, &mut line, true).await;
    assert!(s.brain.is_leading(), "it has not heard of another leader");
    // Nor does it welcome anybody.
    match agent.greet().await.1 {
        FromServer::Refused { code, retry: true, .. } => assert_eq!(code, "stale_leader"),
        other => panic!("{other:?}"),
    }
    drop(lock);
    let mut line = loop {
        let (line, first) = agent.greet().await;
        if matches!(first, FromServer::Welcome { .. }) {
            break line;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    beat_until(&s, &mut line, false).await;
}
