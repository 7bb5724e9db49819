//! What an append writes beside its entries, and in how many statements.

use crate::common;

use common::{Site, batch, contents, entry, filled, lead, secret, snapshot};
use muster_model::{Epoch, JobId, Seq, Span};
use muster_store::{Batch, StoreError, StoreUrl};

/// Both kinds of store.
fn both() -> impl Iterator<Item = Site> {
    std::iter::once(Site::sqlite()).chain(Site::postgres())
}

fn payload(job: u64, byte: u8) -> (JobId, Vec<u8>) {
    (JobId(job), vec![byte; 3])
}

#[test]
fn payloads_come_and_go_with_the_entries() {
    for site in both() {
        let mut s = site.open();
        let epoch = filled(&mut *s);
        // Several of one job, one that is there already, and one that goes at once.
        s.append(&Batch {
            payloads: vec![payload(9, 1), payload(11, 2), payload(11, 3), payload(12, 4)],
            unneeded: vec![JobId(7), JobId(12), JobId(99)],
            ..batch(epoch, 101..=103)
        })
        .unwrap();
        assert_eq!(s.payload(JobId(7)).unwrap(), None, "nobody needs it any more");
        assert_eq!(s.payload(JobId(9)).unwrap(), Some(vec![1; 3]), "it is replaced");
        assert_eq!(s.payload(JobId(11)).unwrap(), Some(vec![3; 3]), "the last word counts");
        assert_eq!(s.payload(JobId(12)).unwrap(), None, "it came and went in one batch");
        // One that is there goes, although the batch has it as well.
        s.append(&Batch {
            payloads: vec![payload(9, 5)],
            unneeded: vec![JobId(9)],
            ..batch(epoch, [104])
        })
        .unwrap();
        assert_eq!(s.payload(JobId(9)).unwrap(), None);
        assert_eq!(s.payload(JobId(11)).unwrap(), Some(vec![3; 3]), "the others stay");
        assert_eq!(s.head().unwrap().last_seq, Seq(104));
        let report = s.check().unwrap();
        assert!(report.is_ok(), "{report:?}");
        assert_eq!((report.entries, report.payloads), (104, 1));
    }
}

