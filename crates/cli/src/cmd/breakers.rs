//! `muster breakers`: what takes no work until a probe passes.

use clap::{Args, Subcommand, ValueEnum};
use muster_api::{Breaker, ForceBreaker, Topology};
use muster_client::Client;
use muster_model::breaker::BreakerState;
use muster_model::entity::Entity;
use muster_model::names::NodeName;
use muster_model::topology::Location;
use muster_model::units::Time;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::colour::Style;
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::time::relative;
use std::collections::BTreeSet;

/// List circuit breakers: parts of the site that get no work until a probe passes
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster breakers\n  muster breakers force leaf:l2 open --reason 'switch swap at noon'\n  \
muster breakers force version:driver/580.95.05 half-open --reason 'fixed: probe it now'\n  muster breakers release leaf:eu/c1/s1/l2    where several leaves are called l2\n\n\
A breaker is about nodes (node:NAME, leaf:PATH, rack:PATH, feed:NAME, pool:NAME, sku:NAME,\n\
version:COMPONENT/VERSION) or about jobs (image:NAME, template:PROJECT/JOB). The last name of a\n\
PATH is enough where it is the only one. One that is forced open or closed stays so until\n\
released."
)]
pub(crate) struct Breakers {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Force a breaker open or closed until it is released, or have it probed now (half-open)
    Force {
        /// What it is about, as kind:name
        entity: Entity,
        /// No work, all work, or one probe
        state: State,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Let a breaker follow its own rules again
    Release {
        /// What it is about, as kind:name
        entity: Entity,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum State {
    /// No work passes
    Open,
    /// Work passes
    Closed,
    /// One probe passes
    HalfOpen,
}

impl From<State> for BreakerState {
    fn from(s: State) -> BreakerState {
        match s {
            State::Open => BreakerState::Open,
            State::Closed => BreakerState::Closed,
            State::HalfOpen => BreakerState::HalfOpen,
        }
    }
}

impl Breakers {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        let body = match self.verb {
            None => {
                let list = client.breakers().await?;
                if ctx.is_table() && list.items.is_empty() {
                    output::note("no breaker was ever open");
                    return Ok(0);
                }
                ctx.show(&list, |l| table(&l.items, now()).render())?;
                return Ok(0);
            }
            Some(Verb::Force { entity, state, reason }) => {
                let entity = by_path(&client, entity).await?;
                ForceBreaker { entity: entity.to_string(), state: Some(state.into()), reason }
            }
            Some(Verb::Release { entity, reason }) => {
                let entity = by_path(&client, entity).await?;
                ForceBreaker { entity: entity.to_string(), state: None, reason }
            }
        };
        let after = client.force_breaker(&body).await?;
        ctx.show(&after, describe_breaker)?;
        Ok(0)
    }
}

/// A domain by its whole path, where it is named as `--domain` of a reservation takes it: `leaf:l2`.
async fn by_path(client: &Client, entity: Entity) -> Result<Entity, Fail> {
    let short = matches!(&entity, Entity::Domain(_, name) if !name.contains('/'));
    if !short {
        return Ok(entity);
    }
    whole(&client.topology().await?, entity)
}

fn whole(topology: &Topology, entity: Entity) -> Result<Entity, Fail> {
    let Entity::Domain(level, name) = &entity else { return Ok(entity) };
    let path = |(node, at): (&String, &Location)| {
        let node: NodeName = node.parse().ok()?;
        let path = at.path(&node, *level);
        (path.last() == Some(&name.as_str())).then(|| path.join("/"))
    };
    let mut paths: BTreeSet<String> = topology.nodes.iter().filter_map(path).collect();
    match paths.len() {
        // The server says that there is none.
        0 => Ok(entity),
        1 => Ok(paths.pop_first().map_or(entity.clone(), |p| Entity::Domain(*level, p))),
        _ => {
            let all: Vec<String> = paths.iter().take(8).map(|p| format!("{level}:{p}")).collect();
            Err(Fail::usage(format!("{entity} may be {}", all.join(" or ")))
                .hint("name it by its whole path"))
        }
    }
}

fn describe_breaker(b: &Breaker) -> String {
    let held = match &b.pinned {
        Some(_) => "is forced",
        None => "follows its own rules and is",
    };
    format!("breaker {} {held} {}\n", b.entity, b.state.word())
}

/// The breakers as a table.
pub(crate) fn table(breakers: &[Breaker], now: Time) -> Table {
    let mut table = Table::new(&["ABOUT", "STATE", "SINCE", "NODES", "TRIPS", "PROBE", "REASON"]);
    for b in breakers {
        let style = match b.state {
            BreakerState::Open => Style::Bad,
            BreakerState::HalfOpen => Style::Busy,
            BreakerState::Closed => Style::Faint,
        };
        let probe = match (&b.pinned, &b.probe, b.probe_at) {
            (Some(by), ..) => format!("forced: {by}"),
            (None, Some(p), _) => p.clone(),
            (None, None, Some(at)) => relative(now, at),
            (None, None, None) => String::new(),
        };
        let about = match &b.project {
            Some(project) => format!("{} (project {project})", b.entity),
            None => b.entity.to_string(),
        };
        table.row(vec![
            cell(about),
            cell(b.state.word()).style(style),
            cell(relative(now, b.since)),
            number(b.nodes),
            number(b.trips),
            cell(probe),
            cell(&b.reason),
        ]);
    }
    table
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use muster_api::samples::breaker;

    #[test]
    fn a_domain_is_named_by_its_last_name_where_that_is_the_only_one() {
        let at = |leaf: &str, rack: &str| Location {
            region: "eu".into(),
            cluster: "c1".into(),
            spine: "s1".into(),
            leaf: leaf.into(),
            rack: rack.into(),
            ..Location::unplaced(&"n".parse().expect("a valid name"))
        };
        let nodes = [("n1", at("l1", "r1")), ("n2", at("l1", "r2")), ("n3", at("l2", "r1"))];
        let nodes = nodes.map(|(n, at)| (n.to_owned(), at)).into();
        let topology = Topology { kind: muster_api::Kind::Topology, version: 1, nodes };
        let named = |text: &str| whole(&topology, text.parse().expect("an entity"));
        let path = |text: &str| named(text).map(|e| e.to_string()).unwrap_or_default();
        assert_eq!(path("leaf:l1"), "leaf:eu/c1/s1/l1");
        assert_eq!(path("rack:r2"), "rack:eu/c1/s1/l1/r2");
        assert_eq!(path("leaf:l9"), "leaf:l9", "the server refuses it");
        assert_eq!(path("sku:h100"), "sku:h100");
        let two = named("rack:r1").expect_err("there are two").message;
        assert_eq!(two, "rack:r1 may be rack:eu/c1/s1/l1/r1 or rack:eu/c1/s1/l2/r1");
    }

    #[test]
    fn breakers_fit_eighty_columns_and_say_when_a_probe_comes() {
        let mut held = breaker();
        held.pinned = Some("user:ops".into());
        let text = table(&[breaker(), held], Time(120_000)).render_for(Some(80), false);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(text.contains("in 3m") && text.contains("forced: user:ops"), "{text}");
        assert_eq!(
            describe_breaker(&breaker()),
            "breaker leaf:eu/c1/s1/l2 follows its own rules and is open\n"
        );
    }

    #[test]
    fn a_breaker_is_named_by_kind_and_name() {
        let read = |more: &[&str]| {
            let all = ["muster", "breakers"].iter().chain(more).copied();
            Cli::try_parse_from(all).map(drop).map_err(|e| e.to_string())
        };
        assert!(read(&["force", "leaf:a/b/c/d", "open", "--reason", "x"]).is_ok());
        assert!(read(&["force", "sku:h100-sxm", "half-open"]).is_ok());
        assert!(read(&["release", "node:n1"]).is_ok());
        assert!(read(&["force", "n1", "open"]).is_err_and(|e| e.contains("kind:name")));
        assert!(read(&["force", "node:n1", "ajar"]).is_err_and(|e| e.contains("closed")));
    }
}
