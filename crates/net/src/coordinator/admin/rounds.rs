//! Rounds that a host elsewhere begins: it is an operator, and says over the admin interface what a host in the program of
//! the coordinator says by [`Control::call`].

use std::pin::Pin;
use std::time::Duration;

use blindsum_encode::{Precision, Reals};
use blindsum_job::calls::{Call, CallEnd, CallError, CallLost, CallSum};
use blindsum_job::foreign;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use tracing::info;

use super::super::calls::PendingCall;
use super::Control;
use crate::pb::host_news::News;
use crate::pb::host_word::Word;
use crate::pb::{
    HostBegin, HostLost, HostMetric, HostNews, HostRefused, HostSum, HostTaken, HostWord,
};
use crate::plain::ENDED;

/// What a host hears of its round.
pub(super) type NewsOfRound = Pin<Box<dyn Stream<Item = Result<HostNews, Status>> + Send>>;

/// The time for the words that make up a call: a model is among them.
const CALL: Duration = Duration::from_secs(120);

/// The most bytes of an array in one piece.
const PIECE: usize = 1 << 20;

/// Why a round is called off whose host is gone.
const GONE: &str = "its connection has ended";

/// The way to a host.
struct Line(mpsc::Sender<Result<HostNews, Status>>);

impl Line {
    /// Tells news; a host that is gone hears nothing.
    async fn tell(&self, news: News) {
        let _ = self.0.send(Ok(HostNews { news: Some(news) })).await;
    }
}

/// Begins the round that the first words of an operator say, and gives what comes of it.
///
/// # Errors
/// The words make up no call.
pub(super) async fn host(
    control: &Control,
    by: &str,
    mut words: Streaming<HostWord>,
) -> Result<NewsOfRound, Status> {
    let late = |_| Status::deadline_exceeded("the words of a call did not come in time");
    let read = tokio::time::timeout(CALL, read(control, &mut words)).await;
    let (job, call) = read.map_err(late)??;
    let (sender, news) = mpsc::channel(4);
    let line = Line(sender);
    let begun = match call {
        Ok(call) => begin(control, &job, by, call).await,
        Err(error) => Err(error),
    };
    match begun {
        Err(error) => line.tell(News::Refused(refused(&error))).await,
        Ok(pending) => {
            let fit = control.sums_fit_64_bits(&job);
            tokio::spawn(conduct(pending, words, fit, line));
        }
    }
    Ok(Box::pin(ReceiverStream::new(news)))
}

/// Calls, and writes down who has done so.
async fn begin(
    control: &Control,
    job: &str,
    by: &str,
    call: Call,
) -> Result<PendingCall, CallError> {
    let of = call
        .tag
        .map_or_else(String::new, |tag| format!(" of tag {tag}"));
    let about = format!("a round{of} of {} parties", call.parties.len());
    let begun = control.call(job, call).await;
    let outcome = match &begun {
        Ok(_) => Ok("it has begun".into()),
        Err(error) => Err(error.to_string()),
    };
    control.record(job, by, "round", &about, &outcome);
    begun
}

/// The job of the words, and the call, or why it cannot be.
async fn read(
    control: &Control,
    words: &mut Streaming<HostWord>,
) -> Result<(String, Result<Call, CallError>), Status> {
    let first = words.message().await?.and_then(|word| word.word);
    let Some(Word::Begin(begin)) = first else {
        return Err(Status::invalid_argument("the first word must be `begin`"));
    };
    let HostBegin {
        job,
        tag,
        parties,
        join_within,
        deadline,
        model,
        about,
    } = begin;
    let about = match about.as_slice() {
        [] => None,
        bytes => match bytes.try_into() {
            Ok(about) => Some(about),
            Err(_) => {
                let rule = format!("must have 32 bytes, not {}", bytes.len());
                let field = "about";
                return Ok((job, Err(CallError::Value { field, rule })));
            }
        },
    };
    let model = match (model, control.dim(&job)) {
        (None, _) => None,
        (Some(_), None) => {
            let error = CallError::UnknownJob { job: foreign(&job) };
            return Ok((job, Err(error)));
        }
        (Some(bytes), Some(dim)) if bytes != dim.saturating_mul(8) => {
            let rule = format!("has {} coordinates, and the job has {dim}", bytes / 8);
            let field = "model";
            return Ok((job, Err(CallError::Value { field, rule })));
        }
        (Some(bytes), Some(_)) => Some(read_model(words, bytes).await?),
    };
    let call = Call {
        tag,
        about,
        parties,
        model,
        join_within,
        deadline,
    };
    Ok((job, Ok(call)))
}

