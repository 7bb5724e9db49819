//! Pictures of made-up sites at several sizes, kept as text beside this file. When one changes
//! on purpose, `MUSTER_WRITE_GOLDEN=1` writes them anew.

mod advice;

use super::draw;
use super::feed::ReadRequest;
use super::fleet::Glyph;
use super::model::{JobDetail, Jobs, Link, Model, Msg, View};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use muster_api::job::PastAttempt;
use muster_api::{
    Alert, ConsoleLayout, Estimate, Explanation, HealthSummary, Job, Kind, LayoutNode, LayoutRack,
    Progress, ReservedStart, WhoAmI,
};
use muster_client::{Frame, FrameBody, GpuCell, Hints};
use muster_model::alert::{Topic, Urgency};
use muster_model::job::{Basis, JobState, Verdict};
use muster_model::spec::{GpuPart, Group};
use muster_model::tenant::Role;
use muster_model::units::{Span, Time};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// 03:12:45 of some night.
const NOW: Time = Time(1_794_798_765_000);

fn ago(span: Span) -> muster_api::Timestamp {
    (NOW - span).into()
}

const STATES: [&str; 16] = [
    "ready",
    "cordoned",
    "draining",
    "drained",
    "lost",
    "protected",
    "qualifying",
    "suspect",
    "quarantined",
    "repairing",
    "enrolled",
    "retired",
    "excluded",
    "missing",
    "maintenance",
    "stopping",
];

/// So many racks of four nodes with eight GPUs each, two racks a leaf.
fn layout(racks: u32) -> ConsoleLayout {
    ConsoleLayout {
        version: 7,
        states: STATES.iter().map(ToString::to_string).collect(),
        racks: (0..racks)
            .map(|r| LayoutRack {
                cluster: "c1".into(),
                spine: format!("spine{}", 1 + r / 64),
                leaf: format!("leaf{:03}", 1 + r / 2),
                rack: format!("rack{:04}", 1 + r),
                ..LayoutRack::default()
            })
            .collect(),
        skus: vec!["h200-sxm".into()],
        nodes: (0..racks * 4)
            .map(|n| LayoutNode {
                name: format!("hgx-{:05}", n + 1),
                rack: n / 4,
                gpus: 8,
                sku: Some(0),
                ..LayoutNode::default()
            })
            .collect(),
    }
}

fn cell(node: u32, gpu: u32) -> GpuCell {
    let held = node % 5 != 4 && (node % 7 != 3 || gpu < 3);
    GpuCell {
        job: held.then_some(42),
        watts: Some(if held { 640 } else { 90 }),
        state: 0,
        held,
        util: Some(if held { 96 } else { 0 }),
        temp: Some(u8::try_from(40 + (node * 3 + gpu) % 45).expect("small")),
        ..GpuCell::default()
    }
}

fn state(word: &str) -> u8 {
    u8::try_from(STATES.iter().position(|s| *s == word).expect("a state")).expect("few")
}

fn frame(body: FrameBody) -> Msg {
    Msg::Frame(Frame { version: 7, at: NOW, body })
}

/// A site with trouble here and there.
fn site(racks: u32, view: View) -> Model {
    let mut m = Model::new(NOW, TimeZone::UTC, false, view);
    m.update(Msg::Me(WhoAmI {
        name: "user:ops".into(),
        role: Role::Operator,
        project: None,
        token: None,
        expires_at: None,
        site: "site-eu1".into(),
    }));
    m.update(Msg::Layout(layout(racks)));
    let mut cells: Vec<GpuCell> =
        (0..racks * 4).flat_map(|n| (0..8).map(move |g| cell(n, g))).collect();
    for (node, word) in [(1, "lost"), (9, "suspect"), (14, "draining"), (22, "quarantined")] {
        for c in cells.iter_mut().skip(node * 8).take(8) {
            *c = GpuCell { state: state(word), ..GpuCell::default() };
        }
    }
    for c in cells.iter_mut().skip(17 * 8).take(1) {
        (c.state, c.held, c.job) = (state("missing"), false, None);
    }
    for c in cells.iter_mut().skip(18 * 8).take(8) {
        (c.breaker, c.held, c.job) = (true, false, None);
    }
    m.update(frame(FrameBody::Whole(cells)));
    m.update(Msg::Link(Link::Live));
    m
}

