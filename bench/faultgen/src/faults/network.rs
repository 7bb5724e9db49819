//! Ports of the network.

use crate::fleet::node::PORTS;
use crate::fleet::{FaultFleet, Start};

fn port(w: &mut FaultFleet) -> Option<(usize, usize, String)> {
    let (node, _) = w.any_gpu()?;
    let port = w.rng.below(PORTS);
    let name = w.nodes[node].ports[port].name.clone();
    Some((node, port, name))
}

fn start(node: usize, name: String, length_s: f64) -> Start {
    Start { port: Some(name), ..Start::at(node, length_s) }
}

pub(super) fn port_down(w: &mut FaultFleet) -> Option<Start> {
    let (node, port, name) = port(w)?;
    w.nodes[node].ports[port].fx.down = true;
    Some(start(node, name, w.rng.range(240.0, 480.0)))
}

/// Up and down again and again.
pub(super) fn port_flap(w: &mut FaultFleet) -> Option<Start> {
    let (node, port, name) = port(w)?;
    let every = w.rng.scale(45.0, 160.0);
    w.nodes[node].ports[port].fx.flap_s = every;
    let times = w.rng.range(5.0, 8.0);
    Some(start(node, name, every * times).with("every_s", every))
}

/// Errors far beyond what coding corrects.
pub(super) fn symbols(w: &mut FaultFleet) -> Option<Start> {
    let (node, port, name) = port(w)?;
    let fx = &mut w.nodes[node].ports[port].fx;
    fx.symbols_s = w.rng.scale(0.5, 200.0);
    if w.rng.chance(0.4) {
        fx.recoveries_min = w.rng.scale(6.0, 60.0);
    }
    let rate = fx.symbols_s;
    Some(start(node, name, w.rng.range(420.0, 660.0)).with("per_s", rate))
}
