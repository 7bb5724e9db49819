//! What the console is called and looks like.

use serde::{Deserialize, Serialize};

/// `GET /v1/brand`: the console's name and colours, also before anybody has logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Brand {
    /// What the console is called.
    pub name: String,
    /// A hash of the picture of `GET /v1/brand/logo`; null where there is none.
    pub logo: Option<String>,
    /// Where its users find help.
    pub link: Option<BrandLink>,
    /// Colours on a dark ground; the usual ones when null.
    pub dark: Option<BrandColours>,
    /// Colours on a light ground; the usual ones when null.
    pub light: Option<BrandColours>,
}

/// A link that the console shows to its users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BrandLink {
    /// What it is called.
    pub text: String,
    /// Where it leads.
    pub url: String,
}

/// Colours for one ground.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BrandColours {
    /// Links, buttons and what is chosen, `#rrggbb`.
    pub accent: String,
    /// What is written on it.
    pub on_accent: String,
}
