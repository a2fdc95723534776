//! Conversations full of private values, each made from a number.

use serde_json::{Value, json};
use tidegate_tests::Random;

use crate::echo::{CASE, Form, Said, says, texts};

/// A conversation, and what in it is nobody's business.
pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) form: Form,
    /// It has no answer: the server refuses it, or an operator.
    pub(crate) refused: bool,
    /// Of those, an operator does.
    pub(crate) forbidden: bool,
    pub(crate) customer: String,
    pub(crate) messages: Value,
    /// Each whole.
    pub(crate) private: Vec<String>,
}

impl Conversation {
    /// The one with this number. Two whose numbers differ and whose form is the same differ in private values alone.
    pub(crate) fn new(number: u64, form: u64) -> Conversation {
        let mut shape = Random(form);
        let mut values = Values {
            random: Random(number ^ 0x70_7269_7661_7465),
            private: Vec::new(),
        };
        let customer = values.name();
        let name = letters(form);
        // By the server, which nobody but its user hears of, or by an operator, which makes a dead letter.
        let (refused, forbidden) = (form % 25 == 24, form % 50 == 49);
        let mut messages = Vec::new();
        if shape.below(3) == 0 {
            messages.push(json!({"role": "system", "content": text(&mut shape, &mut values)}));
        }
        for turn in 0..shape.below(3) {
            messages.push(json!({"role": "user", "content": text(&mut shape, &mut values)}));
            if shape.below(2) == 0 {
                messages
                    .push(json!({"role": "assistant", "content": text(&mut shape, &mut values)}));
                continue;
            }
            // A call, and what came of it.
            let arguments =
                json!({"to": values.any(&mut shape), "note": text(&mut shape, &mut values)});
            let function = json!({"name": "note", "arguments": arguments.to_string()});
            let id = format!("call_{turn}");
            messages.push(json!({"role": "assistant", "content": null,
                "tool_calls": [{"id": id, "type": "function", "function": function}]}));
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": text(&mut shape, &mut values)}));
        }
        let end = match (refused, forbidden) {
            (_, true) => " FORBID",
            (true, false) => " REFUSE",
            (false, false) => "",
        };
        let last = format!(
            "This is {CASE}{name}: {}{end}",
            text(&mut shape, &mut values)
        );
        messages.push(json!({"role": "user", "content": last}));
        Conversation {
            name,
            form: [Form::Prose, Form::Json, Form::Call][(form % 3) as usize],
            refused,
            forbidden,
            customer,
            messages: messages.into(),
            private: values.private,
        }
    }

    /// The request of its user.
    pub(crate) fn request(&self, stream: bool) -> Value {
        let mut request = json!({
            "model": "far", "stream": stream, "messages": self.messages,
            "metadata": {"customer": self.customer, "name": self.name},
        });
        let list = json!({"type": "array", "items": {"type": "string"}});
        let schema = json!({"type": "object", "properties": {"texts": list}, "required": ["texts"], "additionalProperties": false});
        match self.form {
            Form::Prose => {}
            Form::Json => {
                let schema = json!({"name": "said", "schema": schema, "strict": true});
                request["response_format"] = json!({"type": "json_schema", "json_schema": schema});
            }
            Form::Call => {
                let function =
                    json!({"name": "note", "description": "Takes a note.", "parameters": schema});
                request["tools"] = json!([{"type": "function", "function": function}]);
            }
        }
        request
    }

    /// The answer that its user is to read.
    pub(crate) fn answer(&self) -> Said {
        says(self.form, &self.name, &texts(&self.messages))
    }

    /// What of its private values stands in a text, be it a part of one.
    pub(crate) fn found_in(&self, text: &str) -> Option<String> {
        const PART: usize = 8;
        self.private.iter().find_map(|value| {
            let parts = 0..=value.len().saturating_sub(PART);
            let mut parts = parts.map(|at| &value[at..(at + PART).min(value.len())]);
            let part = parts.find(|part| text.contains(part))?;
            Some(format!("{part:?} of {value:?}"))
        })
    }
}

/// What stands between two values.
const BETWEEN: [&str; 14] = [
    " ", ", ", "; ", "\n", "\t", " (", ") ", "\"", "> <", "|", " and ", ": ", "'", " \\ ",
];
const PROSE: [&str; 10] = [
    "write to us soon, ",
    "I wrote to you before. ",
    "it is still not here: ",
    "Grüße aus Åre ",
    "thank you for the help. ",
    "do you read this? ",
    "the lamp flickers; ",
    "これは何ですか ",
    "they said so, and then ",
    "{\"see\": [1]} ",
];
/// What looks like a placeholder, and was said by somebody.
const ALIKE: [&str; 8] = [
    "[EMAIL_1]",
    "[NAME_1]",
    "[PHONE_10]",
    "[CARD_1",
    "[[EMAIL_2]]",
    "EMAIL_1]",
    "[email_1]",
    "[",
];

