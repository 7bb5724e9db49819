//! What every store must do, whichever database it is in.

use crate::common;

use common::{Site, batch, contents, entry, filled, lead, secret, snapshot, until};
use muster_model::{Epoch, JobId, Seq, Span, Time};
use muster_store::{
    Archive, Batch, DumpItem, Entry, LeaseAnswer, Store, StoreError, backup, export, import, open,
    restore,
};
use proptest::prelude::*;
use std::io::BufReader;
use std::sync::atomic::{AtomicBool, Ordering};

macro_rules! conformance {
    ($($property:ident),* $(,)?) => {
        mod sqlite {
            $(#[test] fn $property() { super::$property(&super::Site::sqlite()); })*
        }
        mod postgres {
            $(#[test] fn $property() {
                if let Some(site) = super::Site::postgres() { super::$property(&site); }
            })*
        }
    };
}

conformance!(
    an_empty_store_has_an_empty_log,
    what_is_appended_is_read_back,
    entries_must_be_dense,
    an_append_is_all_or_nothing,
    an_old_leader_is_fenced,
    a_released_lease_writes_nothing,
    a_lease_expires,
    a_restarted_holder_gets_the_next_epoch,
    the_newest_two_snapshots_are_kept,
    a_snapshot_must_fit_the_log,
    archived_entries_leave_the_log_and_say_so,
    archiving_stops_at_the_older_snapshot,
    an_archived_log_is_read_from_its_segments,
    payloads_and_secrets_are_replaced_and_secrets_deleted,
    migrations_run_once,
    everything_is_there_after_reopening,
    a_second_handle_of_the_leader_may_write_too,
    a_reader_follows_a_writer,
    random_batches_are_read_back_equal,
    an_export_is_imported_into_either_kind,
    an_export_of_an_archived_log_starts_from_a_snapshot,
    an_import_refuses_a_store_that_is_not_empty,
    a_damaged_export_is_refused_and_leaves_nothing,
    a_backup_beside_a_writer_is_a_dense_prefix,
    a_backup_never_overwrites,
    a_restored_store_knows_it,
    a_load_that_was_killed_is_noticed_until_it_is_done_again,
    a_check_of_a_healthy_store_finds_nothing,
);

fn an_empty_store_has_an_empty_log(site: &Site) {
    let mut s = site.open();
    let head = s.head().unwrap();
    assert_eq!((head.first_seq, head.last_seq, head.epoch), (Seq(1), Seq(0), Epoch(0)));
    assert_eq!(s.read(Seq(0), 10).unwrap(), []);
    assert_eq!(s.latest_snapshot().unwrap(), None);
    assert_eq!(s.payload(JobId(1)).unwrap(), None);
    assert_eq!(s.secret("p", "n").unwrap(), None);
    assert_eq!(s.restored().unwrap(), None);
    assert!(s.check().unwrap().is_ok());
}

fn what_is_appended_is_read_back(site: &Site) {
    let mut s = site.open();
    let epoch = lead(&mut *s, "a");
    s.append(&batch(epoch, 1..=3)).unwrap();
    s.append(&batch(epoch, 4..=900)).unwrap();
    s.append(&batch(epoch, [])).unwrap();
    let all: Vec<Entry> = (1..=900).map(entry).collect();
    assert_eq!(s.read(Seq(0), 10_000).unwrap(), all);
    assert_eq!(s.read(Seq(2), 3).unwrap(), all[2..5]);
    assert_eq!(s.read(Seq(5), 1).unwrap(), all[5..6], "goes on where the last read ended");
    assert_eq!(s.read(Seq(899), 5).unwrap(), all[899..]);
    assert_eq!(s.read(Seq(900), 5).unwrap(), []);
    assert_eq!(s.read(Seq(5000), 5).unwrap(), []);
    assert_eq!(s.read(Seq(u64::MAX), 5).unwrap(), []);
    assert_eq!(s.read(Seq(0), 0).unwrap(), []);
    let head = s.head().unwrap();
    assert_eq!((head.first_seq, head.last_seq, head.last_at), (Seq(1), Seq(900), entry(900).at));
    assert_eq!(head.epoch, epoch);
}