fn text(m: &mut Model, w: u16, h: u16) -> String {
    m.update(Msg::Size(w, h));
    let mut terminal = Terminal::new(TestBackend::new(w, h)).expect("a screen of memory");
    terminal.draw(|f| draw::draw(m, f.area(), f.buffer_mut())).expect("memory can be drawn on");
    let buffer = terminal.backend().buffer();
    let plain = draw::text(m, w, h);
    // What a script gets and what a terminal shows is the same.
    let (mut y, mut same) = (0, true);
    for line in plain.lines() {
        let first: String = (0..w.min(20)).map(|x| buffer[(x, y)].symbol()).collect();
        same &= first.trim_end() == line.chars().take(20).collect::<String>().trim_end();
        y += 1;
    }
    assert!(same && y == h, "{plain}");
    assert!(plain.lines().all(|l| l.chars().count() <= usize::from(w)), "{plain}");
    assert!(!plain.chars().any(|c| c.is_control() && c != '\n'), "{plain:?}");
    plain
}

/// The picture is the one that was looked at when it was written.
#[track_caller]
fn golden(name: &str, got: &str) {
    let file = format!("{}/src/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("MUSTER_WRITE_GOLDEN").is_some() {
        std::fs::write(&file, got).expect("the file is written");
    }
    let want = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    assert!(got == want, "{name} changed; it is now\n{got}");
}

fn press(m: &mut Model, keys: &str) {
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            c => KeyCode::Char(c),
        };
        m.update(Msg::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }
}

fn health() -> HealthSummary {
    let mut incident = muster_api::samples::incident();
    (incident.began_at, incident.opened_at) = (ago(Span::mins(7)), ago(Span::mins(6)));
    let mut remediation = muster_api::samples::remediation(31);
    (remediation.since, remediation.at) = (ago(Span::mins(3)), ago(Span::mins(5)));
    let mut breaker = muster_api::samples::breaker();
    breaker.since = ago(Span::mins(6));
    breaker.probe_at = Some((NOW + Span::mins(4)).into());
    let mut finding = muster_api::samples::finding(12);
    (finding.first_seen, finding.last_seen) = (ago(Span::mins(9)), ago(Span::mins(8)));
    finding.opened_at = ago(Span::mins(9));
    HealthSummary {
        kind: Kind::Health,
        state: "bad".into(),
        service_affected: false,
        reasons: vec![
            "incident 40: 6 of 8 nodes of leaf eu/c1/s1/l2 are lost within 40 s".into(),
            "1 remediation pending approval".into(),
        ],
        incidents: vec![incident],
        findings: vec![finding],
        findings_open: 7,
        waiting: vec![remediation],
        remediations_open: 2,
        remediations_in_progress: 1,
        on_probation: 0,
        breakers: vec![breaker],
        automation: None,
        nodes: [("ready".to_string(), 42)].into(),
        nodes_out: 0,
        spares_left: 1,
        spares: 2,
        tickets_open: 0,
        burning: Vec::new(),
    }
}

fn alert() -> Alert {
    Alert {
        id: "3f9c2b7d1a60e455".into(),
        kind: "leaf-loss".into(),
        state: "firing".into(),
        topic: Topic::Incident,
        urgency: Urgency::Page,
        summary: "6 nodes of leaf l2 are lost".into(),
        cause: "leaf:eu/c1/s1/l2".into(),
        above: Vec::new(),
        members: vec!["node:hgx-00002".into(), "node:hgx-00003".into()],
        count: 6,
        jobs: 0,
        gpus: 0,
        owner: "oncall".into(),
        project: None,
        runbook: "docs/runbooks/leaf-loss.md".into(),
        evidence: "/incidents/40".into(),
        since: ago(Span::mins(6)),
        raised_at: ago(Span::mins(6)),
        changed_at: ago(Span::mins(6)),
        silenced: None,
        level: 0,
        acknowledged: None,
        resolved_at: None,
        merged_into: None,
        notifications: Vec::new(),
    }
}

/// A job's times are reported from the beginning of time; these are of this night.
fn tonight(mut job: Job, minutes: u64) -> Job {
    job.submitted_at = ago(Span::mins(minutes));
    if let Some(a) = &mut job.attempt {
        a.placed_at = ago(Span::mins(minutes));
        a.started_at = Some(ago(Span::mins(minutes - 1)));
    }
    job
}

