//! What becomes of a member of the roster that is fixed: it opens its nonce, or it does not.

use std::sync::Arc;

use super::Halt;
use super::fixed::Fixed;
use super::state::State;

/// Tells a member that the roster is fixed, now or once it is back.
pub(super) fn send_fixed(state: &mut State, name: &str) {
    if let Some(opening) = state.phase.fixed_mut() {
        opening.send(&mut state.connections, name, state.context.now());
    }
}

/// A member that cannot open or does not want to: it has done nothing wrong, and waits for another round. Where its
/// nonce is known already the round can begin, and do without it.
pub(super) fn will_not_open(state: &mut State, name: &Arc<str>, reason: String) {
    let opening = state.phase.fixed_mut();
    if let Some(opening) = opening.filter(|opening| opening.misses(name)) {
        opening.fail(name, reason.clone());
        state.back_off.conduct.kept_nonce_back(name);
        state.calls.without(name, &reason);
    }
}

/// A member that lies about its nonce.
fn lied_opening(state: &mut State, name: &Arc<str>, reason: String) {
    // guard: who-lies-about-its-nonce-sits-out
    state.back_off.conduct.lied(name);
    state.calls.without(name, &reason);
    if let Some(opening) = state.phase.fixed_mut() {
        opening.fail(name, reason);
    }
}

/// The deadline has passed. Who has said nothing may have kept its nonce back, or its connection is dead and nobody
/// knows yet. Where it is more than may lie, what is at fault is nothing of theirs.
pub(super) fn too_late(state: &mut State, seconds: f64) -> Result<(), Halt> {
    let missing = state
        .phase
        .fixed()
        .into_iter()
        .flat_map(Fixed::missing)
        .cloned();
    let (here, lost): (Vec<_>, Vec<_>) = missing.partition(|name| state.connections.has(name));
    let said_nothing = format!("said nothing within {seconds} s");
    for name in &lost {
        will_not_open(state, name, "its connection was lost".into());
    }
    if here.len() > state.context.spec().corrupt_parties() {
        let count = here.len();
        let reason = format!("{count} parties did not open their nonces: they {said_nothing}");
        return Err(Halt::Aborted(reason));
    }
    for name in &here {
        will_not_open(state, name, format!("it {said_nothing}"));
    }
    Ok(())
}

/// A nonce, which must be the one to which its party committed.
pub(super) fn nonce_opened(state: &mut State, name: &Arc<str>, nonce: &[u8]) {
    let opening = state.phase.fixed_mut();
    match opening.and_then(|opening| opening.open(state.context.job(), name, nonce)) {
        Some(true) => state.context.news(),
        Some(false) => {
            lied_opening(
                state,
                name,
                "its nonce is not the one that it committed to".into(),
            );
        }
        None => {}
    }
}
