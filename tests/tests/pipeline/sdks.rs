//! The tests that SDKs have in their own languages.

use std::process::Command;

use tidegate_tests::root;

#[test]
fn the_c_sdk_passes_its_own_tests() {
    let ran = Command::new("sh")
        .arg(root().join("plugin-sdk/c/tests/test.sh"))
        .output()
        .unwrap();
    let (told, wrong) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{told}{wrong}");
}
