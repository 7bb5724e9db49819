//! The gang: its groups, parts of GPUs, elastic sizes, and where it wants to be.

use super::{
    MAX_CPUS_PER_NODE, MAX_GPUS_PER_NODE, MAX_RANKS_PER_NODE, MAX_SKUS, between, count, shown,
};
use crate::names::Label;
use crate::spec::{
    GangSpec, GpuPart, Group, GroupSpec, JobSpec, MAX_NODES, MAX_RANKS, SpecProblem, Spread,
    problem,
};
use crate::topology::Level;
use crate::units::Bytes;
use std::collections::BTreeSet;

pub(super) fn groups(spec: &JobSpec) -> Result<Vec<Group>, SpecProblem> {
    let gang = &spec.gang;
    let mut groups = if gang.groups.is_empty() { flat(gang)? } else { written(gang)? };
    let most = elastic(spec, &mut groups)?;
    let nodes: u64 = groups.iter().map(|g| u64::from(g.nodes)).sum();
    if nodes > u64::from(MAX_NODES) {
        return Err(problem(
            "gang.groups",
            format!("{nodes} nodes in all are more than {MAX_NODES}"),
            "ask for fewer nodes",
        ));
    }
    let ranks: u64 = match most {
        Some(n) => groups.iter().map(|g| u64::from(n) * u64::from(g.ranks)).sum(),
        None => groups.iter().map(|g| u64::from(g.nodes) * u64::from(g.ranks)).sum(),
    };
    if ranks > MAX_RANKS {
        let field = if gang.groups.is_empty() { "gang.ranks_per_node" } else { "gang.groups" };
        return Err(problem(
            field,
            format!("{ranks} ranks in all are more than {MAX_RANKS}"),
            "ask for fewer nodes or fewer ranks on each",
        ));
    }
    topology(spec, &groups, most)?;
    Ok(groups)
}

fn flat(gang: &GangSpec) -> Result<Vec<Group>, SpecProblem> {
    if gang.gpus.is_some() && (gang.nodes.is_some() || gang.gpus_per_node.is_some()) {
        let other = if gang.nodes.is_some() { "nodes" } else { "gpus_per_node" };
        return Err(problem(
            "gang.gpus",
            format!("`gpus` is short for one node and cannot be combined with `{other}`"),
            "write `nodes` and `gpus_per_node` instead of `gpus`",
        ));
    }
    let part = part(gang)?;
    let gpus_field = if gang.gpus.is_some() { "gang.gpus" } else { "gang.gpus_per_node" };
    let whole = gang.gpus.or(gang.gpus_per_node);
    let as_group = GroupSpec {
        name: "main".into(),
        nodes: gang.nodes,
        gpus_per_node: if part.is_some() { Some(1) } else { whole },
        ranks_per_node: gang.ranks_per_node,
        cpus_per_node: gang.cpus_per_node,
        memory_per_node: gang.memory_per_node,
        sku: gang.sku.clone(),
    };
    Ok(vec![Group { part, ..group("gang", gpus_field, &as_group)? }])
}

/// The part of one GPU that each node gives, when whole ones are not wanted.
fn part(gang: &GangSpec) -> Result<Option<GpuPart>, SpecProblem> {
    let (field, word) = match (&gang.mig, gang.gpu_milli) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(problem(
                "gang.gpu_milli",
                "a share of a GPU (`gpu_milli`) and a slice of one (`mig`) cannot both be requested",
                "keep one of them",
            ));
        }
        (Some(_), None) => ("gang.mig", "mig"),
        (None, Some(_)) => ("gang.gpu_milli", "gpu_milli"),
    };
    let whole = [("gpus", gang.gpus), ("gpus_per_node", gang.gpus_per_node)];
    if let Some((other, _)) = whole.iter().find(|(_, n)| n.is_some()) {
        return Err(problem(
            field,
            format!("`{word}` requests a part of one GPU and cannot be combined with `{other}`"),
            format!("leave `{other}` out, or ask for whole GPUs with it alone"),
        ));
    }
    if let Some(profile) = &gang.mig {
        if !is_profile(profile) {
            return Err(problem(
                field,
                format!("`{}` is not a MIG profile", shown(profile)),
                "write compute slices and memory like 1g.10gb, 3g.40gb or 7g.80gb",
            ));
        }
        return Ok(Some(GpuPart::Mig(profile.clone())));
    }
    match gang.gpu_milli.unwrap_or(0) {
        0 => Err(problem(field, "a share of zero is no share", "use 1 to 999 thousandths")),
        n @ 1..=999 => Ok(Some(GpuPart::Milli(n))),
        1000 => Err(problem(field, "1000 thousandths are a whole GPU", "write `gpus: 1` instead")),
        n => Err(problem(
            field,
            format!("{n} thousandths are more than one GPU"),
            "use 1 to 999, or ask for whole GPUs with `gpus`",
        )),
    }
}

