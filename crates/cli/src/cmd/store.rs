//! `muster store …`: the log itself, without a server.

use clap::{Args, Subcommand};
use muster_store::{CheckReport, CopyReport, StoreError, StoreUrl};
use muster_terminal::config::default_data_dir;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::{FAILED, Fail, REFUSED};
use muster_terminal::output;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

/// Check, move, back up and restore the store
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster store check\n  muster store backup site.backup             while the server runs\n  \
muster store restore site.backup --store sqlite:new.db\n  \
muster store export - | muster store import - --store postgres://muster@db/muster"
)]
pub(crate) struct StoreCmd {
    #[command(subcommand)]
    verb: Verb,
    /// Which store [default: sqlite:DATA_DIR/muster.db]
    #[arg(long, global = true, env = "MUSTER_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<StoreUrl>,
    /// Directory of the default store
    #[arg(long, global = true, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Read everything and report what is wrong
    Check,
    /// Write everything as lines of JSON; `-` means stdout
    Export {
        /// Where to
        file: PathBuf,
    },
    /// Fill an empty store from an export: the site moves; `-` means stdin
    Import {
        /// Where from
        file: PathBuf,
    },
    /// Copy the store into one file, also while a server uses it
    Backup {
        /// Where to; must not exist
        file: PathBuf,
    },
    /// Restore a backup into an empty store: the site returns to an older state
    Restore {
        /// Where from
        file: PathBuf,
    },
    /// Accept that log entries are lost for good, and continue as after a restore
    AcceptLoss,
}

impl StoreCmd {
    /// Says so where the default data directory is not of the site whose server commands talk to
    /// here, and nobody has named a store: a backup of the wrong one is found out too late.
    pub(crate) async fn warn_of_another_site(&self, ctx: &Ctx) {
        if self.store.is_some() || self.data_dir.is_some() {
            return;
        }
        // Whatever is wrong with the server is no reason not to look at a store.
        let Ok(client) = ctx.impatient_client() else { return };
        let Ok(info) = client.server_info().await else { return };
        let (dir, server) = (default_data_dir(), client.server());
        let site = site_of(&dir);
        // What is to be filled is nobody's yet, and the backup may be of this very server.
        let fills = matches!(self.verb, Verb::Restore { .. } | Verb::Import { .. });
        if site.is_none() && fills {
            return;
        }
        if site.as_ref() != Some(&info.site) {
            output::note(&format!(
                "warning: this uses the store of {}, which is not that of the server at {server} \
                 ({}); if that one's store is on this machine, name it with --data-dir or --store",
                dir.display(),
                info.site
            ));
        }
    }

