//! `muster failure-modes`: the map of what can go wrong.

use clap::Args;
use muster_api::FailureMode;
use muster_health::modes::MODES;
use muster_model::remediation::{Action, Mode, Remediations};
use muster_model::units::Time;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::time::relative;

/// List failure modes: how each is detected and remediated, when it was last seen
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster failure-modes\n  muster failure-modes -o json | jq '.items[] | select(.open > 0)'\n  \
muster failure-modes --markdown > docs/failure-modes.md    needs no server"
)]
pub(crate) struct FailureModes {
    /// All of them as a page of Markdown; needs no server
    #[arg(long)]
    markdown: bool,
}

impl FailureModes {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        if self.markdown {
            ctx.only_text("--markdown", "`muster failure-modes -o json` asks the server")?;
            output::print(&markdown())?;
            return Ok(0);
        }
        let client = ctx.client()?;
        let list = client.failure_modes().await?;
        if ctx.is_table()
            && let Some(own) = client.whoami().await?.project
        {
            output::note(&format!(
                "note: OPEN, SEEN and LAST are those of findings about jobs of project {own}; others are \
                 not shown to this token"
            ));
        }
        ctx.show(&list, |l| table(&l.items, now()).render())?;
        Ok(0)
    }
}

pub(super) fn action_list(actions: &[Action]) -> String {
    actions.iter().map(|a| a.word()).collect::<Vec<_>>().join(", ")
}

fn table(modes: &[FailureMode], now: Time) -> Table {
    let mut table =
        Table::new(&["CODE", "SEVERITY", "CLASS", "REMEDIATION", "OPEN", "SEEN", "LAST"]);
    for m in modes {
        table.row(vec![
            cell(&m.code),
            super::findings::severity(m.severity),
            cell(m.class.word()),
            cell(action_list(&m.steps)),
            number(m.open),
            number(m.count),
            cell(m.last_seen.map(|t| relative(now, t)).unwrap_or_else(|| "never".into())),
        ]);
    }
    table
}

/// The map as `docs/failure-modes.md` holds it.
pub(crate) fn markdown() -> String {
    let mut text = "\
# Failure modes

<!-- Made by `muster failure-modes --markdown`. Do not edit: change crates/health/src/modes.rs. -->

Everything that Muster knows can go wrong. Each has a stable code, which findings, incidents, rules
of the policy and drills name. The remediation is what is done unless the policy says otherwise:
step 1 first, the next step when that did not help for long ([remediations.md](remediations.md)).

| code | what | class | severity | remediation | work leaves |
| --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    for m in MODES {
        text.push_str(&format!(
            "| [`{}`](#{}) | {} | {} | {} | {} | {} |\n",
            m.code,
            m.code,
            m.title,
            m.class.word(),
            m.severity.word(),
            action_list(m.steps),
            format!("{:?}", m.leave).to_lowercase(),
        ));
    }
    text.push_str(
        "\nWork leaves `now` (it is stopped at once), after a `checkpoint` (it is asked for one and\n\
         continues elsewhere), or may `finish` for as long as the policy waits.\n",
    );
    for m in MODES {
        text.push_str(&format!(
            "\n### {}\n\n{}.\n\n- **Found by** {}.\n- **A false alarm costs** {}.\n- **Remediation** {}.\n- **What people do** {}\n- **Step by step** {}.\n- **Drill** {}.\n",
            m.code, m.title, m.detector, m.false_alarm, steps(m.steps), m.runbook, book(m.code), drill(m.drill),
        ));
    }
    text.push_str(
        "\n## Not covered yet\n\nKnown from other sites; no detector of Muster's own names them.\n\n",
    );
    for (what, instead) in NOT_YET {
        text.push_str(&format!("- **{what}**: {instead}.\n"));
    }
    text
}

/// What sites know to go wrong and no failure mode stands for, with what there is instead.
const NOT_YET: &[(&str, &str)] = &[
    (
        "Noisy neighbours",
        "ranks have processors, memory and GPUs of their own ([isolation.md](isolation.md)); caches, disks and the network of a node are shared, and nothing says who disturbs whom",
    ),
    (
        "Starvation by fragmentation",
        "`muster explain` and `muster defrag` show it; there is no finding",
    ),
    ("MIG slices that fit nobody", "the same"),
    (
        "Congestion of the whole network",
        "tests between nodes find slow paths, not a network that is slow everywhere at once",
    ),
    (
        "Firmware that differs between nodes",
        "only what the kernel says, and failures that follow a version (`bad-version`), are seen; settings are not compared with the pool's",
    ),
    (
        "Storms of checkpoints",
        "seen as `storage-slow` when they slow the file system down; writers are not named",
    ),
    (
        "Coolant leaks",
        "no sensor of the data hall or the rack is read; hot GPUs and lost racks are seen",
    ),
    ("Preemption without a checkpoint", "the work is lost and counted; there is no finding"),
    (
        "Runaway cost of an experiment",
        "quotas and budgets limit it ([scheduling.md](scheduling.md)); there is no finding",
    ),
    (
        "GPUs that are allocated and idle",
        "the policy warns and takes them back ([scheduling.md](scheduling.md)); there is no finding",
    ),
];

/// The steps, with who decides by default.
pub(super) fn steps(actions: &[Action]) -> String {
    let by_default = Remediations::default();
    let described = |a: &Action| {
        let who = match by_default.mode(*a) {
            Mode::DetectOnly => "no action",
            Mode::Approve => "on approval",
            Mode::Automatic => "automatic",
        };
        format!("{} ({who})", a.words())
    };
    actions.iter().map(described).collect::<Vec<_>>().join(", then ")
}

/// The runbook that serves it.
fn book(code: &str) -> String {
    match muster_runbook::builtin::for_mode(code) {
        Some(b) => format!("[{}](runbooks/{}.md)", b.title, b.name),
        None => "no runbook yet".to_owned(),
    }
}

/// How it is practised.
fn drill(name: &str) -> String {
    if muster_gameday::knows(name) {
        format!("`muster gameday run {name}`")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_code_says() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/failure-modes.md");
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        assert!(
            kept == markdown(),
            "docs/failure-modes.md is not what the code says: \
             `muster failure-modes --markdown > docs/failure-modes.md` makes it anew"
        );
    }

    #[test]
    fn every_failure_mode_has_a_runbook_and_every_runbook_names_modes_that_exist() {
        for m in MODES {
            let book = muster_runbook::builtin::for_mode(m.code);
            assert!(book.is_some(), "no runbook in docs/runbooks serves {}", m.code);
        }
        for b in muster_runbook::builtin::books() {
            for m in &b.modes {
                assert!(
                    muster_health::modes::mode(m).is_some(),
                    "{}: there is no mode {m}",
                    b.name
                );
            }
        }
    }

    #[test]
    fn the_list_fits_eighty_columns() {
        let items: Vec<FailureMode> = MODES
            .iter()
            .map(|m| FailureMode {
                code: m.code.into(),
                title: m.title.into(),
                class: m.class,
                severity: m.severity,
                detector: m.detector.into(),
                steps: m.steps.to_vec(),
                leave: m.leave,
                drill: m.drill.into(),
                false_alarm: m.false_alarm.into(),
                runbook: m.runbook.into(),
                runbooks: Vec::new(),
                open: 1,
                count: 12,
                last_seen: Some(Time(60_000).into()),
            })
            .collect();
        let text = table(&items, Time(120_000)).render_for(Some(80), false);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(text.contains("gpu-off-bus") && text.contains("1m ago"), "{text}");
    }
}
