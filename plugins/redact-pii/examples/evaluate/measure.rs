//! Counting finds and labels.

use redact_pii::find::{Found, Kind, Kinds, find};

use crate::rows::Row;

/// The kinds that have labels in the data.
pub(crate) const KINDS: [(Kind, &str); 6] = [
    (Kind::Email, "EMAIL_ADDRESS"),
    (Kind::Card, "CREDIT_CARD"),
    (Kind::Iban, "IBAN_CODE"),
    (Kind::Ssn, "US_SSN"),
    (Kind::Ip, "IP_ADDRESS"),
    (Kind::Phone, "PHONE_NUMBER"),
];

/// What was counted of a kind.
#[derive(Clone, Copy, Default)]
pub(crate) struct Count {
    labels: usize,
    labels_met: usize,
    labels_exact: usize,
    finds: usize,
    finds_right: usize,
}

impl Count {
    fn and(self, other: Count) -> Count {
        Count {
            labels: self.labels + other.labels,
            labels_met: self.labels_met + other.labels_met,
            labels_exact: self.labels_exact + other.labels_exact,
            finds: self.finds + other.finds,
            finds_right: self.finds_right + other.finds_right,
        }
    }
}

/// Counts one row.
pub(crate) fn row(row: &Row, counts: &mut [(Kind, &str, Count)], misses: bool) {
    let mut finds = Vec::new();
    find(&row.text, Kinds::ALL, &mut finds);
    for (kind, label, count) in counts {
        let labels: Vec<(usize, usize)> = row
            .labels
            .iter()
            .filter(|one| one.0 == *label)
            .map(|one| (one.1, one.2))
            .collect();
        let finds: Vec<&Found> = finds.iter().filter(|one| one.kind == *kind).collect();
        let meets =
            |label: &(usize, usize), find: &Found| label.0 < find.end && find.start < label.1;
        count.labels += labels.len();
        count.finds += finds.len();
        for one in &labels {
            let met = finds.iter().any(|find| meets(one, find));
            count.labels_met += usize::from(met);
            let exact = finds.iter().any(|find| (find.start, find.end) == *one);
            count.labels_exact += usize::from(exact);
            if misses && !exact {
                let what = if met { "cut otherwise" } else { "missed" };
                println!(
                    "  {what} {label} {:?} in {:?}",
                    &row.text[one.0..one.1],
                    row.text
                );
            }
        }
        for find in &finds {
            let right = labels.iter().any(|label| meets(label, find));
            count.finds_right += usize::from(right);
            if misses && !right {
                println!(
                    "  wrong {label} {:?} in {:?}",
                    &row.text[find.start..find.end],
                    row.text
                );
            }
        }
    }
}

/// Prints the figures.
pub(crate) fn report(counts: &[(Kind, &str, Count)]) {
    println!();
    println!(
        "{:<24} {:>7} {:>7} {:>8} {:>10} {:>8} {:>10}",
        "type", "labels", "finds", "recall", "precision", "exact", "exact"
    );
    println!(
        "{:<24} {:>7} {:>7} {:>8} {:>10} {:>8} {:>10}",
        "", "", "", "", "", "recall", "precision"
    );
    for (_, label, count) in counts {
        line(label, count);
    }
    let pooled = |phones: bool| {
        let chosen = counts
            .iter()
            .filter(|(kind, ..)| phones || *kind != Kind::Phone);
        chosen.fold(Count::default(), |sum, (_, _, count)| sum.and(*count))
    };
    line("pooled without phones", &pooled(false));
    line("pooled", &pooled(true));
    println!();
    println!(
        "recall, precision: a find and a label of the type overlap; exact: with the same borders"
    );
    println!("url credentials do not occur in this data");
}

fn line(name: &str, count: &Count) {
    let share = |part: usize, whole: usize| {
        if whole == 0 {
            "-".to_owned()
        } else {
            format!("{:.3}", part as f64 / whole as f64)
        }
    };
    println!(
        "{name:<24} {:>7} {:>7} {:>8} {:>10} {:>8} {:>10}",
        count.labels,
        count.finds,
        share(count.labels_met, count.labels),
        share(count.finds_right, count.finds),
        share(count.labels_exact, count.labels),
        share(count.labels_exact, count.finds),
    );
}
