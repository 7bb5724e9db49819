//! The web console: its checks, its tests in a real browser, and pictures of its pages.

use crate::proc::{self, which};
use crate::site::Site;
use crate::suite::Counts;
use crate::{built, cargo, install, root, target_dir};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

/// A browser that waits for a page that never comes is busy without end. The walk takes minutes.
const WALK: Duration = Duration::from_secs(60 * 60);

/// The API's description, which the server serves.
const DESCRIPTION: &str = "crates/http/openapi.json";

/// What `cargo xtask web` takes.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only look: say what is not up to date, and run the tests.
    #[arg(long)]
    check: bool,
}

/// What `cargo xtask shots` takes.
#[derive(Debug, clap::Args)]
pub struct Shots {
    /// Where the pictures go.
    #[arg(long, value_name = "DIR", default_value = "docs/images")]
    to: PathBuf,
    /// Only pages whose name begins like this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Also forms, and each page as a phone has it, from its top to its end: to look at.
    #[arg(long)]
    all: bool,
}

/// Writes the API's description and its types anew from the tests' build; with `--check`,
/// tests everything and writes nothing.
pub fn run(options: &Options) -> Result<ExitCode> {
    if options.check {
        let counts = test()?;
        println!("{counts}");
        return Ok(if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    packages()?;
    // The handlers describe themselves in test builds only; the test that compares writes instead.
    let mut test = cargo();
    test.env("MUSTER_WRITE_OPENAPI", root().join(DESCRIPTION));
    test.args(["test", "-p", "muster-http", "--lib", "the_checked_in_description"]);
    let (status, _) = proc::tee(&mut test)?;
    if !status.success() {
        bail!("the description cannot be made");
    }
    proc::check(npm(&["run", "--silent", "types"]).current_dir(web()))?;
    eprintln!("wrote {DESCRIPTION} and web/src/api/schema.d.ts");
    Ok(ExitCode::SUCCESS)
}

/// Takes pictures of every page of a site with a week behind it.
pub fn shots(options: &Shots) -> Result<ExitCode> {
    packages()?;
    chromium()?;
    let site = started(&["up", "--demo", "--seed", "1", "--no-context"])?;
    let to = root().join(&options.to);
    let mut command = node("e2e/shots.mjs", &site);
    command.arg(&to).args(&options.only);
    if options.all {
        command.env("MUSTER_SHOTS", "all");
    }
    command.env("MUSTER_BINARY", target_dir().join("debug/muster"));
    command.env("MUSTER_SCENARIO", root().join("scenarios/quota-war.toml"));
    let (status, _) = proc::tee(&mut command)?;
    eprintln!("pictures are in {}", to.display());
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Everything that must hold of the console. Without npm or Chromium it is skipped, in words; in
/// CI that is an error.
pub fn test() -> Result<Counts> {
    if which("npm").is_none() {
        if muster_testkit::required() {
            bail!("npm is not there: install Node 20.19 or newer");
        }
        eprintln!("skipped: npm is not there (Node 20.19 or newer)");
        return Ok(Counts { skipped: 1, ..Counts::default() });
    }
    packages()?;
    let mut total = Counts::default();
    for script in ["lint", "check"] {
        let mut command = npm(&["run", "--silent", script]);
        let (status, _) = proc::tee(command.current_dir(web()))?;
        total += one(status.success());
    }
    let mut command = npm(&["run", "--silent", "test"]);
    command.current_dir(web()).env("NO_COLOR", "1");
    let (status, output) = proc::tee(&mut command)?;
    total += counted(&output, status.success());
    let site = site("16")?;
    total += one(up_to_date(&site)?);
    if let Err(error) = chromium() {
        if muster_testkit::required() {
            return Err(error.context("the console is tested in a real browser"));
        }
        eprintln!("skipped: {error:#}");
        total.skipped += 1;
        return Ok(total);
    }
    let mut walk = node("e2e/walk.mjs", &site);
    // It kills the server and starts it again.
    walk.envs(site.pid().map(|pid| ("MUSTER_PID", pid.to_string())));
    let (status, output) = proc::tee_within(&mut walk, WALK)?;
    total += counted(&output, status.success());
    Ok(total)
}

fn one(good: bool) -> Counts {
    Counts { passed: u64::from(good), failed: u64::from(!good), skipped: 0 }
}

fn web() -> PathBuf {
    root().join("web")
}

fn npm(args: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(args).env("npm_config_update_notifier", "false");
    command
}

/// Packages and a browser, installed where they are missing.
pub fn ready() -> Result<()> {
    packages()?;
    chromium()
}

/// A script of the console's against a site.
#[must_use]
pub fn node(script: &str, site: &Site) -> Command {
    let mut command = Command::new("node");
    command.arg(script).current_dir(web());
    command.env("MUSTER_URL", site.url()).env("MUSTER_TOKEN", site.token());
    command
}

/// Installs all packages, those for tests too, when the lock file names others than are there.
fn packages() -> Result<()> {
    let changed = |p: &str| -> Option<SystemTime> {
        fs::metadata(web().join(p)).and_then(|m| m.modified()).ok()
    };
    let there = web().join("node_modules/playwright-core").is_dir();
    let fresh = changed("node_modules/.package-lock.json") >= changed("package-lock.json");
    if there && fresh {
        return Ok(());
    }
    eprintln!("installing the console's packages (npm)");
    proc::check(npm(&["ci", "--no-audit", "--no-fund"]).current_dir(web()))?;
    Ok(())
}

fn chromium() -> Result<()> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    if std::env::var_os("CHROMIUM").is_some() || names.iter().any(|n| which(n).is_some()) {
        return Ok(());
    }
    install::apt(&["chromium", "fonts-dejavu-core"])
}

/// A site of the tests' build, which has the console in it. Output is searched on small disks too.
fn site(nodes: &str) -> Result<Site> {
    started(&["up", "--nodes", nodes, "--no-context", "--output-search", "on"])
}

fn started(args: &[&str]) -> Result<Site> {
    let binary = built::muster()?;
    let site = Site::start(&binary, &std::env::temp_dir(), args, &[])
        .context("cannot start a site for the console")?;
    let page = get(site.port(), "/")?;
    if !page.contains("id=\"root\"") {
        bail!(
            "the console is not in {}: `touch web/package.json` and build it again",
            binary.display()
        );
    }
    Ok(site)
}

/// Are the types in `web/` made from the description? (That this is what the handlers say is a test
/// of `muster-http`.)
fn up_to_date(site: &Site) -> Result<bool> {
    let types = "src/api/schema.d.ts";
    let made = site.scratch().join("schema.d.ts");
    let mut command = Command::new("node_modules/.bin/openapi-typescript");
    command.arg(root().join(DESCRIPTION)).arg("-o").arg(&made);
    proc::check(command.current_dir(web()))?;
    let same = same_text(&web().join(types), &made)?;
    if !same {
        eprintln!("FAILED  web/{types} was not made from {DESCRIPTION}: run `cargo xtask web`");
    }
    Ok(same)
}

fn same_text(a: &Path, b: &Path) -> Result<bool> {
    Ok(fs::read_to_string(a)? == fs::read_to_string(b)?)
}

/// The body of an answer.
fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut all = String::new();
    stream.read_to_string(&mut all)?;
    let (head, body) = all.split_once("\r\n\r\n").context("an answer without a body")?;
    if !head.split_once(' ').is_some_and(|(_, rest)| rest.starts_with("200")) {
        bail!("GET {path}: {}", head.lines().next().unwrap_or_default());
    }
    Ok(body.to_owned())
}

/// Reads the last line with `3 passed` or `1 failed` in it: the walk's, and that of the unit tests
/// (`Tests  1 failed | 17 passed (18)`).
fn counted(output: &str, good: bool) -> Counts {
    let number = |line: &str, word: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|w| w.trim_end_matches([',', '|']) == word)?;
        words.get(at.checked_sub(1)?)?.parse::<u64>().ok()
    };
    let line = output.lines().rev().find(|l| {
        number(l, "passed").or(number(l, "failed")).is_some()
            && !l.trim_start().starts_with("Test Files")
    });
    let line = line.unwrap_or_default();
    let mut counts = Counts {
        passed: number(line, "passed").unwrap_or(0),
        failed: number(line, "failed").unwrap_or(0),
        skipped: 0,
    };
    if !good && counts.failed == 0 {
        counts.failed = 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_both_kinds_of_tests_are_read() {
        let unit = " Test Files  1 failed | 4 passed (5)\n      Tests  2 failed | 15 passed (17)\n   Start at  23:04\n";
        assert_eq!(counted(unit, false), Counts { passed: 15, failed: 2, skipped: 0 });
        let walk = "ok      a\nok      b\n10 passed, 0 failed\n";
        assert_eq!(counted(walk, true), Counts { passed: 10, failed: 0, skipped: 0 });
        assert_eq!(counted("cannot start", false).failed, 1);
    }
}