/// `3g.40gb`: compute slices (a GPU has at most seven) and memory.
fn is_profile(text: &str) -> bool {
    let number = |s: &str| {
        let good = (1..=4).contains(&s.len()) && !s.starts_with('0');
        (good && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse::<u32>().ok()).flatten()
    };
    text.split_once("g.")
        .and_then(|(c, m)| Some((number(c)?, number(m.strip_suffix("gb")?)?)))
        .is_some_and(|(compute, _)| (1..=7).contains(&compute))
}

fn written(gang: &GangSpec) -> Result<Vec<Group>, SpecProblem> {
    let flat = [
        ("nodes", gang.nodes.is_some()),
        ("gpus_per_node", gang.gpus_per_node.is_some()),
        ("gpus", gang.gpus.is_some()),
        ("ranks_per_node", gang.ranks_per_node.is_some()),
        ("cpus_per_node", gang.cpus_per_node.is_some()),
        ("memory_per_node", gang.memory_per_node.is_some()),
        ("sku", gang.sku.is_some()),
    ];
    if let Some((name, _)) = flat.iter().find(|(_, set)| *set) {
        return Err(problem(
            &format!("gang.{name}"),
            format!("`{name}` cannot be combined with `groups`"),
            "move it into each of the groups",
        ));
    }
    let parts = [("mig", gang.mig.is_some()), ("gpu_milli", gang.gpu_milli.is_some())];
    if let Some((name, _)) = parts.iter().find(|(_, set)| *set) {
        return Err(problem(
            &format!("gang.{name}"),
            format!("`{name}` cannot be combined with `groups`"),
            "groups ask for whole GPUs; run what needs a part of one as a job of its own",
        ));
    }
    count("gang.groups", gang.groups.len())?;
    let mut names = BTreeSet::new();
    let mut out = Vec::with_capacity(gang.groups.len());
    for (i, g) in gang.groups.iter().enumerate() {
        let path = format!("gang.groups[{i}]");
        let name = format!("{path}.name");
        if g.name.is_empty() {
            return Err(problem(&name, "the group has no name", "give each group a name"));
        }
        if let Err(e) = g.name.parse::<Label>() {
            return Err(problem(&name, e.to_string(), "a name like `learners` or `workers-2`"));
        }
        if !names.insert(g.name.as_str()) {
            let message = format!("two groups are called `{}`", g.name);
            return Err(problem(&name, message, "give each group a name of its own"));
        }
        out.push(group(&path, &format!("{path}.gpus_per_node"), g)?);
    }
    Ok(out)
}

fn group(path: &str, gpus_field: &str, g: &GroupSpec) -> Result<Group, SpecProblem> {
    let at = |f: &str| format!("{path}.{f}");
    // A field's name is made for whoever is refused: this is done twice for every submission.
    let within = |f: &str, n: u32, most: u32| match (1..=most).contains(&n) {
        true => Ok(n),
        false => between(&at(f), n, 1, most),
    };
    let nodes = within("nodes", g.nodes.unwrap_or(1), MAX_NODES)?;
    let gpus = between(gpus_field, g.gpus_per_node.unwrap_or(0), 0, MAX_GPUS_PER_NODE)?;
    let ranks = g.ranks_per_node.unwrap_or(gpus.max(1));
    let ranks = within("ranks_per_node", ranks, MAX_RANKS_PER_NODE)?;
    let cpus = g.cpus_per_node.unwrap_or(ranks);
    let cpus = within("cpus_per_node", cpus, MAX_CPUS_PER_NODE)?;
    let memory = g.memory_per_node.unwrap_or(Bytes(0));
    // So little is a number without its unit: no process starts with it.
    if (1..1 << 20).contains(&memory.0) {
        return Err(problem(
            &at("memory_per_node"),
            format!("{memory} is less than any process needs; at least 1MiB"),
            "write a unit, such as 4096MiB or 64GiB",
        ));
    }
    if memory.0 >= 1 << 60 {
        return Err(problem(
            &at("memory_per_node"),
            "it is more than any node has",
            "write it like 512GiB",
        ));
    }
    if let Some(sku) = &g.sku {
        skus(&at("sku"), sku)?;
        if gpus == 0 {
            return Err(problem(
                &at("sku"),
                format!("it asks for GPUs of kind `{sku}`, but for none of them"),
                "set `gpus_per_node`, or leave `sku` out",
            ));
        }
    }
    let name = g.name.clone();
    Ok(Group { name, nodes, gpus, ranks, cpus, memory, sku: g.sku.clone(), part: None })
}

/// One SKU, or several that will do, joined by `|`.
fn skus(field: &str, text: &str) -> Result<(), SpecProblem> {
    let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.';
    let mut seen = BTreeSet::new();
    for sku in text.split('|') {
        if sku.is_empty() || sku.len() > 64 || !sku.bytes().all(good) {
            return Err(problem(
                field,
                format!("`{}` is not a SKU", shown(sku)),
                "lower-case letters, digits, `-` and `.` only, like h100-sxm; several that will do are joined like h100-sxm|h200-sxm",
            ));
        }
        if !seen.insert(sku) {
            return Err(problem(field, format!("`{sku}` is named twice"), "name each SKU once"));
        }
        if seen.len() > MAX_SKUS {
            return Err(problem(
                field,
                format!("more than {MAX_SKUS} SKUs are named"),
                "leave `sku` out when any GPU will do",
            ));
        }
    }
    Ok(())
}

