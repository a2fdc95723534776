//! Points in time.

use std::fmt;
use std::time::{Duration, SystemTime};

const MICROS: i64 = 1_000_000;
const DAY: i64 = 86_400;

/// A point in time, in microseconds since the Unix epoch. It is shown as RFC 3339 in UTC: `2023-11-14T22:13:20.5Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Timestamp = Timestamp(0);

    /// So many microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Timestamp {
        Timestamp(micros)
    }

    /// So many milliseconds after the Unix epoch; what is out of range becomes the nearest time.
    pub const fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis.saturating_mul(1000))
    }

    /// So many seconds after the Unix epoch; what is out of range becomes the nearest time.
    pub const fn from_secs(seconds: i64) -> Timestamp {
        Timestamp(seconds.saturating_mul(MICROS))
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since the Unix epoch, rounded down.
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Seconds since the Unix epoch, rounded down.
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(MICROS)
    }

    /// How long after another time this is; none if it is before it.
    pub fn since(self, earlier: Timestamp) -> Option<Duration> {
        let micros = i128::from(self.0) - i128::from(earlier.0);
        u64::try_from(micros).ok().map(Duration::from_micros)
    }

    /// So much later; none if that is out of range.
    pub fn after(self, time: Duration) -> Option<Timestamp> {
        let micros = i64::try_from(time.as_micros()).ok()?;
        self.0.checked_add(micros).map(Timestamp)
    }

    /// So much earlier; none if that is out of range.
    pub fn before(self, time: Duration) -> Option<Timestamp> {
        let micros = i64::try_from(time.as_micros()).ok()?;
        self.0.checked_sub(micros).map(Timestamp)
    }
}

/// A time that is out of range, 292,277 years from now, becomes the nearest.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Timestamp(micros(after)),
            Err(before) => Timestamp(-micros(before.duration())),
        }
    }
}

/// A time that the system cannot tell becomes the Unix epoch.
impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> SystemTime {
        let distance = Duration::from_micros(time.0.unsigned_abs());
        let found = match time.0 < 0 {
            true => SystemTime::UNIX_EPOCH.checked_sub(distance),
            false => SystemTime::UNIX_EPOCH.checked_add(distance),
        };
        found.unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.as_secs(), self.0.rem_euclid(MICROS));
        let (year, month, day) = date(seconds.div_euclid(DAY));
        let second = seconds.rem_euclid(DAY);
        match year {
            0..=9999 => write!(f, "{year:04}")?,
            // RFC 3339 has no such years; ISO 8601 writes them with their sign.
            _ => write!(f, "{year:+05}")?,
        }
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if micros != 0 {
            let fraction = format!("{micros:06}");
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// Year, month and day of a day counted from the Unix epoch, in the proleptic Gregorian calendar.
/// Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`: years begin in March.
fn date(day: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(ERA), day.rem_euclid(ERA));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (year + era * 400 + i64::from(month <= 2), month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_rfc_3339() {
        let shown = [
            (0, "1970-01-01T00:00:00Z"),
            (1_700_000_000_500_000, "2023-11-14T22:13:20.5Z"),
            (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (253_402_300_799_000_000, "9999-12-31T23:59:59Z"),
            (253_402_300_800_000_000, "+10000-01-01T00:00:00Z"),
            (i64::MIN, "-290308-12-21T19:59:05.224192Z"),
            (i64::MAX, "+294247-01-10T04:00:54.775807Z"),
        ];
        for (micros, text) in shown {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn times_become_those_of_the_system_and_back() {
        for micros in [0, -1, 1_700_000_000_123_456, -62_135_596_800_000_000] {
            let time = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
        let (early, late) = (Timestamp::from_secs(-1), Timestamp::from_millis(1500));
        assert_eq!(late.since(early), Some(Duration::from_millis(2500)));
        assert_eq!(early.since(late), None);
        assert_eq!(early.after(Duration::from_millis(2500)), Some(late));
        assert_eq!(late.before(Duration::from_millis(2500)), Some(early));
        assert_eq!(Timestamp::from_micros(i64::MAX).after(Duration::MAX), None);
        assert_eq!(
            (early.as_secs(), Timestamp::from_micros(-1).as_millis()),
            (-1, -1)
        );
    }
}
