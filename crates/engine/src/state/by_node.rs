//! Something for each node, found by the node's name. A gang of thousands reports one node at a
//! time, and in an ordered map each look compares a dozen long names that begin alike.

use muster_model::names::NodeName;

/// Places in the table at first; always a power of two.
const FIRST_PLACES: usize = 16;

/// Values by the names of nodes. It cannot be walked: the order in which names came would show. A
/// name once put in stays, with an empty value when there is nothing any more: nodes stay known too.
#[derive(Debug, Clone)]
pub(crate) struct ByNode<T> {
    entries: Vec<(NodeName, T)>,
    /// Where the search for a name begins and goes on until it is found or a place is free: one
    /// more than the number of its entry, 0 where free. At most half of the places are taken.
    places: Vec<u32>,
}

impl<T> Default for ByNode<T> {
    fn default() -> ByNode<T> {
        ByNode { entries: Vec::new(), places: Vec::new() }
    }
}

impl<T: Default> ByNode<T> {
    /// What is known for a node.
    pub(crate) fn get(&self, name: &NodeName) -> Option<&T> {
        self.find(name).and_then(|i| self.entries.get(i)).map(|(_, value)| value)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, name: &NodeName) -> Option<&mut T> {
        let i = self.find(name)?;
        self.entries.get_mut(i).map(|(_, value)| value)
    }

    /// What is known for a node; an empty value is put in where there is none.
    pub(crate) fn or_default(&mut self, name: &NodeName) -> &mut T {
        let i = self.find(name).unwrap_or_else(|| self.insert(name));
        &mut self.entries[i].1
    }

    fn insert(&mut self, name: &NodeName) -> usize {
        let i = self.entries.len();
        self.entries.push((name.clone(), T::default()));
        if self.entries.len() * 2 > self.places.len() {
            let places = FIRST_PLACES.max(self.places.len() * 2);
            self.places.clear();
            self.places.resize(places, 0);
            for n in 0..=i {
                self.settle(n);
            }
        } else {
            self.settle(i);
        }
        i
    }

    /// Gives an entry the first free place from where its search begins.
    fn settle(&mut self, i: usize) {
        let Some((name, _)) = self.entries.get(i) else { return };
        let mut at = self.start(name);
        while self.places[at] != 0 {
            at = self.after(at);
        }
        self.places[at] = u32::try_from(i + 1).unwrap_or(u32::MAX);
    }

    fn find(&self, name: &NodeName) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.start(name);
        loop {
            let i = (self.places[at] as usize).checked_sub(1)?;
            if self.entries.get(i).is_some_and(|(n, _)| n == name) {
                return Some(i);
            }
            at = self.after(at);
        }
    }

    fn start(&self, name: &NodeName) -> usize {
        let last = self.places.len() as u64 - 1;
        usize::try_from(hash(name.as_str()) & last).unwrap_or(0)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }
}

/// Equal is what is known for the same nodes, whenever each was first named.
impl<T: Default + PartialEq> PartialEq for ByNode<T> {
    fn eq(&self, other: &ByNode<T>) -> bool {
        let empty = T::default();
        let within = |a: &ByNode<T>, b: &ByNode<T>| {
            a.entries.iter().all(|(n, value)| *value == empty || b.get(n) == Some(value))
        };
        within(self, other) && within(other, self)
    }
}

/// The same on every machine, although nothing that is stored depends on it.
fn hash(name: &str) -> u64 {
    let mut hash = name.len() as u64;
    for part in name.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = mix(hash ^ u64::from_le_bytes(word));
    }
    // Once more: names mostly differ in their last letters, which are the upper bits of a word.
    mix(hash)
}

/// A product's upper bits depend on all bits of the number, its lower ones on few.
fn mix(n: u64) -> u64 {
    let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n ^ (n >> 32)
}

#[cfg(test)]
mod tests {
    use super::ByNode;
    use muster_model::names::NodeName;

    fn name(n: usize) -> NodeName {
        format!("site-row7-rack{}-node{n:05}", n % 9).parse().unwrap()
    }

    #[test]
    fn every_name_is_found_again_and_no_other() {
        let mut all: ByNode<Vec<usize>> = ByNode::default();
        assert_eq!(all.get(&name(0)), None, "an empty one has nothing");
        for n in 0..5000 {
            assert_eq!(all.get_mut(&name(n)), None);
            all.or_default(&name(n)).push(n);
        }
        for n in 0..5000 {
            all.or_default(&name(n)).push(n);
            assert_eq!(all.get(&name(n)), Some(&vec![n, n]));
        }
        assert_eq!(all.get(&name(5000)), None);
    }

    #[test]
    fn names_that_come_in_another_order_and_empty_values_make_no_difference() {
        let mut a: ByNode<Vec<usize>> = ByNode::default();
        let mut b = a.clone();
        for n in 0..100 {
            a.or_default(&name(n)).push(n);
            b.or_default(&name(99 - n)).push(99 - n);
        }
        a.or_default(&name(100));
        assert_eq!(a, b);
        b.or_default(&name(101)).push(1);
        assert_ne!(a, b);
        a.or_default(&name(101)).push(2);
        assert_ne!(a, b);
    }
}
