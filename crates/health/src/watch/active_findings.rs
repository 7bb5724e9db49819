//! What is true now and was reported, so that only news is reported.

use crate::detect::{DetectorVerdict, FindingReason};
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::ids::AttemptKey;
use muster_model::units::{Span, Time};

/// Findings that wait to be reported; more have to wait until these are.
const NEWS_MAX: usize = 65_536;

/// A finding that is true.
#[derive(Debug)]
pub(super) struct ActiveFinding {
    pub(super) seen: ObservedFinding,
    kind: FailureMode,
    /// Since when it is not seen any more.
    good_since: Option<Time>,
    /// When it was last reported.
    reported_at: Time,
    /// Its node went back into service since: bad again is news, and good closes what is open.
    before_return: bool,
}

/// What stays true is reported again after this: somebody may have closed it meanwhile.
const AGAIN: Span = Span::mins(10);

/// What is to be reported.
#[derive(Debug, Default)]
pub(super) struct PendingFindings(Vec<ObservedFinding>);

impl PendingFindings {
    pub(super) fn take(&mut self) -> Vec<ObservedFinding> {
        std::mem::take(&mut self.0)
    }

    fn push(&mut self, seen: &ObservedFinding) {
        self.0.push(seen.clone().bounded());
    }

    fn full(&self) -> bool {
        self.0.len() >= NEWS_MAX
    }
}

/// The findings of one node, one job or one file system. Mostly empty.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<ActiveFinding>);

/// Whom a finding is about beside its entity.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FindingSubject {
    pub(super) attempt: Option<AttemptKey>,
    pub(super) rank: Option<u32>,
}

impl Findings {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Does one of this kind stand?
    pub(super) fn stands(&self, kind: FailureMode, entity: &Entity) -> bool {
        self.0.iter().any(|s| s.kind == kind && s.seen.entity == *entity)
    }

    /// Is something known that kills or stops work there?
    pub(super) fn stops_work(&self) -> bool {
        self.0.iter().any(|s| s.seen.severity == Severity::Critical && !s.before_return)
    }

    /// The node went back into service. Somebody may have closed what was found before, or not.
    pub(super) fn returned(&mut self) {
        for s in &mut self.0 {
            (s.before_return, s.good_since) = (true, None);
        }
    }

    /// What findings of this kind are about.
    pub(super) fn about(&self, kind: FailureMode) -> Vec<Entity> {
        self.0.iter().filter(|s| s.kind == kind).map(|s| s.seen.entity.clone()).collect()
    }

    /// Takes in what a detector says. `entity` is only made where it is needed; `over_after` is
    /// how long, in milliseconds, it has to be good to be over.
    pub(super) fn settle(
        &mut self,
        news: &mut PendingFindings,
        kind: FailureMode,
        entity: impl FnOnce() -> Entity,
        say: DetectorVerdict,
        (at, over_after): (Time, i64),
        hit: FindingSubject,
    ) {
        match say {
            DetectorVerdict::Unknown => {}
            DetectorVerdict::Good if self.0.is_empty() => {}
            DetectorVerdict::Good => self.good(news, kind, &entity(), at, over_after),
            DetectorVerdict::Bad(because) => self.bad(news, kind, entity(), because, at, hit),
        }
    }

    fn bad(
        &mut self,
        news: &mut PendingFindings,
        kind: FailureMode,
        entity: Entity,
        because: FindingReason,
        at: Time,
        hit: FindingSubject,
    ) {
        self.0.retain(|s| !(s.before_return && s.kind == kind && s.seen.entity == entity));
        if let Some(s) = self.0.iter_mut().find(|s| s.kind == kind && s.seen.entity == entity) {
            s.good_since = None;
            s.seen.last_seen = s.seen.last_seen.max(at);
            s.seen.count = s.seen.count.saturating_add(1);
            let worse = because.severity > s.seen.severity;
            if (worse || at >= s.reported_at + AGAIN) && !news.full() {
                s.seen.severity = because.severity.max(s.seen.severity);
                s.seen.confidence = because.confidence;
                s.seen.evidence = vec![because.why];
                s.reported_at = at;
                news.push(&s.seen);
            }
            return;
        }
        if news.full() {
            return;
        }
        let mut seen = ObservedFinding::new(kind.code(), entity, because.severity, at)
            .with_confidence(because.confidence)
            .because(because.why);
        seen.first_seen = because.since.unwrap_or(at).min(at);
        (seen.attempt, seen.rank) = (hit.attempt, hit.rank);
        news.push(&seen);
        self.0.push(ActiveFinding {
            seen,
            kind,
            good_since: None,
            reported_at: at,
            before_return: false,
        });
    }

