//! Who depends on whom, from `cargo metadata`.

use super::{Finding, rules};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

/// A package of the workspace.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) dir: PathBuf,
}

/// Packages and the normal dependencies between them.
#[derive(Debug, Default)]
pub(super) struct Graph {
    members: BTreeMap<String, Member>,
    names: BTreeMap<String, String>,
    edges: BTreeMap<String, BTreeSet<String>>,
}

/// What cargo says of the workspace, as far as it is used here, in `deny` and in `alike`.
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
    pub(super) workspace_members: Vec<String>,
    pub(super) resolve: Resolve,
}

#[derive(Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    pub(super) source: Option<String>,
    pub(super) dependencies: Vec<Dependency>,
    pub(super) features: BTreeMap<String, Vec<String>>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

/// A dependency as a package declares it.
#[derive(Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    rename: Option<String>,
    pub(super) optional: bool,
    pub(super) kind: Option<String>,
    pub(super) target: Option<String>,
    #[serde(default)]
    pub(super) uses_default_features: bool,
    #[serde(default)]
    pub(super) features: Vec<String>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Resolve {
    pub(super) nodes: Vec<Node>,
}

#[derive(Deserialize)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) features: Vec<String>,
    pub(super) deps: Vec<Dep>,
}

/// A dependency as it was resolved.
#[derive(Deserialize)]
pub(super) struct Dep {
    #[serde(default)]
    pub(super) name: String,
    pub(super) pkg: String,
    pub(super) dep_kinds: Vec<DepKind>,
}

#[derive(Deserialize)]
pub(super) struct DepKind {
    pub(super) kind: Option<String>,
    pub(super) target: Option<String>,
}

impl Package {
    /// Whether it is a procedural macro, which runs in the compiler.
    pub(super) fn is_macro(&self) -> bool {
        self.targets.iter().any(|t| t.kind.iter().any(|k| k == "proc-macro"))
    }
}

impl Dependency {
    /// What the package that declares it calls it.
    pub(super) fn called(&self) -> &str {
        self.rename.as_deref().unwrap_or(&self.name)
    }
}

/// Asks cargo about this workspace, for the platform we run on.
pub(super) fn metadata() -> Result<Metadata> {
    let version = crate::proc::check(std::process::Command::new("rustc").arg("-vV"))?;
    let host = version
        .lines()
        .find_map(|l| l.strip_prefix("host: "))
        .context("rustc -vV names no host")?;
    let ask = |offline: bool| {
        let mut cargo = crate::cargo();
        cargo.args(["metadata", "--format-version=1", "--filter-platform", host]);
        if offline {
            cargo.arg("--offline");
        }
        crate::proc::check(&mut cargo)
    };
    // Offline when everything is there already; a clean clone has to fetch once.
    let json = ask(true).or_else(|_| ask(false))?;
    serde_json::from_str(&json).context("cargo metadata gave an unknown shape")
}

impl Graph {
    /// From what cargo says.
    pub(super) fn of(metadata: &Metadata) -> Graph {
        let mut graph = Graph::default();
        let mut compile_time = BTreeSet::new();
        for package in &metadata.packages {
            // What a macro uses is not in the program.
            if package.is_macro() {
                compile_time.insert(package.id.clone());
            }
            if metadata.workspace_members.contains(&package.id) {
                let dir = package.manifest_path.parent().unwrap_or(&package.manifest_path).into();
                let member = Member { name: package.name.clone(), dir };
                graph.members.insert(package.id.clone(), member);
            }
            graph.names.insert(package.id.clone(), package.name.clone());
        }
        for node in &metadata.resolve.nodes {
            let normal = node
                .deps
                .iter()
                .filter(|d| d.dep_kinds.iter().any(|k| k.kind.is_none()))
                .map(|d| d.pkg.clone())
                .filter(|id| !compile_time.contains(id))
                .collect();
            graph.edges.insert(node.id.clone(), normal);
        }
        graph
    }

    /// The packages of the workspace.
    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.names.get(id).map_or(id, String::as_str)
    }

    fn dependencies(&self, id: &str) -> impl Iterator<Item = &String> {
        self.edges.get(id).into_iter().flatten()
    }
}

/// Forbidden crates that a pure crate reaches, each with the shortest way to it.
pub(super) fn impure_dependencies(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (id, member) in &graph.members {
        if !rules::PURE.contains(&member.name.as_str()) {
            continue;
        }
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([id.as_str()]);
        while let Some(at) = queue.pop_front() {
            for next in graph.dependencies(at) {
                let (from, to) = (graph.name(at), graph.name(next));
                if rules::ALLOWED.iter().any(|(f, t, _)| *f == from && *t == to)
                    || next == id
                    || came_from.contains_key(next.as_str())
                {
                    continue;
                }
                came_from.insert(next, at);
                let Some(brings) = rules::denied(to) else {
                    queue.push_back(next);
                    continue;
                };
                let mut way = vec![to];
                let mut step = next.as_str();
                while let Some(previous) = came_from.get(step) {
                    way.push(graph.name(previous));
                    step = previous;
                }
                way.reverse();
                findings.push(Finding {
                    place: member.name.clone(),
                    what: format!("depends on `{to}` ({})", way.join(" → ")),
                    why: format!(
                        "a pure crate must not reach {brings}; move the code to the edge, or take \
                         the value as an argument"
                    ),
                });
            }
        }
    }
    findings
}

fn layer(name: &str) -> Option<usize> {
    rules::LAYERS.iter().position(|l| l.contains(&name))
}

