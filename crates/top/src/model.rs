//! What `top` knows, and how it changes. Nothing here reads a clock or the network: the time and
//! what was heard come in as messages, and what shall be read next is asked of [`Model::due`].

use super::feed::{Feed, ReadRequest};
use super::fleet::Fleet;
use super::rows::{self, Cursor};
use crossterm::event::KeyEvent;
use jiff::tz::TimeZone;
use muster_api::{
    Alert, ConsoleLayout, Explanation, HealthSummary, Incident, Job, JobReport, OpenCause,
    Timestamp, WhoAmI,
};
use muster_client::{Frame, FrameBody, Hints};
use muster_model::job::JobState;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Fleet,
    Queue,
    Incidents,
    Job,
}

impl View {
    /// In the order of their keys.
    pub(super) const ALL: [View; 4] = [View::Fleet, View::Queue, View::Incidents, View::Job];

    /// The one after it.
    pub(super) fn next(self, back: bool) -> View {
        let at = View::ALL.iter().position(|v| *v == self).unwrap_or(0);
        View::ALL[(at + if back { 3 } else { 1 }) % 4]
    }
}

/// How the server is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    /// Not yet.
    Connecting,
    /// As it should be.
    Live,
    /// Not any more.
    Away {
        /// When the connection was lost.
        since: Time,
        /// Why, for people.
        why: String,
    },
}

/// Jobs, as far as they were read.
#[derive(Debug, Clone, Default)]
pub(super) struct Jobs {
    /// Those that hold nodes, newest first.
    pub(super) running: Vec<Job>,
    /// Those that wait, in the order of their reserved starts.
    pub(super) waiting: Vec<Job>,
    /// Those that ended within the last hour.
    pub(super) ended: Vec<Job>,
    /// There are more than were read.
    pub(super) more: bool,
}

/// One job at length.
#[derive(Debug, Clone)]
pub(super) struct JobDetail {
    pub(super) job: Job,
    pub(super) report: Option<JobReport>,
    pub(super) explain: Option<Explanation>,
    /// The end of its output: rank and line.
    pub(super) output: Vec<(u32, String)>,
}

/// Why a waiting job waits.
#[derive(Debug, Clone)]
pub(super) struct WaitReason {
    pub(super) text: String,
    pub(super) start: Option<Timestamp>,
    pub(super) at: Time,
}

/// Everything that can change the screen.
#[derive(Debug)]
pub(super) enum Msg {
    /// Time goes on.
    Tick(Time),
    /// The screen has another size.
    Size(u16, u16),
    /// A key was pressed.
    Key(KeyEvent),
    /// The server is heard, or not.
    Link(Link),
    /// Who asks.
    Me(WhoAmI),
    /// Where every GPU stands.
    Layout(ConsoleLayout),
    /// What changed in the fleet.
    Frame(Frame),
    /// Jobs were read.
    Jobs(Jobs),
    /// Why a job waits was read.
    Why(u64, Box<Explanation>),
    /// What is wrong was read.
    Health(Box<HealthSummary>, Vec<Alert>),
    /// What is left to do was read.
    Causes(Vec<OpenCause>),
    /// An incident was read.
    Incident(Box<Incident>),
    /// A job was read.
    Job(Box<JobDetail>),
    /// A reading is over, and how long it took.
    Done(ReadRequest, Span),
    /// A reading failed.
    Failed(ReadRequest, String),
}

/// What `top` knows.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) now: Time,
    pub(super) zone: TimeZone,
    pub(super) colour: bool,
    pub(super) size: (u16, u16),
    pub(super) me: Option<WhoAmI>,
    pub(super) link: Link,
    pub(super) view: View,
    pub(super) help: bool,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) typing: bool,
    pub(super) fleet: Fleet,
    pub(super) jobs: Jobs,
    pub(super) whys: BTreeMap<u64, WaitReason>,
    pub(super) health: Option<HealthSummary>,
    pub(super) alerts: Vec<Alert>,
    /// What is opened among the incidents, by its key.
    pub(super) opened: Option<String>,
    pub(super) incident: Option<Incident>,
    /// What is left to do about each cause, once it was read.
    pub(super) causes: Option<Vec<OpenCause>>,
    pub(super) job_id: Option<String>,
    pub(super) job: Option<JobDetail>,
    pub(super) cursors: [Cursor; 4],
    /// Lines that a page is scrolled by.
    pub(super) scroll: usize,
    pub(super) jobs_feed: Feed,
    pub(super) health_feed: Feed,
    pub(super) incident_feed: Feed,
    pub(super) causes_feed: Feed,
    pub(super) job_feed: Feed,
    pub(super) why_feed: Feed,
    /// The user is done.
    pub(super) quit: bool,
    /// The user wants the shell for a while.
    pub(super) suspend: bool,
}

