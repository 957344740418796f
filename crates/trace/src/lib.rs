//! Where the time of a round trip goes: hooks in the kernel, their stamps joined into stages, and the causes of slow ones.

#![forbid(unsafe_code)]
