//! `--watch`: draws again when something happened, not by asking all the time.

use muster_client::Client;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::{follow, output};
use std::time::Duration;

/// Ages move on even when nothing happens.
const AT_LEAST_EVERY: Duration = Duration::from_secs(10);
/// Many events at once are one reason to draw.
const AT_MOST_EVERY: Duration = Duration::from_millis(500);

/// Draws now, and again whenever something happened, until Ctrl-C.
pub(crate) async fn watch<F>(ctx: &Ctx, client: &Client, mut draw: F) -> Result<u8, Fail>
where
    F: AsyncFnMut() -> Result<String, Fail>,
{
    if !ctx.is_table() {
        return Err(Fail::usage("--watch draws for people and does not go with -o json or yaml")
            .hint("`muster events -f -o json` follows everything that happens"));
    }
    let terminal = output::is_terminal();
    let mut news = None;
    loop {
        let text = draw().await?;
        if terminal {
            // Home, then clear to the end of each line and of the screen: no flicker.
            let text = output::escape_controls(&text).replace('\n', "\x1b[K\n");
            output::print_bytes(format!("\x1b[H{text}\x1b[J").as_bytes())?;
        } else {
            output::print(&format!("{text}\n"))?;
        }
        let heard = news.get_or_insert_with(|| follow::news(client));
        tokio::select! {
            event = heard.recv() => match event {
                Some(Ok(_)) => {
                    tokio::time::sleep(AT_MOST_EVERY).await;
                    while heard.try_recv().is_ok() {}
                }
                Some(Err(e)) => return Err(e.into()),
                None => tokio::time::sleep(Duration::from_secs(2)).await,
            },
            () = tokio::time::sleep(AT_LEAST_EVERY) => {}
        }
    }
}
