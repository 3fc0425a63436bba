//! What comes over a connection: frames of both sides, and messages in chunks. A frame that can be read is
//! written and read as itself; a message is put together from exactly its pieces, in order, and nothing
//! is taken beyond the limit.
#![no_main]

use std::fmt::Debug;

use arbitrary::Arbitrary;
use blindsum_fuzz::{Edit, edited};
use blindsum_job::chunks::{Assembly, CHUNK, Pushed};
use blindsum_net::pb::{self, CoordinatorFrame, PartyFrame, coordinator_frame, party_frame};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use prost::Message;

#[derive(Arbitrary, Debug)]
enum Case {
    /// Any bytes.
    Bytes(Vec<u8>),
    /// A frame with small contents, edited.
    Edited(Small, Vec<Edit>),
    /// A message of some chunks and a few bytes, out of pieces.
    Chunks {
        chunks: u8,
        more: u16,
        limit: u32,
        pieces: Vec<Piece>,
    },
}

/// Frames with parts of their own.
#[derive(Arbitrary, Debug)]
enum Small {
    Hello(String, String, u32, u64),
    Ready(u64, Vec<u8>, Vec<u8>, Vec<u8>),
    Opening(u64, Vec<u8>),
    Confirmed(u64, Vec<u8>, Vec<u8>),
    Chunk(u64, u32, u64, u64, Vec<u8>),
    Fixed(u64, Vec<(Vec<u8>, Vec<u8>)>, Vec<Vec<u8>>, [u32; 3]),
    Start(u64, Vec<(Vec<u8>, Vec<u8>)>, Vec<Vec<u8>>, i32),
    Refused(i32, String),
    Held(String),
}

/// A piece, that of an honest sender but for the changes.
#[derive(Arbitrary, Debug)]
struct Piece {
    offset: i8,
    total: i8,
    length: i8,
    fill: u8,
}

fuzz_target!(|case: Case| match case {
    Case::Bytes(bytes) => read_both(&bytes),
    Case::Edited(frame, edits) => read_both(&edited(&written(frame), &edits)),
    Case::Chunks {
        chunks,
        more,
        limit,
        pieces,
    } => {
        let total = u64::from(chunks % 4) * CHUNK as u64 + u64::from(more);
        assemble(total, u64::from(limit), &pieces);
    }
});

fn read_both(bytes: &[u8]) {
    read::<PartyFrame>(bytes);
    read::<CoordinatorFrame>(bytes);
    if let Ok(PartyFrame {
        frame: Some(party_frame::Frame::Chunk(chunk)),
    }) = PartyFrame::decode(bytes)
    {
        begin(&chunk);
    }
    if let Ok(CoordinatorFrame {
        frame: Some(coordinator_frame::Frame::Chunk(chunk)),
    }) = CoordinatorFrame::decode(bytes)
    {
        begin(&chunk);
    }
}

fn read<F: Message + Default + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(frame) = F::decode(bytes) {
        let again = F::decode(&*frame.encode_to_vec()).expect("what was written can be read");
        assert_eq!(again, frame);
    }
}

/// The first chunk of a message, whatever it says of the whole.
fn begin(chunk: &pb::Chunk) {
    let limit = 1 << 20;
    let Ok(assembly) = Assembly::begin(chunk.total, limit) else {
        assert!(chunk.total == 0 || chunk.total > limit);
        return;
    };
    if let Ok(Pushed::Whole(message)) = assembly.push(chunk.offset, chunk.total, chunk.data.clone())
    {
        assert_eq!((chunk.offset, message), (0, chunk.data.clone()));
    }
}

fn assemble(total: u64, limit: u64, pieces: &[Piece]) {
    let Ok(mut assembly) = Assembly::begin(total, limit) else {
        assert!(total == 0 || total > limit);
        return;
    };
    assert!((1..=limit).contains(&total));
    let mut message = Vec::new();
    for piece in pieces {
        let have = message.len() as u64;
        let due = (total - have).min(CHUNK as u64);
        let offset = have.saturating_add_signed(piece.offset.into());
        let says = total.saturating_add_signed(piece.total.into());
        let length = due.saturating_add_signed(piece.length.into());
        let data = Bytes::from(vec![piece.fill; length as usize]);
        let honest = (offset, says, length) == (have, total, due);
        match assembly.push(offset, says, data.clone()) {
            Err(_) => {
                assert!(!honest);
                return;
            }
            Ok(pushed) => {
                assert!(honest);
                message.extend_from_slice(&data);
                match pushed {
                    Pushed::Part(part) => {
                        assert!((message.len() as u64) < total);
                        assembly = part;
                    }
                    Pushed::Whole(whole) => {
                        assert_eq!(whole.len() as u64, total);
                        assert_eq!(whole, message);
                        return;
                    }
                }
            }
        }
    }
}

fn written(frame: Small) -> Vec<u8> {
    match frame {
        Small::Hello(job, name, answered, round) => PartyFrame::from(pb::Hello {
            first_version: 1,
            last_version: 1,
            program: name.clone(),
            job,
            name,
            round,
            answered,
            connection: round,
            ..Default::default()
        })
        .encode_to_vec(),
        Small::Ready(round, nonce, commitment, key_id) => PartyFrame::from(pb::Ready {
            round,
            nonce,
            key_id,
            lacks_model: false,
            commitment,
        })
        .encode_to_vec(),
        Small::Opening(round, nonce) => {
            PartyFrame::from(pb::NonceOpening { round, nonce }).encode_to_vec()
        }
        Small::Confirmed(round, hash, result) => PartyFrame::from(pb::RoundConfirmed {
            round,
            model: Some(pb::ModelName {
                version: round,
                hash,
                dim: round,
            }),
            result,
        })
        .encode_to_vec(),
        Small::Chunk(round, stage, offset, total, data) => PartyFrame::from(pb::Chunk {
            round,
            stage,
            offset,
            total,
            data: data.into(),
        })
        .encode_to_vec(),
        Small::Fixed(round, roster, certificates, [neighbours, threshold, packing]) => {
            let committed = |(fingerprint, commitment): (Vec<u8>, Vec<u8>)| pb::Committed {
                fingerprint: fingerprint.into(),
                commitment: commitment.into(),
            };
            CoordinatorFrame::from(pb::RosterFixed {
                round,
                model: None,
                roster: roster.into_iter().map(committed).collect(),
                certificates: certificates.into_iter().map(Bytes::from).collect(),
                numbers: Some(pb::Numbers {
                    neighbours,
                    threshold,
                    packing,
                }),
            })
            .encode_to_vec()
        }
        Small::Start(round, roster, certificates, kind) => {
            let participant = |(fingerprint, nonce): (Vec<u8>, Vec<u8>)| pb::Participant {
                fingerprint: fingerprint.into(),
                nonce: nonce.into(),
            };
            CoordinatorFrame::from(pb::RoundStart {
                round,
                model: None,
                roster: roster.into_iter().map(participant).collect(),
                certificates: certificates.into_iter().map(Bytes::from).collect(),
                answers_taken: 0,
                kind,
                numbers: None,
                terms: None,
            })
            .encode_to_vec()
        }
        Small::Refused(code, reason) => CoordinatorFrame::from(pb::Refused {
            code,
            reason,
            ..Default::default()
        })
        .encode_to_vec(),
        Small::Held(reason) => CoordinatorFrame::from(pb::JobHeld { reason }).encode_to_vec(),
    }
}
