//! One tenant submits while others take all they can get: idle connections, watchers, scrapers and a
//! tenant who sends the worst inputs. What the first one feels of it, and whether probes stay true.
//! An honest client: it knows the server's API and nothing else of it.

mod attack;
mod crowd;
mod pages;
mod parts;
mod tenant;

pub(crate) use parts::PARTS;

use crate::Options;
use crate::agents::{raise_file_limit, start_fleet, wait_connected};
use crate::http::{Client, Target};
use crate::load::runtime;
use crate::report::Report;
use crate::stats::percentile;
use anyhow::{Context, Result, ensure};
use attack::Attack;
use bytes::Bytes;
use crowd::{ConnectionCounts, Crowd, CrowdPlan, SCRAPERS};
use hyper::Method;
use hyper::header::{ACCEPT_ENCODING, HeaderValue};
use parts::Parts;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tenant::{Answers, Measured};
use xtask::site::Site;

/// Submits of the other tenant must be answered within this, all but one in a hundred.
const TARGET_MS: f64 = 100.0;
/// Open files with which the server has all the connections that it may have.
const FILES: u64 = 40_000;

/// Quotas of the site, each with a project of its own: who asks for theirs has all of them added up.
const QUOTAS: usize = 500;

/// Threads of the server that used less together are not shown.
const SHOWN_CORES: f64 = 0.01;
/// Moments at which something was late that are shown.
const SHOWN_LATE: usize = 40;

struct Plan {
    nodes: u32,
    idle: usize,
    watchers: usize,
    quiet: Duration,
    ramp: Duration,
    load: Duration,
}

impl Plan {
    fn of(options: &Options) -> Plan {
        let s = Duration::from_secs;
        let mut plan = if options.quick {
            Plan { nodes: 32, idle: 500, watchers: 200, quiet: s(10), ramp: s(10), load: s(30) }
        } else {
            Plan { nodes: 256, idle: 5000, watchers: 2000, quiet: s(30), ramp: s(30), load: s(600) }
        };
        plan.nodes = options.nodes.unwrap_or(plan.nodes);
        plan.load = options.seconds.map_or(plan.load, Duration::from_secs);
        plan
    }
}

/// Who takes part, each with a token.
struct Callers {
    good: Target,
    bad: Target,
    scraper: Target,
    anybody: Target,
    watchers: Vec<Target>,
}

pub(crate) fn run(options: &Options) -> Result<Report> {
    let (plan, parts) = (Plan::of(options), Parts::of(options));
    let files = raise_files(plan.idle + plan.watchers)?;
    let mut report = Report::new("pressure");
    let mut site = Site::start(&options.muster(), &options.scratch(), &["server"], &[])?;
    let mut fleet = start_fleet(options, &site, plan.nodes)?;
    wait_connected(&site, &mut fleet, plan.nodes, Duration::from_secs(300))?;
    let (callers, last) = runtime()?.block_on(async {
        let callers = Callers::make(&site).await?;
        let last = attack::prepare(&callers.bad, plan.nodes, options.arrays).await?;
        Ok::<_, anyhow::Error>((callers, last))
    })?;
    // Nodes and arrays are there; what came of making them is over.
    std::thread::sleep(Duration::from_secs(10));
    let pid = site.pid().context("the server is not running")?;
    let measure = |length, look: &mut dyn FnMut()| {
        tenant::measure(&callers.good, &callers.anybody, pid, length, look)
    };

    eprintln!("quiet for {} s", plan.quiet.as_secs());
    let quiet = measure(plan.quiet, &mut || {})?;
    show(&mut report, "quiet_", quiet)?;

    let (crowd, attack) = (Crowd::default(), Attack::default());
    let load = load_runtime()?;
    {
        let _entered = load.enter();
        crowd.start(&CrowdPlan {
            port: site.port(),
            idle: parts.count("idle", plan.idle),
            watchers: parts.count("watchers", plan.watchers),
            watch_tokens: &callers.watchers,
            scrapers: parts.count("scrapers", SCRAPERS),
            scraper: &callers.scraper,
            anonymous: parts.count("anonymous", SCRAPERS),
            anybody: &callers.anybody,
            within: plan.ramp.mul_f64(0.7),
        });
        attack.begin(&callers.bad, plan.nodes, &last, options.arrays, &parts);
    }
    eprintln!("the load begins: {} s", plan.ramp.as_secs());
    let mut ramp = measure(plan.ramp, &mut || {})?;
    let ramp_p99 = percentile(&mut ramp.submits.good_ms, 99.0).unwrap_or(f64::NAN);

    eprintln!("under load for {} s", plan.load.as_secs());
    let admin = bearer(site.port(), site.token())?;
    let metrics = || runtime()?.block_on(pages::page(&admin));
    let page_before = metrics()?;
    let before = (ClientCounts::of(&crowd, &attack), attack.now());
    let mut looks = Vec::new();
    let loaded = measure(plan.load, &mut || looks.push(ClientCounts::of(&crowd, &attack)))?;
    let after = (ClientCounts::of(&crowd, &attack), attack.now());
    let page_after = metrics()?;
    // The load ends with its runtime, before the server does.
    load.shutdown_timeout(Duration::from_secs(10));
    site.must_be_running()?;
    fleet.must_be_running()?;

    report.quietly("ramp_submit_p99_ms", "ms", ramp_p99);
    show(&mut report, "", loaded)?;
    for (name, p99) in pages::p99_ms(&page_before, &page_after) {
        report.ours(&format!("server_{name}_p99_ms"), "ms", p99);
    }
    show_load(&mut report, &looks, &before, &after, plan.load);
    if let Some(missing) = parts.missing() {
        report.note(format!("Not all of the load ran. Left out: {missing}."));
    }
    // A submit that was refused was not answered in time either.
    let met = report.value("in_time_percent").is_some_and(|share| share >= 99.0)
        && report.value("probes_true_percent").is_some_and(|share| share >= 100.0);
    report.note(format!(
        "Target: 99% of the submits accepted within {TARGET_MS} ms and every probe true: {}.",
        if met { "met" } else { "not met" }
    ));
    report.note(format!(
        "{} idle connections (half have sent half a head), {} watchers, {SCRAPERS} scrapers with a token and \
         {SCRAPERS} without, one tenant with the worst inputs, {} nodes, {} s; client and server on one machine, \
         {files} files each. One submit every 50 ms, from when it was due to its answer, on a new \
         connection each; a refused one is in refused_percent. A probe is true with 200 within 1 s. \
         server_cores and client_cores are of the load; nodes are in neither.",
        plan.idle,
        plan.watchers,
        plan.nodes,
        plan.load.as_secs()
    ));
    Ok(report)
}

