//! Whether a dependency has the same features whichever packages are chosen. Where it has others, `cargo build
//! -p X` and `cargo build` each compile their own variant of it, and of all that uses it.
//!
//! Works out features as cargo's resolver 2 and 3 do, from what `cargo metadata` says, and compiles
//! nothing: those of what is compiled for the build (macros, build scripts) are apart, and those of
//! dev-dependencies count for the tests of the chosen packages alone.

use super::Finding;
use super::graph::{Dep, Dependency, Metadata, Package};
use std::collections::{BTreeMap, BTreeSet};

/// Packages without code that name features for the others. Nobody chooses one of them alone.
const NAMED_IN: &[&str] = &["muster-features", "muster-edge-features", "muster-test-features"];

/// Dependencies that are for other platforms: from, to.
const ELSEWHERE: &[(&str, &str)] = &[("rustix", "errno"), ("rustix", "libc")];

/// Features that may differ: the dependency, the feature, why.
const ALLOWED: &[(&str, &str, &str)] = &[];

type Names<'a> = BTreeSet<&'a str>;
/// A package, and whether it runs while others are compiled.
type Compiled<'a> = (&'a str, bool);

/// The packages and what each declares, resolved.
struct Workspace<'a> {
    packages: BTreeMap<&'a str, &'a Package>,
    declared: BTreeMap<&'a str, Vec<(&'a Dependency, &'a str)>>,
}

/// Every feature that a dependency has in the whole workspace and not for one member, or the other way
/// round.
pub(super) fn differing(metadata: &Metadata) -> Vec<Finding> {
    let workspace = Workspace::of(metadata);
    let members: Names<'_> = metadata.workspace_members.iter().map(String::as_str).collect();
    let mut found: BTreeMap<(&str, &str, String), Names<'_>> = BTreeMap::new();
    for (tests, command) in [(false, "build"), (true, "test")] {
        let all = workspace.features(&members, tests);
        for &member in &members {
            let chosen = workspace.name(member);
            if NAMED_IN.contains(&chosen) {
                continue;
            }
            for (compiled, features) in workspace.features(&BTreeSet::from([member]), tests) {
                let name = workspace.name(compiled.0);
                let whole = all.get(&compiled).cloned().unwrap_or_default();
                let other: Vec<&str> = whole
                    .symmetric_difference(&features)
                    .copied()
                    .filter(|f| !ALLOWED.iter().any(|(n, a, _)| *n == name && a == f))
                    .collect();
                if !other.is_empty() {
                    found.entry((name, command, other.join(", "))).or_default().insert(chosen);
                }
            }
        }
    }
    let finding = |((name, command, features), chosen): ((&str, &str, String), Names<'_>)| {
        let chosen: Vec<&str> = chosen.into_iter().collect();
        Finding {
            place: name.into(),
            what: format!(
                "`cargo {command}` of the workspace and of {} differ in its features: {features}",
                chosen.join(", ")
            ),
            why: "name the features in [workspace.dependencies], in crates/features where other \
                  packages ask for them, or in the dev-dependencies where only tests do"
                .into(),
        }
    };
    found.into_iter().map(finding).collect()
}

