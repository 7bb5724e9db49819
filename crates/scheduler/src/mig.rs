//! MIG: which slices a GPU can be cut into, and where each may begin.
//!
//! A GPU with MIG has seven compute slices and eight memory slices. A profile takes so many
//! memory slices in a row, and may only begin at certain ones (NVIDIA MIG user guide, tables
//! of supported profiles and placements).

/// A profile of a family of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Compute slices, of seven.
    pub compute: u8,
    /// Memory slices, of eight.
    pub memory: u8,
    /// Memory slices it may begin at.
    pub starts: &'static [u8],
}

/// Shapes by compute slices and memory slices. The gigabytes in a profile's name follow from the
/// memory of the SKU.
const SHAPES: [Profile; 6] = [
    Profile { compute: 1, memory: 1, starts: &[0, 1, 2, 3, 4, 5, 6] },
    Profile { compute: 1, memory: 2, starts: &[0, 2, 4, 6] },
    Profile { compute: 2, memory: 2, starts: &[0, 2, 4] },
    Profile { compute: 3, memory: 4, starts: &[0, 4] },
    Profile { compute: 4, memory: 4, starts: &[0] },
    Profile { compute: 7, memory: 8, starts: &[0] },
];

/// Gigabytes of one memory slice as they stand in the profiles' names.
fn slice_gb(sku: &str) -> Option<u32> {
    let table: [(&str, u32); 9] = [
        ("a100-40", 5),
        ("a100", 10),
        ("a30", 6),
        ("h100-94", 12),
        ("h100", 10),
        ("h200", 18),
        ("h20", 12),
        ("b200", 23),
        ("gb200", 23),
    ];
    table.iter().find(|(name, _)| sku.starts_with(name)).map(|(_, gb)| *gb)
}

/// Reads a profile such as `3g.40gb` for a SKU. None when that SKU has no such profile.
#[must_use]
pub fn profile(sku: &str, name: &str) -> Option<Profile> {
    let (g, rest) = name.split_once("g.")?;
    let compute: u8 = g.parse().ok()?;
    let gb: u32 = rest.strip_suffix("gb")?.parse().ok()?;
    let slice = slice_gb(sku)?;
    // Names round: eight slices of an H200 are 141 GB, one is called 18, four 71.
    SHAPES.iter().copied().find(|p| {
        p.compute == compute && gb.abs_diff(slice * u32::from(p.memory)) <= u32::from(p.memory)
    })
}

/// Every profile that the SKU has, by name.
#[must_use]
pub fn profiles(sku: &str) -> Vec<String> {
    slice_gb(sku).map_or_else(Vec::new, |s| {
        SHAPES.iter().map(|p| format!("{}g.{}gb", p.compute, s * u32::from(p.memory))).collect()
    })
}

/// What a slice is of its GPU, in thousandths: the larger of its part of the compute and its
/// part of the memory, since what is left over of the other is of no use to anybody.
#[must_use]
pub fn milli(p: Profile) -> u32 {
    (u32::from(p.compute) * 1000).div_ceil(7).max(u32::from(p.memory) * 1000 / 8)
}

fn mask(start: u8, size: u8) -> u8 {
    u8::try_from(((1u16 << size) - 1) << start).unwrap_or(u8::MAX)
}

/// Memory slices of a placement, as a mask.
#[must_use]
pub fn slices(start: u8, size: u8) -> u8 {
    mask(start, size)
}

/// Where a profile goes on a GPU whose memory slices in `used` are taken: the place after which
/// most can still be placed, the last one among equals (low positions suit the large profiles).
#[must_use]
pub fn place(used: u8, p: Profile) -> Option<u8> {
    p.starts
        .iter()
        .copied()
        .filter(|s| used & mask(*s, p.memory) == 0)
        .max_by_key(|s| (packing_value(used | mask(*s, p.memory)), *s))
}

/// What could still be placed on a GPU: for each shape the number of places, large ones weighing
/// more.
#[must_use]
pub fn packing_value(used: u8) -> u32 {
    SHAPES
        .iter()
        .map(|p| {
            let places = p.starts.iter().filter(|s| used & mask(**s, p.memory) == 0).count();
            u32::try_from(places).unwrap_or(0) * u32::from(p.memory) * u32::from(p.memory)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_follow_the_sku() {
        assert_eq!(profile("h100-sxm", "3g.40gb").map(|p| p.memory), Some(4));
        assert_eq!(profile("h200-sxm", "1g.18gb").map(|p| p.memory), Some(1));
        assert_eq!(profile("h200-sxm", "3g.71gb").map(|p| p.memory), Some(4));
        assert_eq!(profile("a100-40gb", "3g.20gb").map(|p| p.memory), Some(4));
        assert_eq!(profile("h100-sxm", "5g.40gb"), None);
        assert_eq!(profile("l40s", "1g.10gb"), None);
        assert!(profiles("h100-sxm").contains(&"7g.80gb".to_string()));
    }

    #[test]
    fn a_slice_begins_only_where_it_may() {
        let p3 = profile("h100-sxm", "3g.40gb").unwrap();
        let first = place(0, p3).unwrap();
        assert_eq!(first, 4, "the upper half, so that 4g still fits below");
        let second = place(mask(first, 4), p3).unwrap();
        assert_eq!(second, 0);
        assert_eq!(place(0xff, p3), None);
        // Slice 7 alone holds nothing: 1g.10gb may not begin there.
        let p1 = profile("h100-sxm", "1g.10gb").unwrap();
        assert_eq!(place(0x7f, p1), None);
    }

    #[test]
    fn seven_small_slices_fit_on_a_gpu() {
        let p1 = profile("h100-sxm", "1g.10gb").unwrap();
        let mut used = 0;
        for _ in 0..7 {
            used |= mask(place(used, p1).unwrap(), 1);
        }
        assert_eq!(place(used, p1), None);
    }

    #[test]
    fn a_share_is_the_larger_of_compute_and_memory() {
        assert_eq!(milli(profile("h100-sxm", "3g.40gb").unwrap()), 500);
        assert_eq!(milli(profile("h100-sxm", "1g.10gb").unwrap()), 143);
        assert_eq!(milli(profile("h100-sxm", "7g.80gb").unwrap()), 1000);
    }
}
