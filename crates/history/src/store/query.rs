//! From blocks and memory to points: which tier, which blocks, and how they are put together.

use super::{Store, place};
use crate::block;
use crate::cell::Cell;
use crate::names::SeriesId;
use crate::segment::{self, BlockRef};
use crate::tier::Tier;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

/// One series of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesQuery {
    /// The series.
    pub series: SeriesId,
    /// Which line of the answer it goes into; several may go into one.
    pub line: usize,
    /// Steps that begin before this are left out.
    pub since: i64,
    /// Steps that end after this are left out.
    pub until: i64,
    /// Samples come about once a step: one that fell into the step next to it leaves no gap.
    pub regular: bool,
}

impl SeriesQuery {
    /// All of a series.
    #[must_use]
    pub fn whole(series: SeriesId, line: usize) -> SeriesQuery {
        SeriesQuery { series, line, since: i64::MIN, until: i64::MAX, regular: true }
    }
}

/// Points at equal distances.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    /// When the first begins.
    pub from: i64,
    /// When the last ends.
    pub to: i64,
    /// How long each is, in milliseconds.
    pub step_ms: i64,
    /// Points of each line; a gap where nothing was sampled.
    pub lines: Vec<Vec<Cell>>,
    /// When the first step begins that is stored in steps of this kind, of whatever series; none
    /// where nothing is.
    pub known_from: Option<i64>,
    /// Blocks that could not be read.
    pub damaged_blocks: u64,
}

/// Points of equal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bins {
    from: i64,
    step: i64,
    n: usize,
}

impl Bins {
    /// At most `most` bins, or two, over this time, each a whole number of steps long.
    fn over(tier: &Tier, from: i64, to: i64, most: usize) -> Bins {
        // Two at least: a time across a border of two steps has no single one, however long.
        let most = i64::try_from(most.max(2)).unwrap_or(i64::MAX);
        let range = to.saturating_sub(from).max(1);
        let mut k = range.div_euclid(tier.step_ms.saturating_mul(most)).max(1);
        loop {
            let step = tier.step_ms.saturating_mul(k);
            let first = from.div_euclid(step).saturating_mul(step);
            let span = to.max(from.saturating_add(1)).saturating_sub(first);
            let n = span.saturating_add(step - 1).div_euclid(step).max(1);
            if n <= most || step == i64::MAX {
                return Bins { from: first, step, n: usize::try_from(n.min(most)).unwrap_or(1) };
            }
            k = k.saturating_add((k / 64).max(1));
        }
    }

    fn of(&self, time: i64) -> Option<usize> {
        let at = usize::try_from(time.checked_sub(self.from)?.div_euclid(self.step)).ok()?;
        (at < self.n).then_some(at)
    }

    fn end(&self) -> i64 {
        let n = i64::try_from(self.n).unwrap_or(i64::MAX);
        self.from.saturating_add(self.step.saturating_mul(n))
    }
}

/// A tier, and when the first step begins that it has from the moment on that is asked for.
type Reach = (Tier, Option<i64>);

/// The coarsest tier whose steps are no longer than the points asked for, or a coarser one where it
/// does not reach back far enough: by its time, or because its files gave way to others.
fn choose(tiers: &[Reach], newest: i64, from: i64, to: i64, most: usize) -> usize {
    let most = i64::try_from(most.max(1)).unwrap_or(i64::MAX);
    let wished = to.saturating_sub(from).max(1).div_euclid(most);
    let fine = tiers.iter().rposition(|(t, _)| t.step_ms <= wished).unwrap_or(0);
    let rest = || tiers.iter().skip(fine);
    // What no tier has is missed in none: nothing was sampled then. Their first steps begin up to a
    // step apart.
    let first = rest().filter_map(|(_, has_from)| *has_from).min();
    let apart = rest().map(|(t, _)| t.step_ms).max().unwrap_or(0);
    let missed_until = first.unwrap_or(from).max(from).saturating_add(apart);
    let reaches = |(t, has_from): &Reach| {
        newest.saturating_sub(t.keep_ms) <= from && has_from.is_none_or(|has| has <= missed_until)
    };
    (fine..tiers.len()).find(|i| reaches(&tiers[*i])).unwrap_or(tiers.len().saturating_sub(1))
}

