//! `muster power`.

use clap::{Args, ValueEnum};
use muster_api::{PowerBy, PowerInventory};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output::bar::part;
use muster_terminal::output::table::{Table, cell, number};

/// Show the power draw of nodes, racks or feeds, compared with their limits
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster power\n  muster power --by rack\n  muster power --by feed -o json\n\n\
GPUs are measured; what the rest of a node draws is what the policy plans for it."
)]
pub(crate) struct Power {
    /// Added up by
    #[arg(long, value_enum, default_value = "node")]
    by: By,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    Node,
    Rack,
    Feed,
}

impl Power {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let by = match self.by {
            By::Node => PowerBy::Node,
            By::Rack => PowerBy::Rack,
            By::Feed => PowerBy::Feed,
        };
        let all = ctx.client()?.power(by).await?;
        ctx.show(&all, render)?;
        Ok(0)
    }
}

fn kilowatts(watts: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let kw = watts as f64 / 1000.0;
    format!("{kw:.1} kW")
}

fn render(all: &PowerInventory) -> String {
    let budgets = all.items.iter().any(|p| p.budget_watts.is_some());
    let mut head = vec!["PLACE", "NODES", "GPUS", "MEASURED", "OF RATED", "", "HOSTS (PLAN)"];
    if budgets {
        head.push("BUDGET");
    }
    let mut table = Table::new(&head);
    for p in &all.items {
        let silent = p.gpus - p.gpus_measured.min(p.gpus);
        let measured = match p.gpu_watts {
            Some(w) if silent > 0 => format!("{} ({silent} no data)", kilowatts(w)),
            Some(w) => kilowatts(w),
            None if p.gpus == 0 => String::new(),
            None => "unknown".into(),
        };
        // Of the GPUs that are measured: a silent one may draw anything.
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let share = p.gpu_watts.map(|w| {
            let rated = p.gpu_watts_rated as f64 / f64::from(p.gpus.max(1));
            w as f64 / (rated * f64::from(p.gpus_measured)).max(1.0)
        });
        let mut row = vec![
            cell(&p.name),
            number(p.nodes),
            number(p.gpus),
            number(measured),
            cell(share.map_or_else(String::new, |s| part(s, 10))),
            number(kilowatts(p.gpu_watts_rated)),
            number(kilowatts(p.host_watts_planned)),
        ];
        if budgets {
            row.push(number(p.budget_watts.map_or_else(String::new, kilowatts)));
        }
        table.row(row);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::{DomainPower, Kind};

    #[test]
    fn what_is_drawn_is_compared_with_the_gpus_that_are_measured() {
        let place = |measured: u32, watts: u64| DomainPower {
            name: "r1".into(),
            nodes: 2,
            gpus: 16,
            gpus_measured: measured,
            gpu_watts: Some(watts),
            gpu_watts_rated: 11_200,
            host_watts_planned: 5000,
            budget_watts: None,
        };
        let text = |items| {
            let all = PowerInventory { kind: Kind::PowerInventory, by: PowerBy::Rack, items };
            render(&all)
        };
        let half = text(vec![place(8, 5600)]);
        assert!(half.contains("(8 no data)") && half.contains(&part(1.0, 10)), "{half}");
        let whole = text(vec![place(16, 5600)]);
        assert!(!whole.contains("no data") && whole.contains(&part(0.5, 10)), "{whole}");
        assert!(!whole.contains(&part(1.0, 10)), "{whole}");
    }
}
