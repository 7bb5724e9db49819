//! The page as a whole.

use super::{ReportSheet, Run, bars, cdf, faults, line, map, table, tiles, words};
use crate::outcome::{History, Outcome};

/// Nodes with faults, in all runs together, up to which every cell and dot is described.
const TITLED: usize = 12_000;
/// Nodes from which the map takes the whole width.
const WIDE_MAP: u32 = 1_500;

/// Makes the report: one run in full, or several beside each other with each in full below.
/// `command` is what makes the same page again.
#[must_use]
pub fn page(runs: &[Run<'_>], command: &str) -> String {
    page_with(runs, command, None)
}

/// The same, with a table of what the runs say together in the place of their key figures.
#[must_use]
pub fn page_with(runs: &[Run<'_>], command: &str, sheet: Option<&ReportSheet>) -> String {
    let mut out = String::with_capacity(256 * 1024);
    put_head(&mut out, runs);
    let titles = runs.iter().map(|r| r.history.faults.len()).sum::<usize>() <= TITLED;
    match runs {
        [run] if sheet.is_none() => {
            put_header(&mut out, run);
            put_run(&mut out, run, titles);
        }
        [] => out.push_str("<header><h1>Nothing was run</h1></header>"),
        _ => put_several(&mut out, runs, titles, sheet),
    }
    put!(
        out,
        r#"<footer><p>To make this page again: <code>{}</code></p><p>Muster {}</p></footer></main><div id="tip" hidden></div><script>{}</script></body></html>"#,
        words::escape(command),
        env!("CARGO_PKG_VERSION"),
        include_str!("tip.js")
    );
    out.push('\n');
    out
}

fn put_head(out: &mut String, runs: &[Run<'_>]) {
    let title = runs.first().map_or("nothing", |r| r.outcome.scenario.as_str());
    put!(
        out,
        r#"<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><title>{} – Muster</title><style>{}</style></head><body>"#,
        words::escape(title),
        include_str!("style.css")
    );
    map::put_patterns(out);
    out.push_str("<main>");
}

/// Name, what it is, and the facts in one line.
fn put_header(out: &mut String, run: &Run<'_>) {
    put!(out, "<header><h1>{}</h1>", words::escape(&run.outcome.scenario));
    put_about(out, run.about);
    put_facts(out, run.outcome);
    out.push_str("</header>");
}

fn put_about(out: &mut String, about: &str) {
    if !about.trim().is_empty() {
        put!(out, "<p>{}</p>", words::escape(about.trim()));
    }
}

fn put_facts(out: &mut String, o: &Outcome) {
    let mut facts = vec![
        words::counted(u64::from(o.nodes), "node"),
        words::counted(o.gpus, "GPU"),
        words::counted(u64::from(o.spares), "spare"),
        words::counted(o.jobs, "job"),
        format!("{} long", words::span(o.makespan_s)),
        format!("seed {}", o.seed),
    ];
    if o.wall_s > 0.0 {
        facts.push(format!("simulated in {}", words::span(o.wall_s)));
    }
    if o.peak_rss_bytes > 0 {
        facts.push(format!("{} of memory", words::bytes(o.peak_rss_bytes)));
    }
    out.push_str(r#"<p class="facts">"#);
    for fact in facts {
        put!(out, "<span>{fact}</span>");
    }
    out.push_str("</p>");
}

fn put_several(out: &mut String, runs: &[Run<'_>], titles: bool, sheet: Option<&ReportSheet>) {
    let first = runs[0].outcome;
    let same = runs.iter().all(|r| r.outcome.scenario == first.scenario);
    let name = if same { words::escape(&first.scenario) } else { "Comparison".into() };
    match sheet {
        Some(sheet) => put!(out, "<header><h1>{name}: {}</h1>", words::escape(&sheet.title)),
        None => put!(out, "<header><h1>{name}: {} runs</h1>", runs.len()),
    }
    let same_about = runs.iter().all(|r| r.about == runs[0].about);
    if same_about {
        put_about(out, runs[0].about);
    }
    out.push_str("</header>");
    match sheet {
        Some(sheet) => section(out, "Key metrics", &words::escape(&sheet.note), |out| {
            table::put_sheet(out, sheet);
        }),
        None => section(out, "Key metrics", "", |out| tiles::put_comparison(out, runs)),
    }
    section(out, "Where the GPU time went", "", |out| {
        bars::put_legend(out);
        out.push_str(r#"<div class="rows">"#);
        for run in runs {
            put!(
                out,
                r#"<div class="row wide"><span class="name">{}</span>"#,
                words::escape(run.label)
            );
            bars::put_stack(out, &run.outcome.waterfall);
            out.push_str("</div>");
        }
        out.push_str("</div>");
    });
    for (i, run) in runs.iter().enumerate() {
        put!(
            out,
            "<details{}><summary>{}</summary>",
            if i == 0 { " open" } else { "" },
            words::escape(run.label)
        );
        if !same {
            put!(out, "<p>{}</p>", words::escape(&run.outcome.scenario));
        }
        if !same_about {
            put_about(out, run.about);
        }
        put_facts(out, run.outcome);
        put_run(out, run, titles);
        out.push_str("</details>");
    }
}

/// Everything about one run, below its header.
fn put_run(out: &mut String, run: &Run<'_>, titles: bool) {
    let (o, h) = (run.outcome, run.history);
    let length_s = length(o, h);
    tiles::put(out, o);
    section(out, "Over time", "", |out| line::put(out, h, length_s));
    section(
        out,
        "Where the GPU time went",
        "From all the GPU time there was down to the work that counts.",
        |out| bars::put_waterfall(out, &o.waterfall),
    );
    section(
        out,
        "Useful time by size of job",
        "ETTR: the useful share of the time in which jobs ran or waited.",
        |out| {
            if o.by_size.is_empty() {
                out.push_str(r#"<p class="dim">No job ran.</p>"#);
                return;
            }
            bars::put_sizes(out, &o.by_size);
            table::put_sizes(out, &o.by_size);
        },
    );
    section(out, "Waits", "Share of the jobs that had started after so long.", |out| {
        cdf::put(out, o, h);
    });
    section(out, "Where and when it failed", "", |out| {
        let class = if o.nodes >= WIDE_MAP { "pair stacked" } else { "pair" };
        put!(out, r#"<div class="{class}"><div>"#);
        map::put(out, o, h, titles);
        out.push_str("</div><div>");
        faults::put(out, h, length_s, titles);
        out.push_str("</div></div>");
    });
    section(
        out,
        "Failures by cause",
        "Faults happened to nodes; interruptions are those that stopped running work.",
        |out| {
            out.push_str(r#"<div class="narrow">"#);
            table::put_causes(out, o);
            out.push_str("</div>");
        },
    );
}

/// How long the axes of time are: as long as anything was seen.
fn length(o: &Outcome, h: &History) -> f64 {
    let seen = h
        .samples
        .iter()
        .map(|s| s.at_s)
        .chain(h.faults.iter().map(|f| f.at_s))
        .filter(|s| s.is_finite())
        .fold(0.0_f64, f64::max);
    if seen > 0.0 { seen } else { o.makespan_s }
}

fn section(out: &mut String, title: &str, note: &str, body: impl FnOnce(&mut String)) {
    put!(out, "<section><h2>{title}</h2>");
    if !note.is_empty() {
        put!(out, r#"<p class="dim">{note}</p>"#);
    }
    body(out);
    out.push_str("</section>");
}