/// A model of so many bytes.
async fn read_model(words: &mut Streaming<HostWord>, bytes: u64) -> Result<Reals, Status> {
    let wrong = || {
        Status::invalid_argument(
            "the model must follow `begin`, with the number of bytes given there",
        )
    };
    let mut model = Vec::new();
    while (model.len() as u64) < bytes {
        match words.message().await?.and_then(|word| word.word) {
            Some(Word::Model(piece)) if !piece.is_empty() => model.extend(piece),
            _ => return Err(wrong()),
        }
    }
    if model.len() as u64 > bytes {
        return Err(wrong());
    }
    Reals::from_bytes(Precision::Double, &model).ok_or_else(wrong)
}

/// Hears what the host says of its round, and tells it what comes of it.
async fn conduct(mut pending: PendingCall, mut words: Streaming<HostWord>, fit: bool, line: Line) {
    line.tell(News::Taken(HostTaken {})).await;
    let control = pending.control();
    let mut hears = true;
    let end = loop {
        tokio::select! {
            end = pending.end() => break end,
            word = words.message(), if hears => match word.map(|it| it.and_then(|it| it.word)) {
                Ok(Some(Word::Failed(failed))) => {
                    control.report_failed(&failed.party, &failed.reason).await;
                }
                Ok(Some(Word::CallOff(reason))) => control.call_off(&reason).await,
                // It has nothing else to say.
                Ok(Some(Word::Begin(_) | Word::Model(_)) | None) | Err(_) => {
                    hears = false;
                    control.call_off(GONE).await;
                }
            },
        }
    };
    match end {
        Some(CallEnd::Sum(sum)) => tell_sum(&line, *sum, fit).await,
        Some(CallEnd::Lost(lost)) => {
            info!(round = lost.round, reason = %lost.reason, "round of a host is lost");
            line.tell(News::Lost(lost_news(lost))).await;
        }
        None => {
            let _ = line.0.send(Err(Status::unavailable(ENDED))).await;
        }
    }
}

/// Tells a result: what it is, and its arrays in pieces.
async fn tell_sum(line: &Line, sum: CallSum, fit: bool) {
    let single = matches!(&sum.mean, Some(mean) if mean.precision() == Precision::Single);
    let mean = sum.mean.map_or_else(Vec::new, |mean| mean.to_bytes());
    let sums = sum.sums.unwrap_or_default();
    let sums: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    let metrics = sum.metrics.into_iter().map(|(name, of)| {
        let (value, share, void) = (of.value, of.share, of.void);
        (name, HostMetric { value, share, void })
    });
    let told = HostSum {
        tag: sum.tag,
        round: sum.round,
        survivors: sum.survivors,
        mean: mean.len() as u64,
        single,
        sums: sums.len() as u64,
        sums_fit_64_bits: fit,
        total_weight: sum.total_weight,
        metrics: metrics.collect(),
        lost: sum.lost.into_iter().collect(),
        result: sum.result,
        model_version: sum.model_version,
        seconds: sum.seconds,
    };
    line.tell(News::Sum(told)).await;
    for piece in mean.chunks(PIECE).chain(sums.chunks(PIECE)) {
        line.tell(News::Piece(piece.to_vec())).await;
    }
}

fn lost_news(lost: CallLost) -> HostLost {
    HostLost {
        tag: lost.tag,
        round: lost.round,
        reason: lost.reason,
        lost: lost.lost.into_iter().collect(),
    }
}

fn refused(error: &CallError) -> HostRefused {
    let (field, reason) = match error {
        CallError::Value { field, rule } => ((*field).to_owned(), rule.clone()),
        other => (String::new(), other.to_string()),
    };
    HostRefused {
        code: error.code().into(),
        field,
        reason,
    }
}
