//! The low-rank adapters of a model on the page.

use tidegate_tests::adapter::{HIDDEN, write_adapter};
use tidegate_tests::{Workspace, root, until};

use super::{PATIENCE, Paged, engine_in_every_look};

#[test]
fn adapters_of_a_model_are_shown_below_it_with_what_each_was_asked() {
    let model = root().join("examples/support-bot/model");
    let adapters = Workspace::new("");
    let names = ["polite", "terse"];
    for (seed, name) in (1..).zip(names) {
        write_adapter(&adapters.path(name), seed, HIDDEN);
    }
    let through = names.map(|name| {
        format!(
            "[model.{name}]\ntype = \"lora\"\nbase = \"support\"\npath = {:?}\n[[stage]]\nname = \"{name}-answer\"\n\
             inputs = [\"guest\"]\nmodel = \"{name}\"\nprompt = \"{{text}}\"\nmax-tokens = 4\ninto = \"attributes\"\n\
             [sink.{name}]\ntype = \"file\"\ninputs = [\"{name}-answer\"]\npath = \"{name}.jsonl\"\n",
            adapters.path(name)
        )
    });
    let more = format!(
        "[model.support]\npath = {model:?}\nsequences = 2\nadapter = \"cpu\"\n{}",
        through.concat()
    );
    let mut paged = Paged::start("pass", "", &more);
    paged.append("{\"k\":\"one\",\"text\":\"where is my parcel\"}\n");
    let link = paged.link();
    until("an answer through each", PATIENCE, || {
        let loras = &paged.status()["models"][0]["loras"];
        loras[0]["answered"] == 1 && loras[1]["answered"] == 1
    });
    let mut browser = engine_in_every_look(&link, "adapters", &["Adapters", "polite"]);
    let table = "document.querySelector('[aria-label=Adapters] table')";
    let cells = |row: usize, what: &str| {
        format!(
            "[...{table}.querySelectorAll('tbody tr')[{row}].children].map((cell) => cell.textContent)[{what}]"
        )
    };
    for (row, name) in names.into_iter().enumerate() {
        assert_eq!(browser.run(&cells(row, "0")), name);
        // Its rank, and what was answered.
        assert_eq!(browser.run(&cells(row, "2")), "4");
        assert_eq!(browser.run(&cells(row, "3")), "1");
    }
    browser.is_well();
}
