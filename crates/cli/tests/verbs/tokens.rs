//! The end of an administrator's token.

use super::refuses;
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
