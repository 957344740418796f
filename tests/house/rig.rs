//! The record of the results on emulated machines, and its page. No machine is started here.

use std::process::Command;

use super::root;

#[test]
fn the_page_of_kernels_says_what_was_found() {
    let output = Command::new("sh").current_dir(root()).args(["rig/table", "--check"]).output().expect("sh starts");
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}
