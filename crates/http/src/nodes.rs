//! Nodes, and where they stand.

use super::auth::{AdminWriter, Caller, OperatorWriter, Reader, Writer};
use super::error::{Failure, Reply};
use super::extract::{JsonBody, OptionalBody, Query, Segment, WHOLE_SITE};
use super::jobs::Nothing;
use super::policy::{content_version, same_version};
use super::{App, answer, answer_bytes, faults, health, paging};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use muster_api::node::{NODE_STATES, state_word};
use muster_api::{
    AgentInfo, CordonRequest, DrainRequest, ExcludeRequest, Inject, Injected, Kind, MarkRequest,
    Node, NodeActionOffer, NodeJob, NodeUse, NodesQuery, QualifyProgress, QualifyRequest,
    ReasonRequest, RepairedRequest, Topology,
};
use muster_engine::{AllocationBlocker, State as Site};
use muster_model::names::{Label, NameError, NodeName};
use muster_model::node::{Gpu, Inventory, Node as ModelNode};
use muster_model::placement::GpuSet;
use muster_model::tenant::Role;
use muster_model::topology::Location;
use muster_model::{Answer, Command, Refusal, Seq};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Most states that may be named.
const MAX_STATES: usize = 64;

/// The states that are asked for, each once: every node is compared with all of them.
fn states(text: &str) -> Reply<Vec<&str>> {
    let mut wanted: Vec<&str> = Vec::new();
    for (n, word) in text.split(',').map(str::trim).enumerate() {
        if n == MAX_STATES {
            let message = format!("more than {MAX_STATES} states are named");
            return Err(Failure::bad(message).field("state").hint("name each once"));
        }
        if !NODE_STATES.contains(&word) {
            let message = format!("`{}` is not a state of a node", super::extract::shown(word));
            return Err(Failure::bad(message)
                .field("state")
                .hint(format!("use one of {}", NODE_STATES.join(", "))));
        }
        if !wanted.contains(&word) {
            wanted.push(word);
        }
    }
    Ok(wanted)
}

/// List nodes in order of their names.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/nodes", tag = "nodes", params(NodesQuery),
    responses((status = 200, description = "A page of nodes.", body = muster_api::NodeList))))]
pub(crate) async fn list(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<NodesQuery>,
) -> Reply {
    let limit = paging::limit(q.limit)?;
    let after: Option<NodeName> = paging::decode("nodes", q.cursor.as_deref())?;
    let states = q.state.as_deref().map(states).transpose()?;
    let now = app.brain().now();
    let (seq, mut found) = app.brain().read(|s| {
        let maintenance = s.nodes_in_maintenance(now);
        let lower = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let found: Vec<(Arc<ModelNode>, NodeUse)> = s
            .nodes
            .range::<NodeName, _>((lower, Bound::Unbounded))
            .map(|(_, n)| n)
            .filter(|n| states.as_ref().is_none_or(|all| all.contains(&state_word(n))))
            .take(limit + 1)
            .map(|n| (Arc::clone(n), in_use(s, &caller, n, &maintenance)))
            .collect();
        (s.seq, found)
    });
    let more = found.len() > limit;
    found.truncate(limit);
    let (asked, asking) = (app.clone(), caller.clone());
    let bytes = app.aside(&caller.token, move || page(&asked, &asking, found, more)).await??;
    Ok(answer_bytes(&app, &caller, StatusCode::OK, seq, None, bytes))
}

/// Nodes as a page; fewer than were found when they are too large for one.
fn page(
    app: &App,
    caller: &Caller,
    found: Vec<(Arc<ModelNode>, NodeUse)>,
    more: bool,
) -> Reply<Vec<u8>> {
    let mut page = paging::Page::new();
    let (mut last, mut left) = (None, more);
    for (node, used) in found {
        if !page.push(&for_caller(app, caller, view(app, &node, used)))? {
            left = true;
            break;
        }
        last = Some(node);
    }
    let cursor = last.filter(|_| left).map(|n| paging::encode("nodes", &n.name));
    Ok(page.end(cursor.as_deref()))
}