/// Threads of the load: half of the cores, so that the server keeps the rest.
fn load_runtime() -> Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores / 2).clamp(1, 8))
        .enable_all()
        .build()
        .context("cannot start the load")
}

/// Raises the limit of open files for us and the server, as far as we may; gives what it is.
fn raise_files(connections: usize) -> Result<u64> {
    if raise_file_limit(FILES).is_err() {
        let most = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most })
            .context("the limit of open files cannot be raised")?;
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // The server keeps half of its files for agents and the store.
    let needed = 2 * (connections as u64 + 1000);
    ensure!(
        files >= needed,
        "{files} open files are allowed and {needed} are needed: raise the hard limit (ulimit -Hn)"
    );
    Ok(files)
}

fn bearer(port: u16, token: &str) -> Result<Target> {
    Target::new(port, &[("Authorization", &format!("Bearer {token}"))])
}

async fn make(client: &mut Client, path: &str, what: &Value) -> Result<Value> {
    let body = Bytes::from(what.to_string());
    let (status, body) = client.call(&Method::POST, path, body).await?;
    ensure!(status == 201, "POST {path}: {status} {}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).with_context(|| format!("POST {path}: not JSON"))
}

/// A tree whose limits are for GPUs that the site does not have: it keeps nobody's job waiting.
fn quotas() -> Value {
    let limits = json!([{"sku": "none", "nominal": 1}]);
    let team = |n: usize| {
        let name = format!("team-{n}");
        json!({"name": name, "parent": "site", "projects": [name], "gpus": limits})
    };
    let mut tree = vec![
        json!({"name": "site"}),
        json!({"name": "bad", "parent": "site", "projects": ["bad"], "gpus": limits}),
    ];
    tree.extend((0..QUOTAS).map(team));
    json!({"quotas": {"tree": tree}})
}

async fn set_quotas(admin: &mut Client) -> Result<()> {
    for n in 0..QUOTAS {
        make(admin, "/v1/projects", &json!({"name": format!("team-{n}")})).await?;
    }
    let tree = Bytes::from(quotas().to_string());
    let (status, body) = admin.call(&Method::PUT, "/v1/quotas", tree).await?;
    ensure!(status == 200, "PUT /v1/quotas: {status} {}", String::from_utf8_lossy(&body));
    Ok(())
}

impl Callers {
    async fn make(site: &Site) -> Result<Callers> {
        let mut admin = Client::new(bearer(site.port(), site.token())?);
        for project in ["good", "bad"] {
            make(&mut admin, "/v1/projects", &json!({"name": project})).await?;
        }
        set_quotas(&mut admin).await?;
        let mut targets = Vec::new();
        // Two tenants, a scraper, and the tokens that watchers share: of both tenants, and of the site.
        let callers = [("user", Some("good")), ("user", Some("bad")), ("viewer", None)];
        let watchers = [Some("good"), Some("good"), Some("good"), Some("bad"), None]
            .into_iter()
            .map(|project| ("viewer", project));
        for (n, (role, project)) in callers.into_iter().chain(watchers).enumerate() {
            let mut wanted = json!({"name": format!("pressure-{n}"), "role": role});
            if let Some(project) = project {
                wanted["project"] = project.into();
            }
            let made = make(&mut admin, "/v1/tokens", &wanted).await?;
            let secret = made["secret"].as_str().context("the answer has no secret")?;
            targets.push(bearer(site.port(), secret)?);
        }
        let watchers = targets.split_off(3);
        let [good, bad, mut scraper] =
            <[Target; 3]>::try_from(targets).ok().context("tokens are missing")?;
        // As Prometheus asks.
        scraper.headers.push((ACCEPT_ENCODING, HeaderValue::from_static("gzip")));
        let anybody = Target::new(site.port(), &[])?;
        Ok(Callers { good, bad, scraper, anybody, watchers })
    }
}

/// How many of each there are.
struct ClientCounts {
    idle: ConnectionCounts,
    watchers: ConnectionCounts,
    scrapers: ConnectionCounts,
    anonymous: ConnectionCounts,
    bodies: ConnectionCounts,
    unread: ConnectionCounts,
}

impl ClientCounts {
    fn of(crowd: &Crowd, attack: &Attack) -> ClientCounts {
        ClientCounts {
            idle: crowd.idle.now(),
            watchers: crowd.watchers.now(),
            scrapers: crowd.scrapers.now(),
            anonymous: crowd.anonymous.now(),
            bodies: attack.bodies.now(),
            unread: attack.unread.now(),
        }
    }
}

/// What the tenant and the probes met, as cases of this prefix.
fn show(report: &mut Report, prefix: &str, mut m: Measured) -> Result<()> {
    let mut ours = |name: &str, unit, value| report.ours(&format!("{prefix}{name}"), unit, value);
    let times = |a: &mut Answers, percent| percentile(&mut a.good_ms, percent);
    for (name, percent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("max", 100.0)] {
        let took = times(&mut m.submits, percent).context("no submit was accepted")?;
        ours(&format!("submit_{name}_ms"), "ms", took);
    }
    ours("submits", "jobs", m.submits.sent() as f64);
    ours("in_time_percent", "%", m.submits.within_percent(TARGET_MS));
    ours("refused_percent", "%", m.submits.bad_percent());
    ours("uncancelled", "jobs", m.uncancelled as f64);
    ours("probes", "probes", m.probes.sent() as f64);
    ours("probes_true_percent", "%", 100.0 - m.probes.bad_percent());
    for (name, percent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("max", 100.0)] {
        let took = times(&mut m.probes, percent).context("no probe was true")?;
        ours(&format!("probe_{name}_ms"), "ms", took);
    }
    ours("rss_mib", "MiB", m.rss_mib);
    ours("server_cores", "cores", m.server_cores);
    ours("client_cores", "cores", m.client_cores);
    let own_delay = percentile(&mut m.own_delay_ms, 99.0).unwrap_or(f64::NAN);
    ours("client_delay_p99_ms", "ms", own_delay);
    for (name, of) in m.threads.iter().filter(|(_, of)| of.cores >= SHOWN_CORES) {
        ours(&format!("server_cores_{name}"), "cores", of.cores);
    }
    let threads: Vec<String> = m
        .threads
        .iter()
        .filter(|(_, of)| of.cores >= SHOWN_CORES)
        .map(|(name, of)| {
            format!(
                "  {name}: {} threads, {:.2} cores, {:.2} at most",
                of.threads, of.cores, of.most
            )
        })
        .collect();
    report.note(format!("{prefix}server_cores by the names of threads:\n{}", threads.join("\n")));
    for (what, answers) in [("submits", &mut m.submits), ("probes", &mut m.probes)] {
        let late = answers.late();
        if !late.is_empty() {
            let shown = late.iter().take(SHOWN_LATE).map(|(at, n)| format!("{at:.2} ({n})"));
            let shown: Vec<String> = shown.collect();
            report.note(format!(
                "{prefix}{what} that took {TARGET_MS} ms or more were due at these seconds (so many \
                 together; {} times in all): {}",
                late.len(),
                shown.join(", ")
            ));
        }
    }
    for (what, bad) in [("submits", &m.submits.bad), ("probes", &m.probes.bad)] {
        if !bad.is_empty() {
            report
                .note(format!("{prefix}{what} that were not answered as they should be: {bad:?}"));
        }
    }
    Ok(())
}

type AttackAnswers = BTreeMap<(&'static str, u16), u64>;

/// What load there was.
fn show_load(
    report: &mut Report,
    looks: &[ClientCounts],
    before: &(ClientCounts, AttackAnswers),
    after: &(ClientCounts, AttackAnswers),
    length: Duration,
) {
    let mean = |of: fn(&ClientCounts) -> u64| {
        looks.iter().map(of).sum::<u64>() as f64 / looks.len().max(1) as f64
    };
    let seconds = length.as_secs_f64();
    let counted = |of: fn(&ClientCounts) -> ConnectionCounts| of(&after.0).since(of(&before.0));
    let (idle, watchers) = (counted(|s| s.idle), counted(|s| s.watchers));
    report.ours("idle_standing", "connections", mean(|s| s.idle.standing));
    report.ours("idle_closed", "connections", idle.closed as f64);
    report.ours("idle_refused", "connections", idle.refused as f64);
    report.ours("watchers_standing", "streams", mean(|s| s.watchers.standing));
    report.ours("watchers_closed", "streams", watchers.closed as f64);
    report.ours("watchers_refused", "streams", watchers.refused as f64);
    report.ours("watchers_mib_per_s", "MiB/s", watchers.bytes as f64 / 1_048_576.0 / seconds);
    for (name, of) in
        [("scrapes", counted(|s| s.scrapers)), ("anonymous_scrapes", counted(|s| s.anonymous))]
    {
        report.ours(&format!("{name}_per_s"), "1/s", of.answers as f64 / seconds);
        report.ours(&format!("{name}_refused"), "answers", of.refused as f64);
    }
    report.ours("bodies_standing", "bodies", mean(|s| s.bodies.standing));
    report.ours("bodies_closed", "bodies", counted(|s| s.bodies).closed as f64);
    report.ours("unread_standing", "streams", mean(|s| s.unread.standing));
    let mut answers = after.1.clone();
    for (what, n) in &before.1 {
        *answers.entry(*what).or_default() -= n;
    }
    let all: u64 = answers.values().sum();
    let within = |of: fn(u16) -> bool| -> u64 {
        answers.iter().filter(|((_, status), _)| of(*status)).map(|(_, n)| n).sum()
    };
    report.ours("attack_per_s", "1/s", all as f64 / seconds);
    report.ours("attack_unanswered", "requests", within(|s| s == 0) as f64);
    report.ours("attack_5xx", "requests", within(|s| s >= 500) as f64);
    let lines: Vec<String> = answers
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|((what, status), n)| format!("  {what}: {n} x {status}"))
        .collect();
    report.note(format!("What the attacking tenant was answered:\n{}", lines.join("\n")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_project_of_the_tree_hangs_on_one_quota_and_the_measured_one_on_none() {
        let tree = quotas();
        let all = tree["quotas"]["tree"].as_array().unwrap();
        let projects = all.iter().filter_map(|q| q["projects"][0].as_str());
        let projects: std::collections::BTreeSet<&str> = projects.collect();
        assert_eq!((all.len(), projects.len()), (QUOTAS + 2, QUOTAS + 1));
        assert!(projects.contains("bad") && !projects.contains("good"));
    }

    #[test]
    fn the_load_is_reported_beside_what_came_before_it() {
        let nothing = || ClientCounts::of(&Crowd::default(), &Attack::default());
        let (crowd, attack) = (Crowd::default(), Attack::default());
        let standing = crowd.idle.register_open();
        crowd.watchers.refuse();
        let after =
            (ClientCounts::of(&crowd, &attack), BTreeMap::from([(("x", 422), 30), (("x", 0), 2)]));
        let before = (nothing(), BTreeMap::from([(("x", 422), 10)]));
        let mut report = Report::new("pressure");
        let looks = [nothing(), ClientCounts::of(&crowd, &attack)];
        show_load(&mut report, &looks, &before, &after, Duration::from_secs(2));
        drop(standing);
        assert_eq!(report.value("idle_standing"), Some(0.5));
        assert_eq!(report.value("watchers_refused"), Some(1.0));
        assert_eq!(report.value("attack_per_s"), Some(11.0));
        assert_eq!(report.value("attack_unanswered"), Some(2.0));
        assert!(report.table().contains("x: 20 x 422"));
    }
}
