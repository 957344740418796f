//! `hairpin floor`: the published tables come out of the command, runs are fitted, and bad input is told.

use std::fs;

use crate::support::{Home, can};
use serde_json::Value;

#[test]
fn the_published_budgets() {
    let home = Home::new();
    let niq = home.json("floor --rate 10G --cable twinax:3m --nic niq --frame 60");
    assert_eq!((niq["schema"].as_str(), niq["total_ns"].as_f64()), (Some("hairpin.floor/1"), Some(1989.0)));
    let sum: f64 = niq["stages"].as_array().unwrap().iter().map(|stage| stage["ns"].as_f64().unwrap()).sum();
    assert_eq!((sum, niq["rtt"]["ns"].as_f64()), (1989.0, Some(3978.0)));
    assert_eq!(home.json("floor --rate 10G --cable twinax:3m --nic dma --frame 64")["total_ns"], 3059.0);
    let both = home.json("floor --nic niq --compare dma");
    assert_eq!((both["schema"].as_str(), both["difference"]["ns"].as_f64()), (Some("hairpin.floor-comparison/1"), Some(1070.0)));
    let wire = home.json("floor --rate 10G --frame 60");
    assert_eq!(
        (wire["nic"].as_str(), wire["total_ns"].as_f64(), wire["rtt"]["ns"].as_f64()),
        (Some("none"), Some(67.2), Some(134.4))
    );
    let text = home.hairpin("floor --rate 10G --cable twinax:3m --nic niq --frame 60");
    text.fails(0, &[]);
    for part in
        ["pcie write     484  24.3 %  ##########", "one way       1989   100 %", "RTT           3978 ns", "14880952 frames"]
    {
        assert!(text.out.contains(part), "{part}:\n{}", text.out);
    }
    assert!(home.hairpin("floor --nic niq --explain").out.contains("Source: Flajslik and Rosenblum"));
    assert!(home.hairpin("floor --nic niq --compare dma").out.contains("+1070"));
}

#[test]
fn the_published_pingpong_table() {
    let home = Home::new();
    let done = home.hairpin("floor --nic sniffer10g --sizes 1..2048x2 --format pingpong");
    done.fails(0, &["HRT is RTT/2, not one-way", "nothing was measured"]);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines.len(), 12);
    assert_eq!(lines[0], "elapsed = 1034146 us, 5.17 per HRT (min:4.94, max:42.67), size 1");
    assert_eq!(lines[11], "elapsed = 1880280 us, 9.40 per HRT (min:7.07, max:20.99), size 2048");
    // The payload that was asked for, not its frame.
    let payload = home.hairpin("floor --nic niq --size 18 --format pingpong");
    assert!(payload.out.contains("size 18\n"), "{}", payload.out);
}

#[test]
fn the_least_tcp_window() {
    let home = Home::new();
    let text = home.hairpin("floor --nic sun-fire-6800 --size 4 --window");
    text.fails(0, &[]);
    assert!(text.out.contains("TCP window    17914 bytes at least: 1Gbit/s times the RTT above"), "{}", text.out);
    let given = home.json("floor --rate 1G --window=1ms");
    assert_eq!((given["window"]["low_bytes"].as_u64(), given["window"]["declared"].as_bool()), (Some(125_000), Some(true)));
    assert!(home.json("floor --rate 1G")["window"].is_null());
    home.hairpin("floor --rate 1G --frame 60,64 --window").fails(2, &["--window takes one size"]);
    home.hairpin("floor --nic niq --compare dma --window").fails(2, &["--window"]);
    for window in ["0s", "1001s"] {
        home.hairpin(&format!("floor --rate 1G --window={window}")).fails(2, &["1ns to 1000s"]);
    }
}

