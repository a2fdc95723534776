use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_codec::{
    Encoder, EncoderOptions, Format, SENT_FROM, decode_dead_letter, encode_dead_letter,
    encode_dead_letter_cut,
};
use tidegate_contract::DeadLetter;
use tidegate_record::{Batch, BatchBuilder, NewRecord, RecordId};

const ID: RecordId = RecordId {
    origin: tidegate_record::Origin::Source,
    source: 1,
    partition: 2,
    offset: 34,
    emit: 5,
};

fn batch(record: &NewRecord<'_>) -> Batch {
    let mut builder = BatchBuilder::default();
    builder.push(record).unwrap();
    builder.finish(0)
}

fn encode(options: EncoderOptions, record: &NewRecord<'_>) -> Result<String, String> {
    let mut encoder = Encoder::new(options).unwrap();
    let batch = batch(record);
    let mut out = b"before".to_vec();
    let result = encoder.encode(batch.view().get(0).unwrap().public(), &mut out);
    let written = String::from_utf8(out.split_off(6)).unwrap();
    match result {
        Ok(()) => Ok(written),
        Err(error) => {
            assert_eq!(written, "", "an error leaves nothing behind");
            Err(error.to_string())
        }
    }
}

fn format(format: Format) -> EncoderOptions {
    EncoderOptions {
        format,
        ..EncoderOptions::default()
    }
}

fn value(value: &[u8]) -> NewRecord<'_> {
    NewRecord {
        id: ID,
        value: Some(value),
        ..NewRecord::default()
    }
}

