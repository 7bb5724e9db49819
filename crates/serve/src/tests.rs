use super::*;

async fn lead(dir: &Path) -> Brain {
    let config = BrainConfig {
        store: StoreUrl::in_data_dir(dir),
        holder: "test".into(),
        archive: dir.join("archive"),
        seal_key: dir.join("secrets.key"),
        policy: Policy::default(),
        lease: Span::secs(10),
        snapshot_every: 10_000,
        retain: 10_000,
    };
    let lead = move || Brain::lead(&config, |_| {});
    tokio::task::spawn_blocking(lead).await.unwrap().unwrap()
}

async fn stop(brain: Brain) {
    brain.stop();
    brain.closed().await;
}

#[tokio::test]
async fn a_site_whose_whole_log_is_lost_stays_the_same_site_and_a_new_log_is_another() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, copy) = (dir.path(), copy.path());
    let brain = lead(dir).await;
    let site = set_up(&brain, dir, None).await.unwrap();
    // What a kill leaves, but for the `-wal` file, in which all of it still is.
    for name in ["muster.db", "muster.db.head", "site.id"] {
        std::fs::copy(dir.join(name), copy.join(name)).unwrap();
    }
    stop(brain).await;
    let mut store = muster_store::open(&StoreUrl::in_data_dir(copy)).unwrap();
    store.accept_loss().unwrap().expect("something is lost");
    drop(store);
    for start in 0..2 {
        let brain = lead(copy).await;
        assert_eq!(brain.read(|s| s.site.is_none()), start == 0, "the first finds nothing");
        assert_eq!(set_up(&brain, copy, None).await.unwrap(), site);
        stop(brain).await;
    }
    for name in ["muster.db", "muster.db-wal", "muster.db-shm", "muster.db.head"] {
        let _ = std::fs::remove_file(copy.join(name));
    }
    let brain = lead(copy).await;
    let other = set_up(&brain, copy, None).await.unwrap();
    assert_ne!(other, site);
    assert_eq!(std::fs::read_to_string(copy.join("site.id")).unwrap(), other.0);
    stop(brain).await;
}

#[tokio::test]
async fn a_revoked_token_stays_revoked_and_a_removed_file_gives_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, file) = (dir.path(), dir.path().join("admin.token"));
    let read = || std::fs::read_to_string(&file).unwrap().parse::<ApiToken>().unwrap();
    let known = |brain: &Brain, id: &str| brain.read(|s| s.tokens.contains_key(id));
    let brain = lead(dir).await;
    assert!(admin::settle(&brain, &file).await.unwrap());
    set_up(&brain, dir, None).await.unwrap();
    let first = read();
    brain.system(Command::RevokeToken { id: first.id.clone() }).await.unwrap();
    stop(brain).await;
    for _ in 0..2 {
        let brain = lead(dir).await;
        assert!(!admin::settle(&brain, &file).await.unwrap(), "it does not work again");
        set_up(&brain, dir, None).await.unwrap();
        assert!(!known(&brain, &first.id));
        assert_eq!(read(), first, "the file is as it was");
        stop(brain).await;
    }
    std::fs::remove_file(&file).unwrap();
    let brain = lead(dir).await;
    assert!(admin::settle(&brain, &file).await.unwrap());
    let second = read();
    assert!(second.id != first.id && known(&brain, &second.id) && !known(&brain, &first.id));
    // As a crash leaves it between the log and the file.
    std::fs::rename(&file, dir.join("admin.made.token")).unwrap();
    assert!(admin::settle(&brain, &file).await.unwrap());
    assert_eq!(read(), second);
    assert!(!dir.join("admin.made.token").exists());
    stop(brain).await;
}

#[tokio::test]
async fn a_start_that_was_cut_short_before_its_site_takes_the_token_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, file) = (dir.path(), dir.path().join("admin.token"));
    let token = ApiToken::generate().unwrap();
    std::fs::write(&file, token.to_string()).unwrap();
    let brain = lead(dir).await;
    for _ in 0..2 {
        assert!(admin::settle(&brain, &file).await.unwrap());
        assert!(brain.read(|s| s.tokens.len() == 1 && s.tokens.contains_key(&token.id)));
    }
    std::fs::write(&file, "nonsense").unwrap();
    let why = admin::settle(&brain, &file).await.unwrap_err().to_string();
    assert!(why.contains("admin.token has no token") && why.contains("remove"), "{why}");
    stop(brain).await;
}

