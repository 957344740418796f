//! AF_XDP does its work in the stack, or copies every frame, though nobody asked for that.

use hairpin_record::run::{Granted, Side};

use super::{Detector, Observed};
use crate::advice::{Advice, Name};

/// See `docs/detectors/xdp-fallback.md`.
pub(super) struct XdpFallback;

impl Detector for XdpFallback {
    fn name(&self) -> &'static str {
        "xdp-fallback"
    }

    fn advice(&self) -> Advice {
        Advice {
            text: "mode=native and zero-copy=on fail with the reason where the driver cannot; see driver; mode=generic and zero-copy=off say that it is known",
            names: &[Name::Option("xdp", "mode"), Name::Option("xdp", "zero-copy"), Name::Knob("driver")],
        }
    }

    fn look(&self, observed: &Observed<'_>) -> Option<String> {
        if !observed.xdp_ring {
            return None;
        }
        let fallen = [("mode", "generic", "runs in the stack, not in the driver"), ("zero-copy", "off", "copies every frame")];
        let fallen = fallen.into_iter().filter_map(|(option, got, what)| {
            let asked = format!("{option}={got}");
            let unasked = |granted: &&Granted| {
                granted.option == option && granted.got == got && !side(&observed.explained.path, granted.side).contains(&asked)
            };
            let granted: Vec<&Granted> = observed.explained.granted.iter().filter(unasked).collect();
            let sides = granted.iter().map(|granted| granted.side.to_string()).collect::<Vec<_>>().join(" and ");
            granted.first().map(|granted| format!("{what} on {sides} ({})", granted.why))
        });
        let fallen: Vec<String> = fallen.collect();
        (!fallen.is_empty()).then(|| format!("AF_XDP {}", fallen.join("; it ")))
    }
}

/// A side of a path spec in canonical form.
fn side(path: &str, side: Side) -> &str {
    let (client, server) = path.split_once('/').unwrap_or((path, path));
    if side == Side::Client { client } else { server }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Run;

    #[test]
    fn requested_fallbacks_are_not_findings() {
        let mut run = Run::clean();
        run.granted("mode", "generic", "generic", "generic is faster here");
        run.granted("zero-copy", "off", "off", "its driver has none");
        assert_eq!(run.found("xdp-fallback"), None, "no AF_XDP");
        run.explained.path = "xdp:spin,mode=generic/xdp:spin,mode=generic".into();
        assert_eq!(run.found("xdp-fallback").unwrap(), "AF_XDP copies every frame on client (its driver has none)");
        run.explained.path = "xdp:spin,mode=generic,zero-copy=off/xdp:spin".into();
        assert_eq!(run.found("xdp-fallback"), None);
    }
}
