//! One rule for tests that need what a machine may lack.
//!
//! A test that returns early looks like one that passed. So it asks here first, and what it does
//! without is reported in one place:
//!
//! - A **component** can be installed: a program, a database. Where `CI` or
//!   `MUSTER_TEST_REQUIRE_ALL` is set, a missing one fails the test; elsewhere it is skipped.
//! - What the **machine** cannot do (its kernel, its rights, its devices) nobody can install. It is
//!   skipped everywhere, and counted. What guards tenants from each other is **vital**: where a
//!   missing component fails a test and root runs it, a machine that cannot do it does so too.
//! - **Data** that the repository does not carry is skipped and counted likewise.
//!
//! Every skip is a line on standard error, and one in the file that `MUSTER_TEST_SKIPS` names.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The variable that names the file of skips.
pub const SKIPS: &str = "MUSTER_TEST_SKIPS";

/// What a test did without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Something that can be installed.
    Component,
    /// Something that this machine cannot do.
    Machine,
    /// Files that are not part of the repository.
    Data,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Component, Kind::Machine, Kind::Data];

    /// Its word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Component => "component",
            Kind::Machine => "machine",
            Kind::Data => "data",
        }
    }
}

/// A test, or a part of one, that did not run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    /// What kind of thing it did without.
    pub kind: Kind,
    /// The package and the test; the place in the code where the test has no name.
    pub test: String,
    /// What is missing, and how to come by it.
    pub why: String,
}

impl Skip {
    /// Its line in the file: three fields with tabs between them.
    #[must_use]
    pub fn line(&self) -> String {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{}\t{}\t{}", self.kind.word(), one_line(&self.test), one_line(&self.why))
    }

    /// Reads a line of the file; none when it is not one.
    #[must_use]
    pub fn parse(line: &str) -> Option<Skip> {
        let mut fields = line.splitn(3, '\t');
        let word = fields.next()?;
        let kind = Kind::ALL.into_iter().find(|k| k.word() == word)?;
        Some(Skip { kind, test: fields.next()?.into(), why: fields.next()?.into() })
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped: {}: {} ({})", self.test, self.why, self.kind.word())
    }
}

/// Whether everything that can be installed must be there.
#[must_use]
pub fn required() -> bool {
    ["CI", "MUSTER_TEST_REQUIRE_ALL"]
        .iter()
        .any(|name| std::env::var(name).is_ok_and(|v| is_yes(&v)))
}

fn is_yes(value: &str) -> bool {
    !matches!(value.trim().to_ascii_lowercase().as_str(), "" | "0" | "false")
}

/// Where a program is: on the path, or where the system keeps those of its administrator, which
/// are not on everybody's path.
#[must_use]
pub fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let dirs = std::env::split_paths(&path).chain(usual.map(PathBuf::from));
    dirs.map(|dir| dir.join(program)).find(|p| p.is_file())
}

/// Whether a program needs no library at run time, so that it runs alone in an image.
#[must_use]
pub fn is_static(program: &Path) -> bool {
    let loader = b"/ld-linux";
    std::fs::read(program).is_ok_and(|b| !b.windows(loader.len()).any(|w| w == loader))
}

/// A shell with its tools in one static file, what images of the tests are made of.
#[must_use]
pub fn busybox() -> Option<PathBuf> {
    which("busybox").filter(|p| is_static(p))
}

/// Whether a program is there; `package` is Debian's that has it.
///
/// # Panics
/// When it is missing and everything is [`required`].
#[must_use]
#[track_caller]
pub fn program(name: &str, package: &str) -> bool {
    component(which(name).is_some(), name, &format!("apt-get install {package}"))
}

/// Whether something that can be installed is there, as the caller found out; `how` says how to
/// install it.
///
/// # Panics
/// When it is missing and everything is [`required`].
#[must_use]
#[track_caller]
pub fn component(there: bool, name: &str, how: &str) -> bool {
    there || skipped(Kind::Component, false, format!("{name} is missing: {how}"))
}

