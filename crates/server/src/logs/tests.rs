use super::*;
use muster_model::ids::JobId;
use muster_model::units::Span;

fn key(job: u64) -> AttemptKey {
    AttemptKey { job: JobId(job), attempt: 1 }
}

fn chunk(offset: u64, data: &[u8]) -> LogChunk {
    LogChunk {
        key: key(1),
        rank: 0,
        stream: Stream::Stdout,
        offset,
        age: Some(Span(0)),
        data: Bytes::copy_from_slice(data),
    }
}

fn keeper(dir: &Path, config: LogConfig) -> LogKeeper {
    LogKeeper::open(dir, config, Arc::new(|_| false)).unwrap()
}

async fn all(k: &LogKeeper, rank: u32, stream: Stream) -> Vec<(u64, Bytes)> {
    let (mut at, mut out) = (0, Vec::new());
    loop {
        let p = k.read(key(1), rank, stream, at, 1 << 20).await.unwrap();
        at = p.next();
        if p.data.is_empty() {
            return out;
        }
        out.push((p.dropped, p.data));
    }
}

#[tokio::test]
async fn a_repeated_chunk_changes_nothing_and_an_overlap_adds_only_its_end() {
    let d = tempfile::tempdir().unwrap();
    let k = keeper(d.path(), LogConfig::default());
    assert_eq!(k.append(chunk(0, b"hello ")).await.unwrap().offset, 6);
    assert_eq!(k.append(chunk(0, b"hello ")).await.unwrap().offset, 6);
    assert_eq!(k.append(chunk(3, b"lo world")).await.unwrap().offset, 11);
    assert_eq!(k.append(chunk(2, b"l")).await.unwrap().offset, 11);
    let got = all(&k, 0, Stream::Stdout).await;
    assert_eq!(got, [(0, Bytes::from("hello world"))]);
    assert!(all(&k, 0, Stream::Stderr).await.is_empty());
    assert!(all(&k, 9, Stream::Stdout).await.is_empty());
}

