//! Ranks that make the files which the agent reads of them huge, or put something else in their
//! place. Their end waits for none of it.

use crate::support::{Bench, LONG, key};
use muster_agent::isolation::Isolation;
use muster_agent::runner::RunnerTools;
use muster_link::messages::{LogChunk, ProgressReport, Stream};
use muster_model::job::SlotEnd;
use std::time::{Duration, Instant};

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![huge:
        a_rank_that_makes_its_report_huge_ends_at_once,
        a_rank_that_makes_its_output_huge_ends_at_once,
        a_rank_that_fills_its_report_with_junk_ends_and_its_last_word_is_heard,
        what_a_rank_puts_in_the_place_of_its_files_is_not_waited_for,
    ]
}

fn checkpoint(b: &Bench, wanted: u64) -> bool {
    let is = |v: &ProgressReport| matches!(v, ProgressReport::Checkpoint { step: Some(s), .. } if *s == wanted);
    b.progress_reports.iter().any(is)
}

pub(crate) fn a_rank_that_makes_its_report_huge_ends_at_once() {
    let mut b = Bench::new();
    let k = key();
    let script = r#"truncate -s 8T "$MUSTER_REPORT" || exit 9
echo >> "$MUSTER_REPORT"
echo '{"checkpoint":{"state":"done","step":7}}' >> "$MUSTER_REPORT""#;
    b.runner.start(k, &b.detail(script), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok);
    assert!(checkpoint(&b, 7), "what was written last is heard: {:?}", b.progress_reports);
    assert!(
        b.progress_reports.iter().any(|v| matches!(v, ProgressReport::Garbled { .. })),
        "{:?}",
        b.progress_reports
    );
    b.runner.forget(k);
    assert!(!b.runner.knows(k), "nothing is held for it any more");
}

pub(crate) fn a_rank_that_makes_its_output_huge_ends_at_once() {
    let mut b = Bench::new();
    let k = key();
    let script = "for fd in 1 2; do truncate -s 8T /proc/self/fd/$fd || exit 9; done";
    b.runner.start(k, &b.detail(script), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok);
    let shipped: usize = b.logs.iter().map(|c| c.data.len()).sum();
    assert!(shipped < 1 << 20, "{shipped} bytes were shipped that nobody wrote");
    for stream in [Stream::Stdout, Stream::Stderr] {
        let end = |c: &LogChunk| c.offset + c.data.len() as u64;
        let known = b.logs.iter().filter(|c| c.stream == stream).map(end).max();
        assert_eq!(known, Some(8 << 40), "the server learns that bytes were dropped");
    }
    b.runner.rewind();
    b.turn();
    let again: usize = b.logs.iter().map(|c| c.data.len()).sum();
    assert!(again < 1 << 20, "{again} bytes were shipped on a new connection");
    b.runner.forget(k);
    assert!(!b.runner.knows(k));
}

pub(crate) fn a_rank_that_fills_its_report_with_junk_ends_and_its_last_word_is_heard() {
    let mut b = Bench::new();
    let k = key();
    let script = r#"yes | head -c 16M >> "$MUSTER_REPORT"
head -c 1M /dev/zero | tr '\0' y >> "$MUSTER_REPORT"
echo >> "$MUSTER_REPORT"
echo '{"checkpoint":{"state":"done","step":8}}' >> "$MUSTER_REPORT""#;
    b.runner.start(k, &b.detail(script), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Ok);
    assert!(checkpoint(&b, 8), "{:?}", b.progress_reports);
    let lines = b.progress_reports.iter().map(|v| match v {
        ProgressReport::Garbled { lines } => *lines,
        _ => 0,
    });
    let all = 8 << 20;
    assert!(lines.sum::<u64>() < all, "not all of it was read");
}

pub(crate) fn what_a_rank_puts_in_the_place_of_its_files_is_not_waited_for() {
    // Isolated ranks cannot replace them.
    let mut b =
        Bench::ungrouped(RunnerTools { isolation: Isolation::Off, ..RunnerTools::default() });
    let k = key();
    std::fs::write(b.files.path().join("other"), "not yours").unwrap();
    let script = r#"out="${MUSTER_REPORT%report}out"
rm "$MUSTER_REPORT" "$out" || exit 9
case $RANK in
0) mkfifo "$MUSTER_REPORT" "$out" ;;
1) mkdir "$MUSTER_REPORT" "$out" ;;
*) ln -s "$PWD/other" "$MUSTER_REPORT" && ln -s "$PWD/other" "$out" ;;
esac"#;
    let mut d = b.detail(script);
    d.slot.ranks = 3;
    d.world_size = 3;
    b.runner.start(k, &d, Instant::now());
    // The first look comes afterwards.
    let from = Instant::now();
    while b.recorded(k, "end").is_none() {
        assert!(from.elapsed() < LONG, "never ended");
        std::thread::sleep(Duration::from_millis(3));
    }
    assert_eq!(b.end(k), SlotEnd::Ok);
    let garbled = b.progress_reports.iter().filter(|v| **v == ProgressReport::Garbled { lines: 1 });
    assert_eq!(garbled.count(), 3, "{:?}", b.progress_reports);
    assert!(b.logs.is_empty(), "{:?}", b.logs);
}
