//! The number of compiled measuring loops: each instance costs compile time, and machine code in the command.

use std::io::ErrorKind;
use std::process::Command;

use crate::support::{HAIRPIN, can};

/// Instances of `hairpin_iopath::drive::run::Over`'s `closed_block` in the built command.
const INSTANCES_AT_MOST: usize = 60;

/// Number of instances of the loop in the output of `nm -C`.
fn instances(symbols: &str) -> usize {
    let names = symbols.lines().filter_map(|line| line.splitn(3, ' ').nth(2));
    names.filter(|name| name.contains("hairpin_iopath::drive::run::Over") && name.ends_with("::closed_block")).count()
}

#[test]
fn the_loop_is_compiled_a_bounded_number_of_times() {
    let name = "the_loop_is_compiled_a_bounded_number_of_times";
    let output = Command::new("nm").args(["-C", HAIRPIN]).output();
    let missing = matches!(&output, Err(error) if error.kind() == ErrorKind::NotFound);
    if !can(name, !missing, "nm is not here: install binutils to count the instances of the measuring loop") {
        return;
    }
    let output = output.expect("nm");
    assert!(output.status.success(), "nm {HAIRPIN}: {}", String::from_utf8_lossy(&output.stderr));
    let found = instances(&String::from_utf8_lossy(&output.stdout));
    assert!(found > 0, "nm finds no instance of the loop in {HAIRPIN}: has it another name?");
    assert!(
        found <= INSTANCES_AT_MOST,
        "{found} instances of the measuring loop, {INSTANCES_AT_MOST} may be: make values of type parameters"
    );
}