#[tokio::test]
async fn nobody_else_of_the_machine_reads_what_ranks_print() {
    let d = tempfile::tempdir().unwrap();
    let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
    // As an older version made it.
    let dir = d.path().join("logs");
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    let k = keeper(&dir, LogConfig::default());
    k.append(chunk(0, b"hello")).await.unwrap();
    assert_eq!(mode(&dir), 0o700);
    let attempt = segments::attempt_dir(&dir, 0, key(1));
    assert_eq!(mode(&attempt), 0o700);
    let files: Vec<_> = std::fs::read_dir(&attempt).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_gap_is_reported_where_it_is() {
    let d = tempfile::tempdir().unwrap();
    let k = keeper(d.path(), LogConfig::default());
    k.append(chunk(0, b"before")).await.unwrap();
    k.append(chunk(1000, b"after")).await.unwrap();
    let got = all(&k, 0, Stream::Stdout).await;
    assert_eq!(got, [(0, Bytes::from("before")), (994, Bytes::from("after"))]);
    let p = k.read(key(1), 0, Stream::Stdout, 6, 100).await.unwrap();
    assert_eq!((p.offset, p.next()), (1000, 1005));
    assert!(p.note().unwrap().contains("994 bytes"));
    let s = k.ranks(key(1)).await.unwrap();
    assert_eq!((s[0].end, s[0].dropped), (1005, 994));
    // What came too late for its place stays dropped.
    k.append(chunk(6, b"late")).await.unwrap();
    assert_eq!(all(&k, 0, Stream::Stdout).await.len(), 2);
}

#[tokio::test]
async fn a_gap_at_the_end_is_reported_also_after_a_restart() {
    let d = tempfile::tempdir().unwrap();
    let note = async |k: &LogKeeper, from| {
        k.read(key(1), 0, Stream::Stdout, from, 100).await.unwrap().note()
    };
    let k = keeper(d.path(), LogConfig::default());
    // Nothing was ever stored of it.
    assert_eq!(k.append(chunk(500, b"")).await.unwrap().offset, 500);
    assert_eq!(k.append(chunk(1000, b"")).await.unwrap().offset, 1000);
    assert_eq!(note(&k, 0).await.unwrap(), "1000 bytes were dropped here");
    drop(k);
    let k = keeper(d.path(), LogConfig::default());
    assert_eq!(note(&k, 0).await.unwrap(), "1000 bytes were dropped here");
    assert_eq!(k.append(chunk(700, b"")).await.unwrap().offset, 1000, "it is known");
    k.append(chunk(1000, b"after")).await.unwrap();
    k.append(chunk(2000, b"")).await.unwrap();
    let t = k.tail(key(1), 0, Stream::Stdout, 3).await.unwrap();
    assert_eq!(t.data, "ter");
    assert_eq!(note(&k, t.next()).await.unwrap(), "995 bytes were dropped here");
    let s = k.ranks(key(1)).await.unwrap();
    assert_eq!((s[0].end, s[0].dropped), (2000, 1995));
    assert_eq!(k.stats().bytes, writer::disk_use(d.path()));
}

#[tokio::test]
async fn control_bytes_and_long_lines_are_kept_exactly() {
    let d = tempfile::tempdir().unwrap();
    let k = keeper(d.path(), LogConfig::default());
    let mut data: Vec<u8> = (0..=255).collect();
    data.extend(vec![b'x'; 64 << 10]);
    data.extend(b"\x1b[31m\0\r\n");
    k.append(chunk(0, &data)).await.unwrap();
    let got = all(&k, 0, Stream::Stdout).await;
    assert_eq!(got, [(0, Bytes::from(data.clone()))]);
    let t = k.tail(key(1), 0, Stream::Stdout, 8).await.unwrap();
    assert_eq!(&t.data[..], &data[data.len() - 8..]);
}

#[tokio::test]
async fn a_long_stream_keeps_its_head_and_its_newest_tail() {
    let d = tempfile::tempdir().unwrap();
    let k = keeper(d.path(), LogConfig { per_stream: 1600, ..LogConfig::default() });
    for i in 0..100u64 {
        let line = format!("{i:099}\n");
        k.append(chunk(i * 100, line.as_bytes())).await.unwrap();
    }
    let got = all(&k, 0, Stream::Stdout).await;
    assert!(got[0].1.starts_with(format!("{:099}\n", 0).as_bytes()), "the head is kept");
    assert!(got.last().unwrap().1.ends_with(format!("{:099}\n", 99).as_bytes()));
    let kept: usize = got.iter().map(|(_, b)| b.len()).sum();
    let dropped: u64 = got.iter().map(|(d, _)| *d).sum();
    assert!((800..=1600).contains(&kept), "{kept}");
    assert_eq!(kept as u64 + dropped, 10_000);
    assert_eq!(k.stats().bytes, writer::disk_use(d.path()));
    assert_eq!(k.ranks(key(1)).await.unwrap()[0].dropped, dropped);
}

#[tokio::test]
async fn a_restart_goes_on_where_the_files_end() {
    let d = tempfile::tempdir().unwrap();
    let k = keeper(d.path(), LogConfig::default());
    k.append(chunk(0, b"one")).await.unwrap();
    k.append(chunk(10, b"two")).await.unwrap();
    drop(k);
    let k = keeper(d.path(), LogConfig::default());
    assert_eq!(k.append(chunk(10, b"two")).await.unwrap().offset, 13);
    k.append(chunk(13, b"three")).await.unwrap();
    let got = all(&k, 0, Stream::Stdout).await;
    assert_eq!(got, [(0, Bytes::from("one")), (7, Bytes::from("twothree"))]);
    assert_eq!(k.stats().bytes, writer::disk_use(d.path()));
}

/// The parts of what is kept of rank 0's stdout, with their times.
async fn timed(k: &LogKeeper) -> Vec<(Option<Time>, String)> {
    let mut f = k.follow(key(1), None);
    f.set_timed(true);
    let mut out = Vec::new();
    while let Some(piece) = f.ready().await.unwrap() {
        for (_, at, data) in piece.parts() {
            out.push((at, String::from_utf8_lossy(&data).into_owned()));
        }
    }
    out
}

#[tokio::test]
async fn each_part_has_the_time_at_which_its_node_saw_it_also_after_a_restart() {
    let d = tempfile::tempdir().unwrap();
    let k = keeper(d.path(), LogConfig::default());
    let begin = clock();
    let late = |age, offset, data: &[u8]| LogChunk { age, ..chunk(offset, data) };
    k.append(late(Some(Span::hours(2)), 0, b"two hours\n")).await.unwrap();
    k.append(late(Some(Span::hours(1)), 10, b"one hour\n")).await.unwrap();
    drop(k);
    let k = keeper(d.path(), LogConfig::default());
    k.append(late(None, 19, b"unseen\n")).await.unwrap();
    k.append(late(Some(Span(0)), 26, b"now\n")).await.unwrap();
    let got = timed(&k).await;
    let texts: Vec<&str> = got.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["two hours\n", "one hour\n", "unseen\n", "now\n"]);
    let soon = begin + Span::mins(30);
    let ago = |at: Option<Time>| at.map(|at| soon.since(at).0 / Span::hours(1).0);
    let ages: Vec<_> = got.iter().map(|(at, _)| ago(*at)).collect();
    assert_eq!(ages, [Some(2), Some(1), None, Some(0)]);
    // Bytes are as they were for whoever does not ask.
    let plain = all(&k, 0, Stream::Stdout).await;
    assert_eq!(plain, [(0, Bytes::from("two hours\none hour\nunseen\nnow\n"))]);
    // By time: the first of that moment or later, and whether something before it has none.
    let since = async |ago: Span| k.since(key(1), 0, Stream::Stdout, begin - ago).await.unwrap();
    assert_eq!(since(Span::hours(3)).await, LogSince { offset: 0, untimed: false });
    assert_eq!(since(Span::mins(90)).await, LogSince { offset: 10, untimed: false });
    assert_eq!(since(Span::mins(30)).await, LogSince { offset: 26, untimed: true });
    let after = k.since(key(1), 0, Stream::Stdout, clock() + Span::hours(1)).await.unwrap();
    assert_eq!(after, LogSince { offset: 30, untimed: true });
    assert_eq!(k.stats().bytes, writer::disk_use(d.path()));
}

