//! Following a job: its output, its state, and why it waits.

use crate::clean::Cleaner;
use crate::fail::Fail;
use crate::output;
use muster_api::{Event, EventsQuery, Job, LineStamps, LogStream, LogsQuery};
use muster_client::{Client, ClientError, Piece};
use muster_model::job::JobState;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The exit code that a finished job stands for.
pub fn exit_code(job: &Job) -> u8 {
    match job.state {
        JobState::Succeeded => 0,
        _ => match job.exit_code {
            // A code that does not fit must still not read as success.
            Some(code) => u8::try_from(code).ok().filter(|c| *c != 0).unwrap_or(1),
            None => 1,
        },
    }
}

/// Why no output comes, where somebody or something is waited for.
pub fn waiting_for(job: &Job) -> Option<String> {
    let slots = job.attempt.iter().flat_map(|a| &a.slots);
    let lost: Vec<&str> = slots.filter(|s| s.state == "lost").map(|s| s.node.as_str()).collect();
    if let [first, rest @ ..] = lost.as_slice() {
        let more =
            if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        return Some(format!("job {} waits for the agent of {first}{more}: no heartbeat", job.id));
    }
    if job.state != JobState::Queued {
        return None;
    }
    let why = job.waiting.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!("job {} waits to be started{why}", job.id))
}

/// Prints what ranks wrote: stdout to stdout, stderr to stderr, with the rank in front when
/// there are several, and harmless on a terminal.
#[derive(Debug)]
pub struct Printer {
    many: bool,
    /// Stdout is for a document: the job's own goes to stderr too.
    aside: bool,
    /// Ranks may write over a line of their own.
    bars: bool,
    out_terminal: bool,
    err_terminal: bool,
    attempt: u32,
    cleaners: BTreeMap<(u32, LogStream), Cleaner>,
    lines: BTreeMap<(u32, LogStream), Vec<u8>>,
    /// Of streams whose lines begin with their time; none when that was not asked for.
    stamps: Option<BTreeMap<(u32, LogStream), LineStamps>>,
}

/// A line longer than this is printed in pieces.
const LONGEST_LINE: usize = 64 << 10;

impl Printer {
    /// With several ranks, each line says whose it is.
    #[must_use]
    pub fn new(many: bool) -> Printer {
        Printer {
            many,
            aside: false,
            bars: false,
            out_terminal: std::io::stdout().is_terminal(),
            err_terminal: std::io::stderr().is_terminal(),
            attempt: 0,
            cleaners: BTreeMap::new(),
            lines: BTreeMap::new(),
            stamps: None,
        }
    }

    /// Each line begins with its time.
    #[must_use]
    pub fn timestamps(mut self, yes: bool) -> Printer {
        self.stamps = yes.then(BTreeMap::new);
        self
    }

    /// Everything goes to stderr, when stdout is for a document.
    pub fn aside(mut self, aside: bool) -> Printer {
        self.aside = aside;
        self
    }

    /// Progress bars move on a terminal: for whoever started the job. They can hide what was printed
    /// before on their line.
    pub fn progress_bars(mut self, move_on: bool) -> Printer {
        self.bars = move_on;
        self
    }