#[test]
fn the_published_reads_over_pcie() {
    let home = Home::new();
    let text = home.hairpin("floor pcie --published");
    text.fails(0, &[]);
    let words = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("nothing was measured here") && words.contains("initiator inferred"), "{}", text.out);
    for row in ["768    1.90  764  776", "768    2.02  764  784", "756    8.59  736  772"] {
        assert!(text.out.contains(row), "{row}:\n{}", text.out);
    }
    let table = home.json("floor pcie --published");
    assert_eq!((table["schema"].as_str(), table["origin"].as_str()), (Some("hairpin.floor-pcie-published/1"), Some("published")));
    assert_eq!(
        table["published"]["rows"][2],
        serde_json::json!({"cpu": "writes the line", "mean": 756.0, "stddev": 8.59, "min": 736.0, "max": 772.0})
    );
    home.hairpin("floor pcie --published --device 0000:00:00.0 --bar 0 --offset 0").fails(2, &["cannot be used with"]);
}

#[test]
fn pcie_header_sizes_are_labelled_where_they_are_counted() {
    let home = Home::new();
    let words = |args: &str| home.hairpin(args).out.split_whitespace().collect::<Vec<_>>().join(" ");
    let label = "header sizes of three and four doublewords (inferred: the source prints TX 12 B and RX 16 B";
    let counted = words("floor --nic dma --frame 1514 --pcie gen2x4");
    assert!(counted.contains(label), "{counted}");
    let published = words("floor --nic dma --frame 64 --pcie gen2x4");
    assert!(published.contains("3059") && !published.contains("header sizes"), "{published}");
}

#[test]
fn several_sizes_are_a_table() {
    let home = Home::new();
    let sizes = home.json("floor --nic niq --frame 60,64,1514");
    assert_eq!(sizes["schema"], "hairpin.floor-sizes/1");
    let totals: Vec<f64> = sizes["floors"].as_array().unwrap().iter().map(|floor| floor["total_ns"].as_f64().unwrap()).collect();
    assert_eq!(totals, [1989.0, 3059.0, 4219.0]);
    let text = home.hairpin("floor --nic niq --sizes 18,22");
    assert!(text.out.contains("1989") && text.out.contains("3059"), "{}", text.out);
}

#[test]
fn hops_and_a_design_of_the_users_own() {
    let home = Home::new();
    let with = home.json("floor --rate 10G --cable coax:0m --hop cut-through:300ns,twinax:2m --hop store-and-forward:1us");
    assert_eq!(with["total_ns"], 67.2 + 300.0 + 10.2 + 1000.0 + 57.6);
    let sound = "name = \"mine\"\nabout = \"a card\"\n[[design]]\nframe = 60\nrate = \"25G\"\n[[design.out]]\nname = \"all\"\nns = 700.5\nclass = \"assumed\"\nsource = \"a guess\"\n";
    fs::write(home.file("mine.toml"), sound).unwrap();
    assert_eq!(home.json("floor --nic mine.toml")["total_ns"], 700.5);
    for (from, to, parts) in [
        ("ns = 700.5", "ns = -1", &["mine.toml:8:6: -1 ns is not a valid stage time"][..]),
        ("ns = 700.5\n", "", &["mine.toml:6:1: the stage has no figure"]),
        ("source = \"a guess\"\n", "", &["mine.toml:6:1: missing field `source`"]),
        ("about", "abuot", &["mine.toml:2:1: unknown field `abuot`"]),
    ] {
        fs::write(home.file("mine.toml"), sound.replacen(from, to, 1)).unwrap();
        home.hairpin("floor --nic mine.toml").fails(2, parts);
    }
}

