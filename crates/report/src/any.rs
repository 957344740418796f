//! A record of any kind.

use hairpin_record::any::AnyRecord;

use crate::doc::{Doc, Show};
use crate::options::Options;

impl Show for AnyRecord {
    fn doc(&self, options: &Options) -> Doc {
        match self {
            AnyRecord::Run(record) => record.doc(options),
            AnyRecord::Explain(record) => record.doc(options),
            AnyRecord::Attached(record) => record.doc(options),
            AnyRecord::Compare(record) => record.doc(options),
            AnyRecord::Load(record) => record.doc(options),
            AnyRecord::Mesh(record) => record.doc(options),
            AnyRecord::Stream(record) => record.doc(options),
            AnyRecord::Sweep(record) => record.doc(options),
            AnyRecord::TuneTry(record) => record.doc(options),
            AnyRecord::Bounce(record) => record.doc(options),
            AnyRecord::Check(record) => record.doc(options),
            AnyRecord::Noise(record) => record.doc(options),
            AnyRecord::Probe(record) => record.doc(options),
            AnyRecord::Primitives(record) => record.doc(options),
            // No kind that exists comes here: a test draws each.
            _ => Doc::default(),
        }
    }
}
