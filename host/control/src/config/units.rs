//! Sizes and durations: the unit is in the value.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::DeValue;

use super::findings::Typed;
use super::reader::{Table, Value};

const SIZES: [(&str, u64); 4] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
/// In nanoseconds.
const DURATIONS: [(&str, u64); 5] = [
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a size as a pipeline file writes it, in bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text.trim());
    let known = SIZES.iter().find(|(name, _)| *name == unit);
    known
        .and_then(|(_, factor)| scaled(number, *factor))
        .ok_or_else(|| format!("{text:?} is not a size; write for example \"8GiB\""))
}

/// Reads a duration as a pipeline file writes it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text.trim());
    let known = DURATIONS.iter().find(|(name, _)| *name == unit);
    known
        .and_then(|(_, factor)| scaled(number, *factor))
        .map(Duration::from_nanos)
        .ok_or_else(|| format!("{text:?} is not a duration; write for example \"20ms\""))
}

impl Table<'_> {
    /// A size in a range of bytes.
    pub(crate) fn size(
        &self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<Typed<usize>> {
        let value = self.get(name)?;
        let size = self.quantity(&value, &SIZES, "a size", "64MiB", |number, unit| {
            let near = match unit.to_ascii_lowercase().as_str() {
                "" if number.len() > 3 => "B",
                "b" | "byte" | "bytes" => "B",
                "k" | "kb" | "kib" => "KiB",
                "m" | "mb" | "mib" => "MiB",
                "g" | "gb" | "gib" => "GiB",
                _ => return None,
            };
            Some(format!("{number}{near}"))
        })?;
        if !range.contains(&size) {
            self.found.mistake(
                &value.place,
                &value.key,
                format!(
                    "{value} must be {} to {}",
                    shown(*range.start(), &SIZES),
                    shown(*range.end(), &SIZES)
                ),
            );
            return None;
        }
        Some(value.typed(usize::try_from(size).unwrap_or(usize::MAX)))
    }

    /// A duration in a range. A number alone was probably meant in this unit.
    pub(crate) fn duration(
        &self,
        name: &'static str,
        likely: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Option<Typed<Duration>> {
        let value = self.get(name)?;
        let nanoseconds =
            self.quantity(&value, &DURATIONS, "a duration", "20ms", |number, unit| {
                let near = match unit.to_ascii_lowercase().as_str() {
                    "µs" | "μs" | "usec" => "us",
                    "msec" | "millis" | "milliseconds" | "ms" => "ms",
                    "" => likely,
                    "s" | "sec" | "secs" | "second" | "seconds" => "s",
                    "m" | "min" | "mins" | "minute" | "minutes" => "m",
                    "h" | "hr" | "hour" | "hours" => "h",
                    _ => return None,
                };
                Some(format!("{number}{near}"))
            })?;
        let duration = Duration::from_nanos(nanoseconds);
        if !range.contains(&duration) {
            let nanos =
                |duration: &Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            self.found.mistake(
                &value.place,
                &value.key,
                format!(
                    "{value} must be {} to {}",
                    shown(nanos(range.start()), &DURATIONS),
                    shown(nanos(range.end()), &DURATIONS)
                ),
            );
            return None;
        }
        Some(value.typed(duration))
    }

    fn quantity(
        &self,
        value: &Value<'_>,
        units: &[(&str, u64)],
        what: &str,
        example: &str,
        near: impl Fn(&str, &str) -> Option<String>,
    ) -> Option<u64> {
        let (text, bare) = match value.raw {
            DeValue::String(text) => (text.clone().into_owned(), false),
            DeValue::Integer(number) => (number.to_string(), true),
            DeValue::Float(number) => (number.to_string(), true),
            _ => {
                value.wrong(self.found, what, &format!("{example:?}"));
                return None;
            }
        };
        let (number, unit) = split(&text);
        let known = units.iter().find(|(name, _)| *name == unit);
        if let (Some((_, factor)), Some(total), false) = (
            known,
            known.and_then(|(_, factor)| scaled(number, *factor)),
            bare,
        ) {
            debug_assert!(*factor > 0);
            return Some(total);
        }
        let suggestion = match near(number, unit) {
            Some(near) if scaled(number, 1).is_some() => near,
            _ => example.to_owned(),
        };
        let why = if bare { " without its unit" } else { "" };
        self.found.mistake(
            &value.place,
            &value.key,
            format!("{value}{why} is not {what}; write for example {suggestion:?}"),
        );
        None
    }
}

/// `64MiB` into `64` and `MiB`; a space between them is no matter.
fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// A decimal number times a factor; none if it is no number, too large, or finer than a whole one.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || part.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let mut total = u128::from(whole) * u128::from(factor);
    if !part.is_empty() {
        let digits: u128 = part.parse().ok()?;
        let scale = 10u128.pow(u32::try_from(part.len()).ok()?);
        total += digits * u128::from(factor) / scale;
    }
    u64::try_from(total).ok()
}

/// A size as a pipeline file writes it, in quotes.
pub(crate) fn shown_size(bytes: u64) -> String {
    shown(bytes, &SIZES)
}

/// In the greatest unit that gives a whole number.
fn shown(number: u64, units: &[(&str, u64)]) -> String {
    let unit = units
        .iter()
        .rev()
        .find(|(_, factor)| number > 0 && number.is_multiple_of(*factor))
        .or(units.first());
    match unit {
        Some((name, factor)) => format!("{:?}", format!("{}{name}", number / factor)),
        None => number.to_string(),
    }
}