impl Model {
    pub(super) fn new(now: Time, zone: TimeZone, colour: bool, view: View) -> Model {
        Model {
            now,
            zone,
            colour,
            size: (80, 24),
            me: None,
            link: Link::Connecting,
            view,
            help: false,
            filter: String::new(),
            typing: false,
            fleet: Fleet::default(),
            jobs: Jobs::default(),
            whys: BTreeMap::new(),
            health: None,
            alerts: Vec::new(),
            opened: None,
            incident: None,
            causes: None,
            job_id: None,
            job: None,
            cursors: [const { Cursor::new() }; 4],
            scroll: 0,
            jobs_feed: Feed::default(),
            health_feed: Feed::default(),
            incident_feed: Feed::default(),
            causes_feed: Feed::default(),
            job_feed: Feed::default(),
            why_feed: Feed::default(),
            quit: false,
            suspend: false,
        }
    }

    /// The cursor of what is looked at.
    pub(super) fn cursor(&mut self) -> &mut Cursor {
        let at = View::ALL.iter().position(|v| *v == self.view).unwrap_or(0);
        &mut self.cursors[at]
    }

    /// Takes a message.
    pub(super) fn update(&mut self, msg: Msg) {
        match msg {
            Msg::Tick(now) => self.now = self.now.max(now),
            Msg::Size(w, h) => self.size = (w, h),
            Msg::Key(key) => super::keys::press(self, key),
            Msg::Link(link) => self.set_link(link),
            Msg::Me(me) => self.me = Some(me),
            Msg::Layout(layout) => self.fleet.place(layout),
            Msg::Frame(frame) => self.frame(frame),
            Msg::Jobs(jobs) => {
                self.jobs = jobs;
                let waits = &self.jobs.waiting;
                self.whys.retain(|n, _| waits.iter().any(|j| j.number == *n));
            }
            Msg::Why(number, e) => {
                let start = e.estimated_start.as_ref().map(|s| s.at);
                self.whys.insert(number, WaitReason { text: e.summary, start, at: self.now });
            }
            Msg::Health(health, alerts) => {
                self.health = Some(*health);
                self.alerts = alerts;
            }
            Msg::Causes(causes) => self.causes = Some(causes),
            Msg::Incident(i) => self.incident = Some(*i),
            Msg::Job(job) => {
                // An answer about a job that is not looked at any more is of no use.
                if self.job_id.as_deref() == Some(job.job.id.as_str()) {
                    self.job = Some(*job);
                }
            }
            Msg::Done(want, took) => {
                let now = self.now;
                self.feed(&want).done(now, took);
            }
            Msg::Failed(want, why) => {
                let now = self.now;
                self.feed(&want).failed(now, why);
            }
        }
    }

    fn set_link(&mut self, link: Link) {
        let away = |l: &Link| matches!(l, Link::Away { .. });
        // It is away since it was first missed.
        if away(&self.link) && away(&link) {
            return;
        }
        if link == Link::Live && self.link != Link::Live {
            // Whatever was missed meanwhile.
            self.stale(&Hints { all: true, kinds: Vec::new() });
        }
        self.link = link;
    }

    fn frame(&mut self, frame: Frame) {
        match frame.body {
            FrameBody::Hints(hints) => self.stale(&hints),
            // Cells of another layout fit nothing; the edge brings the right one.
            _ if frame.version != self.fleet.version() => {}
            FrameBody::Whole(cells) => self.fleet.whole(cells),
            FrameBody::Change(some) => self.fleet.change(&some),
            FrameBody::Other => {}
        }
    }

    /// What these events make stale.
    fn stale(&mut self, hints: &Hints) {
        let any = |words: &[&str]| {
            let about = |k: &String| words.iter().any(|w| k.starts_with(w));
            hints.all || hints.kinds.iter().any(about)
        };
        if any(&[
            "job",
            "attempt",
            "slot",
            "stop",
            "start_reserved",
            "reserved_start",
            "notice",
            "checkpoint",
            "idle",
        ]) {
            self.jobs_feed.stale = true;
            self.job_feed.stale = true;
        }
        let health =
            ["finding", "incident", "breaker", "remediation", "act", "automation", "node", "alert"];
        if any(&health) || any(&["silence", "condition", "runbook", "certificate", "budget"]) {
            self.health_feed.stale = true;
            self.incident_feed.stale = true;
            self.causes_feed.stale = true;
        }
    }

