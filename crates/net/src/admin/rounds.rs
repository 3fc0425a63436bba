//! The host's side of rounds that it begins at a coordinator elsewhere.

use blindsum_encode::{Precision, Reals};
use blindsum_job::calls::{Call, CallEnd, CallLost, CallSum};
use blindsum_job::report::MetricReport;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::{Admin, AdminError, in_time};
use crate::pb::admin_client::AdminClient;
use crate::pb::host_news::News;
use crate::pb::host_word::Word;
use crate::pb::{HostBegin, HostFailed, HostNews, HostSum, HostWord};
use crate::plain;

/// The most bytes of a model in one piece.
const PIECE: usize = 1 << 20;

/// A round that was begun at a coordinator elsewhere. The coordinator calls it off where this is dropped before its end.
pub struct HostedRound {
    news: Streaming<HostNews>,
    control: HostControl,
    /// The connection.
    admin: Admin,
}

/// Sends commands of a host for a round that it has begun. Clones control the same round.
#[derive(Clone)]
pub struct HostControl(mpsc::Sender<HostWord>);

impl HostControl {
    /// As [`CallControl::report_failed`](crate::coordinator::CallControl::report_failed).
    pub async fn report_failed(&self, party: &str, reason: &str) {
        let (party, reason) = (party.into(), reason.into());
        self.say(Word::Failed(HostFailed { party, reason })).await;
    }

    /// As [`CallControl::call_off`](crate::coordinator::CallControl::call_off).
    pub async fn call_off(&self, reason: &str) {
        self.say(Word::CallOff(reason.into())).await;
    }

    /// A round that is over hears nothing more.
    async fn say(&self, word: Word) {
        let _ = self.0.send(HostWord { word: Some(word) }).await;
    }
}

impl Admin {
    /// Begins a round of a job whose rounds a host begins.
    ///
    /// # Errors
    /// [`AdminError::Call`] says why none begins.
    pub async fn host(mut self, job: &str, call: Call) -> Result<HostedRound, AdminError> {
        let (sender, words) = mpsc::channel(4);
        let control = HostControl(sender);
        let begun = begin(
            &mut self.client,
            &control,
            ReceiverStream::new(words),
            job,
            call,
        );
        let (first, news) = begun.await.map_err(|status| self.failed(&status))?;
        match first {
            Some(News::Taken(_)) => Ok(HostedRound {
                news,
                control,
                admin: self,
            }),
            Some(News::Refused(refused)) => Err(AdminError::Call {
                code: refused.code,
                field: refused.field,
                reason: refused.reason,
            }),
            _ => Err(self.strange()),
        }
    }

    fn strange(&self) -> AdminError {
        super::unreachable(self.target.url(), STRANGE.into()).into()
    }
}

/// What a coordinator says that speaks another way.
const STRANGE: &str =
    "its answer is none that this version knows: use the same version of Blindsum on both sides";

/// Says the call, and waits for the first news.
async fn begin(
    client: &mut AdminClient<Channel>,
    control: &HostControl,
    words: ReceiverStream<HostWord>,
    job: &str,
    call: Call,
) -> Result<(Option<News>, Streaming<HostNews>), Status> {
    let model = call
        .model
        .map(|model| Reals::in_precision(model, Precision::Double).to_bytes());
    let begin = HostBegin {
        job: job.into(),
        tag: call.tag,
        about: call.about.map_or_else(Vec::new, Into::into),
        parties: call.parties,
        join_within: call.join_within,
        deadline: call.deadline,
        model: model.as_ref().map(|model| model.len() as u64),
    };
    let say = async {
        control.say(Word::Begin(begin)).await;
        for piece in model.unwrap_or_default().chunks(PIECE) {
            control.say(Word::Model(piece.to_vec())).await;
        }
    };
    // The coordinator answers once it has the call, and a model does not fit into what is on its way.
    let (news, ()) = tokio::join!(in_time(client.host(words)), say);
    let mut news = news?.into_inner();
    let first = news.message().await?.and_then(|it| it.news);
    Ok((first, news))
}

impl HostedRound {
    /// Returns a handle that controls the round while its end is awaited.
    pub fn control(&self) -> HostControl {
        self.control.clone()
    }

    /// Waits for the outcome of the round, and returns whether exact sums of the job's integers are below 2^64.
    ///
    /// # Errors
    /// The connection has ended before.
    pub async fn end(mut self) -> Result<(CallEnd, bool), AdminError> {
        match self.next().await? {
            News::Lost(lost) => {
                let lost = CallLost {
                    tag: lost.tag,
                    round: lost.round,
                    reason: lost.reason,
                    lost: lost.lost.into_iter().collect(),
                };
                Ok((CallEnd::Lost(lost), false))
            }
            News::Sum(sum) => {
                let mean = self.array(sum.mean).await?;
                let sums = self.array(sum.sums).await?;
                let fit = sum.sums_fit_64_bits;
                let read = read_sum(sum, &mean, &sums).ok_or_else(|| self.admin.strange())?;
                Ok((CallEnd::Sum(Box::new(read)), fit))
            }
            _ => Err(self.admin.strange()),
        }
    }

    async fn next(&mut self) -> Result<News, AdminError> {
        match self.news.message().await {
            Ok(Some(HostNews { news: Some(news) })) => Ok(news),
            Ok(Some(_)) => Err(self.admin.strange()),
            Ok(None) => {
                Err(super::unreachable(self.admin.target.url(), plain::ENDED.into()).into())
            }
            Err(status) => Err(self.admin.failed(&status)),
        }
    }

    /// An array of so many bytes, in pieces.
    async fn array(&mut self, bytes: u64) -> Result<Vec<u8>, AdminError> {
        let mut array = Vec::new();
        while (array.len() as u64) < bytes {
            match self.next().await? {
                News::Piece(piece) if !piece.is_empty() => array.extend(piece),
                _ => return Err(self.admin.strange()),
            }
        }
        Ok(array)
    }
}

/// A result, from what was said of it and its arrays.
fn read_sum(told: HostSum, mean: &[u8], sums: &[u8]) -> Option<CallSum> {
    let exact = |bytes: u64, found: &[u8]| found.len() as u64 == bytes;
    if !exact(told.mean, mean) || !exact(told.sums, sums) {
        return None;
    }
    let precision = match told.single {
        true => Precision::Single,
        false => Precision::Double,
    };
    let (sums, rest) = sums.as_chunks::<16>();
    if !rest.is_empty() {
        return None;
    }
    let mean = match mean {
        [] => None,
        mean => Some(Reals::from_bytes(precision, mean)?),
    };
    let sums: Vec<u128> = sums.iter().map(|sum| u128::from_le_bytes(*sum)).collect();
    let metrics = told.metrics.into_iter().map(|(name, of)| {
        let (value, share, void) = (of.value, of.share, of.void);
        (name, MetricReport { value, share, void })
    });
    Some(CallSum {
        tag: told.tag,
        round: told.round,
        survivors: told.survivors,
        mean,
        sums: Some(sums).filter(|sums| !sums.is_empty()),
        total_weight: told.total_weight,
        metrics: metrics.collect(),
        lost: told.lost.into_iter().collect(),
        result: told.result,
        model_version: told.model_version,
        seconds: told.seconds,
    })
}
