//! `muster token …`.

use clap::{Args, Subcommand, ValueEnum};
use muster_api::{CreateToken, Token};
use muster_model::tenant::Role;
use muster_model::units::{Span, Time};
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::{Fail, NOT_FOUND, REFUSED};
use muster_terminal::output::table::{Table, cell, state};
use muster_terminal::output::time::relative;
use muster_terminal::{output, pick};

/// Create, list and revoke API tokens
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster token create ci --role user --project nlp --ttl 90d\n  \
muster token create --join racks --ttl 1h --uses 16    lets 16 nodes in\n  \
muster token list\n  muster token revoke ID"
)]
pub(crate) struct TokenCmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a token; its secret is shown this once. With --project (global) it is bound to one
    Create {
        /// What to call it
        #[arg(default_value = "token")]
        name: String,
        /// For enrolling agents instead of calling the API
        #[arg(long)]
        join: bool,
        /// What it may do
        #[arg(long, value_enum, conflicts_with = "join")]
        role: Option<RoleArg>,
        /// How long it is valid, such as 90d
        #[arg(long)]
        ttl: Option<Span>,
        /// How many nodes may join with it
        #[arg(long, requires = "join", value_name = "N")]
        uses: Option<u32>,
    },
    /// List tokens, without their secrets
    List,
    /// Revoke tokens; none when one of the words names no token, or several
    Revoke {
        /// Ids, or names that one token has
        #[arg(required = true)]
        tokens: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RoleArg {
    Viewer,
    User,
    Operator,
    Admin,
}

impl From<RoleArg> for Role {
    fn from(r: RoleArg) -> Role {
        match r {
            RoleArg::Viewer => Role::Viewer,
            RoleArg::User => Role::User,
            RoleArg::Operator => Role::Operator,
            RoleArg::Admin => Role::Admin,
        }
    }
}

impl TokenCmd {
    /// Is the project that of a new token?
    pub(crate) fn names_project(&self) -> bool {
        matches!(self.verb, Verb::Create { join: false, .. })
    }

    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        match self.verb {
            Verb::Create { name, join, role, ttl, uses } => {
                if join && ctx.typed_project().is_some() {
                    return Err(Fail::usage(
                        "--project: a token that nodes join with has no project",
                    )
                    .hint("leave it out"));
                }
                let project = ctx.global.project.clone().filter(|p| !p.is_empty() && !join);
                let body =
                    CreateToken { name, role: role.map(Into::into), project, ttl, join, uses };
                let made = client.create_token(&body).await?;
                if ctx.is_table() {
                    let use_with = if join { "muster agent --join …" } else { "MUSTER_TOKEN" };
                    output::note(&format!(
                        "token {} ({}); its secret is shown only now, use it with {use_with}:",
                        made.token.id, made.token.name
                    ));
                }
                ctx.show(&made, |m| format!("{}\n", m.secret))?;
            }
            Verb::List => {
                let list = client.tokens().await?;
                ctx.show(&list, |l| table(&l.items, now()).render())?;
            }
            Verb::Revoke { tokens } => {
                let known = client.tokens().await?.items;
                // All of them before the first ends: a wrong word in a list ends none.
                let (mut meant, mut over) = (Vec::new(), Vec::new());
                for given in &tokens {
                    match find(&known, given) {
                        Ok(token) => meant.push(token),
                        Err(none) if none.code == NOT_FOUND => over.push((given, none)),
                        Err(e) => return Err(e),
                    }
                }
                let mut revoked = Vec::new();
                for (given, none) in over {
                    // The server knows those that were revoked; of others there are none.
                    match client.revoke_token(given).await.map_err(Fail::from) {
                        Ok(()) => revoked.push(given.clone()),
                        Err(e) if e.code == NOT_FOUND => return Err(none),
                        Err(e) => return Err(e),
                    }
                    if ctx.is_table() {
                        output::print(&format!("token {given} was revoked already\n"))?;
                    }
                }
                // Its own comes last: after that, this command could not end the others.
                let own = client.whoami().await?.token;
                meant.sort_by_key(|t| own.as_ref() == Some(&t.id));
                let warnings = warnings(&known, &meant, own.as_deref());
                for token in meant {
                    // The same one may be named by its id and by its name.
                    if revoked.contains(&token.id) {
                        continue;
                    }
                    client.revoke_token(&token.id).await?;
                    if ctx.is_table() {
                        output::print(&format!(
                            "token {} ({}) is revoked\n",
                            token.id, token.name
                        ))?;
                    }
                    revoked.push(token.id.clone());
                }
                for warning in warnings {
                    output::note(warning);
                }
                if !ctx.is_table() {
                    ctx.show(&serde_json::json!({ "revoked": revoked }), |_| String::new())?;
                }
            }
        }
        Ok(0)
    }
}

/// The token with this id, or the only one with this name. Names may be shared, as when a token is
/// replaced by a new one, and ending the wrong one would leave the other at work. One that has
/// expired is not meant while another works.
pub(crate) fn find<'a>(known: &'a [Token], given: &str) -> Result<&'a Token, Fail> {
    pick::not_empty("id or name of the token", given)?;
    if let Some(token) = known.iter().find(|t| t.id == given) {
        return Ok(token);
    }
    let named: Vec<&Token> = known.iter().filter(|t| t.name == given).collect();
    let valid: Vec<&Token> = named.iter().copied().filter(|t| t.state == "valid").collect();
    let meant = if valid.is_empty() { named } else { valid };
    match *meant.as_slice() {
        [] => Err(Fail::new(NOT_FOUND, format!("there is no token `{given}`"))
            .hint("`muster token list` lists them")),
        [one] => Ok(one),
        _ => {
            let ids: Vec<&str> = meant.iter().map(|t| t.id.as_str()).collect();
            let message = format!("{} tokens are called `{given}`: {}", ids.len(), ids.join(", "));
            Err(Fail::new(REFUSED, message)
                .hint("name one by its id; `muster token list` shows when each was created"))
        }
    }
}