fn jobs() -> Jobs {
    let mut spiteful = tonight(muster_api::samples::running(44), 5);
    spiteful.name = "\x1b]0;owned\x07\x1b[2Jevil\u{202e}".into();
    let mut reserved = tonight(muster_api::samples::job(45, JobState::Queued), 30);
    reserved.name = "pretrain-70b-long-name".into();
    reserved.reserved_start = Some(ReservedStart {
        at: (NOW + Span::mins(48)).into(),
        nodes: vec!["hgx-00001".into(), "hgx-00002".into()],
        basis: Basis::Limits,
        since: ago(Span::mins(29)),
        moved: Some("node hgx-00002 was lost".into()),
    });
    let mut waits = tonight(muster_api::samples::job(46, JobState::Queued), 12);
    waits.name = "eval".into();
    waits.waiting = Some("waits for free capacity; `muster explain 46` says more".into());
    let mut held = tonight(muster_api::samples::job(47, JobState::Queued), 2);
    held.held = Some("user:bob".into());
    let mut failed = tonight(muster_api::samples::job(41, JobState::Failed), 50);
    failed.started_at = Some(ago(Span::mins(49)));
    failed.ended_at = Some(ago(Span::mins(20)));
    failed.reason = Some("rank 3 exited with code 7 on hgx-00009".into());
    Jobs {
        running: vec![spiteful, tonight(muster_api::samples::running(42), 125)],
        waiting: vec![reserved, waits, held],
        ended: vec![failed],
        more: false,
    }
}

fn explanation() -> Explanation {
    Explanation {
        kind: Kind::Explanation,
        job: Some("46".into()),
        state: "queued".into(),
        possible: true,
        summary: "needs 2 nodes with 8 free GPUs in one leaf; 1 has them".into(),
        constraints: Vec::new(),
        ahead: Vec::new(),
        ahead_count: 1,
        estimated_start: Some(Estimate {
            earliest: None,
            at: (NOW + Span::mins(65)).into(),
            reserved: false,
            basis: "time limits".into(),
        }),
        suggestions: vec!["with --gpus 4 it would start now".into()],
        would_go: None,
    }
}

fn queue() -> Model {
    let mut m = site(12, View::Queue);
    m.update(Msg::Jobs(jobs()));
    m.update(Msg::Done(ReadRequest::Jobs, Span(20)));
    m.update(Msg::Why(46, Box::new(explanation())));
    m
}

fn incidents() -> Model {
    let mut m = site(12, View::Incidents);
    m.update(Msg::Health(Box::new(health()), vec![alert()]));
    m.update(Msg::Done(ReadRequest::Health, Span(20)));
    m
}

fn job() -> Model {
    let mut m = site(12, View::Fleet);
    m.open_job("42".into());
    let mut job = tonight(muster_api::samples::running(42), 125);
    job.attempts = 2;
    job.past = vec![PastAttempt {
        no: 1,
        nodes: vec!["hgx-00002".into()],
        placed_at: ago(Span::mins(300)),
        started_at: Some(ago(Span::mins(299))),
        ended_at: ago(Span::mins(126)),
        stopped_at: None,
        verdict: Verdict::Infrastructure,
        attributed_to: "infrastructure".into(),
        reason: "XID 79 on GPU 3 of hgx-00002: the GPU fell off the bus".into(),
        findings: vec!["12".into()],
    }];
    job.progress =
        Some(Progress { step: 1240, rank: 0, t: Some(0.52), loss: Some(2.13), at: ago(Span(900)) });
    let report = Some(muster_api::samples::report());
    let output = (0..30).map(|n| (0, format!("step {n}\x1b[31m red\x1b[0m"))).collect();
    m.update(Msg::Job(Box::new(JobDetail { job, report, explain: None, output })));
    m.update(Msg::Done(ReadRequest::Job("42".into()), Span(20)));
    m
}

#[test]
fn sums_of_nodes_are_those_of_health() {
    let mut m = site(1, View::Fleet);
    let mut cells: Vec<GpuCell> = (0..4).flat_map(|n| (0..8).map(move |g| cell(n, g))).collect();
    for (node, word) in [(0, "cordoned"), (1, "draining"), (2, "drained")] {
        for c in cells.iter_mut().skip(node * 8).take(8) {
            c.state = state(word);
        }
    }
    // A spare that is out of service is still marked as one.
    cells.iter_mut().for_each(|c| c.spare = true);
    m.update(frame(FrameBody::Whole(cells)));
    let shown = text(&mut m, 120, 24);
    assert!(shown.contains("in service 1  cordoned 1  leaving 2  unhealthy 0"), "{shown}");
    assert!(!shown.contains("spares"), "{shown}");
    // Idle GPUs of a spare are not offered to new work: they are not called free.
    assert!(shown.contains("allocated 27  free 0  spare 5  blocked 0"), "{shown}");
    m.update(Msg::Health(
        Box::new(HealthSummary { spares_left: 0, spares: 4, ..health() }),
        Vec::new(),
    ));
    let shown = text(&mut m, 120, 24);
    assert!(shown.contains("  spares 0 of 4"), "{shown}");
}

