//! `muster node mig`: how a GPU would be cut into slices.

use clap::Args;
use muster_api::{MigPlan, MigQuery};
use muster_model::units::Time;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::{Fail, REFUSED};
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::time::relative;
use muster_terminal::{output, pick};

/// Show how a GPU would be cut into MIG slices, and who would have to leave
#[derive(Debug, Args)]
pub(super) struct Mig {
    /// The node
    node: String,
    /// The GPU's index
    #[arg(long)]
    gpu: u32,
    /// Slices that are to be there, such as 3g.71gb,3g.71gb
    #[arg(long, value_delimiter = ',', required = true, value_name = "PROFILE")]
    profiles: Vec<String>,
    /// Cut it (not in this version)
    #[arg(long, hide = true)]
    apply: bool,
}

impl Mig {
    pub(super) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        if self.apply {
            return Err(Fail::new(REFUSED, "this version plans how to cut a GPU, and cuts none")
                .hint("drain the node and cut it with `nvidia-smi mig` as the plan says, or start its agent with --allow-mig: it then cuts what jobs are given"));
        }
        let client = ctx.client()?;
        let query = MigQuery { gpu: self.gpu, profiles: self.profiles.join(",") };
        let plan = match client.mig_plan(&self.node, &query).await {
            Ok(plan) => plan,
            Err(e) => return Err(pick::with_node_hint(&client, &self.node, e).await),
        };
        ctx.show(&plan, |p| text(p, now()))?;
        Ok(0)
    }
}

fn text(plan: &MigPlan, now: Time) -> String {
    let mut out = format!("node {}, GPU {}: nothing is changed by this\n", plan.node, plan.gpu);
    if let Some(on) = plan.switch {
        out += &format!("MIG is turned {} first\n", if on { "on" } else { "off" });
    }
    let mut table = Table::new(&["SLICE", "PROFILE", "FROM", "UUID"]);
    for (word, slices) in [("stays", &plan.keep), ("goes", &plan.destroy), ("comes", &plan.create)]
    {
        for s in slices {
            let uuid = s.uuid.as_deref().unwrap_or_default();
            table.row(vec![cell(word), cell(&s.profile), number(s.start), cell(uuid)]);
        }
    }
    out += &table.render();
    if plan.leave.is_empty() {
        return out + "nobody has to leave\n";
    }
    let mut table = Table::new(&["LEAVES", "NAME", "PROJECT", "GPUS", "SAVED", "LOST GPU-S"]);
    for l in &plan.leave {
        table.row(vec![
            cell(&l.job),
            cell(&l.name),
            cell(&l.project),
            number(output::gpus(l.gpus_milli)),
            cell(relative(now, l.since)),
            number(l.lost_gpu_seconds),
        ]);
    }
    out += &table.render();
    out + &format!("{} GPU-seconds would be lost\n", plan.lost_gpu_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::{Kind, MigLeaver, MigPlanSlice};

    #[test]
    fn a_plan_says_what_goes_what_comes_and_what_it_costs() {
        let slice =
            |profile: &str, start| MigPlanSlice { profile: profile.into(), start, uuid: None };
        let mut plan = MigPlan {
            kind: Kind::MigPlan,
            node: "n1".into(),
            gpu: 3,
            switch: None,
            keep: vec![slice("3g.71gb", 4)],
            destroy: vec![slice("1g.18gb", 0)],
            create: vec![slice("3g.71gb", 0)],
            leave: Vec::new(),
            lost_gpu_seconds: 0,
        };
        assert!(text(&plan, Time(0)).contains("nobody has to leave"));
        plan.leave.push(MigLeaver {
            job: "42".into(),
            name: "train".into(),
            project: "default".into(),
            gpus_milli: 125,
            since: Time(0).into(),
            lost_gpu_seconds: 75,
        });
        plan.lost_gpu_seconds = 75;
        let shown = text(&plan, Time(600_000));
        for part in ["stays", "goes", "comes", "0.125", "10m ago", "75 GPU-seconds would be lost"] {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
    }
}
