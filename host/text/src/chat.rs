//! Chat templates: the Jinja dialect of `transformers`, rendered with `minijinja`.
//!
//! What a template finds is what `apply_chat_template` gives it: `messages`, `add_generation_prompt`, the special
//! tokens, `tools` (none, which is not iterable, where there are none), `documents` as none, `raise_exception`,
//! `strftime_now` (here in UTC), a `tojson` that writes as Python does, Python's string methods, `break` and `continue`,
//! and trimmed blocks.
//!
//! A template is bounded in its length, its depth and the instructions it runs, but not in memory: one that doubles a
//! text in a loop takes all there is. Templates come with models, and a model is trusted as far as that.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, context};
use serde::Serialize;
use tidegate_contract::TemplateArguments;

use crate::config::TokenizerConfig;
use crate::turn::Turn;
use crate::{PromptError, date, python};

/// Instructions a template may run: far beyond what the longest published one needs for a long chat.
const FUEL: u64 = 5_000_000;
/// Longest template, in bytes; published ones have up to about 20 KiB.
const LONGEST: usize = 256 << 10;
/// Stack of the thread that compiles, in bytes of address space.
const STACK: usize = 512 << 20;
const NAME: &str = "chat";

/// One message, as the template sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ChatMessage<'a> {
    /// `system`, `user` or `assistant`.
    pub role: &'a str,
    /// The text.
    pub content: &'a str,
}

/// A compiled template.
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    thoughts: ThoughtsName,
}

/// What a template calls the thoughts of an earlier turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThoughtsName {
    /// `reasoning_content`, as servers do and most templates, and whoever does not say.
    ReasoningContent,
    /// `thinking`, as gpt-oss.
    Thinking,
    /// `reasoning`.
    Reasoning,
}

impl ThoughtsName {
    fn of(source: &str) -> ThoughtsName {
        let speaks_of = |name: &str| {
            let member = format!("message.{name}");
            let item = format!("message['{name}']");
            source.match_indices(&member).any(|(at, _)| {
                let behind = source[at + member.len()..].chars().next();
                !behind.is_some_and(|c| c.is_alphanumeric() || c == '_')
            }) || source.contains(&item)
        };
        match source.contains("reasoning_content") {
            true => ThoughtsName::ReasoningContent,
            false if speaks_of("thinking") => ThoughtsName::Thinking,
            false if speaks_of("reasoning") => ThoughtsName::Reasoning,
            false => ThoughtsName::ReasoningContent,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            ThoughtsName::ReasoningContent => "reasoning_content",
            ThoughtsName::Thinking => "thinking",
            ThoughtsName::Reasoning => "reasoning",
        }
    }
}

/// Marks an error of `raise_exception`, so that it is told apart from a failure of the template.
#[derive(Debug)]
struct Raised;

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("raised by the template")
    }
}

impl std::error::Error for Raised {}

