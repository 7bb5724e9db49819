use super::*;
use crate::lines::cut_lines;
use crate::query::Query;
use crate::{MatchedLine, SearchRequest, find, newest};

/// No job.
const NONE: [u64; 0] = [];

/// Stdout of rank 0 of the first attempt of a job.
pub(crate) fn stream(job: u64) -> StreamKey {
    let attempt = AttemptRef { life: 0, job, attempt: 1 };
    StreamKey { attempt, rank: 0, is_stderr: false }
}

/// Adds what a stream prints next.
pub(crate) fn add(index: &mut OutputIndex, project: &str, key: StreamKey, text: &str) {
    let at = index.position(project, &key).unwrap().unwrap_or_default();
    let (lines, next) = cut_lines(at, text.as_bytes(), &[], false);
    index.add(project, &key, next, &lines, 0).unwrap();
}

fn look(dir: &Path, project: &str, text: &str) -> Vec<MatchedLine> {
    let query = Query::parse(text).unwrap();
    let wanted = SearchRequest {
        query: &query,
        job: None,
        since: None,
        below: None,
        limit: 100,
        until: None,
    };
    find(dir, project, &wanted).unwrap().lines
}

fn jobs(dir: &Path, project: &str, text: &str) -> Vec<u64> {
    look(dir, project, text).iter().map(|l| l.stream.attempt.job).collect()
}

#[test]
fn nobody_else_of_the_machine_reads_the_index() {
    let d = tempfile::tempdir().unwrap();
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
    let open_to_all = |p: &Path, mode| {
        fs::set_permissions(p, fs::Permissions::from_mode(mode)).unwrap();
    };
    let dir = d.path().join("output-index");
    let mut index = OutputIndex::open(&dir, 1 << 30).unwrap();
    add(&mut index, "alpha", stream(1), "hello\n");
    assert_eq!((mode(&dir), mode(&path_of(&dir, "alpha"))), (0o700, 0o600));
    assert_eq!(mode(&beside(&path_of(&dir, "alpha"), "-wal")), 0o600);
    drop(index);
    // As an older version made them.
    open_to_all(&dir, 0o755);
    open_to_all(&path_of(&dir, "alpha"), 0o644);
    let _index = OutputIndex::open(&dir, 1 << 30).unwrap();
    assert_eq!((mode(&dir), mode(&path_of(&dir, "alpha"))), (0o700, 0o600));
}

#[test]
fn a_line_is_found_by_its_words_the_newest_first() {
    let d = tempfile::tempdir().unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    add(&mut index, "alpha", stream(1), "starting\nhgx-01: NCCL WARN timeout of rank 3\n");
    add(&mut index, "alpha", stream(2), "NCCL INFO ready\nno warn about nccl\n");
    assert_eq!(jobs(d.path(), "alpha", "nccl warn"), [2, 1]);
    assert_eq!(jobs(d.path(), "alpha", "\"nccl warn\""), [1], "a phrase is in this order");
    assert_eq!(jobs(d.path(), "alpha", "hgx-01"), [1]);
    assert_eq!(jobs(d.path(), "alpha", "starting timeout"), NONE, "both in one line");
    let hit = look(d.path(), "alpha", "timeout")[0];
    assert_eq!((hit.offset, hit.len, hit.number), (9, 35, Some(2)));
    let query = Query::parse("nccl").unwrap();
    let one = SearchRequest {
        query: &query,
        job: Some(1),
        since: None,
        below: None,
        limit: 100,
        until: None,
    };
    let found = find(d.path(), "alpha", &one).unwrap();
    assert_eq!((found.lines.len(), found.floor), (1, None));
}

