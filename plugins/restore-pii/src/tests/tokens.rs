use tidegate_sdk::testing::TestLane;
use tidegate_sdk::{Ending, LaneKind};

use super::*;

fn started() -> Harness<RestorePii> {
    Harness::start("{}").unwrap()
}

fn map() -> String {
    json!({
        "[EMAIL_1]": "a@b.com",
        "[EMAIL_10]": "ten@b.com",
        "[NAME_1]": "Joe \"[EMAIL_1]\" Ng\n",
        "[CARD_1]": 4111111111111111u64,
    })
    .to_string()
}

fn with_map(lane: TestLane) -> TestLane {
    lane.with_attribute(ATTRIBUTE, map())
}

/// What each piece lets through; the last is the last.
fn each(lane: TestLane, pieces: &[&str]) -> Vec<String> {
    let operator = started();
    let mut lane = operator.open(&with_map(lane)).unwrap();
    let last = pieces.len() - 1;
    let steps = pieces.iter().enumerate();
    steps
        .map(|(at, piece)| lane.step(piece, at == last).text)
        .collect()
}

#[test]
fn only_what_may_become_a_placeholder_of_this_answer_waits() {
    assert_eq!(
        each(
            TestLane::content(),
            &[
                "to [",
                "EMA",
                "IL",
                "_1",
                "] or [EM",
                "PTY] [",
                " [EMAIL_2",
                "]"
            ]
        ),
        [
            "to ",
            "",
            "",
            "",
            "a@b.com or ",
            "[EMPTY] ",
            "[ [EMAIL_2",
            "]"
        ]
    );
    // With nothing redacted nothing waits.
    let operator = started();
    let mut lane = operator.open(&TestLane::content()).unwrap();
    assert_eq!(lane.step("to [EMAIL", false), Through::text("to [EMAIL"));
}

#[test]
fn the_longer_of_two_placeholders_is_not_taken_for_the_shorter() {
    assert_eq!(
        each(TestLane::content(), &["[EMAIL_1", "0] [EMAIL_1", "]"]),
        ["", "ten@b.com ", "a@b.com"]
    );
}

#[test]
fn what_is_held_back_at_the_end_goes_out_as_it_is() {
    assert_eq!(
        each(TestLane::content(), &["see [EMAIL", "_1"]),
        ["see ", "[EMAIL_1"]
    );
    assert_eq!(each(TestLane::content(), &["see [EMAIL", ""])[1], "[EMAIL");
}

#[test]
fn in_arguments_an_original_is_escaped() {
    for kind in [TestLane::arguments(), TestLane::content()] {
        let text = each(kind, &["{\"to\": \"[NAME", "_1]\", \"n\": \"[CARD_1]\"}"]).concat();
        let arguments: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(arguments["to"], "Joe \"[EMAIL_1]\" Ng\n");
        assert_eq!(arguments["n"], "4111111111111111");
    }
}

#[test]
fn an_original_stays_within_its_string_however_deep_that_stands() {
    let (name, number) = ("Joe \"[EMAIL_1]\" Ng\n", "4111111111111111");
    for kind in [LaneKind::Arguments(0), LaneKind::Content] {
        for placeholder in [("[NAME_1]", name), ("[CARD_1]", number)] {
            let mut text = json!({"to": placeholder.0, "role": "user"}).to_string();
            let mut whole = json!({"to": placeholder.1, "role": "user"});
            for depth in 0..4 {
                let pieces = pieces(&text);
                let restored = each(TestLane::of(kind), &pieces).concat();
                let restored: Value = serde_json::from_str(&restored).unwrap();
                assert_eq!(restored, whole, "{depth}");
                text = json!({"body": text, "n": [1]}).to_string();
                whole = json!({"body": whole.to_string(), "n": [1]});
            }
        }
    }
}

#[test]
fn where_a_value_comes_an_original_is_one() {
    let text = each(
        TestLane::arguments(),
        &["{\"to\": [NAME_1], \"n\": [CARD_1], \"s\": \"[NAME_1]\"}"],
    );
    let arguments: Value = serde_json::from_str(&text.concat()).unwrap();
    let name = "Joe \"[EMAIL_1]\" Ng\n";
    assert_eq!(
        arguments,
        json!({"to": name, "n": 4111111111111111u64, "s": name})
    );
}

#[test]
fn in_prose_an_original_stands_as_it_is() {
    for kind in [LaneKind::Content, LaneKind::Reasoning] {
        for (before, first) in [
            ("", ""),
            ("Dear ", "Dear "),
            ("  \n", "  \n"),
            ("[1] \"", "[1] \""),
        ] {
            let through = each(
                TestLane::of(kind),
                &[before, "[NAME_1]", " {\"", "[NAME_1]"],
            );
            assert_eq!(through[0], first);
            assert_eq!(through[1], "Joe \"[EMAIL_1]\" Ng\n");
            assert_eq!(through[3], "Joe \"[EMAIL_1]\" Ng\n");
        }
    }
    let json = each(TestLane::content(), &["[\"", "[NAME_1]", "\"]"]).concat();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0], "Joe \"[EMAIL_1]\" Ng\n");
}

#[test]
fn a_map_that_cannot_be_read_refuses_the_lane() {
    let broken = TestLane::content().with_attribute(ATTRIBUTE, "[]");
    let failure = started().open(&broken).map(drop).unwrap_err();
    assert!(failure.message.contains("`pii.map`"), "{failure}");
}

