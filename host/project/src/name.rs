//! The name of an operator, and how languages write it.

use std::fmt;

use crate::language::Language;

/// Most bytes of a name.
const BYTES: usize = 64;

/// An operator's name: `redact-pii`. Lower-case words of letters and digits with a hyphen between them, the first of which
/// begins with a letter; at most 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(String);

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has characters or hyphens where none may be.
    #[error(
        "{name:?} is no operator's name: write lower-case words with hyphens between, {right:?}"
    )]
    Form {
        /// The text.
        name: String,
        /// A name that is near to it.
        right: String,
    },
    /// It is too long.
    #[error("the name has {bytes} bytes, limit {BYTES}")]
    Long {
        /// How many it has.
        bytes: usize,
    },
}

impl Name {
    /// Takes a text for a name.
    pub fn new(text: &str) -> Result<Name, NameError> {
        if text.len() > BYTES {
            return Err(NameError::Long { bytes: text.len() });
        }
        let word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if text.split('-').all(word) && text.starts_with(|first: char| first.is_ascii_lowercase()) {
            return Ok(Name(text.to_owned()));
        }
        Err(NameError::Form {
            name: text.to_owned(),
            right: nearest(text),
        })
    }

    /// `redact-pii`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `redact_pii`, for a module or a function of a language; `operator_match` where the language, its library or the SDK
    /// has the word already.
    pub fn snake(&self, language: Language) -> String {
        let snake = self.0.replace('-', "_");
        match self.is_taken(language) {
            true => format!("{BEFORE}_{snake}"),
            false => snake,
        }
    }

    /// `RedactPii`, for a type; `OperatorMatch` as in [`Name::snake`].
    pub fn camel(&self, language: Language) -> String {
        let capital = |word: &str| {
            let mut letters = word.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        };
        let before = self.is_taken(language).then_some(BEFORE);
        before
            .into_iter()
            .chain(self.0.split('-'))
            .map(capital)
            .collect()
    }

    /// `redact-pii`, for a package or crate; `operator-match` as in [`Name::snake`].
    pub fn package(&self, language: Language) -> String {
        match self.is_taken(language) {
            true => format!("{BEFORE}-{}", self.0),
            false => self.0.clone(),
        }
    }

    /// Whether a source of this name would stand in for something that the project needs, or cannot be written.
    fn is_taken(&self, language: Language) -> bool {
        let has = |words: &str| words.split_whitespace().any(|word| word == self.0);
        let begins = |words: &[&str]| words.iter().any(|word| self.0.starts_with(word));
        match language {
            Language::Rust => has(RUST) || begins(&["tidegate", "wit-bindgen"]),
            Language::Go => has(GO) || begins(&["test-"]),
            // Runners take functions that begin so for tests.
            Language::Python => {
                has(PYTHON) || begins(&["test", "tidegate", "componentize", "pytest", "wit-"])
            }
            // Their names stand in strings alone.
            Language::C | Language::JavaScript | Language::TypeScript => false,
        }
    }
}

/// Stands before a name that would be taken for something else.
const BEFORE: &str = "operator";
/// Words of Rust, its crates, and what the template names, with hyphens as a name has them.
const RUST: &str = "abstract as async await become box break const continue crate do dyn else enum extern false final \
    fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static struct super trait \
    true try type typeof union unsafe unsized use virtual where while yield alloc core proc-macro std test build deps \
    examples incremental serde serde-json syn quote answer changes config configuration default described description \
    err failure failure-class field-error fields harness into-outcome level log masked no-config no-output none ok \
    operator option origin outcome output output-name pair pairs panics piece random read-config record record-id \
    result runner some string test-record tests text timestamp to-string to-owned vec";
/// What the template names, and paths that have a meaning.
const GO: &str = "config internal main vendor testdata std cmd all";
/// Words of Python, its library of every version, what the template names, and what tests run with.
const PYTHON: &str = "and as assert async await break class continue def del elif else except finally for from global if \
    import in is lambda nonlocal not or pass raise return try while with yield match case type none true false \
    answer build config conftest dict field fields harness int length list masked operator packed pip pluggy iniconfig \
    packaging pygments poll-loop print py record replace run-cases run-one set setuptools sitecustomize str text tomli tuple \
    usercustomize pass bad-configuration word words \
    abc aifc annotationlib antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb \
    binascii bisect builtins bz2 calendar cgi cgitb chunk cmath cmd code codecs codeop collections colorsys \
    compileall compression concurrent configparser contextlib contextvars copy copyreg cprofile crypt csv ctypes \
    curses dataclasses datetime dbm decimal difflib dis distutils doctest email encodings ensurepip enum errno \
    faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext \
    glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib imghdr imp importlib inspect io ipaddress \
    itertools json keyword lib2to3 linecache locale logging lzma mailbox mailcap marshal math mimetypes mmap \
    modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath nturl2path numbers opcode operator \
    optparse os ossaudiodev pathlib pdb pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath \
    pprint profile pstats pty pwd py-compile pyclbr pydoc pydoc-data pyexpat queue quopri random re readline reprlib \
    resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site smtpd smtplib sndhdr \
    socket socketserver spwd sqlite3 sre-compile sre-constants sre-parse ssl stat statistics string stringprep \
    struct subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap this \
    threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle turtledemo types \
    typing unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib \
    xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name that somebody may have meant: `RedactPII 2` becomes `redact-pii-2`.
fn nearest(text: &str) -> String {
    let mut name = String::new();
    let mut was_lower = false;
    for letter in text.chars() {
        let is_word =
            letter.is_ascii_alphanumeric() && (!name.is_empty() || letter.is_alphabetic());
        let begins = !is_word || (letter.is_ascii_uppercase() && was_lower);
        if begins && !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
        if is_word {
            name.push(letter.to_ascii_lowercase());
        }
        was_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
    }
    match name.trim_end_matches('-') {
        "" => "redact-pii".to_owned(),
        name => name.to_owned(),
    }
}
