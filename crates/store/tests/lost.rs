//! A log that lost its end, or was replaced by an older one: the head outside the database shows
//! it.

use crate::common;

use common::{Site, batch, contents, entry, filled, lead};
use muster_model::{Epoch, Seq, Span};
use muster_store::{Batch, Entry, StoreError, StoreUrl, backup, open, open_with_head, restore};
use std::path::{Path, PathBuf};

/// Both kinds, with a way to change their tables behind their back.
fn with_both(test: impl Fn(&Site, &dyn Fn(&str))) {
    let site = Site::sqlite();
    let StoreUrl::Sqlite(path) = site.url.clone() else { unreachable!() };
    test(&site, &|sql| rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap());
    if let Some(site) = Site::postgres() {
        let StoreUrl::Postgres(url) = site.url.clone() else { unreachable!() };
        test(&site, &|sql| {
            let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
            client.batch_execute(sql).unwrap();
        });
    }
}

/// Takes the log back to an earlier entry, as an older copy of the database would be.
fn take_back(sql: &dyn Fn(&str), to: u64) {
    sql(&format!("DELETE FROM snapshots WHERE seq > {to}"));
    sql(&format!(
        "UPDATE head SET seq = {to}, at = (SELECT at FROM log WHERE seq = {to}), \
         chain = (SELECT chain FROM log WHERE seq = {to})"
    ));
    sql(&format!("DELETE FROM log WHERE seq > {to}"));
}

fn lost(result: Result<(), StoreError>, says: &str) {
    let Err(e @ StoreError::Lost { .. }) = result else { panic!("expected a loss: {result:?}") };
    let text = e.to_string();
    for part in [says, ".head", "muster store restore", "muster store accept-loss"] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}