#[tokio::test]
async fn a_copy_of_a_data_directory_does_not_lead_until_it_is_accepted() {
    let root = tempfile::tempdir().unwrap();
    let [first, copy, renamed] = ["first", "copy", "renamed"].map(|name| root.path().join(name));
    let settle = |dir: &Path, accepted| place::settle(dir, &StoreUrl::in_data_dir(dir), accepted);
    std::fs::create_dir(&first).unwrap();
    settle(&first, false).unwrap();
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(first.join("server.place"), copy.join("server.place")).unwrap();
    let refused = Server::start(ServerConfig::new(copy.clone()), |_| {}).await.unwrap_err();
    let said = refused.to_string();
    for part in ["/copy is a copy of ", "/first,", "--accept-copy", "--data-dir"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!copy.join("server.id").exists(), "nothing was begun");
    // One lease for both: it stands by.
    place::settle(&copy, &StoreUrl::in_data_dir(&first), false).unwrap();
    settle(&copy, false).unwrap_err();
    settle(&copy, true).unwrap();
    settle(&copy, false).unwrap();
    // The very same directory under another name.
    std::fs::rename(&first, &renamed).unwrap();
    settle(&renamed, false).unwrap();
    settle(&renamed, false).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_writes_to_the_log_what_was_counted() {
    use muster_model::event::Event;
    use muster_model::slo::Sli;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let dir = tempfile::tempdir().unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = ServerConfig::new(dir.path().to_path_buf());
    let config = ServerConfig { listen: any, link_listen: any, ..config };
    let server = Server::start(config, |_| {}).await.unwrap();
    let token = std::fs::read_to_string(&server.admin_token).unwrap();
    let ask = format!(
        "GET /v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        token.trim()
    );
    let mut stream = tokio::net::TcpStream::connect(server.listen).await.unwrap();
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.stop().await;
    drop(server);
    let brain = lead(dir.path()).await;
    let records = brain.records(muster_model::ids::Seq(0), 2048).await.unwrap();
    let reported = records.iter().filter_map(|r| match &r.event {
        Event::CountsReported { counts } => Some(counts),
        _ => None,
    });
    let mut reported = reported.flatten().filter(|c| c.sli == Sli::ApiAvailability);
    let counted = reported.next().map(|c| (c.good, c.total));
    assert_eq!(counted, Some((1, 1)));
    stop(brain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_writes_when_tokens_were_last_used() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let dir = tempfile::tempdir().unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = ServerConfig::new(dir.path().to_path_buf());
    let config = ServerConfig { listen: any, link_listen: any, ..config };
    let server = Server::start(config, |_| {}).await.unwrap();
    let token = std::fs::read_to_string(&server.admin_token).unwrap();
    let id = token.trim().parse::<ApiToken>().unwrap().id;
    let ask = format!(
        "GET /v1/whoami HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        token.trim()
    );
    let mut stream = tokio::net::TcpStream::connect(server.listen).await.unwrap();
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.stop().await;
    let written = std::fs::read_to_string(dir.path().join("token-use.json")).unwrap();
    assert!(written.contains(&id), "{written}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_writes_the_newest_metrics() {
    use muster_server::history::{HistoryRow, NoHistory};
    let dir = tempfile::tempdir().unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = ServerConfig::new(dir.path().to_path_buf());
    let config = ServerConfig { listen: any, link_listen: any, ..config };
    let server = Server::start(config, |_| {}).await.unwrap();
    let row = HistoryRow {
        node: "n1".parse().unwrap(),
        at: server.brain.now(),
        gpu_columns: vec!["util".to_owned()].into(),
        gpus: vec![50.0].into(),
        host_columns: Vec::new().into(),
        host: Vec::new().into(),
    };
    while server.agents.history().take(&row) == Err(NoHistory::Opening) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    server.stop().await;
    let files = std::fs::read_dir(dir.path().join("history/step-10000ms")).unwrap();
    let bytes: u64 = files.map(|f| f.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes > 0, "what was in memory only is in a file");
}

/// Every thread and task of a server ends with it: whatever goes on holds its whole state in memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_leaves_nothing_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = ServerConfig::new(dir.path().to_path_buf());
    let fabric_every = Some(Span::hours(1));
    let config = ServerConfig { listen: any, link_listen: any, fabric_every, ..config };
    let server = Server::start(config, |_| {}).await.unwrap();
    // The other end of it is freed with the brain, and that with the last who has a handle on it.
    let mut log = server.brain.watch();
    server.stop().await;
    drop(server);
    let freed = async { while log.changed().await.is_ok() {} };
    let in_time = tokio::time::timeout(std::time::Duration::from_secs(60), freed).await;
    assert!(in_time.is_ok(), "a thread or a task of the server still runs");
}

#[test]
fn a_proxy_with_tls_counts_as_tls() {
    assert!(is_https(Some("https://muster.example")) && is_https(Some("HTTPS://muster.example/")));
    assert!(!is_https(Some("http://https.example")) && !is_https(Some("https")) && !is_https(None));
}

#[tokio::test]
async fn a_server_takes_no_keys_that_others_could_have_prepared() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("pre");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("admin.token"), "mst_planted_token").unwrap();
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o777)).unwrap();
    let refused = Server::start(ServerConfig::new(dir.clone()), |_| {}).await.unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(why.contains("mode 777") && why.contains("--data-dir"), "{why}");
    let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["admin.token"], "nothing was begun");
    assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o777);
}