/// What to read.
#[derive(Debug)]
pub struct Plan {
    tier: Tier,
    known_from: Option<i64>,
    bins: Bins,
    wants: Vec<SeriesQuery>,
    /// Series of each shard by index there, with their places in `wants`.
    shards: BTreeMap<u32, Vec<(u32, usize)>>,
    blocks: Vec<(Arc<File>, u32, BlockRef)>,
    lines: Vec<Vec<Cell>>,
    /// One sample to a step is expected, and each line is one series.
    single: bool,
}

pub(crate) fn plan(
    store: &Store,
    wants: Vec<SeriesQuery>,
    from: i64,
    to: i64,
    max_points: usize,
    most: u64,
) -> Plan {
    let tiers: Vec<Reach> = store.tiers.iter().map(|t| (t.tier, t.first_from(from))).collect();
    let chosen = choose(&tiers, store.newest, from, to, max_points);
    let files = &store.tiers[chosen];
    let (tier, known_from) = (files.tier, files.known_from());
    let bins = Bins::over(&tier, from, to, max_points);
    let mut shards: BTreeMap<u32, Vec<(u32, usize)>> = BTreeMap::new();
    for (i, want) in wants.iter().enumerate() {
        let (shard, index) = place(want.series);
        shards.entry(shard).or_default().push((index, i));
    }
    let (first, last) = (tier.slot(bins.from), tier.slot(bins.end().saturating_sub(1)));
    let (mut blocks, mut bytes) = (Vec::new(), 0_u64);
    // A block may reach over the end of its file's time.
    let early = tier.bucket(first.saturating_sub(i64::from(tier.block)));
    for segment in files.segments.range(early..=tier.bucket(last)).map(|(_, s)| s) {
        for shard in shards.keys() {
            // Nobody reads it then: the rest need not be looked for.
            if bytes > most {
                break;
            }
            let at = blocks.len();
            let found = segment.blocks(*shard, first, last.saturating_add(1));
            blocks.extend(found.map(|b| (segment.file().clone(), *shard, b)));
            bytes += size(&blocks[at..]);
        }
    }
    let lines = wants.iter().map(|w| w.line + 1).max().unwrap_or(0);
    let mut plan = Plan {
        tier,
        known_from,
        bins,
        shards: BTreeMap::new(),
        blocks,
        lines: vec![vec![Cell::GAP; bins.n]; lines],
        single: !files.several && bins.step == tier.step_ms && lines == wants.len(),
        wants,
    };
    for (shard, series) in &shards {
        let open = usize::try_from(*shard).ok().and_then(|s| files.open.get(s)?.as_ref());
        for (index, want) in series.iter().filter(|_| open.is_some()) {
            for (slot, cell) in open.into_iter().flat_map(|o| o.series(*index)) {
                plan.add(*want, slot, &cell);
            }
        }
    }
    shards.values_mut().for_each(|s| s.sort_unstable());
    plan.shards = shards;
    plan
}

fn size(blocks: &[(Arc<File>, u32, BlockRef)]) -> u64 {
    blocks.iter().map(|(_, _, b)| u64::from(b.len)).sum()
}

impl Plan {
    /// The lines whose cells are put together.
    fn add(&mut self, want: usize, slot: i64, cell: &Cell) {
        let w = self.wants[want];
        let start = self.tier.start(slot);
        if cell.is_gap() || start < w.since || start.saturating_add(self.tier.step_ms) > w.until {
            return;
        }
        if let Some(bin) = self.bins.of(start) {
            self.lines[w.line][bin].merge(cell);
        }
    }

    /// Bytes that will be read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        size(&self.blocks)
    }

    /// Reads the blocks. One that is damaged is left out and counted.
    #[must_use]
    pub fn read(mut self) -> Points {
        let (mut bytes, mut damaged_blocks) = (Vec::new(), 0);
        let shards = std::mem::take(&mut self.shards);
        for (file, shard, b) in std::mem::take(&mut self.blocks) {
            let Some(series) = shards.get(&shard) else { continue };
            let mut indices: Vec<u32> = series.iter().map(|(index, _)| *index).collect();
            indices.dedup();
            let read = segment::read(&file, b, &mut bytes).and_then(|()| {
                block::read(&bytes, &indices, |index, cells| {
                    let from = series.partition_point(|(i, _)| *i < index);
                    for (_, want) in series[from..].iter().take_while(|(i, _)| *i == index) {
                        for (slot, cell) in (b.start..).zip(cells) {
                            self.add(*want, slot, cell);
                        }
                    }
                })
            });
            damaged_blocks += u64::from(read.is_none());
        }
        if self.single {
            for want in self.wants.iter().filter(|w| w.regular) {
                bridge(&mut self.lines[want.line]);
            }
        }
        Points {
            from: self.bins.from,
            to: self.bins.end(),
            step_ms: self.bins.step,
            lines: self.lines,
            known_from: self.known_from,
            damaged_blocks,
        }
    }
}