#[test]
fn a_run_is_fitted() {
    let home = Home::new();
    let mut run: Value = serde_json::from_str(include_str!("../crates/record/tests/data/run-1.json")).unwrap();
    let row = run["results"][0].clone();
    let rows = [8u64, 16, 32, 48, 64, 128, 256, 512, 1024].map(|bytes| {
        let mut row = row.clone();
        row["path"] = "udp:spin/spin".into();
        (row["request_bytes"], row["reply_bytes"]) = (bytes.into(), bytes.into());
        row["rtt_ns"]["p50"] = (if bytes < 64 { 4000 } else { 6140 } + 2 * bytes).into();
        row
    });
    run["results"] = rows.to_vec().into();
    fs::write(home.file("run.json"), run.to_string()).unwrap();
    let fit = home.json("floor --fit run.json --rate 10G");
    assert_eq!(fit["schema"], "hairpin.floor-fit/1");
    let path = &fit["paths"][0];
    assert_eq!(path["path"], "udp:spin/spin");
    let near = |value: &Value, want: f64| assert!((value.as_f64().unwrap() - want).abs() < 1e-6, "{value} is not {want}");
    near(&path["fit"]["line"]["base_ns"]["value"], 4000.0);
    near(&path["fit"]["above"]["ns_per_byte"]["value"], 2.0);
    near(&path["fit"]["step"]["jump_ns"]["value"], 2140.0);
    assert_eq!((&path["fit"]["step"]["after_bytes"], &path["fit"]["step"]["by_bytes"]), (&48.0.into(), &64.0.into()));
    let text = home.hairpin("floor --fit run.json --rate 10G");
    text.fails(0, &[]);
    assert!(text.out.contains("A new mechanism starts above 48 bytes"), "{}", text.out);
    home.hairpin("floor --fit nothing").fails(1, &["no run"]);
}

#[test]
fn a_measurement_stands_beside_its_floor() {
    let home = Home::new();
    let quick = "ping --link loopback --path udp:spin --count 200 --warmup 1ms --no-store";
    let run = home.json(&format!("{quick} --size 18 --rate 10G --cable twinax:3m --nic niq"));
    let floor = &run["results"][0]["floor"];
    assert_eq!((floor["total_ns"].as_f64(), floor["rtt"]["ns"].as_f64()), (Some(1989.0), Some(3978.0)));
    let text = home.hairpin(&format!("{quick} --size 18 --nic niq"));
    assert!(text.out.contains("floor 3.978 us (niq, 10Gbit/s, twinax:3m)"), "{}", text.out);
    // Not declared: not in the record. Declared and unknown: reported.
    assert_eq!(home.json(quick)["results"][0]["floor"], Value::Null);
    let unknown = home.json(&format!("{quick} --floor"));
    assert_eq!(unknown["results"][0]["floor"], Value::Null);
    let said = unknown["results"][0]["warnings"].as_array().unwrap().iter().find(|note| note["code"] == "no-floor").unwrap();
    assert!(said["message"].as_str().unwrap().contains("nothing tells the rate"), "{said}");
    home.hairpin(&format!("{quick} --nic x710")).fails(2, &["there is no NIC design"]);
}

