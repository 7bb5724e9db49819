//! Rules for Prometheus and dashboards for Grafana, over the figures that servers and agents
//! report. Pure: text and JSON, nothing is fetched or written here.

#![forbid(unsafe_code)]

pub mod dashboards;
pub mod grafana;
pub mod names;
pub mod rules;
