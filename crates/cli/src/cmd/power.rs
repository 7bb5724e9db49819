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
            Some(w) if silent > 0 => format!("{} ({silent} silent)", kilowatts(w)),
            Some(w) => kilowatts(w),
            None if p.gpus == 0 => String::new(),
            None => "unknown".into(),
        };
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let share = p.gpu_watts.map(|w| w as f64 / p.gpu_watts_rated.max(1) as f64);
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
