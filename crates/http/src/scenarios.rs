//! Scenarios of the simulator's library: the server simulates one of them as it does a what-if, one
//! at a time and not for long. They have nothing to do with the site.

use super::auth::{OperatorWriter, Reader};
use super::error::{Failure, Reply};
use super::extract::{JsonBody, Segment, shown};
use super::whatif::alone;
use super::{App, answer};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{RunScenario, Scenario, ScenarioList, ScenarioRun};
use muster_model::tenant::Role;
use muster_model::units::Span;
use muster_sim::{Options, SimError, library, scenario};
use std::path::Path;

/// The shortest run.
const SHORTEST: Span = Span::hours(1);

/// List the scenarios that the server can simulate.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/scenarios", tag = "scheduling",
    responses((status = 200, description = "All of them.", body = ScenarioList))))]
pub(crate) async fn list(State(app): State<App>, Reader(caller): Reader) -> Reply {
    caller.over_site(Role::Operator)?;
    let entry = |(name, s): (&str, scenario::Scenario)| Scenario {
        name: name.to_owned(),
        about: s.about,
        length: s.length,
        seed: s.seed,
    };
    let items = library::all().map(entry).collect();
    let list = ScenarioList { items, cursor: None };
    Ok(answer(&app, &caller, StatusCode::OK, app.brain().durable(), None, &list))
}

/// Simulate a scenario of the library, and report the result. Changes nothing.
///
/// The fleet, its work and its faults are those of the scenario, not of the site. It ends when the
/// caller hangs up, and is refused where it takes longer than 25 s. One is simulated at a time,
/// what-ifs included; who asks meanwhile is refused.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/scenarios/{name}/run", tag = "scheduling",
    params(("name" = String, Path, description = "Its name.")),
    request_body = RunScenario,
    responses((status = 200, description = "What it came to.", body = ScenarioRun))))]
pub(crate) async fn run(
    State(app): State<App>,
    OperatorWriter(writer): OperatorWriter,
    Segment(name): Segment,
    JsonBody { value, .. }: JsonBody<RunScenario>,
) -> Reply {
    let wanted = wanted(&name, &value)?;
    let (length, seed) = (wanted.length, wanted.seed);
    let report = alone(&app, too_long, move |clock| simulate(&wanted, clock)).await?;
    let run = ScenarioRun { name, length, seed, report };
    Ok(answer(&app, &writer.caller, StatusCode::OK, app.brain().durable(), None, &run))
}

fn wanted(name: &str, asked: &RunScenario) -> Reply<scenario::Scenario> {
    let mut s = library::find(name).ok_or_else(|| {
        Failure::not_found(format!("there is no scenario `{}`", shown(name)))
            .hint("GET /v1/scenarios lists them; `muster sim run FILE` simulates one of your own")
    })?;
    s.seed = asked.seed.map_or(s.seed, u64::from);
    let whole = s.length;
    if let Some(length) = asked.length {
        if !(SHORTEST..=whole).contains(&length) {
            let message = format!("{length}; give {SHORTEST} to {whole}");
            return Err(Failure::senseless(message).field("length"));
        }
        // It is right as a whole. What would begin after this end does not begin, as in any history that is
        // not over.
        s.length = length;
    }
    Ok(s)
}

/// Takes seconds.
fn simulate(s: &scenario::Scenario, clock: &dyn Fn() -> Option<f64>) -> Reply<serde_json::Value> {
    // It names no files.
    let nowhere = Path::new("");
    let goes_on = || clock().is_some();
    let (mut outcome, _) = muster_sim::run_while(s, nowhere, Options::default(), &goes_on, |_| {})
        .map_err(|e| match e {
            SimError::Stopped => too_long(),
            e => Failure::senseless(e.to_string()),
        })?;
    outcome.wall_s = clock().unwrap_or_default();
    serde_json::to_value(&outcome).map_err(|e| {
        tracing::error!(error = %e, "the report of a scenario cannot be written");
        Failure::internal()
    })
}

fn too_long() -> Failure {
    Failure::senseless("so much of this scenario cannot be simulated by the server in 25 s")
        .field("length")
        .hint(
            "simulate less of it; `muster sim run` takes as long as it needs, on your own machine",
        )
}