fn view(app: &App, node: &ModelNode, used: NodeUse) -> Node {
    let agent = app.agents().session(&node.name).map(|s| AgentInfo {
        version: s.version,
        last_heartbeat: s.last_heartbeat.into(),
        skew_ms: s.skew_ms,
    });
    let mut out = Node::of(node, used, agent);
    if let (Some(shown), Some(q)) = (&mut out.qualifying, node.qualifying)
        && let Some(p) = app.agents().test_progress(&node.name).filter(|p| p.id == q.id)
    {
        shown.progress = Some(QualifyProgress {
            done: p.done,
            of: p.of,
            doing: p.doing,
            eta_s: p.eta_s,
            at: p.at.into(),
        });
    }
    out
}

/// What jobs hold on a node, and why they stay away. Other projects' jobs are shown without a name to those who may not
/// know of them.
fn in_use(
    site: &Site,
    caller: &Caller,
    node: &ModelNode,
    maintenance: &BTreeMap<NodeName, Label>,
) -> NodeUse {
    let mut out = NodeUse { gpus: site.allocated_gpus(&node.name), ..NodeUse::default() };
    // The node may still name one that ended with no action.
    let live = |id: &u64| site.health.remediations.get(id).is_some_and(|r| r.outcome.is_none());
    out.remediation = node.remediation.filter(live);
    match site.allocation_blocker(node) {
        Some(AllocationBlocker::Always(why)) => out.no_new_work = Some(why),
        Some(AllocationBlocker::IfOthersFit(why)) => out.avoided = Some(why),
        None => {}
    }
    if out.no_new_work.is_none()
        && let Some(name) = maintenance.get(&node.name)
    {
        out.no_new_work = Some(format!("maintenance window {name}"));
    }
    for job in site.attempts_on(&node.name) {
        let Some(attempt) = &job.attempt else { continue };
        // A gang of thousands is on this node with a slot or two: only those are looked at.
        let here = site.slots_on(job.id, &node.name).iter();
        let mut gpus = Vec::new();
        for slot in here.filter_map(|i| attempt.placement.slots.get(*i)) {
            out.cpus += slot.cpus;
            out.memory.0 += slot.memory.0;
            gpus.extend(slot.gpus.iter());
        }
        let seen = caller.sees(&job.project);
        let visible = |text: String| if seen { text } else { "another project's".into() };
        out.jobs.push(NodeJob {
            id: visible(job.display_id()),
            name: visible(job.name.to_string()),
            project: visible(job.project.to_string()),
            state: job.state,
            gpus,
        });
    }
    out
}

/// What a token that is bound to a project sees of a node: what it takes to understand why work
/// fits or waits. Serial numbers, addresses, versions, tests, what was found and what is done about
/// it are the site's. Others see all of it.
fn for_caller(app: &App, caller: &Caller, mut node: Node) -> Node {
    if caller.actor.project.is_none() {
        return node;
    }
    node.version = caller.version(app, node.version);
    let all = std::mem::take(&mut node.inventory);
    let gpus = all.gpus.into_iter().map(|g| Gpu {
        uuid: String::new(),
        serial: None,
        pci: None,
        numa: None,
        facts: None,
        ..g
    });
    node.inventory = Inventory {
        cpus: all.cpus,
        memory: all.memory,
        gpus: gpus.collect(),
        simulated: all.simulated,
        pool: all.pool,
        ..Inventory::default()
    };
    node.address.clear();
    node.host.clear();
    node.orphans.clear();
    // What was found is the site's; that it is used last is not.
    node.avoided = node.avoided.map(|why| match why == muster_engine::NOT_CONNECTED {
        true => why,
        false => "something was found there".into(),
    });
    if node.breaker.take().is_some() && node.state == "ready" {
        node.no_new_work = Some("blocked by an open breaker".into());
    }
    // Reasons name findings and failed tests, also where an operator wrote them.
    node.cordon = node.cordon.map(|_| "by the operators of the site".into());
    node.stage_why = None;
    node.stage_until = None;
    node.probation = None;
    node.remediation = None;
    node.remediation_detail = None;
    node.actions.clear();
    node.hazard = 0;
    node.agent = None;
    node.qualified = None;
    if let Some(test) = &mut node.qualifying {
        test.progress = None;
    }
    node
}