/// Cuts a text as byte-pair tokens do: a word with the space before it, of a long one its parts, and marks that stand
/// together.
fn pieces(text: &str) -> Vec<&str> {
    let kind = |character: char| match character {
        ' ' => 0,
        '0'..='9' => 1,
        letter if letter.is_alphabetic() => 2,
        _ => 3,
    };
    let (mut cuts, mut length, mut before) = (vec![0], 0, 0);
    for (at, character) in text.char_indices() {
        let kind = kind(character);
        if at > 0 && ((kind != before && before != 0) || length >= 6) {
            cuts.push(at);
            length = 0;
        }
        length += 1;
        before = kind;
    }
    cuts.push(text.len());
    cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect()
}

#[test]
fn readers_wait_for_less_than_a_fiftieth_of_a_token() {
    const SENTENCES: [&str; 10] = [
        "The delivery left our warehouse in the morning and should be with you before the weekend. ",
        "Please write to us if anything is missing, and mention the number on the label. ",
        "def total(items): return sum(item['price'] * item['count'] for item in items)\n",
        "We looked into the charge on your card and found that it had been made twice by mistake. ",
        "I have asked for it to be sent back to your bank, which takes three to five working days. ",
        "See [the terms](https://example.org/terms) and note [1] for how long a refund may take. ",
        "Thank you for your patience; the colleague who looked after it is back on Monday. ",
        "for index, row in enumerate(table): total += row[index]  # every case\n",
        "You can follow the parcel on the page that you had by mail when it was handed over. ",
        "Otherwise there is nothing more to do, and the matter is closed from our side. ",
    ];
    let text: String = (0..200).map(|n| SENTENCES[(n * 7 + n / 10) % 10]).collect();
    let waits = Waits::of(&[&text]);
    assert!(waits.tokens > 3000 && waits.delays > 0, "{waits:?}");
    assert!(waits.mean() <= 0.02 && waits.longest <= 2, "{waits:?}");
}

/// How long readers wait.
#[derive(Debug, Default)]
struct Waits {
    tokens: usize,
    /// Steps after which some text waits: each delays it by the token that comes next.
    delays: usize,
    /// Most such steps in a row.
    longest: usize,
}

impl Waits {
    fn of(answers: &[&str]) -> Waits {
        let operator = started();
        let mut waits = Waits::default();
        for answer in answers {
            let mut lane = operator.open(&with_map(TestLane::content())).unwrap();
            let (mut in_a_row, mut given, mut through) = (0, 0, 0);
            for piece in pieces(answer) {
                given += piece.len();
                through += lane.step(piece, false).text.len();
                in_a_row = if given == through { 0 } else { in_a_row + 1 };
                waits.tokens += 1;
                waits.delays += usize::from(in_a_row > 0);
                waits.longest = waits.longest.max(in_a_row);
            }
        }
        waits
    }

    fn mean(&self) -> f64 {
        self.delays as f64 / self.tokens as f64
    }
}

/// What people wrote: the guides of this project, with their tables, links and code, and, where it is, what customers
/// of a bank wrote, which is not part of this project.
#[test]
fn what_people_wrote_waits_no_longer() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guides = [
        "kafka.md",
        "models.md",
        "production.md",
        "gateway.md",
        "tokens.md",
        "index.md",
    ];
    let guides: Vec<String> = guides
        .iter()
        .map(|name| std::fs::read_to_string(root.join("docs/src").join(name)).unwrap())
        .collect();
    let mut texts = vec![guides];
    let customers = root.join("../shared/data/banking77/train.csv");
    match std::fs::read_to_string(&customers) {
        Ok(lines) => texts.push(lines.lines().skip(1).map(str::to_owned).collect()),
        Err(_) => println!(
            "{} is not here: only the guides are read",
            customers.display()
        ),
    }
    for answers in texts {
        let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
        let waits = Waits::of(&answers);
        assert!(waits.tokens > 10_000, "{waits:?}");
        assert!(waits.mean() <= 0.02 && waits.longest <= 2, "{waits:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x746f_6b65),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn however_a_text_is_cut_the_same_goes_through(text in text(), cuts in prop::collection::vec(0usize..200, 0..12)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| text.floor_char_boundary(cut)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let cut: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
        let operator = started();
        for kind in [LaneKind::Content, LaneKind::Reasoning, LaneKind::Arguments(1)] {
            let lane = || operator.open(&with_map(TestLane::of(kind))).unwrap();
            let whole = lane().run([text.as_str()]);
            prop_assert_eq!(&lane().run(cut.iter().copied()), &whole);
            let chars: Vec<String> = text.chars().map(String::from).collect();
            prop_assert_eq!(&lane().run(chars.iter().map(String::as_str)), &whole);
            // As every lane ends: what was held back goes out without a text.
            prop_assert_eq!(&lane().run([text.as_str(), ""]), &whole);
            prop_assert_eq!(whole.1, None::<Ending>);
            // Nothing of a placeholder is shown in half.
            let mut steps = lane();
            let mut shown = String::new();
            for piece in &cut {
                shown += &steps.step(piece, false).text;
                let map: serde_json::Map<String, Value> = serde_json::from_str(&map()).unwrap();
                for placeholder in map.keys() {
                    let half = (1..placeholder.len()).any(|end| shown.ends_with(&placeholder[..end]));
                    prop_assert!(!half, "{shown:?}");
                }
            }
        }
        let prose = format!("To {text}");
        let restored = Map::read(map().as_bytes()).unwrap().restore(&prose);
        let lane = operator.open(&with_map(TestLane::content())).unwrap();
        prop_assert_eq!(lane.run([prose.as_str()]).0, restored.unwrap_or(prose));
    }
}
