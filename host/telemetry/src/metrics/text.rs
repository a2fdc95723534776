//! The text format of Prometheus, 0.0.4.

use std::fmt::Write as _;

use super::{Measured, Sample, Value};

/// Each family once, with its samples together. Writing to a string cannot fail.
pub(super) fn write(families: &[Measured]) -> String {
    let mut text = String::new();
    for family in families {
        let name = &*family.name;
        if !family.help.is_empty() {
            let help = escaped(&family.help, false);
            let _ = writeln!(text, "# HELP {name} {help}");
        }
        let _ = writeln!(text, "# TYPE {name} {}", family.kind.name());
        for sample in &family.samples {
            write_sample(&mut text, name, sample);
        }
    }
    text
}

fn write_sample(text: &mut String, name: &str, sample: &Sample) {
    let mut labels = String::new();
    for (label, value) in &sample.labels {
        if !labels.is_empty() {
            labels.push(',');
        }
        let _ = write!(labels, "{label}=\"{}\"", escaped(value, true));
    }
    let mut line = |suffix: &str, labels: &str, value: &dyn std::fmt::Display| {
        let _ = match labels.is_empty() {
            true => writeln!(text, "{name}{suffix} {value}"),
            false => writeln!(text, "{name}{suffix}{{{labels}}} {value}"),
        };
    };
    match &sample.value {
        Value::Whole(number) => line("", &labels, number),
        Value::Real(number) => line("", &labels, &real(*number)),
        Value::Spread(spread) => {
            let own = match labels.is_empty() {
                true => String::new(),
                false => format!("{labels},"),
            };
            let mut below = 0;
            let bounds = spread.bounds.iter().map(|bound| real(*bound));
            for (count, bound) in spread.counts.iter().zip(bounds.chain(["+Inf".to_owned()])) {
                below += count;
                line("_bucket", &format!("{own}le=\"{bound}\""), &below);
            }
            line("_sum", &labels, &real(spread.sum));
            line("_count", &labels, &below);
        }
    }
}

/// A number as the format has it.
pub(super) fn real(number: f64) -> String {
    match number {
        number if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        number => number.to_string(),
    }
}

/// A label's value, or a help, on one line.
fn escaped(value: &str, quoted: bool) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if quoted => escaped.push_str("\\\""),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::super::{Exposition, Family, Kind, Label, Since, Spread, Unit};

    static WORDS: Family = Family {
        name: "tidegate_words_total",
        kind: Kind::Counter,
        unit: Unit::Of("words"),
        labels: &[Label {
            name: "kind",
            bound: "two",
        }],
        since: Since::Process,
        help: "Words, by \\ kind",
    };

    static SIZE: Family = Family {
        name: "tidegate_size_bytes",
        kind: Kind::Histogram,
        unit: Unit::Bytes,
        labels: &[],
        since: Since::Process,
        help: "Sizes",
    };

    #[test]
    fn a_family_stands_once_with_its_samples_together_and_escaped() {
        let mut exposition = Exposition::default();
        exposition.add(&WORDS, &["a\"b\\c\nd"], 3_u64);
        let spread = Spread {
            bounds: Cow::Borrowed(&[0.5, 2.0]),
            counts: vec![1, 2, 3],
            sum: 12.5,
        };
        exposition.add(&SIZE, &[], spread);
        exposition.add(&WORDS, &["long"], f64::INFINITY);
        let expected = "\
# HELP tidegate_words_total Words, by \\\\ kind
# TYPE tidegate_words_total counter
tidegate_words_total{kind=\"a\\\"b\\\\c\\nd\"} 3
tidegate_words_total{kind=\"long\"} +Inf
# HELP tidegate_size_bytes Sizes
# TYPE tidegate_size_bytes histogram
tidegate_size_bytes_bucket{le=\"0.5\"} 1
tidegate_size_bytes_bucket{le=\"2\"} 3
tidegate_size_bytes_bucket{le=\"+Inf\"} 6
tidegate_size_bytes_sum 12.5
tidegate_size_bytes_count 6
";
        assert_eq!(exposition.text(), expected);
    }
}
