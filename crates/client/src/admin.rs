//! Projects, tokens, secrets.

use crate::{Client, ClientError};
use muster_api::{
    CreateProject, CreateToken, Project, ProjectList, SecretList, SecretName, SetSecret,
    TokenCreated, TokenList, WhoAmI,
};
use reqwest::Method;

impl Client {
    /// Who the caller is.
    pub async fn whoami(&self) -> Result<WhoAmI, ClientError> {
        self.json(self.get(&["v1", "whoami"])).await
    }

    /// The projects that the caller may see.
    pub async fn projects(&self) -> Result<ProjectList, ClientError> {
        self.json(self.get(&["v1", "projects"])).await
    }

    /// Makes a project.
    pub async fn create_project(&self, body: &CreateProject) -> Result<Project, ClientError> {
        self.json(self.post(&["v1", "projects"]).body(body)?).await
    }

    /// All tokens, without their secrets.
    pub async fn tokens(&self) -> Result<TokenList, ClientError> {
        self.json(self.get(&["v1", "tokens"])).await
    }

    /// Makes a token; the only time its secret is shown.
    pub async fn create_token(&self, body: &CreateToken) -> Result<TokenCreated, ClientError> {
        self.json(self.post(&["v1", "tokens"]).body(body)?).await
    }

    /// Ends a token.
    pub async fn revoke_token(&self, id: &str) -> Result<(), ClientError> {
        self.bytes(self.call(Method::DELETE, &["v1", "tokens", id])).await.map(drop)
    }

    /// Names of a project's secrets.
    pub async fn secrets(&self, project: Option<&str>) -> Result<SecretList, ClientError> {
        self.json(self.get(&["v1", "secrets"]).query(&[("project", project.map(Into::into))])).await
    }

    /// Stores a secret.
    pub async fn set_secret(
        &self,
        project: Option<&str>,
        name: &str,
        value: &SetSecret,
    ) -> Result<SecretName, ClientError> {
        let call = self
            .call(Method::PUT, &["v1", "secrets", name])
            .query(&[("project", project.map(Into::into))])
            .body(value)?;
        self.json(call).await
    }

    /// Forgets a secret.
    pub async fn delete_secret(
        &self,
        project: Option<&str>,
        name: &str,
    ) -> Result<(), ClientError> {
        let call = self
            .call(Method::DELETE, &["v1", "secrets", name])
            .query(&[("project", project.map(Into::into))]);
        self.bytes(call).await.map(drop)
    }
}
