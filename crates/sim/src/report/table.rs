//! Tables: the first column is words, the others are figures.

use super::{ReportSheet, bars, words};
use crate::outcome::{Outcome, SizeClass};
use std::collections::BTreeSet;

/// A table being written. Cells are HTML: whoever makes one escapes the names in it.
pub(super) struct Table {
    html: String,
}

impl Table {
    /// Begins one.
    pub(super) fn new(heads: &[&str]) -> Table {
        let mut html = String::from(r#"<div class="scroll"><table><thead><tr>"#);
        for head in heads {
            put!(html, "<th>{head}</th>");
        }
        html.push_str("</tr></thead><tbody>");
        Table { html }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: &[String]) {
        self.put_row("", cells);
    }

    /// Adds a row that sums up the others.
    pub(super) fn sum(&mut self, cells: &[String]) {
        self.put_row(r#" class="sum""#, cells);
    }

    fn put_row(&mut self, class: &str, cells: &[String]) {
        put!(self.html, "<tr{class}>");
        for cell in cells {
            put!(self.html, "<td>{cell}</td>");
        }
        self.html.push_str("</tr>");
    }

    /// Writes it.
    pub(super) fn put(self, out: &mut String) {
        out.push_str(&self.html);
        out.push_str("</tbody></table></div>");
    }
}

/// What several runs say together.
pub(super) fn put_sheet(out: &mut String, sheet: &ReportSheet) {
    let heads: Vec<String> = sheet.heads.iter().map(|h| words::escape(h)).collect();
    let mut table = Table::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &sheet.rows {
        table.row(&row.iter().map(|c| words::escape(c)).collect::<Vec<_>>());
    }
    table.put(out);
}

/// Jobs by size.
pub(super) fn put_sizes(out: &mut String, sizes: &[SizeClass]) {
    let mut table = Table::new(&[
        "size",
        "jobs",
        "ETTR",
        "interruptions",
        "MTBI",
        "jobs interrupted",
        "time run",
        "wait p50",
        "wait p95",
    ]);
    for class in sizes {
        table.row(&[
            bars::gpus(class),
            words::count(class.jobs),
            words::percent(class.ettr),
            words::count(class.interruptions),
            class.mtbi_s.map_or(words::NONE.into(), words::span),
            words::percent(class.interrupted_share),
            words::span(class.running_s),
            words::span(class.wait_s.p50),
            words::span(class.wait_s.p95),
        ]);
    }
    table.put(out);
}

/// Faults and interruptions by cause, most first.
pub(super) fn put_causes(out: &mut String, outcome: &Outcome) {
    let names: BTreeSet<&String> = outcome.faults.keys().chain(outcome.failures.keys()).collect();
    let mut causes: Vec<(&String, u64, u64)> = names
        .into_iter()
        .map(|cause| {
            let of = |map: &std::collections::BTreeMap<String, u64>| map.get(cause).copied();
            (cause, of(&outcome.faults).unwrap_or(0), of(&outcome.failures).unwrap_or(0))
        })
        .collect();
    if causes.is_empty() {
        out.push_str(r#"<p class="dim">Nothing failed.</p>"#);
        return;
    }
    causes.sort_by_key(|(_, faults, hits)| std::cmp::Reverse((*hits, *faults)));
    let sum = |of: fn(&(&String, u64, u64)) -> u64| causes.iter().map(of).sum::<u64>();
    let (all_faults, all_hits) = (sum(|c| c.1), sum(|c| c.2));
    let mut table = Table::new(&["cause", "faults", "interruptions", "share"]);
    for (cause, faults, hits) in &causes {
        let share = if all_hits == 0 { 0.0 } else { *hits as f64 / all_hits as f64 };
        table.row(&[
            words::escape(cause),
            words::count(*faults),
            words::count(*hits),
            format!(
                r#"<span class="inbar"><i style="width:{:.1}%"></i></span><span class="share">{}</span>"#,
                share * 100.0,
                words::percent(share)
            ),
        ]);
    }
    table.sum(&["all".into(), words::count(all_faults), words::count(all_hits), String::new()]);
    table.put(out);
}