#[test]
fn gpus_of_a_node_in_maintenance_or_with_old_ranks_are_not_free() {
    let mut m = site(1, View::Fleet);
    let mut cells: Vec<GpuCell> = (0..4).flat_map(|n| (0..8).map(move |g| cell(n, g))).collect();
    m.update(frame(FrameBody::Whole(cells.clone())));
    let shown = text(&mut m, 120, 24);
    assert!(shown.contains("allocated 27  free 5  blocked 0"), "{shown}");
    for (word, legend) in [("maintenance", "M maintenance"), ("stopping", "S stopping")] {
        cells.iter_mut().for_each(|c| c.state = state(word));
        m.update(frame(FrameBody::Whole(cells.clone())));
        let shown = text(&mut m, 120, 24);
        // In service all the same: `muster health` and the objectives count neither.
        assert!(shown.contains("in service 4  leaving 0  unhealthy 0"), "{shown}");
        assert!(shown.contains("allocated 27  free 0  blocked 5"), "{shown}");
        assert!(shown.contains(legend), "{shown}");
    }
}

#[test]
fn every_view_fits_every_screen() {
    let mut fleet = site(12, View::Fleet);
    fleet.update(Msg::Health(Box::new(health()), vec![alert()]));
    let mut item = incidents();
    press(&mut item, "jj\n");
    let mut whole = muster_api::samples::incident();
    whole.findings = vec![muster_api::samples::finding(12)];
    item.update(Msg::Incident(Box::new(whole)));
    item.update(Msg::Causes(vec![advice::cause()]));
    let mut help = site(12, View::Fleet);
    press(&mut help, "?");
    let mut all = [
        ("fleet", fleet),
        ("queue", queue()),
        ("incidents", incidents()),
        ("incident", item),
        ("job", job()),
        ("help", help),
    ];
    for (name, model) in &mut all {
        for (w, h) in [(80, 24), (120, 40), (40, 10)] {
            golden(&format!("{name}-{w}x{h}"), &text(model, w, h));
        }
        for (w, h) in [(1, 1), (19, 24), (80, 4), (20, 5), (33, 7), (500, 120)] {
            text(model, w, h);
        }
    }
}

#[test]
fn before_anything_is_known_every_view_says_so() {
    for view in View::ALL {
        let mut m = Model::new(NOW, TimeZone::UTC, false, view);
        let shown = text(&mut m, 80, 24);
        assert!(shown.contains("connecting"), "{shown}");
        assert!(shown.lines().nth(2).is_some_and(|l| !l.is_empty()), "{shown}");
    }
    let mut empty = Model::new(NOW, TimeZone::UTC, false, View::Fleet);
    empty.update(Msg::Layout(ConsoleLayout { version: 7, ..ConsoleLayout::default() }));
    empty.update(frame(FrameBody::Whole(Vec::new())));
    assert!(text(&mut empty, 80, 24).contains("no nodes"));
}

#[test]
fn a_hundred_thousand_gpus_become_racks_or_leaves() {
    let mut m = site(3125, View::Fleet);
    let small = text(&mut m, 80, 24);
    assert!(small.contains("Nodes  12500") && small.contains("GPUs  100000"), "{small}");
    assert!(small.contains("Map: by leaf, worst first; lines 1-"), "{small}");
    // What is wrong stands on top, whichever leaf it is in.
    let first = small.lines().position(|l| l.starts_with("Map")).expect("a map");
    let line = small.lines().nth(first + 1).unwrap_or_default();
    assert!(line.starts_with("leaf003") && line.contains("1 quarantined  1 breaker"), "{small}");
    let large = text(&mut m, 200, 60);
    assert!(large.contains("one character a rack"), "{large}");
    text(&mut m, 80, 24);
    press(&mut m, "G");
    let end = text(&mut m, 80, 24);
    assert_ne!(end, small, "it scrolls");
    press(&mut m, "g/hgx-00023\n");
    let one = text(&mut m, 80, 24);
    assert!(one.contains("Nodes      1") && one.contains("leaf003  q"), "{one}");
}

