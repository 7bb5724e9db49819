//! Which drill with real processes is played by whom.

use super::real::{agent_stopped, rank_killed, server_loss, slow};
use super::result::Outcome;
use super::scene::RealDrill;
use super::site::Site;
use super::{net, processes, xid};
use muster_terminal::fail::Fail;

/// Plays it on a site of its own. All ranks are gone afterwards.
pub(crate) async fn play(site: &mut Site, name: &str, kind: RealDrill) -> Result<Outcome, Fail> {
    let mark = format!("{}-{name}", site.dir().display());
    let _ranks = Ranks(mark.clone());
    match kind {
        RealDrill::ServerLoss => server_loss(site, name, &mark).await,
        RealDrill::RankKilled => rank_killed(&site.client, name, &mark).await,
        RealDrill::AgentStopped => agent_stopped(site, name, &mark).await,
        RealDrill::SlowRank => slow(&site.client, name, &mark, false).await,
        RealDrill::SlowJob => slow(&site.client, name, &mark, true).await,
        RealDrill::LinkSlow => net::link_slow(site.dir(), name).await,
        RealDrill::Xid(xid) => xid::bad_kernel(site, name, xid).await,
    }
}

/// Ranks that end with this value, however the drill does.
struct Ranks(String);

impl Drop for Ranks {
    fn drop(&mut self) {
        processes::end_all(&self.0);
    }
}
