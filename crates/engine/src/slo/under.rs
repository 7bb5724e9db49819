//! What a silence is under: named as people name it, kept as alerts name it.

use crate::state::State;
use muster_model::command::{Refusal, RefusalCode};
use muster_model::entity::Entity;
use muster_model::near::closest;
use muster_model::node::{Node, Stage};
use muster_model::topology::Level;
use std::collections::BTreeSet;
use std::sync::Arc;

/// At most so many are listed where a short name is not enough.
const LISTED: usize = 4;

impl State {
    /// The whole name of what a silence is under. A domain may be named by its last names; what
    /// this site does not have is refused: such a silence would mute nothing. A pattern stays.
    pub(super) fn resolve_under(&self, text: &str) -> Result<String, Refusal> {
        if text.contains('*') {
            return Ok(text.to_owned());
        }
        let entity = text
            .parse::<Entity>()
            .map_err(|e| Refusal::new(RefusalCode::Invalid, e.to_string()).field("match.under"))?;
        let fleet = || self.nodes.values().filter(|n| n.stage != Stage::Retired);
        let known: BTreeSet<String> = match &entity {
            Entity::Domain(level, path) => return self.whole_path(*level, path),
            Entity::Node(_) | Entity::Gpu(..) | Entity::Port(..) => {
                let there = entity.node().is_some_and(|n| self.nodes.contains_key(n));
                if there {
                    return Ok(text.to_owned());
                }
                fleet().map(|n| format!("node:{}", n.name)).collect()
            }
            Entity::Feed(_) => {
                let feeds = fleet().filter_map(|n| n.location.known_feed());
                feeds.map(|f| format!("feed:{f}")).collect()
            }
            Entity::Pool(_) => fleet().map(|n| format!("pool:{}", n.pool())).collect(),
            Entity::Sku(_) => fleet().map(|n| format!("sku:{}", n.sku())).collect(),
            // Work, projects and versions come and go.
            _ => return Ok(text.to_owned()),
        };
        if known.contains(text) { Ok(text.to_owned()) } else { Err(unknown(text, &known)) }
    }

    fn whole_path(&self, level: Level, path: &str) -> Result<String, Refusal> {
        let fleet = self.nodes.values().filter(|n| n.stage != Stage::Retired);
        let whole = |n: &Arc<Node>| n.location.path(&n.name, level).join("/");
        let all: BTreeSet<String> = fleet.map(whole).collect();
        let word = level.word();
        if all.contains(path) {
            return Ok(format!("{word}:{path}"));
        }
        let ending = format!("/{path}");
        let meant: Vec<&String> = all.iter().filter(|p| p.ends_with(&ending)).collect();
        match meant.as_slice() {
            [] => {
                let ends = all.iter().filter_map(|p| p.rsplit('/').next());
                let known = all.iter().map(String::as_str).chain(ends);
                let known = known.map(|p| format!("{word}:{p}")).collect();
                Err(unknown(&format!("{word}:{path}"), &known))
            }
            [one] => Ok(format!("{word}:{one}")),
            several => {
                let some: Vec<String> =
                    several.iter().take(LISTED).map(|p| format!("{word}:{p}")).collect();
                let what = format!("{} domains are called {word}:{path}", several.len());
                let hint = format!("write the whole path, like {}", some.join(" or "));
                Err(Refusal::new(RefusalCode::Invalid, what).field("match.under").hint(hint))
            }
        }
    }
}

fn unknown(text: &str, known: &BTreeSet<String>) -> Refusal {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let near = closest(text, &names).map(|n| format!("did you mean `{n}`? ")).unwrap_or_default();
    let hint = format!("{near}`muster topology` and `muster nodes` show what there is");
    Refusal::new(RefusalCode::NotFound, format!("this site has no {text}"))
        .field("match.under")
        .hint(hint)
}