#[test]
fn changes_of_single_gpus_reach_their_node() {
    let mut m = site(12, View::Fleet);
    assert_eq!(m.fleet.nodes[0].glyph, Glyph::Full);
    let gone = GpuCell { state: state("lost"), ..GpuCell::default() };
    let all: Vec<(u32, GpuCell)> = (0..8).map(|g| (g, gone)).collect();
    m.update(frame(FrameBody::Change(all)));
    assert_eq!((m.fleet.nodes[0].glyph, m.fleet.nodes[2].glyph), (Glyph::Lost, Glyph::Full));
    // Numbers that fit nothing change nothing.
    m.update(frame(FrameBody::Change(vec![(u32::MAX, gone), (400, gone)])));
    m.update(Msg::Frame(Frame { version: 8, at: NOW, body: FrameBody::Whole(Vec::new()) }));
    assert_eq!(m.fleet.nodes.len(), 48);
    m.update(frame(FrameBody::Whole(vec![gone])));
    text(&mut m, 80, 24);
    assert_eq!(m.fleet.nodes[5].glyph, Glyph::Unknown, "a picture that is too short");
}

#[test]
fn a_node_is_drawn_as_finding_only_while_one_is_open() {
    let mut m = site(12, View::Fleet);
    let drawn = |m: &mut Model, word: &str, worst: u8| {
        let one = GpuCell { state: state(word), worst, ..GpuCell::default() };
        m.update(frame(FrameBody::Change(vec![(3, one)])));
        let glyph = m.fleet.nodes[0].glyph;
        (glyph.word(), glyph.in_service() && glyph.trouble())
    };
    assert_eq!(drawn(&mut m, "excluded", 0), ("excluded", true));
    assert_eq!(drawn(&mut m, "missing", 0), ("missing", true));
    assert_eq!(drawn(&mut m, "missing", 3), ("finding", true));
}

#[test]
fn keys_go_through_the_views_and_open_what_is_chosen() {
    let mut m = queue();
    press(&mut m, "j\n");
    assert_eq!((m.view, m.job_id.as_deref()), (View::Job, Some("42")));
    press(&mut m, "\x1b");
    assert_eq!(m.view, View::Queue);
    press(&mut m, "\t\t\t");
    assert_eq!(m.view, View::Fleet);
    press(&mut m, "3");
    assert_eq!(m.view, View::Incidents);
    press(&mut m, "q");
    assert!(m.quit);
    // The cursor stays with its job when others come.
    let mut m = queue();
    press(&mut m, "jj");
    let mut more = jobs();
    more.running.insert(0, tonight(muster_api::samples::running(50), 2));
    m.update(Msg::Jobs(more));
    let shown = text(&mut m, 80, 24);
    assert!(shown.lines().any(|l| l.starts_with(">45")), "{shown}");
    // A filter finds by state, name and node.
    for (typed, found) in [("/held\n", ">47"), ("/EVAL\n", ">46"), ("/hgx-02\n", " 50")] {
        press(&mut m, typed);
        let shown = text(&mut m, 80, 24);
        assert!(shown.lines().any(|l| l.starts_with(found)), "{typed}: {shown}");
        press(&mut m, "\x1b");
    }
    // While it is typed, letters are letters.
    press(&mut m, "/q?1");
    assert!(!m.quit && !m.help && m.view == View::Queue && m.filter == "q?1");
    let ctrl = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    m.update(Msg::Key(ctrl('z')));
    m.update(Msg::Key(ctrl('c')));
    assert!(m.suspend && m.quit);
}

