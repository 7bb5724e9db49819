//! `muster doctor`: checks of this machine and its configuration.

mod machine;

use super::store::site_of;
use clap::Args;
use muster_api::JobsQuery;
use muster_client::ClientError;
use muster_model::units::Time;
use muster_terminal::config::{default_data_dir, user_config};
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::{FAILED, Fail};
use muster_terminal::output::colour::{self, Style, paint};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Check this machine and its configuration, and show how to fix what is wrong
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster doctor\n  muster doctor -o json | jq '.items[] | select(.state != \"ok\")'\n\n\
Of the data directory it checks what a server or an agent checks when it starts; run it as the user\n\
who runs them. Exits with 1 when something fails; warnings alone exit with 0."
)]
pub(crate) struct Doctor {
    /// The data directory to look at
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    name: &'static str,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

pub(super) fn ok(name: &'static str, detail: impl Into<String>) -> Check {
    Check { name, state: State::Ok, detail: detail.into(), fix: None }
}

pub(super) fn warn(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Check {
    Check { name, state: State::Warn, detail: detail.into(), fix: Some(fix.into()) }
}

pub(super) fn fail(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Check {
    Check { name, state: State::Fail, detail: detail.into(), fix: Some(fix.into()) }
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    items: Vec<Check>,
}

impl Doctor {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let unnamed = self.data_dir.is_none();
        let dir = self.data_dir.unwrap_or_else(default_data_dir);
        let mut items = vec![settings(ctx)];
        items.extend(server(ctx, unnamed.then_some(dir.as_path())).await);
        items.push(machine::data_dir(&dir));
        items.push(machine::disk(&dir));
        items.push(machine::cgroups());
        items.extend(machine::isolation());
        items.extend(machine::certificates(&dir, now()));
        let report = Report { ok: items.iter().all(|c| c.state != State::Fail), items };
        ctx.show(&report, |r| text(&r.items, colour::on()))?;
        Ok(if report.ok { 0 } else { FAILED })
    }
}

fn text(items: &[Check], on: bool) -> String {
    let mut text = String::new();
    for c in items {
        let (word, style) = match c.state {
            State::Ok => ("ok  ", Style::Good),
            State::Warn => ("warn", Style::Warn),
            State::Fail => ("FAIL", Style::Bad),
        };
        let detail: String =
            c.detail.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text.push_str(&format!("{}  {:<13} {detail}\n", paint(word, style, on), c.name));
        if let Some(fix) = &c.fix {
            text.push_str(&format!("      fix: {fix}\n"));
        }
    }
    text
}

fn settings(ctx: &Ctx) -> Check {
    match ctx.settings() {
        Err(e) => fail("settings", e.message, e.hint.unwrap_or_else(|| "fix the file".into())),
        Ok(s) => {
            let file = user_config(&ctx.global).filter(|f| f.exists());
            let from = file.map(|f| format!(", {}", f.display())).unwrap_or_default();
            let token = if s.token.is_some() { "with a token" } else { "without a token" };
            ok("settings", format!("server {} {token}{from}", s.server))
        }
    }
}

/// What can be said of the server, from reaching it to its clock; and whether the data directory that
/// nobody named is its own.
async fn server(ctx: &Ctx, unnamed: Option<&Path>) -> Vec<Check> {
    let Ok(settings) = ctx.settings() else { return Vec::new() };
    let client = match ctx.impatient_client() {
        Ok(client) => client,
        Err(e) => {
            let fix = e.hint.unwrap_or_else(|| "fix the settings".into());
            return vec![fail("server", e.message, fix)];
        }
    };
    let mut checks = Vec::new();
    match client.readyz().await {
        Ok(_) => checks.push(ok("server", format!("{} answers and is ready", client.server()))),
        Err(e @ ClientError::Unreachable { .. }) => {
            let f = Fail::from(e);
            checks.push(fail("server", f.message, f.hint.unwrap_or_default()));
            checks.extend(machine::ports(&settings.server));
            return checks;
        }
        Err(e) => checks.push(warn(
            "server",
            format!("{} answers but is not ready: {e}", client.server()),
            "look at its own output; `muster store check` reads its log",
        )),
    }
    match client.whoami().await {
        Ok(me) => checks.push(ok("token", format!("works as {}", me.name))),
        Err(e) => {
            let f = Fail::from(e);
            let fix = f.hint.unwrap_or_else(|| "make one with `muster token create`".into());
            checks.push(fail("token", f.message, fix));
            return checks;
        }
    }
    if let Some(project) = &settings.project {
        let query =
            JobsQuery { project: Some(project.clone()), limit: Some(1), ..JobsQuery::default() };
        checks.push(match client.jobs(&query).await {
            Ok(_) => ok("project", format!("{project} is there")),
            Err(e) => {
                let f = Fail::from(e);
                let fix = f.hint.unwrap_or_else(|| "`muster project list` lists them".into());
                fail("project", f.message, fix)
            }
        });
    }
    let before = now();
    match client.server_info().await {
        Ok(info) => {
            checks.push(clock(before, now(), info.at.0));
            // A directory without a site may be an agent's, or of a machine that has no server.
            let other = |dir: &&Path| site_of(dir).is_some_and(|site| site != info.site);
            if let Some(dir) = unnamed.filter(other) {
                let detail =
                    format!("{} is of another site than {}", dir.display(), client.server());
                checks.push(warn("data", detail, "name the server's own with --data-dir"));
            }
            for warning in info.warnings {
                checks.push(warn(
                    "site",
                    warning,
                    "see `muster nodes` and the server's own output",
                ));
            }
            if let Some(n) = info.nodes_protected.filter(|n| *n > 0) {
                let detail = format!(
                    "{n} nodes are ahead of this server: it was restored from an old backup"
                );
                let fix = "look at each, then `muster node reconcile NODE`";
                checks.push(warn("site", detail, fix));
            }
        }
        Err(e) => {
            checks.push(warn("clock", format!("the server sends no time: {e}"), "ask an operator"));
        }
    }
    checks
}

/// The server's clock must lie between the question and the answer, give or take.
fn clock(asked: Time, answered: Time, server: Time) -> Check {
    let early = asked.0 - server.0;
    let late = server.0 - answered.0;
    let off = early.max(late).max(0);
    let detail = format!("differs from the server's by {off} ms");
    match off {
        0..=1000 => ok("clock", "agrees with the server's"),
        1001..=30_000 => {
            warn("clock", detail, "let both machines follow a time server (chrony, ntpd)")
        }
        _ => fail(
            "clock",
            detail,
            "let both machines follow a time server: certificates and tokens depend on it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_is_reported_only_beyond_what_the_question_took() {
        assert_eq!(clock(Time(0), Time(10), Time(5)).state, State::Ok);
        assert_eq!(clock(Time(0), Time(4000), Time(3500)).state, State::Ok, "a slow answer");
        assert_eq!(clock(Time(0), Time(10), Time(5000)).state, State::Warn);
        assert_eq!(clock(Time(100_000), Time(100_010), Time(0)).state, State::Fail);
    }

    #[test]
    fn every_fault_says_how_to_fix_it() {
        let text = text(&[ok("a", "fine"), fail("b", "broken", "turn it on")], false);
        assert_eq!(
            text,
            "ok    a             fine\nFAIL  b             broken\n      fix: turn it on\n"
        );
    }
}