#[test]
fn the_steps_of_a_driver_are_measured_over_memory() {
    let home = Home::new();
    let found = home.json("floor pcie");
    assert_eq!((found["schema"].as_str(), found["origin"].as_str()), (Some("hairpin.floor-pcie-primitives/1"), Some("measured")));
    let ways: Vec<&str> = found["implementations"].as_array().unwrap().iter().map(|way| way["name"].as_str().unwrap()).collect();
    assert_eq!(ways, ["coherent", "mapped"]);
    for way in found["implementations"].as_array().unwrap() {
        let steps = way["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 5);
        assert!(steps.iter().all(|step| (0.0..100_000.0).contains(&step["alone_ns"].as_f64().unwrap())), "{way}");
    }
    let text = home.hairpin("floor pcie");
    text.fails(0, &[]);
    assert!(text.out.contains("nothing crosses PCIe") && text.out.contains("read line anew"), "{}", text.out);
}

#[test]
fn a_probe_of_no_device_is_refused() {
    let home = Home::new();
    for (args, parts) in [
        ("--device eth0 --bar 0 --offset 0", &["\"eth0\" is not a PCI address", "0000:3b:00.0"][..]),
        ("--device 3b:00 --bar 0 --offset 0", &["is not a PCI address"]),
        ("--device 0000:00:00.0 --bar 0", &["add --offset 0x8"]),
        ("--device 0000:00:00.0 --offset 0", &["add --bar "]),
        ("--bar 0 --offset 0", &["add --device 0000:3b:00.0"]),
        ("--device 0000:00:00.0 --bar 0 --offset ten", &["write bytes as 8 or 0x8"]),
        ("--device 0000:00:00.0 --bar 0 --offset -4", &["'-4'"]),
        ("--device 0000:00:00.0 --bar 256 --offset 0", &["a whole number from 0 to 255"]),
        ("--device 0000:00:00.0 --bar 0 --offset 0 --count 0", &["a whole number from 1 to"]),
    ] {
        home.hairpin(&format!("floor pcie {args}")).fails(2, parts);
    }
    // No machine has a device there; one without PCI says that instead.
    let nowhere = home.hairpin("floor pcie --device 7fff:fe:1f.7 --bar 0 --offset 0");
    let pci = std::path::Path::new("/sys/bus/pci/devices").exists();
    let (code, why) =
        if pci { (2, "there is no PCI device 7fff:fe:1f.7; there are") } else { (4, "this host shows no PCI devices") };
    nowhere.fails(code, &[why]);
}

/// The first device that this host has: nothing of it is read, every case is refused before.
#[test]
fn rejects_probes_of_missing_registers() {
    let home = Home::new();
    let device = fs::read_dir("/sys/bus/pci/devices").ok().and_then(|mut all| all.next());
    if !can("rejects_probes_of_missing_registers", device.is_some(), "this host has no PCI device") {
        return;
    }
    let device = device.unwrap();
    let device = device.unwrap().file_name().into_string().unwrap();
    home.hairpin(&format!("floor pcie --device {device} --bar 9 --offset 0"))
        .fails(2, &[&format!("{device} has no BAR 9; it has ")]);
    for bar in 0..6 {
        // No BAR, I/O ports, or no such word: usage in each case.
        home.hairpin(&format!("floor pcie --device {device} --bar {bar} --offset 0x3")).fails(2, &[&device]);
    }
}

#[test]
fn bad_input_is_reported() {
    let home = Home::new();
    for (args, parts) in [
        ("", &["nothing tells the rate", "--wire 10G"][..]),
        ("--rate 9M", &["10M to 800G"]),
        ("--rate fast", &["is not a bit rate"]),
        ("--rate 10G --cable rope:3m", &["there is no cable \"rope\"", "coax, twisted-pair, optical, twinax"]),
        ("--rate 10G --cable twinax", &["TYPE:LENGTH"]),
        ("--nic x710", &["there is no NIC design \"x710\"", "niq, dma, sniffer10g"]),
        ("--nic nowhere.toml", &["cannot read the NIC design nowhere.toml"]),
        ("--nic niq --frame 0", &["1 to 9212"]),
        ("--nic niq --frame 9213", &["1 to 9212"]),
        ("--nic niq --frame 60 --sizes 18", &["cannot be used with"]),
        ("--nic niq --frame 60,64 --compare dma", &["--compare takes one size"]),
        ("--nic niq --frame 60,64 --explain", &["--explain takes one size"]),
        ("--nic niq --hop tunnel:3ns", &["cut-through:LATENCY"]),
        ("--nic niq --fec on --rate 1G", &["no forward error correction"]),
        ("--nic none --link-rate 10G --pcie gen3x8", &["leave --pcie out"]),
        ("--nic dma --pcie gen9x8", &["genGxLANES"]),
        ("--fit latest --nic niq", &["cannot be used with"]),
    ] {
        home.hairpin(&format!("floor {args}")).fails(2, parts);
    }
}