/// What is on the disk after the process was killed, as far as `endings` says.
fn after_a_kill(path: &Path, to: &Path, endings: &[&str]) -> StoreUrl {
    std::fs::create_dir(to).unwrap();
    let with = |p: &Path, ending: &str| {
        let mut name = p.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let copy = to.join("muster.db");
    for ending in endings {
        std::fs::copy(with(path, ending), with(&copy, ending)).unwrap();
    }
    StoreUrl::Sqlite(copy)
}

#[test]
fn a_deleted_wal_is_noticed_and_a_kill_is_not_called_a_loss() {
    let site = Site::sqlite();
    let StoreUrl::Sqlite(path) = &site.url else { unreachable!() };
    let mut s = site.open();
    let epoch = filled(&mut *s);
    s.close().unwrap();
    for seq in 101..=140 {
        s.append(&batch(epoch, [seq])).unwrap();
    }
    let whole = after_a_kill(path, &site.dir.path().join("killed"), &["", "-wal", ".head"]);
    let mut killed = open(&whole).unwrap();
    killed.verify_head().unwrap();
    assert!(killed.check().unwrap().is_ok());
    assert_eq!(killed.head().unwrap().last_seq, Seq(140));

    let short = after_a_kill(path, &site.dir.path().join("short"), &["", ".head"]);
    let mut s = open(&short).unwrap();
    lost(s.verify_head(), "entries 101 to 140 were committed and are missing");
    let report = s.check().unwrap();
    assert_eq!((report.entries, report.problems.len()), (100, 1), "{:?}", report.problems);
    assert!(report.problems[0].starts_with("entries 101 to 140 "), "{:?}", report.problems);
    let file = site.dir.path().join("bad.backup");
    lost(backup(&short, &file).map(|_| ()), "101 to 140");
    assert!(!file.exists(), "a backup of it would only hide the loss");
}

#[test]
fn a_shorter_log_is_noticed_until_the_loss_is_accepted() {
    with_both(|site, sql| {
        let mut s = site.open_as_server();
        let epoch = filled(&mut *s);
        s.verify_head().unwrap();
        assert_eq!(s.accept_loss().unwrap(), None, "nothing is missing");
        s.release_lease(epoch).unwrap();
        drop(s);
        take_back(sql, 60);
        let mut s = site.open_as_server();
        lost(s.verify_head(), "entries 61 to 100 were committed and are missing");
        let problems = s.check().unwrap().problems;
        assert!(
            matches!(&problems[..], [p] if p.starts_with("entries 61 to 100 ")),
            "{problems:?}"
        );

        let held = lead(&mut *s, "somebody");
        let refused = s.accept_loss().unwrap_err().to_string();
        assert!(refused.contains("holds the lease"), "{refused}");
        s.release_lease(held).unwrap();
        let accepted = s.accept_loss().unwrap().expect("something was missing");
        assert_eq!(accepted.last_seq, Seq(60));
        assert!(accepted.lost.contains("61 to 100"), "{accepted:?}");
        // From now on it is a restored log: nodes and ids that saw more are distinguished.
        assert_eq!(s.restored().unwrap(), Some(Seq(60)));
        assert!(s.check().unwrap().is_ok());
        s.clear_restored().unwrap();
        s.verify_head().unwrap();
        let next = lead(&mut *s, "b");
        assert!(next > Epoch(held.0 + 1_000_000), "{next}");
        s.append(&batch(next, 61..=62)).unwrap();
        s.verify_head().unwrap();
    });
}

#[test]
fn a_log_that_grew_again_past_its_lost_end_is_noticed() {
    with_both(|site, sql| {
        let epoch = filled(&mut *site.open_as_server());
        take_back(sql, 60);
        // A server of a version that keeps no second head wrote on.
        let kept = std::fs::read(site.head_file()).unwrap();
        let other = |seq: u64| Entry { body: b"{}".to_vec(), ..entry(seq) };
        let entries = (61..=120).map(other).collect();
        site.open().append(&Batch { epoch, entries, ..Batch::default() }).unwrap();
        std::fs::write(site.head_file(), kept).unwrap();
        let mut s = site.open_as_server();
        lost(s.verify_head(), "entry 100 is not the one that was committed");
    });
}

#[test]
fn a_head_that_is_behind_absent_cut_or_of_another_store_says_nothing() {
    with_both(|site, _| {
        let mut s = site.open_as_server();
        let epoch = filled(&mut *s);
        let behind = std::fs::read(site.head_file()).unwrap();
        s.append(&batch(epoch, 101..=130)).unwrap();
        let head = site.head_file();
        std::fs::write(&head, &behind).unwrap();
        site.open_as_server().verify_head().unwrap();
        std::fs::write(&head, &behind[..40]).unwrap();
        site.open_as_server().verify_head().unwrap();
        std::fs::remove_file(&head).unwrap();
        site.open_as_server().verify_head().unwrap();
        s.archive(epoch, Seq(40), site.dir.path()).unwrap();
        std::fs::write(&head, &behind).unwrap();
        site.open_as_server().verify_head().unwrap();
        if let StoreUrl::Postgres(_) = site.url {
            // The same data directory, used with another database before.
            let other = site.another();
            open_with_head(&other, &head).unwrap().verify_head().unwrap();
        }
    });
}

#[test]
fn a_head_that_cannot_be_read_is_a_problem_that_the_check_names() {
    with_both(|site, _| {
        let mut s = site.open_as_server();
        let epoch = filled(&mut *s);
        let (head, whole) = (site.head_file(), std::fs::read(site.head_file()).unwrap());
        assert!(s.check().unwrap().is_ok());
        for damaged in [&b""[..], &whole[..60]] {
            std::fs::write(&head, damaged).unwrap();
            let problems = site.open_as_server().check().unwrap().problems;
            assert!(
                matches!(&problems[..], [p] if p.contains(".head cannot be read")),
                "{problems:?}"
            );
        }
        // The next commit repairs it, and a site may have none.
        s.append(&batch(epoch, 101..=102)).unwrap();
        assert!(site.open_as_server().check().unwrap().is_ok());
        std::fs::remove_file(&head).unwrap();
        assert!(site.open_as_server().check().unwrap().is_ok());
    });
}

#[test]
fn a_restore_over_a_lost_log_needs_no_further_word() {
    with_both(|site, sql| {
        let mut s = site.open_as_server();
        let epoch = filled(&mut *s);
        let file = site.dir.path().join("backup");
        backup(&site.url, &file).unwrap();
        s.append(&batch(epoch, 101..=150)).unwrap();
        s.release_lease(epoch).unwrap();
        drop(s);
        // An empty database where the old one was; what was committed to that is remembered.
        for table in ["log", "snapshots", "payloads", "secrets"] {
            sql(&format!("DELETE FROM {table}"));
        }
        sql("UPDATE head SET seq = 0, at = 0, chain = base_chain");
        lost(site.open_as_server().verify_head(), "entries 1 to 150");
        restore(&file, &site.url).unwrap();
        let mut t = site.open_as_server();
        t.verify_head().unwrap();
        assert!(t.check().unwrap().is_ok());
        let epoch = lead(&mut *t, "b");
        t.append(&batch(epoch, [101])).unwrap();
        t.clear_restored().unwrap();
        t.verify_head().unwrap();
    });
}

#[test]
fn a_clean_stop_does_not_hide_a_loss() {
    with_both(|site, sql| {
        let mut s = site.open_as_server();
        let epoch = filled(&mut *s);
        s.release_lease(epoch).unwrap();
        drop(s);
        for table in ["log", "snapshots", "payloads", "secrets"] {
            sql(&format!("DELETE FROM {table}"));
        }
        sql("UPDATE head SET seq = 0, at = 0, chain = base_chain");
        site.open_as_server().close().unwrap();
        lost(site.open_as_server().verify_head(), "entries 1 to 100");
    });
}

fn replaced<T>(result: Result<T, StoreError>, file: &Path) {
    let Err(e @ StoreError::Replaced { .. }) = result else { panic!("it was not noticed") };
    let text = e.to_string();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(text.contains(name) && text.contains("was deleted or replaced"), "{text}");
}

#[test]
fn a_file_that_is_deleted_under_an_open_store_is_noticed_and_nothing_more_is_written() {
    for ending in ["", "-wal", "-shm"] {
        let site = Site::sqlite();
        let mut s = site.open();
        let epoch = filled(&mut *s);
        let file = site.dir.path().join(format!("muster.db{ending}"));
        let aside = site.dir.path().join("aside");
        std::fs::rename(&file, &aside).unwrap();
        replaced(s.append(&batch(epoch, [101])), &file);
        replaced(s.renew_lease(epoch, Span::secs(60)), &file);
        replaced(s.head(), &file);
        // Another file of that name is not the one that is open.
        std::fs::write(&file, "").unwrap();
        replaced(s.append(&batch(epoch, [101])), &file);
        std::fs::rename(&aside, &file).unwrap();
        s.append(&batch(epoch, [101])).unwrap();
        s.renew_lease(epoch, Span::secs(60)).unwrap();
        assert_eq!(s.head().unwrap().last_seq, Seq(101), "nothing of the refused write is there");
    }
}

#[test]
fn no_empty_store_is_made_beside_a_wal_in_use() {
    let site = Site::sqlite();
    let mut s = site.open();
    let epoch = filled(&mut *s);
    let before = contents(&mut *s);
    let (file, aside) = (site.dir.path().join("muster.db"), site.dir.path().join("aside"));
    std::fs::rename(&file, &aside).unwrap();
    replaced(open(&site.url), &file);
    assert!(!file.exists());
    std::fs::rename(&aside, &file).unwrap();
    assert_eq!(contents(&mut *site.open()), before);
    s.append(&batch(epoch, [101])).unwrap();
}

#[test]
fn a_clean_stop_saves_what_was_in_a_wal_that_was_deleted() {
    let site = Site::sqlite();
    let mut s = site.open();
    filled(&mut *s);
    let before = contents(&mut *s);
    std::fs::remove_file(site.dir.path().join("muster.db-wal")).unwrap();
    s.close().unwrap();
    drop(s);
    let mut again = site.open();
    again.verify_head().unwrap();
    assert_eq!(contents(&mut *again), before);
}

/// Without it another process that closes the database takes itself for the last one, and deletes
/// the `-wal` file.
#[test]
fn a_second_handle_does_not_cost_the_process_its_lock_on_the_file() {
    use std::os::unix::fs::MetadataExt;
    let site = Site::sqlite();
    let StoreUrl::Sqlite(path) = &site.url else { unreachable!() };
    let handles = [site.open(), site.open(), site.open()];
    let of_file = format!(":{} ", std::fs::metadata(path).unwrap().ino());
    let of_process = format!(" {} ", std::process::id());
    let mut locks = String::new();
    // The list leaves lines out where other processes lock and unlock while it is read.
    let held = (0..1_000).any(|_| {
        locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|l| l.contains(&of_process) && l.contains(&of_file))
    });
    assert!(held, "no lock on the file:\n{locks}");
    drop(handles);
}

#[test]
fn a_clean_stop_leaves_nothing_outside_the_file() {
    let site = Site::sqlite();
    let StoreUrl::Sqlite(path) = &site.url else { unreachable!() };
    let mut s = site.open();
    filled(&mut *s);
    let before = contents(&mut *s);
    let mut keeper = site.open();
    keeper.close().unwrap();
    let wal = path.with_extension("db-wal");
    assert_eq!(std::fs::metadata(&wal).map_or(0, |m| m.len()), 0, "all is in the file");
    let alone = after_a_kill(path, &site.dir.path().join("alone"), &["", ".head"]);
    let mut copy = open(&alone).unwrap();
    copy.verify_head().unwrap();
    assert_eq!(contents(&mut *copy), before);
}
