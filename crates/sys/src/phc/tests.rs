use super::*;
use crate::clock::{AnyClock, MonotonicRaw, kernel_ns};

const EPOCH: i64 = 1_700_000_000_000_000_000;

/// With ticks of 1 ns the tick of a point is a time of CLOCK_MONOTONIC_RAW.
fn point_of(phc: &Phc) -> Point {
    phc.point(&MonotonicRaw).expect("a point")
}

#[test]
fn the_best_way_that_the_device_has_is_used_and_those_it_lacks_are_said() {
    for (has, lacks) in [(&Method::ALL[..], 0), (&Method::ALL[1..], 1), (&Method::ALL[2..], 2)] {
        let phc = Phc::over(3, Box::new(FakeNicClock::new(EPOCH, 0, has))).expect("a way");
        assert_eq!((phc.method(), phc.passed_over().len(), phc.index()), (has[0], lacks, 3));
        assert!(phc.passed_over().iter().all(|(_, why)| why.raw_os_error() == Some(libc::EOPNOTSUPP)));
    }
    let error = Phc::over(3, Box::new(FakeNicClock::new(EPOCH, 0, &[]))).expect_err("no way").to_string();
    assert!(
        error.starts_with("the NIC's clock /dev/ptp3 cannot be read beside the system's: PTP_SYS_OFFSET_PRECISE: "),
        "{error}"
    );
}

#[test]
fn a_point_is_right_to_within_half_its_width_wherever_in_the_bracket_the_clock_was_read() {
    for has in Method::ALL {
        for inside in [0.0, 0.5, 1.0] {
            let nic = FakeNicClock::new(EPOCH, 20_000, &[has]).inside(inside);
            let phc = Phc::over(0, Box::new(nic.clone())).expect("a way");
            for _ in 0..20 {
                let point = point_of(&phc);
                let off = (point.nic_ns as i64 - nic.at(point.ticks.0)).unsigned_abs();
                let within = point.width_ns / 2 + 1 + nic.blind_ns();
                assert!(off <= within, "{has} at {inside}: off by {off} ns, width {}", point.width_ns);
                let least = if has == Method::Precise { 1 } else { 1_000 };
                assert!(point.width_ns >= least, "{has}: no narrower than its bracket: {}", point.width_ns);
            }
        }
    }
}

#[test]
fn the_narrowest_bracket_counts_and_one_that_goes_back_does_not() {
    let bracket = |before_ns, nic_ns, after_ns| Between { before_ns, nic_ns, after_ns };
    let all = [bracket(0, 1, 900), bracket(1_000, 2, 1_200), bracket(5_000, 3, 4_000), bracket(2_000, 4, 2_300)];
    assert_eq!(narrowest(&all), Some(bracket(1_000, 2, 1_200)));
    assert_eq!(narrowest(&all[2..3]), None);
    assert_eq!(narrowest(&[]), None);
}

#[test]
fn a_device_that_has_gone_is_an_error_that_names_it() {
    let nic = FakeNicClock::new(EPOCH, 0, &[Method::Extended]);
    let phc = Phc::over(7, Box::new(nic.clone())).expect("a way");
    nic.fail(libc::ENODEV);
    let error = phc.point(&MonotonicRaw).expect_err("it has gone").to_string();
    assert_eq!(error, "cannot read the NIC's clock /dev/ptp7 by PTP_SYS_OFFSET_EXTENDED: No such device (os error 19)");
    let early = Phc::over(7, Box::new(FakeNicClock::new(-1_000_000_000, 0, &[Method::Precise]))).expect("a way");
    let error = early.point(&MonotonicRaw).expect_err("no time").to_string();
    assert!(error.contains("shows a time before 1970"), "{error}");
}

#[test]
fn a_device_that_is_busy_is_asked_again() {
    let nic = FakeNicClock::new(EPOCH, 0, &[Method::Precise]);
    nic.fail_once(libc::ETIMEDOUT);
    let phc = Phc::over(7, Box::new(nic.clone())).expect("a way, although it was busy at first");
    for error in [libc::ETIMEDOUT, libc::EBUSY, libc::EAGAIN] {
        nic.fail_once(error);
        point_of(&phc);
    }
    nic.fail(libc::EBUSY);
    let asked = nic.asked();
    let error = phc.point(&MonotonicRaw).expect_err("it stays busy").to_string();
    assert!(error.starts_with("cannot read the NIC's clock /dev/ptp7 by PTP_SYS_OFFSET_PRECISE: "), "{error}");
    assert_eq!(nic.asked() - asked, TRIES as usize);
}

#[test]
fn clocks_that_keep_step_are_not_said_to_have_moved() {
    let at = |ns: i64, middle| Bracket { middle, ns: (EPOCH + ns) as u64, width: 30 };
    assert_eq!(moved(&at(1, 5_000), &at(20_101, 25_100), 1.0), (20_100.0, 0.0));
    assert_eq!(moved(&at(1, 5_000), &at(20_001, 65_198), 3.0).1, 66.0, "steered");
    assert_eq!(moved(&at(1, 5_000), &at(-999, 25_100), 1.0).1, 21_100.0, "set back");
}

#[test]
fn a_clock_that_is_not_there_says_so() {
    let error = Phc::open(4_000_000_000).expect_err("no such clock").to_string();
    let said = "the NIC's clock /dev/ptp4000000000 does not exist: the driver has none, or this container's /dev lacks it (pass --device /dev/ptp4000000000)";
    assert_eq!(error, said);
}

#[test]
fn the_time_of_day_is_a_point_too() {
    let clock = AnyClock::calibrate().0;
    let before = kernel_ns(ClockId::Realtime);
    let point = Point::of_realtime(&clock);
    let after = kernel_ns(ClockId::Realtime);
    // If the time of day is set back meanwhile, the readings have no order.
    assert!(after < before || (before..=after).contains(&point.nic_ns), "{before} {} {after}", point.nic_ns);
    assert!(point.width_ns > 0);
}
