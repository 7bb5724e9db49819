//! Every endpoint that the description lists, in one table.

use super::App;
use super::{
    admin, brand, causes, console, events, fabric, faults, fleet, health, jobs, logs, mig, nodes,
    period, policy, power, report, reservations, runbooks, scenarios, search, session, site, slo,
    telemetry, whatif,
};

/// Hands the table to a macro: the router is made from it, and so is the description.
macro_rules! endpoints {
    ($make:ident) => {
        $make! {
            get "/v1/jobs" => jobs::listing::list,
            post "/v1/jobs" => jobs::submit,
            get "/v1/jobs/{id}" => jobs::get,
            patch "/v1/jobs/{id}" => jobs::update,
            get "/v1/jobs/{id}/array" => jobs::array,
            post "/v1/jobs/{id}/cancel" => jobs::cancel,
            post "/v1/jobs/{id}/checkpoint" => jobs::checkpoint,
            get "/v1/jobs/{id}/explain" => jobs::explain,
            post "/v1/jobs/{id}/hold" => jobs::hold,
            get "/v1/jobs/{id}/logs" => logs::logs,
            post "/v1/jobs/{id}/release" => jobs::release,
            get "/v1/jobs/{id}/report" => report::report,
            post "/v1/jobs/{id}/requeue" => jobs::requeue,
            get "/v1/jobs/{id}/spec" => jobs::spec,
            get "/v1/jobs/{id}/telemetry" => telemetry::get,
            get "/v1/reports/fleet" => fleet::report,
            get "/v1/reports/period" => period::report,
            get "/v1/nodes" => nodes::list,
            get "/v1/nodes/{name}" => nodes::get,
            post "/v1/nodes/{name}/cancel-qualification" => nodes::cancel_qualification,
            post "/v1/nodes/{name}/cordon" => nodes::cordon,
            post "/v1/nodes/{name}/drain" => nodes::drain,
            post "/v1/nodes/{name}/exclude" => nodes::exclude,
            post "/v1/nodes/{name}/inject" => nodes::inject,
            post "/v1/nodes/{name}/mark" => nodes::mark,
            get "/v1/nodes/{name}/mig" => mig::plan,
            post "/v1/nodes/{name}/qualify" => nodes::qualify,
            post "/v1/nodes/{name}/reconcile" => nodes::reconcile,
            post "/v1/nodes/{name}/repaired" => nodes::repaired,
            post "/v1/nodes/{name}/retire" => nodes::retire,
            post "/v1/nodes/{name}/return" => nodes::return_untested,
            get "/v1/nodes/{name}/telemetry" => console::telemetry,
            get "/v1/nodes/{name}/timeline" => health::timeline::get,
            post "/v1/nodes/{name}/uncordon" => nodes::uncordon,
            post "/v1/nodes/{name}/undrain" => nodes::undrain,
            get "/v1/power" => power::power,
            get "/v1/metrics/history" => telemetry::history::get,
            get "/v1/metrics/history/metrics" => telemetry::history::metrics,
            get "/v1/faults" => faults::list,
            get "/v1/fabric/tests" => fabric::list,
            post "/v1/fabric/tests" => fabric::test,
            get "/v1/fabric/tests/{id}" => fabric::get,
            get "/v1/health" => health::summary::get,
            get "/v1/causes" => causes::list,
            get "/v1/findings" => health::findings::list,
            get "/v1/findings/{id}" => health::findings::get,
            post "/v1/findings/{id}/close" => health::findings::close,
            get "/v1/failure-modes" => health::findings::failure_modes,
            get "/v1/incidents" => health::incidents::list,
            get "/v1/incidents/{id}" => health::incidents::get,
            post "/v1/incidents/{id}/close" => health::record::close,
            post "/v1/incidents/{id}/note" => health::record::note,
            post "/v1/incidents/{id}/own" => health::record::own,
            get "/v1/incidents/{id}/record" => health::record::get,
            get "/v1/incidents/{id}/report" => health::record::report,
            get "/v1/breakers" => health::breakers::list,
            post "/v1/breakers/force" => health::breakers::force,
            get "/v1/remediations" => health::remediations::list,
            post "/v1/remediations/dry-run" => health::dry_run::dry_run,
            get "/v1/remediations/{id}" => health::remediations::get,
            post "/v1/remediations/{id}/approve" => health::remediations::approve,
            post "/v1/remediations/{id}/deny" => health::remediations::deny,
            post "/v1/remediations/{id}/undo" => health::remediations::undo,
            get "/v1/automation" => health::automation::get,
            post "/v1/automation/resume" => health::automation::resume,
            post "/v1/automation/stop" => health::automation::stop,
            get "/v1/runbooks" => runbooks::list,
            get "/v1/runbooks/{name}" => runbooks::get,
            put "/v1/runbooks/{name}" => runbooks::set,
            delete "/v1/runbooks/{name}" => runbooks::delete,
            post "/v1/runbooks/{name}/dry-run" => runbooks::dry_run,
            post "/v1/runbooks/{name}/run" => runbooks::start,
            get "/v1/runbook-runs" => runbooks::runs,
            get "/v1/runbook-runs/{id}" => runbooks::run,
            post "/v1/runbook-runs/{id}/answer" => runbooks::answer_step,
            post "/v1/runbook-runs/{id}/stop" => runbooks::stop,
            get "/v1/objectives" => slo::slos::objectives,
            put "/v1/objectives" => slo::slos::set_objectives,
            put "/v1/objectives/{name}" => slo::slos::set_objective,
            delete "/v1/objectives/{name}" => slo::slos::delete_objective,
            get "/v1/slos" => slo::slos::list,
            get "/v1/slos/{name}" => slo::slos::get,
            get "/v1/alerts" => slo::alerts::list,
            get "/v1/alerts/{id}" => slo::alerts::get,
            post "/v1/alerts/{id}/acknowledge" => slo::alerts::acknowledge,
            post "/v1/alerts/{id}/escalate" => slo::alerts::escalate,
            get "/v1/silences" => slo::silences::list,
            put "/v1/silences/{name}" => slo::silences::set,
            delete "/v1/silences/{name}" => slo::silences::end,
            get "/v1/routing" => slo::routing::get,
            put "/v1/routing" => slo::routing::set,
            get "/v1/receivers" => slo::routing::receivers,
            get "/v1/readiness" => slo::readiness::get,
            get "/v1/topology" => nodes::topology,
            put "/v1/topology" => nodes::set_topology,
            get "/v1/policy" => policy::policy,
            put "/v1/policy" => policy::set_policy,
            get "/v1/quotas" => policy::quotas,
            put "/v1/quotas" => policy::set_quotas,
            get "/v1/reservations" => reservations::list,
            get "/v1/reservations/{name}" => reservations::get,
            put "/v1/reservations/{name}" => reservations::set,
            delete "/v1/reservations/{name}" => reservations::delete,
            get "/v1/defrag" => reservations::defrag,
            post "/v1/whatif" => whatif::ask,
            get "/v1/scenarios" => scenarios::list,
            post "/v1/scenarios/{name}/run" => scenarios::run,
            get "/v1/events" => events::events,
            get "/v1/search" => search::search,
            get "/v1/search/output" => search::output::find,
            get "/v1/console/layout" => console::layout,
            get "/v1/projects" => admin::projects,
            post "/v1/projects" => admin::create_project,
            get "/v1/tokens" => admin::tokens,
            post "/v1/tokens" => admin::create_token,
            delete "/v1/tokens/{id}" => admin::revoke_token,
            get "/v1/secrets" => admin::secrets,
            put "/v1/secrets/{name}" => admin::set_secret,
            delete "/v1/secrets/{name}" => admin::delete_secret,
            get "/v1/brand" => brand::get,
            get "/v1/brand/logo" => brand::logo,
            post "/v1/session" => session::begin,
            delete "/v1/session" => session::end,
            get "/v1/whoami" => site::whoami,
            get "/v1/server" => site::server,
            get "/healthz" => site::healthz,
            get "/metrics" => site::metrics,
            get "/readyz" => site::readyz,
        }
    };
}

/// The endpoints as axum routes them.
pub(crate) fn router() -> axum::Router<App> {
    macro_rules! routed {
        ($($method:ident $path:literal => $($handler:ident)::+,)+) => {
            axum::Router::new()$(.route($path, axum::routing::$method($($handler)::+)))+
        };
    }
    endpoints!(routed)
}

/// The endpoints with what their handlers say about themselves.
#[cfg(feature = "openapi")]
pub(crate) fn described(
    document: utoipa::openapi::OpenApi,
) -> utoipa_axum::router::OpenApiRouter<App> {
    macro_rules! described {
        ($($method:ident $path:literal => $($handler:ident)::+,)+) => {
            utoipa_axum::router::OpenApiRouter::with_openapi(document)
                $(.routes(utoipa_axum::routes!($($handler)::+)))+
        };
    }
    endpoints!(described)
}

/// Method and path of every row of the table.
#[cfg(all(test, feature = "openapi"))]
pub(crate) fn listed() -> Vec<(&'static str, &'static str)> {
    macro_rules! listed {
        ($($method:ident $path:literal => $($handler:ident)::+,)+) => {
            vec![$((stringify!($method), $path)),+]
        };
    }
    endpoints!(listed)
}