fn node_name(text: &str) -> Reply<NodeName> {
    text.parse().map_err(|e: NameError| Failure::bad(e.to_string()).field("name"))
}

fn action_view(offer: muster_engine::NodeActionOffer) -> NodeActionOffer {
    let muster_engine::NodeActionOffer { action, refusal, gpus } = offer;
    let (refused, hint) = match refusal {
        Some(Refusal { message, hint, .. }) => (Some(message), hint),
        None => (None, None),
    };
    NodeActionOffer { action, refused, hint, gpus: gpus.iter().collect() }
}

fn find(app: &App, caller: &Caller, name: &NodeName) -> Reply<(Seq, Node)> {
    let now = app.brain().now();
    let found = app.brain().read(|s| {
        let node = s.nodes.get(name)?;
        let faults = s.faults_of(name).filter(|f| faults::sees(caller, f));
        let faults = faults.map(|f| faults::view(f)).collect();
        let open = s.health.open_on(name).filter(|f| health::sees(s, caller, f));
        let findings = open.map(|f| health::findings::view(f)).collect();
        let used = in_use(s, caller, node, &s.nodes_in_maintenance(now));
        let remediation = used.remediation.and_then(|id| s.health.remediations.get(&id));
        let remediation = remediation.map(|r| health::remediations::view(s, r));
        let wrong = (faults, findings, remediation);
        let actions = s.node_actions(node, now).into_iter().map(action_view).collect();
        Some((s.seq, Arc::clone(node), used, wrong, actions))
    });
    match found {
        Some((seq, node, used, (faults, findings, remediation), actions)) => {
            let mut shown = view(app, &node, used);
            shown.qualified = node.qualified.as_deref().map(Into::into);
            shown.faults = faults;
            shown.findings = findings;
            shown.remediation_detail = remediation;
            shown.actions = actions;
            Ok((seq, for_caller(app, caller, shown)))
        }
        None => Err(Failure::not_found(format!("there is no node {name}"))
            .hint("`muster nodes` lists them")),
    }
}

/// Get a node.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/nodes/{name}", tag = "nodes",
    params(("name" = String, Path, description = "The node's name.")),
    responses((status = 200, description = "The node.", body = Node))))]
pub(crate) async fn get(
    State(app): State<App>,
    Reader(caller): Reader,
    Segment(name): Segment,
) -> Reply {
    let (seq, node) = find(&app, &caller, &node_name(&name)?)?;
    Ok(answer(&app, &caller, StatusCode::OK, seq, Some(node.version), &node))
}

async fn steer(
    app: App,
    writer: Writer,
    name: &str,
    raw: &[u8],
    command: impl FnOnce(NodeName) -> Command,
) -> Reply {
    writer.caller.over_site(Role::Operator)?;
    let name = node_name(name)?;
    let done = writer.call(&app, raw, command(name.clone())).await?;
    let (_, mut node) = find(&app, &writer.caller, &name)?;
    // Whoever returns a node reads what no longer counts against it.
    if let Answer::Closed { findings } = &done.answer {
        node.findings_closed = app.brain().read(|s| {
            let closed = findings.iter().filter_map(|id| s.health.findings.get(id));
            closed.map(|f| health::findings::view(f)).collect()
        });
    }
    Ok(answer(&app, &writer.caller, StatusCode::OK, done.seq, Some(node.version), &node))
}

fn reason(given: String) -> Reply<String> {
    health::reason(given, false)
}

