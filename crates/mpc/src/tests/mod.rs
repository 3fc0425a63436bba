//! Three servers against numbers in the clear.

mod arithmetic;
mod circuits;
mod clipping;
mod coin;
mod direction;
mod fixed_point;
mod gate;
mod line;
mod ranges;
mod rules;
mod select;
mod trust;
mod vectors;
mod verify;
mod views;