/// Checks the sizes of an elastic gang, writes the size that it starts with, and says the
/// largest.
fn elastic(spec: &JobSpec, groups: &mut [Group]) -> Result<Option<u32>, SpecProblem> {
    let Some(e) = spec.elastic else { return Ok(None) };
    let [group] = groups else {
        return Err(problem(
            "elastic",
            "a gang of several groups has one fixed size",
            "leave `elastic` out, or use one group",
        ));
    };
    let most = between("elastic.max_nodes", e.max_nodes, 1, MAX_NODES)?;
    let least = between("elastic.min_nodes", e.min_nodes, 1, MAX_NODES)?;
    if least > most {
        return Err(problem(
            "elastic.min_nodes",
            format!("the smallest size {least} is larger than the largest {most}"),
            "make min_nodes at most max_nodes",
        ));
    }
    if spec.gang.gpus.is_some() {
        return Err(problem(
            "gang.gpus",
            "`gpus` is short for one node, and an elastic gang may have several",
            "write `gpus_per_node` instead of `gpus`",
        ));
    }
    let said = spec.gang.nodes.or(spec.gang.groups.first().and_then(|g| g.nodes));
    group.nodes = said.unwrap_or(most);
    if !(least..=most).contains(&group.nodes) {
        let field = if spec.gang.groups.is_empty() { "gang.nodes" } else { "gang.groups[0].nodes" };
        return Err(problem(
            field,
            format!("{} is not between elastic.min_nodes and max_nodes", group.nodes),
            format!("use {least} to {most}, or leave it out for {most}"),
        ));
    }
    if spec.checkpoint.is_none() && spec.simulate.is_none() {
        return Err(problem(
            "elastic",
            "every new size starts the gang again, and it has no checkpoint to continue from",
            "add `checkpoint: {dir: /shared/…}`, or leave `elastic` out",
        ));
    }
    Ok(Some(most))
}

fn topology(spec: &JobSpec, groups: &[Group], elastic: Option<u32>) -> Result<(), SpecProblem> {
    let nodes: u64 = groups.iter().map(|g| u64::from(g.nodes)).sum();
    let most = elastic.map_or(nodes, u64::from);
    let t = &spec.topology;
    if t.required == Some(Level::Node) && most > 1 {
        return Err(problem(
            "topology.required",
            format!("{most} nodes can never be inside one node"),
            "ask for `nvlink`, `rack` or `leaf`, or for one node",
        ));
    }
    if let (Some(r), Some(p)) = (t.required, t.preferred)
        && p < r
    {
        return Err(problem(
            "topology.preferred",
            format!("`{p}` is wider than the required `{r}`, so the preference has no effect"),
            format!("prefer a level inside the {r}, or require a wider one than {p}"),
        ));
    }
    if let Some(s) = t.segment {
        segment(s, nodes, groups.len(), elastic.is_some())?;
    }
    if let Some(s) = t.spread {
        spread(s, t.required)?;
        if t.segment.is_some_and(|n| n > 1) {
            return Err(problem(
                "topology.spread",
                "`segment` keeps nodes together and `spread` keeps them apart",
                "keep one of them",
            ));
        }
    }
    Ok(())
}

fn segment(size: u32, nodes: u64, groups: usize, elastic: bool) -> Result<(), SpecProblem> {
    let bad = |message: String, hint: String| Err(problem("topology.segment", message, hint));
    if groups > 1 {
        return bad(
            "a gang of several groups cannot be cut into segments".into(),
            "leave `segment` out, or use one group".into(),
        );
    }
    if elastic {
        return bad(
            "an elastic gang cannot be cut into segments: its size changes".into(),
            "leave `segment` or `elastic` out".into(),
        );
    }
    if size == 0 || u64::from(size) > nodes {
        return bad(
            format!("{nodes} nodes cannot be cut into segments of {size}"),
            format!("use 1 to {nodes}"),
        );
    }
    if !nodes.is_multiple_of(size.into()) {
        return bad(
            format!("{nodes} nodes cannot be cut evenly into segments of {size}"),
            format!(
                "use a number that divides {nodes}, or {} nodes",
                nodes.next_multiple_of(size.into())
            ),
        );
    }
    Ok(())
}

/// A gang that must be inside one domain cannot be spread over several of that kind.
fn spread(over: Spread, required: Option<Level>) -> Result<(), SpecProblem> {
    let (word, level) = match over {
        // A rack hangs on one feed, so whatever is inside a rack is on one feed too.
        Spread::Feed => ("feed", Level::Rack),
        Spread::Leaf => ("leaf", Level::Leaf),
        Spread::Rack => ("rack", Level::Rack),
    };
    let Some(required) = required.filter(|r| *r >= level) else { return Ok(()) };
    Err(problem(
        "topology.spread",
        format!("what is inside one {required} cannot be spread over several: `{word}`"),
        "require a wider level, or leave one of them out",
    ))
}
