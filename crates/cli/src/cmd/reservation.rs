//! `muster reservation`: windows in which nodes belong to somebody, or to nobody.

use super::bulk::Refusals;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use muster_api::{Reservation, ReservationList, SetReservation, Timestamp};
use muster_client::Client;
use muster_model::names::{Label, NodeName, ProjectName};
use muster_model::reservation as m;
use muster_model::reservation::{Overrun, ReservationTarget};
use muster_model::topology::Level;
use muster_model::units::{Span, Time};
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::table::{Table, cell, number, state};
use muster_terminal::output::time;
use std::path::{Path, PathBuf};

/// List, create and delete reservations and maintenance windows
#[derive(Debug, Args)]
#[command(
    visible_alias = "reserve",
    after_help = "Examples:\n  muster reservation\n  \
muster reservation create night --gpus 64 --project nlp --start 2026-02-01T20:00:00Z \\\n    \
--length 10h --every 24h\n  \
muster reservation create fans --domain rack:r1 --start +2h --length 1h --maintenance \\\n    \
--reason 'replace fans'\n  \
muster reservation create demo --nodes 'hgx-[0001-0004]' --project nlp --length 3h --lend\n  \
muster reservation create night --gpus 64 --project nlp --start +2h --length 10h --dry-run\n  \
muster reservation apply night.yaml\n  muster reservation delete night"
)]
pub(crate) struct ReservationCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List them
    List,
    /// Create or replace what a file names
    Apply {
        /// YAML or JSON of `kind: Reservation`
        file: PathBuf,
        /// Only show which nodes they would cover and which jobs they would stop
        #[arg(long)]
        dry_run: bool,
    },
    /// Create one; --project (global) says whose, several with commas between
    Create(Create),
    /// Delete them
    Delete {
        /// Their names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("over").required(true).args(["nodes", "gpus", "domain"]))]
struct Create {
    /// Its name
    name: String,
    /// These nodes: names or ranges like hgx-[0001-0004], with commas between
    #[arg(long, value_name = "NODES")]
    nodes: Option<String>,
    /// Whole nodes with so many GPUs in all, chosen by the server
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
    /// Of this kind
    #[arg(long, requires = "gpus")]
    sku: Option<String>,
    /// Every node of a domain, such as leaf:l1 or rack:r07
    #[arg(long, value_name = "LEVEL:NAME")]
    domain: Option<String>,
    /// When it begins: now, +2h, or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", default_value = "now")]
    start: String,
    /// How long it lasts
    #[arg(long, value_name = "TIME")]
    length: Span,
    /// Begins again after so long, until it is deleted
    #[arg(long, value_name = "TIME")]
    every: Option<Span>,
    /// Nobody's work may run in it
    #[arg(long)]
    maintenance: bool,
    /// Why, for people
    #[arg(long, default_value = "")]
    reason: String,
    /// What happens to work of others that still runs when it begins
    #[arg(long, value_enum, default_value_t = OnBegin::Stop, value_name = "HOW")]
    overrun: OnBegin,
    /// Spot work of others may use what stays idle in it
    #[arg(long)]
    lend: bool,
    /// Only show which nodes it would cover and which jobs it would stop
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnBegin {
    /// It is stopped at the beginning and queued again
    Stop,
    /// It runs to its end
    Finish,
}

impl ReservationCmd {
    /// Are the projects those whose work runs in a new reservation?
    pub(crate) fn names_projects(&self) -> bool {
        matches!(&self.verb, Some(Verb::Create(c)) if !c.maintenance)
    }

    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        match self.verb {
            None | Some(Verb::List) => {
                let list = ctx.client()?.reservations().await?;
                if ctx.is_table() && list.items.is_empty() {
                    output::note(
                        "no reservations; `muster reservation create NAME --gpus N --project P \
                         --length 1h` creates one, `--maintenance` in place of `--project` keeps \
                         nodes empty",
                    );
                }
                ctx.show(&list, |l| table(&l.items, now()).render())?;
            }
            Some(Verb::Apply { file, dry_run }) => {
                let wanted = read(&file, now())?;
                let client = ctx.client()?;
                let mut made = Vec::new();
                for r in &wanted {
                    made.push(set(&client, r, dry_run).await?);
                }
                show(ctx, made, dry_run)?;
            }
            Some(Verb::Create(create)) => {
                if create.maintenance && ctx.typed_project().is_some() {
                    return Err(Fail::usage(
                        "--project: nobody's work runs in a maintenance window",
                    )
                    .hint("leave out --project, or --maintenance"));
                }
                let dry_run = create.dry_run;
                let list = create.nodes.as_deref().unwrap_or("-");
                let is_count = list.bytes().all(|b| b.is_ascii_digit());
                let wanted = create.wanted(ctx.global.project.as_deref(), now())?;
                let (name, body) = (wanted.name.as_str(), SetReservation::from_model(&wanted));
                let made = ctx.client()?.create_reservation(name, &body, dry_run).await;
                let made = made.map_err(|e| match e.is_not_found() && is_count {
                    true => Fail::from(e).hint(
                        "--nodes takes names, such as hgx-[0001-0002]; --gpus N reserves whole nodes \
                         with so many GPUs in all",
                    ),
                    false => Fail::from(e),
                })?;
                show(ctx, vec![made], dry_run)?;
            }
            Some(Verb::Delete { names }) => {
                let client = ctx.client()?;
                if names.len() > 1 {
                    for name in &names {
                        client.reservation(name).await?;
                    }
                }
                let mut refusals = Refusals::of("reservation", names.len());
                for name in &names {
                    match client.delete_reservation(name).await {
                        Ok(()) if ctx.is_table() => {
                            output::print(&format!("reservation {name} is deleted\n"))?;
                        }
                        Ok(()) => {}
                        Err(e) => refusals.add(name, e),
                    }
                }
                return refusals.end(0);
            }
        }
        Ok(0)
    }
}

async fn set(client: &Client, r: &m::Reservation, dry_run: bool) -> Result<Reservation, Fail> {
    let (name, body) = (r.name.as_str(), SetReservation::from_model(r));
    Ok(if dry_run {
        client.plan_reservation(name, &body).await?
    } else {
        client.set_reservation(name, &body, None).await?
    })
}

fn show(ctx: &Ctx, made: Vec<Reservation>, dry_run: bool) -> Result<(), Fail> {
    let now = now();
    match &made[..] {
        [one] => ctx.show(one, |r| describe_reservation(r, now, dry_run)),
        _ => ctx.show(&ReservationList { items: made, cursor: None }, |l| {
            l.items.iter().map(|r| describe_reservation(r, now, dry_run)).collect()
        }),
    }
}

/// What was reserved, whose work that stops and what of it takes no work.
fn describe_reservation(r: &Reservation, now: Time, dry_run: bool) -> String {
    let when = r.window.map_or("it is over".into(), |w| {
        format!("it is {}, from {} for {}", r.state, time::full(now, w.start), r.length)
    });
    let names = muster_specs::hostlist::compress(r.nodes.iter().map(String::as_str));
    let nodes = output::plural(r.nodes.len(), "node");
    let verb = if dry_run { "would cover" } else { "covers" };
    let mut out = format!("reservation {} {verb} {nodes}; {when}\n", r.name);
    if !r.nodes.is_empty() {
        out += &format!("  nodes: {names}\n");
    }
    for j in &r.stops {
        let at = r.window.map_or_else(String::new, |w| {
            if w.start.0 <= now {
                " now".into()
            } else {
                format!(" at {}", time::full(now, w.start))
            }
        });
        let does = if dry_run { "would be stopped" } else { "will be stopped" };
        out += &format!("  job {} ({}) of project {} {does}{at}\n", j.job, j.job_name, j.project);
    }
    // In a maintenance window nodes take no work on purpose.
    for n in r.not_serving.iter().filter(|_| !r.maintenance) {
        out += &format!("  node {} gets no work now: {}\n", n.node, n.why);
    }
    out
}

impl Create {
    fn wanted(self, project: Option<&str>, now: Time) -> Result<m::Reservation, Fail> {
        let usage = |flag: &str, e: String| Fail::usage(format!("{flag}: {e}"));
        let name: Label = self.name.parse().map_err(|e| Fail::usage(format!("{e}")))?;
        let names: Vec<&str> = project
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .collect();
        let projects: Vec<ProjectName> = match (names.is_empty(), self.maintenance) {
            (_, true) => Vec::new(),
            (true, false) => {
                return Err(Fail::usage("it does not name whose work may run in it")
                    .hint("add --project NAME, or --maintenance when nobody's may"));
            }
            (false, false) => names
                .iter()
                .map(|p| p.parse().map_err(|e| usage("--project", format!("{e}"))))
                .collect::<Result<_, _>>()?,
        };
        let over = match (&self.nodes, self.gpus, &self.domain) {
            (Some(list), _, _) => ReservationTarget::Nodes(nodes(list)?),
            (None, Some(count), _) => ReservationTarget::Gpus { count, sku: self.sku },
            (None, None, domain) => self::domain(domain.as_deref().unwrap_or_default())?,
        };
        let r = m::Reservation {
            name,
            projects,
            reason: self.reason,
            over,
            start: start(&self.start, now).map_err(|e| usage("--start", e))?,
            length: self.length,
            every: self.every,
            overrun: match self.overrun {
                OnBegin::Stop => Overrun::Stop,
                OnBegin::Finish => Overrun::Finish,
            },
            lend: self.lend,
        };
        r.check()?;
        Ok(r)
    }
}

fn nodes(list: &str) -> Result<Vec<NodeName>, Fail> {
    let bad = |e: String| Fail::usage(format!("--nodes: {e}"));
    let names = muster_specs::hostlist::expand(list).map_err(|e| bad(e.to_string()))?;
    names.iter().map(|n| n.parse().map_err(|e| bad(format!("{e}")))).collect()
}

/// `leaf:l1`.
fn domain(text: &str) -> Result<ReservationTarget, Fail> {
    let (level, path) = text.split_once(':').ok_or_else(|| {
        Fail::usage(format!("--domain: `{text}` has no `:`")).hint("write it like leaf:l1")
    })?;
    let level: Level = level.parse().map_err(|e| Fail::usage(format!("--domain: {e}")))?;
    Ok(ReservationTarget::Domain { level, path: path.into() })
}

/// `now`, `+2h`, or a time.
pub(super) fn start(text: &str, now: Time) -> Result<Time, String> {
    let text = text.trim();
    if text == "now" {
        return Ok(now);
    }
    if let Some(span) = text.strip_prefix('+') {
        return span.parse::<Span>().map(|s| now + s).map_err(|e| e.to_string());
    }
    text.parse::<Timestamp>().map(|t| t.0).map_err(|e| format!("{e}, `now` or +2h"))
}

fn read(file: &Path, now: Time) -> Result<Vec<m::Reservation>, Fail> {
    let origin = file.display().to_string();
    let written = muster_specs::document::reservations(&output::read_text(file)?, &origin)?;
    written
        .into_iter()
        .map(|w| {
            let at = start(&w.start, now).map_err(|e| {
                let (line, column) = w.start_at;
                muster_specs::FileError::new(&origin, e).at(line, column).about("start")
            })?;
            Ok(m::Reservation { start: at, ..w.reservation })
        })
        .collect()
}

/// The reservations as a table.
pub(crate) fn table(items: &[Reservation], now: Time) -> Table {
    let mut table = Table::new(&[
        "NAME", "STATE", "FOR", "BEGINS", "LENGTH", "EVERY", "NODES", "WHICH", "REASON",
    ]);
    for r in items {
        let whose = if r.maintenance { "maintenance".into() } else { r.projects.join(",") };
        let begins = r.window.map_or_else(|| r.start, |w| w.start);
        let names: Vec<&str> = r.nodes.iter().map(String::as_str).collect();
        table.row(vec![
            cell(&r.name),
            state(&r.state),
            cell(whose),
            cell(time::full(now, begins)),
            cell(r.length),
            cell(r.every.map(|e| e.to_string()).unwrap_or_default()),
            number(r.nodes.len()),
            cell(muster_specs::hostlist::compress(names)),
            cell(&r.reason),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use muster_api::{DisplacedJob, NodeOutOfService};

    fn create(args: &[&str]) -> Result<m::Reservation, String> {
        let all = ["muster", "reservation", "create"].iter().chain(args);
        let cli = Cli::try_parse_from(all).map_err(|e| e.to_string())?;
        let Command::Reservation(ReservationCmd { verb: Some(Verb::Create(c)) }) = cli.command
        else {
            panic!("create was typed")
        };
        let made = c.wanted(cli.global.project.as_deref(), Time(1_000_000));
        made.map_err(|f| format!("{} ({})", f.message, f.hint.unwrap_or_default()))
    }

    #[test]
    fn what_is_typed_becomes_a_reservation() {
        let r = create(&[
            "night",
            "--gpus",
            "64",
            "--sku",
            "h100-sxm",
            "--project",
            "nlp,speech",
            "--start",
            "+2h",
            "--length",
            "10h",
            "--every",
            "24h",
            "--overrun",
            "finish",
            "--lend",
        ])
        .unwrap();
        assert_eq!(r.over, ReservationTarget::Gpus { count: 64, sku: Some("h100-sxm".into()) });
        assert_eq!((r.projects.len(), r.start), (2, Time(1_000_000) + Span::hours(2)));
        assert_eq!((r.overrun, r.lend, r.every), (Overrun::Finish, true, Some(Span::hours(24))));
        let r = create(&[
            "fans",
            "--domain",
            "rack:r1",
            "--start",
            "now",
            "--length",
            "1h",
            "--maintenance",
            "--reason",
            "fans",
        ])
        .unwrap();
        assert!(r.is_maintenance());
        assert_eq!((r.start, r.reason.as_str()), (Time(1_000_000), "fans"));
        assert_eq!(r.over, ReservationTarget::Domain { level: Level::Rack, path: "r1".into() });
        let r = create(&["d", "--nodes", "n[1-3],x", "--length", "1h", "--maintenance"]).unwrap();
        assert!(matches!(r.over, ReservationTarget::Nodes(n) if n.len() == 4));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let ok = ["r", "--nodes", "n1", "--length", "1h"];
        let with = |more: &[&str]| {
            let all: Vec<&str> = ok.iter().chain(more).copied().collect();
            create(&all).unwrap_err()
        };
        assert!(with(&[]).contains("add --project NAME, or --maintenance"));
        assert!(with(&["--maintenance", "--start", "soon"]).contains("`now` or +2h"));
        assert!(with(&["--maintenance", "--start", "+soon"]).contains("length of time"));
        assert!(with(&["--maintenance", "--every", "1m"]).contains("begins again before"));
        assert!(with(&["--maintenance", "--gpus", "8"]).contains("cannot be used with"));
        assert!(create(&["r", "--length", "1h", "--maintenance"]).unwrap_err().contains("--nodes"));
        let e = create(&["r", "--domain", "l1", "--length", "1h", "--maintenance"]).unwrap_err();
        assert!(e.contains("write it like leaf:l1"), "{e}");
    }

    #[test]
    fn who_is_stopped_and_what_takes_no_work_is_said() {
        let args = ["night", "--gpus", "16", "--length", "1h", "--project", "nlp", "--dry-run"];
        let r = create(&args).unwrap();
        let now = Time(1_000_000);
        let mut shown = Reservation::of(&r, 3, vec!["n1".into(), "n2".into()], now - Span::mins(1));
        let (job, job_name, project) = ("17".into(), "train".into(), "vision".into());
        shown.stops = vec![DisplacedJob { job, job_name, project }];
        shown.not_serving = vec![NodeOutOfService { node: "n2".into(), why: "drained".into() }];
        let text = describe_reservation(&shown, now - Span::mins(1), true);
        assert_eq!(
            text,
            "reservation night would cover 2 nodes; it is scheduled, from 1970-01-01T00:16:40Z (in 1m) for 1h\n  \
             nodes: n[1-2]\n  \
             job 17 (train) of project vision would be stopped at 1970-01-01T00:16:40Z (in 1m)\n  \
             node n2 gets no work now: drained\n"
        );
        shown.maintenance = true;
        let text = describe_reservation(&shown, now, false);
        assert!(text.contains("job 17 (train) of project vision will be stopped now\n"), "{text}");
        assert!(!text.contains("takes no work"), "{text}");
    }

    #[test]
    fn reservations_are_listed_with_whose_and_when() {
        let r =
            create(&["night", "--nodes", "n[1-2]", "--length", "1h", "--project", "nlp"]).unwrap();
        let shown = Reservation::of(&r, 3, vec!["n1".into(), "n2".into()], Time(1_000_000));
        let text = table(&[shown], Time(1_000_000)).render_for(None, false);
        assert_eq!(
            text,
            "NAME   STATE   FOR  BEGINS                           LENGTH  EVERY  NODES  WHICH   REASON\n\
             night  active  nlp  1970-01-01T00:16:40Z (just now)  1h                 2  n[1-2]\n"
        );
    }
}
