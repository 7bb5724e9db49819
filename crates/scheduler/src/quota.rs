//! Quotas in use: who may have how much now, who lives on what others lend, and whose claim
//! goes before theirs.
//!
//! The arithmetic of lending: a node keeps `subtree - lend` for itself; what it uses beyond that
//! is taken from its parent, up to `borrow` more than its own; and so on up to the root, where
//! what is left is left for everybody below.

use muster_model::names::{Label, ProjectName};
use muster_model::quota::{QueueOrder, Quota, QuotaLimit, Quotas};
use muster_model::spec::Tier;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A kind of GPU and tier that some limit speaks of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Only this SKU.
    pub sku: Option<String>,
    /// Only this tier.
    pub tier: Option<Tier>,
}

impl Kind {
    /// As a limit names it, and as kinds are sorted.
    fn name(&self) -> (Option<&str>, Option<Tier>) {
        (self.sku.as_deref(), self.tier)
    }

    fn matches(&self, sku: &str, tier: Tier) -> bool {
        self.sku.as_ref().is_none_or(|s| s == sku) && self.tier.is_none_or(|t| t == tier)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Limit {
    nominal: u64,
    borrow: Option<u64>,
    lend: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    name: Label,
    parent: Option<usize>,
    order: QueueOrder,
    /// By kind; none where no node of the tree speaks of it.
    limits: Vec<Option<Limit>>,
    /// Own and lendable from below.
    subtree: Vec<u64>,
    /// Everything that the subtree owns, lent or not.
    owned: Vec<u64>,
    /// What counts against its own and its parent's.
    used: Vec<u64>,
    /// Everything that is held in its subtree.
    gross: Vec<u64>,
}

/// A quota that leaves too little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaShortage {
    /// The name of the quota that leaves too little.
    pub quota: Label,
    /// The SKU and tier it is short of.
    pub kind: Kind,
    /// Left now, in thousandths.
    pub left: u64,
}

/// A limit whose `borrow` changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleBorrow {
    /// The name of the quota.
    pub quota: Label,
    /// The SKU and tier of the limit.
    pub kind: Kind,
    /// GPUs that it says may be borrowed.
    pub borrow: u32,
    /// It is a root; else no other quota of its tree can lend it any.
    pub root: bool,
}

impl fmt::Display for IdleBorrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IdleBorrow { quota, kind, borrow, root } = self;
        let sku = kind.sku.as_ref().map(|s| format!(" of SKU {s}")).unwrap_or_default();
        write!(f, "quota {quota}: `borrow: {borrow}`{sku} has no effect: ")?;
        f.write_str(if *root {
            "a root of the tree borrows from nobody; give it a `parent` with others below it that lend"
        } else {
            "no other quota of its tree has any that it could borrow"
        })
    }
}

/// What makes up what a quota leaves of a kind now, in thousandths: what it owns, has borrowed and may borrow, less
/// what it uses, what quotas below it do not lend, and what others have borrowed of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LeftParts {
    /// What it and all below it may always have.
    pub(crate) owned: u64,
    /// What it uses beyond what it may always have.
    pub(crate) borrowed: u64,
    /// What it may borrow beside that now.
    pub(crate) to_borrow: u64,
    /// By the quota and all below it.
    pub(crate) used: u64,
    /// What quotas below it have left for their own projects alone.
    pub(crate) not_lent: u64,
    /// What others have of what it may always have.
    pub(crate) borrowed_by_others: u64,
    /// The sum.
    pub(crate) left: u64,
}

/// What the tree of a quota uses of a kind, and others of it beside the quota; in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TreeUsage {
    /// By its whole tree.
    pub(crate) tree: u64,
    /// By others of the tree beyond what they own.
    pub(crate) borrowed: u64,
    /// The quota, or one above it, has borrowed all that it may; a root may borrow nothing.
    pub(crate) borrowed_all: bool,
}

/// For reports: what a quota and all below it have of a kind; in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindUsage {
    /// Owned, lent or not.
    pub owned: u64,
    /// Held now.
    pub used: u64,
    /// Of it, beyond what is owned.
    pub borrowed: u64,
    /// What its own projects may take more now: beyond what nodes below it keep for themselves.
    pub left: u64,
    /// Somebody is above it who could lend.
    pub may_borrow: bool,
}