fn entries_must_be_dense(site: &Site) {
    let mut s = site.open();
    let epoch = lead(&mut *s, "a");
    for (seqs, expected, got) in [(vec![2], 1, 2), (vec![1, 3], 2, 3), (vec![0], 1, 0)] {
        match s.append(&batch(epoch, seqs)) {
            Err(StoreError::NotDense { expected: e, got: g }) => {
                assert_eq!((e, g), (Seq(expected), Seq(got)));
            }
            other => panic!("{other:?}"),
        }
    }
    s.append(&batch(epoch, [1, 2])).unwrap();
    for first in [1, 2, 4] {
        assert!(matches!(
            s.append(&batch(epoch, [first])),
            Err(StoreError::NotDense { expected: Seq(3), .. })
        ));
    }
    s.append(&batch(epoch, [3])).unwrap();
    assert_eq!(s.read(Seq(0), 10).unwrap().len(), 3);
}

fn an_append_is_all_or_nothing(site: &Site) {
    let mut s = site.open();
    let epoch = lead(&mut *s, "a");
    let bad = Batch {
        epoch,
        entries: vec![entry(1), entry(3)],
        payloads: vec![(JobId(1), vec![1])],
        secrets: vec![secret("p", "n", Some(b"x"))],
        ..Batch::default()
    };
    assert!(s.append(&bad).is_err());
    let stale = Batch { epoch: Epoch(epoch.0 + 1), entries: vec![entry(1)], ..bad };
    assert!(s.append(&stale).is_err());
    assert_eq!(s.head().unwrap().last_seq, Seq(0));
    assert_eq!(s.payload(JobId(1)).unwrap(), None);
    assert_eq!(s.secret("p", "n").unwrap(), None);
}

fn is_stale(result: Result<(), StoreError>, mine: Epoch, current: Epoch) {
    match result {
        Err(StoreError::StaleLease { mine: m, current: c }) => assert_eq!((m, c), (mine, current)),
        other => panic!("{other:?}"),
    }
}

fn an_old_leader_is_fenced(site: &Site) {
    let (mut old, mut new) = (site.open(), site.open());
    let LeaseAnswer::Granted(first) = old.acquire_lease("old", Span(1)).unwrap() else { panic!() };
    old.append(&batch(first, [1])).unwrap();
    let mut second = first;
    until("the lease of 1 ms expires", || {
        match new.acquire_lease("new", Span::secs(3600)).unwrap() {
            LeaseAnswer::Granted(epoch) => second = epoch,
            LeaseAnswer::Held { .. } => return false,
        }
        true
    });
    assert_eq!(second, Epoch(first.0 + 1));
    is_stale(old.append(&batch(first, [2])), first, second);
    is_stale(old.append(&batch(first, [])), first, second);
    is_stale(old.renew_lease(first, Span::secs(1)), first, second);
    is_stale(old.release_lease(first), first, second);
    is_stale(old.put_snapshot(first, &snapshot(1)), first, second);
    let archived = old.archive(first, Seq(1), site.dir.path());
    assert!(matches!(archived, Err(StoreError::StaleLease { .. })));
    new.append(&batch(second, [2])).unwrap();
    is_stale(old.append(&batch(first, [3])), first, second);
    assert_eq!(old.read(Seq(0), 10).unwrap(), [entry(1), entry(2)]);
}

fn a_released_lease_writes_nothing(site: &Site) {
    let mut s = site.open();
    let epoch = lead(&mut *s, "a");
    s.append(&batch(epoch, [1])).unwrap();
    s.release_lease(epoch).unwrap();
    is_stale(s.append(&batch(epoch, [2])), epoch, epoch);
    is_stale(s.append(&batch(epoch, [])), epoch, epoch);
    let next = lead(&mut *site.open(), "b");
    assert_eq!(next, Epoch(epoch.0 + 1));
}