macro_rules! steering {
    ($(#[$doc:meta])* $name:ident, $path:literal, $body:ty, |$node:ident, $value:ident| $command:expr) => {
        steering!(@ $(#[$doc])* $name, $path, $body, [request_body = Option<$body>,], |$node, $value| $command);
    };
    ($(#[$doc:meta])* $name:ident, $path:literal, |$node:ident| $command:expr) => {
        steering!(@ $(#[$doc])* $name, $path, Nothing, [], |$node, _value| $command);
    };
    (@ $(#[$doc:meta])* $name:ident, $path:literal, $body:ty, [$($request:tt)*], |$node:ident, $value:ident| $command:expr) => {
        $(#[$doc])*
        #[cfg_attr(feature = "openapi", utoipa::path(post, path = $path, tag = "nodes", $($request)*
            params(("name" = String, Path, description = "The node's name.")),
            responses((status = 200, description = "The node as it is now.", body = Node))))]
        pub(crate) async fn $name(
            State(app): State<App>,
            OperatorWriter(writer): OperatorWriter,
            Segment(name): Segment,
            OptionalBody { value: $value, raw }: OptionalBody<$body>,
        ) -> Reply<Response> {
            let command = move |$node: NodeName| -> Reply<Command> { Ok($command) };
            let wanted = command(node_name(&name)?)?;
            steer(app, writer, &name, &raw, move |_| wanted).await
        }
    };
}

steering!(
    /// Give a node no new work; what runs there is not touched.
    cordon, "/v1/nodes/{name}/cordon", CordonRequest,
    |node, body| Command::Cordon { node, reason: reason(body.reason)? }
);
steering!(
    /// Give a cordoned node work again.
    uncordon, "/v1/nodes/{name}/uncordon", |node| Command::Uncordon { node }
);
steering!(
    /// Cordon a node and drain it: what runs there ends by itself, or at once with `stop`.
    drain, "/v1/nodes/{name}/drain", DrainRequest,
    |node, body| Command::Drain { node, reason: reason(body.reason)?, stop: body.stop }
);
steering!(
    /// Give a drained node work again.
    undrain, "/v1/nodes/{name}/undrain", |node| Command::Undrain { node }
);
steering!(
    /// Remove a node that will not come back.
    retire, "/v1/nodes/{name}/retire", |node| Command::Retire { node }
);
steering!(
    /// After a restored backup: let the server decide again about a node that is ahead of it.
    reconcile, "/v1/nodes/{name}/reconcile", |node| Command::Reconcile { node }
);

steering!(
    /// Set what a node is reserved for, and how likely it is to fail.
    mark, "/v1/nodes/{name}/mark", MarkRequest,
    |node, body| marked(node, body)?
);

steering!(
    /// Test a node before it gets more work; it must have none.
    qualify, "/v1/nodes/{name}/qualify", QualifyRequest,
    |node, body| Command::Qualify { node, level: body.level }
);
steering!(
    /// End the test of a node; it gets work again as before.
    cancel_qualification, "/v1/nodes/{name}/cancel-qualification",
    |node| Command::CancelQualification { node }
);

steering!(
    /// People repaired a node: it is tested, and returns when it passes.
    repaired, "/v1/nodes/{name}/repaired", RepairedRequest,
    |node, body| Command::Repaired { node, note: reason(body.note)? }
);
steering!(
    /// Return a node to service although it passed no test.
    return_untested, "/v1/nodes/{name}/return", ReasonRequest,
    |node, body| Command::ReturnUntested { node, reason: health::reason(body.reason, true)? }
);
steering!(
    /// Set which GPUs of a node get no work; the rest of it continues.
    exclude, "/v1/nodes/{name}/exclude", ExcludeRequest,
    |node, body| excluded(node, body)?
);

fn excluded(node: NodeName, body: ExcludeRequest) -> Reply<Command> {
    let ExcludeRequest { gpus, reason } = body;
    if let Some(g) = gpus.iter().find(|g| **g >= 64) {
        return Err(Failure::senseless(format!("a node has no GPU {g}"))
            .field("gpus")
            .hint("give indices as `muster describe node NODE` shows them"));
    }
    let reason = health::reason(reason, !gpus.is_empty())?;
    let set = gpus.iter().fold(0, |set, g| set | 1 << g);
    Ok(Command::ExcludeGpus { node, gpus: GpuSet(set), reason })
}

fn marked(node: NodeName, body: MarkRequest) -> Reply<Command> {
    let MarkRequest { role, hazard } = body;
    if role.is_none() && hazard.is_none() {
        return Err(Failure::senseless("it has neither `role` nor `hazard`")
            .hint("send one of them, like {\"role\": \"spare\"}"));
    }
    Ok(Command::MarkNode { node, role, hazard })
}

/// Make a simulated node fail.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/nodes/{name}/inject", tag = "nodes", request_body = Inject,
    params(("name" = String, Path, description = "The node's name.")),
    responses((status = 200, description = "Sent to the node.", body = Injected))))]
pub(crate) async fn inject(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    Segment(name): Segment,
    JsonBody { value, raw }: JsonBody<Inject>,
) -> Reply {
    let name = node_name(&name)?;
    let (_, node) = find(&app, &writer.caller, &name)?;
    if !node.inventory.simulated {
        return Err(Failure::conflict(format!(
            "node {name} is real; faults are for simulated nodes"
        )));
    }
    possible(&value)?;
    // Nothing goes into the log; the key alone is wanted, as any other write would have it.
    let request = writer.request(&app, &raw, Command::FindingsSeen { findings: Vec::new() });
    let (agents, node) = (app.agents().clone(), name.clone());
    let inject = async move { agents.inject(&node, value).await };
    let begun = app.injections().once(request.key, request.at, inject)?;
    let message = begun.await.map_err(Failure::conflict)?;
    let injected = Injected { node: name.to_string(), ok: true, message };
    Ok(answer(&app, &writer.caller, StatusCode::OK, app.brain().durable(), None, &injected))
}

/// Refuses what no node can be.
fn possible(asked: &Inject) -> Reply<()> {
    if let Inject::SlowGpu { percent: 100.., .. } | Inject::LowClocks { percent: 100.., .. } = asked
    {
        return Err(Failure::senseless("a GPU is slower by 99 percent at most").field("percent"));
    }
    Ok(())
}

fn topology_view(t: &muster_model::topology::Topology) -> Topology {
    Topology {
        kind: Kind::Topology,
        version: content_version(t),
        nodes: t.nodes.iter().map(|(n, l)| (n.to_string(), l.clone())).collect(),
    }
}

/// Get the location of nodes.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/topology", tag = "nodes",
    responses((status = 200, description = "Place of each node.", body = Topology))))]