    /// Takes a piece; gives back what goes to stdout and to stderr.
    fn take(&mut self, piece: Piece) -> (Vec<u8>, Vec<u8>) {
        let Piece { attempt, rank, stream, bytes, note, at } = piece;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        if attempt != self.attempt {
            if self.attempt != 0 {
                (out, err) = self.rest();
                err.extend_from_slice(format!("muster: attempt {attempt}\n").as_bytes());
            }
            self.attempt = attempt;
        }
        if let Some(note) = note {
            let note: String = note.chars().filter(|c| !c.is_control()).collect();
            err.extend_from_slice(format!("muster: rank {rank}: {note}\n").as_bytes());
        }
        let terminal = match stream {
            LogStream::Stdout if !self.aside => self.out_terminal,
            // With a document on stdout, that of the job goes to stderr too.
            LogStream::Stdout | LogStream::Stderr => self.err_terminal,
        };
        let bytes = if terminal {
            let cleaner = || Cleaner::with_returns(self.bars && !self.many);
            self.cleaners.entry((rank, stream)).or_insert_with(cleaner).push(&bytes)
        } else {
            bytes
        };
        let bytes = match &mut self.stamps {
            Some(stamps) => stamps.entry((rank, stream)).or_default().stamp(at, &bytes),
            None => bytes,
        };
        let target = match stream {
            LogStream::Stdout => &mut out,
            LogStream::Stderr => &mut err,
        };
        if !self.many {
            target.extend_from_slice(&bytes);
            return (out, err);
        }
        let line = self.lines.entry((rank, stream)).or_default();
        line.extend_from_slice(&bytes);
        while let Some(end) = line.iter().position(|b| *b == b'\n') {
            let whole: Vec<u8> = line.drain(..=end).collect();
            target.extend_from_slice(format!("[{rank}] ").as_bytes());
            target.extend_from_slice(&whole);
        }
        if line.len() > LONGEST_LINE {
            target.extend_from_slice(format!("[{rank}] ").as_bytes());
            target.append(line);
            target.push(b'\n');
        }
        (out, err)
    }

    /// Lines without an end, once there is no more.
    fn rest(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        if let Some(stamps) = &mut self.stamps {
            stamps.clear();
        }
        for ((rank, stream), mut cleaner) in std::mem::take(&mut self.cleaners) {
            self.lines.entry((rank, stream)).or_default().extend(cleaner.finish());
        }
        for ((rank, stream), line) in std::mem::take(&mut self.lines) {
            if line.is_empty() {
                continue;
            }
            let target = match stream {
                LogStream::Stdout => &mut out,
                LogStream::Stderr => &mut err,
            };
            if self.many {
                target.extend_from_slice(format!("[{rank}] ").as_bytes());
            }
            target.extend_from_slice(&line);
            if self.many {
                target.push(b'\n');
            }
        }
        (out, err)
    }

    /// Prints a piece.
    pub fn print(&mut self, piece: Piece) -> Result<(), Fail> {
        let parts = self.take(piece);
        self.write(parts)
    }

    /// Prints what is left.
    pub fn finish(&mut self) -> Result<(), Fail> {
        let parts = self.rest();
        self.write(parts)
    }

    fn write(&self, (out, err): (Vec<u8>, Vec<u8>)) -> Result<(), Fail> {
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(&err);
        if self.aside {
            let _ = stderr.write_all(&out);
            return Ok(());
        }
        drop(stderr);
        if out.is_empty() { Ok(()) } else { output::print_bytes(&out) }
    }
}

/// Output of a job through all of its attempts, in a task of its own. The channel closes when
/// the job has ended and everything was said.
pub fn pieces(
    client: &Client,
    job: &str,
    query: LogsQuery,
) -> mpsc::Receiver<Result<Piece, ClientError>> {
    let (tx, rx) = mpsc::channel(64);
    let (client, job) = (client.clone(), job.to_owned());
    tokio::spawn(async move {
        let (follow, only) = (query.follow, query.attempt);
        // Answers to what was begun are waited for through a restart of the server.
        let patient = client.patient();
        let mut logs = client.logs(&job, &query);
        loop {
            match logs.next().await {
                Ok(Some(piece)) => {
                    if tx.send(Ok(piece)).await.is_err() {
                        return;
                    }
                }
                Ok(None) if !follow => return,
                // The stream ends with its attempt, and the job may go on with another one. It also
                // ends with a server that stops in order.
                Ok(None) => match patient.job(&job).await {
                    Ok(j) if j.state.is_final() || only.is_some_and(|n| is_over(&j, n)) => return,
                    Ok(_) => {
                        tokio::time::sleep(Duration::from_millis(500)).await;
                        logs.reopen();
                    }
                    Err(e) => {
                        let _ = tx.send(Err(e)).await;
                        return;
                    }
                },
                Err(e) => {
                    let _ = tx.send(Err(e)).await;
                    return;
                }
            }
        }
    });
    rx
}