fn a_lease_expires(site: &Site) {
    let (mut a, mut b) = (site.open(), site.open());
    let epoch = lead(&mut *a, "a");
    match b.acquire_lease("b", Span::secs(3600)).unwrap() {
        LeaseAnswer::Held { holder, expires_in } => {
            assert_eq!(holder, "a");
            assert!(expires_in > Span::secs(1000) && expires_in <= Span::secs(3600));
        }
        other => panic!("{other:?}"),
    }
    // While nobody took it over, an expired lease can still be renewed.
    a.renew_lease(epoch, Span(0)).unwrap();
    a.append(&batch(epoch, [1])).unwrap();
    a.renew_lease(epoch, Span::secs(3600)).unwrap();
    assert!(matches!(b.acquire_lease("b", Span::secs(5)).unwrap(), LeaseAnswer::Held { .. }));
    a.renew_lease(epoch, Span(0)).unwrap();
    until("the lease expires", || {
        matches!(b.acquire_lease("b", Span::secs(5)).unwrap(), LeaseAnswer::Granted(_))
    });
    assert!(a.append(&batch(epoch, [2])).is_err());
    assert!(a.acquire_lease("", Span::secs(5)).is_err(), "a holder has a name");
}

/// What a machine leaves that was started anew and whose clock was set back by hours.
#[test]
fn a_lease_that_ends_too_late_is_cut() {
    let site = Site::sqlite();
    let (mut a, mut b) = (site.open(), site.open());
    let epoch = lead(&mut *a, "a");
    match b.acquire_lease("b", Span(50)).unwrap() {
        LeaseAnswer::Held { holder, expires_in } => {
            assert_eq!((holder.as_str(), expires_in), ("a", Span(50)));
        }
        other => panic!("{other:?}"),
    }
    until("it ends after as long as a lease lasts", || {
        matches!(b.acquire_lease("b", Span(50)).unwrap(), LeaseAnswer::Granted(_))
    });
    assert!(a.append(&batch(epoch, [1])).is_err(), "whoever had it is fenced");
}

fn a_restarted_holder_gets_the_next_epoch(site: &Site) {
    let mut a = site.open();
    let first = lead(&mut *a, "a");
    let mut again = site.open();
    let second = lead(&mut *again, "a");
    assert_eq!(second, Epoch(first.0 + 1));
    is_stale(a.append(&batch(first, [1])), first, second);
    again.append(&batch(second, [1])).unwrap();
}

fn the_newest_two_snapshots_are_kept(site: &Site) {
    let mut s = site.open();
    let epoch = lead(&mut *s, "a");
    s.append(&batch(epoch, 1..=10)).unwrap();
    for seq in [2, 5, 9] {
        s.put_snapshot(epoch, &snapshot(seq)).unwrap();
        assert_eq!(s.latest_snapshot().unwrap(), Some(snapshot(seq)));
    }
    s.put_snapshot(epoch, &snapshot(9)).unwrap();
    let kept: Vec<Seq> = contents(&mut *s)
        .into_iter()
        .filter_map(|i| match i {
            DumpItem::Snapshot(s) => Some(s.seq),
            _ => None,
        })
        .collect();
    assert_eq!(kept, [Seq(5), Seq(9)]);
}

fn a_snapshot_must_fit_the_log(site: &Site) {
    let mut s = site.open();
    let epoch = lead(&mut *s, "a");
    s.append(&batch(epoch, 1..=10)).unwrap();
    let text = s.put_snapshot(epoch, &snapshot(11)).unwrap_err().to_string();
    assert!(text.contains("11") && text.contains("1 to 10"), "{text}");
    assert_eq!(s.latest_snapshot().unwrap(), None);
}