/// Quotas and what is used of them; GPUs in thousandths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Sorted, each once.
    kinds: Vec<Kind>,
    nodes: Vec<Node>,
    /// Which of the nodes has a name. Shared: the rest is copied to try what would be left.
    named: Arc<BTreeMap<Label, usize>>,
    leaf: BTreeMap<ProjectName, usize>,
}

/// Those with this parent, of a list in the order of parents.
fn below<'s, 'l>(
    by_parent: &'s [(Option<&'l Label>, usize)],
    parent: Option<&'l Label>,
) -> &'s [(Option<&'l Label>, usize)] {
    let from = by_parent.partition_point(|(of, _)| *of < parent);
    let to = by_parent.partition_point(|(of, _)| *of <= parent);
    &by_parent[from..to]
}

impl Ledger {
    /// From the tree, with nothing used.
    #[must_use]
    pub fn new(q: &Quotas) -> Ledger {
        let mut kinds: Vec<Kind> = q
            .tree
            .iter()
            .flat_map(|n| &n.gpus)
            .map(|l| Kind { sku: l.sku.clone(), tier: l.tier })
            .collect();
        kinds.sort();
        kinds.dedup();
        // Of two with one name the first counts.
        let names = q.tree.iter().map(|n| Some(&n.name));
        let mut names: Vec<(Option<&Label>, usize)> = names.zip(0..).collect();
        names.sort_unstable();
        names.dedup_by_key(|(name, _)| *name);
        let parents = names.iter().map(|(_, i)| (q.tree[*i].parent.as_ref(), *i));
        let mut by_parent: Vec<(Option<&Label>, usize)> = parents.collect();
        by_parent.sort_unstable();
        // Parents before children, each with the number of its parent.
        let roots = below(&by_parent, None).iter();
        let mut order: Vec<(&Quota, Option<usize>)> =
            roots.map(|(_, i)| (&q.tree[*i], None)).collect();
        let mut next = 0;
        while let Some((n, _)) = order.get(next).copied() {
            let children = below(&by_parent, Some(&n.name)).iter();
            order.extend(children.map(|(_, i)| (&q.tree[*i], Some(next))));
            next += 1;
        }
        let mut root: Vec<usize> = Vec::with_capacity(order.len());
        for (i, (_, parent)) in order.iter().enumerate() {
            let of = parent.map_or(i, |p| root[p]);
            root.push(of);
        }
        // A node that says nothing of a kind that its tree limits owns none of it and may borrow;
        // where the whole tree is silent, nothing is limited.
        let number =
            |l: &QuotaLimit| kinds.binary_search_by(|k| k.name().cmp(&(l.sku.as_deref(), l.tier)));
        let mut spoken: Vec<(usize, usize)> = order
            .iter()
            .zip(&root)
            .flat_map(|((n, _), root)| n.gpus.iter().map(move |l| (*root, l)))
            .filter_map(|(root, l)| Some((root, number(l).ok()?)))
            .collect();
        spoken.sort_unstable();
        let mut nodes: Vec<Node> = Vec::with_capacity(order.len());
        for ((n, parent), root) in order.iter().zip(&root) {
            let silent = |k| spoken.binary_search(&(*root, k)).is_ok().then(Limit::default);
            let mut limits: Vec<Option<Limit>> = (0..kinds.len()).map(silent).collect();
            // Of two limits for one kind the first counts.
            for l in n.gpus.iter().rev() {
                let Ok(k) = number(l) else { continue };
                limits[k] = Some(Limit {
                    nominal: u64::from(l.nominal) * 1000,
                    borrow: l.borrow.map(|b| u64::from(b) * 1000),
                    lend: l.lend.map(|b| u64::from(b) * 1000),
                });
            }
            nodes.push(Node {
                name: n.name.clone(),
                parent: *parent,
                order: n.order,
                limits,
                subtree: vec![0; kinds.len()],
                owned: vec![0; kinds.len()],
                used: vec![0; kinds.len()],
                gross: vec![0; kinds.len()],
            });
        }
        for i in (0..nodes.len()).rev() {
            for k in 0..kinds.len() {
                let Some(l) = nodes[i].limits[k] else { continue };
                nodes[i].subtree[k] += l.nominal;
                let lent = nodes[i].subtree[k].min(l.lend.unwrap_or(u64::MAX));
                nodes[i].owned[k] += l.nominal;
                if let Some(p) = nodes[i].parent {
                    nodes[p].subtree[k] += lent;
                    nodes[p].owned[k] += nodes[i].owned[k];
                }
            }
        }
        let leaf = order
            .iter()
            .enumerate()
            .flat_map(|(i, (n, _))| n.projects.iter().map(move |p| (p.clone(), i)))
            .collect();
        let named: BTreeMap<Label, usize> =
            nodes.iter().enumerate().map(|(i, n)| (n.name.clone(), i)).collect();
        Ledger { kinds, nodes, named: Arc::new(named), leaf }
    }

