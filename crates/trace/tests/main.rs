//! Stages of round trips whose delays are known.

mod known_delays;
