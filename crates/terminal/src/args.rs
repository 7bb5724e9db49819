//! Flags that every command takes.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The server's address
    #[arg(long, global = true, env = "MUSTER_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// The token to show
    #[arg(long, global = true, env = "MUSTER_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// The project to work in
    #[arg(long, global = true, env = "MUSTER_PROJECT", value_name = "PROJECT")]
    pub project: Option<String>,
    /// How to print: json and yaml give one document on stdout
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    /// Read the settings from this file
    #[arg(long, global = true, env = "MUSTER_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Certificates (PEM) that the server's own must follow from
    #[arg(long, global = true, env = "MUSTER_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}
