//! A read-only page for people: how jobs stand, round by round, as it happens.
//!
//! The page itself holds nothing secret and is sent to everybody. What it shows comes from `/events`, as events that the
//! server sends, and only to those who have the token. The browser sends the token in a header that no other site can
//! make it send, so there are no cookies and no session. `state` is what an event says, `events` sends them, `token`
//! checks who asks.

mod events;
mod state;
mod token;

use std::net::SocketAddr;
use std::sync::Arc;

use blindsum_net::NetError;
use blindsum_net::watched::Watched;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::http::{Body, serve, whole};
use crate::listening::Listening;
pub(crate) use token::Token;

/// Connections at once: one for each window that shows the page, and few for those that open it.
const AT_ONCE: usize = 64;

/// The files of the page, by their path: the type of each, and its text.
const FILES: [(&str, &str, &str); 5] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("../page/index.html"),
    ),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_str!("../page/style.css"),
    ),
    (
        "/charts.js",
        "text/javascript; charset=utf-8",
        include_str!("../page/charts.js"),
    ),
    (
        "/app.js",
        "text/javascript; charset=utf-8",
        include_str!("../page/app.js"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_str!("../page/icon.svg"),
    ),
];

/// What a browser may do with the page: load its own files, ask its own server, and nothing else.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The headers of all answers.
const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
];

const TEXT: &str = "text/plain; charset=utf-8";

/// A dashboard for which an address was taken and a token read.
pub(crate) struct Dashboard {
    listening: Listening,
    token: Token,
}

/// A dashboard that answers. Dropping it ends it.
pub(crate) struct Shown {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Dashboard {
    /// Takes the address. Nobody is answered until [`show`](Self::show).
    ///
    /// # Errors
    /// [`NetError::Config`] if it is no address, [`NetError::Listen`] if it cannot be listened on.
    pub async fn listen(address: &str, token: Token) -> Result<Self, NetError> {
        let listening = Listening::at("dashboard", address).await?;
        Ok(Self { listening, token })
    }

    /// Shows this server from now on.
    pub fn show(self, watched: Watched) -> Shown {
        let address = self.listening.address();
        info!(%address, "dashboard at http://{address}/");
        if !address.ip().is_loopback() {
            warn!(%address, "the dashboard speaks plain HTTP: whoever reads the network there reads its token; put a proxy with TLS \
                in front of it");
        }
        let site = Arc::new(Site {
            watched,
            token: self.token,
        });
        let answer = move |from, request| {
            let site = site.clone();
            async move { site.answer(from, request).await }
        };
        let listener = self.listening.into_listener();
        let task = tokio::spawn(serve(listener, AT_ONCE, None, answer));
        Shown { address, task }
    }
}

impl Shown {
    /// The address at which it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is shown, and to whom.
struct Site {
    watched: Watched,
    token: Token,
}

impl Site {
    async fn answer(&self, from: SocketAddr, request: Request<Incoming>) -> Response<Body> {
        let (method, path) = (request.method(), request.uri().path());
        let mut response = match (method, path) {
            (&Method::GET, "/events") => {
                match self.token.opens(request.headers().get(AUTHORIZATION)) {
                    true => events::stream(self.watched.clone()),
                    false => {
                        self.token.refuse(from).await;
                        let text = "401: send the token, as in Authorization: Bearer TOKEN\n";
                        let mut response = page(StatusCode::UNAUTHORIZED, TEXT, text);
                        let bearer = HeaderValue::from_static("Bearer");
                        response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
                        response
                    }
                }
            }
            (&Method::GET | &Method::HEAD, path) => {
                match FILES.iter().find(|(name, ..)| *name == path) {
                    Some((_, kind, text)) => page(StatusCode::OK, kind, text),
                    None => page(
                        StatusCode::NOT_FOUND,
                        TEXT,
                        "404: there are / and /events\n",
                    ),
                }
            }
            _ => {
                let text = "405: only GET; nothing can be changed here\n";
                page(StatusCode::METHOD_NOT_ALLOWED, TEXT, text)
            }
        };
        for (name, value) in HEADERS {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    }
}

fn page(status: StatusCode, kind: &'static str, text: &'static str) -> Response<Body> {
    let mut response = Response::new(whole(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