impl<'a> Workspace<'a> {
    fn of(metadata: &'a Metadata) -> Workspace<'a> {
        let packages: BTreeMap<&str, &Package> =
            metadata.packages.iter().map(|p| (p.id.as_str(), p)).collect();
        let mut declared: BTreeMap<&str, Vec<(&Dependency, &str)>> = BTreeMap::new();
        for node in &metadata.resolve.nodes {
            let Some(package) = packages.get(node.id.as_str()) else { continue };
            let mut out = Vec::new();
            for d in &package.dependencies {
                if ELSEWHERE.contains(&(package.name.as_str(), d.name.as_str())) {
                    continue;
                }
                let meant = |dep: &&Dep| {
                    packages.get(dep.pkg.as_str()).is_some_and(|p| p.name == d.name)
                        && dep.dep_kinds.iter().any(|k| k.kind == d.kind && k.target == d.target)
                };
                let candidates: Vec<_> = node.deps.iter().filter(meant).collect();
                // Two versions of one package have two names here.
                let called = d.called().replace('-', "_");
                let by_name = candidates.iter().find(|c| c.name == called);
                if let Some(dep) = by_name.or(candidates.first()) {
                    out.push((d, dep.pkg.as_str()));
                }
            }
            declared.insert(node.id.as_str(), out);
        }
        Workspace { packages, declared }
    }

    fn name(&self, id: &'a str) -> &'a str {
        self.packages.get(id).map_or(id, |p| p.name.as_str())
    }

    fn default_of(&self, id: &str) -> Option<&'a str> {
        let features = &self.packages.get(id)?.features;
        features.contains_key("default").then_some("default")
    }

    /// What is compiled where these packages are chosen, with its features.
    fn features(&self, chosen: &Names<'a>, tests: bool) -> BTreeMap<Compiled<'a>, Names<'a>> {
        let mut all: BTreeMap<Compiled<'a>, Names<'a>> = BTreeMap::new();
        let mut todo: Vec<(Compiled<'a>, Names<'a>)> = chosen
            .iter()
            .map(|&id| ((id, false), self.default_of(id).into_iter().collect()))
            .collect();
        while let Some((compiled, wanted)) = todo.pop() {
            let known = all.get(&compiled);
            if known.is_some_and(|k| wanted.is_subset(k)) {
                continue;
            }
            let (id, for_build) = compiled;
            let Some(&package) = self.packages.get(id) else { continue };
            let (on, of_others) =
                expand(package, known.into_iter().flatten().copied().chain(wanted));
            for &(d, target) in self.declared.get(id).into_iter().flatten() {
                let kind = d.kind.as_deref();
                let dev = kind == Some("dev");
                if dev && !(tests && !for_build && chosen.contains(id)) {
                    continue;
                }
                let asked = of_others.get(d.called());
                if d.optional && asked.is_none_or(|a| !a.turned_on) {
                    continue;
                }
                let mut features: Names<'a> = d.features.iter().map(String::as_str).collect();
                features.extend(asked.into_iter().flat_map(|a| a.features.iter().copied()));
                if d.uses_default_features {
                    features.extend(self.default_of(target));
                }
                let runs_in_build = kind == Some("build")
                    || self.packages.get(target).is_some_and(|p| p.is_macro());
                todo.push(((target, for_build || runs_in_build), features));
            }
            all.insert(compiled, on);
        }
        all
    }
}

/// What a package's features ask of one of its dependencies.
#[derive(Default)]
struct Asked<'a> {
    turned_on: bool,
    features: Names<'a>,
}