#[tokio::test]
async fn what_an_older_server_kept_has_no_time_and_what_follows_it_has() {
    let d = tempfile::tempdir().unwrap();
    let dir = segments::attempt_dir(d.path(), 0, key(1));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(names::segment_name(0, Stream::Stdout, 0)), "old\n").unwrap();
    let k = keeper(d.path(), LogConfig::default());
    assert_eq!(timed(&k).await, [(None, "old\n".to_owned())]);
    k.append(chunk(4, b"new\n")).await.unwrap();
    let got = timed(&k).await;
    assert_eq!((got[0].clone(), got[1].0.is_some()), ((None, "old\n".to_owned()), true));
}

#[tokio::test]
async fn times_that_cannot_be_written_leave_the_output_without_and_cost_none_of_it() {
    let d = tempfile::tempdir().unwrap();
    let dir = segments::attempt_dir(d.path(), 0, key(1));
    // A directory where the times would be.
    std::fs::create_dir_all(dir.join(names::times_name(0, Stream::Stdout, 0))).unwrap();
    let k = keeper(d.path(), LogConfig::default());
    k.append(chunk(0, b"kept\n")).await.unwrap();
    assert_eq!((timed(&k).await, k.stats().lost), (vec![(None, "kept\n".to_owned())], 0));
}

