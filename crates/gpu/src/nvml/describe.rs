//! What a device is made of and set to.

use super::code::{Code, error};
use super::fields::LINKS;
use super::mig;
use super::raw::{Api, Handle};
use crate::device::DeviceError;
use crate::sku::sku;
use muster_model::node::{Gpu, GpuFacts, GpuLink};
use muster_model::units::Bytes;
use nvml_wrapper::Device;

/// Words of a mask of processors that are asked for: 4,096 processors.
const MASK_WORDS: usize = 64;

pub(super) fn gpu(api: &Api, h: Handle, index: u32) -> Result<Gpu, DeviceError> {
    let d = api.device(h);
    let fail = |e| error(&e);
    let name = d.name().map_err(fail)?;
    let memory = api
        .memory(h)
        .map(|m| m.total)
        .or_else(|code| if code.lost() { Err(code) } else { api.memory_old(h).map(|m| m.total) });
    let memory = memory.map_err(Code::error)?;
    Ok(Gpu {
        index,
        sku: sku(&name),
        uuid: d.uuid().map_err(fail)?,
        serial: d.serial().ok(),
        memory: Bytes(memory),
        pci: d.pci_info().ok().map(|p| p.bus_id),
        numa: d.numa_node_id().ok(),
        mig: d.mig_mode().ok().map(|m| m.current != 0),
        facts: Some(Box::new(facts(api, h, &d, name))),
    })
}

fn facts(api: &Api, h: Handle, d: &Device<'_>, product: String) -> GpuFacts {
    let watts = |mw: u32| mw / 1000;
    let fabric = api.fabric(h).ok().flatten();
    let mig_profiles = mig::profiles(api, h);
    let mig_slices = mig::slices(api, h, &mig_profiles);
    GpuFacts {
        product: Some(product),
        part: d.board_part_number().ok().filter(|p| !p.is_empty()),
        vbios: d.vbios_version().ok(),
        inforom: d.info_rom_image_version().ok(),
        compute: d.cuda_compute_capability().ok().map(|c| format!("{}.{}", c.major, c.minor)),
        bar1: d.bar1_memory_info().ok().map(|m| Bytes(m.total)),
        pcie_gen: d.max_pcie_link_gen().ok(),
        pcie_width: d.max_pcie_link_width().ok(),
        cpus: d.cpu_affinity(MASK_WORDS).ok().and_then(|mask| cpu_list(&mask)),
        links: links(d),
        fabric: fabric.map(|(id, _)| uuid(id)),
        clique: fabric.map(|(_, clique)| clique),
        module: api.module(h).ok(),
        ecc: d.is_ecc_enabled().ok().map(|e| e.currently_enabled),
        persistence: d.is_in_persistent_mode().ok(),
        power_limit: d.enforced_power_limit().ok().map(watts),
        power_range: d
            .power_management_limit_constraints()
            .ok()
            .map(|c| (watts(c.min_limit), watts(c.max_limit))),
        mig_profiles,
        mig_slices,
    }
}

fn links(d: &Device<'_>) -> Vec<GpuLink> {
    let one = |link: u32| {
        let l = d.link_wrapper_for(link);
        let active = l.is_active().ok()?;
        let peer = l.remote_pci_info().ok().map(|p| p.bus_id).filter(|p| active && !p.is_empty());
        Some(GpuLink { link, active, peer })
    };
    (0..LINKS).filter_map(one).collect()
}

/// A mask of processors as a list such as `0-15,32-47`.
fn cpu_list(mask: &[std::os::raw::c_ulong]) -> Option<String> {
    let bits = std::os::raw::c_ulong::BITS as usize;
    let set = |cpu: usize| mask.get(cpu / bits).is_some_and(|word| (word >> (cpu % bits)) & 1 == 1);
    let mut out = String::new();
    let mut cpu = 0;
    while cpu < mask.len() * bits {
        if !set(cpu) {
            cpu += 1;
            continue;
        }
        let first = cpu;
        while set(cpu + 1) {
            cpu += 1;
        }
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(&if first == cpu { format!("{cpu}") } else { format!("{first}-{cpu}") });
        cpu += 1;
    }
    (!out.is_empty()).then_some(out)
}

fn uuid(id: [u8; 16]) -> String {
    let mut out = String::new();
    for (i, byte) in id.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{byte:02x}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{cpu_list, uuid};

    #[test]
    fn processors_are_written_as_ranges() {
        assert_eq!(cpu_list(&[0xffff, 0]), Some("0-15".into()));
        assert_eq!(cpu_list(&[1 << 63 | 5, 1]), Some("0,2,63-64".into()));
        assert_eq!(cpu_list(&[0, 0]), None);
    }

    #[test]
    fn a_fabric_has_its_id_in_the_usual_form() {
        let id = *b"0123456789abcdef";
        assert_eq!(uuid(id), "30313233-3435-3637-3839-616263646566");
    }
}
