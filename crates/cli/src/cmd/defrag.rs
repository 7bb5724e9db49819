//! `muster defrag`: moves that would let waiting gangs start.

use clap::Args;
use muster_api::DefragReport;
use muster_model::units::Span;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::time;

/// Show which moves of running work would let waiting gangs start; moves nothing
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster defrag\n  muster defrag -o json | jq '.proposals[0]'\n  \
muster policy    says whether the server makes such moves by itself"
)]
pub(crate) struct DefragCmd {}

impl DefragCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let report = ctx.client()?.defrag().await?;
        ctx.show(&report, text)?;
        if ctx.is_table() {
            output::note(&if report.enabled {
                format!(
                    "the policy lets the server make up to {} moves an hour by itself",
                    report.moves_per_hour
                )
            } else {
                "moving is off: nothing is moved unless the policy sets `defrag.enabled: true`"
                    .into()
            });
        }
        Ok(0)
    }
}

fn text(report: &DefragReport) -> String {
    if report.proposals.is_empty() {
        return "no move would let a waiting gang start\n".into();
    }
    let named = |id: &str, name: &Option<String>| match name {
        Some(n) => format!("{id} ({n})"),
        None => id.to_owned(),
    };
    let list = |names: &[String]| {
        muster_specs::hostlist::compress(names.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let hours = |s: u64| time::length(Span::secs(s));
    let mut text = String::new();
    for p in &report.proposals {
        text.push_str(&format!(
            "job {} could start now: gains {} of GPU time, costs {}\n",
            named(&p.gang, &p.gang_name),
            hours(p.gain_gpu_s),
            hours(p.cost_gpu_s)
        ));
        for m in &p.moves {
            text.push_str(&format!(
                "  move job {} from {} to {}\n",
                named(&m.job, &m.job_name),
                list(&m.from),
                list(&m.to)
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::{Kind, Move, MoveProposal};

    #[test]
    fn proposals_say_what_moves_where_and_what_it_is_worth() {
        let mut r = DefragReport {
            kind: Kind::Defrag,
            enabled: false,
            moves_per_hour: 8,
            proposals: Vec::new(),
        };
        assert!(text(&r).starts_with("no move"));
        r.proposals.push(MoveProposal {
            gang: "42".into(),
            gang_name: Some("train".into()),
            moves: vec![Move {
                job: "7".into(),
                job_name: None,
                from: vec!["n1".into(), "n2".into()],
                to: vec!["n5".into(), "n6".into()],
            }],
            cost_gpu_s: 600,
            gain_gpu_s: 7200,
        });
        assert_eq!(
            text(&r),
            "job 42 (train) could start now: gains 2h00m of GPU time, costs 10m00s\n  \
             move job 7 from n[1-2] to n[5-6]\n"
        );
    }
}
