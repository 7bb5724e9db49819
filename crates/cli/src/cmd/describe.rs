//! `muster describe job|node NAME`.

use crate::ctx::{Ctx, now};
use crate::fail::Fail;
use crate::output::bar::bar;
use crate::output::colour::{self, Style, paint};
use crate::output::size;
use crate::output::table::{Table, cell, number, state};
use crate::output::time::{full, length, relative};
use crate::pick;
use clap::{Args, Subcommand};
use muster_api::{Event, Fault, FaultsQuery, Job, Node};
use muster_client::Client;
use muster_model::job::Basis;
use muster_model::placement::HeldPart;
use muster_model::spec::GpuPart;
use muster_model::units::Time;

/// Describe a job or a node for people
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster describe job 42\n  muster describe node hgx-0003\n  muster describe job 42 -o json"
)]
pub(crate) struct Describe {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A job: its gang, its attempts and why each ended, its timeline
    #[command(alias = "jobs")]
    Job {
        /// Id or name
        name: String,
    },
    /// A node: its axes, its inventory, what runs there
    #[command(alias = "nodes")]
    Node {
        /// Its name
        name: String,
    },
}

/// A longer log is not searched for one job's timeline.
const SEARCHED: usize = 20_000;

impl Describe {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        match self.what {
            What::Job { name } => {
                let job = pick::job(&client, &name).await?;
                let (events, faults) = if ctx.is_table() {
                    (timeline(&client, &job).await, hits(&client, &job).await)
                } else {
                    (Vec::new(), Vec::new())
                };
                ctx.show(&job, |j| job_text(j, &events, &faults, now(), colour::on()))?;
            }
            What::Node { name } => {
                let node = match client.node(&name).await {
                    Ok(node) => node,
                    Err(e) => return Err(pick::mend_node(&client, &name, e).await),
                };
                ctx.show(&node, |n| node_text(n, now(), colour::on()))?;
            }
        }
        Ok(0)
    }
}

/// Events about the job, when the log is short enough to search; without them the rest is
/// still worth showing.
async fn timeline(client: &Client, job: &Job) -> Vec<Event> {
    let short = client.server_info().await.is_ok_and(|s| s.store.durable_seq <= SEARCHED as u64);
    if !short {
        return Vec::new();
    }
    let all =
        super::events::page(client, None, SEARCHED).await.map(|l| l.items).unwrap_or_default();
    all.into_iter().filter(|e| e.job() == Some(job.number)).collect()
}

/// Faults that hit the job; without them the rest is still worth showing.
async fn hits(client: &Client, job: &Job) -> Vec<Fault> {
    let query = FaultsQuery { job: Some(job.number), ..FaultsQuery::default() };
    client.faults(&query).await.map(|l| l.items).unwrap_or_default()
}

/// `Name:      value` lines.
struct Facts(String);

impl Facts {
    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        let value: String =
            value.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if !value.is_empty() {
            self.0.push_str(&format!("{:<14}{value}\n", format!("{name}:")));
        }
    }

    fn section(&mut self, title: &str, on: bool) {
        self.0.push_str(&format!("\n{}\n", paint(title, Style::Bold, on)));
    }

    fn table(&mut self, table: &Table, on: bool) {
        for line in table.render_for(crate::output::width().map(|w| w - 2), on).lines() {
            self.0.push_str(&format!("  {line}\n"));
        }
    }
}

