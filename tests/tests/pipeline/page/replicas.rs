//! The replicas of a model on the page, one of them left out.

use tidegate_tests::{root, until};

use super::browser::Browser;
use super::{PATIENCE, Paged};

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
    let mut browser = Browser::start();
    browser.width(1280);
    browser.colours("light");
    browser.open(&link);
    browser.sees("running");
    for width in [1280, 390] {
        for colours in ["light", "dark"] {
            browser.width(width);
            browser.colours(colours);
            browser.press(&["4"]);
            browser.sees("Replicas");
            browser.sees("serves");
            browser.sees("left out");
            browser.sees("no adapter matches `no such adapter`");
            browser.look(&format!("replicas-{width}-{colours}"));
        }
    }
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
