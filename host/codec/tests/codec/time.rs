use proptest::prelude::*;
use tidegate_codec::{format_time, parse_time};

#[test]
fn known_times_are_read() {
    let known = [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("2000-02-29t12:00:00z", 951_825_600_000_000),
        ("2026-11-21 08:21:42.123456789+02:00", 1_795_242_102_123_456),
        ("2026-11-21T08:21:42-00:30", 1_795_251_102_000_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000),
    ];
    for (text, micros) in known {
        assert_eq!(parse_time(text), Some(micros), "{text}");
    }
}

#[test]
fn what_is_no_time_is_refused() {
    let wrong = [
        "",
        "2026-11-21",
        "2026-11-21T08:21Z",
        "2026-11-21T08:21:42",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T08:21:42.Z",
        "2026-11-21T08:21:42Zz",
        "2026-11-21T08:21:42+0200",
        "+026-11-21T08:21:42Z",
        "2026-11-21T08:21:42é",
    ];
    for text in wrong {
        assert_eq!(parse_time(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn a_time_survives_its_text(micros in -62_000_000_000_000_000i64..253_000_000_000_000_000) {
        prop_assert_eq!(parse_time(&format_time(micros)), Some(micros));
    }

    #[test]
    fn no_text_is_too_strange(text in any::<String>()) {
        let _ = parse_time(&text);
    }
}