fn archived_entries_leave_the_log_and_say_so(site: &Site) {
    use std::io::Read;
    let mut s = site.open();
    let epoch = filled(&mut *s);
    let dir = site.dir.path().join("archive");
    let report = s.archive(epoch, Seq(30), &dir).unwrap();
    assert_eq!((report.from, report.to, report.entries()), (Seq(1), Seq(30), 30));
    let file = report.file.unwrap();
    assert_eq!(file, dir.join("log-1-30.jsonl.gz"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text.lines().count(), 32);
    for seq in 1..=30 {
        assert!(text.contains(std::str::from_utf8(&entry(seq).body).unwrap()));
    }
    let mut names: Vec<_> =
        std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "no draft is left: {names:?}");

    let mut reader = site.open();
    for after in [0, 29] {
        match reader.read(Seq(after), 5) {
            Err(StoreError::Archived { oldest }) => assert_eq!(oldest, Seq(31)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(reader.read(Seq(30), 2).unwrap(), [entry(31), entry(32)]);
    let head = reader.head().unwrap();
    assert_eq!((head.first_seq, head.last_seq), (Seq(31), Seq(100)));
    // Again, and then on.
    assert_eq!(s.archive(epoch, Seq(30), &dir).unwrap().file, None);
    assert_eq!(s.archive(epoch, Seq(35), &dir).unwrap().entries(), 5);
    names = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2);
    s.append(&batch(epoch, [101])).unwrap();
    assert!(s.check().unwrap().is_ok(), "{:?}", s.check().unwrap());
}

fn archiving_stops_at_the_older_snapshot(site: &Site) {
    let mut s = site.open();
    let epoch = lead(&mut *s, "a");
    s.append(&batch(epoch, 1..=5000)).unwrap();
    let none = s.archive(epoch, Seq(5000), site.dir.path()).unwrap();
    assert_eq!((none.entries(), none.file), (0, None), "there is no snapshot yet");
    s.put_snapshot(epoch, &snapshot(4500)).unwrap();
    s.put_snapshot(epoch, &snapshot(5000)).unwrap();
    let report = s.archive(epoch, Seq(u64::MAX), site.dir.path()).unwrap();
    assert_eq!((report.from, report.to), (Seq(1), Seq(4500)));
    assert_eq!(s.read(Seq(4500), 1000).unwrap().len(), 500);
    let all = s.archive(epoch, Seq(4600), site.dir.path()).unwrap();
    assert_eq!(all.entries(), 0);
}

fn an_archived_log_is_read_from_its_segments(site: &Site) {
    let mut s = site.open();
    let epoch = filled(&mut *s);
    let dir = site.dir.path().join("archive");
    let (at_20, at_33) = (s.chain_at(Seq(20)).unwrap(), s.chain_at(Seq(33)).unwrap());
    assert_eq!((at_20.0, at_33.0), (Seq(20), Seq(33)));
    assert_eq!(s.chain_at(Seq(0)).unwrap(), (Seq(0), [0; 16]));
    assert_eq!(s.chain_at(Seq(500)).unwrap().0, Seq(100), "the newest");
    s.archive(epoch, Seq(30), &dir).unwrap();
    s.archive(epoch, Seq(35), &dir).unwrap();
    // Of a log that a restore gave up, and one that is damaged.
    std::fs::write(dir.join("log-31-35.9.jsonl.gz"), "no segment").unwrap();
    let end = s.chain_at(Seq(7)).unwrap();
    assert_eq!(end.0, Seq(35), "the last one that left the log");
    let read = |end, after: u64, at_a_time| {
        let archive = Archive::find(&dir, end, Seq(after)).unwrap();
        assert!(archive.begins_behind() <= Seq(after));
        let (mut reader, link) = archive.reader(Seq(after)).unwrap();
        let mut all = Vec::new();
        loop {
            let page = reader.read(at_a_time).unwrap();
            assert!(page.len() <= at_a_time);
            match page.last() {
                Some(_) => all.extend(page),
                None => return (all, link),
            }
        }
    };
    let entries = |from: u64, to: u64| (from..=to).map(entry).collect::<Vec<_>>();
    assert_eq!(read(end, 0, 4), (entries(1, 35), [0; 16]));
    assert_eq!(read(end, 20, 100), (entries(21, 35), at_20.1));
    assert_eq!(read(end, 33, 1), (entries(34, 35), at_33.1));
    assert_eq!(read(end, 35, 1), (entries(36, 35), end.1));
    // Entries are deleted after their segment is written, a few at a time.
    assert_eq!(read(at_20, 5, 7).0, entries(6, 20));
    // Another log has another chain.
    let other = Archive::find(&dir, (Seq(35), [1; 16]), Seq(0)).unwrap();
    assert_eq!(other.begins_behind(), Seq(35));
    let other = Archive::find(&dir, (Seq(20), [1; 16]), Seq(0)).unwrap();
    assert_eq!(other.begins_behind(), Seq(20));
    std::fs::remove_file(dir.join("log-1-30.jsonl.gz")).unwrap();
    let rest = Archive::find(&dir, end, Seq(0)).unwrap();
    assert_eq!(rest.begins_behind(), Seq(30));
    assert!(matches!(rest.reader(Seq(29)), Err(StoreError::Archived { oldest: Seq(31) })));
}

fn payloads_and_secrets_are_replaced_and_secrets_deleted(site: &Site) {
    let mut s = site.open();
    let epoch = filled(&mut *s);
    assert_eq!(s.payload(JobId(7)).unwrap().as_deref(), Some(&b"#!/bin/sh\n"[..]));
    assert_eq!(s.payload(JobId(9)).unwrap(), Some(vec![0, 255, 10]));
    assert_eq!(s.secret("q", "é").unwrap().as_deref(), Some(&b"\0\xff"[..]));
    s.append(&Batch {
        epoch,
        payloads: vec![(JobId(9), vec![1]), (JobId(9), vec![2])],
        secrets: vec![
            secret("p", "token", None),
            secret("p", "absent", None),
            secret("q", "é", Some(b"new")),
        ],
        ..Batch::default()
    })
    .unwrap();
    assert_eq!(s.payload(JobId(9)).unwrap(), Some(vec![2]), "the last word counts");
    s.append(&Batch { epoch, unneeded: vec![JobId(9), JobId(10)], ..Batch::default() }).unwrap();
    assert_eq!(s.payload(JobId(9)).unwrap(), None, "nobody needs it any more");
    assert!(s.payload(JobId(7)).unwrap().is_some());
    assert_eq!(s.secret("p", "token").unwrap(), None);
    assert_eq!(s.secret("q", "é").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(s.secret("Q", "é").unwrap(), None);
}

fn migrations_run_once(site: &Site) {
    // Several servers may start at the same moment on a new database.
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..6).map(|_| scope.spawn(|| site.open().head().unwrap())).collect();
        for o in opened {
            assert_eq!(o.join().unwrap().last_seq, Seq(0));
        }
    });
    let epoch = filled(&mut *site.open());
    let mut s = site.open();
    assert_eq!(s.info().schema, 1);
    s.append(&batch(epoch, [101])).unwrap();
}

