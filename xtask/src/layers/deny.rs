//! What `deny.toml` says of packages that others wrote: licences, bans, several versions of one,
//! and where they come from. `cargo deny` reads the same file, but takes minutes to compile; this
//! needs only what cargo says of the workspace.

use super::Finding;
use super::graph::{Dependency, Metadata, Node, Package};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter::Peekable;
use std::path::Path;
use std::str::SplitWhitespace;

#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Entry>,
    skip: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    /// `name`, or `name:version` with the version's first numbers.
    #[serde(rename = "crate")]
    spec: String,
    reason: String,
}

impl Entry {
    fn means(&self, package: &Package) -> bool {
        let Some((name, version)) = self.spec.split_once(':') else {
            return self.spec == package.name;
        };
        let rest = package.version.strip_prefix(version);
        name == package.name && rest.is_some_and(|r| r.starts_with('.'))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// What is built and not allowed by the root's `deny.toml`.
pub(super) fn denied(metadata: &Metadata, root: &Path) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(root.join("deny.toml")).context("cannot read deny.toml")?;
    let rules: Rules = toml::from_str(&text).context("cannot parse deny.toml")?;
    Ok(check(metadata, &rules))
}

fn check(metadata: &Metadata, rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |place: String, what: String, why: &str| {
        findings.push(Finding { place, what, why: why.into() });
    };
    let mut versions: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in built(metadata) {
        versions.entry(package.name.as_str()).or_default().push(package);
        let place = || format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().unwrap_or("none");
        if satisfied(licence, &rules.licenses.allow) != Some(true) {
            let why = "not satisfied by `allow` of [licenses] in deny.toml: do without the \
                       package, or have the licence approved and add it";
            found(place(), format!("licence `{licence}`"), why);
        }
        if let Some(ban) = rules.bans.deny.iter().find(|b| b.means(package)) {
            found(place(), "banned in deny.toml".into(), &ban.reason);
        }
        let known = match &package.source {
            None => metadata.workspace_members.contains(&package.id),
            Some(source) => source
                .strip_prefix("registry+")
                .is_some_and(|url| rules.sources.allow_registry.iter().any(|r| r == url)),
        };
        if !known {
            let source = package.source.as_deref().unwrap_or("a path outside the workspace");
            let why = "only the registries in `allow-registry` of deny.toml are built from";
            found(place(), format!("comes from {source}"), why);
        }
    }
    for (name, all) in &versions {
        let skipped = |p: &Package| rules.bans.skip.iter().any(|s| s.means(p));
        let rest: Vec<&str> =
            all.iter().filter(|p| !skipped(p)).map(|p| p.version.as_str()).collect();
        if rest.len() > 1 {
            let why =
                "move to the newer, or name the older and who needs it in `skip` of deny.toml";
            found((*name).into(), format!("built in versions {}", rest.join(", ")), why);
        }
    }
    for skip in &rules.bans.skip {
        if !versions.values().any(|all| all.len() > 1 && all.iter().any(|p| skip.means(p))) {
            let what = format!("`{}` of `skip` is not one of several versions", skip.spec);
            found("deny.toml".into(), what, "take it out: nothing needs it any more");
        }
    }
    findings
}

/// The packages that are built. Cargo also names optional ones that a feature like `ring?/std`
/// mentions and nothing turns on.
fn built(metadata: &Metadata) -> Vec<&Package> {
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|p| (p.id.as_str(), p)).collect();
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|n| (n.id.as_str(), n)).collect();
    let mut seen: BTreeMap<&str, &Package> = BTreeMap::new();
    let mut todo: Vec<&str> = metadata.workspace_members.iter().map(String::as_str).collect();
    while let Some(id) = todo.pop() {
        let (Some(&package), Some(&node)) = (packages.get(id), nodes.get(id)) else { continue };
        if seen.insert(id, package).is_some() {
            continue;
        }
        let on = turned_on(package, node);
        for dep in &node.deps {
            let Some(target) = packages.get(dep.pkg.as_str()) else { continue };
            let wanted =
                |d: &Dependency| d.name == target.name && (!d.optional || on.contains(d.called()));
            if package.dependencies.iter().any(wanted) {
                todo.push(&dep.pkg);
            }
        }
    }
    seen.into_values().collect()
}

/// The optional dependencies that a package's features turn on.
fn turned_on<'a>(package: &'a Package, node: &'a Node) -> BTreeSet<&'a str> {
    let mut on: BTreeSet<&str> = node.features.iter().map(String::as_str).collect();
    for part in node.features.iter().filter_map(|f| package.features.get(f)).flatten() {
        // What is before `?/` has its question mark here, and so is no dependency's name.
        let name = part.strip_prefix("dep:").or_else(|| Some(part.split_once('/')?.0));
        on.extend(name);
    }
    on
}

type Words<'a> = Peekable<SplitWhitespace<'a>>;

/// Whether what is allowed satisfies a licence expression; none when that cannot be read.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> Option<bool> {
    // Older packages write a slash for "or".
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = text.split_whitespace().peekable();
    let answer = any_of(&mut words, allowed)?;
    words.next().is_none().then_some(answer)
}

