//! Tests of the network between nodes.

use crate::{Client, ClientError};
use muster_api::{FabricRequest, FabricTest, FabricTestList};

impl Client {
    /// Begins a test of the network.
    pub async fn fabric_test(&self, body: &FabricRequest) -> Result<FabricTest, ClientError> {
        self.json(self.post(&["v1", "fabric", "tests"]).body(body)?).await
    }

    /// A test of the network, as far as it is.
    pub async fn fabric(&self, id: &str) -> Result<FabricTest, ClientError> {
        self.json(self.get(&["v1", "fabric", "tests", id])).await
    }

    /// The last tests of the network, newest first, without their pairs.
    pub async fn fabric_tests(&self) -> Result<FabricTestList, ClientError> {
        self.json(self.get(&["v1", "fabric", "tests"])).await
    }
}
