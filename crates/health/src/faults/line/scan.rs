//! The cheap look: does a line hold any piece of what faults are written with?
//!
//! Each piece is three bytes. The line is walked two bytes at a time; a piece that begins at an
//! even place shows its first two bytes there, one that begins at an odd place its last two. Two
//! tables, one for each byte of a pair, hold a bit for every piece and parity: if both have a bit
//! in common, the third byte is compared. That is half a step for each byte of a boring line.

/// The driver of GPUs.
pub(super) const NVRM: u64 = 1 << 0;
/// `NVSwitches`.
pub(super) const SWITCH: u64 = 1 << 1;
/// PCIe, network cards.
pub(super) const DEVICE: u64 = 1 << 2;
/// Disks and file systems.
pub(super) const DISK: u64 = 1 << 3;
/// Processors, memory, the kernel.
pub(super) const HOST: u64 = 1 << 4;

/// The pieces: rare in other lines, and each part of every line that its reader knows.
const PIECES: [(&[u8; 3], u64); 24] = [
    (b"NVR", NVRM),   // NVRM:
    (b"SXi", SWITCH), // SXid
    (b"AER", DEVICE), // AER:
    (b"DPC", DEVICE), // DPC:
    (b"Bus", DEVICE), // PCIe Bus Error
    (b"x5_", DEVICE), // mlx5_core
    (b"T4-", DISK),   // EXT4-fs
    (b"XFS", DISK),   // XFS (
    (b"TRF", DISK),   // BTRFS
    (b"I/O", DISK),   // I/O error
    (b"vme", DISK),   // nvme
    (b"diu", DISK),   // critical medium error
    (b"/ra", DISK),   // md/raid
    (b"fs:", DISK),   // nfs: server
    (b"DAC", HOST),   // EDAC
    (b"dwa", HOST),   // [Hardware Error]
    (b"Kil", HOST),   // Killed process
    (b"INF", HOST),   // INFO: task
    (b"BUG", HOST),   // BUG: soft lockup
    (b"LOC", HOST),   // hard LOCKUP
    (b"Oop", HOST),   // Oops:
    (b"pan", HOST),   // Kernel panic
    (b"mpe", HOST),   // temperature above threshold
    (b"ccl", HOST),   // libnccl
];
/// `Memory failure` shares its readers with the pieces above, but none of their letters.
const LAST: (&[u8; 3], u64) = (b"y f", HOST);

const fn piece(k: usize) -> (&'static [u8; 3], u64) {
    if k < PIECES.len() { PIECES[k] } else { LAST }
}

const COUNT: usize = PIECES.len() + 1;

const fn tables() -> ([u64; 256], [u64; 256]) {
    let mut first = [0u64; 256];
    let mut second = [0u64; 256];
    let mut k = 0;
    while k < COUNT {
        let (bytes, _) = piece(k);
        // At an even place: bytes 0 and 1. At an odd one: bytes 1 and 2.
        first[bytes[0] as usize] |= 1 << k;
        second[bytes[1] as usize] |= 1 << k;
        first[bytes[1] as usize] |= 1 << (k + 32);
        second[bytes[2] as usize] |= 1 << (k + 32);
        k += 1;
    }
    (first, second)
}

static TABLES: ([u64; 256], [u64; 256]) = tables();

/// What a line may speak of; 0 for nearly all.
pub(super) fn anchors(body: &[u8]) -> u64 {
    let (first, second) = &TABLES;
    let mut found = 0;
    for (n, pair) in body.chunks_exact(2).enumerate() {
        let hits = first[usize::from(pair[0])] & second[usize::from(pair[1])];
        if hits != 0 {
            found |= confirmed(body, 2 * n, hits);
        }
    }
    found
}

#[cold]
fn confirmed(body: &[u8], at: usize, mut hits: u64) -> u64 {
    let mut found = 0;
    while hits != 0 {
        let bit = hits.trailing_zeros() as usize;
        hits &= hits - 1;
        let (k, odd) = if bit < 32 { (bit, false) } else { (bit - 32, true) };
        let (bytes, group) = piece(k);
        let same = if odd {
            at.checked_sub(1).and_then(|before| body.get(before)) == Some(&bytes[0])
        } else {
            body.get(at + 2) == Some(&bytes[2])
        };
        if same {
            found |= group;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_found_wherever_it_stands() {
        for k in 0..COUNT {
            let (bytes, group) = piece(k);
            for before in 0..5 {
                for after in 0..3 {
                    let mut line = vec![b'.'; before];
                    line.extend_from_slice(bytes);
                    line.extend(std::iter::repeat_n(b'.', after));
                    assert_eq!(anchors(&line), group, "{line:?}");
                }
            }
            for cut in 0..3 {
                assert_eq!(anchors(&bytes[..cut]), 0);
            }
        }
    }
}
