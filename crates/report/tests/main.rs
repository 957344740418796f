//! Texts, tables, pictures and pages as users read them, and rules that hold for all of them.

mod attached;
mod brief;
mod clocks;
mod drawn;
mod experiments;
mod explain;
mod floor;
mod formats;
mod goldens;
mod host_and_wire;
mod incidents;
mod kinds;
mod load;
mod mesh;
mod noise;
mod screens;
mod split;
mod tune;
mod view;
mod watch;
mod width;
mod words;
