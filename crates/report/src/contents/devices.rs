//! Reads of PCI devices, and the costs of a driver's steps.

use hairpin_record::any::AnyRecord;
use hairpin_record::pcie::{Primitives, Probe};

use super::distribution::summary;
use crate::prose::clean;
use crate::view::{DeviceReads, DriverStep, Input};

/// One entry for each record of a device.
pub(super) fn reads(given: &[Input]) -> Vec<DeviceReads> {
    let of = |(at, given): (usize, &Input)| match &given.record {
        AnyRecord::Probe(probe) => Some(read(at + 1, probe)),
        _ => None,
    };
    given.iter().enumerate().filter_map(of).collect()
}

fn read(record: usize, probe: &Probe) -> DeviceReads {
    DeviceReads {
        record,
        label: clean(&format!("{}, BAR {}, offset {:#x}", probe.device.address, probe.bar, probe.offset)),
        count: probe.reads.read_ns.count,
        times: summary(&probe.reads.read_ns, &[]),
    }
}

/// Every step of every way, in the order of the records.
pub(super) fn steps(given: &[Input]) -> Vec<DriverStep> {
    let of = |(at, given): (usize, &Input)| match &given.record {
        AnyRecord::Primitives(record) => costs(at + 1, record),
        _ => Vec::new(),
    };
    given.iter().enumerate().flat_map(of).collect()
}

fn costs(record: usize, primitives: &Primitives) -> Vec<DriverStep> {
    let of = |way: &hairpin_record::pcie::Implementation| {
        let implementation = clean(&way.name);
        let step = |step: &hairpin_record::pcie::Step| DriverStep {
            record,
            name: clean(&step.name),
            implementation: implementation.clone(),
            alone_ns: step.alone_ns,
            in_a_row_ns: step.in_a_row_ns,
        };
        way.steps.iter().map(step).collect::<Vec<_>>()
    };
    primitives.implementations.iter().flat_map(of).collect()
}
