//! Published schemas and records against the types.

mod schema;
