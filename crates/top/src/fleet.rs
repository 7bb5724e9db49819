//! The fleet as `top` knows it: one cell a GPU, folded into nodes, racks and leaves.

use muster_api::ConsoleLayout;
use muster_client::GpuCell;
use std::collections::BTreeSet;
use std::ops::Range;

/// How a node looks in one character. The order is how bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Glyph {
    Free,
    Part,
    Full,
    Enrolled,
    Testing,
    Maintenance,
    Stopping,
    Cordoned,
    Drained,
    Draining,
    Protected,
    Excluded,
    Missing,
    Finding,
    Breaker,
    Suspect,
    Repairing,
    Quarantined,
    Unknown,
    Lost,
}

impl Glyph {
    /// Every one, best first.
    pub(super) const ALL: [Glyph; 20] = [
        Glyph::Free,
        Glyph::Part,
        Glyph::Full,
        Glyph::Enrolled,
        Glyph::Testing,
        Glyph::Maintenance,
        Glyph::Stopping,
        Glyph::Cordoned,
        Glyph::Drained,
        Glyph::Draining,
        Glyph::Protected,
        Glyph::Excluded,
        Glyph::Missing,
        Glyph::Finding,
        Glyph::Breaker,
        Glyph::Suspect,
        Glyph::Repairing,
        Glyph::Quarantined,
        Glyph::Unknown,
        Glyph::Lost,
    ];

    /// The character: plain ASCII, so that it is right on every terminal and without colours.
    pub(super) fn letter(self) -> char {
        match self {
            Glyph::Free => '.',
            Glyph::Part => 'o',
            Glyph::Full => '#',
            Glyph::Enrolled => 'e',
            Glyph::Testing => 't',
            Glyph::Maintenance => 'M',
            Glyph::Stopping => 'S',
            Glyph::Cordoned => 'c',
            Glyph::Drained => 'D',
            Glyph::Draining => 'd',
            Glyph::Protected => 'p',
            Glyph::Excluded => 'x',
            Glyph::Missing => 'm',
            Glyph::Finding => '!',
            Glyph::Breaker => 'b',
            Glyph::Suspect => 's',
            Glyph::Repairing => 'r',
            Glyph::Quarantined => 'q',
            Glyph::Unknown => '?',
            Glyph::Lost => 'X',
        }
    }

    /// What it means.
    pub(super) fn word(self) -> &'static str {
        match self {
            Glyph::Free => "free",
            Glyph::Part => "part",
            Glyph::Full => "full",
            Glyph::Enrolled => "enrolled",
            Glyph::Testing => "tested",
            Glyph::Maintenance => "maintenance",
            Glyph::Stopping => "stopping",
            Glyph::Cordoned => "cordoned",
            Glyph::Drained => "drained",
            Glyph::Draining => "draining",
            Glyph::Protected => "protected",
            Glyph::Excluded => "excluded",
            Glyph::Missing => "missing",
            Glyph::Finding => "finding",
            Glyph::Breaker => "breaker",
            Glyph::Suspect => "suspect",
            Glyph::Repairing => "repairing",
            Glyph::Quarantined => "quarantined",
            Glyph::Unknown => "unknown",
            Glyph::Lost => "lost",
        }
    }

    /// The server decides what is in service, by the rule of the objectives: such a node has the state `ready`,
    /// `maintenance` while a window of it is open, or `stopping` while old ranks may still run there, and these are
    /// what those states are drawn as.
    pub(super) fn in_service(self) -> bool {
        let filled = matches!(self, Glyph::Free | Glyph::Part | Glyph::Full);
        let apart = matches!(self, Glyph::Excluded | Glyph::Missing);
        let blocked = matches!(self, Glyph::Maintenance | Glyph::Stopping);
        filled || apart || blocked || matches!(self, Glyph::Finding | Glyph::Breaker)
    }

    /// Somebody should look at it.
    pub(super) fn trouble(self) -> bool {
        self >= Glyph::Protected
    }

    fn of(state: &str) -> Glyph {
        match state {
            "ready" => Glyph::Free,
            "enrolled" => Glyph::Enrolled,
            "qualifying" => Glyph::Testing,
            "maintenance" => Glyph::Maintenance,
            "stopping" => Glyph::Stopping,
            "cordoned" => Glyph::Cordoned,
            "drained" => Glyph::Drained,
            "draining" => Glyph::Draining,
            "protected" => Glyph::Protected,
            "suspect" => Glyph::Suspect,
            "repairing" => Glyph::Repairing,
            "quarantined" => Glyph::Quarantined,
            "lost" => Glyph::Lost,
            _ => Glyph::Unknown,
        }
    }

    fn filled(held: u32, gpus: u32) -> Glyph {
        match held {
            0 => Glyph::Free,
            h if h < gpus => Glyph::Part,
            _ => Glyph::Full,
        }
    }
}

