//! The pages for programs: metrics and health, and 404 for every page that is not there.

use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};

use crate::health;
use crate::http::{Body, whole};
use crate::numbers::Numbers;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// What somebody reads who asks for another page.
const PAGES: &str = "404: there are /metrics, /livez, /readyz, and /readyz/JOB for each job.\n";

/// Answers a request.
pub(crate) fn respond(numbers: &Numbers, method: &Method, path: &str) -> Response<Body> {
    let watched = numbers.watched();
    let of_job = path.strip_prefix("/readyz/");
    let (status, kind, text) = match (path, of_job) {
        (_, Some(job)) => match health::ready_job(watched, job) {
            Some(health) => (health.status(), TEXT, health.text),
            None => (
                StatusCode::NOT_FOUND,
                TEXT,
                format!("404: there is no job {job:?} here\n"),
            ),
        },
        ("/metrics", None) => match numbers.page() {
            Ok(page) => (StatusCode::OK, OPEN_METRICS, page),
            Err(error) => {
                let text = format!("500: the page of metrics cannot be written: {error}\n");
                (StatusCode::INTERNAL_SERVER_ERROR, TEXT, text)
            }
        },
        ("/livez", None) => (StatusCode::OK, TEXT, "alive\n".into()),
        ("/readyz", None) => {
            let health = health::ready(watched);
            (health.status(), TEXT, health.text)
        }
        _ => (StatusCode::NOT_FOUND, TEXT, PAGES.into()),
    };
    let is_read = [Method::GET, Method::HEAD].contains(method);
    let (status, kind, text) = match is_read || status == StatusCode::NOT_FOUND {
        true => (status, kind, text),
        false => (
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            "405: only GET and HEAD; nothing can be changed here\n".into(),
        ),
    };
    let mut response = Response::new(whole(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
