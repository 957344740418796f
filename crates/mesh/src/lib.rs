//! All pairs of many hosts: who measures whom and when, and which host or link is slow.

#![forbid(unsafe_code)]
