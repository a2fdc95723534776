//! Numbers as people read them.

/// Groups of three: `1 234 567` is written `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A rate or ratio: three or more significant digits.
pub fn decimal(number: f64) -> String {
    if !number.is_finite() {
        "-".into()
    } else if number >= 100.0 {
        count(number.round() as u64)
    } else if number >= 10.0 {
        format!("{number:.1}")
    } else {
        format!("{number:.2}")
    }
}

/// A time given in milliseconds, in the unit that suits it.
pub fn milliseconds(number: f64) -> String {
    if !number.is_finite() {
        "-".into()
    } else if number >= 99_995.0 {
        format!("{:.0} s", number / 1000.0)
    } else if number >= 999.5 {
        format!("{:.2} s", number / 1000.0)
    } else if number >= 99.95 {
        format!("{number:.0} ms")
    } else if number >= 9.995 {
        format!("{number:.1} ms")
    } else {
        format!("{number:.2} ms")
    }
}

/// Bytes in the unit that suits them.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} bytes");
    }
    let mut number = bytes as f64 / 1024.0;
    let mut unit = 0;
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    format!("{number:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_rounded_to_what_is_read() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(decimal(0.127), "0.13");
        assert_eq!(decimal(12.34), "12.3");
        assert_eq!(decimal(12_345.6), "12,346");
        assert_eq!(decimal(f64::NAN), "-");
        assert_eq!(size(1_023), "1023 bytes");
        assert_eq!(size(1_536), "1.5 KiB");
        assert_eq!(size(3 << 30), "3.0 GiB");
        assert_eq!(milliseconds(0.0), "0.00 ms");
        assert_eq!(milliseconds(12.34), "12.3 ms");
        assert_eq!(milliseconds(123.4), "123 ms");
        assert_eq!(milliseconds(999.7), "1.00 s");
        assert_eq!(milliseconds(120_000.0), "120 s");
    }
}
