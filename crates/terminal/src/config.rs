//! Settings: flag, environment, `muster.toml`, the user's context, default.

use crate::args::Global;
use crate::fail::Fail;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where a server listens unless configured otherwise.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7070";

/// What a command needs to know to talk to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The server's address.
    pub server: String,
    /// The API token.
    pub token: Option<String>,
    /// The project to work in.
    pub project: Option<String>,
    /// CA bundle for the server's certificate, PEM.
    pub ca: Option<PathBuf>,
}

/// A file with settings: `muster.toml` beside the work, or the user's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<PathBuf>,
    /// Name of the context in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    contexts: BTreeMap<String, Context>,
    /// What the console of a server wears that is started here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brand: Option<muster_brand::BrandFile>,
}

/// One server that the user knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Context {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<PathBuf>,
}

/// What one file says, its context chosen.
#[derive(Debug, Clone, Default)]
struct Layer {
    /// The file.
    path: PathBuf,
    server: Option<String>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    project: Option<String>,
    ca: Option<PathBuf>,
}

impl ConfigFile {
    /// Reads a settings file; nothing when it is not there.
    ///
    /// # Errors
    /// What is wrong in it, with its line.
    pub fn read(path: &Path) -> Result<Option<ConfigFile>, Fail> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Fail::usage(format!("cannot read {}: {e}", path.display()))),
        };
        toml::from_str(&text).map(Some).map_err(|e| {
            Fail::usage(format!("{}: {}", path.display(), e.to_string().trim_end())).hint(
                "known settings: server, token, token_file, project, ca, context, contexts.NAME, brand",
            )
        })
    }

    fn layer(self, path: &Path) -> Result<Layer, Fail> {
        let ConfigFile { server, token, token_file, project, ca, context, mut contexts, .. } = self;
        let own = Layer { path: path.to_owned(), server, token, token_file, project, ca };
        let Some(name) = context else { return Ok(own) };
        let Some(c) = contexts.remove(&name) else {
            return Err(Fail::usage(format!("{}: there is no context `{name}`", path.display()))
                .hint(format!("add [contexts.{name}], or choose another with `context = …`")));
        };
        let Context { server, token, token_file, project, ca } = c;
        Ok(Layer {
            path: own.path,
            server: own.server.or(Some(server)),
            token: own.token.or(token),
            token_file: own.token_file.or(token_file),
            project: own.project.or(project),
            ca: own.ca.or(ca),
        })
    }
}

/// The user's own settings: the file that commands are asked to read, or else the usual one.
pub fn user_config(global: &Global) -> Option<PathBuf> {
    if let Some(path) = &global.config {
        return Some(path.clone());
    }
    let base = match std::env::var_os("XDG_CONFIG_HOME").filter(|v| !v.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("HOME").filter(|v| !v.is_empty())?).join(".config"),
    };
    Some(base.join("muster").join("config.toml"))
}

/// Files with settings, the nearest first.
pub fn files(global: &Global) -> Vec<PathBuf> {
    match &global.config {
        Some(path) => vec![path.clone()],
        None => [Some(PathBuf::from("muster.toml")), user_config(global)]
            .into_iter()
            .flatten()
            .collect(),
    }
}

/// Where `up` and `server` keep what they must not lose.
pub fn default_data_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("XDG_DATA_HOME").filter(|v| !v.is_empty()) {
        return PathBuf::from(dir).join("muster");
    }
    match std::env::var_os("HOME").filter(|v| !v.is_empty()) {
        Some(home) => PathBuf::from(home).join(".local/share/muster"),
        None => PathBuf::from("/var/lib/muster"),
    }
}

/// Where `up --demo` keeps everything.
pub fn demo_data_dir() -> PathBuf {
    let mut name = default_data_dir().into_os_string();
    name.push("-demo");
    PathBuf::from(name)
}

/// The data directory as a path that means the same from everywhere: ranks start elsewhere.
pub fn data_dir(given: Option<PathBuf>) -> Result<PathBuf, Fail> {
    let dir = given.unwrap_or_else(default_data_dir);
    std::path::absolute(&dir)
        .map_err(|e| Fail::usage(format!("`{}` is not a directory: {e}", dir.display())))
}

