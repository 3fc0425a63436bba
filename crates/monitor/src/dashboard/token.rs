//! Who may see how jobs stand: those who send the token of the coordinator's operator.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use blindsum_crypto::Zeroizing;
use blindsum_crypto::kdf::hash;
use blindsum_net::NetError;
use http::HeaderValue;
use subtle::ConstantTimeEq;
use tracing::warn;

/// The setting that names the file.
const FIELD: &str = "dashboard_token_file";
/// Characters of a token at least: 16 random letters and digits are guessed by nobody.
const SHORTEST: usize = 16;
/// What whoever sends a wrong token waits for its answer.
const PAUSE: Duration = Duration::from_millis(500);
/// Time between two lines of wrong tokens in the log.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// A token, by its hash: that of another one is compared with it in constant time, whatever its length.
pub(crate) struct Token {
    hash: [u8; 32],
    /// When the log told of a wrong one, and how many there were since.
    told: Mutex<(Option<Instant>, u64)>,
}

impl Token {
    /// The first line of a file.
    ///
    /// # Errors
    /// [`NetError::Config`] if there is no file, if it cannot be read, or if its first line is too short.
    pub fn read(file: Option<&Path>) -> Result<Self, NetError> {
        let Some(file) = file else {
            let rule = "is missing: name a file whose first line is the token that the dashboard asks for, e.g. made by: openssl \
                        rand -hex 16";
            return Err(NetError::config(FIELD, rule));
        };
        let refused = |why: String| NetError::config(FIELD, format!("{}: {why}", file.display()));
        let text = std::fs::read_to_string(file).map(Zeroizing::new);
        let text = text.map_err(|error| {
            refused(format!(
                "cannot be read: {}",
                blindsum_net::io_words(&error)
            ))
        })?;
        let token = text.lines().next().unwrap_or_default().trim();
        let length = token.chars().count();
        if length < SHORTEST {
            return Err(refused(format!(
                "its first line has {length} characters, a token needs {SHORTEST}: make one, e.g. by: openssl rand -hex 16"
            )));
        }
        Ok(Self {
            hash: hashed(token.as_bytes()),
            told: Mutex::new((None, 0)),
        })
    }

    /// Whether a request with this header may see how jobs stand.
    pub fn opens(&self, header: Option<&HeaderValue>) -> bool {
        let sent = header.and_then(|header| header.as_bytes().strip_prefix(b"Bearer "));
        sent.is_some_and(|sent| hashed(sent).ct_eq(&self.hash).into())
    }

    /// Somebody has sent a wrong token, or none: the log says so, and the answer comes late.
    pub async fn refuse(&self, from: SocketAddr) {
        if let Some(times) = self.untold(Instant::now()) {
            warn!(%from, times, "dashboard: a wrong token, or none");
        }
        tokio::time::sleep(PAUSE).await;
    }

    /// How many wrong ones a line must tell of now; `None` if it is not time for a line.
    fn untold(&self, now: Instant) -> Option<u64> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.1 += 1;
        if told.0.is_some_and(|at| now < at + LINE_EVERY) {
            return None;
        }
        let times = told.1;
        *told = (Some(now), 0);
        Some(times)
    }
}

fn hashed(token: &[u8]) -> [u8; 32] {
    hash("blindsum dashboard token", &[token])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Result<Token, NetError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Token::read(Some(file.path()))
    }

    fn opens(token: &Token, header: &str) -> bool {
        token.opens(Some(&HeaderValue::from_str(header).unwrap()))
    }

    #[test]
    fn only_the_token_opens() {
        let token = token("0123456789abcdef \nmore\n").unwrap();
        assert!(opens(&token, "Bearer 0123456789abcdef"));
        for header in [
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcdef0",
            "Bearer ",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert!(!opens(&token, header), "{header}");
        }
        assert!(!token.opens(None));
    }

    #[test]
    fn a_token_that_can_be_guessed_is_refused() {
        for text in ["", "\n0123456789abcdef", "0123456789abcde"] {
            let error = token(text).err().unwrap().to_string();
            assert!(error.contains("a token needs 16"), "{error}");
        }
        let missing = Token::read(None).err().unwrap().to_string();
        assert!(
            missing.contains("dashboard_token_file: is missing"),
            "{missing}"
        );
    }

    #[test]
    fn many_wrong_tokens_are_a_line_a_second() {
        let (token, start) = (token("0123456789abcdef").unwrap(), Instant::now());
        assert_eq!(token.untold(start), Some(1));
        for _ in 0..1000 {
            assert_eq!(token.untold(start), None);
        }
        assert_eq!(token.untold(start + LINE_EVERY), Some(1001));
    }
}
