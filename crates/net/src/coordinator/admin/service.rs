//! Answers operators.

use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_job::foreign;
use blindsum_protocol::JobSpec;
use tonic::{Request, Response, Status, Streaming};

use super::super::reloading::End;
use super::super::{Control, JobConfig};
use super::listener::Operator;
use super::rounds;
use crate::JobError;
use crate::orders::{Command, Order, OrderError, check_reason};
use crate::pb::admin_server::Admin;
use crate::pb::{
    AddRequest, DescribeReply, DescribeRequest, HostWord, OrderReply, OrderRequest, ReloadRequest,
};

/// The code of an order that was carried out in part: the reason says, a line each, what was done and what was not.
const IN_PART: &str = "in-part";

pub(super) struct Service {
    control: Control,
    anchor: Arc<TrustAnchor>,
}

impl Service {
    pub fn new(control: Control, anchor: Arc<TrustAnchor>) -> Self {
        Self { control, anchor }
    }

    fn operator<T>(&self, request: &Request<T>) -> Result<Operator, Status> {
        Operator::of(request, &self.anchor)
    }
}

#[tonic::async_trait]
impl Admin for Service {
    async fn describe(
        &self,
        request: Request<DescribeRequest>,
    ) -> Result<Response<DescribeReply>, Status> {
        self.operator(&request)?;
        let job = request.into_inner().job;
        Ok(Response::new(described(&self.control, &job).await?))
    }

    async fn order(&self, request: Request<OrderRequest>) -> Result<Response<OrderReply>, Status> {
        let by = self.operator(&request)?.name;
        let asked = request.into_inner();
        let command = match Command::read(&asked.command) {
            Ok(command) => command,
            Err(error) => {
                let outcome = Err(error.to_string());
                let (job, reason) = (&asked.job, &asked.reason);
                self.control.record(job, &by, "unknown", reason, &outcome);
                return Ok(refused(error.code(), error.to_string()));
            }
        };
        let order = Order {
            command,
            by: by.to_string(),
            reason: asked.reason,
        };
        let outcome = match &order.command {
            // Of all jobs, as on SIGTERM: the coordinator ends then.
            Command::Drain { within } if asked.job.is_empty() => {
                self.control.drain_all(&order, *within).await
            }
            _ => self
                .control
                .order(&asked.job, order)
                .await
                .map(|it| it.to_string()),
        };
        Ok(match outcome {
            Ok(outcome) => done(outcome),
            Err(error) => refused(error.code(), error.to_string()),
        })
    }

    async fn add(&self, request: Request<AddRequest>) -> Result<Response<OrderReply>, Status> {
        let by = self.operator(&request)?.name;
        let asked = request.into_inner();
        if let Err(error) = check_reason("add", &asked.reason) {
            return Ok(refused(error.code(), error.to_string()));
        }
        let spec: JobSpec = match serde_json::from_str(&asked.job_spec) {
            Ok(spec) => spec,
            Err(error) => return Ok(refused("value", format!("job specification: {error}"))),
        };
        let job = spec.job.clone();
        let added = self.control.add(JobConfig {
            spec,
            initial_model: None,
            results: None,
            hosted: asked.hosted,
        });
        let outcome = added.await.map_err(|error| error.to_string());
        let is_configured = self.control.configures(&job).await;
        let outcome = outcome.map(|()| match is_configured {
            true => format!("job {job} was added"),
            false => format!(
                "job {job} was added; after a restart it is not served: put it into the configuration as well"
            ),
        });
        self.control
            .record(&job, &by, "add", &asked.reason, &outcome);
        Ok(outcome.map_or_else(|error| refused("value", error), done))
    }

    async fn reload(
        &self,
        request: Request<ReloadRequest>,
    ) -> Result<Response<OrderReply>, Status> {
        let by = self.operator(&request)?.name;
        let reason = request.into_inner().reason;
        if let Err(error) = check_reason("reload", &reason) {
            return Ok(refused(error.code(), error.to_string()));
        }
        let told = self.control.reload_again().await;
        self.control.record_reload(&by, &reason, &told);
        let text = told.lines().join("\n");
        Ok(match told.end() {
            End::Done => done(text),
            End::InPart => refused(IN_PART, text),
            End::Nothing => refused("value", text),
        })
    }

    type HostStream = rounds::NewsOfRound;

    async fn host(
        &self,
        request: Request<Streaming<HostWord>>,
    ) -> Result<Response<Self::HostStream>, Status> {
        let by = self.operator(&request)?.name;
        let news = rounds::host(&self.control, &by, request.into_inner()).await?;
        Ok(Response::new(news))
    }
}

/// One job, or all, as JSON.
async fn described(control: &Control, job: &str) -> Result<DescribeReply, Status> {
    let unreadable = |error: JobError| Status::internal(error.for_others());
    let jobs = control.describe(job).await.map_err(unreadable)?;
    if jobs.is_empty() && !job.is_empty() {
        let job = foreign(job);
        return Err(Status::not_found(
            OrderError::UnknownJob { job }.to_string(),
        ));
    }
    let jobs = serde_json::to_string(&jobs).map_err(|e| Status::internal(e.to_string()))?;
    Ok(DescribeReply { jobs })
}

fn done(outcome: String) -> Response<OrderReply> {
    Response::new(OrderReply {
        outcome,
        ..OrderReply::default()
    })
}

fn refused(code: &str, reason: String) -> Response<OrderReply> {
    Response::new(OrderReply {
        outcome: String::new(),
        refusal: code.into(),
        reason,
    })
}
