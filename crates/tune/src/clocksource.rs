//! The clock behind the kernel's time, and those it could use instead.

use crate::reading::{HostFile, text, words};

pub(crate) static CURRENT: HostFile = HostFile {
    name: "clocksource",
    summary: "The hardware clock that the kernel's time is read from",
    path: "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    form: text,
};

pub(crate) static AVAILABLE: HostFile = HostFile {
    name: "available_clocksources",
    summary: "The hardware clocks that the kernel could use",
    path: "/sys/devices/system/clocksource/clocksource0/available_clocksource",
    form: words,
};