impl Settings {
    /// What holds for this command.
    pub fn load(global: &Global) -> Result<Settings, Fail> {
        let mut layers = Vec::new();
        if let Some(path) = &global.config {
            let file = ConfigFile::read(path)?.ok_or_else(|| {
                Fail::usage(format!("there is no file {}", path.display()))
                    .hint("--config (or MUSTER_CONFIG) names a file with settings")
            })?;
            layers.push(file.layer(path)?);
        } else {
            for path in files(global) {
                if let Some(file) = ConfigFile::read(&path)? {
                    layers.push(file.layer(&path)?);
                }
            }
        }
        Settings::merge(global, layers)
    }

    fn merge(global: &Global, layers: Vec<Layer>) -> Result<Settings, Fail> {
        let given = |v: &Option<String>| v.clone().filter(|v| !v.is_empty());
        let mut server = given(&global.server);
        let mut token = match &global.token {
            Some(token) => Some(not_empty(token, "--token or MUSTER_TOKEN")?),
            None => None,
        };
        let mut project = given(&global.project);
        let mut ca = global.ca.clone();
        for layer in layers {
            // A token goes only to the server it was written down with: a file in a directory
            // that somebody else filled must not be able to send ours elsewhere.
            let server_here = layer.server.as_deref().unwrap_or(DEFAULT_SERVER);
            let same = server.as_deref().is_none_or(|s| same_server(s, server_here));
            if token.is_none() && same {
                token = match (layer.token, layer.token_file) {
                    (Some(token), _) => {
                        let place = format!("`token` in {}", layer.path.display());
                        Some(not_empty(&token, &place)?)
                    }
                    (None, Some(file)) => Some(read_token(&file)?),
                    (None, None) => None,
                };
            }
            if ca.is_none() && same {
                ca = layer.ca;
            }
            server = server.or(layer.server);
            project = project.or(layer.project);
        }
        let server = server.unwrap_or_else(|| DEFAULT_SERVER.into());
        Ok(Settings { server, token, project, ca })
    }
}

fn same_server(a: &str, b: &str) -> bool {
    a.trim_end_matches('/').eq_ignore_ascii_case(b.trim_end_matches('/'))
}

fn read_token(file: &Path) -> Result<String, Fail> {
    let text = std::fs::read_to_string(file).map_err(|e| {
        Fail::usage(format!("cannot read the token in {}: {e}", file.display()))
            .hint("set MUSTER_TOKEN, or fix `token_file` in the settings")
    })?;
    not_empty(&text, &file.display().to_string())
}

/// The token without the space around it. An empty one is a script whose token is missing: the
/// next one in the settings may be somebody else's, so it does not stand in.
fn not_empty(token: &str, place: &str) -> Result<String, Fail> {
    let token = token.trim();
    if token.is_empty() {
        return Err(Fail::usage(format!("the token is empty ({place})"))
            .hint("put a token there, or leave it out: then the settings say which is used"));
    }
    Ok(token.to_owned())
}

/// Writes a context, chosen from now on, into the user's settings; other contexts stay.
pub fn write_context(path: &Path, name: &str, server: &str, token_file: &Path) -> Result<(), Fail> {
    let mut file = ConfigFile::read(path)?.unwrap_or_default();
    let context = file.contexts.entry(name.into()).or_default();
    context.server = server.into();
    context.token = None;
    context.token_file = Some(token_file.into());
    file.context = Some(name.into());
    let cannot = |e: &dyn std::fmt::Display| {
        Fail::failed(format!("cannot write {}: {e}", path.display()))
            .hint("--no-context leaves the settings alone")
    };
    let text = toml::to_string(&file).map_err(|e| cannot(&e))?;
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|e| cannot(&e))?;
    }
    let new = path.with_extension("toml.new");
    let written = private_file(&new)
        .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()))
        .and_then(|()| std::fs::rename(&new, path));
    written.map_err(|e| cannot(&e))
}

