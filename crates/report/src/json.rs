//! Records as JSON: a field per line for a person, on one line for a program.

use serde::Serialize;

use crate::prose::steers;
use crate::view::View;

/// serde_json fails only on map keys that are not text, and records have none.
const ALWAYS: &str = "records have text keys only";

/// The record, a field per line.
pub fn json(record: &(impl Serialize + ?Sized)) -> String {
    // Not by serde_json's own pretty form: that would be compiled for every type of every record once more.
    indented(&compact(record)) + "\n"
}

/// The record on one line: for a file, a pipe, `--json-stream`.
pub fn json_line(record: &(impl Serialize + ?Sized)) -> String {
    compact(record) + "\n"
}

fn compact(record: &(impl Serialize + ?Sized)) -> String {
    escaped(serde_json::to_string(record).expect(ALWAYS))
}

/// The same JSON, in which no text of another host steers a terminal: serde_json escapes ASCII alone.
fn escaped(json: String) -> String {
    if !json.contains(steers) {
        return json;
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if steers(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        } else {
            text.push(c);
        }
    }
    text
}

/// A view as JSON, after a field with its schema.
pub fn view_json(view: &View, schema: &str, in_lines: bool) -> String {
    let text = format!("{{\"schema\":\"{schema}\",{}", json_line(view).trim_start_matches('{'));
    if in_lines { indented(text.trim_end()) + "\n" } else { text }
}

/// JSON on one line, a field or an item per line, each level two spaces further in.
fn indented(compact: &str) -> String {
    let mut text = String::with_capacity(2 * compact.len());
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let new_line = |text: &mut String, depth: usize| {
        text.push('\n');
        (0..depth).for_each(|_| text.push_str("  "));
    };
    let mut rest = compact.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            _ if in_string => {
                text.push(c);
                (in_string, escaped) = (c != '"' || escaped, c == '\\' && !escaped);
            }
            '"' => {
                text.push(c);
                in_string = true;
            }
            '{' | '[' => {
                text.push(c);
                // An empty object or list stays on one line.
                if let Some(end) = rest.next_if(|next| matches!(next, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    new_line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![".{0,6}", Just("a\\\"{[,:]}\n".to_owned()), Just("\\".to_owned())];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9..1e9_f64).prop_map(Value::from),
            text.clone().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn a_view_begins_with_its_schema() {
        let [line, lines] = [false, true].map(|in_lines| view_json(&View::default(), "hairpin.report/1", in_lines));
        assert!(line.starts_with("{\"schema\":\"hairpin.report/1\",\"tool\":"), "{line}");
        assert!(lines.starts_with("{\n  \"schema\": \"hairpin.report/1\",\n  \"tool\":"), "{lines}");
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&line), value(&lines));
    }

    #[test]
    fn no_text_steers_a_terminal_and_all_reads_back() {
        let text = "a\u{9b}31m\u{7f}\u{202e}\u{e0001}é\u{1b}";
        let line = json_line(text);
        assert_eq!(line, "\"a\\u009b31m\\u007f\\u202e\\udb40\\udc01é\\u001b\"\n");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }

    proptest! {
        #[test]
        fn a_field_per_line_as_serde_json_writes_it(value in value()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let lines: Vec<String> = pretty.split('\n').map(|line| escaped(line.into())).collect();
            prop_assert_eq!(json(&value), lines.join("\n") + "\n");
        }
    }
}
