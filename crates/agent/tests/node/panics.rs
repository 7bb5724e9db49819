//! Each part of an agent is made to panic. What the agent needs to keep its word ends it, and the
//! next agent finds its ranks running; everything else is started again.

use crate::lease::{Agent, Site};
use crate::server::run;
use crate::session::block;
use crate::support::key;
use muster_link::messages::{Action, FromAgent, RunOrder};
use muster_model::command::Observed;
use muster_model::job::SlotEnd;
use muster_model::spec::OnPartition;

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![panics:
        a_panic_of_the_session_ends_the_agent_and_the_next_one_finds_its_ranks,
        a_panic_of_the_sender_ends_the_agent,
        a_watcher_that_panics_is_started_again,
    ]
}

pub(crate) fn a_panic_of_the_session_ends_the_agent_and_the_next_one_finds_its_ranks() {
    block(async {
        let (site, mut agent, mut conn) = Site::failing("agent.orders:2:panic").await;
        let k = key();
        let script = "until [ -e go ]; do echo step >> saved; sleep 0.02; done";
        conn.desire(1, vec![run(k, &site.detail(script, OnPartition::Continue))]).await;
        conn.report(k, &Observed::Running).await;
        let on = || vec![RunOrder { key: k, action: Action::Run, detail: None }];
        conn.desire(1, on()).await;
        let ended = agent.ended();
        assert_eq!(ended.code(), Some(1), "it says that it failed: {ended:?}");
        drop(conn);
        site.writes_on().await;
        let _next = Agent::start(&site.server, site.state.path(), true);
        let (mut conn, hello) = site.server.welcome(1).await;
        assert_eq!(hello.observed, vec![(k, Observed::Running)]);
        conn.desire(1, on()).await;
        std::fs::write(site.files.path().join("go"), "").unwrap();
        assert_eq!(conn.end(k).await, SlotEnd::Ok);
    });
}

pub(crate) fn a_panic_of_the_sender_ends_the_agent() {
    block(async {
        // After its first words there are heartbeats.
        let (site, mut agent, conn) = Site::failing("agent.send:3:panic").await;
        assert_eq!(agent.ended().code(), Some(1));
        drop(conn);
        let _next = Agent::start(&site.server, site.state.path(), true);
        let (mut conn, _) = site.server.welcome(1).await;
        conn.until(|m| matches!(m, FromAgent::Heartbeat { .. }).then_some(())).await;
    });
}

pub(crate) fn a_watcher_that_panics_is_started_again() {
    block(async {
        let (site, _agent, mut conn) = Site::failing("task.agent-watch:1:panic").await;
        let k = key();
        let d =
            site.detail("until [ -e go ]; do sleep 0.02; done; echo out", OnPartition::Continue);
        conn.desire(1, vec![run(k, &d)]).await;
        conn.report(k, &Observed::Running).await;
        std::fs::write(site.files.path().join("go"), "").unwrap();
        assert_eq!(conn.end(k).await, SlotEnd::Ok);
        assert_eq!(conn.text(), "out\n");
    });
}