/// One node.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeSum {
    pub(super) glyph: Glyph,
    pub(super) gpus: u32,
    pub(super) held: u32,
    /// GPUs that are not allocated and get no new work: excluded, missing, blocked by an open breaker, on a
    /// node that is out of service, on which old ranks may still run, or in a maintenance window. What is neither this, allocated nor a spare is
    /// free, as the server counts it (`State::gpu_use`) and the console's map does (`allocatedOrFree`).
    pub(super) out: u32,
    /// GPUs that would be free, and wait to replace a node that fails.
    pub(super) spare: u32,
    watts: u64,
    watts_reported: u32,
    util: u32,
    util_reported: u32,
    pub(super) temp: Option<u8>,
}

/// Nodes that follow each other and stand together.
#[derive(Debug, Clone)]
pub(super) struct Rack {
    pub(super) nodes: Range<usize>,
}

/// Racks that follow each other under one leaf.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub(super) name: String,
    pub(super) racks: Range<usize>,
}

/// Every GPU of the site, by node and rack.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    layout: ConsoleLayout,
    /// First cell of each node, and one more.
    first: Vec<usize>,
    cells: Vec<GpuCell>,
    pub(super) nodes: Vec<NodeSum>,
    pub(super) racks: Vec<Rack>,
    pub(super) leaves: Vec<Leaf>,
    /// A whole picture came.
    pub(super) known: bool,
}

/// Sums over nodes.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Totals {
    pub(super) nodes: usize,
    pub(super) in_service: usize,
    pub(super) cordoned: usize,
    pub(super) leaving: usize,
    pub(super) unhealthy: usize,
    pub(super) lost: usize,
    pub(super) other: usize,
    pub(super) gpus: u32,
    pub(super) held: u32,
    pub(super) out: u32,
    pub(super) spare: u32,
    pub(super) watts: u64,
    pub(super) watts_reported: u32,
    pub(super) util: Option<u32>,
    /// The hottest nodes, hottest first.
    pub(super) hottest: Vec<(u8, usize)>,
    /// Nodes somebody should look at, worst first.
    pub(super) trouble: Vec<usize>,
}

/// Nodes that are named among the hottest.
const HOTTEST: usize = 6;

impl Fleet {
    /// Takes where everything stands; the cells come with the next whole frame.
    pub(super) fn place(&mut self, layout: ConsoleLayout) {
        let mut fleet = Fleet { layout, ..Fleet::default() };
        let mut end = 0;
        fleet.first.push(0);
        let mut here: Option<(u32, (String, String, String))> = None;
        for (i, node) in fleet.layout.nodes.iter().enumerate() {
            end += node.gpus.clamp(1, 64) as usize;
            fleet.first.push(end);
            let rack = fleet.layout.racks.get(node.rack as usize).cloned().unwrap_or_default();
            let leaf = (rack.cluster, rack.spine, rack.leaf);
            let same_leaf = here.as_ref().is_some_and(|(_, l)| *l == leaf);
            let same_rack = same_leaf && here.as_ref().is_some_and(|(r, _)| *r == node.rack);
            if !same_rack {
                fleet.racks.push(Rack { nodes: i..i });
            }
            if !same_leaf {
                let at = fleet.racks.len() - 1;
                fleet.leaves.push(Leaf { name: leaf.2.clone(), racks: at..at });
            }
            if let (Some(r), Some(l)) = (fleet.racks.last_mut(), fleet.leaves.last_mut()) {
                r.nodes.end = i + 1;
                l.racks.end = fleet.racks.len();
            }
            here = Some((node.rack, leaf));
        }
        fleet.name_leaves();
        *self = fleet;
    }

