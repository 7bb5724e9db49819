//! The end of an administrator's token, and when tokens were last used.

use super::{items, refuses, says};
use crate::minutes::cluster::{Cluster, until};

#[test]
fn a_revoked_admin_token_does_not_work_again_after_a_restart() {
    let mut c = Cluster::server(&[]);
    c.restart();
    let out = c.muster(&["token", "revoke", "admin"]);
    refuses(&out, 0, &["token of this command", "no administrator's token is left"]);
    c.kill();
    c.restart();
    until("it says so", || c.log().contains("admin.token was revoked and stays so"));
    refuses(&c.muster(&["ps"]), 4, &["was revoked", "muster token create"]);
    c.kill();
    let old = c.token.clone();
    std::fs::remove_file(c.path("data/admin.token")).expect("the test's own");
    c.restart();
    assert_ne!(c.token, old);
    c.muster(&["ps"]).code(0);
    refuses(&c.muster(&["ps", "--token", &old]), 4, &["was revoked"]);
}

#[test]
fn the_list_says_when_a_token_was_last_used() {
    let mut c = Cluster::server(&[]);
    c.restart();
    let made = c.muster(&["token", "create", "ci", "--role", "viewer"]);
    made.code(0);
    let secret = made.stdout.trim().to_owned();
    let ci = |c: &Cluster| {
        let list = c.json(&["token", "list"]);
        items(&list).iter().find(|t| t["name"] == "ci").cloned().expect("it is listed")
    };
    assert_eq!(ci(&c)["not_used_since"], ci(&c)["created_at"], "{:#}", ci(&c));
    says(&c.muster(&["token", "list"]), &["LAST USED", "never"]);
    c.muster(&["whoami", "--token", &secret]).code(0);
    assert!(ci(&c)["last_used"].is_string(), "{:#}", ci(&c));
    let list = c.muster(&["token", "list"]);
    list.code(0);
    let line = list.stdout.lines().find(|l| l.contains(" ci ")).expect("it is listed");
    assert!(line.trim_end().ends_with(" ago") || line.contains("just now"), "{line}");
}