impl ChatTemplate {
    /// Compiles a template; the error says where it is broken.
    ///
    /// The library compiles a chain of operators or conditions by recursion, so this happens on a thread whose stack
    /// holds the longest chain that a template has room for.
    pub(crate) fn compile(source: &str) -> Result<ChatTemplate, String> {
        if source.len() > LONGEST {
            return Err(format!(
                "template of {} bytes exceeds the limit of {LONGEST} bytes",
                source.len()
            ));
        }
        let compiled = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("tidegate-template".into())
                .stack_size(STACK)
                .spawn_scoped(scope, || ChatTemplate::compile_here(source))?;
            Ok(thread.join())
        });
        match compiled {
            Ok(Ok(compiled)) => compiled,
            Ok(Err(_)) => Err("the template library failed on it".into()),
            Err(error) => Err(io::Error::to_string(&error)),
        }
    }

    fn compile_here(source: &str) -> Result<ChatTemplate, String> {
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true);
        environment.set_syntax(syntax.build().map_err(|e| describe(&e))?);
        environment.set_fuel(Some(FUEL));
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(python::call_method);
        environment.add_filter("tojson", to_json);
        // To Python nothing is not iterable; templates ask before they look at the tools.
        environment.add_test("iterable", |value: &Value| {
            !value.is_none() && value.try_iter().is_ok()
        });
        environment.add_function(
            "raise_exception",
            |message: String| -> Result<Value, Error> {
                Err(Error::new(ErrorKind::InvalidOperation, message).with_source(Raised))
            },
        );
        environment.add_function("strftime_now", |pattern: String| -> Result<String, Error> {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs());
            date::format(now, &pattern).map_err(|e| Error::new(ErrorKind::InvalidOperation, e))
        });
        environment
            .add_template_owned(NAME, without_generation_tags(source))
            .map_err(|e| describe(&e))?;
        Ok(ChatTemplate {
            environment,
            thoughts: ThoughtsName::of(source),
        })
    }

    /// Renders turns, functions and arguments, with the beginning of the answer. Most templates take the arguments of calls as
    /// objects, as `transformers` gives them; one that fails on those is given their JSON text.
    pub(crate) fn render(
        &self,
        turns: &[Turn],
        functions: &[Value],
        arguments: &[(String, Value)],
        config: &TokenizerConfig,
    ) -> Result<String, PromptError> {
        let render = |objects: bool| {
            let messages = turns.iter().map(|turn| turn.value(objects, self.thoughts));
            self.render_values(messages.collect(), functions, arguments, config)
        };
        match render(true) {
            Err(PromptError::Template(first))
                if turns.iter().any(|turn| !turn.calls.is_empty()) =>
            {
                render(false).map_err(|error| match error {
                    PromptError::Template(_) => PromptError::Template(first),
                    error => error,
                })
            }
            rendered => rendered,
        }
    }

    fn render_values(
        &self,
        messages: Vec<Value>,
        functions: &[Value],
        arguments: &[(String, Value)],
        config: &TokenizerConfig,
    ) -> Result<String, PromptError> {
        let token = |token: &Option<String>| token.clone().unwrap_or_default();
        let template = self
            .environment
            .get_template(NAME)
            .map_err(|e| PromptError::Template(describe(&e)))?;
        let given = context! {
            messages,
            add_generation_prompt => true,
            bos_token => token(&config.bos_token),
            eos_token => token(&config.eos_token),
            pad_token => token(&config.pad_token),
            unk_token => token(&config.unk_token),
            tools => match functions {
                [] => Value::from(()),
                functions => functions.iter().cloned().collect(),
            },
            documents => Value::from(()),
        };
        // What is given anyway goes before an argument of its name, whoever has let that through.
        let arguments = arguments
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()));
        let given = context! { ..given, ..Value::from_pairs(arguments) };
        let rendered = catch_unwind(AssertUnwindSafe(|| template.render(given)))
            .map_err(|_| PromptError::Template("the template library failed on it".into()))?;
        rendered.map_err(|e| {
            let raised = std::error::Error::source(&e).is_some_and(|source| source.is::<Raised>());
            match e.detail() {
                Some(message) if raised => PromptError::Refused(message.to_owned()),
                _ => PromptError::Template(describe(&e)),
            }
        })
    }
}

/// Arguments as a template finds them.
pub(crate) fn values(arguments: &TemplateArguments) -> Vec<(String, Value)> {
    let value = |(name, value): (&str, &serde_json::Value)| {
        // Every JSON value is one of a template.
        let value = serde_json::from_value(value.clone()).unwrap_or_else(|_| Value::from(()));
        (name.to_owned(), value)
    };
    arguments.iter().map(value).collect()
}

/// What is used when a model has no template: a line for each turn and the beginning of the answer,
/// `System: ...`, `User: ...`, `Tool: ...`, `Assistant:`.
pub(crate) fn plain(turns: &[Turn]) -> String {
    let mut out = String::new();
    for turn in turns {
        let speaker = match turn.role.as_str() {
            "system" => "System",
            "assistant" => "Assistant",
            "tool" => "Tool",
            _ => "User",
        };
        out.push_str(speaker);
        out.push_str(": ");
        out.push_str(&turn.content);
        out.push('\n');
    }
    out.push_str("Assistant:");
    out
}

fn describe(error: &Error) -> String {
    let mut text = error.kind().to_string();
    if let Some(detail) = error.detail() {
        text = format!("{text}: {detail}");
    }
    match error.line() {
        Some(line) => format!("line {line}: {text}"),
        None => text,
    }
}

/// `{% generation %}` only marks what to train on: it is read as a block that is always there.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end + 2);
        let inner = &tag[2..tag.len() - 2];
        let word = inner.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let replacement = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => word,
        };
        out.push_str(&if replacement == word {
            tag.to_owned()
        } else {
            tag.replacen(word, replacement, 1)
        });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// `tojson(indent=none)`, written as Python's `json.dumps(ensure_ascii=False)` does.
