//! Rounds that a host begins at a coordinator elsewhere, as an operator.

use blindsum_crypto::pki::{Kind, Validity};
use blindsum_job::calls::{Call, CallEnd};
use blindsum_net::admin::{Admin, AdminError};
use blindsum_net::coordinator::JobConfig;
use blindsum_net::pb::admin_client::AdminClient;
use blindsum_net::pb::host_news::News;
use blindsum_net::pb::host_word::Word;
use blindsum_net::pb::{HostBegin, HostFailed, HostWord};
use blindsum_net::{Credentials, NetError};
use blindsum_protocol::{JobSpec, ModelUpdate, ProtocolName};
use tonic::Code;

use crate::common::{Pki, Running, config, dial, now, spec};

fn hosted(pki: &Pki) -> Running {
    let spec = JobSpec {
        rounds: 0,
        min_parties: 2,
        model_update: ModelUpdate::Add,
        ..spec(ProtocolName::Plain, 3)
    };
    let mut config = config(pki, vec![spec.clone()], None);
    config.admin = Some("127.0.0.1:0".into());
    config.jobs = vec![JobConfig {
        spec,
        initial_model: None,
        results: None,
        hosted: true,
    }];
    Running::with(config).unwrap()
}

fn operator(pki: &Pki) -> Credentials {
    pki.issue("flora", &Kind::Operator, Validity::days(now() - 60, 1))
}

fn call(tag: u64) -> Call {
    Call {
        tag: Some(tag),
        about: None,
        parties: vec!["hospital-a".into(), "hospital-b".into()],
        model: None,
        join_within: Some(60.0),
        deadline: None,
    }
}

/// The job has no round under way: one may begin, and is called off.
fn is_free(coordinator: &Running, operator: &Credentials) {
    let url = coordinator.admin_url();
    coordinator.block_on(async {
        let admin = Admin::connect(&url, operator, None).await.unwrap();
        let round = admin.host("test", call(9)).await.unwrap();
        round.control().call_off("enough").await;
        let (end, _) = round.end().await.unwrap();
        assert!(matches!(end, CallEnd::Lost(lost) if lost.reason.ends_with("enough")));
    });
}

#[test]
fn words_that_make_up_no_call_begin_nothing() {
    let pki = Pki::new(1);
    let coordinator = hosted(&pki);
    let runtime = dial::runtime();
    let client = || {
        let (url, operator) = (coordinator.admin_url(), operator(&pki));
        AdminClient::new(dial::channel(&runtime, &url, &operator).unwrap())
    };
    let begin = |model| {
        Word::Begin(HostBegin {
            job: "test".into(),
            parties: vec!["hospital-a".into(), "hospital-b".into()],
            model,
            ..HostBegin::default()
        })
    };
    let failed = Word::Failed(HostFailed::default());
    let wrong: [&[Word]; 6] = [
        &[],
        std::slice::from_ref(&failed),
        &[Word::Model(vec![0; 8])],
        // No model, one that ends early, one that is longer than it says.
        &[begin(Some(40)), failed.clone()],
        &[begin(Some(40)), Word::Model(vec![0; 16])],
        &[begin(Some(40)), Word::Model(vec![0; 48])],
    ];
    for words in wrong {
        let words = words.iter().map(|word| HostWord {
            word: Some(word.clone()),
        });
        let words: Vec<_> = words.collect();
        let mut client = client();
        let said = client.host(tokio_stream::iter(words));
        let refused = runtime.block_on(said).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
    // Nothing is kept for a model of a size that the job does not have.
    let mut client = client();
    let news = runtime.block_on(async {
        let words = tokio_stream::iter([HostWord {
            word: Some(begin(Some(1 << 60))),
        }]);
        let mut news = client.host(words).await.unwrap().into_inner();
        news.message().await.unwrap().unwrap().news.unwrap()
    });
    assert!(matches!(news, News::Refused(refused) if refused.field == "model"));
    is_free(&coordinator, &operator(&pki));
}

#[test]
fn a_host_that_goes_away_calls_its_round_off() {
    let pki = Pki::new(1);
    let coordinator = hosted(&pki);
    let operator = operator(&pki);
    let url = coordinator.admin_url();
    coordinator.block_on(async {
        let admin = Admin::connect(&url, &operator, None).await.unwrap();
        drop(admin.host("test", call(1)).await.unwrap());
        // Until the coordinator has noticed, it is busy.
        loop {
            let admin = Admin::connect(&url, &operator, None).await.unwrap();
            match admin.host("test", call(1)).await {
                Ok(round) => break round.control().call_off("enough").await,
                Err(AdminError::Call { code, .. }) => assert_eq!(code, "busy"),
                Err(error) => panic!("{error}"),
            }
        }
    });
    is_free(&coordinator, &operator);
    // One that the coordinator lets down hears of it.
    let round = coordinator.block_on(async {
        let admin = Admin::connect(&url, &operator, None).await.unwrap();
        admin.host("test", call(2)).await.unwrap()
    });
    coordinator.stop().unwrap();
    let end = tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(round.end());
    match end {
        Err(AdminError::Net(NetError::Unreachable { .. })) | Ok((CallEnd::Lost(_), _)) => {}
        other => panic!("{:?}", other.map(|(end, _)| end)),
    }
}