fn everything_is_there_after_reopening(site: &Site) {
    let mut s = site.open();
    filled(&mut *s);
    let before = contents(&mut *s);
    drop(s);
    assert_eq!(contents(&mut *site.open()), before);
}

fn a_second_handle_of_the_leader_may_write_too(site: &Site) {
    let (mut a, mut b) = (site.open(), site.open());
    let epoch = lead(&mut *a, "a");
    a.append(&batch(epoch, [1])).unwrap();
    b.append(&batch(epoch, [2])).unwrap();
    a.append(&batch(epoch, [])).unwrap();
    a.append(&batch(epoch, [3, 4])).unwrap();
    assert!(matches!(
        b.append(&batch(epoch, [3])),
        Err(StoreError::NotDense { expected: Seq(5), .. })
    ));
    b.put_snapshot(epoch, &snapshot(4)).unwrap();
    assert_eq!(b.read(Seq(0), 9).unwrap().len(), 4);
}

fn a_reader_follows_a_writer(site: &Site) {
    let mut writer = site.open();
    let epoch = lead(&mut *writer, "a");
    let mut reader = site.open();
    std::thread::scope(|scope| {
        let follow = scope.spawn(move || {
            let mut seen = Vec::new();
            until("the reader sees the last entry", || {
                let after = Seq(seen.len() as u64);
                seen.extend(reader.read(after, 64).unwrap());
                reader.head().unwrap();
                seen.len() == 600
            });
            seen
        });
        for n in 0..200 {
            writer.append(&batch(epoch, n * 3 + 1..=n * 3 + 3)).unwrap();
        }
        let expected: Vec<Entry> = (1..=600).map(entry).collect();
        assert_eq!(follow.join().unwrap(), expected);
    });
}

