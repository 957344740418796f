//! AF_XDP does its work in the stack, or copies every frame, though nobody asked for that.

use super::{Detector, Observed};
use crate::advice::{Advice, Name};
use hairpin_record::run::Side;

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
        let fallen = observed.explained.granted.iter().filter_map(|granted| {
            let what = match (granted.option.as_str(), granted.got.as_str()) {
                ("mode", "generic") => "generic XDP, on the kernel's copy of a frame",
                ("zero-copy", "off") => "copy mode",
                _ => return None,
            };
            let asked = format!("{}={}", granted.option, granted.got);
            (!side(&observed.explained.path, granted.side).contains(&asked))
                .then(|| format!("{what} on the {} ({})", granted.side, granted.why))
        });
        let mut fallen: Vec<String> = fallen.collect();
        fallen.dedup();
        let is_xdp = observed.explained.path.contains("xdp:");
        (is_xdp && !fallen.is_empty()).then(|| format!("AF_XDP fell back to {}", fallen.join(", ")))
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
    fn what_was_asked_for_is_no_fall() {
        let mut run = Run::clean();
        run.granted("mode", "generic", "generic", "generic is faster here");
        run.granted("zero-copy", "off", "off", "its driver has none");
        assert_eq!(run.found("xdp-fallback"), None, "no AF_XDP");
        run.explained.path = "xdp:spin,mode=generic/xdp:spin,mode=generic".into();
        assert_eq!(run.found("xdp-fallback").unwrap(), "AF_XDP fell back to copy mode on the client (its driver has none)");
        run.explained.path = "xdp:spin,mode=generic,zero-copy=off/xdp:spin".into();
        assert_eq!(run.found("xdp-fallback"), None);
    }
}
