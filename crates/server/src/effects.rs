//! The brain, as effects meet it.

use crate::brain::Brain;
use crate::follower::Growth;
use muster_engine::State;
use muster_executors::effect::Log;
use muster_model::command::Command;
use muster_model::ids::Epoch;
use muster_model::names::ProjectName;
use muster_model::units::Time;

impl Log for Brain {
    type Growth = Growth;

    fn growth(&self) -> Growth {
        Growth::new(self)
    }

    async fn grown(growth: &mut Growth) {
        growth.wait().await;
    }

    fn read<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        Brain::read(self, look)
    }

    fn now(&self) -> Time {
        Brain::now(self)
    }

    fn certain_epoch(&self) -> Option<Epoch> {
        self.is_certain_leader().then(|| self.epoch())
    }

    async fn record_command(
        &self,
        command: Command,
        wanted: impl Fn() -> bool + Send + Sync,
    ) -> bool {
        Brain::record_command(self, command, || self.is_leading() && wanted()).await
    }

    async fn secret(&self, project: &ProjectName, name: &str) -> Result<Option<String>, String> {
        Brain::secret(self, project, name).await.map_err(|e| e.to_string())
    }
}