/// Has this attempt of a job ended that goes on?
fn is_over(job: &Job, attempt: u32) -> bool {
    job.attempts > attempt || (job.attempts == attempt && job.state == JobState::Queued)
}

/// What happens from now on, in a task of its own.
pub fn news(client: &Client) -> mpsc::Receiver<Result<Event, ClientError>> {
    match client.position() {
        Some(place) => events(client, EventsQuery { after: Some(place), ..EventsQuery::default() }),
        // The whole log would be no news: better none, the callers look now and then.
        None => mpsc::channel(1).1,
    }
}

/// The events that a query chooses as they come, in a task of its own.
pub fn events(client: &Client, wanted: EventsQuery) -> mpsc::Receiver<Result<Event, ClientError>> {
    let (tx, rx) = mpsc::channel(256);
    let mut follow = client.follow_chosen_events(wanted);
    tokio::spawn(async move {
        loop {
            let next = follow.next().await;
            let over = next.is_err();
            if tx.send(next).await.is_err() || over {
                return;
            }
        }
    });
    rx
}

/// Waits until the job has ended. Hears of it through events, and looks now and then in case
/// that the caller may not read them. A server that is started again meanwhile is waited for, as
/// long as by whoever follows the log.
pub async fn until_final(client: &Client, job: Job) -> Result<Job, Fail> {
    until_final_seen(client, job, |_| {}).await
}

/// The same; `seen` is given the job at each look until it has ended.
pub async fn until_final_seen(
    client: &Client,
    mut job: Job,
    mut seen: impl FnMut(&Job),
) -> Result<Job, Fail> {
    if job.state.is_final() {
        return Ok(job);
    }
    let mut heard = news(client);
    let mut deaf = false;
    let client = client.patient();
    // It may have ended since the caller read it, before the place from which news are heard.
    job = client.job(&job.id).await?;
    loop {
        if job.state.is_final() {
            return Ok(job);
        }
        seen(&job);
        look_due(&mut heard, job.number, &mut deaf).await;
        job = client.job(&job.id).await?;
    }
}

