//! Requests that are no gRPC get the answer 404. A scraper that was given the port of the parties does not report it as
//! *up* then.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use tonic::body::Body;

const GRPC: &str = "application/grpc";

/// What somebody reads who asks this port for a page.
const HELP: &str = "404: this port speaks gRPC with parties and has no pages. Metrics and health are at the address that \
                    the setting \"metrics\" names.\n";

/// A service behind this rule.
#[derive(Clone)]
pub(crate) struct OnlyGrpc<S>(pub S);

impl<S> tower::Service<http::Request<Body>> for OnlyGrpc<S>
where
    S: tower::Service<
            http::Request<Body>,
            Response = http::Response<Body>,
            Error = Infallible,
            Future: Send + 'static,
        >,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let kind = request.headers().get(CONTENT_TYPE);
        let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(GRPC.as_bytes()));
        match is_grpc && request.method() == Method::POST {
            true => Box::pin(self.0.call(request)),
            false => Box::pin(async { Ok(not_found()) }),
        }
    }
}

fn not_found() -> http::Response<Body> {
    let mut response = http::Response::new(Body::new(HELP.to_owned()));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

#[cfg(test)]
mod tests {
    use tower::{ServiceExt, service_fn};

    use super::*;

    async fn status(method: Method, kind: Option<&str>) -> StatusCode {
        let inner = service_fn(|_| async { Ok(http::Response::new(Body::empty())) });
        let mut request = http::Request::builder().method(method).uri("/metrics");
        if let Some(kind) = kind {
            request = request.header(CONTENT_TYPE, kind);
        }
        let request = request.body(Body::empty()).unwrap();
        OnlyGrpc(inner).oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn only_grpc_passes() {
        let not_found = StatusCode::NOT_FOUND;
        assert_eq!(status(Method::GET, None).await, not_found);
        assert_eq!(status(Method::GET, Some(GRPC)).await, not_found);
        assert_eq!(status(Method::POST, Some("text/plain")).await, not_found);
        for kind in [GRPC, "application/grpc+proto"] {
            assert_eq!(status(Method::POST, Some(kind)).await, StatusCode::OK);
        }
    }
}
