//! Runs the operator natively, through the same encoding as in WebAssembly.

use tidegate_sdk::prelude::*;

use crate::{{camel}};

fn operator() -> Harness<{{camel}}> {
    Harness::start(r#"{"words": ["secret"]}"#).unwrap()
}

#[test]
fn a_listed_word_is_masked() {
    let answer = operator().run_one(TestRecord::of("a secret, kept"));
    assert_eq!(answer.record().text().unwrap(), "a ***, kept");
}

#[test]
fn what_has_none_passes_as_it_is() {
    assert!(operator().run_one(TestRecord::of("nothing to see")).is_pass());
}

#[test]
fn a_wrong_configuration_is_refused_by_its_key() {
    let refused = Harness::<{{camel}}>::start(r#"{"words": [""]}"#).map(drop);
    assert!(refused.unwrap_err().message.contains("words"));
}
