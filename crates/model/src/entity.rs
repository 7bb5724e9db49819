//! What a finding, a breaker or an incident is about.

use crate::ids::JobId;
use crate::names::{NodeName, ProjectName};
use crate::topology::{Level, Location};
use crate::units::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// How long the certificate of something is good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateEnd {
    /// What the certificate belongs to.
    pub entity: Entity,
    /// It ends then.
    pub ends: Time,
}

/// A thing that can be unhealthy, or that unhealthy things have in common. Written `kind:name`, like
/// `gpu:n1/3` or `leaf:eu/c1/s1/l2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entity {
    /// The whole site.
    Site,
    /// A machine that runs work, by its name.
    Node(NodeName),
    /// A GPU of a node.
    Gpu(NodeName, u32),
    /// A network port of a node.
    Port(NodeName, String),
    /// A domain of the fabric: its level and full path.
    Domain(Level, String),
    /// A power feed.
    Feed(String),
    /// Nodes that are managed alike.
    Pool(String),
    /// A kind of GPU.
    Sku(String),
    /// A version of a component, like `driver` `580.95.05`.
    Version(String, String),
    /// A container image.
    Image(String),
    /// Jobs of one project that share a name: submitted from the same template.
    Template(ProjectName, String),
    /// A tenant's project, by its name.
    Project(ProjectName),
    /// One job.
    Job(JobId),
    /// A file system, by where it is mounted.
    Storage(String),
}

impl Entity {
    /// The node it is on, if it is one thing on one node.
    #[must_use]
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Entity::Node(n) | Entity::Gpu(n, _) | Entity::Port(n, _) => Some(n),
            _ => None,
        }
    }

    /// The GPU, if it is one.
    #[must_use]
    pub fn gpu(&self) -> Option<u32> {
        match self {
            Entity::Gpu(_, g) => Some(*g),
            _ => None,
        }
    }

    /// The word before the colon.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Entity::Site => "site",
            Entity::Node(_) => "node",
            Entity::Gpu(..) => "gpu",
            Entity::Port(..) => "port",
            Entity::Domain(l, _) => l.word(),
            Entity::Feed(_) => "feed",
            Entity::Pool(_) => "pool",
            Entity::Sku(_) => "sku",
            Entity::Version(..) => "version",
            Entity::Image(_) => "image",
            Entity::Template(..) => "template",
            Entity::Project(_) => "project",
            Entity::Job(_) => "job",
            Entity::Storage(_) => "storage",
        }
    }

    /// The domain of a level that a node is in.
    #[must_use]
    pub fn domain(level: Level, node: &NodeName, at: &Location) -> Entity {
        Entity::Domain(level, at.path(node, level).join("/"))
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word();
        let text = match self {
            Entity::Site => word.to_owned(),
            Entity::Node(n) => format!("{word}:{n}"),
            Entity::Gpu(n, g) => format!("{word}:{n}/{g}"),
            Entity::Port(n, p) => format!("{word}:{n}/{p}"),
            Entity::Template(p, name) => format!("{word}:{p}/{name}"),
            Entity::Version(c, v) => format!("{word}:{c}/{v}"),
            Entity::Project(p) => format!("{word}:{p}"),
            Entity::Job(j) => format!("{word}:{j}"),
            Entity::Domain(_, s)
            | Entity::Feed(s)
            | Entity::Pool(s)
            | Entity::Sku(s)
            | Entity::Image(s)
            | Entity::Storage(s) => format!("{word}:{s}"),
        };
        f.pad(&text)
    }
}

/// Text that names no entity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` names nothing: write kind:name, like node:n1, gpu:n1/3, leaf:PATH or sku:h100-sxm"
)]
pub struct EntityError {
    text: String,
}

impl FromStr for Entity {
    type Err = EntityError;

    fn from_str(s: &str) -> Result<Entity, EntityError> {
        let wrong = || EntityError { text: s.chars().take(80).collect() };
        if s == "site" {
            return Ok(Entity::Site);
        }
        let (word, name) = s.split_once(':').ok_or_else(wrong)?;
        if name.is_empty() || name.len() > 512 {
            return Err(wrong());
        }
        let two = || name.split_once('/').filter(|(a, b)| !a.is_empty() && !b.is_empty());
        let pair = || two().ok_or_else(wrong);
        let node = |n: &str| n.parse::<NodeName>().map_err(|_| wrong());
        let text = || name.to_owned();
        Ok(match word {
            "node" => Entity::Node(node(name)?),
            "gpu" => {
                let (n, g) = pair()?;
                Entity::Gpu(node(n)?, g.parse().map_err(|_| wrong())?)
            }
            "port" => {
                let (n, p) = pair()?;
                Entity::Port(node(n)?, p.to_owned())
            }
            "feed" => Entity::Feed(text()),
            "pool" => Entity::Pool(text()),
            "sku" => Entity::Sku(text()),
            "image" => Entity::Image(text()),
            "storage" => Entity::Storage(text()),
            "version" => {
                let (c, v) = pair()?;
                Entity::Version(c.to_owned(), v.to_owned())
            }
            "template" => {
                let (p, n) = pair()?;
                Entity::Template(p.parse().map_err(|_| wrong())?, n.to_owned())
            }
            "project" => Entity::Project(name.parse().map_err(|_| wrong())?),
            "job" => Entity::Job(name.parse().map_err(|_| wrong())?),
            level => match level.parse::<Level>().map_err(|_| wrong())? {
                Level::Node => return Err(wrong()),
                l => Entity::Domain(l, text()),
            },
        })
    }
}

impl Serialize for Entity {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Entity {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Entity, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Entity {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        String::schema()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Entity {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "site",
            "node:n1",
            "gpu:n1/3",
            "port:n1/mlx5_0",
            "leaf:eu/c1/s1/l2",
            "rack:r",
            "nvlink:a/b/c",
            "feed:A",
            "pool:train",
            "sku:h100-sxm",
            "version:driver/580.95.05",
            "image:ghcr/x:1",
            "template:research/llama",
            "project:research",
            "job:12",
            "storage:/data",
        ] {
            let e: Entity = text.parse().unwrap();
            assert_eq!(e.to_string(), text);
            let json = serde_json::to_string(&e).unwrap();
            assert_eq!(serde_json::from_str::<Entity>(&json).unwrap(), e);
        }
        for wrong in ["", "n1", "node:", "gpu:n1", "gpu:n1/x", "cow:1", "node:a b", "version:x"] {
            assert!(wrong.parse::<Entity>().is_err(), "{wrong}");
        }
    }
}