#[test]
fn secrets_come_with_entries_and_payloads() {
    for site in both() {
        let mut s = site.open();
        let epoch = filled(&mut *s);
        s.append(&Batch {
            payloads: vec![payload(11, 1), payload(12, 2)],
            unneeded: vec![JobId(7), JobId(12)],
            secrets: vec![secret("p", "token", None), secret("p", "key", Some(b"new"))],
            ..batch(epoch, [101])
        })
        .unwrap();
        assert_eq!(s.payload(JobId(7)).unwrap(), None);
        assert_eq!(s.payload(JobId(11)).unwrap(), Some(vec![1; 3]));
        assert_eq!(s.payload(JobId(12)).unwrap(), None);
        assert_eq!(s.secret("p", "token").unwrap(), None);
        assert_eq!(s.secret("p", "key").unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(s.read(Seq(100), 10).unwrap(), [entry(101)]);
        s.append(&batch(epoch, [102])).unwrap();
        assert!(s.check().unwrap().is_ok());
    }
}

#[test]
fn a_lost_lease_appends_nothing() {
    for site in both() {
        let mut s = site.open();
        let old = filled(&mut *s);
        // The handle knows the end of the log: the append itself must find that the lease is gone.
        s.release_lease(old).unwrap();
        let write = |epoch: Epoch| Batch {
            payloads: vec![payload(9, 1), payload(11, 2)],
            unneeded: vec![JobId(7)],
            ..batch(epoch, [101])
        };
        let with_secrets =
            |epoch: Epoch| Batch { secrets: vec![secret("p", "key", Some(b"x"))], ..write(epoch) };
        let refuses = |s: &mut dyn muster_store::Store, current: Epoch| {
            let before = contents(s);
            for b in [write(old), with_secrets(old), Batch { unneeded: vec![], ..write(old) }] {
                match s.append(&b) {
                    Err(StoreError::StaleLease { mine, current: c }) => {
                        assert_eq!((mine, c), (old, current));
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(contents(s), before);
        };
        refuses(&mut *s, old);
        let mut other = site.open();
        let new = lead(&mut *other, "b");
        refuses(&mut *s, new);
        other.append(&write(new)).unwrap();
        refuses(&mut *s, new);
        assert_eq!(s.payload(JobId(11)).unwrap(), Some(vec![2; 3]));
        assert_eq!(s.payload(JobId(7)).unwrap(), None);
    }
}

/// What a database leaves that failed over without its last writes: two servers were given the same
/// epoch, and both know the end of the log.
#[test]
fn of_two_holders_of_one_epoch_one_writes() {
    let Some(site) = Site::postgres() else { return };
    let (mut first, mut keeper, mut second) = (site.open(), site.open(), site.open());
    let epoch = filled(&mut *first);
    keeper.lead_as("a");
    keeper.renew_lease(epoch, Span::secs(3600)).unwrap();
    let StoreUrl::Postgres(url) = &site.url else { unreachable!() };
    let mut client = postgres::Client::connect(url, postgres::NoTls).unwrap();
    client.batch_execute("UPDATE head SET holder = 'b'").unwrap();
    second.lead_as("b");
    let stale = |result: Result<(), StoreError>| match result {
        Err(StoreError::StaleLease { mine, current }) => {
            assert_eq!((mine, current), (epoch, epoch));
        }
        other => panic!("{other:?}"),
    };
    let before = contents(&mut *second);
    let write = Batch { payloads: vec![payload(11, 2)], ..batch(epoch, [101]) };
    let gone = Batch { unneeded: vec![JobId(7)], ..write.clone() };
    let with_secret = Batch { secrets: vec![secret("p", "key", Some(b"x"))], ..write.clone() };
    let without_entries = Batch { entries: Vec::new(), ..write.clone() };
    for b in [&write, &gone, &with_secret, &without_entries] {
        stale(first.append(b));
    }
    stale(keeper.renew_lease(epoch, Span::secs(3600)));
    stale(keeper.put_snapshot(epoch, &snapshot(90)));
    stale(keeper.archive(epoch, Seq(40), site.dir.path()).map(|_| ()));
    stale(keeper.release_lease(epoch));
    assert_eq!(contents(&mut *second), before);
    second.append(&gone).unwrap();
    second.renew_lease(epoch, Span::secs(3600)).unwrap();
    assert_eq!(second.head().unwrap().last_seq, Seq(101));
    stale(first.append(&batch(epoch, [102])));
}

#[test]
fn a_handle_that_is_behind_writes_its_payloads_once_it_knows_the_end() {
    for site in both() {
        let (mut a, mut b) = (site.open(), site.open());
        let epoch = filled(&mut *a);
        b.append(&Batch { payloads: vec![payload(11, 1)], ..batch(epoch, [101]) }).unwrap();
        // Where this handle thinks the log ends: nothing of it may come in.
        let behind = Batch {
            payloads: vec![payload(11, 2)],
            unneeded: vec![JobId(9)],
            ..batch(epoch, [101])
        };
        match a.append(&behind) {
            Err(StoreError::NotDense { expected: Seq(102), got: Seq(101) }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(a.payload(JobId(11)).unwrap(), Some(vec![1; 3]));
        assert!(a.payload(JobId(9)).unwrap().is_some());
        a.append(&Batch { payloads: vec![payload(11, 3)], ..batch(epoch, [102]) }).unwrap();
        assert_eq!(b.payload(JobId(11)).unwrap(), Some(vec![3; 3]));
    }
}

/// A statement of its own ends with itself, a transaction with its COMMIT: a trigger that waits for
/// the end sees which it was.
#[test]
fn a_database_is_sent_one_statement_unless_there_are_secrets() {
    let Some(site) = Site::postgres() else { return };
    let mut s = site.open();
    let epoch = filled(&mut *s);
    let StoreUrl::Postgres(url) = &site.url else { unreachable!() };
    let mut client = postgres::Client::connect(url, postgres::NoTls).unwrap();
    client
        .batch_execute(
            "CREATE TABLE ends (query text);
             CREATE FUNCTION note_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO ends
                 SELECT query FROM pg_stat_activity WHERE pid = pg_backend_pid();
               RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER t AFTER INSERT ON log DEFERRABLE INITIALLY DEFERRED
               FOR EACH ROW EXECUTE FUNCTION note_end()",
        )
        .unwrap();
    let mut ended_by = |b: &Batch| -> String {
        s.append(b).unwrap();
        let rows = client.query("DELETE FROM ends RETURNING query", &[]).unwrap();
        let queries: Vec<String> = rows.iter().map(|r| r.get(0)).collect();
        assert_eq!(queries.len(), 1, "{queries:?}");
        queries.concat()
    };
    let plain = batch(epoch, [101]);
    let paid = Batch { payloads: vec![payload(11, 1)], ..batch(epoch, [102]) };
    let gone = Batch {
        payloads: vec![payload(12, 1)],
        unneeded: vec![JobId(11), JobId(12)],
        ..batch(epoch, [103])
    };
    for b in [plain, paid, gone] {
        let query = ended_by(&b);
        assert!(query.starts_with("WITH moved"), "{query}");
    }
    let secrets = Batch { secrets: vec![secret("p", "key", Some(b"new"))], ..batch(epoch, [104]) };
    assert_eq!(ended_by(&secrets), "COMMIT");
}
