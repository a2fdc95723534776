use proptest::prelude::*;
use tidegate_codec::{Decoder, DecoderOptions, Format, MAX_COLUMNS};

use crate::{decode_with, keys, values};

fn decoder(header: &str) -> Decoder {
    decoder_with(header, DecoderOptions::default())
}

fn decoder_with(header: &str, options: DecoderOptions) -> Decoder {
    let mut decoder = Decoder::new(DecoderOptions {
        format: Format::Csv,
        ..options
    })
    .unwrap();
    decoder.header(header.as_bytes()).unwrap();
    decoder
}

#[test]
fn rows_become_objects_in_the_order_of_the_columns() {
    let rows: [&[u8]; 3] = [b"1,x", b"2,\"a,\"\"b\"\"\nc\"", b",\\"];
    let (batch, reasons) = decode_with(&mut decoder("id,\"te\"\"xt\""), &rows);
    let expected = [
        r#"{"id":"1","te\"xt":"x"}"#,
        r#"{"id":"2","te\"xt":"a,\"b\"\nc"}"#,
        r#"{"id":"","te\"xt":"\\"}"#,
    ];
    assert_eq!(
        (values(&batch), reasons),
        (expected.map(str::to_owned).to_vec(), vec![])
    );
}

#[test]
fn rows_that_do_not_fit_their_header_are_refused() {
    let (batch, reasons) = decode_with(&mut decoder("a,b"), &[b"1", b"1,2,3", b"\xfe,1"]);
    assert!(batch.is_empty());
    let expected = [
        "row has 1 fields, the header row has 2",
        "row has 3 fields, the header row has 2",
        "not UTF-8: byte 0xfe at 0",
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn keys_times_and_required_fields_are_columns() {
    let options = DecoderOptions {
        key: Some("customer.id".into()),
        event_time: Some("at".into()),
        required: vec!["text".into()],
        ..DecoderOptions::default()
    };
    let mut decoder = decoder_with("at,customer.id,text", options.clone());
    let (batch, reasons) = decode_with(
        &mut decoder,
        &[b"12,c1,hi", b"12,,hi", b"12,c1,", b"soon,c1,hi"],
    );
    assert_eq!(keys(&batch), [Some("c1".to_owned())]);
    assert_eq!(batch.view().get(0).unwrap().event_time(), Some(12_000));
    let expected = [
        "field customer.id is missing",
        "field text is missing",
        "field at is no time: soon, expected RFC 3339 text or integer milliseconds",
    ];
    assert_eq!(reasons, expected);
    let mut other = Decoder::new(DecoderOptions {
        format: Format::Csv,
        ..options
    })
    .unwrap();
    let error = other.header(b"at,text").unwrap_err();
    assert_eq!(
        error.reason,
        "header row has no column customer.id; it has at, text"
    );
    assert_eq!(
        other.header(b"a,a").unwrap_err().reason,
        "header row names column a twice"
    );
    assert_eq!(
        other.header(b"a,").unwrap_err().reason,
        "header row has no name for column 2"
    );
}

#[test]
fn a_row_has_as_many_columns_as_a_spreadsheet_and_no_more() {
    let header = |columns: usize| {
        let names: Vec<String> = (0..columns).map(|index| format!("c{index}")).collect();
        names.join(",")
    };
    let new = || {
        Decoder::new(DecoderOptions {
            format: Format::Csv,
            ..DecoderOptions::default()
        })
        .unwrap()
    };
    for columns in [MAX_COLUMNS + 1, 208_000] {
        let error = new().header(header(columns).as_bytes()).unwrap_err();
        assert_eq!(error.reason, "header row has more than 16384 columns");
    }
    let mut widest = decoder(&header(MAX_COLUMNS));
    let fits = vec!["1"; MAX_COLUMNS].join(",");
    let commas = ",".repeat(1 << 20);
    let (batch, reasons) = decode_with(&mut widest, &[fits.as_bytes(), commas.as_bytes()]);
    assert_eq!(batch.len(), 1);
    assert!(values(&batch)[0].ends_with(",\"c16383\":\"1\"}"));
    assert_eq!(
        reasons,
        ["row has more than 16384 fields, the header row has 16384"]
    );
}

#[test]
fn a_reason_names_no_more_of_a_header_than_a_person_reads() {
    let options = || DecoderOptions {
        format: Format::Csv,
        key: Some("id".into()),
        ..DecoderOptions::default()
    };
    let reason = |header: &str| {
        let mut decoder = Decoder::new(options()).unwrap();
        decoder.header(header.as_bytes()).unwrap_err().reason
    };
    let names: Vec<String> = (0..30).map(|index| format!("c{index}")).collect();
    assert!(reason(&names.join(",")).ends_with("c18, c19 and 10 more"));
    let longest = "x".repeat(1024);
    assert!(reason(&longest).contains("header row has no column id; it has xxx"));
    assert!(reason(&longest).len() < 200);
    let twice = reason(&format!("{longest},{longest}"));
    assert!(twice.contains("twice") && twice.len() < 200, "{twice}");
    let long = reason(&format!("id,{}", "x".repeat(1 << 20)));
    assert!(
        long.starts_with(
            "header row has a name of 1048576 bytes for column 2, at most 1024 are taken: xxx"
        ) && long.len() < 250,
        "{long}"
    );
}

proptest! {
    #[test]
    fn any_text_survives_a_field(fields in proptest::collection::vec(any::<String>(), 2..6)) {
        let header: Vec<String> = (0..fields.len()).map(|index| format!("c{index}")).collect();
        let quoted: Vec<String> = fields.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect();
        let (batch, reasons) = decode_with(&mut decoder(&header.join(",")), &[quoted.join(",").as_bytes()]);
        prop_assert_eq!(reasons, Vec::<String>::new());
        let object: serde_json::Value = serde_json::from_str(&values(&batch)[0]).unwrap();
        for (name, field) in header.iter().zip(&fields) {
            prop_assert_eq!(object[name].as_str(), Some(field.as_str()));
        }
    }
}