pub(crate) async fn topology(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let (seq, t) = app.brain().read(|s| (s.seq, Arc::clone(&s.topology)));
    // Of a large site these are megabytes.
    let (asked, asking) = (app.clone(), caller.clone());
    let whole = move || {
        let t = topology_view(&t);
        answer(&asked, &asking, StatusCode::OK, seq, Some(t.version), &t)
    };
    app.aside(&caller.token, whole).await
}

/// The location of nodes, as it is sent. Accepts what `GET` returned.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SetTopology {
    /// Place of each node, also of those that have not joined yet.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, Location>))]
    nodes: BTreeMap<NodeName, Location>,
    /// Always `Topology`.
    #[serde(default)]
    #[allow(dead_code)]
    kind: Option<Kind>,
    /// Ignored: the version the caller saw goes into `If-Match`.
    #[serde(default)]
    #[allow(dead_code)]
    version: Option<i64>,
}

/// Set the location of nodes: the whole of it.
#[cfg_attr(feature = "openapi", utoipa::path(put, path = "/v1/topology", tag = "nodes", request_body = SetTopology,
    responses((status = 200, description = "As it is now.", body = Topology))))]
pub(crate) async fn set_topology(
    State(app): State<App>,
    AdminWriter(writer): AdminWriter,
    JsonBody { value, raw }: JsonBody<SetTopology, WHOLE_SITE>,
) -> Reply {
    // One at a time, so that nothing comes between the look at the version and the write.
    let _turn = app.turn().lock().await;
    let present = content_version(&*app.brain().read(|s| Arc::clone(&s.topology)));
    same_version(&app, &writer, &raw, "topology", Some(present))?;
    let command = Command::SetTopology {
        topology: Arc::new(muster_model::topology::Topology { nodes: value.nodes }),
    };
    let done = writer.put(&app, &raw, command).await?;
    let t = topology_view(&app.brain().read(|s| Arc::clone(&s.topology)));
    Ok(answer(&app, &writer.caller, StatusCode::OK, done.seq, Some(t.version), &t))
}