fn any_of(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> Option<bool> {
    let mut answer = all_of(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        answer |= all_of(words, allowed)?;
    }
    Some(answer)
}

fn all_of(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> Option<bool> {
    let mut answer = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        answer &= one(words, allowed)?;
    }
    Some(answer)
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> Option<bool> {
    let name = words.next()?;
    match name {
        "(" => {
            let answer = any_of(words, allowed)?;
            words.next_if_eq(&")")?;
            Some(answer)
        }
        ")" | "AND" | "OR" | "WITH" => None,
        _ if words.next_if_eq(&"WITH").is_some() => {
            let exception = words.next()?;
            Some(allowed.contains(&format!("{name} WITH {exception}")))
        }
        _ => Some(allowed.contains(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn licence_expressions_mean_what_they_say() {
        let allowed = BTreeSet::from(["MIT".to_string(), "ISC".into(), "Zlib WITH x".into()]);
        for (expression, answer) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("GPL-3.0/MIT", Some(true)),
            ("MIT AND GPL-3.0", Some(false)),
            // AND binds closer than OR.
            ("MIT OR ISC AND GPL-3.0", Some(true)),
            ("(MIT OR ISC) AND GPL-3.0", Some(false)),
            ("(MIT OR GPL-3.0) AND (ISC)", Some(true)),
            ("Zlib WITH x", Some(true)),
            ("Zlib", Some(false)),
            ("MIT WITH x", Some(false)),
            ("MIT WITH x OR ISC", Some(true)),
            ("", None),
            ("MIT ISC", None),
            ("(MIT", None),
            ("MIT OR", None),
            ("MIT WITH", None),
        ] {
            assert_eq!(satisfied(expression, &allowed), answer, "{expression}");
        }
    }

    /// What is found where our package has these features and, but for `ring`, depends on all of
    /// these others: `name version`, licence, source.
    fn findings(features: &[&str], others: &[(&str, &str, &str)]) -> Vec<String> {
        let package = |id: &str, licence: &str, source: Value, dependencies: Vec<Value>| {
            let (name, version) = id.split_once(' ').unwrap();
            json!({"id": id, "name": name, "version": version, "license": licence,
                   "source": source, "dependencies": dependencies,
                   "features": {"weak": ["ring?/std"], "dep": ["dep:ring"], "std": ["ring/std"]},
                   "manifest_path": "/r/Cargo.toml", "targets": []})
        };
        let wants = |(id, _, _): &(&str, &str, &str)| {
            let name = id.split_once(' ').unwrap().0;
            json!({"name": name, "rename": null, "optional": name == "ring"})
        };
        let ours = package("ours 0.1.0", "MIT", Value::Null, others.iter().map(wants).collect());
        let mut packages = vec![ours];
        packages.extend(others.iter().map(|(id, l, s)| package(id, l, json!(s), Vec::new())));
        let deps: Vec<Value> =
            others.iter().map(|(id, ..)| json!({"pkg": id, "dep_kinds": []})).collect();
        let mut nodes = vec![json!({"id": "ours 0.1.0", "features": features, "deps": deps})];
        nodes.extend(others.iter().map(|o| json!({"id": o.0, "features": [], "deps": []})));
        let metadata = json!({"packages": packages, "workspace_members": ["ours 0.1.0"],
                              "resolve": {"nodes": nodes}});
        let rules = r#"licenses.allow = ["MIT"]
            sources.allow-registry = ["https://r"]
            bans.deny = [{ crate = "ring", reason = "one is enough" }]
            bans.skip = [{ crate = "two:1", reason = "old" }]"#;
        check(&serde_json::from_value(metadata).unwrap(), &toml::from_str(rules).unwrap())
            .into_iter()
            .map(|f| format!("{}: {}", f.place, f.what))
            .collect()
    }

    const ONE: (&str, &str, &str) = ("two 1.9.0", "MIT", "registry+https://r");
    const TWO: (&str, &str, &str) = ("two 2.0.0", "MIT", "registry+https://r");

    #[test]
    fn licences_and_sources_that_are_not_allowed_are_found() {
        let with = |licence, source| findings(&[], &[ONE, TWO, ("x 1.0.0", licence, source)]);
        assert_eq!(with("MIT", "registry+https://r"), [""; 0]);
        assert_eq!(with("GPL-3.0", "registry+https://r"), ["x 1.0.0: licence `GPL-3.0`"]);
        for source in ["git+https://r", "registry+https://other"] {
            assert_eq!(with("MIT", source), [format!("x 1.0.0: comes from {source}")]);
        }
    }

    #[test]
    fn a_version_too_many_is_found_and_a_skip_too_many() {
        let third = ("two 10.0.0", "MIT", "registry+https://r");
        assert_eq!(findings(&[], &[ONE, TWO, third]), ["two: built in versions 10.0.0, 2.0.0"]);
        assert_eq!(
            findings(&[], &[ONE]),
            ["deny.toml: `two:1` of `skip` is not one of several versions"]
        );
    }

    #[test]
    fn a_banned_crate_is_found_when_it_is_built_and_not_when_it_is_only_mentioned() {
        let with = |feature| findings(&[feature], &[ONE, TWO, ("ring 0.17.0", ONE.1, ONE.2)]);
        assert_eq!(with("weak"), [""; 0]);
        for feature in ["dep", "std", "ring"] {
            assert_eq!(with(feature), ["ring 0.17.0: banned in deny.toml"], "{feature}");
        }
    }
}