#[test]
fn pages_leave_nothing_out() {
    let d = tempfile::tempdir().unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    for job in 1..=7 {
        add(&mut index, "alpha", stream(job), "a line\n");
    }
    let query = Query::parse("line").unwrap();
    let (mut below, mut seen) = (None, Vec::new());
    loop {
        let wanted =
            SearchRequest { query: &query, job: None, since: None, below, limit: 3, until: None };
        let found = find(d.path(), "alpha", &wanted).unwrap();
        seen.extend(found.lines.iter().map(|l| l.stream.attempt.job));
        below = found.floor;
        if below.is_none() {
            break;
        }
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
    let newest = |project, below| newest(d.path(), project, below).unwrap();
    assert_eq!((newest("alpha", None), newest("alpha", Some(7))), (Some(7), Some(6)));
    assert_eq!((newest("alpha", Some(1)), newest("beta", None)), (None, None));
}

#[test]
fn a_project_finds_only_its_own() {
    let d = tempfile::tempdir().unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    add(&mut index, "alpha", stream(1), "secret of alpha\n");
    add(&mut index, "beta", stream(2), "secret of beta\n");
    assert_eq!(jobs(d.path(), "alpha", "secret"), [1]);
    assert_eq!(jobs(d.path(), "beta", "secret"), [2]);
    assert_eq!(jobs(d.path(), "gamma", "secret"), NONE);
    assert!(!path_of(d.path(), "gamma").exists(), "asking makes no file");
}

#[test]
fn nasty_queries_find_nothing_and_break_nothing() {
    let d = tempfile::tempdir().unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    add(&mut index, "alpha", stream(1), "plain words\n");
    for text in [
        "text:plain",
        "job : 1 OR plain",
        "NEAR(plain words, 2)",
        "plain NOT words",
        "pla*",
        "plain) OR (words",
        "'; DROP TABLE line; --",
        "{job text} : plain",
        "a\0b",
        "\u{202e}x",
        "ﬁ ß İ ǅ 漢字 👩‍🚀1",
        "\u{301}a",
        "+ + + a",
        "-a",
        "\"plain AND words\"",
    ] {
        assert_eq!(jobs(d.path(), "alpha", text), NONE, "{text:?}");
    }
    assert_eq!(jobs(d.path(), "alpha", "(plain) \"words\" *"), [1]);
}

#[test]
fn a_known_time_is_compared_and_an_unknown_one_stays() {
    let d = tempfile::tempdir().unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    let line = |text: &str, at| Line { offset: 0, len: 1, number: None, at, text: text.into() };
    let lines = [line("x old", Some(10)), line("x new", Some(20)), line("x whenever", None)];
    index.add("alpha", &stream(1), Position::default(), &lines, 0).unwrap();
    let query = Query::parse("x").unwrap();
    let wanted = SearchRequest {
        query: &query,
        job: None,
        since: Some(20),
        below: None,
        limit: 9,
        until: None,
    };
    let at: Vec<_> = find(d.path(), "alpha", &wanted).unwrap().lines.iter().map(|l| l.at).collect();
    assert_eq!(at, [None, Some(20)]);
}

#[test]
fn what_is_removed_is_not_found_and_an_empty_project_has_no_file() {
    let d = tempfile::tempdir().unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    add(&mut index, "alpha", stream(1), "word\n");
    add(&mut index, "alpha", stream(2), "word\n");
    index.remove_attempt("alpha", stream(1).attempt).unwrap();
    assert_eq!(jobs(d.path(), "alpha", "word"), [2]);
    assert_eq!(index.projects(), ["alpha"]);
    assert_eq!(index.attempts("alpha").unwrap(), [stream(2).attempt]);
    assert!(index.attempts("beta").unwrap().is_empty());
    assert_eq!(index.position("alpha", &stream(1)).unwrap(), None);
    index.remove_stream("alpha", &stream(2)).unwrap();
    assert!(!path_of(d.path(), "alpha").exists());
    add(&mut index, "alpha", stream(3), "word\n");
    assert_eq!(jobs(d.path(), "alpha", "word"), [3]);
}

#[test]
fn the_oldest_lines_go_when_the_bound_is_reached() {
    let d = tempfile::tempdir().unwrap();
    let most = 1 << 20;
    let mut index = OutputIndex::open(d.path(), most).unwrap();
    for job in 0..200u64 {
        let project = if job.is_multiple_of(2) { "alpha" } else { "beta" };
        let words: String =
            (0..600).map(|n| format!("word{}\n", job * 7919 + n * 104_729)).collect();
        let text = format!("mark{job}\n{words}");
        let at = index.position(project, &stream(job)).unwrap().unwrap_or_default();
        let (lines, next) = cut_lines(at, text.as_bytes(), &[], false);
        index.add(project, &stream(job), next, &lines, i64::try_from(job).unwrap()).unwrap();
        assert!(index.stats().bytes <= most, "{:?}", index.stats());
    }
    assert!(index.stats().dropped > 0);
    assert_eq!(jobs(d.path(), "alpha", "mark0"), NONE, "the oldest are gone");
    assert_eq!(jobs(d.path(), "beta", "mark1"), NONE);
    assert_eq!(jobs(d.path(), "alpha", "mark198"), [198]);
    assert_eq!(jobs(d.path(), "beta", "mark199"), [199]);
    let gone = index.position("alpha", &stream(0)).unwrap();
    assert!(gone.is_some(), "what was dropped is not indexed again");
}

#[test]
fn a_quiet_project_keeps_its_part_while_others_have_older_lines() {
    let d = tempfile::tempdir().unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 20).unwrap();
    for job in 0..200u64 {
        let words: String =
            (0..600).map(|n| format!("word{}\n", job * 7919 + n * 104_729)).collect();
        for (project, text) in [("busy", words.as_str()), ("quiet", "alive\n")] {
            if project == "quiet" && !job.is_multiple_of(4) {
                continue;
            }
            let (lines, next) = cut_lines(Position::default(), text.as_bytes(), &[], false);
            let now = i64::try_from(job).unwrap();
            index.add(project, &stream(job), next, &lines, now).unwrap();
        }
    }
    assert!(index.stats().dropped > 0);
    assert_eq!(jobs(d.path(), "quiet", "alive").len(), 50, "its part is old, its last line is not");
}

