//! Flags that every command takes.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Address of the server
    #[arg(long, global = true, env = "MUSTER_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// API token
    #[arg(long, global = true, env = "MUSTER_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Project
    #[arg(long, global = true, env = "MUSTER_PROJECT", value_name = "PROJECT")]
    pub project: Option<String>,
    /// table, json or yaml; one document on stdout, or one after another
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    /// Configuration file
    #[arg(long, global = true, env = "MUSTER_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// CA bundle (PEM) for the server's certificate
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
