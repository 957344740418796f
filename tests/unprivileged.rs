//! Without privileges: the features that work all the same, and the error where a namespace is forbidden.

use crate::support::{Home, can, home_of_nobody, namespaces, namespaces_of_nobody, root, rows};

const QUICK: &str = "--count 200 --warmup 5ms";

#[test]
fn loopback_needs_no_privilege() {
    if !can("loopback_needs_no_privilege", root(), "becoming the user nobody needs root") {
        return;
    }
    let home = home_of_nobody();
    let done = home.as_nobody(&format!(
        "ping --link loopback {QUICK} --json --path tcp --path tcp-crr --path udp --path unix --path unix-dgram --path pipe --path udp:busy-poll --path niq:spin --path niq:block"
    ));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(rows(&done.json()).len(), 9);
    assert!(done.err.contains("stored as"), "{done:?}");
    let small = home.as_nobody(&format!("ping --link loopback {QUICK} --size 8 --path eventfd --path memory"));
    assert_eq!(small.code, Some(0), "{small:?}");
}

#[test]
fn paths_says_in_a_line_what_root_would_add() {
    if !can("paths_says_in_a_line_what_root_would_add", root(), "becoming the user nobody needs root") {
        return;
    }
    let done = home_of_nobody().as_nobody("paths");
    let last = done.out.lines().last().expect("lines");
    assert_eq!(last, "root adds: packet, xdp, stages of explain, tune apply (docs/install.md)", "{done:?}");
}

#[test]
fn veth_works_in_a_user_namespace() {
    if !can("veth_works_in_a_user_namespace", namespaces_of_nobody(), "the user nobody may not make namespaces here") {
        return;
    }
    let home = home_of_nobody();
    let done =
        home.as_nobody(&format!("ping --link veth:mtu=9000,gro=on,tso=off,timestamps=off {QUICK} --json --path tcp --path udp"));
    assert_eq!(done.code, Some(0), "{done:?}");
    let run = done.json();
    assert_eq!((&run["link"]["kind"], &run["link"]["mtu"]), (&"veth".into(), &9000.into()));
    assert_eq!(run["hosts"]["client"]["tcp_timestamps"], 0);
    assert_eq!(rows(&run).len(), 2);
}

#[test]
fn a_forbidden_user_namespace_names_the_sysctl() {
    if !can("a_forbidden_user_namespace_names_the_sysctl", namespaces() && namespaces_of_nobody(), "needs namespaces of its own")
    {
        return;
    }
    // The sysctl counts per user namespace: inside one of the test's own it can be set to 0 and binds those below, and a process
    // that has dropped its capabilities there is like an ordinary user on a host where it is 0.
    let home = home_of_nobody();
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs {}/hairpin ping --link veth {QUICK} --path udp",
        home.path().display()
    );
    let done = as_user_in_own_namespace(&home, &script);
    done.fails(4, &["max_user_namespaces", "sysctl"]);
    assert!(done.out.is_empty(), "{done:?}");
}

/// Runs a script as root of a new user namespace, which is the user nobody outside.
fn as_user_in_own_namespace(home: &Home, script: &str) -> crate::support::Done {
    let mut command = crate::support::nobody("unshare");
    command.env("HAIRPIN_RUNS", home.runs()).current_dir(home.path()).args(["--user", "--map-root-user", "sh", "-c", script]);
    home.spawn(command).done()
}
