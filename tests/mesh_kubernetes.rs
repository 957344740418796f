//! `hairpin mesh --engine kubernetes --print`: the manifests as a cluster reads them; cluster/cases/kubernetes hands them to a
//! real API server.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde::Deserialize;
use serde_json::Value;

use crate::support::{Done, HAIRPIN, Home, can, free_port};

const PRINT: &str = "mesh --engine kubernetes --print --image registry.example/hairpin:1 -N 2";

/// The objects of a stream, in order.
fn objects(done: &Done) -> Vec<Value> {
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
    let read = |document| Value::deserialize(document).unwrap_or_else(|error| panic!("{error}: {}", done.out));
    serde_yaml_ng::Deserializer::from_str(&done.out).map(read).collect()
}

fn kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

fn pod_of(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]
}

fn pod(objects: &[Value]) -> &Value {
    pod_of(kind(objects, "Job"))
}

fn words(objects: &[Value]) -> Vec<String> {
    serde_json::from_value(pod(objects)["containers"][0]["args"].clone()).expect("arguments")
}

#[test]
fn a_job_its_names_its_key_and_its_fence() {
    let home = Home::new();
    let printed = home.hairpin(&format!("{PRINT} --namespace hpc-tests"));
    let objects = objects(&printed);
    let kinds: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
    assert_eq!(kinds, ["ServiceAccount", "Secret", "Service", "NetworkPolicy", "Job"]);
    let name = objects[0]["metadata"]["name"].as_str().expect("a name");
    assert!(name.starts_with("hairpin-mesh-"));
    for object in &objects {
        assert_eq!((&object["metadata"]["name"], &object["metadata"]["namespace"]), (&name.into(), &"hpc-tests".into()));
    }
    let spec = &kind(&objects, "Job")["spec"];
    assert_eq!((&spec["completionMode"], &spec["completions"], &spec["parallelism"]), (&"Indexed".into(), &2.into(), &2.into()));
    assert_eq!((&spec["backoffLimitPerIndex"], &spec["template"]["spec"]["restartPolicy"]), (&0.into(), &"Never".into()));
    let (pod, container) = (pod(&objects), &pod(&objects)["containers"][0]);
    assert_eq!((&pod["subdomain"], &pod["hostNetwork"]), (&name.into(), &Value::Null));
    assert_eq!(container["resources"]["requests"], container["resources"]["limits"]);
    assert_eq!(container["resources"]["limits"]["cpu"], "2");
    let addresses = &container["env"][0];
    assert_eq!(
        (&addresses["name"], &addresses["valueFrom"]["fieldRef"]["fieldPath"]),
        (&"POD_IPS".into(), &"status.podIPs".into())
    );
    let rights = &container["securityContext"];
    assert_eq!((&rights["capabilities"]["drop"][0], &rights["readOnlyRootFilesystem"]), (&"ALL".into(), &true.into()));
    assert_eq!((&pod["securityContext"]["runAsNonRoot"], &pod["automountServiceAccountToken"]), (&true.into(), &false.into()));
    let apart = &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    let own = serde_json::json!({ "matchLabels": { "app.kubernetes.io/instance": name } });
    assert_eq!(spec["template"]["metadata"]["labels"]["app.kubernetes.io/instance"], name);
    assert_eq!((&apart["topologyKey"], &apart["labelSelector"]), (&"kubernetes.io/hostname".into(), &own));
    let policy = &kind(&objects, "NetworkPolicy")["spec"];
    assert_eq!((&policy["podSelector"], &policy["ingress"][0]["from"][0]["podSelector"]), (&own, &own));
    let ports: Vec<(u64, u64)> = policy["ingress"][0]["ports"]
        .as_array()
        .expect("ports")
        .iter()
        .map(|port| (port["port"].as_u64().unwrap_or(0), port["endPort"].as_u64().unwrap_or(0)))
        .collect();
    assert_eq!(ports, [(24_446, 0), (24_500, 24_599), (24_500, 24_599)]);
    assert!(words(&objects).contains(&"--data-ports=24500-24599".into()));
    // The lines to type name the same job.
    assert!(printed.out.contains("kubectl wait --namespace=hpc-tests --for=condition=complete"));
    assert_eq!(printed.out.lines().filter(|line| line.starts_with("#     kubectl") && line.contains(name)).count(), 2);

    let key = |objects: &[Value]| kind(objects, "Secret")["stringData"]["key"].as_str().expect("a key").to_owned();
    let again = self::objects(&home.hairpin(PRINT));
    assert_ne!((key(&objects), name), (key(&again), again[0]["metadata"]["name"].as_str().expect("a name")), "made for each");
    assert_eq!(again[4]["metadata"]["namespace"], Value::Null);
}