/// Dependencies between our own packages that go up or sideways, and packages without a place.
pub(super) fn arrows_that_do_not_point_down(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (id, member) in &graph.members {
        let from = member.name.as_str();
        if rules::TOOLS.contains(&from) {
            continue;
        }
        let Some(my_layer) = layer(from) else {
            findings.push(Finding {
                place: from.into(),
                what: "is in no layer".into(),
                why: "add it to LAYERS in xtask/src/layers/rules.rs (and to PURE, if it decides)"
                    .into(),
            });
            continue;
        };
        for dependency in graph.dependencies(id) {
            let Some(to) = graph.members.get(dependency).map(|m| m.name.as_str()) else { continue };
            let finding =
                |what: String, why: &str| Finding { place: from.into(), what, why: why.into() };
            if rules::TOOLS.contains(&to) {
                findings.push(finding(
                    format!("depends on the tool `{to}`"),
                    "tools use the crates of the product, not the other way round",
                ));
            } else if let Some(its_layer) = layer(to)
                && its_layer <= my_layer
                && !rules::SIDEWAYS.iter().any(|(f, t, _)| *f == from && *t == to)
            {
                let direction = if its_layer == my_layer { "beside" } else { "above" };
                findings.push(finding(
                    format!("depends on `{to}`, which is {direction} it"),
                    "arrows point down only: cli → server, agent → executors, store, link, \
                     client, api → engine → scheduler, lifecycle, simnode, specs → model",
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A workspace made of `(name, kind, dependencies)`; `dev:` before a name makes it one of
    /// the tests only.
    fn graph(packages: &[(&str, &str, &[&str])]) -> Graph {
        let listed: Vec<Value> = packages
            .iter()
            .map(|(name, kind, _)| {
                json!({"id": name, "name": name, "version": "1.0.0", "dependencies": [],
                       "features": {}, "manifest_path": format!("/r/{name}/Cargo.toml"),
                       "targets": [{"kind": [kind]}]})
            })
            .collect();
        let nodes: Vec<Value> = packages
            .iter()
            .map(|(name, _, deps)| {
                let deps: Vec<Value> = deps
                    .iter()
                    .map(|d| match d.strip_prefix("dev:") {
                        Some(d) => json!({"pkg": d, "dep_kinds": [{"kind": "dev"}]}),
                        None => json!({"pkg": d, "dep_kinds": [{"kind": null}]}),
                    })
                    .collect();
                json!({"id": name, "features": [], "deps": deps})
            })
            .collect();
        let members: Vec<&str> = packages
            .iter()
            .map(|p| p.0)
            .filter(|n| n.starts_with("muster-") || *n == "xtask")
            .collect();
        let metadata = json!({"packages": listed, "workspace_members": members,
                              "resolve": {"nodes": nodes}});
        Graph::of(&serde_json::from_value(metadata).unwrap())
    }

    #[test]
    fn a_runtime_behind_two_others_is_found_with_the_way_to_it() {
        let graph = graph(&[
            ("muster-engine", "lib", &["nice"]),
            ("nice", "lib", &["nicer"]),
            ("nicer", "lib", &["tokio"]),
            ("tokio", "lib", &[]),
        ]);
        let found = impure_dependencies(&graph);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.contains("muster-engine → nice → nicer → tokio"), "{found:?}");
        assert!(found[0].why.contains("a runtime"));
    }

    #[test]
    fn what_only_tests_or_macros_use_is_fine() {
        let graph = graph(&[
            ("muster-model", "lib", &["derive", "dev:rand", "serde"]),
            ("derive", "proc-macro", &["getrandom"]),
            ("serde", "lib", &[]),
            ("rand", "lib", &["getrandom"]),
            ("getrandom", "lib", &[]),
        ]);
        assert_eq!(impure_dependencies(&graph), []);
    }

    #[test]
    fn the_edge_may_use_what_pure_crates_may_not() {
        let graph = graph(&[("muster-server", "lib", &["tokio"]), ("tokio", "lib", &[])]);
        assert_eq!(impure_dependencies(&graph), []);
    }

    #[test]
    fn an_allowed_pair_is_allowed_from_there_only() {
        let graph = graph(&[
            ("muster-model", "lib", &["cpufeatures", "other"]),
            ("cpufeatures", "lib", &["libc"]),
            ("other", "lib", &[]),
            ("libc", "lib", &[]),
        ]);
        assert_eq!(impure_dependencies(&graph), []);
        let graph = self::graph(&[("muster-model", "lib", &["libc"]), ("libc", "lib", &[])]);
        assert_eq!(impure_dependencies(&graph).len(), 1);
    }

    #[test]
    fn arrows_up_and_sideways_are_found_and_down_is_fine() {
        let graph = graph(&[
            ("muster-cli", "bin", &["muster-server"]),
            ("muster-server", "lib", &["muster-engine", "muster-agent"]),
            ("muster-agent", "lib", &["muster-model"]),
            ("muster-engine", "lib", &["muster-model"]),
            ("muster-model", "lib", &["muster-engine"]),
            ("muster-client", "lib", &["muster-api"]),
            ("muster-api", "lib", &["dev:muster-server"]),
        ]);
        let found = arrows_that_do_not_point_down(&graph);
        let places: Vec<&str> = found.iter().map(|f| f.place.as_str()).collect();
        assert_eq!(places, ["muster-model", "muster-server"], "{found:?}");
        assert!(found[0].what.contains("above"));
        assert!(found[1].what.contains("beside"));
    }

    #[test]
    fn a_package_without_a_place_is_named() {
        let graph = graph(&[
            ("muster-cellar", "lib", &[]),
            ("muster-api", "lib", &["xtask"]),
            ("xtask", "bin", &[]),
        ]);
        let found = arrows_that_do_not_point_down(&graph);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].what.contains("tool `xtask`"));
        assert!(found[1].place.contains("muster-cellar"));
    }
}