/// A file that only its owner may read.
pub fn private_file(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Format;

    fn global() -> Global {
        Global {
            server: None,
            token: None,
            project: None,
            output: Format::Table,
            config: None,
            ca: None,
        }
    }

    fn layer(server: &str, token: &str) -> Layer {
        Layer { server: Some(server.into()), token: Some(token.into()), ..Layer::default() }
    }

    #[test]
    fn flags_win_over_files_and_files_over_defaults() {
        let s = Settings::merge(&global(), vec![]).expect("defaults");
        assert_eq!((s.server.as_str(), s.token), (DEFAULT_SERVER, None));
        let s =
            Settings::merge(&global(), vec![layer("http://a:1", "ta"), layer("http://b:1", "tb")])
                .expect("good files");
        assert_eq!((s.server.as_str(), s.token.as_deref()), ("http://a:1", Some("ta")));
        let g = Global { token: Some("flag".into()), ..global() };
        let s = Settings::merge(&g, vec![layer("http://a:1", "ta")]).expect("good files");
        assert_eq!(s.token.as_deref(), Some("flag"));
    }

    #[test]
    fn an_empty_token_is_an_error_and_no_other_stands_in() {
        for empty in ["", " \n"] {
            let g = Global { token: Some(empty.into()), ..global() };
            let e = Settings::merge(&g, vec![layer("http://a:1", "ta")]).expect_err("empty");
            assert!(e.message.contains("empty (--token or MUSTER_TOKEN)"), "{}", e.message);
            assert_eq!(e.code, crate::fail::USAGE);
            // Nor in a file, with another one behind it.
            let mut first = layer("http://a:1", empty);
            first.path = "near/muster.toml".into();
            let files = vec![first, layer("http://a:1", "ta")];
            let e = Settings::merge(&global(), files).expect_err("empty");
            assert!(e.message.contains("`token` in near/muster.toml"), "{}", e.message);
        }
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("admin.token");
        std::fs::write(&file, "\n").expect("written");
        let of_file = Layer { token_file: Some(file), ..Layer::default() };
        let e = Settings::merge(&global(), vec![of_file.clone()]).expect_err("empty");
        assert!(e.message.contains("admin.token"), "{}", e.message);
        // One that is not needed does no harm.
        let g = Global { token: Some("flag".into()), ..global() };
        let s = Settings::merge(&g, vec![of_file]).expect("good");
        assert_eq!(s.token.as_deref(), Some("flag"));
    }

    #[test]
    fn a_context_token_never_goes_to_another_server() {
        let g = Global { server: Some("http://evil:1".into()), ..global() };
        let s = Settings::merge(&g, vec![layer("http://a:1", "ta")]).expect("good files");
        assert_eq!(s.token, None);
        let cwd = Layer { server: Some("http://evil:1".into()), ..Layer::default() };
        let s =
            Settings::merge(&global(), vec![cwd, layer("http://a:1", "ta")]).expect("good files");
        assert_eq!((s.server.as_str(), s.token), ("http://evil:1", None));
    }

    #[test]
    fn a_context_is_written_for_its_owner_only_and_others_stay() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("muster/config.toml");
        let token = dir.path().join("admin.token");
        std::fs::write(&token, "secret\n").expect("written");
        write_context(&path, "other", "http://o:1", &token).expect("written");
        write_context(&path, "local", "http://l:1", &token).expect("written");
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let file = ConfigFile::read(&path).expect("readable").expect("there");
        assert_eq!(file.contexts.len(), 2);
        let s = Settings::merge(&global(), vec![file.layer(&path).expect("good")]).expect("good");
        assert_eq!((s.server.as_str(), s.token.as_deref()), ("http://l:1", Some("secret")));
    }

    #[test]
    fn a_context_is_written_where_the_next_command_reads() {
        let dir = tempfile::tempdir().expect("a directory");
        let g = Global { config: Some(dir.path().join("site/config.toml")), ..global() };
        let token = dir.path().join("admin.token");
        std::fs::write(&token, "secret\n").expect("written");
        let e = Settings::load(&g).expect_err("nothing is written yet");
        assert!(e.message.contains("there is no file"), "{}", e.message);
        let file = user_config(&g).expect("a file");
        write_context(&file, "local", "http://l:1", &token).expect("written");
        let s = Settings::load(&g).expect("good");
        assert_eq!((s.server.as_str(), s.token.as_deref()), ("http://l:1", Some("secret")));
    }

    #[test]
    fn a_wrong_setting_is_named_with_its_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("muster.toml");
        std::fs::write(&path, "server = \"http://a\"\ntokn = \"x\"\n").expect("written");
        let e = ConfigFile::read(&path).expect_err("unknown setting");
        assert!(e.message.contains("tokn") && e.message.contains("line 2"), "{}", e.message);
        std::fs::write(&path, "context = \"x\"\n").expect("written");
        let e =
            ConfigFile::read(&path).expect("reads").expect("there").layer(&path).expect_err("none");
        assert!(e.message.contains("no context `x`"));
    }
}