#[test]
fn a_log_that_a_reader_keeps_from_being_emptied_is_counted_and_bounded() {
    let d = tempfile::tempdir().unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    index.most_log = 64 << 10;
    add(&mut index, "alpha", stream(1), "word\n");
    assert!(index.can_add("alpha").unwrap() && index.can_add("beta").unwrap());
    let reader = rusqlite::Connection::open(path_of(d.path(), "alpha")).unwrap();
    let view = reader.unchecked_transaction().unwrap();
    let seen: i64 = view.query_row("SELECT count(*) FROM line", [], |r| r.get(0)).unwrap();
    assert_eq!(seen, 1);
    let many: String = (0..5000).map(|n| format!("word{n}\n")).collect();
    add(&mut index, "alpha", stream(1), &many);
    assert!(!index.can_add("alpha").unwrap());
    let log = fs::metadata(beside(&path_of(d.path(), "alpha"), "-wal")).unwrap().len();
    assert!(log > index.most_log && index.stats().bytes > log);
    drop(view);
    assert!(index.can_add("alpha").unwrap());
    assert_eq!(jobs(d.path(), "alpha", "word4999"), [1]);
}

#[test]
fn numbers_go_on_after_a_restart_and_a_file_that_was_cut_is_made_again() {
    let d = tempfile::tempdir().unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    add(&mut index, "alpha", stream(1), "word\n");
    add(&mut index, "beta", stream(2), &"word\n".repeat(2000));
    drop(index);
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    add(&mut index, "alpha", stream(3), "word\n");
    let newest = look(d.path(), "alpha", "word")[0];
    assert_eq!((newest.id, newest.stream.attempt.job), (2002, 3), "comparable in all projects");
    drop(index);
    let path = path_of(d.path(), "beta");
    let size = fs::metadata(&path).unwrap().len();
    fs::File::options().write(true).open(&path).unwrap().set_len(size / 2).unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    assert_eq!(index.position("beta", &stream(2)).unwrap(), None, "to be indexed anew");
    add(&mut index, "beta", stream(2), "word\n");
    assert_eq!(jobs(d.path(), "beta", "word"), [2]);
    assert_eq!(jobs(d.path(), "alpha", "word"), [3, 1], "the others are as they were");
}

#[test]
fn a_file_that_cannot_be_read_does_not_keep_the_others_from_being_used() {
    let d = tempfile::tempdir().unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    add(&mut index, "alpha", stream(1), "word\n");
    add(&mut index, "beta", stream(2), "word\n");
    drop(index);
    let (beta, away) = (path_of(d.path(), "beta"), d.path().join("away"));
    fs::rename(&beta, &away).unwrap();
    fs::create_dir(&beta).unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    assert_eq!(index.projects(), ["alpha", "beta"]);
    assert!(index.position("beta", &stream(2)).is_err_and(|e| !e.is_damaged()));
    assert_eq!(index.attempts("alpha").unwrap(), [stream(1).attempt]);
    fs::remove_dir(&beta).unwrap();
    fs::rename(&away, &beta).unwrap();
    add(&mut index, "beta", stream(2), "word\n");
    let ids: Vec<u64> = look(d.path(), "beta", "word").iter().map(|l| l.id).collect();
    assert_eq!(ids, [3, 2], "it goes on where it was");
}

#[test]
fn a_file_of_another_format_or_of_nonsense_is_made_again() {
    let d = tempfile::tempdir().unwrap();
    fs::write(
        path_of(d.path(), "alpha"),
        "this is not a database, but it is long enough to be read as one".repeat(40),
    )
    .unwrap();
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    add(&mut index, "alpha", stream(1), "word\n");
    assert_eq!(jobs(d.path(), "alpha", "word"), [1]);
    drop(index);
    let conn = rusqlite::Connection::open(path_of(d.path(), "alpha")).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
    assert_eq!(index.position("alpha", &stream(1)).unwrap(), None);
}