    pub(crate) fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let dir = self.data_dir.unwrap_or_else(default_data_dir);
        let url = self.store.unwrap_or_else(|| StoreUrl::in_data_dir(&dir));
        match self.verb {
            Verb::Check => {
                let mut store = open_existing(&url, &dir)?;
                let mut report = store.check().map_err(failed)?;
                let warning = compare_with_directory(&url, &mut report);
                let shown = serde_json::json!({
                    "store": url.to_string(),
                    "ok": report.is_ok(),
                    "first_seq": report.head.first_seq,
                    "last_seq": report.head.last_seq,
                    "epoch": report.head.epoch,
                    "entries": report.entries,
                    "snapshots": report.snapshots,
                    "payloads": report.payloads,
                    "secrets": report.secrets,
                    "problems": report.problems,
                    "warnings": warning.iter().collect::<Vec<_>>(),
                });
                ctx.show(&shown, |_| {
                    let mut text = format!(
                        "{url}: {} entries verified ({} to {}), {} snapshots, {} payloads, {} secrets\n",
                        report.entries, report.head.first_seq, report.head.last_seq,
                        report.snapshots, report.payloads, report.secrets,
                    );
                    for p in &report.problems {
                        text.push_str(&format!("problem: {p}\n"));
                    }
                    if let Some(w) = &warning {
                        text.push_str(&format!("warning: {w}\n"));
                    }
                    if report.is_ok() {
                        text.push_str("no problem found\n");
                    }
                    text
                })?;
                Ok(if report.is_ok() { 0 } else { FAILED })
            }
            Verb::Export { file } => {
                let mut store = open_existing(&url, &dir)?;
                if is_dash(&file) {
                    let mut out = std::io::stdout().lock();
                    let report = muster_store::export(store.as_mut(), &mut out).map_err(failed)?;
                    out.flush().map_err(|e| Fail::failed(format!("cannot write: {e}")))?;
                    output::note(&describe_copy(&url, "exported", &report));
                    return Ok(0);
                }
                must_be_new(&file)?;
                // An export holds the jobs' environments: for its owner's eyes only.
                let target = muster_terminal::config::private_file(&file)
                    .map_err(|e| Fail::failed(format!("cannot write {}: {e}", file.display())))?;
                let mut out = std::io::BufWriter::new(target);
                let report = muster_store::export(store.as_mut(), &mut out).map_err(failed)?;
                out.into_inner()
                    .map_err(std::io::IntoInnerError::into_error)
                    .and_then(|f| f.sync_all())
                    .map_err(|e| Fail::failed(format!("cannot write {}: {e}", file.display())))?;
                show(ctx, &url, "exported", &report)
            }
            Verb::Import { file } => {
                let mut store = open(&url, &dir).map_err(failed)?;
                let report = if is_dash(&file) {
                    muster_store::import(&mut std::io::stdin().lock(), store.as_mut())
                } else {
                    let f = std::fs::File::open(&file).map_err(|e| cannot_read(&file, &e))?;
                    muster_store::import(&mut BufReader::new(f), store.as_mut())
                };
                show(ctx, &url, "imported", &report.map_err(failed)?)
            }
            Verb::Backup { file } => {
                must_exist(&url)?;
                must_be_new(&file)?;
                let report = muster_store::backup(&url, &file).map_err(failed)?;
                show(ctx, &url, "backed up", &report)
            }
            Verb::Restore { file } => {
                // As with every file that is read: one that is not there is wrong usage.
                std::fs::metadata(&file).map_err(|e| cannot_read(&file, &e))?;
                if let muster_store::StoreUrl::Sqlite(path) = &url
                    && let Some(dir) = path.parent()
                {
                    std::fs::create_dir_all(dir).map_err(|e| {
                        Fail::failed(format!("cannot create {}: {e}", dir.display()))
                    })?;
                }
                let report = muster_store::restore(&file, &url).map_err(failed)?;
                let code = show(ctx, &url, "restored", &report)?;
                output::note(PROTECTED);
                Ok(code)
            }
            Verb::AcceptLoss => accept_loss(ctx, &url, &dir),
        }
    }
}

fn accept_loss(ctx: &Ctx, url: &StoreUrl, dir: &Path) -> Result<u8, Fail> {
    let mut store = open_existing(url, dir)?;
    let accepted = store.accept_loss().map_err(failed)?;
    let last_seq = store.head().map_err(failed)?.last_seq;
    let shown = serde_json::json!({
        "store": url.to_string(),
        "lost": accepted.as_ref().map(|a| &a.lost),
        "last_seq": last_seq,
    });
    ctx.show(&shown, |_| match &accepted {
        Some(a) => {
            format!("{url}: given up: {}\nthe log continues after entry {last_seq}\n", a.lost)
        }
        None => format!("{url}: nothing is missing, the log reaches entry {last_seq}\n"),
    })?;
    if accepted.is_some() {
        output::note(PROTECTED);
    }
    Ok(0)
}

/// What follows when the log ends earlier than what happened.
const PROTECTED: &str = "note: nodes that have seen more than this log are protected until \
                         `muster node reconcile NODE`; new jobs get ids far beyond the old ones";

/// What a SQLite file alone does not show: its copy of the head is gone, and a server has used its
/// directory, which writes that copy with its first commit. An empty log there is a problem; of any other
/// it is not known whether it lost its end.
fn compare_with_directory(url: &StoreUrl, report: &mut CheckReport) -> Option<String> {
    let StoreUrl::Sqlite(path) = url else { return None };
    let head = muster_store::head_path(path);
    let site = site_of(path.parent()?).filter(|_| !head.exists())?;
    let head = head.display();
    if report.head.last_seq.0 > 0 {
        return Some(format!(
            "{head} is not there, although a server of {site} has used this directory: whether the log \
             lost its end is not known (a restore removes it, and a server writes it with its next commit)"
        ));
    }
    if report.is_ok() {
        report.problems.push(format!(
            "the log is empty and {head} is not there, although a server of {site} has used this \
             directory: restore a backup, or a server begins a new site here"
        ));
    }
    None
}

/// The store, with the head that a server of this data directory keeps of it.
fn open(url: &StoreUrl, dir: &Path) -> Result<Box<dyn muster_store::Store>, StoreError> {
    muster_store::open_with_head(url, &dir.join(muster_store::HEAD_FILE))
}

/// The site whose server has, or had, this data directory.
pub(crate) fn site_of(dir: &Path) -> Option<String> {
    std::fs::read_to_string(dir.join("site.id")).ok().map(|id| id.trim().to_owned())
}