#[test]
fn it_reads_what_is_looked_at_after_the_log_reported_it() {
    let mut m = site(12, View::Fleet);
    assert_eq!(m.due(), [ReadRequest::Health], "never read");
    assert_eq!(m.due(), [], "being read");
    m.update(Msg::Done(ReadRequest::Health, Span(5)));
    let hint = |kinds: &[&str]| {
        let kinds = kinds.iter().map(ToString::to_string).collect();
        frame(FrameBody::Hints(Hints { all: false, kinds }))
    };
    m.update(Msg::Tick(NOW + Span::secs(3)));
    m.update(hint(&["job_placed"]));
    assert_eq!(m.due(), [], "nobody looks at jobs");
    press(&mut m, "2");
    assert_eq!(m.due(), [ReadRequest::Jobs]);
    m.update(Msg::Jobs(jobs()));
    m.update(Msg::Done(ReadRequest::Jobs, Span(5)));
    assert_eq!(
        m.due(),
        [ReadRequest::Whys(vec![(45, "45".into()), (46, "46".into())])],
        "of those on the screen that nobody holds"
    );
    m.update(hint(&["finding_opened"]));
    m.update(Msg::Tick(NOW + Span::secs(6)));
    assert_eq!(m.due(), [ReadRequest::Health]);
    m.update(Msg::Failed(ReadRequest::Health, "no".into()));
    assert_eq!(m.due(), []);
    // Nothing is asked of a server that is away; afterwards everything.
    m.update(Msg::Done(ReadRequest::Whys(Vec::new()), Span(5)));
    let why = "connection refused".to_owned();
    m.update(Msg::Link(Link::Away { since: NOW, why }));
    m.update(Msg::Tick(NOW + Span::secs(60)));
    assert_eq!(m.due(), []);
    let shown = text(&mut m, 80, 24);
    assert!(shown.contains("reconnecting, 1m00s"), "{shown}");
    m.update(Msg::Link(Link::Live));
    assert!(m.due().contains(&ReadRequest::Jobs));
}

#[test]
fn colours_are_only_there_when_wanted() {
    let mut m = site(12, View::Fleet);
    let coloured = |m: &Model| {
        let mut t = Terminal::new(TestBackend::new(80, 24)).expect("memory");
        t.draw(|f| draw::draw(m, f.area(), f.buffer_mut())).expect("memory");
        let cells = t.backend().buffer().content();
        cells.iter().any(|c| c.fg != ratatui::style::Color::Reset)
    };
    assert!(!coloured(&m));
    m.colour = true;
    assert!(coloured(&m));
}

#[test]
fn a_share_of_a_gpu_is_shown_as_what_it_is() {
    let mut m = job();
    let mut detail = m.job.clone().expect("it is open");
    let share = Group {
        nodes: 1,
        gpus: 1,
        part: Some(GpuPart::Milli(250)),
        ..detail.job.groups[0].clone()
    };
    detail.job.groups = vec![share].into();
    if let Some(attempt) = &mut detail.job.attempt {
        attempt.slots.truncate(1);
    }
    m.update(Msg::Job(Box::new(detail.clone())));
    let shown = text(&mut m, 120, 40);
    assert!(shown.contains("  1 node, 0.25 GPUs  project"), "{shown}");
    press(&mut m, "2");
    m.update(Msg::Jobs(Jobs { running: vec![detail.job], ..Jobs::default() }));
    m.update(Msg::Done(ReadRequest::Jobs, Span(20)));
    let shown = text(&mut m, 120, 40);
    assert!(shown.contains("1 run on 0.25 GPUs"), "{shown}");
}

#[test]
fn what_is_over_while_it_is_looked_at_says_so() {
    let mut m = incidents();
    press(&mut m, "\n");
    assert!(text(&mut m, 80, 24).contains("muster alerts ack 3f9c2b7d1a60e455"));
    m.update(Msg::Health(Box::new(health()), Vec::new()));
    assert!(text(&mut m, 80, 24).contains("is not open any more"));
    press(&mut m, "\x1b");
    assert!(text(&mut m, 80, 24).contains("Incidents (1)"));
}

#[test]
fn what_is_delayed_is_not_counted_as_pending_approval() {
    let mut health = health();
    let on = |id: u64, delayed: bool| muster_api::Remediation {
        node: "hgx-00002".into(),
        delayed,
        ..muster_api::samples::remediation(id)
    };
    health.waiting = vec![on(31, true), on(32, false), on(33, true)];
    let mut m = site(12, View::Fleet);
    m.update(Msg::Health(Box::new(health.clone()), Vec::new()));
    let fleet = text(&mut m, 120, 40);
    assert!(fleet.contains("  1 to approve, 2 delayed"), "{fleet}");
    let mut m = site(12, View::Incidents);
    m.update(Msg::Health(Box::new(health), Vec::new()));
    let list = text(&mut m, 120, 40);
    assert!(list.contains("Pending approval (1)") && list.contains("Delayed (2)"), "{list}");
}