#[test]
fn json_keeps_its_bytes_on_one_line() {
    let json = || format(Format::Json);
    assert_eq!(
        encode(json(), &value(br#"{"a": 1.50}"#)).unwrap(),
        "{\"a\": 1.50}\n"
    );
    let pretty = b"{\n  \"a\": [1,\r\n 2],\t\"b\\\" \": \"x \\\\\"\n}";
    assert_eq!(
        encode(json(), &value(pretty)).unwrap(),
        "{\"a\":[1,2],\"b\\\" \":\"x \\\\\"}\n"
    );
    assert_eq!(encode(json(), &NewRecord::default()).unwrap(), "null\n");
    assert_eq!(
        encode(json(), &value(b"hello")).unwrap_err(),
        "record cannot be written as json: value is not JSON: expected a value at column 1, found `h`"
    );
    assert!(
        encode(json(), &value(b"\xff"))
            .unwrap_err()
            .ends_with("value is not UTF-8: byte 0xff at 0")
    );
}

#[test]
fn raw_is_one_line_or_nothing() {
    let raw = || format(Format::Raw);
    assert_eq!(
        encode(raw(), &value(b"any\rthing")).unwrap(),
        "any\rthing\n"
    );
    assert!(
        encode(raw(), &value(b"two\nlines"))
            .unwrap_err()
            .ends_with("value has a line end at byte 3")
    );
    assert!(
        encode(raw(), &value(b"one\r"))
            .unwrap_err()
            .ends_with("value has a line end at byte 3")
    );
    assert!(encode(raw(), &NewRecord::default()).is_err());
}

#[test]
fn an_envelope_has_everything_public() {
    let options = EncoderOptions {
        envelope: true,
        sources: vec!["a".into(), "tickets".into()],
        ..EncoderOptions::default()
    };
    let record = NewRecord {
        event_time: Some(1_500_000),
        key: Some(b"\xff\x00"),
        headers: &[("h", Some(b"x")), ("h", None), ("b", Some(b"\xfe"))],
        ..value(br#"{"n":1.0}"#)
    };
    let line = encode(options.clone(), &record).unwrap();
    assert!(line.contains(r#""value":{"n":1.0}"#));
    let expected = json!({
        "id": "tickets/2/34/5",
        "key_base64": "/wA=",
        "value": {"n": 1.0},
        "headers": [["h", "x"], ["h", null], ["b", {"base64": "/g=="}]],
        "event_time": "1970-01-01T00:00:01.500Z",
    });
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
    let bare = encode(options, &NewRecord::default()).unwrap();
    assert_eq!(
        bare,
        "{\"id\":\"a/0/0\",\"key\":null,\"value\":null,\"headers\":[],\"event_time\":null}\n"
    );
}

#[test]
fn csv_takes_columns_from_objects() {
    let options = EncoderOptions {
        columns: ["id", "a.b", "text", "list"].map(str::to_owned).to_vec(),
        ..format(Format::Csv)
    };
    let record = value(
        br#"{"id":1.50,"a":{"b":true},"text":"x, \"y\"\nz","list":[1, {"q":" "}],"other":0}"#,
    );
    assert_eq!(
        encode(options.clone(), &record).unwrap(),
        "1.50,true,\"x, \"\"y\"\"\nz\",\"[1,{\"\"q\"\":\"\" \"\"}]\"\n"
    );
    assert_eq!(encode(options.clone(), &value(b"{}")).unwrap(), ",,,\n");
    assert!(
        encode(options.clone(), &value(b"[]"))
            .unwrap_err()
            .ends_with("value is not an object")
    );
    let mut header = Vec::new();
    Encoder::new(options).unwrap().write_header(&mut header);
    assert_eq!(header, b"id,a.b,text,list\n");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let refused = |options| Encoder::new(options).unwrap_err().option;
    assert_eq!(refused(format(Format::Csv)), "columns");
    let envelope = EncoderOptions {
        envelope: true,
        ..format(Format::Raw)
    };
    assert_eq!(refused(envelope), "envelope");
}

#[test]
fn a_dead_letter_is_one_json_line() {
    let letter = DeadLetter {
        pipeline: "support-bot",
        id: ID,
        source: "tickets",
        input: Some("kafka topic tickets (id ZmFsc2U)"),
        stage: "redact",
        reason: "trap: \"unreachable\"\nat 3",
        component: Some("sha256:00"),
        backtrace: None,
        attempts: 2,
        key: Some(b"k"),
        value: Some(b"\xff\xfe\xfd\xfc"),
        length: 4000,
        at: 1_763_713_302_123_456,
        event_time: Some(1_000),
        headers: Some(&[
            ("trace", Some(b"a")),
            ("raw", Some(b"\xff")),
            ("none", None),
            (SENT_FROM, Some(b"t/0/1@9")),
        ]),
        ..DeadLetter::default()
    };
    let mut out = Vec::new();
    encode_dead_letter(&mut out, &letter);
    assert!(!out.contains(&b'\n'));
    let expected = json!({
        "id": "tickets/2/34/5", "source": "tickets", "partition": 2, "offset": 34, "stage": "redact",
        "reason": "trap: \"unreachable\"\nat 3", "component": "sha256:00", "backtrace": null, "attempts": 2,
        "key": "k", "value_base64": "//79/A==", "length": 4000,
        "at": "2025-11-21T08:21:42.123456Z", "form": "record", "event_time": "1970-01-01T00:00:00.001Z",
        "input": "kafka topic tickets (id ZmFsc2U)", "pipeline": "support-bot",
        "headers": [
            {"name": "trace", "value": "a"}, {"name": "raw", "value_base64": "/w=="}, {"name": "none", "value": null},
            {"name": SENT_FROM, "value": "t/0/1@9"},
        ],
        "sent_from": "t/0/1@9",
    });
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), expected);
    // And it is read again as it was.
    let read = decode_dead_letter(&out).unwrap();
    assert_eq!(read.pipeline.as_deref(), Some("support-bot"));
    assert_eq!(read.input.as_deref(), letter.input);
    let headers: Vec<_> = read.headers.iter().flatten().collect();
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_deref()))
        .collect();
    assert_eq!(Some(&headers[..]), letter.headers);
    assert_eq!(
        (read.key.as_deref(), read.value.as_deref()),
        (letter.key, letter.value)
    );
    assert_eq!(
        (read.at, read.event_time, read.form),
        (Some(letter.at), letter.event_time, Some(letter.form))
    );
    assert_eq!(
        (read.id.as_str(), read.sent_from.as_deref()),
        ("tickets/2/34/5", Some("t/0/1@9"))
    );
    // Of one that was cut to fit its message it says what was cut, and how long that was.
    let mut out = Vec::new();
    encode_dead_letter_cut(&mut out, &letter, &[("key", 70_000), ("reason", 4097)]);
    let cut = serde_json::from_slice::<Value>(&out).unwrap();
    let lengths = json!({"key": 70_000, "reason": 4097});
    assert_eq!((&cut["cut"], &cut["length"]), (&lengths, &json!(4000)));
    let read = decode_dead_letter(&serde_json::to_vec(&cut).unwrap()).unwrap();
    assert_eq!(read.cut, ["key", "reason"]);
    // One of an earlier version says neither when it was written nor what it is.
    let old = br#"{"id":"t/0/1","source":"t","partition":0,"offset":1,"stage":"decode","reason":"no","component":null,
        "backtrace":null,"attempts":1,"key":null,"value":"x","length":1}"#;
    let old = decode_dead_letter(old).unwrap();
    assert_eq!(
        (old.at, old.form, old.value.as_deref()),
        (None, None, Some(b"x".as_slice()))
    );
    for none in [&b"[1]"[..], b"{}", b"", b"\xff", br#"{"id":7}"#] {
        assert_eq!(decode_dead_letter(none), None);
    }
}

proptest! {
    #[test]
    fn private_attributes_are_in_no_output(
        secret in "[A-Z]{12}",
        key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)),
        envelope in any::<bool>(),
    ) {
        let attributes: [(&str, Option<&[u8]>); 2] = [("pii", Some(secret.as_bytes())), (&secret, None)];
        let record = NewRecord { key: key.as_deref(), attributes: &attributes, ..value(br#"{"pii":"[masked]"}"#) };
        let columns = EncoderOptions { columns: vec!["pii".into()], ..format(Format::Csv) };
        let json = EncoderOptions { envelope, ..format(Format::Json) };
        for options in [json, format(Format::Raw), columns] {
            let line = encode(options, &record).unwrap();
            prop_assert!(!line.contains(&secret), "{}", line);
        }
    }
}
