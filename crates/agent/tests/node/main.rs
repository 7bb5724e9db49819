//! Real processes, real control groups, a real socket. This executable is its own harness,
//! because it is also the supervisor that the tests start.

mod accounts;
mod attempts;
mod contained;
mod container;
mod containerd;
mod escape;
mod groups;
mod hooks;
mod huge;
mod isolation;
mod lease;
mod panics;
mod ranks;
mod server;
mod session;
mod strays;
mod support;
mod unhealthy;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

type Test = (&'static str, fn());

/// Names each test function of a module.
macro_rules! tests {
    ($module:ident: $($name:ident),+ $(,)?) => {
        vec![$((concat!(stringify!($module), "::", stringify!($name)), crate::$module::$name as fn())),+]
    };
}
pub(crate) use tests;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == muster_agent::shim::SHIM_ARG) {
        muster_agent::shim::main();
    }
    if let Some((first, rest)) = args.split_first()
        && first == lease::AGENT_ARG
    {
        lease::agent_main(rest);
    }
    if args.first().is_some_and(|a| a == attempts::ARG) {
        attempts::main(&args[1..]);
    }
    let filters: Vec<&String> = args.iter().filter(|a| !a.starts_with('-')).collect();
    let mut all: Vec<Test> = ranks::all();
    all.extend(groups::all());
    all.extend(isolation::all());
    all.extend(accounts::all());
    all.extend(escape::all());
    all.extend(container::all());
    all.extend(containerd::all());
    all.extend(contained::all());
    all.extend(session::all());
    all.extend(hooks::all());
    all.extend(unhealthy::all());
    all.extend(lease::all());
    all.extend(strays::all());
    all.extend(panics::all());
    all.extend(huge::all());
    if args.iter().any(|a| a == "--list") {
        // nextest asks a second time for what is ignored; nothing is.
        if args.iter().any(|a| a == "--ignored") {
            return;
        }
        all.iter().for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    let exact = args.iter().any(|a| a == "--exact");
    let asked = |name: &str, f: &str| if exact { name == f } else { name.contains(f) };
    all.retain(|(name, _)| filters.is_empty() || filters.iter().any(|f| asked(name, f)));
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((name, test)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let ok = catch_unwind(AssertUnwindSafe(test)).is_ok();
                    println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
                    if !ok {
                        failed.lock().unwrap().push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("\n{} run, {} failed {failed:?}", all.len(), failed.len());
    std::process::exit(i32::from(!failed.is_empty()));
}
