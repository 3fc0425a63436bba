//! Floating-point vectors to words of Z_2^b and back
