use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

fn found(text: &str) -> Vec<(Kind, &str)> {
    let mut found = Vec::new();
    find(text, Kinds::ALL, &mut found);
    found
        .iter()
        .map(|one| (one.kind, &text[one.start..one.end]))
        .collect()
}

/// Checks that the parts of a text in `⟦⟧` are found as this kind, and nothing else is.
#[track_caller]
fn check(kind: Kind, texts: &[&str]) {
    for marked in texts {
        let expected: Vec<(Kind, String)> = marked
            .split('⟦')
            .skip(1)
            .map(|part| (kind, part.split('⟧').next().unwrap_or_default().to_owned()))
            .collect();
        let text = marked.replace(['⟦', '⟧'], "");
        let got: Vec<(Kind, String)> = found(&text)
            .into_iter()
            .map(|(kind, part)| (kind, part.to_owned()))
            .collect();
        assert_eq!(got, expected, "in {text:?}");
    }
}

#[test]
fn e_mail_addresses() {
    check(
        Kind::Email,
        &[
            "write to ⟦maria.lopez@example.com⟧.",
            "<⟦a@b.co⟧>, '⟦x_y+tag@mail.example.org⟧'",
            "mailto:⟦me@example.com⟧?subject=hi",
            "from=⟦bob@example.com⟧&to=⟦eve@example.net⟧",
            "⟦jürgen@müller.de⟧ and ⟦иван@почта.рф⟧",
            "邮箱⟦li@example.cn⟧。",
            "⟦4155551234@vtext.com⟧",
            "⟦o'brien@example.ie⟧-",
            "a@b, @home, x@1.2, me@localhost, a.@b.com, @@@@",
            "⟦a@b.com⟧@c",
        ],
    );
}

#[test]
fn url_credentials() {
    check(
        Kind::UrlCredentials,
        &[
            "postgres://⟦app:s3cret⟧@db.example.com:5432/main",
            "https://⟦ghp_16C7e42F292c6912E7⟧@github.com/x",
            "ftp://⟦user:p@ss⟧@host/",
            "https://[URL_CREDENTIALS_1]@host, https://⟦[x]⟧@host",
            "amqp://⟦u:a/b?c#d⟧@host",
            "http://⟦u:p⟧@[::1]/",
            "see https://example.com/@user, https://example.com:8080/a@b or http://@x.y",
        ],
    );
}

#[test]
fn card_numbers() {
    check(
        Kind::Card,
        &[
            "card ⟦4111111111111111⟧ 12/25",
            "card ⟦4111 1111 1111 1111⟧ 123",
            "⟦5500-0000-0000-0004⟧",
            "⟦3782 822463 10005⟧, ⟦30569309025904⟧",
            "⟦6011000990139424⟧ ⟦3530111333300000⟧",
            "⟦4222222222222⟧",
            "№⟦4111111111111111⟧",
            "Li,⟦4111111111111111⟧,12/25",
            "my card ⟦3590730093437731⟧ is lost",
            "3590730093437731 or 4111111111111112 and 9111111111111110 and 41111111111111111111",
            "a4111111111111111 4111111111111111b ref-4111111111111111",
        ],
    );
}

#[test]
fn account_numbers() {
    check(
        Kind::Iban,
        &[
            "to ⟦DE89370400440532013000⟧.",
            "⟦GB29 NWBK 6016 1331 9268 19⟧ please",
            "⟦fr1420041010050500013m02606⟧",
            "⟦NO93 8601 1117 947⟧",
            "DE89370400440532013001 and XX89370400440532013000 and DE8937040044053201300",
        ],
    );
}

#[test]
fn social_security_numbers() {
    check(
        Kind::Ssn,
        &[
            "my SSN is ⟦123-45-6789⟧.",
            "ssn ⟦123456789⟧, ssn: ⟦123 45 6789⟧",
            "social security ⟦078.05.1120⟧",
            "000-45-6789x 123456789 123-45-67890",
        ],
    );
}

#[test]
fn ip_addresses() {
    check(
        Kind::Ip,
        &[
            "from ⟦192.168.0.1⟧:8080 to ⟦8.8.8.8⟧.",
            "client_ip=⟦10.0.0.1⟧|",
            "⟦2001:db8::8a2e:370:7334⟧, [⟦fe80::1⟧]:80 ⟦::ffff:192.0.2.1⟧",
            "⟦2001:0db8:85a3:0000:0000:8a2e:0370:7334⟧.",
            "256.1.1.1 1.2.3 1.2.3.4.5 v1.2.3.4 version 1.2.3.4",
            "12:34:56 std::io a::b :: aa:bb:cc:dd:ee:ff",
        ],
    );
}

#[test]
fn telephone_numbers() {
    check(
        Kind::Phone,
        &[
            "call ⟦+46 (0)8 928 571 38⟧ or ⟦+1-984-182-0190⟧ mobile",
            "⟦(579)888-3058⟧, ⟦(020) 7946 0958⟧, ⟦+447700900123⟧",
            "⟦001-518-640-0854⟧ and ⟦0046 8 928 571 38⟧",
            "⟦780-999-2181⟧; ⟦1 800 555 0199⟧; ⟦930.167.3943⟧",
            "⟦0490 75 40 81⟧, ⟦01/23456789⟧, ⟦0378 3549890⟧",
            "⟦71-33-52-22⟧ ⟦374 780 163⟧",
            "Phone: ⟦451 5986⟧",
            "⟦781 1704⟧ office",
            "call me at ⟦4515986⟧!",
            "⟦518-640-0854x1234⟧ or ⟦(518) 640-0854 ext. 12⟧",
            "ring ⟦780-999-2181⟧. 5 times (⟦451 5986⟧) 12 x, 64677 ⟦52-12-34-56⟧, ⟦01.23.45.67.89⟧",
            "⟦99 123456⟧, ⟦2125550199⟧, ⟦12125550199⟧, ⟦08-123 456 78⟧, ⟦+44(0)1314960123⟧ (⟦+46 8 123 456 78⟧)",
            "is it ⟦451 5986⟧ I think",
            "Li,⟦2125550199⟧,tel.⟦0490 75 40 81⟧; ⟦451 5986⟧-Fax,⟦8 928 571 38⟧",
            "there was no message on my registered ⟦451 5986⟧, why?",
            "use ⟦72 128 827⟧. Or ⟦416 60 039⟧, or ⟦451-5986⟧ if you like",
            "for my online order I gave ⟦0490 75 40 81⟧",
            "Phone: ⟦59-41-23⟧, your number ⟦5551234⟧",
            "tel.:⟦0301234567⟧, Tel: ⟦(030) 1234567⟧, 电话⟦010 6552 9988⟧",
        ],
    );
}