/// What whoever ends these tokens should know.
fn warnings(known: &[Token], ended: &[&Token], own: Option<&str>) -> Vec<&'static str> {
    let rules = |t: &Token| {
        t.role == Some(Role::Admin) && t.project.is_none() && !t.join && t.state == "valid"
    };
    let gone = |t: &Token| ended.iter().any(|e| e.id == t.id);
    let mut warnings = Vec::new();
    if ended.iter().any(|t| own == Some(t.id.as_str())) {
        warnings.push("warning: that was the token of this command; what you ask next is refused");
    }
    if ended.iter().any(|t| rules(t)) && !known.iter().any(|t| rules(t) && !gone(t)) {
        warnings.push(
            "warning: no administrator's token is left. For a new one, remove admin.token from the \
             server's data directory and start the server again",
        );
    }
    warnings
}

/// The tokens as a table.
pub(crate) fn table(tokens: &[Token], now: Time) -> Table {
    let heads = ["ID", "NAME", "FOR", "PROJECT", "STATE", "CREATED", "EXPIRES", "LAST USED"];
    let mut table = Table::new(&heads);
    for t in tokens {
        let role = t.role.map(|r| format!("{r:?}").to_lowercase());
        let uses = t.uses_left.map(|n| format!(" ({n} left)")).unwrap_or_default();
        table.row(vec![
            cell(&t.id),
            cell(&t.name),
            cell(role.unwrap_or_else(|| format!("join{uses}"))),
            cell(t.project.as_deref().unwrap_or(if t.join { "" } else { "all" })),
            state(&t.state),
            cell(relative(now, t.created_at)),
            cell(t.expires_at.map_or("never".into(), |e| relative(now, e))),
            cell(last_used(t, now)),
        ]);
    }
    table
}

/// When a token was last used, or since when it was not.
fn last_used(t: &Token, now: Time) -> String {
    match (t.last_used, t.not_used_since) {
        (Some(at), _) => relative(now, at),
        (None, Some(since)) if since <= t.created_at => "never".into(),
        (None, Some(since)) => format!("not since {}", relative(now, since)),
        (None, None) => "unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::tenant::TokenUse;

    fn token(id: &str, name: &str, expires_at: Option<Time>) -> Token {
        let token = muster_model::tenant::Token {
            id: id.into(),
            name: name.parse().unwrap(),
            hash: String::new(),
            usage: TokenUse::Join { uses_left: None },
            created_at: Time(0),
            expires_at,
            version: muster_model::Seq(1),
        };
        Token::of(&token, Time(1000))
    }

    #[test]
    fn who_ends_the_own_or_the_last_admins_token_is_informed() {
        let admin = |id| Token { join: false, role: Some(Role::Admin), ..token(id, "boss", None) };
        let known = [admin("a1"), admin("b2"), token("c3", "racks", None)];
        let reported = |ended: &[usize], own| {
            let ended: Vec<&Token> = ended.iter().map(|i| &known[*i]).collect();
            warnings(&known, &ended, own).join("\n")
        };
        assert_eq!(reported(&[0, 2], Some("b2")), "");
        let own = reported(&[0], Some("a1"));
        assert!(own.contains("token of this command") && !own.contains("is left"), "{own}");
        let last = reported(&[0, 1], None);
        assert!(last.contains("remove admin.token") && !last.contains("this command"), "{last}");
    }

    #[test]
    fn a_token_shows_when_it_was_last_used_or_since_when_not() {
        let now = Time(10 * 60_000);
        let at = |minutes: i64| Some(muster_api::Timestamp(Time(minutes * 60_000)));
        let of = |last_used, not_used_since| {
            let t = Token { last_used, not_used_since, ..token("a1", "ci", None) };
            let text = table(&[t], now).render_for(None, false);
            text.lines().nth(1).unwrap_or_default().trim_end().to_owned()
        };
        for (line, end) in [
            (of(at(7), None), "3m ago"),
            (of(None, at(5)), "not since 5m ago"),
            (of(None, at(0)), "never"),
            (of(None, None), "unknown"),
        ] {
            assert!(line.ends_with(end), "{line}");
        }
    }

    #[test]
    fn a_name_that_several_tokens_have_names_none() {
        let past = Some(Time(500));
        let known = [
            token("a1", "ci", None),
            token("b2", "ci", None),
            token("c3", "old", past),
            token("d4", "old", None),
            token("e5", "gone", past),
        ];
        let e = find(&known, "ci").expect_err("two");
        assert_eq!(e.code, REFUSED);
        assert_eq!(e.message, "2 tokens are called `ci`: a1, b2");
        for (given, id) in [("a1", "a1"), ("b2", "b2"), ("old", "d4"), ("c3", "c3"), ("gone", "e5")]
        {
            assert_eq!(find(&known, given).expect("one").id, id, "{given}");
        }
        assert_eq!(find(&known, "nope").expect_err("none").code, NOT_FOUND);
        assert_eq!(find(&known, "").expect_err("empty").code, muster_terminal::fail::USAGE);
    }
}