    fn good(
        &mut self,
        news: &mut PendingFindings,
        kind: FailureMode,
        entity: &Entity,
        at: Time,
        over_after: i64,
    ) {
        let found = self.0.iter().position(|s| s.kind == kind && s.seen.entity == *entity);
        let Some(i) = found else { return };
        let since = *self.0[i].good_since.get_or_insert(at);
        if at.0 < since.0 {
            self.0[i].good_since = Some(at);
        } else if at.0.saturating_sub(since.0) >= over_after && !news.full() {
            let mut s = self.0.swap_remove(i);
            s.seen.over = true;
            news.push(&s.seen);
        }
    }

    /// All of these are over at once, where `which` says so.
    pub(super) fn end(
        &mut self,
        news: &mut PendingFindings,
        which: impl Fn(&ObservedFinding) -> bool,
    ) {
        for mut s in std::mem::take(&mut self.0) {
            if which(&s.seen) {
                s.seen.over = true;
                news.push(&s.seen);
            }
        }
    }
}

/// More than half of a node's GPUs have it: then it is the node. Otherwise each for itself.
pub(super) fn of_node(says: &[DetectorVerdict]) -> Option<FindingReason> {
    let bad = says.iter().filter(|s| s.is_bad()).count();
    if bad < 2 || bad * 2 < says.len() {
        return None;
    }
    let worst = says.iter().filter_map(|s| match s {
        DetectorVerdict::Bad(b) => Some(b),
        _ => None,
    });
    let worst = worst.max_by_key(|b| (b.severity, b.confidence))?;
    let why = format!("{bad} of {} GPUs: {}", says.len(), worst.why);
    Some(FindingReason { why, ..worst.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity() -> Entity {
        Entity::Storage("/data".to_owned())
    }

    fn settle(f: &mut Findings, news: &mut PendingFindings, say: DetectorVerdict, at: i64) {
        f.settle(
            news,
            FailureMode::STORAGE_SLOW,
            entity,
            say,
            (Time(at), 1000),
            FindingSubject::default(),
        );
    }

    #[test]
    fn only_news_is_reported() {
        let (mut f, mut news) = (Findings::default(), PendingFindings::default());
        settle(&mut f, &mut news, DetectorVerdict::bad(Severity::Warning, 700, "a"), 0);
        settle(&mut f, &mut news, DetectorVerdict::bad(Severity::Warning, 700, "b"), 10);
        assert_eq!(news.take().len(), 1);
        settle(&mut f, &mut news, DetectorVerdict::bad(Severity::Critical, 900, "c"), 20);
        let worse = news.take();
        assert_eq!((worse.len(), worse[0].severity), (1, Severity::Critical));
        assert_eq!(worse[0].evidence, ["c"]);
        settle(&mut f, &mut news, DetectorVerdict::bad(Severity::Warning, 700, "d"), 30);
        assert!(news.take().is_empty());
    }

    #[test]
    fn it_is_over_after_a_while_and_not_when_it_comes_back() {
        let (mut f, mut news) = (Findings::default(), PendingFindings::default());
        settle(&mut f, &mut news, DetectorVerdict::bad(Severity::Warning, 700, "a"), 0);
        news.take();
        settle(&mut f, &mut news, DetectorVerdict::Good, 100);
        settle(&mut f, &mut news, DetectorVerdict::Good, 900);
        settle(&mut f, &mut news, DetectorVerdict::bad(Severity::Warning, 700, "a"), 1000);
        settle(&mut f, &mut news, DetectorVerdict::Good, 1100);
        settle(&mut f, &mut news, DetectorVerdict::Unknown, 3000);
        assert!(news.take().is_empty());
        settle(&mut f, &mut news, DetectorVerdict::Good, 2100);
        let over = news.take();
        assert!(over.len() == 1 && over[0].over && over[0].count == 2);
        assert!(f.is_empty());
    }

    #[test]
    fn what_half_of_the_gpus_have_is_of_the_node() {
        let bad = || DetectorVerdict::bad(Severity::Degraded, 900, "hot");
        assert!(
            of_node(&[bad(), bad(), DetectorVerdict::Good, DetectorVerdict::Unknown]).is_some()
        );
        assert!(of_node(&[bad(), DetectorVerdict::Good, DetectorVerdict::Good]).is_none());
        assert!(of_node(&[bad()]).is_none());
    }
}
