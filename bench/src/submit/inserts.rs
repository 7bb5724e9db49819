//! A bare insert loop on PostgreSQL, synced like ours: what a general database gives.

use super::{CLIENTS, PER_SECOND, Size};
use crate::Options;
use crate::report::Report;
use anyhow::{Context, Result, bail};
use postgres::{Client, NoTls};
use std::time::Instant;
use xtask::postgres::{Postgres, programs};

/// `submits` are our submissions per second with as many clients.
pub(super) fn measure(
    options: &Options,
    size: Size,
    submits: Option<&[f64]>,
    report: &mut Report,
) -> Result<()> {
    if programs().is_none() {
        if !options.install {
            eprintln!("PostgreSQL is not installed: no insert loop (--install installs it)");
            return Ok(());
        }
        xtask::install::apt(&["postgresql"])?;
    }
    let postgres = Postgres::start_in(&options.scratch(), true)?;
    let url = postgres.url();
    let mut client = Client::connect(&url, NoTls).context("cannot connect to PostgreSQL")?;
    client.batch_execute("create table jobs (id bigserial primary key, spec jsonb not null)")?;
    let version: String = client.query_one("show server_version", &[])?.get(0);
    let version = version.split_whitespace().next().unwrap_or_default().to_string();
    for (i, clients) in CLIENTS.into_iter().enumerate() {
        let case = format!("pg_insert_per_s_{clients}");
        if let Some(ours) = submits.and_then(|s| s.get(i)) {
            report.ours(&case, PER_SECOND, *ours);
        }
        let rate = insert(&url, clients, size)?;
        report.theirs(&case, PER_SECOND, &format!("PostgreSQL {version} inserts"), rate, true);
    }
    Ok(())
}

fn insert(url: &str, clients: usize, size: Size) -> Result<f64> {
    let spec = super::ours::job(true);
    let began = Instant::now();
    let until = began + size.load;
    let one = || -> Result<u64> {
        let mut client = Client::connect(url, NoTls).context("cannot connect to PostgreSQL")?;
        let insert = client.prepare("insert into jobs (spec) values ($1) returning id")?;
        let mut done = 0;
        while Instant::now() < until {
            let _: i64 = client.query_one(&insert, &[&spec])?.get(0);
            done += 1;
        }
        Ok(done)
    };
    let mut total = 0;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(one)).collect();
        for thread in threads {
            match thread.join() {
                Ok(done) => total += done?,
                Err(_) => bail!("a thread panicked"),
            }
        }
        Ok(())
    })?;
    Ok(total as f64 / began.elapsed().as_secs_f64())
}