fn random_batches_are_read_back_equal(site: &Site) {
    let body = prop::collection::vec(any::<u8>(), 0..200);
    let entries = prop::collection::vec((any::<i64>(), body), 0..20);
    let batches = prop::collection::vec(entries, 1..8);
    let mut s = site.open();
    let epoch = lead(&mut *s, "a");
    let mut next = 1;
    let config = ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let cell = std::cell::RefCell::new((&mut s, &mut next));
    runner
        .run(&(batches, 1..50_usize), |(batches, limit)| {
            let mut both = cell.borrow_mut();
            let (s, next) = &mut *both;
            let start = **next - 1;
            let mut written = Vec::new();
            for b in batches {
                let entries: Vec<Entry> = b
                    .into_iter()
                    .map(|(at, body)| {
                        let seq = Seq(**next);
                        **next += 1;
                        Entry { seq, at: Time(at), body }
                    })
                    .collect();
                written.extend(entries.clone());
                s.append(&Batch { epoch, entries, ..Batch::default() }).unwrap();
            }
            let mut read = Vec::new();
            loop {
                let more = s.read(Seq(start + read.len() as u64), limit).unwrap();
                if more.is_empty() {
                    break;
                }
                read.extend(more);
            }
            prop_assert_eq!(read, written);
            Ok(())
        })
        .unwrap();
}

fn exported(store: &mut dyn Store) -> Vec<u8> {
    let mut out = Vec::new();
    export(store, &mut out).unwrap();
    out
}

fn an_export_is_imported_into_either_kind(site: &Site) {
    let mut s = site.open();
    let epoch = filled(&mut *s);
    // Bodies that are not JSON on one line come through as well.
    let odd: [&[u8]; 6] = [b"", b"null", b"{\n}", b" {}", b"\xff\x00", b"[1,2.50]"];
    let entries = odd.iter().enumerate().map(|(i, body)| {
        let seq = 101 + i as u64;
        Entry { body: body.to_vec(), ..entry(seq) }
    });
    s.append(&Batch { epoch, entries: entries.collect(), ..Batch::default() }).unwrap();
    let text = exported(&mut *s);
    let before = contents(&mut *s);
    let other = Site::sqlite();
    let mut targets = vec![site.another(), other.url.clone()];
    let pg = Site::postgres();
    targets.extend(pg.as_ref().map(|p| p.url.clone()));
    for target in targets {
        let mut t = open(&target).unwrap();
        let report = import(&mut &text[..], &mut *t).unwrap();
        assert_eq!((report.first, report.last, report.entries), (Seq(1), Seq(106), 106));
        assert_eq!((report.snapshots, report.payloads, report.secrets), (2, 2, 2));
        assert_eq!(contents(&mut *t), before);
        assert_eq!(exported(&mut *t), text, "an export of the copy is the same bytes");
        assert_eq!(t.restored().unwrap(), None);
        assert!(t.check().unwrap().is_ok());
        // The copy is free to be led, under an epoch that was never used.
        let next = lead(&mut *t, "b");
        assert_eq!(next, Epoch(epoch.0 + 1));
        t.append(&batch(next, [107])).unwrap();
    }
}

