//! The languages of operators, and what an operator may be granted.

use std::fmt;

/// What an operator is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// Rust, by cargo.
    Rust,
    /// C, by clang.
    C,
    /// JavaScript, in QuickJS or SpiderMonkey.
    JavaScript,
    /// TypeScript: bundled, then as JavaScript.
    TypeScript,
    /// Python, by componentize-py.
    Python,
    /// Go, by its own compiler.
    Go,
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 6] = [
        Language::Rust,
        Language::C,
        Language::JavaScript,
        Language::TypeScript,
        Language::Python,
        Language::Go,
    ];

    /// As a manifest has it: `javascript`.
    pub fn word(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::C => "c",
            Language::JavaScript => "javascript",
            Language::TypeScript => "typescript",
            Language::Python => "python",
            Language::Go => "go",
        }
    }

    /// As people write it: `JavaScript`.
    pub fn title(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::C => "C",
            Language::JavaScript => "JavaScript",
            Language::TypeScript => "TypeScript",
            Language::Python => "Python",
            Language::Go => "Go",
        }
    }

    /// The language of a word on the command line: as a manifest has it, or `js`, `ts`, `py`, `golang`, `rs`.
    pub fn from_word(word: &str) -> Option<Language> {
        Some(match word.to_ascii_lowercase().as_str() {
            "rust" | "rs" => Language::Rust,
            "c" => Language::C,
            "javascript" | "js" => Language::JavaScript,
            "typescript" | "ts" => Language::TypeScript,
            "python" | "py" => Language::Python,
            "go" | "golang" => Language::Go,
            _ => return None,
        })
    }

    /// The directory of its SDK below `plugin-sdk/`: TypeScript has that of JavaScript.
    pub fn sdk(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::C => "c",
            Language::JavaScript | Language::TypeScript => "js",
            Language::Python => "python",
            Language::Go => "go",
        }
    }

    /// How a main source ends; none where the language finds its sources itself.
    pub(crate) fn extensions(self) -> &'static [&'static str] {
        match self {
            Language::Rust | Language::Go => &[],
            Language::C => &["c"],
            Language::JavaScript => &["js", "mjs"],
            Language::TypeScript => &["ts"],
            Language::Python => &["py"],
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What runs the JavaScript within a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Small, and quick at the border of the component.
    #[default]
    QuickJs,
    /// Large; it has the web's interfaces.
    SpiderMonkey,
}

impl Engine {
    /// Both of them.
    pub const ALL: [Engine; 2] = [Engine::QuickJs, Engine::SpiderMonkey];

    /// As a manifest has it: `quickjs`.
    pub fn word(self) -> &'static str {
        match self {
            Engine::QuickJs => "quickjs",
            Engine::SpiderMonkey => "spidermonkey",
        }
    }
}

/// What an operator imports, and a pipeline has to grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Grant {
    /// Lines for the host's log.
    Log,
}

impl Grant {
    /// All of them.
    pub const ALL: [Grant; 1] = [Grant::Log];

    /// As manifests and pipeline files have it: `log`.
    pub fn word(self) -> &'static str {
        match self {
            Grant::Log => "log",
        }
    }
}

/// An interface of the contract that an operator exports beside the one for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Handler {
    /// The text of answers, as a model makes them.
    Tokens,
}

impl Handler {
    /// All of them.
    pub const ALL: [Handler; 1] = [Handler::Tokens];

    /// As manifests have it, and what operators say of themselves: `tokens`.
    pub fn word(self) -> &'static str {
        match self {
            Handler::Tokens => "tokens",
        }
    }

    /// The world of the contract that has its export.
    pub(crate) fn world(self) -> &'static str {
        match self {
            Handler::Tokens => "token-handler",
        }
    }
}