#[tokio::test]
async fn more_streams_than_open_files_all_get_their_bytes() {
    let d = tempfile::tempdir().unwrap();
    let k = keeper(d.path(), LogConfig { open_files: 2, ..LogConfig::default() });
    for round in 0..3u64 {
        for rank in 0..10 {
            let c = LogChunk { rank, ..chunk(round * 2, format!("{round}\n").as_bytes()) };
            k.append(c).await.unwrap();
        }
    }
    for rank in 0..10 {
        assert_eq!(all(&k, rank, Stream::Stdout).await, [(0, Bytes::from("0\n1\n2\n"))]);
    }
    assert_eq!(k.ranks(key(1)).await.unwrap().len(), 10);
}

#[tokio::test]
async fn the_oldest_finished_output_makes_room_and_what_runs_stays() {
    let d = tempfile::tempdir().unwrap();
    let config = LogConfig { total: 10_000, ..LogConfig::default() };
    let k = LogKeeper::open(d.path(), config, Arc::new(|k| k == key(1))).unwrap();
    for job in 1..=30 {
        let c = LogChunk { key: key(job), ..chunk(0, &[b'x'; 1000]) };
        k.append(c).await.unwrap();
    }
    assert!(k.stats().bytes <= 10_000);
    let kept = async |job| k.tail(key(job), 0, Stream::Stdout, 10).await.unwrap().data.len();
    assert_eq!(kept(1).await, 10, "it still runs");
    assert_eq!(kept(2).await, 0);
    assert_eq!(kept(30).await, 10);
}

#[tokio::test]
async fn a_disk_that_takes_nothing_loses_output_but_stops_nobody() {
    let d = tempfile::tempdir().unwrap();
    let k = keeper(d.path(), LogConfig::default());
    k.append(chunk(0, b"kept")).await.unwrap();
    // A directory where the next segment's file would be.
    let name = names::segment_name(0, Stream::Stdout, 10);
    std::fs::create_dir_all(segments::attempt_dir(d.path(), 0, key(1)).join(name)).unwrap();
    assert_eq!(k.append(chunk(10, b"lost")).await.unwrap().offset, 14, "the node may forget it");
    assert_eq!(k.stats().lost, 4);
    k.append(chunk(14, b"again")).await.unwrap();
    let got = all(&k, 0, Stream::Stdout).await;
    assert_eq!(got, [(0, Bytes::from("kept")), (10, Bytes::from("again"))]);
}

#[tokio::test]
async fn output_is_not_stored_while_free_space_is_short_and_readers_learn_why() {
    let d = tempfile::tempdir().unwrap();
    let opened = |reserve| {
        let config = LogConfig { reserve, ..LogConfig::default() };
        LogKeeper::open(d.path(), config, Arc::new(|k| k == key(1))).unwrap()
    };
    let k = opened(0);
    k.append(chunk(0, b"stored\n")).await.unwrap();
    k.append(LogChunk { key: key(2), ..chunk(0, b"ended\n") }).await.unwrap();
    // As if less were free than is to stay free.
    let k = opened(u64::MAX);
    assert_eq!(k.append(chunk(7, b"lost\n")).await.unwrap().offset, 12, "the node may forget it");
    assert_eq!(k.append(chunk(12, b"more\n")).await.unwrap().offset, 17);
    assert_eq!(k.stats().lost, 10);
    let ended = k.read(key(2), 0, Stream::Stdout, 0, 100).await.unwrap();
    assert!(ended.data.is_empty(), "the output of jobs that have ended goes first");
    let p = k.read(key(1), 0, Stream::Stdout, 7, 100).await.unwrap();
    assert_eq!((p.dropped, p.no_space, p.next()), (10, true, 17));
    // The reason is there after a restart, when there is space again.
    let k = opened(0);
    k.append(chunk(17, b"again\n")).await.unwrap();
    k.append(chunk(30, b"late\n")).await.unwrap();
    let p = k.read(key(1), 0, Stream::Stdout, 7, 100).await.unwrap();
    assert_eq!(p.data, "again\n");
    let why = "10 bytes were dropped here: free space on the server's disk was short";
    assert_eq!(p.note().as_deref(), Some(why));
    let p = k.read(key(1), 0, Stream::Stdout, 23, 100).await.unwrap();
    assert_eq!(p.note().as_deref(), Some("7 bytes were dropped here"), "for another reason");
    assert_eq!(k.stats().bytes, writer::disk_use(d.path()));
}