/// Whether this machine can do something, as the caller found out; `why` says what it lacks.
#[must_use]
#[track_caller]
pub fn machine(able: bool, why: impl fmt::Display) -> bool {
    able || skipped(Kind::Machine, false, why.to_string())
}

/// The same for suites that must run where everything is [`required`] and root runs the tests: a
/// change that broke them would be skipped otherwise.
///
/// # Panics
/// When the machine cannot, and they must.
#[must_use]
#[track_caller]
pub fn vital(able: bool, why: impl fmt::Display) -> bool {
    able || skipped(Kind::Machine, true, why.to_string())
}

/// Whether files that the repository does not carry are there; `what` names them.
#[must_use]
#[track_caller]
pub fn data(there: bool, what: impl fmt::Display) -> bool {
    there || skipped(Kind::Data, false, what.to_string())
}

/// Reports it. Always false, so that it can be the answer.
#[track_caller]
fn skipped(kind: Kind, vital: bool, why: String) -> bool {
    let skip = Skip { kind, test: test_name(Location::caller()), why };
    let file = std::env::var_os(SKIPS).filter(|f| !f.is_empty()).map(PathBuf::from);
    let fails = required() && must_run(kind, vital, is_root());
    report_skip(&skip, fails, file.as_deref());
    false
}

/// Whether a test may not be skipped where everything is required.
fn must_run(kind: Kind, vital: bool, root: bool) -> bool {
    match kind {
        Kind::Component => true,
        Kind::Machine => vital && root,
        Kind::Data => false,
    }
}

/// Whether root runs the tests.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// A skip that may not be is a failure; everything else is written down.
fn report_skip(skip: &Skip, fails: bool, file: Option<&Path>) {
    assert!(
        !fails,
        "{}: {} (CI or MUSTER_TEST_REQUIRE_ALL is set, so it may not be skipped)",
        skip.test, skip.why
    );
    eprintln!("{skip}");
    let Some(file) = file else { return };
    // One write of one line: tests of many processes add to the same file.
    let line = skip.line() + "\n";
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut f| f.write_all(line.as_bytes()));
    if let Err(e) = written {
        // A skip that nobody counts would be a pass.
        panic!("{SKIPS}: {}: {e}", file.display());
    }
}

/// The test that runs, as well as can be known.
fn test_name(place: &Location<'_>) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let thread = std::thread::current().name().filter(|n| *n != "main").map(str::to_owned);
    let name = thread
        .or_else(|| asked_for(std::env::args().skip(1)))
        .unwrap_or_else(|| format!("{}:{}", place.file(), place.line()));
    if package.is_empty() { name } else { format!("{package} {name}") }
}

/// The one test that a test program was asked for by its whole name, as nextest does.
fn asked_for(args: impl Iterator<Item = String>) -> Option<String> {
    let args: Vec<String> = args.collect();
    let mut names = args.iter().filter(|a| !a.starts_with('-'));
    let (name, more) = (names.next()?, names.next());
    (more.is_none() && args.iter().any(|a| a == "--exact")).then(|| name.clone())
}

/// Runs a program that must succeed, and gives what it printed.
///
/// # Panics
/// When it cannot be started or fails: with how it was called and all that it printed.
#[track_caller]
pub fn succeeds(command: &mut Command) -> Output {
    match command.output() {
        Ok(out) => {
            assert!(out.status.success(), "{command:?}: {}", printed(&out));
            out
        }
        Err(e) => panic!("{command:?} cannot be started: {e}"),
    }
}

/// How a program ended and all that it printed, for the message of an assertion.
#[must_use]
pub fn printed(out: &Output) -> String {
    let (stdout, stderr) = (&out.stdout, &out.stderr);
    let text = [stdout, stderr].map(|t| String::from_utf8_lossy(t).trim().to_owned());
    format!("{}\nstdout: {}\nstderr: {}", out.status, text[0], text[1])
}

/// Waits for something that must come.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests;
