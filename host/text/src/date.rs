//! `strftime` for chat templates, in UTC.

use std::fmt::Write;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
];

/// Writes seconds since 1970 (UTC) in a `strftime` format; `Err` names a directive that is not known.
pub(crate) fn format(seconds: u64, pattern: &str) -> Result<String, String> {
    let days = seconds / 86_400;
    let (hour, minute, second) = (seconds % 86_400 / 3600, seconds % 3600 / 60, seconds % 60);
    let (year, month, day) = civil(days);
    let weekday = (days % 7) as usize;
    let month_name = MONTHS[month as usize - 1];
    let of_year = days - days_before(year) + 1;
    let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };

    let mut out = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = rest.next();
        let padded = directive != Some('-');
        if !padded {
            directive = rest.next();
        }
        let mut number = |value: u64, width: usize| {
            let width = if padded { width } else { 1 };
            let _ = write!(out, "{value:0width$}");
        };
        match directive {
            Some('Y') => number(year, 4),
            Some('y') => number(year % 100, 2),
            Some('m') => number(month, 2),
            Some('d') => number(day, 2),
            Some('H') => number(hour, 2),
            Some('I') => number(hour12, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('j') => number(of_year, 3),
            Some('B') => out.push_str(month_name),
            Some('b') | Some('h') => out.push_str(&month_name[..3]),
            Some('A') => out.push_str(DAYS[weekday]),
            Some('a') => out.push_str(&DAYS[weekday][..3]),
            Some('p') => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            Some('e') => {
                let _ = write!(out, "{day:2}");
            }
            Some('F') => out.push_str(&format(seconds, "%Y-%m-%d")?),
            Some('T') => out.push_str(&format(seconds, "%H:%M:%S")?),
            Some('Z') => out.push_str("UTC"),
            Some('z') => out.push_str("+0000"),
            Some('%') => out.push('%'),
            Some(other) => return Err(format!("strftime directive `%{other}` is not known")),
            None => out.push('%'),
        }
    }
    Ok(out)
}

/// Days from 1970 to the first of a year.
fn days_before(year: u64) -> u64 {
    let y = year - 1;
    (year - 1970) * 365 + (y / 4 - y / 100 + y / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400)
}

/// Year, month (1 to 12) and day (1 to 31) of a day counted from 1970.
/// Source: Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let of_era = z % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // Seconds from `date -u -d ... +%s`.
        assert_eq!(
            format(0, "%A %Y-%m-%d %H:%M:%S").unwrap(),
            "Thursday 1970-01-01 00:00:00"
        );
        assert_eq!(
            format(951_782_400, "%a %d %b %Y, day %j").unwrap(),
            "Tue 29 Feb 2000, day 060"
        );
        assert_eq!(
            format(1_798_761_599, "%F %T %-I%p").unwrap(),
            "2026-12-31 23:59:59 11PM"
        );
        assert_eq!(
            format(1_798_761_600, "%-d %B %y %j %%").unwrap(),
            "1 January 27 001 %"
        );
        assert_eq!(format(4_107_542_400, "%e %b %Y").unwrap(), " 1 Mar 2100");
    }

    #[test]
    fn an_unknown_directive_is_named() {
        assert_eq!(
            format(0, "%Q").unwrap_err(),
            "strftime directive `%Q` is not known"
        );
    }
}