/// Prints 16 MiB.
async fn flood(k: &LogKeeper, rank: u32) {
    let data = vec![b'x'; 64 << 10];
    for i in 0..256 {
        k.append(LogChunk { rank, ..chunk(i << 16, &data) }).await.unwrap();
    }
}

#[tokio::test]
async fn all_streams_of_an_attempt_share_its_limit_and_each_has_its_beginning_and_its_newest() {
    let d = tempfile::tempdir().unwrap();
    let k = keeper(d.path(), LogConfig { per_attempt: 2 << 20, ..LogConfig::default() });
    for rank in 0..3 {
        flood(&k, rank).await;
    }
    assert!(k.stats().bytes <= 5 << 20, "{} bytes of 48 MiB", k.stats().bytes);
    for rank in 0..3 {
        let first = k.read(key(1), rank, Stream::Stdout, 0, 10).await.unwrap();
        assert_eq!((first.offset, first.data.len()), (0, 10), "rank {rank}");
        let last = k.tail(key(1), rank, Stream::Stdout, 10).await.unwrap();
        assert_eq!(last.next(), 16 << 20, "rank {rank}");
    }
    k.append(LogChunk { rank: 3, ..chunk(0, b"late") }).await.unwrap();
    assert_eq!(all(&k, 3, Stream::Stdout).await, [(0, Bytes::from("late"))]);
    assert_eq!(k.stats().bytes, writer::disk_use(d.path()));
}

#[tokio::test]
async fn what_runs_shares_the_space_for_all_output_and_nobody_takes_that_of_others() {
    let d = tempfile::tempdir().unwrap();
    let config = LogConfig { total: 4 << 20, ..LogConfig::default() };
    let k = LogKeeper::open(d.path(), config, Arc::new(|_| true)).unwrap();
    flood(&k, 0).await;
    assert!(k.stats().bytes <= 5 << 20, "{} bytes of 16 MiB", k.stats().bytes);
    let other = LogChunk { key: key(2), ..chunk(0, &vec![b'y'; 64 << 10]) };
    k.append(other).await.unwrap();
    let stored = k.ranks(key(2)).await.unwrap();
    assert_eq!((stored[0].end, stored[0].dropped), (64 << 10, 0));
}

#[tokio::test]
async fn following_gives_every_byte_once_from_all_ranks() {
    let d = tempfile::tempdir().unwrap();
    let k = keeper(d.path(), LogConfig::default());
    k.append(chunk(0, b"early ")).await.unwrap();
    let mut f = k.follow(key(1), None);
    assert_eq!(&f.next().await.unwrap().data[..], b"early ");
    assert_eq!(f.ready().await.unwrap(), None);
    let writer = tokio::spawn({
        let k = k.clone();
        async move {
            // More than the hints that are kept for a slow reader.
            for i in 0..500u64 {
                let c = LogChunk { rank: 1, stream: Stream::Stderr, ..chunk(i, b".") };
                k.append(c).await.unwrap();
            }
            k.append(chunk(6, b"late")).await.unwrap();
        }
    });
    let (mut dots, mut late) = (0, Vec::new());
    while dots < 500 || late.len() < 4 {
        let p = f.next().await.unwrap();
        assert_eq!(p.dropped, 0);
        match p.rank {
            1 => dots += p.data.len(),
            _ => late.extend_from_slice(&p.data),
        }
    }
    assert_eq!((dots, &late[..]), (500, &b"late"[..]));
    writer.await.unwrap();
    let mut one = k.follow(key(1), Some(0));
    one.seek(0, Stream::Stdout, 6);
    assert_eq!(&one.next().await.unwrap().data[..], b"late");
    assert_eq!(one.ready().await.unwrap(), None);
}

