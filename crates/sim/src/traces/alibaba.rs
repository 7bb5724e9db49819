//! The fabric of Alibaba's Lingjun (alibaba-lingjun-dataset-2023, Apache-2.0).

use super::error::{OnBadRow, Read, TraceError};
use super::table::{self, Cells, Layout};
use muster_model::names::NodeName;
use muster_model::topology::{Location, Topology};
use std::collections::BTreeSet;

/// Reads Lingjun's `ip,DSW,PSW,ASW`: where each host stands. A core switch (DSW) is the cluster, an
/// aggregation switch (PSW) the spine, a top-of-rack switch (ASW) the leaf; the file knows no
/// racks, so the leaf is the rack too. An address is a hash of 64 letters; the first 16 distinguish
/// the hosts.
pub fn hosts(
    file: &str,
    bytes: &[u8],
    on_bad: OnBadRow,
) -> Result<Read<(NodeName, Location)>, TraceError> {
    let need = &["ip", "DSW", "PSW", "ASW"];
    let layout = Layout { cells: Cells::Commas, fixed: None, need, remark: None };
    let mut seen = BTreeSet::new();
    table::read(file, bytes, on_bad, &layout, |r| {
        let ip = r.text("ip")?;
        let hash = ip.len() == 64 && ip.bytes().all(|b| b.is_ascii_hexdigit());
        let name: NodeName = if hash { &ip[..16] } else { ip }
            .parse()
            .map_err(|e: muster_model::names::NameError| e.to_string())?;
        if !seen.insert(name.clone()) {
            return Err(format!("host {name} was in an earlier row"));
        }
        let spine = r.text("PSW")?.to_string();
        // An ASW's number is its own only under its PSW.
        let leaf = format!("{spine}-{}", r.text("ASW")?);
        let location = Location {
            region: "lingjun".into(),
            cluster: r.text("DSW")?.into(),
            spine,
            rack: leaf.clone(),
            leaf,
            nvlink: name.to_string(),
            feed: Location::no_feed(),
            rails: Vec::new(),
        };
        Ok((name, location))
    })
}

/// The tree of these hosts.
#[must_use]
pub fn topology(hosts: Vec<(NodeName, Location)>) -> Topology {
    Topology { nodes: hosts.into_iter().collect() }
}

#[cfg(test)]
pub(super) const HOSTS: &str = "\
ip,DSW,PSW,ASW
0c9d9de1b19e7f39b08f49ddfa26744ae26d3adf8bd59af1b16e203b6fa5fe4b,G6,P10,S14
525c32e31f7143b79af15f2bf2ec59f53aa1eae7ea72a4a1e41696912ef8cdda,G6,P12,S14
";

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::topology::Level;

    #[test]
    fn a_leaf_belongs_to_its_spine() {
        let tree = topology(hosts("topo.csv", HOSTS.as_bytes(), OnBadRow::Stop).unwrap().items);
        let paths: Vec<_> = tree.nodes.iter().map(|(n, l)| l.path(n, Level::Rack)).collect();
        assert_eq!(paths[0], ["lingjun", "G6", "P10", "P10-S14", "P10-S14"]);
        assert_eq!(paths[1], ["lingjun", "G6", "P12", "P12-S14", "P12-S14"]);
        let twice = format!("{HOSTS}525c32e31f7143b7,G6,P12,S3\n");
        let e = hosts("topo.csv", twice.as_bytes(), OnBadRow::Stop).unwrap_err().to_string();
        assert_eq!(e, "topo.csv: row 3 (line 4): host 525c32e31f7143b7 was in an earlier row");
    }
}
