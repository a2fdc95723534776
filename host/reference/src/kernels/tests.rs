use super::*;

fn close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 1e-14 * expected.abs().max(1.0),
        "{found} is not {expected}"
    );
}

#[test]
fn the_error_function_has_its_tabled_values() {
    // As in Abramowitz and Stegun, table 7.1; more digits by Python's math.erf.
    close(erf(0.0), 0.0);
    close(erf(0.5), 0.520_499_877_813_046_5);
    close(erf(-1.0), -0.842_700_792_949_714_9);
    close(erf(2.0), 0.995_322_265_018_952_7);
    close(erf(3.5), 0.999_999_256_901_627_6);
    close(erf(7.0), 1.0);
    close(erf(f64::NEG_INFINITY), -1.0);
}

#[test]
fn activations_have_the_values_of_torch() {
    // torch.nn.functional at 1.5 and -0.75 in float64.
    close(activate(Activation::Silu, 1.5), 1.226_361_714_290_465_5);
    close(activate(Activation::Silu, -0.75), -0.240_615_975_618_455_3);
    close(activate(Activation::Gelu, 1.5), 1.399_789_198_096_713);
    close(activate(Activation::Gelu, -0.75), -0.169_970_514_282_651_1);
    close(activate(Activation::GeluTanh, 1.5), 1.399_571_576_980_232_8);
    close(
        activate(Activation::GeluTanh, -0.75),
        -0.170_039_444_834_379_7,
    );
}

#[test]
fn a_row_sees_itself_and_what_its_window_reaches() {
    assert_eq!(visible(5, None), 0..6);
    assert_eq!(visible(5, Some(1)), 5..6);
    assert_eq!(visible(5, Some(4)), 2..6);
    assert_eq!(visible(5, Some(6)), 0..6);
    assert_eq!(visible(2, Some(100)), 0..3);
}

#[test]
fn rope_turns_pairs_and_leaves_what_is_beyond_the_table() {
    let quarter = [0.0, 1.0];
    let mut head = [1.0, 2.0, 3.0, 4.0, 5.0];
    rope(&mut head, &[quarter, [1.0, 0.0]]);
    assert_eq!(head, [-3.0, 2.0, 1.0, 4.0, 5.0]);
}

#[test]
fn attention_of_equal_scores_is_the_mean_and_a_cap_flattens() {
    let (a, b) = ([1.0, 0.0], [-1.0, 0.0]);
    let values: [&[f64]; 2] = [&[2.0, 4.0], &[4.0, 8.0]];
    let mean = attention(&[0.0, 9.0], &[&a, &b], &values, 0.5, None, None);
    assert_eq!(mean, [3.0, 6.0]);
    // Scores 4 and -4, capped at 1: nearly tanh's ends.
    let capped = attention(&[4.0, 0.0], &[&a, &b], &values, 1.0, Some(1.0), None);
    let share = 1.0 / (1.0 + (-2.0 * 4.0_f64.tanh()).exp());
    close(capped[0], 2.0 * share + 4.0 * (1.0 - share));
}

#[test]
fn norms_do_what_their_formulas_say() {
    let normed = rms_norm(&[3.0, 4.0, 0.0, 0.0], &[1.0, 2.0], 0.5);
    let scale = 1.0 / 13.0_f64.sqrt();
    close(normed[0], 3.0 * scale);
    close(normed[1], 8.0 * scale);
    assert_eq!(normed[2..], [0.0, 0.0]);
    let normed = layer_norm(&[1.0, 3.0], &[2.0, 3.0], &[0.5, -0.5], 0.0);
    assert_eq!(normed, [-1.5, 2.5]);
}

#[test]
fn a_vector_is_pooled_and_brought_to_unit_length() {
    let mut mean = mean_of_rows(&[1.0, 2.0, 5.0, 6.0], 2);
    assert_eq!(mean, [3.0, 4.0]);
    normalize(&mut mean);
    close(mean[0], 0.6);
    close(mean[1], 0.8);
    let mut nothing = [0.0, 0.0];
    normalize(&mut nothing);
    assert_eq!(nothing, [0.0, 0.0]);
}

#[test]
fn softmax_survives_large_and_impossible_scores() {
    let mut row = [1000.0, 1000.0, f64::NEG_INFINITY];
    softmax(&mut row);
    assert_eq!(row, [0.5, 0.5, 0.0]);
}

#[test]
fn a_row_goes_through_the_experts_with_the_highest_logits_and_of_equal_ones_the_first() {
    let logits = [0.5, 2.0, -1.0, 2.0, 0.5];
    let chosen: Vec<usize> = route(&logits, 4, true).iter().map(|of| of.0).collect();
    assert_eq!(chosen, [1, 3, 0, 4]);
    let exponents = |of: &[f64]| of.iter().map(|x| x.exp()).sum::<f64>();
    for (normalized, total) in [
        (true, exponents(&[2.0, 2.0, 0.5])),
        (false, exponents(&logits)),
    ] {
        for (expert, weight) in route(&logits, 3, normalized) {
            assert!((weight - logits[expert].exp() / total).abs() < 1e-15);
        }
    }
    assert_eq!(route(&[7.0], 1, false), [(0, 1.0)]);
}
