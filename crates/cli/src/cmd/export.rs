//! `muster export`.

use clap::{Args, Subcommand};
use muster_export::{dashboards, rules};
use muster_terminal::fail::Fail;
use muster_terminal::output;
use std::path::{Path, PathBuf};

/// Make rules for Prometheus and dashboards for Grafana
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster export prometheus-rules > muster-rules.yaml\n  muster export prometheus-rules --slos\n  \
muster export grafana --out dashboards/\n\n\
docs/metrics.md says how they are used. No server is needed."
)]
pub(crate) struct Export {
    #[command(subcommand)]
    what: ExportTarget,
}

#[derive(Debug, Subcommand)]
enum ExportTarget {
    /// Recording and alerting rules
    PrometheusRules {
        /// Also the SLOs that come with Muster, as burn-rate alerts
        #[arg(long)]
        slos: bool,
        /// Into this file instead of stdout
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Four dashboards: executive, on-call, debug and tenant
    Grafana {
        /// One file for each, into this directory; all in one JSON list on stdout when not given
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

impl Export {
    pub(crate) fn run(self) -> Result<u8, Fail> {
        match self.what {
            ExportTarget::PrometheusRules { slos, out } => {
                let mut groups = rules::platform();
                if slos {
                    groups.extend(rules::objectives(&muster_slo::defaults::set(1)));
                }
                let text = rules::file(&groups);
                match out {
                    Some(path) => write(&path, &text)?,
                    None => output::print(&text)?,
                }
            }
            ExportTarget::Grafana { out } => grafana(out.as_deref())?,
        }
        Ok(0)
    }
}

fn write(path: &Path, text: &str) -> Result<(), Fail> {
    std::fs::write(path, text)
        .map_err(|e| Fail::failed(format!("cannot write {}: {e}", path.display())))?;
    output::note(&format!("wrote {}", path.display()));
    Ok(())
}

fn grafana(out: Option<&Path>) -> Result<(), Fail> {
    let pretty = |v: &serde_json::Value| {
        serde_json::to_string_pretty(v)
            .map(|t| format!("{t}\n"))
            .map_err(|e| Fail::failed(e.to_string()))
    };
    let all = dashboards::all();
    let Some(dir) = out else {
        return output::print(&pretty(&all.iter().map(|d| d.json()).collect())?);
    };
    std::fs::create_dir_all(dir)
        .map_err(|e| Fail::failed(format!("cannot make {}: {e}", dir.display())))?;
    for d in &all {
        write(&dir.join(format!("muster-{}.json", d.name)), &pretty(&d.json())?)?;
    }
    Ok(())
}