fn is_dash(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// A store that is only read must not be made by a slip of the keyboard.
fn open_existing(url: &StoreUrl, dir: &Path) -> Result<Box<dyn muster_store::Store>, Fail> {
    must_exist(url)?;
    open(url, dir).map_err(failed)
}

fn must_exist(url: &StoreUrl) -> Result<(), Fail> {
    if let StoreUrl::Sqlite(path) = url
        && !path.exists()
    {
        return Err(Fail::new(
            muster_terminal::fail::NOT_FOUND,
            format!("there is no store at {url}"),
        )
        .hint("--store or --data-dir names another; `muster up` makes one"));
    }
    Ok(())
}

/// No file is overwritten.
fn must_be_new(file: &Path) -> Result<(), Fail> {
    if file.exists() {
        let message = format!("{} exists already and is never overwritten", file.display());
        return Err(Fail::new(REFUSED, message).hint("name a new file"));
    }
    Ok(())
}

fn cannot_read(file: &Path, e: &std::io::Error) -> Fail {
    Fail::usage(format!("cannot read {}: {e}", file.display()))
}

fn failed(e: StoreError) -> Fail {
    let mut message = e.to_string();
    let mut cause = std::error::Error::source(&e);
    while let Some(c) = cause {
        let text = c.to_string();
        // Some say their cause themselves.
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = c.source();
    }
    let code = if matches!(e, StoreError::NotEmpty { .. }) { REFUSED } else { FAILED };
    Fail::new(code, message)
}

fn describe_copy(url: &StoreUrl, done: &str, r: &CopyReport) -> String {
    let archived = if r.archived { "; older entries are in archived segments" } else { "" };
    format!(
        "{url}: {done} {} entries ({} to {}), {} snapshots, {} payloads, {} secrets{archived}",
        r.entries, r.first, r.last, r.snapshots, r.payloads, r.secrets
    )
}

fn show(ctx: &Ctx, url: &StoreUrl, done: &str, r: &CopyReport) -> Result<u8, Fail> {
    let shown = serde_json::json!({
        "store": url.to_string(),
        "first_seq": r.first,
        "last_seq": r.last,
        "entries": r.entries,
        "snapshots": r.snapshots,
        "payloads": r.payloads,
        "secrets": r.secrets,
        "archived": r.archived,
    });
    ctx.show(&shown, |_| format!("{}\n", describe_copy(url, done, r)))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::Seq;
    use muster_store::Head;

    #[test]
    fn a_store_that_is_not_there_is_not_found() {
        let nowhere = StoreUrl::Sqlite("/nonexistent/muster.db".into());
        let fail = must_exist(&nowhere).unwrap_err();
        assert_eq!(fail.code, muster_terminal::fail::NOT_FOUND);
        let dir = Path::new("/nonexistent");
        assert_eq!(open_existing(&nowhere, dir).err().map(|f| f.code), Some(fail.code));
    }

    #[test]
    fn a_head_that_is_gone_from_a_directory_that_a_server_used_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let url = StoreUrl::in_data_dir(dir.path());
        let mut report = muster_store::open(&url).unwrap().check().unwrap();
        assert_eq!((compare_with_directory(&url, &mut report), report.is_ok()), (None, true));
        std::fs::write(dir.path().join("site.id"), "site-1\n").unwrap();
        let mut grown =
            CheckReport { head: Head { last_seq: Seq(7), ..report.head }, ..report.clone() };
        assert_eq!(compare_with_directory(&url, &mut report), None);
        let problem = &report.problems[0];
        assert!(problem.contains("the log is empty") && problem.contains("site-1"), "{problem}");
        let warning = compare_with_directory(&url, &mut grown).unwrap();
        assert!(warning.contains("muster.db.head is not there") && grown.is_ok(), "{warning}");
        std::fs::write(dir.path().join("muster.db.head"), "").unwrap();
        assert_eq!(
            compare_with_directory(&url, &mut grown),
            None,
            "what is in it is checked elsewhere"
        );
    }

    #[test]
    fn what_is_there_already_is_a_conflict_and_a_cause_is_said_once() {
        assert_eq!(must_be_new(Path::new("/")).map_err(|f| f.code), Err(REFUSED));
        let full = StoreError::NotEmpty { detail: "85 entries".into() };
        assert_eq!(failed(full).code, REFUSED);
        let cause = std::io::Error::other("it is odd");
        let twice =
            StoreError::Other { what: format!("cannot read: {cause}"), source: Some(cause.into()) };
        assert_eq!(failed(twice).message, "cannot read: it is odd");
    }
}
