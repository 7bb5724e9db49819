//! Letting a new agent in.

use super::{Inner, refused};
use crate::brain::{Attach, BrainError};
use muster_engine::State;
use muster_link::LinkError;
use muster_link::messages::{FromServer, JoinSecret, PROTOCOL};
use muster_link::pki::requested_key;
use muster_link::token;
use muster_model::command::{Command, RefusalCode};
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::tenant::TokenUse;
use muster_model::units::Time;

pub(super) struct JoinRequest {
    pub(super) protocol: u32,
    pub(super) token: JoinSecret,
    pub(super) node: NodeName,
    pub(super) machine: String,
    pub(super) csr: String,
}

/// Whether a version of the protocol is spoken here.
pub(super) fn speaks(protocol: u32) -> Result<(), FromServer> {
    if protocol == PROTOCOL || protocol.checked_add(1) == Some(PROTOCOL) {
        return Ok(());
    }
    let older = if protocol > PROTOCOL { "server" } else { "agent" };
    let message = format!(
        "the agent has version {protocol} of the link and this server version {PROTOCOL}: update the {older}"
    );
    Err(refused("protocol", message, protocol > PROTOCOL))
}

/// The id of the token, when it opens this door now.
fn evaluate(state: &State, asked: &JoinRequest, now: Time) -> Result<String, FromServer> {
    let make = "make a new one with `muster token create --join`";
    let unknown =
        || refused("token", format!("the join token is unknown or was revoked: {make}"), false);
    let (id, secret) = asked.token.parts().ok_or_else(unknown)?;
    let known = state.tokens.get(id);
    // Hashed and compared even when there is no such token: the time reveals nothing.
    let hash = known.map_or("", |t| t.hash.as_str());
    if !token::same(&token::hash(secret), hash) {
        return Err(unknown());
    }
    let Some(t) = known else { return Err(unknown()) };
    let TokenUse::Join { uses_left } = &t.usage else {
        let message = format!("this is an API token, which lets no agent join: {make}");
        return Err(refused("token", message, false));
    };
    if t.expires_at.is_some_and(|at| at <= now) {
        return Err(refused("token", format!("the join token has expired: {make}"), false));
    }
    if *uses_left == Some(0) {
        return Err(refused("token", format!("the join token is used up: {make}"), false));
    }
    Ok(id.to_owned())
}

pub(super) async fn join(inner: &Inner, asked: JoinRequest) -> Result<FromServer, LinkError> {
    if let Err(no) = speaks(asked.protocol) {
        return Ok(no);
    }
    if asked.machine.is_empty() || asked.machine.len() > 256 {
        let message = "the machine's identity must be 1 to 256 bytes long";
        return Ok(refused("identity", message, false));
    }
    let now = inner.brain.now();
    let (verdict, site) = inner.brain.read(|s| (evaluate(s, &asked, now), s.site.clone()));
    let id = match verdict {
        Ok(id) => id,
        Err(no) => {
            tracing::warn!(node = %asked.node, refusal = ?no, "a join was refused");
            return Ok(no);
        }
    };
    let Some(site) = site else {
        return Ok(refused("site", "the server has no site yet: try again", true));
    };
    // Signed before it is enrolled, so that a bad request uses no token up.
    let ttl = inner.config.certificate;
    let signed = requested_key(&asked.csr).and_then(|key| {
        let cert = inner.authority.sign_node(&asked.csr, &asked.node, None, &site, ttl, now)?;
        Ok((key, cert))
    });
    let (key, cert) = match signed {
        Ok(signed) => signed,
        Err(e) => return Ok(refused("identity", e.to_string(), false)),
    };
    let JoinRequest { node, machine, .. } = asked;
    // The log does not know yet whose key a node's is that was let in before keys were noted;
    // while its agent is connected, it is not this one's.
    let unknown = inner.brain.read(|s| {
        s.nodes.get(&node).is_some_and(|n| n.enrolment.is_none() && n.stage != Stage::Retired)
    });
    if unknown && inner.node_entry(&node).is_some_and(|s| s.session().is_some()) {
        let message = format!(
            "the agent of node {node} is connected: choose another name, or `muster node retire {node}` first"
        );
        return Ok(refused("identity", message, false));
    }
    let command = Command::Enroll { node: node.clone(), machine, token: id, key: Some(key) };
    match inner.brain.call(inner.request(&node, command), Attach::default()).await {
        Ok(_) => {
            tracing::info!(%node, "a node joined");
            Ok(FromServer::Joined { cert, ca: inner.authority.ca_pem().to_owned(), site })
        }
        Err(BrainError::Refused(r)) => {
            let code = if r.code == RefusalCode::NotAllowed { "token" } else { "identity" };
            let hint = r.hint.map(|h| format!(": {h}")).unwrap_or_default();
            tracing::warn!(%node, refusal = %r.message, "a join was refused");
            Ok(refused(code, format!("{}{hint}", r.message), false))
        }
        Err(e) => Ok(refused("token", format!("the server cannot enrol nodes now: {e}"), true)),
    }
}