/// Where samples come about once a step, two may fall into one and none into the next. Such a gap of
/// one step is none: the step next to it has the sample.
fn bridge(line: &mut [Cell]) {
    for i in 0..line.len() {
        if !line[i].is_gap() {
            continue;
        }
        let before = i.checked_sub(1).and_then(|b| line.get(b));
        let neighbour =
            [before, line.get(i + 1)].into_iter().flatten().find(|c| c.count == 2).copied();
        if let Some(mut cell) = neighbour {
            // Its own neighbour is not filled from it in turn.
            cell.count = 1;
            cell.sum /= 2.0;
            line[i] = cell;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::Limits;

    const DAY: i64 = 86_400_000;
    const HOUR: i64 = DAY / 24;

    #[test]
    fn the_tier_follows_from_how_far_back_and_how_fine() {
        let tiers = Limits { sample_ms: 1000, ..Limits::default() }.tiers();
        let tiers: Vec<Reach> = tiers.into_iter().map(|t| (t, None)).collect();
        let now = 100 * DAY;
        let step = |from: i64, most| tiers[choose(&tiers, now, from, now, most)].0.step_ms;
        assert_eq!(step(now - 600_000, 600), 1000);
        assert_eq!(step(now - 3_600_000, 10_000), 1000);
        assert_eq!(step(now - 3_600_001, 10_000), 10_000, "an hour is kept so fine");
        assert_eq!(step(now - 3_600_000, 360), 10_000, "finer is not asked for");
        assert_eq!(step(now - DAY, 100_000), 10_000);
        assert_eq!(step(now - 2 * DAY, 1_000_000), 60_000);
        assert_eq!(step(0, 600), 60_000, "further back than anything is kept");
    }

    #[test]
    fn a_tier_that_gave_way_is_not_asked_for_what_it_lost() {
        let tiers = Limits::default().tiers();
        let now = 100 * DAY;
        let step = |fine: i64, coarse: i64, from: i64| {
            let tiers = [(tiers[0], Some(now - fine)), (tiers[1], Some(now - coarse))];
            tiers[choose(&tiers, now, now - from, now, 10_000)].0.step_ms
        };
        assert_eq!(step(HOUR, DAY, HOUR), 10_000, "it has all of it");
        assert_eq!(step(HOUR, DAY, 2 * HOUR), 60_000, "the minutes reach back further");
        assert_eq!(step(HOUR, HOUR + 50_000, 2 * HOUR), 10_000, "both began at the same time");
        assert_eq!(step(2 * HOUR, HOUR, 3 * HOUR), 10_000, "the minutes lost more");
    }

    #[test]
    fn bins_are_whole_steps_and_never_too_many() {
        let tier = Limits::default().tiers()[0];
        for (from, to) in [(0, 1), (5, 60_000), (-7, DAY), (9_999, 20_001), (0, 90 * DAY)] {
            for most in [1, 2, 7, 600, 10_000] {
                let b = Bins::over(&tier, from, to, most);
                assert!((1..=most.max(2)).contains(&b.n) && b.step % tier.step_ms == 0, "{b:?}");
                assert!(b.from <= from && b.end() >= to, "{b:?} {from} {to}");
            }
        }
        let b = Bins::over(&tier, 0, 60_000, 600);
        assert_eq!((b.from, b.step, b.n), (0, 10_000, 6));
        assert_eq!((b.of(59_999), b.of(60_000), b.of(-1)), (Some(5), None, None));
    }

    #[test]
    fn a_sample_that_fell_beside_its_step_leaves_no_gap() {
        let mut two = Cell::of(1.0);
        two.merge(&Cell::of(3.0));
        let mut line = [Cell::of(1.0), two, Cell::GAP, Cell::GAP, Cell::of(1.0), Cell::GAP];
        bridge(&mut line);
        let gaps: Vec<bool> = line.iter().map(Cell::is_gap).collect();
        assert_eq!(gaps, [false, false, false, true, false, true]);
        assert_eq!(line[2].mean(), Some(2.0));
    }
}
