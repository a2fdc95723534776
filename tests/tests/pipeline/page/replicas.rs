//! The replicas of a model on the page, one of them left out.

use tidegate_tests::{root, until};

use super::{PATIENCE, Paged, engine_in_every_look};

#[test]
fn the_replicas_of_a_model_are_shown_with_those_that_are_left_out_and_why() {
    let model = root().join("examples/support-bot/model");
    let more = format!(
        "[model.support]\npath = {:?}\nsequences = 2\nadapters = [\"cpu\", \"no such adapter\"]\n[[stage]]\nname = \"answer\"\n\
         inputs = [\"guest\"]\nmodel = \"support\"\nprompt = \"{{text}}\"\nmax-tokens = 4\ninto = \"attributes\"\n\
         [sink.answers]\ntype = \"file\"\ninputs = [\"answer\"]\npath = \"answers.jsonl\"",
        model.display().to_string()
    );
    let mut paged = Paged::start("pass", "", &more);
    paged.append("{\"k\":\"one\",\"text\":\"where is my parcel\"}\n");
    let link = paged.link();
    until("an answer", PATIENCE, || {
        paged.status()["models"][0]["answered"] == 1
    });
    let words = [
        "Replicas",
        "serves",
        "left out",
        "no adapter matches `no such adapter`",
    ];
    let mut browser = engine_in_every_look(&link, "replicas", &words);
    // A reader of screens goes from the name of a column to what stands in its row.
    let table = "document.querySelector('[aria-label=Replicas] table')";
    assert_eq!(
        browser.run(&format!("{table}.querySelectorAll('tbody tr').length")),
        2
    );
    assert_eq!(
        browser.run(&format!(
            "{table}.querySelectorAll('tbody tr th[scope=row]').length"
        )),
        2
    );
    // How each stands, and why, is read on a narrow screen too without scrolling sideways.
    let ends = format!(
        "{table}.querySelector('tbody tr:last-child td').getBoundingClientRect().right <= innerWidth"
    );
    assert_eq!(browser.run(&ends), true);
    browser.is_well();
}