fn job_text(job: &Job, events: &[Event], faults: &[Fault], now: Time, on: bool) -> String {
    let mut f = Facts(String::new());
    f.line("Job", format!("{} ({})", job.id, job.name));
    f.line("State", job.state.word());
    f.line("Reason", job.reason.as_deref().unwrap_or_default());
    f.line("Waiting", job.waiting.as_deref().unwrap_or_default());
    f.line("Held by", job.held.as_deref().unwrap_or_default());
    if let Some(p) = &job.promise {
        let nodes: Vec<&str> = p.nodes.iter().map(String::as_str).collect();
        f.line(
            "Starts by",
            format!("{} on {}", full(now, p.at), muster_specs::hostlist::compress(nodes)),
        );
        f.line("Rests on", format!("{}; promised {}", basis(p.basis), relative(now, p.since)));
        f.line("Moved", p.moved.as_deref().unwrap_or_default());
    }
    f.line(
        "Not before",
        job.not_before.filter(|t| t.0 > now).map(|t| full(now, t)).unwrap_or_default(),
    );
    f.line("Project", &job.project);
    f.line("User", &job.user);
    f.line("Exit code", job.exit_code.map(|c| c.to_string()).unwrap_or_default());
    f.line("Priority", format!("{:?}", job.spec.priority).to_lowercase());
    if let Some(e) = job.spec.elastic {
        let size = job.size.map_or(job.nodes(), u64::from);
        f.line("Elastic", format!("{} to {} nodes; {size} wanted", e.min_nodes, e.max_nodes));
    }
    if job.preemptions > 0 {
        let times =
            if job.preemptions == 1 { "once".into() } else { format!("{} times", job.preemptions) };
        f.line("Preempted", times);
    }
    f.line(
        "Idle",
        job.idle_warned
            .map(|t| format!("its GPUs do nothing; warned {}", relative(now, t)))
            .unwrap_or_default(),
    );
    f.line("Time limit", job.spec.time_limit.map(|t| t.to_string()).unwrap_or_default());
    f.line("Submitted", full(now, job.submitted_at));
    f.line("Started", job.started_at.map(|t| full(now, t)).unwrap_or_default());
    f.line("Ended", job.ended_at.map(|t| full(now, t)).unwrap_or_default());
    if let Some(p) = &job.progress {
        let loss = p.loss.map(|l| format!(", loss {l}")).unwrap_or_default();
        f.line("Progress", format!("step {}{loss} ({})", p.step, relative(now, p.at)));
    }
    if let Some(c) = &job.checkpoint {
        let step = c.step.map(|s| format!("step {s}")).unwrap_or_else(|| "written".into());
        let path = c.path.as_deref().map(|p| format!(" at {p}")).unwrap_or_default();
        f.line("Checkpoint", format!("{step}{path} ({})", relative(now, c.at)));
    }
    f.line(
        "Asked",
        job.checkpoint_asked
            .map(|t| format!("for a checkpoint {}", relative(now, t)))
            .unwrap_or_default(),
    );
    let tags: Vec<String> = job.spec.tags.iter().map(|(k, v)| format!("{k}={v}")).collect();
    f.line("Tags", tags.join(" "));

    f.section("Gang", on);
    let mut t = Table::new(&["GROUP", "NODES", "GPUS", "RANKS", "CPUS", "MEMORY", "SKU"]);
    for g in job.groups.iter() {
        t.row(vec![
            cell(&g.name),
            number(g.nodes),
            number(match &g.part {
                None => g.gpus.to_string(),
                Some(GpuPart::Milli(m)) => crate::output::gpus(u64::from(*m)),
                Some(GpuPart::Mig(profile)) => profile.clone(),
            }),
            number(g.ranks),
            number(g.cpus),
            number(if g.memory.0 == 0 { String::new() } else { g.memory.to_string() }),
            cell(g.sku.as_deref().unwrap_or_default()),
        ]);
    }
    f.table(&t, on);

    if let Some(a) = &job.attempt {
        f.section(&format!("Attempt {} ({}, {})", a.no, a.level, a.domain), on);
        f.line("  Fabric", &a.fabric_words);
        f.line("  Power cap", a.cap_watts.map(|w| format!("{w} W a GPU")).unwrap_or_default());
        let mut t = Table::new(&["NODE", "RANKS", "GPUS", "STATE"]);
        for s in &a.slots {
            let last = s.first_rank + s.ranks.saturating_sub(1);
            let gpus: Vec<String> = s.gpus.iter().map(ToString::to_string).collect();
            t.row(vec![
                cell(&s.node),
                cell(format!("{}-{last}", s.first_rank)),
                cell(match &s.part {
                    None => gpus.join(","),
                    Some(HeldPart::Milli(m)) => {
                        format!("{} of {}", crate::output::gpus(u64::from(*m)), gpus.join(","))
                    }
                    Some(HeldPart::Mig { profile, .. }) => {
                        format!("{profile} of {}", gpus.join(","))
                    }
                }),
                state(&s.state),
            ]);
        }
        f.table(&t, on);
        if let Some(n) = &a.notice {
            let until = full(now, n.until);
            f.0.push_str(&format!(
                "  will be stopped after its next checkpoint, or at {until}: {}\n",
                n.message
            ));
        }
        if let Some(stop) = &a.stop {
            f.0.push_str(&format!(
                "  stopping since {}: {}\n",
                relative(now, stop.at),
                stop.message
            ));
        }
    }
    if !job.past.is_empty() {
        f.section("Past attempts", on);
        let mut t = Table::new(&["NO", "ENDED", "RAN", "FAULT OF", "NODES", "WHY"]);
        for p in &job.past {
            let ran = p.started_at.map(|s| length(p.ended_at.0.since(s.0)));
            let nodes: Vec<&str> = p.nodes.iter().map(String::as_str).collect();
            t.row(vec![
                number(p.no),
                cell(relative(now, p.ended_at)),
                cell(ran.unwrap_or_else(|| "never".into())),
                cell(format!("{:?}", p.verdict).to_lowercase()),
                cell(muster_specs::hostlist::compress(nodes)),
                cell(&p.reason),
            ]);
        }
        f.table(&t, on);
    }
    if !faults.is_empty() {
        f.section("Faults", on);
        f.table(&super::faults::table(faults, now, true), on);
    }
    if !events.is_empty() {
        f.section("Timeline", on);
        f.table(&super::events::table(events, now), on);
    }
    f.0
}

