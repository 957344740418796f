//! Location and scale that a few terrible values do not move.

use hairpin_units::Arrange;

/// Standard deviations of a normal distribution in its median absolute deviation.
const DEVIATIONS: f64 = 1.482_6;
/// Where Tukey's biweight gives no weight any more, in standard deviations: 95 % efficient for normal noise (Beaton and Tukey,
/// Technometrics 16, 1974).
const BIWEIGHT: f64 = 4.685;
/// Values beyond this distance, in standard deviations, are no noise.
const NO_NOISE: f64 = 4.0;
/// Steps of the biweight; it moves by less than a hundredth of the noise after a few.
const STEPS: usize = 20;

/// The median; sorts the values. 0 if there are none.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.arrange_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// The typical value by Tukey's biweight, begun at the median, and the values' scatter by their median absolute deviation.
/// `noise` is the least standard deviation that the biweight reckons with.
pub(super) fn location(values: &mut [f64], noise: f64) -> (f64, f64) {
    let mut at = median(values);
    let mut away: Vec<f64> = values.iter().map(|value| (value - at).abs()).collect();
    let scatter = DEVIATIONS * median(&mut away);
    let reach = BIWEIGHT * noise.max(scatter);
    for _ in 0..STEPS {
        let (mut sum, mut weights) = (0.0, 0.0);
        for value in values.iter() {
            let far = (value - at) / reach;
            let weight = (1.0 - far * far).max(0.0).powi(2);
            sum += weight * value;
            weights += weight;
        }
        if weights > 0.0 {
            at = sum / weights;
        }
    }
    (at, scatter)
}

/// The standard deviation of noise from the residuals of a fit with `fitted` parameters; values that are no noise are left out.
///
/// A fit by least absolute values goes through as many points as it has parameters, so the median is that of the others.
pub(super) fn noise(residuals: &[f64], fitted: usize) -> f64 {
    let n = residuals.len();
    if n == 0 {
        return 0.0;
    }
    let mut sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
    sizes.arrange_by(f64::total_cmp);
    let free = n.saturating_sub(fitted).max(1);
    let middle = sizes[(n - free + free / 2).min(n - 1)];
    let kept: Vec<f64> = sizes.into_iter().filter(|size| *size <= NO_NOISE * DEVIATIONS * middle).collect();
    let free = kept.len().saturating_sub(fitted).max(1);
    (kept.iter().map(|size| size * size).sum::<f64>() / free as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_do_not_move_the_location() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [3.0, 1.0, 2.0, 4.0]), 2.5);
        let (at, _) = location(&mut [0.01, -0.01, 0.0, 0.02, -0.02, 5.0], 0.01);
        assert!(at.abs() < 0.004, "{at}");
        let (at, scatter) = location(&mut [0.0, 0.5, 1.0], 0.01);
        assert!((at - 0.5).abs() < 1e-9 && scatter > 0.7, "{at} {scatter}");
    }

    #[test]
    fn noise_is_that_of_ordinary_values() {
        // A triangle of values with standard deviation 1/√3.
        let mut values: Vec<f64> = (-100..=100).map(|n| f64::from(n) / 100.0).collect();
        assert!((noise(&values, 0) - 0.577).abs() < 0.01);
        values.extend([9.0; 10]);
        assert!((noise(&values, 0) - 0.577).abs() < 0.01);
        // Four parameters of six points: zeros that say nothing.
        let few = [0.0, 0.0, 0.0, 0.0, 0.1, -0.1];
        assert!((noise(&few, 4) - 0.1).abs() < 1e-9, "{}", noise(&few, 4));
        assert_eq!(noise(&[], 3), 0.0);
    }
}
