//! Asking a coordinator for the status of its jobs, with any certificate that it accepts.

use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::usage::Role;
use tokio_stream::{Stream, StreamExt};

use crate::address::Address;
use crate::connect::{ConnectError, Connected, Target};
use crate::pb::{StatusReply, StatusRequest};
use crate::plain::status_words;
use crate::report::JobStatus;
use crate::{Credentials, JobError, NetError};

/// Time for each step of the connection, and the signs of life on it.
const TIME: Duration = Duration::from_secs(10);

/// A question for the status of jobs: which coordinator to ask, and which certificate to show.
pub struct Question {
    /// The address of the coordinator: `https://HOST:PORT`.
    pub url: String,
    /// Certificate, key and CA.
    pub credentials: Credentials,
    /// The name in the coordinator's certificate, if it is not the host of `url`.
    pub server_name: Option<String>,
    /// The name of a job; `None` asks for all jobs.
    pub job: Option<String>,
}

impl Question {
    /// Asks once.
    ///
    /// # Errors
    /// The coordinator cannot be reached, is not trusted, or has no such job.
    pub async fn ask(&self) -> Result<Vec<JobStatus>, NetError> {
        let mut client = self.connect().await?.client();
        let reply = client.status(self.request()).await;
        parse(reply.map_err(|status| failed(&status))?.into_inner())
    }

    /// Asks once, from a program without a runtime.
    ///
    /// # Errors
    /// Those of [`Question::ask`].
    pub fn ask_blocking(&self) -> Result<Vec<JobStatus>, NetError> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(NetError::system)?
            .block_on(self.ask())
    }

    /// Gives the status now and after every change, until the connection ends.
    ///
    /// # Errors
    /// Those of [`Question::ask`].
    pub async fn watch(
        &self,
    ) -> Result<impl Stream<Item = Result<Vec<JobStatus>, NetError>> + use<>, NetError> {
        let mut client = self.connect().await?.client();
        let replies = client.watch(self.request()).await;
        let replies = replies.map_err(|status| failed(&status))?.into_inner();
        Ok(replies.map(move |reply| {
            // The connection lives as long as its client.
            let _alive = &client;
            parse(reply.map_err(|status| failed(&status))?)
        }))
    }

    fn request(&self) -> StatusRequest {
        StatusRequest {
            job: self.job.clone().unwrap_or_default(),
        }
    }

    async fn connect(&self) -> Result<Connected, NetError> {
        let tls = Arc::new(self.credentials.client(Role::Coordinator)?);
        let address = Address::parse("url", &self.url)?;
        let target = Target::coordinator(address, self.server_name.as_deref(), tls, TIME)?;
        target.connect(TIME).await.map_err(|error| match error {
            ConnectError::Never(error) | ConnectError::OutOfTime(error) => error,
            ConnectError::Later(reason) => NetError::Unreachable {
                url: self.url.clone(),
                seconds: 0.0,
                reason,
            },
        })
    }
}

fn parse(reply: StatusReply) -> Result<Vec<JobStatus>, NetError> {
    serde_json::from_str(&reply.jobs).map_err(|e| JobError::Coordinator(e.to_string()).into())
}

fn failed(status: &tonic::Status) -> NetError {
    JobError::Coordinator(status_words(status)).into()
}
