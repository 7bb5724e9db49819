use muster_model::policy::*;
use muster_sim::replay::*;
use muster_sim::traces::{self, *};
use std::path::Path;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let t = std::time::Instant::now();
    let dir = "/work/shared/traces/";
    match a[1].as_str() {
        "openb" => {
            let b = |p: String| std::fs::read(format!("{dir}{p}")).unwrap();
            let nodes = traces::openb::nodes(
                "n",
                &b("fgd-openb/csv/openb_node_list_gpu_node.csv".into()),
                OnBadRow::Stop,
            )
            .unwrap()
            .items;
            let pods = traces::openb::pods(
                "p",
                &b(format!("fgd-openb/csv/openb_pod_list_{}.csv.gz", a[2])),
                OnBadRow::Stop,
            )
            .unwrap()
            .items;
            let mix = Mix::new(&pods);
            let orders = traces::openb::orders(
                "o",
                &b(format!("fgd-openb/arrival_orders/{}.csv.gz", a[2])),
                OnBadRow::Stop,
                mix.rows(),
            )
            .unwrap()
            .items;
            let r = seeds(&nodes, &mix, &orders, a[3].parse().unwrap()).unwrap();
            println!(
                "{} {} {} {}",
                r.gpu_allocation_ratio,
                r.fragmentation,
                r.log_digest,
                serde_json::to_string(
                    &r.runs.iter().map(|r| r.gpu_allocation_ratio).collect::<Vec<_>>()
                )
                .unwrap()
            );
        }
        f => {
            let file = a[2].clone();
            let bytes = std::fs::read(&file).unwrap();
            let reader = match f {
                "swf" => traces::swf::jobs,
                "philly" => traces::philly::jobs,
                _ => traces::gavel::jobs,
            };
            let mut jobs = reader("f", &bytes, OnBadRow::Stop).unwrap().items;
            if f == "gavel" {
                jobs = timed(jobs).0;
            }
            let jobs = prepared(jobs, (f == "swf").then_some(100));
            let fleet = machine(&a[3]).unwrap();
            let mut p = SitePolicy::default();
            match a[4].as_str() {
                "easy" => {
                    p.fair_share.enabled = false;
                    p.backfill.mode = BackfillMode::Easy;
                    p.backfill.predict = false;
                }
                "aggressive" => {
                    p.fair_share.enabled = false;
                    p.backfill.mode = BackfillMode::Aggressive;
                }
                "nofair" => {
                    p.fair_share.enabled = false;
                }
                _ => {}
            }
            let (mut r, _) = live("x", &jobs, fleet, &p, Path::new("."), |_| {}).unwrap();
            r.outcome.by_size.clear();
            println!("{}", serde_json::to_string_pretty(&r).unwrap());
        }
    }
    eprintln!("{:?}", t.elapsed());
}