fn an_export_of_an_archived_log_starts_from_a_snapshot(site: &Site) {
    let mut s = site.open();
    let epoch = filled(&mut *s);
    s.archive(epoch, Seq(40), site.dir.path()).unwrap();
    let text = exported(&mut *s);
    let lines: Vec<&str> = std::str::from_utf8(&text).unwrap().lines().collect();
    assert!(lines[0].contains(r#""archived":true"#) && lines[0].contains(r#""first":41"#));
    assert!(lines[1].starts_with(r#"{"snapshot":{"seq":40"#), "{}", &lines[1][..60]);
    let mut t = open(&site.another()).unwrap();
    let report = import(&mut &text[..], &mut *t).unwrap();
    assert!(report.archived);
    assert_eq!(contents(&mut *t), contents(&mut *s));
    assert!(matches!(t.read(Seq(39), 1), Err(StoreError::Archived { oldest: Seq(41) })));
}

fn an_import_refuses_a_store_that_is_not_empty(site: &Site) {
    let mut s = site.open();
    filled(&mut *s);
    let text = exported(&mut *s);
    let before = contents(&mut *s);
    let refused = import(&mut &text[..], &mut *s).unwrap_err();
    assert!(matches!(refused, StoreError::NotEmpty { .. }), "{refused}");
    assert_eq!(contents(&mut *s), before);
    let mut led = open(&site.another()).unwrap();
    lead(&mut *led, "somebody");
    let refused = import(&mut &text[..], &mut *led).unwrap_err();
    assert!(refused.to_string().contains("lease"), "{refused}");
}

fn a_damaged_export_is_refused_and_leaves_nothing(site: &Site) {
    let mut s = site.open();
    filled(&mut *s);
    let good = String::from_utf8(exported(&mut *s)).unwrap();
    let mut target = open(&site.another()).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let without = |n: usize| {
        let mut l = lines.clone();
        l.remove(n);
        l.join("\n") + "\n"
    };
    let damaged = [
        (String::new(), "cut short"),
        (good[..good.len() / 2].to_owned(), "cut short"),
        (good[..good.len() - 1].to_owned(), "cut short"),
        (lines[..50].join("\n") + "\n", "cut short"),
        (without(0), "header"),
        (without(50), "follows entry"),
        (without(lines.len() - 2), "footer counts"),
        (good.replace("é 17", "é 71"), "altered"),
        (good.replace("muster-export-1", "muster-export-9"), "muster-export-9"),
        (format!("{good}{{}}\n"), "follows the footer"),
        (good.replace(r#"{"entry":{"seq":5,"#, r#"{"entri":{"seq":5,"#), "line 8"),
    ];
    for (text, why) in damaged {
        let refused = import(&mut text.as_bytes(), &mut *target).unwrap_err();
        assert!(matches!(refused, StoreError::BadInput { .. }), "{refused}");
        assert!(refused.to_string().contains(why), "{refused} lacks {why}");
        assert_eq!(target.head().unwrap().last_seq, Seq(0));
    }
    import(&mut good.as_bytes(), &mut *target).unwrap();
    assert_eq!(contents(&mut *target), contents(&mut *s));
}

fn a_backup_beside_a_writer_is_a_dense_prefix(site: &Site) {
    let mut writer = site.open();
    let epoch = lead(&mut *writer, "a");
    writer.append(&batch(epoch, 1..=200)).unwrap();
    let stop = AtomicBool::new(false);
    let file = site.dir.path().join("backup");
    let last = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut last = 200;
            while !stop.load(Ordering::Relaxed) {
                writer.append(&batch(epoch, last + 1..=last + 5)).unwrap();
                last += 5;
            }
            last
        });
        let made = backup(&site.url, &file);
        stop.store(true, Ordering::Relaxed);
        let last = writing.join().unwrap();
        made.unwrap();
        last
    });
    let target = site.another();
    let report = restore(&file, &target).unwrap();
    assert!(report.last >= Seq(200) && report.last <= Seq(last));
    let mut t = open(&target).unwrap();
    let expected: Vec<Entry> = (1..=report.last.0).map(entry).collect();
    assert_eq!(t.read(Seq(0), 1_000_000).unwrap(), expected);
    assert_eq!(t.restored().unwrap(), Some(report.last));
}

fn a_backup_never_overwrites(site: &Site) {
    filled(&mut *site.open());
    let file = site.dir.path().join("backup");
    std::fs::write(&file, "precious").unwrap();
    let refused = backup(&site.url, &file).unwrap_err().to_string();
    assert!(refused.contains("never overwritten"), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    let fresh = site.dir.path().join("fresh");
    backup(&site.url, &fresh).unwrap();
    let left: Vec<String> = std::fs::read_dir(site.dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.contains("tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

fn same_but_for_the_epoch(mut a: Vec<DumpItem>, mut b: Vec<DumpItem>) -> bool {
    for items in [&mut a, &mut b] {
        for item in items {
            if let DumpItem::Header(h) = item {
                h.epoch = Epoch(0);
            }
        }
    }
    a == b
}

fn a_restored_store_knows_it(site: &Site) {
    let mut s = site.open();
    let epoch = filled(&mut *s);
    let file = site.dir.path().join("backup");
    let made = backup(&site.url, &file).unwrap();
    assert_eq!((made.last, made.entries, made.secrets), (Seq(100), 100, 2));
    let before = contents(&mut *s);
    let other = Site::sqlite();
    let pg = Site::postgres();
    let mut targets = vec![site.another(), other.url.clone()];
    targets.extend(pg.as_ref().map(|p| p.url.clone()));
    for target in targets {
        assert_eq!(restore(&file, &target).unwrap(), made);
        let mut t = open(&target).unwrap();
        assert!(same_but_for_the_epoch(contents(&mut *t), before.clone()));
        assert_eq!(t.restored().unwrap(), Some(Seq(100)));
        t.clear_restored().unwrap();
        assert_eq!(t.restored().unwrap(), None);
        // The lease came back free, and its token is none that the old life can have reached.
        assert!(lead(&mut *t, "b") > Epoch(epoch.0 + 1_000_000));
        let refused = restore(&file, &target).unwrap_err();
        assert!(matches!(refused, StoreError::NotEmpty { .. }), "{refused}");
    }
    // A backup that was cut short or edited is refused and says so.
    let good = std::fs::read(&file).unwrap();
    let bad = site.dir.path().join("bad");
    let mut edited = good.clone();
    let body = entry(50).body;
    let at = good.windows(body.len()).position(|w| w == body).unwrap();
    edited[at + 8] ^= 1;
    let target = site.another();
    for damaged in [&good[..good.len() / 2], &good[..good.len() - 5000], &edited, b"", b"what?"] {
        std::fs::write(&bad, damaged).unwrap();
        let refused = restore(&bad, &target).unwrap_err();
        assert!(matches!(refused, StoreError::BadInput { .. }), "{refused}");
        assert_eq!(open(&target).unwrap().head().unwrap().last_seq, Seq(0));
    }
    restore(&file, &target).unwrap();
}

fn a_load_that_was_killed_is_noticed_until_it_is_done_again(site: &Site) {
    let mut full = site.open();
    filled(&mut *full);
    let refused = full.begin_load("site.backup").unwrap_err();
    assert!(matches!(refused, StoreError::NotEmpty { .. }), "{refused}");
    full.verify_head().unwrap();
    let file = site.dir.path().join("backup");
    backup(&site.url, &file).unwrap();
    let target = site.another();
    // All that a kill leaves: what was loaded was not committed.
    open(&target).unwrap().begin_load("site.backup").unwrap();
    let mut t = open(&target).unwrap();
    let unfinished = t.verify_head().unwrap_err();
    assert!(
        matches!(&unfinished, StoreError::Unfinished { what } if what == "site.backup"),
        "{unfinished}"
    );
    assert!(unfinished.to_string().contains("muster store restore"), "{unfinished}");
    let problems = t.check().unwrap().problems;
    assert_eq!(problems, [unfinished.to_string()]);
    assert!(t.accept_loss().is_err(), "nothing was lost, it was never there");
    drop(t);
    // A second one that fails does not make a new site of it.
    let bad = site.dir.path().join("bad");
    std::fs::write(&bad, "{}\n").unwrap();
    assert!(restore(&bad, &target).is_err());
    let unfinished = open(&target).unwrap().verify_head().unwrap_err();
    assert!(
        matches!(&unfinished, StoreError::Unfinished { what } if what == "site.backup"),
        "{unfinished}"
    );
    restore(&file, &target).unwrap();
    let mut t = open(&target).unwrap();
    t.verify_head().unwrap();
    assert!(t.check().unwrap().is_ok());
    // One that failed leaves an empty store as it was.
    let other = site.another();
    assert!(restore(&bad, &other).is_err());
    let mut t = open(&other).unwrap();
    t.verify_head().unwrap();
    assert!(t.check().unwrap().is_ok());
}

fn a_check_of_a_healthy_store_finds_nothing(site: &Site) {
    let mut s = site.open();
    filled(&mut *s);
    let report = s.check().unwrap();
    assert!(report.is_ok(), "{report:?}");
    let counts = (report.entries, report.snapshots, report.payloads, report.secrets);
    assert_eq!(counts, (100, 2, 2, 2));
    let text = exported(&mut *s);
    let reader = &mut BufReader::new(&text[..]);
    import(reader, &mut *open(&site.another()).unwrap()).unwrap();
}
