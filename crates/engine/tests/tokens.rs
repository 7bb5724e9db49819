//! Tokens that are over.

use crate::common::{TestSite, replay};
use muster_model::command::{Command, RefusalCode};
use muster_model::tenant::{Role, TokenUse};
use muster_model::units::Span;

fn make(id: &str, name: &str, ttl: Option<Span>) -> Command {
    let usage = TokenUse::Api { role: Role::User, project: None };
    Command::CreateToken {
        id: id.into(),
        name: name.parse().unwrap(),
        hash: String::new(),
        usage,
        ttl,
    }
}

fn revoke(id: &str) -> Command {
    Command::RevokeToken { id: id.into() }
}

#[test]
fn a_token_that_is_revoked_again_is_not_unknown() {
    let mut w = TestSite::new(1, 8);
    w.ok(make("a1", "ci", None));
    w.ok(revoke("a1"));
    let n = w.log.len();
    for word in ["a1", "ci"] {
        w.ok(revoke(word));
    }
    assert_eq!(w.log.len(), n, "nothing is done twice");
    assert_eq!(w.send(revoke("a2")).unwrap_err().code, RefusalCode::NotFound);
    // The name is that of another token now, which is not over.
    w.ok(make("b2", "ci", None));
    assert_eq!(w.send(revoke("ci")).unwrap_err().code, RefusalCode::NotFound);
    w.ok(revoke("a1"));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_token_that_expired_long_ago_is_not_listed_for_ever() {
    let mut w = TestSite::new(1, 8);
    w.ok(make("short", "ci", Some(Span::hours(1))));
    w.ok(make("long", "ci", Some(Span::hours(24 * 365))));
    w.ok(make("ever", "ci", None));
    w.pass(Span::hours(24 * 30));
    w.ok(make("next", "ci", None));
    assert!(w.engine.state().tokens.contains_key("short"), "it expired less than 30 days ago");
    w.pass(Span::hours(2));
    w.ok(make("last", "ci", None));
    let left: Vec<&str> = w.engine.state().tokens.keys().map(String::as_str).collect();
    for id in ["long", "ever", "next", "last"] {
        assert!(left.contains(&id), "{id} of {left:?}");
    }
    assert!(!left.contains(&"short"), "{left:?}");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}
