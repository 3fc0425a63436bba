//! Three servers against numbers in the clear.

mod arithmetic;
mod circuits;
mod fixed_point;
mod line;
mod rules;
mod select;
mod verify;
