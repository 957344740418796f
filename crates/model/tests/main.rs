//! The model against published figures.

mod published;