fn to_json(value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    let mut out = Vec::new();
    let wrong = |e: serde_json::Error| Error::new(ErrorKind::BadSerialization, e.to_string());
    match indent {
        Some(width) => {
            let spaces = " ".repeat(width.min(64));
            let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
            value
                .serialize(&mut serde_json::Serializer::with_formatter(
                    &mut out, formatter,
                ))
                .map_err(wrong)?;
        }
        None => out = json_text(value).into_bytes(),
    }
    let text = String::from_utf8(out)
        .map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    Ok(Value::from_safe_string(text))
}

/// A value as Python's `json.dumps(ensure_ascii=False)` writes it.
pub(crate) fn json_text(value: &Value) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, PythonFormat);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(_) => value.to_string(),
    }
}

/// Python's separators: `", "` and `": "`.
struct PythonFormat;

impl serde_json::ser::Formatter for PythonFormat {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: [ChatMessage<'_>; 3] = [
        ChatMessage {
            role: "system",
            content: "Be brief.",
        },
        ChatMessage {
            role: "user",
            content: " <b>Hi</b> \"you\" é ",
        },
        ChatMessage {
            role: "assistant",
            content: "a,b",
        },
    ];

    fn render(source: &str) -> Result<String, PromptError> {
        let config = TokenizerConfig {
            bos_token: Some("<s>".into()),
            eos_token: Some("</s>".into()),
            ..TokenizerConfig::default()
        };
        ChatTemplate::compile(source)
            .unwrap()
            .render(&CHAT.map(Turn::from), &[], &[], &config)
    }

    #[test]
    fn messages_tokens_and_the_generation_prompt_are_rendered() {
        let source = "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m.content }}{% if loop.last %}\
                      {{ eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
        assert_eq!(
            render(source).unwrap(),
            "<s><|system|>Be brief.<|user|> <b>Hi</b> \"you\" é <|assistant|>a,b</s><|assistant|>"
        );
    }

    #[test]
    fn arguments_are_found_by_their_names_and_replace_nothing_that_is_given() {
        let source = "{% if enable_thinking is defined and not enable_thinking %}no {% endif %}{{ budget }} \
                      {{ list[1].a }} {{ messages | length }}{{ bos_token }}{{ missing is defined }}";
        let arguments = serde_json::json!({
            "enable_thinking": false, "budget": 7, "list": [1, {"a": "b"}], "messages": [], "bos_token": "!",
        });
        let arguments: Vec<(String, Value)> = (arguments.as_object().unwrap().iter())
            .map(|(name, value)| (name.clone(), serde_json::from_value(value.clone()).unwrap()))
            .collect();
        let config = TokenizerConfig {
            bos_token: Some("<s>".into()),
            ..TokenizerConfig::default()
        };
        let rendered = ChatTemplate::compile(source).unwrap().render(
            &CHAT.map(Turn::from),
            &[],
            &arguments,
            &config,
        );
        assert_eq!(rendered.unwrap().to_lowercase(), "no 7 b 3<s>false");
    }

    #[test]
    fn python_methods_work() {
        let cases = [
            ("{{ messages[1].content.strip() }}", "<b>Hi</b> \"you\" é"),
            (
                "{{ messages[0]['content'].startswith(('x', 'Be')) }}",
                "True",
            ),
            (
                "{{ 'a</think>b'.split('</think>')[-1].lstrip('\\n') }}",
                "b",
            ),
            (
                "{{ 'a,b,c'.split(',', 1)|length }}{{ 'a,b,c'.rsplit(',', 1)[0] }}",
                "2a,b",
            ),
            (
                "{{ messages[0].get('tools', 'none') }}{{ messages[0].get('x') is none }}",
                "noneTrue",
            ),
            (
                "{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}",
                "role=system;content=Be brief.;",
            ),
            (
                "{{ 'ab'.upper() ~ 'éa'.find('a') ~ 'x y'.title() ~ 'HeLLo'.capitalize() }}",
                "AB1X YHello",
            ),
            (
                "{{ ', '.join(['a', 'b']) ~ 'aXbX'.replace('X', '-', 1) ~ 'xxay'.strip('x') }}",
                "a, ba-bXay",
            ),
            (
                "{{ 'x' in messages[0] }}{{ 'role' in messages[0] }}{{ 'Hi' in messages[1].content }}",
                "FalseTrueTrue",
            ),
        ];
        for (source, wanted) in cases {
            assert_eq!(render(source).unwrap(), wanted, "{source}");
        }
    }