/// What a promise rests on, in words.
fn basis(b: Basis) -> &'static str {
    match b {
        Basis::Limits => "the time limits of what runs there",
        Basis::Preemption => "others that are being stopped for it",
        Basis::Swap => "healthy nodes it had, and replacements for those that failed",
        Basis::Resize => "its new size",
        Basis::Move => "its move to other nodes",
    }
}

fn node_text(node: &Node, now: Time, on: bool) -> String {
    let mut f = Facts(String::new());
    f.line("Node", &node.name);
    f.line("State", &node.state);
    f.line("Stage", format!("{:?}", node.stage).to_lowercase());
    f.line("Reachable", if node.reachable { "yes" } else { "no" });
    f.line(
        "Cordoned",
        node.cordon.as_deref().map(|r| if r.is_empty() { "yes" } else { r }).unwrap_or("no"),
    );
    f.line("Role", super::nodes::role(node));
    let testing = node.qualifying.as_ref().map(super::node::qualify::progress);
    f.line("Qualifying", testing.unwrap_or_default());
    let tested = node.qualified.as_ref().map(|q| super::node::qualify::outcome(q, now));
    f.line("Qualified", tested.unwrap_or_default());
    if node.protected {
        f.line(
            "Protected",
            "its agent has seen more of the log than this server; `muster node reconcile` decides",
        );
    }
    let l = &node.location;
    f.line(
        "Location",
        format!(
            "{}/{}/{}/{}/{} nvlink {} feed {}",
            l.region, l.cluster, l.spine, l.leaf, l.rack, l.nvlink, l.feed
        ),
    );
    f.line("Rails", l.rails.join(","));
    f.line("Address", format!("{} on host {}", node.address, node.host));
    f.line("GPUs", format!("{} {}", bar(node.gpus_used, node.gpus_total), node.sku));
    let excluded: Vec<String> = node.gpus_excluded.iter().map(ToString::to_string).collect();
    f.line("Excluded", excluded.join(","));
    f.line("CPUs", format!("{} of {} used", node.cpus_used, node.cpus_total));
    let memory = (size(node.memory_used), size(node.memory_total));
    f.line("Memory", format!("{} of {} used", memory.0, memory.1));
    f.line("Joined", full(now, node.enrolled_at));
    f.line("Changed", full(now, node.changed_at));
    if let Some(a) = &node.agent {
        f.line(
            "Agent",
            format!(
                "{}, heard {}, clock {:+} ms",
                a.version,
                relative(now, a.last_heard),
                a.skew_ms
            ),
        );
    }
    f.line("Orphans", node.orphans.join(" "));

    let i = &node.inventory;
    f.section("Machine", on);
    f.line(
        "  CPU",
        format!("{} ({} sockets, {} NUMA nodes)", i.cpu_model, i.sockets, i.numa.len()),
    );
    f.line("  System", format!("{} kernel {}", i.os, i.kernel));
    f.line("  Isolation", &i.isolation);
    f.line("  Simulated", if i.simulated { "yes" } else { "" });
    let versions: Vec<String> = i.versions.iter().map(|(k, v)| format!("{k} {v}")).collect();
    f.line("  Versions", versions.join(", "));
    if !i.gpus.is_empty() {
        f.section("GPUs", on);
        let mut t = Table::new(&["INDEX", "SKU", "MEMORY", "NUMA", "PCI", "UUID"]);
        for g in &i.gpus {
            t.row(vec![
                number(g.index),
                cell(&g.sku),
                number(size(g.memory)),
                number(g.numa.map(|n| n.to_string()).unwrap_or_default()),
                cell(g.pci.as_deref().unwrap_or_default()),
                cell(&g.uuid),
            ]);
        }
        f.table(&t, on);
    }
    if !i.nics.is_empty() {
        f.section("Networks", on);
        let mut t = Table::new(&["NAME", "KIND", "SPEED", "STATE", "RAIL"]);
        for n in &i.nics {
            t.row(vec![
                cell(&n.name),
                cell(&n.kind),
                number(n.speed_mbps.map(|s| format!("{s} Mb/s")).unwrap_or_default()),
                cell(n.state.as_deref().unwrap_or_default()),
                cell(n.rail.as_deref().unwrap_or_default()),
            ]);
        }
        f.table(&t, on);
    }
    if !node.jobs.is_empty() {
        f.section("Jobs", on);
        let mut t = Table::new(&["ID", "NAME", "PROJECT", "STATE", "GPUS"]);
        for j in &node.jobs {
            let gpus: Vec<String> = j.gpus.iter().map(ToString::to_string).collect();
            t.row(vec![
                cell(&j.id),
                cell(&j.name),
                cell(&j.project),
                state(j.state.word()),
                cell(gpus.join(",")),
            ]);
        }
        f.table(&t, on);
    }
    if let Some(q) = node.qualified.as_ref().filter(|q| !q.checks.is_empty()) {
        f.section("Qualification", on);
        f.table(&super::node::qualify::checks(&q.checks), on);
    }
    if !node.faults.is_empty() {
        f.section("Faults", on);
        f.table(&super::faults::table(&node.faults, now, false), on);
    }
    f.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::job::{JobState, Verdict};

    #[test]
    fn a_job_is_described_with_its_attempts_and_why_each_ended() {
        let mut job = super::super::ps::tests::job(42, JobState::Queued);
        job.waiting = Some("waits for 2 nodes".into());
        job.attempts = 1;
        job.past = vec![muster_api::job::PastAttempt {
            no: 1,
            nodes: vec!["hgx-01".into(), "hgx-02".into()],
            placed_at: Time(0).into(),
            started_at: Some(Time(1000).into()),
            ended_at: Time(61_000).into(),
            verdict: Verdict::Infrastructure,
            reason: "node hgx-01 was lost".into(),
            findings: vec!["7".into()],
        }];
        let text = job_text(&job, &[], &[], Time(121_000), false);
        for part in [
            "Job:          42 (train)",
            "State:        queued",
            "Waiting:      waits for 2 nodes",
            "Submitted:    1970-01-01T00:00:00Z (2m ago)",
            "infrastructure  hgx-[01-02]  node hgx-01 was lost",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains("Exit code"), "what is not known is not shown:\n{text}");
        for absent in ["Starts by", "Preempted", "Elastic", "Idle"] {
            assert!(!text.contains(absent), "{absent} in\n{text}");
        }
    }

    #[test]
    fn a_promise_a_notice_and_the_fabric_are_described() {
        let mut job = super::super::ps::tests::job(42, JobState::Queued);
        job.preemptions = 2;
        job.promise = Some(muster_api::Promise {
            at: Time(60_000).into(),
            nodes: vec!["hgx-01".into(), "hgx-02".into()],
            basis: Basis::Preemption,
            since: Time(0).into(),
            moved: Some("node hgx-03 was lost".into()),
        });
        let text = job_text(&job, &[], &[], Time(30_000), false);
        for part in [
            "Starts by:    1970-01-01T00:01:00Z (in 30s) on hgx-[01-02]",
            "Rests on:     others that are being stopped for it; promised 30s ago",
            "Moved:        node hgx-03 was lost",
            "Preempted:    2 times",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        let mut running = super::super::ps::tests::running(43);
        if let Some(a) = &mut running.attempt {
            a.cap_watts = Some(550);
            a.slots[0].part = Some(HeldPart::Mig { profile: "3g.40gb".into(), start: 0, size: 4 });
            a.notice = Some(muster_api::Notice {
                reason: muster_model::job::StopReason::Resized { nodes: 4 },
                message: "it goes on with 4 nodes".into(),
                at: Time(0).into(),
                until: Time(90_000).into(),
            });
        }
        let text = job_text(&running, &[], &[], Time(30_000), false);
        for part in [
            "Fabric:     one leaf, rail-aligned",
            "Power cap:  550 W a GPU",
            "3g.40gb of 0,1,2",
            "will be stopped after its next checkpoint, or at 1970-01-01T00:01:30Z (in 1m): it goes on with 4 nodes",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }

    #[test]
    fn a_node_is_described_with_its_separate_axes() {
        let mut node = super::super::nodes::tests::node("hgx-01");
        node.cordon = Some("fan".into());
        node.role = muster_model::node::NodeRole::Spare;
        node.faults = vec![super::super::faults::tests::fault("xid-79")];
        node.qualified = Some(muster_api::Qualified {
            id: "7".into(),
            level: muster_model::qualification::Level::Quick,
            outcome: muster_model::qualification::Outcome::Failed,
            started_at: Time(0).into(),
            ended_at: Time(0).into(),
            took: muster_model::units::Span::secs(30),
            checks: vec![super::super::node::qualify::tests::check(3, 512_000)],
        });
        let text = node_text(&node, Time(0), false);
        for part in [
            "Reachable:    yes",
            "Cordoned:     fan",
            "Role:         spare",
            "████░░░░ 4/8 h100-sxm",
            "42  train",
            "Qualified:    failed (quick, just now, took 30s)",
            "gemm-bf16  3      512       690    635  TFLOP/s  failed",
            "xid-79",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }
}
