//! A data directory that another process still holds, or goes on to use.

use crate::minutes::cluster::{Cluster, until};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;

#[test]
fn a_start_on_a_port_that_is_in_use_makes_no_data_directory() {
    let c = Cluster::server(&[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("an address").to_string();
    let (any, data) = ("127.0.0.1:0", c.data());
    for verb in [&["server"][..], &["up", "--no-context", "--no-local-node", "--nodes", "1"]] {
        for (api, link) in [(taken.as_str(), any), (any, taken.as_str())] {
            let at = ["--listen", api, "--link-listen", link, "--data-dir", &data];
            let mut start = c.command();
            start.env_remove("MUSTER_SERVER").env_remove("MUSTER_TOKEN").args(verb).args(at);
            let out = start.output().expect("the muster binary starts");
            let said = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(1), "{said}");
            assert!(said.contains(&format!("cannot listen on {taken}")), "{said}");
            assert!(!std::path::Path::new(&data).exists(), "nothing is left behind: {said}");
        }
    }
}

#[test]
fn a_start_waits_for_a_killed_server_and_is_refused_beside_one_that_goes_on() {
    let mut c = Cluster::server(&[]);
    DirBuilder::new().mode(0o700).create(c.data()).expect("a directory");
    // As a killed process holds it until the kernel has taken it apart.
    let lock = File::create(c.path("data/server.lock")).expect("a file");
    lock.try_lock().expect("nobody else has it");
    c.launch();
    until("it says that it waits", || c.log().contains("still holds"));
    assert!(!c.ended(), "{}", c.log());
    drop(lock);
    c.ready();
    assert_eq!(c.log().matches("still holds").count(), 1, "it says so once");

    let data = c.data();
    let any = "127.0.0.1:0";
    for verb in [&["server"][..], &["up", "--no-context", "--no-local-node", "--nodes", "1"]] {
        let at = ["--listen", any, "--link-listen", any, "--data-dir", &data];
        let mut start = c.command();
        start.env_remove("MUSTER_SERVER").env_remove("MUSTER_TOKEN").args(verb).args(at);
        let out = start.output().expect("the muster binary starts");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{said}");
        assert!(said.contains("another muster server already uses"), "{said}");
        assert!(!said.contains("still holds"), "a server that goes on is not waited for: {said}");
    }
}