#[test]
fn numbers_that_are_no_telephone_numbers() {
    check(
        Kind::Phone,
        &[
            "2024-03-05 11:22:33, 05.03.2024, 3/5/2024, 12/31/99",
            "12 345 678 people paid 1.234.567 € or $ 1 234 567",
            "order 451 5986, order number 4515986123, ref. no. 374 780 163",
            "the confirmation number is 4515986, my card no is 416 60 039",
            "at 1700000000 or order 2125550199, 2121550199",
            "Suite 541 6343, from 2019-2020, ZIP 3610-114 or 12345-6789, 59-41-23",
            "6343 541 Skogstien 12, 541 6343 Main Street",
            "550e8400-e29b-41d4-a716-446655440000",
            "1234 5678 9012 and 123456789012345678901234567890",
            "ABC-374-780-163, 374-780-163-ABC",
            "10:30:00 and 99.999.999 %",
        ],
    );
}

#[test]
fn values_that_stand_next_to_one_another_are_all_found() {
    for (text, kinds) in [
        // A telephone number has no length of its own: it takes nothing of what is known by its form.
        (
            "⟦+46 70 123 45 67⟧ ⟦4111 1111 1111 1111⟧",
            &[Kind::Phone, Kind::Card][..],
        ),
        (
            "⟦+46 70 123 45 67⟧\t⟦4111-1111-1111-1111⟧ \\ x",
            &[Kind::Phone, Kind::Card],
        ),
        ("⟦+46 70 123 45 67⟧ ⟦10.20.30.40⟧", &[Kind::Phone, Kind::Ip]),
        (
            "⟦+46 70 123 45 67⟧ (⟦10.20.30.40⟧)",
            &[Kind::Phone, Kind::Ip],
        ),
        (
            "⟦10.20.30.40⟧) ⟦4111 1111 1111 1111⟧",
            &[Kind::Ip, Kind::Card],
        ),
        (
            "⟦4111111111111111⟧ (⟦078-05-1120⟧)",
            &[Kind::Card, Kind::Ssn],
        ),
        // Two that cannot be told apart go together, and nothing of the first stays.
        ("⟦ada@example.com'bob@example.org⟧", &[Kind::Email]),
        // In the source of a text, as a program prints it, the letter of an escape is no word.
        (
            "'\\n⟦+46 70 123 45 67⟧\\t⟦4111111111111111⟧\\n⟦DE89370400440532013000⟧'",
            &[Kind::Phone, Kind::Card, Kind::Iban],
        ),
        (
            "'\\n⟦10.20.30.40⟧\\r\\n⟦078-05-1120⟧'",
            &[Kind::Ip, Kind::Ssn],
        ),
    ] {
        let expected: Vec<&str> = text
            .split('⟦')
            .skip(1)
            .filter_map(|part| part.split('⟧').next())
            .collect();
        let plain = text.replace(['⟦', '⟧'], "");
        let expected: Vec<(Kind, &str)> = kinds.iter().copied().zip(expected).collect();
        assert_eq!(found(&plain), expected, "in {plain:?}");
    }
}

#[test]
fn kinds_left_out_still_shield_their_numbers() {
    let mut found = Vec::new();
    find(
        "card 378282246310005, call 4155550123",
        Kinds::of(&[Kind::Phone]),
        &mut found,
    );
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind, Kind::Phone);
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[0-9]{1,20}",
        "[ .:/@()+\\-#,;x\u{a0}–é电\n]{1,3}",
        Just("://".to_owned()),
        "[a-zA-Z]{1,8}",
        any::<String>(),
        Just("4111 1111 1111 1111".to_owned()),
        Just("GB29 NWBK 6016 1331 9268 19".to_owned()),
        Just("call +46 (0)8 928 571 38 ext".to_owned()),
        Just("me@example.com".to_owned()),
        Just("::ffff:1.2.3.4".to_owned()),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        rng_seed: RngSeed::Fixed(0x7069_6921),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_text_panics_and_finds_lie_in_order_on_characters(text in pieces()) {
        let mut found = Vec::new();
        find(&text, Kinds::ALL, &mut found);
        let mut at = 0;
        for one in found {
            prop_assert!(one.start >= at && one.end > one.start && one.end <= text.len());
            prop_assert!(text.is_char_boundary(one.start) && text.is_char_boundary(one.end));
            at = one.end;
        }
    }
}

#[test]
fn no_text_takes_more_than_linear_time() {
    let started = std::time::Instant::now();
    for unit in [
        "@", "a@", ":", "://", "1", "1 ", "12-", "(1", "+", "1.1.", "a:", "GB29 ", "::1", "x1",
        "\u{a0}1", "1é",
    ] {
        found(&unit.repeat(400_000 / unit.len()));
    }
    // A quadratic look would take minutes.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