fn text(shape: &mut Random, values: &mut Values) -> String {
    let mut text = String::new();
    for _ in 0..2 + shape.below(4) {
        match shape.below(8) {
            0..4 => {
                for _ in 0..1 + shape.below(2) {
                    text += &values.any(shape);
                    text += BETWEEN[shape.below(BETWEEN.len() as u64) as usize];
                }
            }
            4 => {
                text += ALIKE[shape.below(ALIKE.len() as u64) as usize];
                text.push(' ');
            }
            _ => text += PROSE[shape.below(PROSE.len() as u64) as usize],
        }
    }
    text
}

/// Makes private values, and keeps them.
struct Values {
    random: Random,
    private: Vec<String>,
}

impl Values {
    fn name(&mut self) -> String {
        let name = format!("{} {}", self.word(3), self.word(3));
        // Each part is looked for by itself, too.
        self.private.extend(name.split(' ').map(str::to_owned));
        name
    }

    /// A value, and a copy of what is kept: which kind, the shape says.
    fn any(&mut self, shape: &mut Random) -> String {
        let value = match shape.below(9) {
            0 | 1 => self.email(),
            2 => self.card(shape),
            3 | 4 => self.phone(shape),
            5 => self.iban(),
            6 => format!(
                "{}-{:02}-{:04}",
                self.number(100, 500),
                self.number(10, 90),
                self.number(1000, 9000)
            ),
            7 => format!(
                "{}.{}.{}.{}",
                self.number(100, 90),
                self.number(100, 90),
                self.number(100, 90),
                self.number(100, 90)
            ),
            _ => {
                let secret = format!("{}:{}", self.word(2).to_lowercase(), self.word(4));
                let shown = format!("https://{secret}@files.example/x");
                self.private.push(secret);
                return shown;
            }
        };
        self.private.push(value.clone());
        value
    }

    fn number(&mut self, from: u64, below: u64) -> u64 {
        from + self.random.below(below)
    }

    fn word(&mut self, syllables: usize) -> String {
        const SYLLABLES: [&str; 16] = [
            "zor", "vek", "lum", "qua", "dri", "phe", "nox", "tal", "gri", "wex", "jov", "kir",
            "sul", "bry", "mog", "yth",
        ];
        let mut word: String = (0..syllables)
            .map(|_| SYLLABLES[self.random.below(16) as usize])
            .collect();
        word[..1].make_ascii_uppercase();
        word
    }

    fn email(&mut self) -> String {
        let (local, domain) = (self.word(3).to_lowercase(), self.word(3).to_lowercase());
        format!("{local}{}@{domain}.org", self.random.below(1000))
    }

    fn card(&mut self, shape: &mut Random) -> String {
        let mut digits = vec![4u64];
        digits.extend((0..14).map(|_| self.random.below(10)));
        let sum: u64 = digits
            .iter()
            .rev()
            .enumerate()
            .map(|(at, digit)| match at % 2 {
                0 => digit / 5 + digit * 2 % 10,
                _ => *digit,
            })
            .sum();
        digits.push((10 - sum % 10) % 10);
        let groups: Vec<String> = digits
            .chunks(4)
            .map(|group| group.iter().map(u64::to_string).collect())
            .collect();
        groups.join([" ", "-", ""][shape.below(3) as usize])
    }

    fn phone(&mut self, shape: &mut Random) -> String {
        let mut part = |from: u64, below: u64| from + self.random.below(below);
        match shape.below(3) {
            0 => format!(
                "+46 7{} {} {} {}",
                part(0, 10),
                part(100, 900),
                part(10, 90),
                part(10, 90)
            ),
            1 => format!("+49 30 {}", part(10_000_000, 90_000_000)),
            _ => format!(
                "({}) {}-{}",
                part(201, 700),
                part(201, 700),
                part(1000, 9000)
            ),
        }
    }

    /// Of Germany; check digits by ISO 7064, mod 97-10.
    fn iban(&mut self) -> String {
        let account: String = (0..18).map(|_| self.random.below(10).to_string()).collect();
        let whole = format!("{account}131400");
        let rest = whole
            .bytes()
            .fold(0, |rest, digit| (rest * 10 + u64::from(digit - b'0')) % 97);
        format!("DE{:02}{account}", 98 - rest)
    }
}

/// A number in letters.
fn letters(mut number: u64) -> String {
    let mut letters = String::new();
    for _ in 0..3 {
        letters.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
    }
    letters
}