    /// Leaves of the same name under several spines say which one they are.
    fn name_leaves(&mut self) {
        let names: BTreeSet<&str> = self.leaves.iter().map(|l| l.name.as_str()).collect();
        if names.len() == self.leaves.len() {
            return;
        }
        let spine = |l: &Leaf, racks: &[Rack], layout: &ConsoleLayout| {
            let node = racks.get(l.racks.start).map(|r| r.nodes.start);
            let rack = node.and_then(|n| layout.nodes.get(n)).map(|n| n.rack as usize);
            rack.and_then(|r| layout.racks.get(r)).map(|r| r.spine.clone()).unwrap_or_default()
        };
        let spines: Vec<String> =
            self.leaves.iter().map(|l| spine(l, &self.racks, &self.layout)).collect();
        for (leaf, spine) in self.leaves.iter_mut().zip(spines) {
            leaf.name = format!("{spine}/{}", leaf.name);
        }
    }

    /// Version of the layout.
    pub(super) fn version(&self) -> u64 {
        self.layout.version
    }

    /// A whole picture.
    pub(super) fn whole(&mut self, mut cells: Vec<GpuCell>) {
        cells.resize(
            self.first.last().copied().unwrap_or(0),
            GpuCell { state: u8::MAX, ..GpuCell::default() },
        );
        self.cells = cells;
        self.nodes = (0..self.layout.nodes.len()).map(|n| self.sum(n)).collect();
        self.known = true;
    }

    /// Takes in the cells that changed.
    pub(super) fn change(&mut self, some: &[(u32, GpuCell)]) {
        let mut touched = BTreeSet::new();
        for (i, cell) in some {
            let i = *i as usize;
            if let Some(at) = self.cells.get_mut(i) {
                *at = *cell;
                touched.insert(self.first.partition_point(|f| *f <= i).saturating_sub(1));
            }
        }
        for n in touched {
            if n < self.nodes.len() {
                self.nodes[n] = self.sum(n);
            }
        }
    }

    fn word(&self, state: u8) -> &str {
        self.layout.states.get(usize::from(state)).map_or("", String::as_str)
    }

    fn sum(&self, n: usize) -> NodeSum {
        let cells = &self.cells[self.first[n]..self.first[n + 1]];
        let gpus = self.layout.nodes[n].gpus;
        let apart = |c: &&GpuCell| matches!(self.word(c.state), "missing" | "excluded");
        let state = cells.iter().find(|c| !apart(c)).map_or("", |c| self.word(c.state));
        let count = |p: &dyn Fn(&GpuCell) -> bool| {
            u32::try_from(cells.iter().filter(|c| p(c)).count()).unwrap_or(u32::MAX)
        };
        let held = count(&|c| c.held);
        let mut glyph = Glyph::of(state);
        // A node all of whose GPUs are missing is still a node; of its own state nothing is
        // reported.
        let ready = glyph == Glyph::Free;
        let out = match (gpus, ready) {
            (0, _) => 0,
            (_, true) => count(&|c| !c.held && (c.breaker || apart(&c))),
            (_, false) => count(&|c| !c.held),
        };
        let spare = match (gpus, ready) {
            (1.., true) => count(&|c| c.spare && !c.held && !c.breaker && !apart(&c)),
            _ => 0,
        };
        if ready {
            glyph = if cells.iter().any(|c| c.breaker) {
                Glyph::Breaker
            } else if cells.iter().any(|c| c.worst >= 2) {
                Glyph::Finding
            } else if cells.iter().any(|c| self.word(c.state) == "missing") {
                Glyph::Missing
            } else if cells.iter().any(|c| apart(&c)) {
                Glyph::Excluded
            } else {
                Glyph::filled(held, gpus)
            };
        }
        NodeSum {
            glyph,
            gpus,
            held,
            out,
            spare,
            watts: cells.iter().filter_map(|c| c.watts).map(u64::from).sum(),
            watts_reported: count(&|c| c.watts.is_some()),
            util: cells.iter().filter_map(|c| c.util).map(u32::from).sum(),
            util_reported: count(&|c| c.util.is_some()),
            temp: cells.iter().filter_map(|c| c.temp).max(),
        }
    }

