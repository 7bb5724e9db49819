//! `muster agent inventory`: what this machine's GPUs are.

use super::gpus::{Gpus, hostname};
use clap::Args;
use muster_gpu::device::DeviceError;
use muster_model::node::Gpu;
use muster_monitor::Described;
use muster_monitor::check::{DeviceSilence, GpuObservation};
use muster_monitor::gather::Gather;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::{self, table};
use std::time::Duration;
use table::{Table, cell, number};

/// Show everything that this machine's GPUs report; needs no server
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  muster agent inventory\n  muster agent inventory -o json")]
pub(crate) struct Inventory {
    #[command(flatten)]
    gpus: Gpus,
}

impl Inventory {
    pub(crate) fn run(&self, ctx: &Ctx) -> Result<u8, Fail> {
        let mut gather = Gather::new(hostname());
        gather.during = Duration::ZERO;
        gather.host = false;
        let opened = self.gpus.prepare()?;
        let look = gather.observe_node(now(), opened.opener());
        let mut all = Described {
            driver: look.driver,
            versions: look.versions,
            no_driver: look.no_driver.as_ref().map(ToString::to_string),
            ..Described::default()
        };
        for g in look.gpus {
            match g {
                GpuObservation { gpu: Some(gpu), bus, .. } => {
                    if let (Some(generation), Some(width)) = (bus.pcie_gen, bus.pcie_width) {
                        all.bus_now.insert(gpu.index, (generation, width));
                    }
                    all.gpus.push(gpu);
                }
                GpuObservation { index, error, .. } => {
                    let why = match error {
                        Some(DeviceSilence::Lost) => "it is gone from the bus".into(),
                        Some(DeviceSilence::Hung) => "a call to it does not return".into(),
                        Some(DeviceSilence::Other(why)) => why,
                        None => "it does not say what it is".into(),
                    };
                    all.silent.push((index, why));
                }
            }
        }
        ctx.show(&all, render)?;
        Ok(match look.no_driver {
            None | Some(DeviceError::NoDriver(_)) if all.silent.is_empty() => 0,
            _ => 21,
        })
    }
}

fn render(d: &Described) -> String {
    let mut out = String::new();
    match &d.no_driver {
        Some(why) => out += &format!("no GPU: {why}\n"),
        None if d.gpus.is_empty() && d.silent.is_empty() => out += "the driver has no GPU\n",
        None => {
            let versions: Vec<String> =
                d.versions.iter().map(|(k, v)| format!("{k} {v}")).collect();
            out += &format!("{}: {}\n\n", d.driver, versions.join(", "));
            let mut t = Table::new(&[
                "GPU", "SKU", "MEMORY", "PCI", "BUS", "LINKS", "POWER", "ECC", "MIG", "VBIOS",
                "SERIAL", "UUID",
            ]);
            for g in &d.gpus {
                t.row(row(g, d.bus_now.get(&g.index)));
            }
            out += &t.render();
        }
    }
    for (index, why) in &d.silent {
        out += &format!("GPU {index}: {why}\n");
    }
    out
}

fn row(g: &Gpu, now: Option<&(u32, u32)>) -> Vec<table::Cell> {
    let none = || "-".to_string();
    let facts = g.facts.as_deref();
    let most = facts.and_then(|f| Some((f.pcie_gen?, f.pcie_width?)));
    let words = |(generation, width): (u32, u32)| format!("gen{generation} x{width}");
    let bus = match (now.copied(), most) {
        (Some(now), Some(most)) if now != most => {
            Some(format!("{} of {}", words(now), words(most)))
        }
        (now, most) => now.or(most).map(words),
    };
    let links = facts
        .filter(|f| !f.links.is_empty())
        .map(|f| format!("{}/{}", f.links.iter().filter(|l| l.active).count(), f.links.len()));
    let power = facts.and_then(|f| Some(format!("{}W", f.power_limit?)));
    let on = |v: Option<bool>| v.map_or_else(none, |v| if v { "on" } else { "off" }.to_string());
    vec![
        number(g.index),
        cell(&g.sku),
        number(output::size(g.memory)),
        cell(g.pci.clone().unwrap_or_else(none)),
        cell(bus.unwrap_or_else(none)),
        number(links.unwrap_or_else(none)),
        number(power.unwrap_or_else(none)),
        cell(on(facts.and_then(|f| f.ecc))),
        cell(on(g.mig)),
        cell(facts.and_then(|f| f.vbios.clone()).unwrap_or_else(none)),
        cell(g.serial.clone().unwrap_or_else(none)),
        cell(&g.uuid),
    ]
}
