//! The figures of README and docs: each block is as its record gives it, none says that it is of the present measured code when
//! it is not, and each figure of a sentence stands in a record that the sentence cites.
//!
//! Blocks of older code that say so are no fault here; `make figures CHECK=1` and `make test-packages` name them.

use super::root;
use crate::bench::{code, figures::blocks};

#[test]
fn every_quoted_figure_stands_in_its_record() {
    let here = code::here().expect("scripts/measured-code.sh");
    let wrong = blocks::wrong(&root(), &here, false).unwrap_or_else(|why| vec![why]);
    assert_eq!(wrong, Vec::<String>::new(), "figures that their records do not give");
}