    /// Limits whose `borrow` changes nothing: with nothing used, its projects may have what is owned and
    /// no more. They are allowed, because what others lend may change; whoever wrote one meant something.
    #[must_use]
    pub fn idle_borrows(q: &Quotas) -> Vec<IdleBorrow> {
        let ledger = Ledger::new(q);
        let limits = q.tree.iter().flat_map(|n| n.gpus.iter().map(move |l| (n, l)));
        let idle = |(n, l): (&Quota, &QuotaLimit)| {
            let borrow = l.borrow.filter(|b| *b > 0)?;
            let kind = Kind { sku: l.sku.clone(), tier: l.tier };
            let i = *ledger.named.get(&n.name)?;
            let k = ledger.kinds.binary_search(&kind).ok()?;
            let node = &ledger.nodes[i];
            let root = node.parent.is_none();
            let quota = n.name.clone();
            (ledger.most(i, k) <= node.subtree[k]).then_some(IdleBorrow {
                quota,
                kind,
                borrow,
                root,
            })
        };
        limits.filter_map(idle).collect()
    }

    /// Limits nobody?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn guaranteed(&self, i: usize, k: usize) -> u64 {
        let lend = self.nodes[i].limits[k].and_then(|l| l.lend);
        lend.map_or(0, |l| self.nodes[i].subtree[k].saturating_sub(l))
    }

    /// What a node may still take.
    fn available(&self, i: usize, k: usize) -> u64 {
        let n = &self.nodes[i];
        let Some(l) = n.limits[k] else { return u64::MAX };
        let Some(p) = n.parent else { return n.subtree[k].saturating_sub(n.used[k]) };
        let own = self.guaranteed(i, k);
        let mut above = self.available(p, k);
        if let Some(b) = l.borrow {
            let stored = n.subtree[k] - own;
            let taken = n.used[k].saturating_sub(own);
            above = above.min((stored + b).saturating_sub(taken));
        }
        own.saturating_sub(n.used[k]).saturating_add(above)
    }

    /// What a node may take where nothing is used.
    fn most(&self, i: usize, k: usize) -> u64 {
        let n = &self.nodes[i];
        let Some(l) = n.limits[k] else { return u64::MAX };
        let Some(p) = n.parent else { return n.subtree[k] };
        let own = self.guaranteed(i, k);
        let above = self.most(p, k);
        let borrowed = l.borrow.map_or(u64::MAX, |b| (n.subtree[k] - own).saturating_add(b));
        own.saturating_add(above.min(borrowed))
    }

    /// Numbers of the kinds that work counts as; there are a handful of kinds.
    fn kinds<'a>(&'a self, sku: &'a str, tier: Tier) -> impl Iterator<Item = usize> + 'a {
        let all = self.kinds.iter().enumerate();
        all.filter(move |(_, k)| k.matches(sku, tier)).map(|(i, _)| i)
    }

    /// Counts what a project's job holds, or no longer.
    pub fn charge(&mut self, project: &ProjectName, sku: &str, tier: Tier, milli: u64, up: bool) {
        let Some(&leaf) = self.leaf.get(project) else { return };
        for k in 0..self.kinds.len() {
            if !self.kinds[k].matches(sku, tier) {
                continue;
            }
            let mut at = Some(leaf);
            let mut rest = milli;
            while let Some(i) = at {
                let own = self.guaranteed(i, k);
                let n = &mut self.nodes[i];
                let beyond = |used: u64| used.saturating_sub(own);
                let before = beyond(n.used[k]);
                if up {
                    n.gross[k] += milli;
                    n.used[k] += rest;
                    rest = beyond(n.used[k]) - before;
                } else {
                    n.gross[k] = n.gross[k].saturating_sub(milli);
                    n.used[k] = n.used[k].saturating_sub(rest);
                    rest = before - beyond(n.used[k]);
                }
                at = n.parent;
            }
        }
    }

    /// May the project have so much more?
    ///
    /// # Errors
    /// The quota that leaves too little.
    pub fn check(
        &self,
        project: &ProjectName,
        sku: &str,
        tier: Tier,
        milli: u64,
    ) -> Result<(), QuotaShortage> {
        self.check_by(project, (sku, tier), milli, |leaf, k| self.available(leaf, k))
    }

    /// May the project ever have so much? Nothing of the quotas is taken as used.
    ///
    /// # Errors
    /// The quota that is too small.
    pub fn check_unused(
        &self,
        project: &ProjectName,
        sku: &str,
        tier: Tier,
        milli: u64,
    ) -> Result<(), QuotaShortage> {
        self.check_by(project, (sku, tier), milli, |leaf, k| self.most(leaf, k))
    }

    fn check_by(
        &self,
        project: &ProjectName,
        (sku, tier): (&str, Tier),
        milli: u64,
        left: impl Fn(usize, usize) -> u64,
    ) -> Result<(), QuotaShortage> {
        let Some(&leaf) = self.leaf.get(project) else { return Ok(()) };
        for k in self.kinds(sku, tier) {
            let left = left(leaf, k);
            if left < milli {
                let n = &self.nodes[leaf];
                return Err(QuotaShortage {
                    quota: n.name.clone(),
                    kind: self.kinds[k].clone(),
                    left,
                });
            }
        }
        Ok(())
    }

    /// Nothing used: what could ever be had.
    #[must_use]
    pub fn emptied(&self) -> Ledger {
        let mut out = self.clone();
        for n in &mut out.nodes {
            n.used.fill(0);
            n.gross.fill(0);
        }
        out
    }

    /// Whether, with so much more, the project would stay within what is its own: at its node, or
    /// at one above it. Then what others borrowed can be claimed back; the node is the narrowest
    /// for which this holds, so that siblings who borrowed are claimed from too.
    #[must_use]
    pub fn find_entitled_quota(
        &self,
        project: &ProjectName,
        sku: &str,
        tier: Tier,
        milli: u64,
    ) -> Option<usize> {
        let leaf = *self.leaf.get(project)?;
        let kinds: Vec<usize> =
            self.kinds(sku, tier).filter(|k| self.nodes[leaf].limits[*k].is_some()).collect();
        if kinds.is_empty() {
            return None;
        }
        let mut at = Some(leaf);
        while let Some(i) = at {
            let within = kinds.iter().all(|k| self.nodes[i].gross[*k] + milli <= self.owned(i, *k));
            // Nobody lends to a root.
            self.nodes[i].parent?;
            if within {
                return Some(i);
            }
            at = self.nodes[i].parent;
        }
        None
    }

    fn owned(&self, i: usize, k: usize) -> u64 {
        self.nodes[i].owned[k]
    }

    /// Could a claim of so much take anything back: is it within its own, and does somebody of
    /// the same tree live on more than theirs?
    #[must_use]
    pub fn may_reclaim(&self, project: &ProjectName, sku: &str, tier: Tier, milli: u64) -> bool {
        let Some(claimant) = self.find_entitled_quota(project, sku, tier, milli) else {
            return false;
        };
        let claim = self.path(claimant);
        self.nodes.iter().enumerate().any(|(i, n)| {
            (0..self.kinds.len()).any(|k| n.gross[k] > n.owned[k]) && {
                let path = self.path(i);
                !claim.contains(&i) && !path.contains(&claimant) && path.last() == claim.last()
            }
        })
    }

    fn path(&self, leaf: usize) -> Vec<usize> {
        let mut out = vec![leaf];
        while let Some(p) = self.nodes[out[out.len() - 1]].parent {
            out.push(p);
        }
        out
    }

    /// Does this project live on quota that the claimant's side has lent? Only then may its work
    /// be stopped for the claim.
    #[must_use]
    pub fn borrows_from(
        &self,
        victim: &ProjectName,
        claimant: usize,
        sku: &str,
        tier: Tier,
    ) -> bool {
        let Some(&leaf) = self.leaf.get(victim) else { return false };
        let claim = self.path(claimant);
        let path = self.path(leaf);
        // Only a lender of the same tree, and nobody inside the claimant's own subtree.
        if path.contains(&claimant) || path.last() != claim.last() {
            return false;
        }
        self.kinds(sku, tier).any(|k| {
            path.iter()
                .take_while(|i| !claim.contains(i))
                .any(|i| self.nodes[*i].gross[k] > self.owned(*i, k))
        })
    }

    /// May a job of this project pass one of the same quota that does not fit?
    #[must_use]
    pub fn strict(&self, project: &ProjectName) -> Option<usize> {
        let leaf = *self.leaf.get(project)?;
        (self.nodes[leaf].order == QueueOrder::Strict).then_some(leaf)
    }

    /// Does any quota forbid its jobs to pass each other?
    #[must_use]
    pub fn any_strict(&self) -> bool {
        self.nodes.iter().any(|n| n.order == QueueOrder::Strict)
    }

    /// For reports: what a node and all below it have of the kind that a limit names; none where its
    /// tree does not limit that. A report asks for each limit of each node: it costs what the node is
    /// below, not what the tree has.
    #[must_use]
    pub fn usage(&self, quota: &Label, sku: Option<&str>, tier: Option<Tier>) -> Option<KindUsage> {
        let i = *self.named.get(quota)?;
        let k = self.kinds.binary_search_by(|k| k.name().cmp(&(sku, tier))).ok()?;
        self.nodes[i].limits[k]?;
        let (used, owned) = (self.nodes[i].gross[k], self.owned(i, k));
        Some(KindUsage {
            owned,
            used,
            borrowed: used.saturating_sub(owned),
            left: self.available(i, k),
            may_borrow: self.nodes[i].parent.is_some(),
        })
    }

    /// What makes up what the quota of a project leaves it of a kind now.
    pub(crate) fn left_parts(&self, project: &ProjectName, kind: &Kind) -> LeftParts {
        let leaf = self.leaf.get(project).copied();
        let (Some(leaf), Some(k)) = (leaf, self.kinds.iter().position(|x| x == kind)) else {
            return LeftParts::default();
        };
        let n = &self.nodes[leaf];
        let (subtree, taken) = (n.subtree[k], n.used[k]);
        let (owned, used) = (n.owned[k], n.gross[k]);
        let (idle, left) = (subtree.saturating_sub(taken), self.available(leaf, k));
        LeftParts {
            owned,
            borrowed: taken.saturating_sub(subtree),
            to_borrow: left.saturating_sub(idle),
            used,
            // Of what quotas below it own and use only what they lend and borrow is counted here.
            not_lent: (owned + taken).saturating_sub(used + subtree),
            borrowed_by_others: idle.saturating_sub(left),
            left,
        }
    }

    /// What the tree of a project's quota uses of a kind, and what others than the quota do.
    pub(crate) fn tree_usage(&self, project: &ProjectName, kind: &Kind) -> TreeUsage {
        let leaf = self.leaf.get(project).copied();
        let (Some(leaf), Some(k)) = (leaf, self.kinds.iter().position(|x| x == kind)) else {
            return TreeUsage::default();
        };
        let path = self.path(leaf);
        let beside = self.nodes.iter().enumerate().filter(|(i, n)| {
            !path.contains(i) && n.parent.is_some_and(|p| p != leaf && path.contains(&p))
        });
        TreeUsage {
            tree: path.last().map_or(0, |root| self.nodes[*root].gross[k]),
            borrowed: beside.map(|(_, n)| n.gross[k].saturating_sub(n.owned[k])).sum(),
            borrowed_all: self.nodes[leaf].parent.is_none()
                || path.iter().any(|i| self.borrowed_all(*i, k)),
        }
    }

    /// Has a node, by its own limit, borrowed all that it may?
    fn borrowed_all(&self, i: usize, k: usize) -> bool {
        let n = &self.nodes[i];
        let limit = n.parent.and(n.limits[k]).and_then(|l| l.borrow);
        limit.is_some_and(|b| n.used[k] >= n.subtree[k].saturating_add(b))
    }

    /// What must hold whatever was charged: nobody beyond what it may borrow. Returns the first
    /// node that is.
    #[must_use]
    pub fn exceeded(&self) -> Option<Label> {
        for (i, n) in self.nodes.iter().enumerate() {
            for k in 0..self.kinds.len() {
                let Some(l) = n.limits[k] else { continue };
                let most = match (n.parent, l.borrow) {
                    (None, _) => n.subtree[k],
                    (Some(_), Some(b)) => n.subtree[k] + b,
                    (Some(_), None) => u64::MAX,
                };
                if self.nodes[i].used[k] > most {
                    return Some(n.name.clone());
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(json: &str) -> Ledger {
        let q: Quotas = serde_json::from_str(json).unwrap();
        q.check().unwrap();
        Ledger::new(&q)
    }
    fn p(s: &str) -> ProjectName {
        s.parse().unwrap()
    }
    const T: Tier = Tier::OnDemand;

    const TWO: &str = r#"{"tree":[{"name":"co"},
        {"name":"a","parent":"co","projects":["pa"],"gpus":[{"nominal":8,"borrow":4}]},
        {"name":"b","parent":"co","projects":["pb"],"gpus":[{"nominal":8,"lend":6}]}]}"#;

    #[test]
    fn idle_quota_is_lent_up_to_both_limits() {
        let mut l = ledger(TWO);
        assert!(l.check(&p("pa"), "h100", T, 12_000).is_ok());
        assert!(l.check(&p("pa"), "h100", T, 13_000).is_err(), "borrow limit 4");
        l.charge(&p("pa"), "h100", T, 12_000, true);
        for milli in (0..20).map(|gpus| gpus * 1000) {
            for project in ["pa", "pb"].map(p) {
                let ever = l.emptied().check(&project, "h100", T, milli).is_ok();
                assert_eq!(l.check_unused(&project, "h100", T, milli).is_ok(), ever, "{milli}");
            }
        }
        // 16 in all, 2 of b are never lent; a holds 12, so b has 4 left until a gives back.
        assert!(l.check(&p("pb"), "h100", T, 4000).is_ok());
        assert!(l.check(&p("pb"), "h100", T, 5000).is_err());
        assert!(l.find_entitled_quota(&p("pb"), "h100", T, 8000).is_some());
        assert!(l.find_entitled_quota(&p("pa"), "h100", T, 1000).is_none());
        let b = l.find_entitled_quota(&p("pb"), "h100", T, 5000).unwrap();
        assert!(l.borrows_from(&p("pa"), b, "h100", T));
        l.charge(&p("pa"), "h100", T, 4000, false);
        assert!(!l.borrows_from(&p("pa"), b, "h100", T), "within its own again");
        assert!(l.check(&p("pb"), "h100", T, 8000).is_ok());
        l.charge(&p("pa"), "h100", T, 8000, false);
        assert_eq!(l, ledger(TWO), "everything given back");
    }

    #[test]
    fn what_is_left_is_what_a_check_allows_and_a_root_borrows_nothing() {
        let mut l = ledger(TWO);
        let row = |l: &Ledger, name: &str| l.usage(&name.parse().unwrap(), None, None).unwrap();
        let seen = |u: &KindUsage| (u.owned, u.used, u.borrowed, u.left, u.may_borrow);
        // 8 of its own and 4 of the 6 that b lends; the root has what both have.
        assert_eq!(seen(&row(&l, "a")), (8000, 0, 0, 12_000, true));
        assert_eq!(seen(&row(&l, "co")), (16_000, 0, 0, 14_000, false));
        l.charge(&p("pb"), "h100", T, 6000, true);
        for used in [0, 4000, 4000, 2000] {
            l.charge(&p("pa"), "h100", T, used, true);
            let left = row(&l, "a").left;
            assert!(l.check(&p("pa"), "h100", T, left).is_ok(), "{left}");
            assert!(l.check(&p("pa"), "h100", T, left + 1).is_err(), "{left}");
        }
        let kind = Kind { sku: None, tier: None };
        assert_eq!(seen(&row(&l, "a")), (8000, 10_000, 2000, 0, true));
        assert!(!l.tree_usage(&p("pa"), &kind).borrowed_all, "b uses what it lent");
        l.charge(&p("pb"), "h100", T, 6000, false);
        l.charge(&p("pa"), "h100", T, 2000, true);
        assert!(l.tree_usage(&p("pa"), &kind).borrowed_all, "4 of at most 4");
        let alone = ledger(r#"{"tree":[{"name":"a","projects":["pa"],"gpus":[{"nominal":8}]}]}"#);
        assert!(alone.tree_usage(&p("pa"), &kind).borrowed_all, "nobody lends to a root");
        assert_eq!(seen(&row(&alone, "a")), (8000, 0, 0, 8000, false));
    }

    #[test]
    fn what_is_left_is_the_sum_of_its_parts() {
        let adds_up = |l: &Ledger, project: &str| {
            let s = l.left_parts(&p(project), &Kind { sku: None, tier: None });
            let has = s.owned + s.borrowed + s.to_borrow;
            assert_eq!(has - s.used - s.not_lent - s.borrowed_by_others, s.left, "{s:?}");
            assert!(l.check(&p(project), "h100", T, s.left).is_ok(), "{s:?}");
            assert!(l.check(&p(project), "h100", T, s.left + 1).is_err(), "{s:?}");
            (s.owned, s.borrowed, s.to_borrow, s.used, s.not_lent, s.borrowed_by_others)
        };
        let mut l = ledger(TWO);
        assert_eq!(adds_up(&l, "pa"), (8000, 0, 4000, 0, 0, 0));
        l.charge(&p("pb"), "h100", T, 5000, true);
        assert_eq!(adds_up(&l, "pa"), (8000, 0, 3000, 0, 0, 0), "3 of the 6 that b lends");
        l.charge(&p("pa"), "h100", T, 10_000, true);
        assert_eq!(adds_up(&l, "pa"), (8000, 2000, 1000, 10_000, 0, 0));
        assert_eq!(adds_up(&l, "pb"), (8000, 0, 0, 5000, 0, 2000));
        // A quota below one that has projects itself keeps what it does not lend.
        let mut l = ledger(
            r#"{"tree":[{"name":"lab","projects":["pa"],"gpus":[{"nominal":4}]},
            {"name":"x","parent":"lab","projects":["pb"],"gpus":[{"nominal":8,"lend":2}]}]}"#,
        );
        assert_eq!(adds_up(&l, "pa"), (12_000, 0, 0, 0, 6000, 0));
        l.charge(&p("pb"), "h100", T, 3000, true);
        assert_eq!(adds_up(&l, "pa"), (12_000, 0, 0, 3000, 3000, 0));
        l.charge(&p("pa"), "h100", T, 6000, true);
        assert_eq!(adds_up(&l, "pa"), (12_000, 0, 0, 9000, 3000, 0));
        assert_eq!(adds_up(&l, "pb"), (8000, 0, 0, 3000, 0, 2000));
    }

    #[test]
    fn borrowing_that_has_no_effect_is_named() {
        let idle = |json: &str| {
            let q: Quotas = serde_json::from_str(json).unwrap();
            Ledger::idle_borrows(&q).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let alone =
            r#"{"tree":[{"name":"nlp","projects":["nlp"],"gpus":[{"nominal":8,"borrow":8}]}]}"#;
        let root = "a root of the tree borrows from nobody; give it a `parent` with others below it \
                    that lend";
        assert_eq!(idle(alone), [format!("quota nlp: `borrow: 8` has no effect: {root}")]);
        assert_eq!(idle(TWO), Vec::<String>::new());
        let stingy = TWO.replace(r#""lend":6"#, r#""lend":0"#);
        let none = "no other quota of its tree has any that it could borrow";
        assert_eq!(idle(&stingy), [format!("quota a: `borrow: 4` has no effect: {none}")]);
        // Of another kind the others have some, which is of no use to it.
        let kinds =
            TWO.replace(r#""nominal":8,"borrow":4"#, r#""sku":"h100","nominal":8,"borrow":4"#);
        assert_eq!(
            idle(&kinds),
            [format!("quota a: `borrow: 4` of SKU h100 has no effect: {none}")]
        );
        // Any number is as good as none said, and 0 is what it says.
        for borrow in ["", r#","borrow":0"#] {
            assert_eq!(idle(&alone.replace(r#","borrow":8"#, borrow)), Vec::<String>::new());
        }
    }

    /// The thread that decides for all makes it, and a report asks for each node with the state locked:
    /// where each node were compared with all others, this would not end.
    #[test]
    fn the_largest_tree_is_read_node_by_node() {
        let name = |tree: u32, depth: u32| format!("t{tree}d{depth}");
        let mut tree = Vec::new();
        // Children first, as no file should have them.
        for depth in (0..32).rev() {
            for n in 0..312 {
                let mut q = serde_json::json!({"name": name(n, depth)});
                match depth {
                    0 => q["gpus"] = serde_json::json!([{"nominal": 8}]),
                    _ => q["parent"] = name(n, depth - 1).into(),
                }
                if depth == 31 {
                    q["projects"] = serde_json::json!([format!("p{n}")]);
                }
                tree.push(q);
            }
        }
        let mut l = ledger(&serde_json::json!({ "tree": tree }).to_string());
        assert_eq!(l.nodes.len(), 32 * 312);
        l.charge(&p("p7"), "h100", T, 3000, true);
        for n in 0..312 {
            let held = if n == 7 { 3000 } else { 0 };
            for depth in 0..32 {
                let u = l.usage(&name(n, depth).parse().unwrap(), None, None).unwrap();
                let owned = if depth == 0 { 8000 } else { 0 };
                assert_eq!((u.owned, u.used, u.left), (owned, held, 8000 - held), "{n} {depth}");
            }
            let project = p(&format!("p{n}"));
            assert!(l.check(&project, "h100", T, 8000 - held).is_ok());
            assert!(l.check(&project, "h100", T, 8001 - held).is_err());
        }
        let no = |name: &str, sku: Option<&str>| l.usage(&name.parse().unwrap(), sku, None);
        assert_eq!((no("t0d0", Some("h100")), no("elsewhere", None)), (None, None));
    }

    #[test]
    fn a_kind_that_nobody_speaks_of_is_not_limited() {
        let l = ledger(
            r#"{"tree":[{"name":"a","projects":["pa"],"gpus":[{"sku":"h100","nominal":1}]}]}"#,
        );
        assert!(l.check(&p("pa"), "a100", T, 99_000).is_ok());
        let short = l.check(&p("pa"), "h100", T, 2000).unwrap_err();
        assert_eq!(short.left, 1000);
        assert!(l.emptied().check(&p("pa"), "h100", T, 2000).is_err());
        assert!(l.check_unused(&p("pa"), "h100", T, 2000).is_err());
        assert!(l.check(&p("elsewhere"), "h100", T, 99_000).is_ok());
    }

    #[test]
    fn trees_may_be_deep() {
        let mut l = ledger(
            r#"{"tree":[{"name":"co"},{"name":"dep","parent":"co","gpus":[{"nominal":4}]},
            {"name":"t1","parent":"dep","projects":["p1"],"gpus":[{"nominal":4,"borrow":0}]},
            {"name":"t2","parent":"dep","projects":["p2"]},
            {"name":"far","parent":"co","projects":["p3"],"gpus":[{"nominal":4}]}]}"#,
        );
        assert!(l.check(&p("p1"), "x", T, 5000).is_err());
        assert!(l.check(&p("p2"), "x", T, 12_000).is_ok(), "owns nothing, borrows all");
        l.charge(&p("p2"), "x", T, 12_000, true);
        let far = l.find_entitled_quota(&p("p3"), "x", T, 4000).unwrap();
        assert!(l.borrows_from(&p("p2"), far, "x", T));
    }
}