    #[test]
    fn json_is_written_as_python_does() {
        assert_eq!(
            render("{{ messages[1] | tojson }}").unwrap(),
            r#"{"role": "user", "content": " <b>Hi</b> \"you\" é "}"#
        );
        assert_eq!(
            render("{{ [1, 'a'] | tojson(indent=2) }}").unwrap(),
            "[\n  1,\n  \"a\"\n]"
        );
    }

    #[test]
    fn blocks_are_trimmed_and_loops_can_break() {
        let source = "{% for m in messages %}\n    {% if loop.index0 == 1 %}\n        {% break %}\n    {% endif %}\n{{ m.role }}\n{% endfor %}\nend";
        assert_eq!(render(source).unwrap(), "system\nend");
    }

    #[test]
    fn what_is_iterable_is_what_python_iterates() {
        let source = "{% for value in [tools, none, 1, 'text', [], {}, unheard_of] %}\
                      {{ value is iterable }} {% endfor %}";
        assert_eq!(
            render(source).unwrap().to_lowercase(),
            "false false false true true true true "
        );
        let asked_first = "{% if tools is iterable and tools | length > 0 %}tools{% endif %}none";
        assert_eq!(render(asked_first).unwrap(), "none");
    }

    #[test]
    fn generation_tags_are_transparent() {
        let source = "{% for m in messages %}{%- generation -%} {{ m.role[0] }} {%- endgeneration %}{% endfor %}";
        assert_eq!(render(source).unwrap(), "sua");
    }

    #[test]
    fn a_template_that_raises_says_its_own_words() {
        let error = render("{{ raise_exception('Only user and assistant roles are supported!') }}")
            .unwrap_err();
        assert_eq!(
            error,
            PromptError::Refused("Only user and assistant roles are supported!".into())
        );
    }

    #[test]
    fn an_endless_template_ends() {
        let source = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}";
        assert!(matches!(
            render(source).unwrap_err(),
            PromptError::Template(_)
        ));
    }

    #[test]
    fn a_template_without_end_in_depth_or_length_does_not_end_the_process() {
        for (open, part, middle, close, end) in [
            ("{{ ", "(", "1", ")", " }}"),
            ("{{ ", "not ", "1", "", " }}"),
            ("{{ ", "-", "1", "", " }}"),
            ("{{ ", "[", "", "]", " }}"),
            ("", "{% if 1 %}", "a", "{% endif %}", ""),
            ("{% if 0 %}", "{% elif 0 %}", "", "", "{% endif %}"),
            ("{{ 1", "+1", "", "", " }}"),
            ("{{ 1", "~1", "", "", " }}"),
            ("{{ 1", "<1", "", "", " }}"),
            ("{{ 1", " or 1", "", "", " }}"),
            ("{{ messages", "[0]", "", "", " }}"),
            ("{{ messages", ".a", "", "", " }}"),
            ("{{ messages", "()", "", "", " }}"),
            ("{{ 1", " if 1 else 1", "", "", " }}"),
            ("{{ 1", "|string", "", "", " }}"),
            ("{{ 1", " is string", "", "", " }}"),
        ] {
            let room = LONGEST - open.len() - middle.len() - end.len();
            let depth = room / (part.len() + close.len());
            let source = [open, &part.repeat(depth), middle, &close.repeat(depth), end].concat();
            // Either too deep or too much to run, or even right.
            if let Ok(template) = ChatTemplate::compile(&source) {
                let _ =
                    template.render(&CHAT.map(Turn::from), &[], &[], &TokenizerConfig::default());
            }
        }
        let error = ChatTemplate::compile(&" ".repeat(LONGEST + 1)).err();
        assert_eq!(
            error.as_deref(),
            Some("template of 262145 bytes exceeds the limit of 262144 bytes")
        );
    }

    #[test]
    fn a_template_that_calls_itself_without_end_ends() {
        let source = "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}";
        assert!(matches!(
            render(source).unwrap_err(),
            PromptError::Template(_)
        ));
    }

    #[test]
    fn a_template_that_breaks_the_library_is_an_error() {
        assert_eq!(
            render("{{ 'a'|indent(10000000000000000000) }}").unwrap_err(),
            PromptError::Template("the template library failed on it".into())
        );
    }

    #[test]
    fn a_broken_template_names_its_line() {
        let error = ChatTemplate::compile("a\n{% for %}").err().unwrap();
        assert!(error.starts_with("line 2: syntax error"), "{error}");
    }

    #[test]
    fn without_a_template_each_message_is_a_line() {
        assert_eq!(
            plain(&CHAT.map(Turn::from)[..2]),
            "System: Be brief.\nUser:  <b>Hi</b> \"you\" é \nAssistant:"
        );
    }
}