    fn feed(&mut self, want: &ReadRequest) -> &mut Feed {
        match want {
            ReadRequest::Jobs => &mut self.jobs_feed,
            ReadRequest::Health => &mut self.health_feed,
            ReadRequest::Causes => &mut self.causes_feed,
            ReadRequest::Incident(_) => &mut self.incident_feed,
            ReadRequest::Job(_) => &mut self.job_feed,
            ReadRequest::Whys(_) => &mut self.why_feed,
        }
    }

    /// What shall be read now. Whoever asks must read it and say so with [`Msg::Done`] or
    /// [`Msg::Failed`].
    pub(super) fn due(&mut self) -> Vec<ReadRequest> {
        if self.link != Link::Live {
            return Vec::new();
        }
        let now = self.now;
        let mut wants = Vec::new();
        // The head of every page says how much is wrong.
        if self.health_feed.ask(now, Some(Span::secs(30))) {
            wants.push(ReadRequest::Health);
        }
        match self.view {
            View::Fleet => {}
            View::Queue => {
                if self.jobs_feed.ask(now, Some(Span::secs(30))) {
                    wants.push(ReadRequest::Jobs);
                }
                let ids = self.unexplained();
                if !ids.is_empty() && self.why_feed.ask(now, Some(Span::secs(2))) {
                    wants.push(ReadRequest::Whys(ids));
                }
            }
            View::Incidents => {
                let id = self.opened.as_deref().and_then(|k| k.strip_prefix("incident:"));
                if let Some(id) = id.map(str::to_owned)
                    && self.incident_feed.ask(now, None)
                {
                    wants.push(ReadRequest::Incident(id));
                }
                // A list shows none of it, and to work it out costs the server more than a list.
                if self.opened.is_some() && self.causes_feed.ask(now, Some(Span::secs(30))) {
                    wants.push(ReadRequest::Causes);
                }
            }
            View::Job => {
                let runs = self.job.as_ref().is_none_or(|j| !j.job.state.is_final());
                let every = if runs { Span::secs(2) } else { Span::secs(60) };
                if let Some(id) = self.job_id.clone()
                    && self.job_feed.ask(now, Some(every))
                {
                    wants.push(ReadRequest::Job(id));
                }
            }
        }
        wants
    }

    /// Waiting jobs on the screen of which it is not known, or was long ago, why they wait.
    fn unexplained(&self) -> Vec<(u64, String)> {
        const AT_ONCE: usize = 8;
        const KEPT: Span = Span::secs(15);
        let shown = rows::shown_jobs(self);
        let waits = shown.into_iter().filter(|j| j.state == JobState::Queued && j.held.is_none());
        let old = |j: &&Job| self.whys.get(&j.number).is_none_or(|w| self.now.since(w.at) > KEPT);
        waits.filter(old).map(|j| (j.number, j.id.clone())).take(AT_ONCE).collect()
    }

    /// Opens a job.
    pub(super) fn open_job(&mut self, id: String) {
        if self.job_id.as_deref() != Some(id.as_str()) {
            self.job = None;
            self.job_feed = Feed::default();
        }
        self.job_id = Some(id);
        self.go(View::Job);
    }

    /// Looks at something else.
    pub(super) fn go(&mut self, view: View) {
        self.view = view;
        self.help = false;
        self.typing = false;
        self.scroll = 0;
        self.opened = None;
        self.filter.clear();
    }

    /// Opens what the cursor stands on.
    pub(super) fn enter(&mut self) {
        match self.view {
            View::Queue => {
                let rows = rows::jobs(self);
                let at = self.cursors[1].at(rows.iter().map(|j| j.id.as_str()));
                if let Some(id) = rows.get(at).map(|j| j.id.clone()) {
                    self.open_job(id);
                }
            }
            View::Incidents if self.opened.is_none() => {
                let rows = rows::items(self);
                let at = self.cursors[2].at(rows.iter().map(|r| r.key.as_str()));
                if let Some(key) = rows.into_iter().nth(at).map(|r| r.key) {
                    self.incident = None;
                    self.incident_feed = Feed::default();
                    self.opened = Some(key);
                    self.scroll = 0;
                }
            }
            _ => {}
        }
    }
}