/// All features that these turn on, and what they ask of the dependencies.
fn expand<'a>(
    package: &'a Package,
    features: impl Iterator<Item = &'a str>,
) -> (Names<'a>, BTreeMap<&'a str, Asked<'a>>) {
    let mut on = Names::new();
    let mut of_others: BTreeMap<&str, Asked<'_>> = BTreeMap::new();
    let mut todo: Vec<&str> = features.collect();
    while let Some(feature) = todo.pop() {
        if !on.insert(feature) {
            continue;
        }
        for part in package.features.get(feature).into_iter().flatten() {
            if let Some(dependency) = part.strip_prefix("dep:") {
                of_others.entry(dependency).or_default().turned_on = true;
            } else if let Some((dependency, its)) = part.split_once('/') {
                let only_if_there = dependency.strip_suffix('?');
                let asked = of_others.entry(only_if_there.unwrap_or(dependency)).or_default();
                asked.features.insert(its);
                if only_if_there.is_none() {
                    asked.turned_on = true;
                    if package.features.contains_key(dependency) {
                        todo.push(dependency);
                    }
                }
            } else {
                todo.push(part);
            }
        }
    }
    (on, of_others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A package with its features, and what it declares of each dependency.
    type Declares<'a> = (&'a str, Value, &'a [(&'a str, Value)]);

    /// What is found where those whose names begin with `muster-` are the workspace.
    fn found(declared: &[Declares<'_>]) -> Vec<String> {
        let (mut packages, mut nodes) = (Vec::new(), Vec::new());
        for (name, features, dependencies) in declared {
            let (mut declares, mut deps) = (Vec::new(), Vec::new());
            for (to, with) in *dependencies {
                let mut one = json!({"name": to, "optional": false, "kind": null});
                for (key, value) in with.as_object().unwrap() {
                    one[key] = value.clone();
                }
                let kinds = json!([{"kind": one["kind"], "target": null}]);
                deps.push(json!({"name": to, "pkg": to, "dep_kinds": kinds}));
                declares.push(one);
            }
            let kind = if name.ends_with("-macro") { "proc-macro" } else { "lib" };
            packages.push(json!({"id": name, "name": name, "version": "1.0.0",
                "dependencies": declares, "features": features,
                "manifest_path": "/r/Cargo.toml", "targets": [{"kind": [kind]}]}));
            nodes.push(json!({"id": name, "features": [], "deps": deps}));
        }
        let names = declared.iter().map(|d| d.0);
        let members: Vec<&str> = names.filter(|n| n.starts_with("muster-")).collect();
        let metadata = json!({"packages": packages, "workspace_members": members,
                              "resolve": {"nodes": nodes}});
        let metadata: Metadata = serde_json::from_value(metadata).unwrap();
        differing(&metadata).into_iter().map(|f| format!("{}: {}", f.place, f.what)).collect()
    }

    fn plain() -> Value {
        json!({})
    }

    fn with(features: &[&str]) -> Value {
        json!({"features": features})
    }

    #[test]
    fn a_feature_that_one_member_asks_for_is_found_with_the_members_that_do_not() {
        let declared: [Declares<'_>; 3] = [
            ("muster-a", plain(), &[("dep", plain())]),
            ("muster-b", plain(), &[("dep", with(&["more"]))]),
            ("dep", json!({"more": ["most"], "most": []}), &[]),
        ];
        let differs = |command: &str| {
            format!(
                "dep: `cargo {command}` of the workspace and of muster-a differ in its features: \
                 more, most"
            )
        };
        assert_eq!(found(&declared), [differs("build"), differs("test")]);
    }

    #[test]
    fn the_same_features_by_way_of_another_package_are_the_same() {
        let declared: [Declares<'_>; 4] = [
            ("muster-a", plain(), &[("dep", json!({"uses_default_features": true}))]),
            ("muster-b", plain(), &[("between", with(&["strong"]))]),
            (
                "between",
                json!({"strong": ["dep:dep", "weak"], "weak": ["dep?/default"]}),
                &[("dep", json!({"optional": true}))],
            ),
            ("dep", json!({"default": ["std"], "std": []}), &[]),
        ];
        assert_eq!(found(&declared), [""; 0]);
    }

    #[test]
    fn dev_dependencies_count_for_tests_of_the_chosen_alone() {
        let dev = json!({"kind": "dev", "features": ["more"]});
        let declared: [Declares<'_>; 3] = [
            ("muster-a", plain(), &[("dep", plain())]),
            ("muster-b", plain(), &[("dep", plain()), ("dep", dev)]),
            ("dep", json!({"more": []}), &[]),
        ];
        let all = found(&declared);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains("`cargo test`") && all[0].contains("muster-a"), "{all:?}");
    }

    #[test]
    fn what_is_compiled_for_macros_and_build_scripts_is_apart() {
        let build = json!({"kind": "build", "features": ["more"]});
        let less = [("dep", plain())];
        let mut declared: [Declares<'_>; 5] = [
            ("muster-a", plain(), &[("dep", plain())]),
            ("muster-b", plain(), &[("a-macro", plain())]),
            ("muster-c", plain(), &[("a-macro", plain()), ("dep", build)]),
            ("a-macro", plain(), &[("dep", with(&["more"]))]),
            ("dep", json!({"more": []}), &[]),
        ];
        assert_eq!(found(&declared), [""; 0]);
        // A macro that asks for less is compiled anew where nobody asks for more.
        declared[3].2 = &less;
        let all = found(&declared);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all.iter().all(|f| f.contains("of muster-b differ")), "{all:?}");
    }

    #[test]
    fn this_workspace_has_none() {
        let all = differing(&super::super::graph::metadata().unwrap());
        assert!(all.is_empty(), "{}", all.iter().map(|f| format!("{f}\n")).collect::<String>());
    }
}
