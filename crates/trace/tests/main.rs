//! Stages of round trips with known delays.

mod known_delays;