#[tokio::test]
async fn an_attempt_of_another_life_of_the_log_has_output_of_its_own() {
    let d = tempfile::tempdir().unwrap();
    let opened = |life: u64, live: Live| {
        let config = LogConfig { total: 3000, ..LogConfig::default() };
        LogKeeper::open_generations(d.path(), config, live, Arc::new(move |_| life)).unwrap()
    };
    let k = opened(0, Arc::new(|_| false));
    k.append(chunk(0, b"somebody else's secret")).await.unwrap();
    // The log was restored: the same number is another attempt.
    let k = opened(1_700_000_042, Arc::new(|k| k == key(1)));
    assert!(all(&k, 0, Stream::Stdout).await.is_empty());
    assert!(k.ranks(key(1)).await.unwrap().is_empty());
    assert_eq!(k.append(chunk(0, b"mine")).await.unwrap().offset, 4, "kept, not a repeat");
    assert_eq!(all(&k, 0, Stream::Stdout).await, [(0, Bytes::from("mine"))]);
    // The lost life's output makes room like any that is over; what runs stays.
    for job in 2..=4 {
        k.append(LogChunk { key: key(job), ..chunk(0, &[b'x'; 1000]) }).await.unwrap();
    }
    assert_eq!(all(&k, 0, Stream::Stdout).await, [(0, Bytes::from("mine"))]);
    let k = opened(0, Arc::new(|_| false));
    assert!(all(&k, 0, Stream::Stdout).await.is_empty(), "it went to make room");
}

#[tokio::test]
async fn whoever_follows_leaves_nothing_behind() {
    let d = tempfile::tempdir().unwrap();
    let k = keeper(d.path(), LogConfig::default());
    let (one, mut two) = (k.follow(key(1), None), k.follow(key(1), None));
    let other = k.follow(key(2), None);
    drop(one);
    k.append(chunk(0, b"hello")).await.unwrap();
    assert_eq!(two.next().await.unwrap().data, Bytes::from("hello"), "another still follows");
    drop((two, other));
    // Neither of the two printed anything after that.
    assert!(k.shared.followers().is_empty());
}

#[tokio::test]
async fn whoever_indexes_is_given_what_has_grown_and_what_was_removed() {
    let d = tempfile::tempdir().unwrap();
    let now = std::time::Duration::ZERO;
    let k = keeper(d.path(), LogConfig { total: 3000, ..LogConfig::default() });
    k.append(chunk(0, b"before anybody asks")).await.unwrap();
    let first = k.changes(now);
    assert!(first.everything && first.grown.is_empty());
    k.append(chunk(0, b"before anybody asks, and after")).await.unwrap();
    k.append(chunk(30, b"more")).await.unwrap();
    let changes = k.changes(now);
    let id = (key(1), 0, Stream::Stdout);
    assert_eq!((Vec::from_iter(changes.grown), changes.everything), (vec![id], false));
    assert!(k.changes(now).grown.is_empty(), "once");
    assert_eq!(k.read_here(id, 21, 100).unwrap().data, "and aftermore");
    assert_eq!((k.end_here(id).unwrap(), k.attempts_here()), (34, vec![key(1)]));
    for job in 2..=4 {
        k.append(LogChunk { key: key(job), ..chunk(0, &[b'x'; 1000]) }).await.unwrap();
    }
    assert!(k.changes(now).everything, "the oldest went");
    assert!(!k.attempts_here().contains(&key(1)));
}
