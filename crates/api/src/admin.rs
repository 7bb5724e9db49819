//! Projects, tokens, secrets and who asks.

use crate::{Kind, Timestamp};
use muster_model::tenant as m;
use muster_model::tenant::{Role, TokenUse};
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A project: what owns jobs, secrets and quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Project {
    /// Its name again.
    pub id: String,
    /// Always `Project`.
    pub kind: Kind,
    /// Its name, unique in the site.
    pub name: String,
    /// Always `active`.
    pub state: String,
    /// The version: the last record that changed it.
    pub version: u64,
    /// What it is for.
    pub description: String,
}

/// All projects the caller may see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProjectList {
    /// The projects of this page.
    pub items: Vec<Project>,
    /// Where the next page starts; null on the last one.
    pub cursor: Option<String>,
}

/// `POST /v1/projects`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateProject {
    /// Its name, unique in the site.
    #[cfg_attr(feature = "openapi", schema(max_length = 63))]
    pub name: String,
    /// What it is for.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub description: String,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    /// Public part.
    pub id: String,
    /// Always `Token`.
    pub kind: Kind,
    /// What a person called it.
    pub name: String,
    /// `valid` or `expired`.
    pub state: String,
    /// The version: the last record that changed it.
    pub version: u64,
    /// True for a token that enrols agents.
    pub join: bool,
    /// What it may do; null for a join token.
    pub role: Option<Role>,
    /// The one project it is bound to; null means all.
    pub project: Option<String>,
    /// How many nodes may still join with it; null means any number.
    pub uses_left: Option<u32>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to about a minute; null where no use is known.
    pub last_used: Option<Timestamp>,
    /// Where no use is known: it was not used since then; since `created_at`, never. Null where that
    /// is not known, as of join tokens.
    pub not_used_since: Option<Timestamp>,
}

/// All tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenList {
    /// The tokens of this page.
    pub items: Vec<Token>,
    /// Where the next page starts; null on the last one.
    pub cursor: Option<String>,
}

/// `POST /v1/tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What a person calls it.
    #[cfg_attr(feature = "openapi", schema(max_length = 128))]
    pub name: String,
    /// What it may do; `user` when absent. Not for join tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The one project it is bound to; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 63))]
    pub project: Option<String>,
    /// How long it works; a join token without one works for an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// For enrolling agents instead of calling the API.
    #[serde(default)]
    pub join: bool,
    /// How many nodes may join with it; any number when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub uses: Option<u32>,
}

/// Answer to `POST /v1/tokens`: the only time the secret is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenCreated {
    /// The new token, without its secret.
    #[serde(flatten)]
    pub token: Token,
    /// What goes into `Authorization: Bearer …`, or into `muster agent --join …`.
    pub secret: String,
}

impl fmt::Debug for TokenCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCreated").field("token", &self.token).field("secret", &"…").finish()
    }
}

/// A secret, without its value: only its ranks get that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretName {
    /// `PROJECT/NAME`.
    pub id: String,
    /// Always `Secret`.
    pub kind: Kind,
    /// Its name, unique in its project.
    pub name: String,
    /// Always `set`.
    pub state: String,
    /// The version: the record that set it.
    pub version: u64,
    /// The project that owns it.
    pub project: String,
}

/// Names of a project's secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretList {
    /// The secrets of this page, without their values.
    pub items: Vec<SecretName>,
    /// Where the next page starts; null on the last one.
    pub cursor: Option<String>,
}

/// `PUT /v1/secrets/{name}`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetSecret {
    /// The value. Never logged, never answered.
    #[cfg_attr(feature = "openapi", schema(max_length = 65536, write_only))]
    pub value: String,
}

impl fmt::Debug for SetSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetSecret(…)")
    }
}

/// Who the caller is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhoAmI {
    /// `user:NAME`.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// The one project they are bound to; null means all.
    pub project: Option<String>,
    /// Public part of their token.
    pub token: Option<String>,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// The site they talk to.
    pub site: String,
}

impl WhoAmI {
    /// May they change nodes, remediations, incidents and alerts?
    #[must_use]
    pub fn operates(&self) -> bool {
        self.project.is_none() && self.role >= Role::Operator
    }
}

impl Project {
    /// The project as the API shows it.
    #[must_use]
    pub fn of(name: &str, description: &str, version: u64) -> Project {
        Project {
            id: name.into(),
            kind: Kind::Project,
            name: name.into(),
            state: "active".into(),
            version,
            description: description.into(),
        }
    }
}

impl Token {
    /// The token as the API shows it at a moment. The log does not know when it was used.
    #[must_use]
    pub fn of(token: &m::Token, now: Time) -> Token {
        let m::Token { id, name, hash: _, usage, created_at, expires_at, version } = token;
        let (join, role, project, uses_left) = match usage {
            TokenUse::Api { role, project } => {
                (false, Some(*role), project.as_ref().map(ToString::to_string), None)
            }
            TokenUse::Join { uses_left } => (true, None, None, *uses_left),
        };
        let expired = expires_at.is_some_and(|t| t <= now) || uses_left == Some(0);
        Token {
            id: id.clone(),
            kind: Kind::Token,
            name: name.to_string(),
            state: if expired { "expired" } else { "valid" }.into(),
            version: version.0,
            join,
            role,
            project,
            uses_left,
            created_at: (*created_at).into(),
            expires_at: expires_at.map(Into::into),
            last_used: None,
            not_used_since: None,
        }
    }
}

impl SecretName {
    /// The secret's name as the API shows it.
    #[must_use]
    pub fn of(project: &str, name: &str, version: u64) -> SecretName {
        SecretName {
            id: format!("{project}/{name}"),
            kind: Kind::Secret,
            name: name.into(),
            state: "set".into(),
            version,
            project: project.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_printed() {
        let set = SetSecret { value: "hunter2".into() };
        assert!(!format!("{set:?}").contains("hunter2"));
        let token = m::Token {
            id: "ab".into(),
            name: "ci".parse().expect("a valid name"),
            hash: "feedbeef".into(),
            usage: TokenUse::Join { uses_left: Some(0) },
            created_at: Time(0),
            expires_at: None,
            version: muster_model::Seq(3),
        };
        let shown = Token::of(&token, Time(1));
        assert_eq!(shown.state, "expired", "a join token without uses is of no use");
        let made = TokenCreated { token: shown, secret: "hunter2".into() };
        assert!(!format!("{made:?}").contains("hunter2"));
        let json = serde_json::to_value(&made).expect("plain data");
        assert_eq!((&json["id"], &json["secret"]), (&"ab".into(), &"hunter2".into()));
        assert!(!json.to_string().contains("feedbeef"));
    }
}