/// Waits until a job is worth a look: something happened to it, or the last look was a while ago. What
/// happens to others is no reason for one. `deaf`: no more is heard.
async fn look_due(
    heard: &mut mpsc::Receiver<Result<Event, ClientError>>,
    job: u64,
    deaf: &mut bool,
) {
    let from = Instant::now();
    loop {
        let patience = Duration::from_secs(if *deaf { 1 } else { 10 });
        tokio::select! {
            event = heard.recv(), if !*deaf => match event {
                Some(Ok(event)) if event.job() == Some(job) => return,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => *deaf = true,
            },
            () = tokio::time::sleep_until(from + patience) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However slow the machine is: its clock stands while there is something to hear.
    #[tokio::test(start_paused = true)]
    async fn what_happens_to_another_job_is_no_reason_to_look() {
        let (tx, mut rx) = mpsc::channel(4);
        for job in [5, 6, 4, 7] {
            let event = serde_json::json!({
                "at": "2026-01-31T12:00:00.000Z", "kind": "job_placed", "origin": "decision",
                "project": null, "actor": "muster", "data": { "job": job },
            });
            tx.send(Ok(serde_json::from_value(event).expect("an event"))).await.expect("sent");
        }
        let mut deaf = false;
        look_due(&mut rx, 4, &mut deaf).await;
        let next: Event = rx.try_recv().expect("one is left").expect("an event");
        assert_eq!((next.job(), deaf), (Some(7), false));
    }

    #[test]
    fn an_attempt_is_over_when_its_job_waits_again_or_has_another() {
        let mut job = muster_api::samples::job(4, JobState::Running);
        job.attempts = 2;
        assert!(is_over(&job, 1) && !is_over(&job, 2));
        job.state = JobState::Queued;
        assert!(is_over(&job, 2));
    }

    #[test]
    fn whoever_follows_is_given_what_is_waited_for() {
        let mut job = muster_api::samples::running(42);
        assert_eq!(waiting_for(&job), None);
        let lose = |job: &mut Job, slot: usize| {
            job.attempt.as_mut().expect("it runs").slots[slot].state = "lost".into();
        };
        lose(&mut job, 1);
        let said = "job 42 waits for the agent of hgx-02: no heartbeat";
        assert_eq!(waiting_for(&job).as_deref(), Some(said));
        lose(&mut job, 0);
        let said = "job 42 waits for the agent of hgx-01 and 1 more: no heartbeat";
        assert_eq!(waiting_for(&job).as_deref(), Some(said));
        let mut queued = muster_api::samples::job(43, JobState::Queued);
        queued.waiting = Some("no free GPUs".into());
        let said = "job 43 waits to be started: no free GPUs";
        assert_eq!(waiting_for(&queued).as_deref(), Some(said));
    }

    fn piece(rank: u32, stream: LogStream, text: &str) -> Piece {
        let bytes = text.as_bytes().to_vec();
        Piece { attempt: 1, rank, stream, bytes, note: None, at: None }
    }

    fn printer(many: bool, terminal: bool) -> Printer {
        Printer { out_terminal: terminal, err_terminal: terminal, ..Printer::new(many) }
    }

    #[test]
    fn lines_of_several_ranks_are_whole_and_name_their_rank() {
        let mut p = printer(true, false);
        assert_eq!(p.take(piece(0, LogStream::Stdout, "hel")), (vec![], vec![]));
        assert_eq!(p.take(piece(1, LogStream::Stderr, "oops\n")), (vec![], b"[1] oops\n".to_vec()));
        assert_eq!(p.take(piece(0, LogStream::Stdout, "lo\nx")), (b"[0] hello\n".to_vec(), vec![]));
        assert_eq!(p.rest(), (b"[0] x\n".to_vec(), vec![]));
    }

    #[test]
    fn lines_begin_with_their_time_where_that_is_asked_for() {
        let at = "2026-01-31T12:00:00.500Z".parse().ok();
        let timed = |text| Piece { at, ..piece(0, LogStream::Stdout, text) };
        let mut one = printer(false, false).timestamps(true);
        let time = "2026-01-31T12:00:00.500Z";
        let lines = format!("{time} a\n{time} b");
        assert_eq!(one.take(timed("a\nb")).0, lines.as_bytes());
        assert_eq!(one.take(piece(0, LogStream::Stdout, "c\nold\n")).0, b"c\nno-time old\n");
        let mut many = printer(true, false).timestamps(true);
        assert_eq!(many.take(timed("a\n")).0, b"[0] 2026-01-31T12:00:00.500Z a\n");
    }

    #[test]
    fn one_rank_passes_as_it_is_when_piped_and_cleaned_on_a_terminal() {
        let bell = "a\x07";
        assert_eq!(printer(false, false).take(piece(0, LogStream::Stdout, bell)).0, b"a\x07");
        assert_eq!(printer(false, true).take(piece(0, LogStream::Stdout, bell)).0, b"a^G");
        // Only whoever started the job sees lines written over.
        let bar = "1%\r2%";
        assert_eq!(printer(false, true).take(piece(0, LogStream::Stdout, bar)).0, b"1%\n2%");
        let mut own = printer(false, true).progress_bars(true);
        assert_eq!(own.take(piece(0, LogStream::Stdout, bar)).0, bar.as_bytes());
        assert_eq!(printer(false, false).take(piece(0, LogStream::Stdout, bar)).0, bar.as_bytes());
        // `-o json | jq`: stdout is piped, and what the job wrote is shown on the terminal.
        let mut aside = Printer { out_terminal: false, ..printer(false, true).aside(true) };
        assert_eq!(aside.take(piece(0, LogStream::Stdout, bell)).0, b"a^G");
    }

    #[test]
    fn a_line_without_end_does_not_grow_for_ever() {
        let mut p = printer(true, false);
        let (out, _) = p.take(piece(0, LogStream::Stdout, &"x".repeat(LONGEST_LINE + 1)));
        assert!(out.starts_with(b"[0] xxx") && out.ends_with(b"x\n"));
    }
}
