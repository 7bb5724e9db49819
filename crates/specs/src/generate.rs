//! Fleets to try things on: realistic, and the same every time.

use muster_model::NodeName;
use muster_model::topology::{Location, Topology};
use std::collections::BTreeMap;

/// Nodes of eight GPUs that air can cool in one rack.
const HGX_RACK: u32 = 4;
/// Leaves (rail groups) under the same spines.
const LEAVES_PER_SPINE: u32 = 8;
/// Trays of an NVL72 rack, with four GPUs each.
const TRAYS: u32 = 18;

/// Most nodes that are generated.
pub const MAX_NODES: u32 = muster_model::spec::MAX_NODES;

/// A fleet of HGX nodes: `hgx-0001`, `hgx-0002`, … in racks of four on alternating power feeds.
/// A leaf is a rail group: each of its nodes has one NIC per GPU, all on switches of their own.
///
/// A rail group has 32 nodes, as such fleets are built. A small fleet gets smaller ones, so that
/// closeness matters there too: 8 nodes up to 32 in all, 16 up to 128. Sixteen nodes are thus two
/// leaves of two racks of four. Eight leaves make a spine group. More than [`MAX_NODES`] are cut.
#[must_use]
pub fn hgx(nodes: u32, gpus_per_node: u32) -> Topology {
    let nodes = nodes.min(MAX_NODES);
    let leaf_size = match nodes {
        0..=32 => 8,
        33..=128 => 16,
        _ => 32,
    };
    let rails: Vec<String> = (0..gpus_per_node.min(8)).map(|r| format!("rail{r}")).collect();
    let width = digits(nodes).max(4);
    let (racks, leaves) = (nodes.div_ceil(HGX_RACK), nodes.div_ceil(leaf_size));
    let spines = leaves.div_ceil(LEAVES_PER_SPINE);
    let (rack_width, leaf_width) = (digits(racks).max(2), digits(leaves).max(2));
    let spine_width = digits(spines);
    let place = |i: u32| {
        let (rack, leaf) = (i / HGX_RACK, i / leaf_size);
        let name = format!("hgx-{:0width$}", i + 1);
        let location = Location {
            region: "local".into(),
            cluster: "hgx".into(),
            spine: format!("spine{:0spine_width$}", leaf / LEAVES_PER_SPINE + 1),
            leaf: format!("leaf{:0leaf_width$}", leaf + 1),
            rack: format!("rack{:0rack_width$}", rack + 1),
            nvlink: name.clone(),
            feed: feed(rack),
            rails: rails.clone(),
        };
        (name, location)
    };
    collect((0..nodes).map(place))
}

/// A fleet of NVL72 racks: `nvl-r001-t01` to `-t18` are the trays of the first rack, with four
/// GPUs each, and the whole rack is one NVLink domain. Eight racks make a leaf, two up to eight racks
/// in all; eight leaves make a spine group. More than [`MAX_NODES`] trays are cut to whole racks.
#[must_use]
pub fn nvl72(racks: u32) -> Topology {
    let racks = racks.min(MAX_NODES / TRAYS);
    let leaf_size = if racks <= 8 { 2 } else { 8 };
    let leaves = racks.div_ceil(leaf_size);
    let (width, leaf_width) = (digits(racks).max(3), digits(leaves).max(2));
    let spine_width = digits(leaves.div_ceil(LEAVES_PER_SPINE));
    let rails: Vec<String> = (0..4).map(|r| format!("rail{r}")).collect();
    let place = |i: u32| {
        let (rack, tray) = (i / TRAYS, i % TRAYS);
        let leaf = rack / leaf_size;
        let rack_name = format!("nvl-r{:0width$}", rack + 1);
        let location = Location {
            region: "local".into(),
            cluster: "nvl72".into(),
            spine: format!("spine{:0spine_width$}", leaf / LEAVES_PER_SPINE + 1),
            leaf: format!("leaf{:0leaf_width$}", leaf + 1),
            nvlink: rack_name.clone(),
            feed: feed(rack),
            rails: rails.clone(),
            rack: rack_name.clone(),
        };
        (format!("{rack_name}-t{:02}", tray + 1), location)
    };
    collect((0..racks * TRAYS).map(place))
}

fn feed(rack: u32) -> String {
    if rack.is_multiple_of(2) { "A".into() } else { "B".into() }
}

fn digits(n: u32) -> usize {
    n.to_string().len()
}

fn collect(places: impl Iterator<Item = (String, Location)>) -> Topology {
    let named = places.filter_map(|(name, l)| Some((name.parse::<NodeName>().ok()?, l)));
    Topology { nodes: named.collect::<BTreeMap<_, _>>() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn distinct(t: &Topology, of: impl Fn(&Location) -> &str) -> usize {
        t.nodes.values().map(of).collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn sixteen_nodes_are_two_leaves_of_two_racks_of_four() {
        let t = hgx(16, 8);
        assert_eq!(t.nodes.len(), 16);
        assert_eq!((distinct(&t, |l| &l.leaf), distinct(&t, |l| &l.rack)), (2, 4));
        let first = &t.nodes["hgx-0001"];
        assert_eq!((first.feed.as_str(), first.rails.len()), ("A", 8));
        assert_eq!(t.nodes["hgx-0005"].feed, "B");
        assert_eq!(first.nvlink, "hgx-0001");
    }

    #[test]
    fn large_fleets_have_rail_groups_of_thirty_two() {
        let t = hgx(2048, 8);
        assert_eq!((distinct(&t, |l| &l.leaf), distinct(&t, |l| &l.spine)), (64, 8));
        assert_eq!(hgx(0, 8).nodes.len(), 0);
        assert_eq!(hgx(3, 0).nodes["hgx-0003"].rails.len(), 0);
        assert_eq!(hgx(12_500, 8).nodes.len(), 12_500);
    }

    #[test]
    fn an_nvl72_rack_is_one_nvlink_domain_of_eighteen_trays() {
        let t = nvl72(4);
        assert_eq!((t.nodes.len(), distinct(&t, |l| &l.nvlink)), (72, 4));
        assert_eq!(t.nodes["nvl-r004-t18"].nvlink, "nvl-r004");
        assert_eq!(distinct(&t, |l| &l.leaf), 2);
    }
}
