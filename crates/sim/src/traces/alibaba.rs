//! Two more of Alibaba's: the fabric of Lingjun (alibaba-lingjun-dataset-2023, Apache-2.0) and the
//! machines of cluster-trace-gpu-v2020 (CC-BY-4.0).

use super::error::{OnBadRow, Read, TraceError};
use super::input;
use super::job::TraceNode;
use super::table::{self, Cells, Layout};
use muster_model::names::NodeName;
use muster_model::topology::{Location, Topology};
use std::collections::BTreeSet;

/// Reads Lingjun's `ip,DSW,PSW,ASW`: where each host stands. A core switch (DSW) is the cluster, an
/// aggregation switch (PSW) the spine, a top-of-rack switch (ASW) the leaf; the file knows no
/// racks, so the leaf is the rack too. An address is a hash of 64 letters; the first 16 tell the
/// hosts apart.
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

/// The columns of `pai_machine_spec`, which has no head line.
const MACHINE: [&str; 5] = ["machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"];

/// Reads the machines of `pai_machine_spec.tar.gz`, or of the table inside it. A damaged archive is
/// an error whatever `on_bad` says.
pub fn machines(file: &str, bytes: &[u8], on_bad: OnBadRow) -> Result<Read<TraceNode>, TraceError> {
    let opened = input::open(bytes);
    let inside = match (is_archive(&opened.bytes), opened.cut) {
        (false, _) => bytes,
        (true, Some(cut)) => return Err(TraceError::new(file, cut)),
        (true, None) => first_file(&opened.bytes)
            .ok_or_else(|| TraceError::new(file, "the archive may be cut off"))?,
    };
    let layout = Layout { cells: Cells::Commas, fixed: Some(&MACHINE), need: &[], remark: None };
    table::read(file, inside, on_bad, &layout, |r| {
        let gpus = r.number("cap_gpu")?;
        let kind = r.text("gpu_type")?;
        let cpus: u32 = r.number("cap_cpu")?;
        let memory_gib: u64 = r.number("cap_mem")?;
        Ok(TraceNode {
            name: r.text("machine")?.into(),
            cpus_milli: cpus.checked_mul(1000).ok_or("`cap_cpu` is too large")?,
            memory_mib: memory_gib.checked_mul(1024).ok_or("`cap_mem` is too large")?,
            gpus,
            model: (gpus > 0).then(|| kind.to_lowercase()),
        })
    })
}

fn is_archive(bytes: &[u8]) -> bool {
    bytes.get(257..262).is_some_and(|magic| magic == b"ustar")
}

/// The first file of a tar archive: a head of 512 bytes with the size in octal digits at 124, then
/// its bytes (POSIX ustar).
fn first_file(archive: &[u8]) -> Option<&[u8]> {
    let size = std::str::from_utf8(archive.get(124..136)?).ok()?;
    let size = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8).ok()?;
    archive.get(512..512usize.checked_add(size)?)
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

    #[test]
    fn machines_out_of_an_archive() {
        let table = b"7399a758,CPU,96,512,0\n75c536d5,V100M32,96,384,8\n";
        let mut tar = vec![0u8; 512];
        tar[..8].copy_from_slice(b"spec.csv");
        tar[124..136].copy_from_slice(format!("{:011o}\0", table.len()).as_bytes());
        tar[257..262].copy_from_slice(b"ustar");
        tar.extend_from_slice(table);
        tar.resize(2048, 0);
        let packed = machines("m.tar.gz", &input::packed(&tar), OnBadRow::Stop).unwrap();
        assert_eq!(packed, machines("m.csv", table, OnBadRow::Stop).unwrap());
        let gz = input::packed(&tar);
        for bytes in [&tar[..540], &gz[..gz.len() - 9]] {
            machines("m.tar", bytes, OnBadRow::Skip).unwrap_err();
        }
        let [a, b] = &packed.items[..] else { panic!("{packed:?}") };
        assert_eq!((a.gpus, &a.model, a.cpus_milli), (0, &None, 96_000));
        assert_eq!((b.gpus, b.model.as_deref(), b.memory_mib), (8, Some("v100m32"), 393_216));
    }
}