    /// A node's name.
    pub(super) fn name(&self, node: usize) -> &str {
        self.layout.nodes.get(node).map_or("", |n| n.name.as_str())
    }

    /// The GPU of a node that is hottest.
    pub(super) fn hottest_gpu(&self, node: usize) -> Option<usize> {
        let (from, end) = (*self.first.get(node)?, *self.first.get(node + 1)?);
        let temps = self.cells.get(from..end)?.iter().enumerate();
        temps.filter_map(|(g, c)| Some((c.temp?, g))).max().map(|(_, g)| g)
    }

    /// Whether a node fits what somebody looks for: its name, place, state, SKU or a job on it.
    pub(super) fn fits(&self, node: usize, wanted: &str) -> bool {
        let Some(n) = self.layout.nodes.get(node) else { return false };
        let has = |text: &str| text.to_lowercase().contains(wanted);
        let rack = self.layout.racks.get(n.rack as usize);
        let sku = n.sku.and_then(|s| self.layout.skus.get(s as usize));
        let cells = self.cells.get(self.first[node]..self.first[node + 1]).unwrap_or_default();
        let job = wanted.parse::<u32>().ok();
        has(&n.name)
            || self.nodes.get(node).is_some_and(|s| s.glyph.word().contains(wanted))
            || rack.is_some_and(|r| has(&r.rack) || has(&r.leaf) || has(&r.spine))
            || sku.is_some_and(|s| has(s))
            || job.is_some_and(|j| cells.iter().any(|c| c.job == Some(j)))
    }

    /// The worst of some nodes, or how full they are together when nothing is wrong.
    pub(super) fn together(&self, nodes: impl Iterator<Item = usize>) -> Option<Glyph> {
        let (mut worst, mut held, mut gpus) = (None, 0, 0);
        for n in nodes.filter_map(|n| self.nodes.get(n)) {
            worst = worst.max(Some(n.glyph));
            held += n.held;
            gpus += n.gpus;
        }
        worst.map(|w| if w <= Glyph::Full { Glyph::filled(held, gpus) } else { w })
    }

    /// Sums over the nodes that `seen` lets pass.
    pub(super) fn totals(&self, seen: impl Fn(usize) -> bool) -> Totals {
        let mut t = Totals::default();
        let (mut util, mut reported) = (0u64, 0u64);
        let mut hot: Vec<(u8, usize)> = Vec::new();
        for (i, n) in self.nodes.iter().enumerate().filter(|(i, _)| seen(*i)) {
            t.nodes += 1;
            match n.glyph {
                g if g.in_service() => t.in_service += 1,
                // What runs on a cordoned node stays.
                Glyph::Cordoned => t.cordoned += 1,
                Glyph::Drained | Glyph::Draining => t.leaving += 1,
                Glyph::Suspect | Glyph::Repairing | Glyph::Quarantined => t.unhealthy += 1,
                Glyph::Lost => t.lost += 1,
                _ => t.other += 1,
            }
            t.gpus += n.gpus;
            t.held += n.held;
            t.out += n.out;
            t.spare += n.spare;
            t.watts += n.watts;
            t.watts_reported += n.watts_reported;
            util += u64::from(n.util);
            reported += u64::from(n.util_reported);
            hot.extend(n.temp.map(|c| (c, i)));
            if n.glyph.trouble() {
                t.trouble.push(i);
            }
        }
        t.util = util.checked_div(reported).and_then(|u| u32::try_from(u).ok());
        hot.sort_by_key(|(c, i)| (std::cmp::Reverse(*c), *i));
        hot.truncate(HOTTEST);
        t.hottest = hot;
        t.trouble.sort_by_key(|i| (std::cmp::Reverse(self.nodes[*i].glyph), *i));
        t
    }
}
