//! The page as the gateway shows it to whoever has a key for it.

use serde_json::json;
use tidegate_tests::until;

use super::{HOSTILE, PATIENCE, Paged};
use crate::page::browser::Browser;

/// SHA-256 of `look-at-it`, which a test below is given.
const DIGEST: &str = "sha256:{digest}";

#[test]
fn with_a_key_for_the_page_everything_is_seen_and_nothing_can_be_done() {
    let port = tidegate_tests::free_port();
    let digest = ring::digest::digest(&ring::digest::SHA256, b"look-at-it");
    let digits: Vec<String> = digest.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    let digest = DIGEST.replace("{digest}", &digits.concat());
    let gateway = format!(
        "[gateway]\naddress = \"127.0.0.1:{port}\"\n[gateway.key.night]\ndigest = \"{digest}\"\n\
         endpoints = [\"page\"]\n[gateway.key.other]\nvariable = \"PATH\"\n"
    );
    let mut paged = Paged::start("last-words", "retries = 1", &gateway);
    let dead = json!({"k": HOSTILE, "text": HOSTILE, "last": "bad"});
    paged.append(&format!(
        "{}\n{dead}\n",
        json!({"k": "one", "text": "a good one"})
    ));
    paged.link();
    until("the dead letter", PATIENCE, || {
        paged.status()["records"]["dead"] == 1
    });
    let address = format!("http://127.0.0.1:{port}/tidegate");
    let mut browser = Browser::start();
    browser.width(1280);
    browser.colours("light");
    browser.open(&address);
    browser.sees("a key of its gateway that is for the page");
    browser.look("keys-sign-in");
    let sign_in = |browser: &mut Browser, key: &str| {
        browser.click("input[type=password]", "");
        browser.write(key);
        browser.press(&["Enter"]);
    };
    sign_in(&mut browser, "guessed");
    browser.sees("The gateway does not know this key");
    // One that is known and not for this.
    sign_in(&mut browser, &std::env::var("PATH").unwrap());
    browser.sees("may not use page");
    sign_in(&mut browser, "look-at-it");
    browser.sees("running");
    browser.sees("hostile.wasm");
    browser.look("keys-stream");
    for (title, shown) in [
        ("Slots", "misbehave 1.0.0"),
        ("Dead letters", "unreachable"),
        ("Engine", "Gateway"),
        ("Logs", "call 1"),
    ] {
        browser.click("nav a", title);
        browser.sees(shown);
    }
    let views = browser.run("document.querySelectorAll('nav a').length");
    assert_eq!(views, 5, "there is no playground");
    browser.press(&["3"]);
    browser.sees("unreachable");
    assert_eq!(
        browser.run("document.querySelectorAll('.letter input').length"),
        0
    );
    browser.click(".letter .open", "unreachable");
    browser.sees("<script>window.pwned=1</script>");
    let failures = "document.querySelectorAll('[role=alert], .notice.bad').length";
    assert_eq!(browser.run(failures), 0, "it is shown as a whole");
    browser.look("keys-letter");
    let buttons = "[...document.querySelectorAll('button')].map((b) => b.textContent).join('|')";
    let buttons = browser.run(buttons);
    assert!(!buttons.as_str().unwrap().contains("Send"), "{buttons}");
    browser.press(&["Escape"]);
    // The address of a view that is not there shows one that is.
    browser.run("location.hash = '#/playground'");
    browser.sees("hostile.wasm");
    browser.width(400);
    browser.colours("dark");
    browser.look("keys-400-dark");
    browser.is_well();

    // A restart with the same key: the counts begin anew, and are no rates of before.
    browser.width(1280);
    paged.running.kill();
    browser.sees("The connection is lost");
    paged.running = paged.workspace.start(&super::FOLLOW);
    browser.sees("live");
    browser.sees("running");
}