#[test]
fn flags_change_what_they_say() {
    let home = Home::new();
    fs::write(home.file("key"), "00".repeat(32)).unwrap();
    fs::set_permissions(home.file("key"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(home.file("topology.conf"), "SwitchName=s0 Nodes=n[1-2]\n").unwrap();
    let host = objects(&home.hairpin(&format!("{PRINT} --host-network --key-file key --topology topology.conf --port 7000")));
    assert!(host.iter().all(|object| object["kind"] != "NetworkPolicy"));
    assert_eq!((&pod(&host)["hostNetwork"], &pod(&host)["dnsPolicy"]), (&true.into(), &"ClusterFirstWithHostNet".into()));
    assert_eq!(pod(&host)["containers"][0]["ports"][0]["containerPort"], 7000);
    let files = &kind(&host, "Secret")["stringData"];
    assert_eq!((&files["key"], &files["topology.conf"]), (&"A".repeat(43).into(), &"SwitchName=s0 Nodes=n[1-2]\n".into()));
    let near = objects(&home.hairpin(&format!("{PRINT} --same-host")));
    assert_eq!(pod(&near)["affinity"], Value::Null);
    assert!(words(&near).contains(&"--same-host".into()));

    let mut command = home.command(HAIRPIN);
    command.args(PRINT.split(' ')).args([
        "--fail-if",
        "p99 > 40us",
        "--fail-if",
        "node > 1.3x",
        "--drain",
        "-p",
        "udp:spin",
        "-t1s",
        "--no-store",
    ]);
    let words = words(&objects(&home.spawn(command).done()));
    for word in
        ["--fail-if=p99 > 40us", "--fail-if=node > 1.3x", "--drain=nodes", "--path=udp:spin", "--duration=1s", "--wait=600s"]
    {
        assert!(words.contains(&word.into()), "no {word} in {words:?}");
    }
    assert_eq!(words.iter().filter(|word| word.starts_with("--no-store")).count(), 1);
}

/// The record of two ranks by what is printed, in pods with these addresses, each found where `hosts` says.
fn two_ranks(pods: [&str; 2], port: u16, hosts: &str) -> Value {
    let home = Home::new();
    let objects =
        objects(&home.hairpin(&format!("{PRINT} --visits 4 --duration 100ms --warmup 10ms --json --quiet --port {port}")));
    fs::write(home.file("key"), kind(&objects, "Secret")["stringData"]["key"].as_str().unwrap()).unwrap();
    fs::set_permissions(home.file("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let name = objects[0]["metadata"]["name"].as_str().unwrap();
    // In place of a pod's: its variables, its files, its name.
    let ranks = [0, 1].map(|rank| {
        let mut command = home.command(HAIRPIN);
        command.env("JOB_COMPLETION_INDEX", rank.to_string()).env("NODE_NAME", format!("node-{rank}")).stderr(Stdio::piped());
        command.args(words(&objects).iter().map(|word| match word.split_once('=') {
            Some(("--hosts", names)) => {
                assert_eq!(names, format!("{name}-{{}}.{name}"));
                format!("--hosts={hosts}")
            }
            Some(("--dir", _)) => format!("--dir=m{rank}"),
            Some(("--key-file", _)) => "--key-file=key".into(),
            _ => word.replace("$(POD_IPS)", pods[rank]),
        }));
        home.spawn(command)
    });
    let [zero, one] = ranks.map(|rank| rank.done());
    assert_eq!((zero.code, one.code, one.out.as_str()), (Some(0), Some(0), ""), "{zero:?} {one:?}");
    let record = zero.json();
    assert!(record["pairs"][0]["rtt_ns"]["min"].as_u64() > Some(0), "{record}");
    assert_eq!([0, 1].map(|rank| record["ranks"][rank]["host"].clone()), ["node-0", "node-1"]);
    record
}

#[test]
fn two_ranks_run_by_what_is_printed() {
    two_ranks(["127.0.0.1", "127.0.0.2"], free_port(), "127.0.0.1,127.0.0.2");
}

#[test]
fn pods_have_addresses_of_ipv6_alone_or_of_both_families() {
    let name = "pods_have_addresses_of_ipv6_alone_or_of_both_families";
    if !can(name, UdpSocket::bind("[::1]:0").is_ok(), "this host has no IPv6 loopback") {
        return;
    }
    // A host has one loopback address of IPv6, so its ports tell the ranks apart.
    let ports = [free_port(), free_port()];
    let hosts = ports.map(|port| format!("[::1]:{port}"));
    for (pods, address) in [(["::1", "::1"], "[::1]"), (["127.0.0.1,::1", "127.0.0.2,::1"], "127.0.0.1")] {
        let record = two_ranks(pods, ports[0], &hosts.join(","));
        assert_eq!(record["ranks"][0]["address"], format!("{address}:{}", ports[0]));
    }
}

#[test]
fn wrong_lines_are_answered() {
    let home = Home::new();
    let image = "--image registry.example/hairpin:1";
    home.hairpin(&format!("mesh --engine kubernetes -N 2 {image}"))
        .fails(2, &["speaks to no cluster", "--print", "kubectl apply"]);
    home.hairpin("mesh --engine kubernetes -N 2 --print").fails(2, &["--image", "make packages"]);
    home.hairpin(&format!("mesh --engine kubernetes --print {image}")).fails(2, &["--nodes"]);
    home.hairpin(&format!("{PRINT} --namespace Hpc")).fails(2, &["\"Hpc\" is not a namespace"]);
    home.hairpin("mesh --engine kubernetes -N 2 --print --image a;b").fails(2, &["\"a;b\" is not an image"]);
    home.hairpin(&format!("{PRINT} --partition p")).fails(2, &["--partition has no effect here", "--engine slurm"]);
    home.hairpin(&format!("{PRINT} --dir d")).fails(2, &["--dir has no effect here"]);
    home.hairpin(&format!("{PRINT} --parquet d")).fails(2, &["--parquet has no directory in a pod", "--json"]);
    home.hairpin(&format!("{PRINT} --host-network --same-host")).fails(2, &["leave --same-host out"]);
    home.hairpin(&format!("{PRINT} --port 0")).fails(2, &["--port"]);
    home.hairpin(&format!("{PRINT} --key-file none")).fails(2, &["none"]);
    home.hairpin(&format!("{PRINT} --path pipe")).fails(2, &["pipe"]);
    home.hairpin(&format!("{PRINT} --rank 0")).fails(2, &["--rank"]);
    home.hairpin("mesh --engine slurm -N 2 --print").fails(2, &["--print has no effect here", "--engine kubernetes"]);
    home.hairpin("mesh --engine slurm -N 2 --same-host").fails(2, &["--same-host has no effect here"]);
}

#[test]
fn the_probe_has_flags_that_exist_and_a_port_for_each_neighbour() {
    let home = Home::new();
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/kubernetes/probe.yaml")).expect("the probe");
    let objects: Vec<Value> =
        serde_yaml_ng::Deserializer::from_str(&text).map(|object| Value::deserialize(object).expect("an object")).collect();
    let containers = pod_of(kind(&objects, "DaemonSet"))["containers"].as_array().expect("containers");
    assert_eq!(containers.len(), 4);
    for (at, container) in containers.iter().enumerate() {
        let words: Vec<String> = serde_json::from_value(container["args"].clone()).expect("arguments");
        let help = home.hairpin(&format!("{} --help", words[0])).out;
        for flag in words.iter().filter_map(|word| word.strip_prefix("--")?.split('=').next()) {
            assert!(help.contains(&format!("--{flag}")), "{} has no --{flag}", words[0]);
        }
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "an anchor that is nowhere");
        let port = container["ports"][0]["containerPort"].as_u64();
        match at {
            0 => assert_eq!((words[0].as_str(), port), ("serve", Some(24_444))),
            _ => {
                assert_eq!((words[0].as_str(), &words[1]), ("ping", &format!("ring:{at}:hairpin-probe")));
                assert!(words.contains(&format!("--metrics=[$(POD_IP)]:{}", port.expect("a port"))), "{words:?}");
                assert_eq!(port, Some(24_450 + at as u64));
            }
        }
    }
}
