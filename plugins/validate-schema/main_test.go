package main

import (
	"fmt"
	"strings"
	"testing"

	"operators/validate-schema/tidegate"
)

// The cases are those that `tidegate test` runs in the sandbox.
func TestCases(t *testing.T) { tidegate.RunCases(t, validateSchema, "cases/*.json") }

func config(schema, more string) string { return fmt.Sprintf(`{"schema": %s%s}`, schema, more) }

const order = `{
	"type": "object",
	"required": ["id", "items"],
	"additionalProperties": false,
	"properties": {
		"id": {"type": "integer", "minimum": 1},
		"mail": {"type": "string", "format": "email"},
		"items": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/item"}}
	},
	"$defs": {"item": {"type": "object", "properties": {"price": {"multipleOf": 0.01}, "a/b~c": {"enum": ["x", 1]}}}}
}`

func TestWhatIsBrokenIsSaidWithPlaceAndRule(t *testing.T) {
	harness := tidegate.NewHarness(t, validateSchema, config(order, ""))
	for value, expected := range map[string]string{
		`{"id": 1, "items": []}`:                                     "pass",
		` {"id": 1.0, "items": [{"price": 0.07}], "mail": "a@b.c"} `: "pass",
		`{"id": 0, "items": []}`:                                     "dead-letter: /id: minimum: got 0, want 1",
		`{"items": []}`:                                              "dead-letter: /: required: missing property 'id'",
		`{"id": 1, "items": [], "z": 1, "a": 2, "m": 3}`:             "dead-letter: /: additionalProperties: additional properties 'a', 'm', 'z' not allowed",
		`{"id": 1, "items": [{}, {"price": 0.071}]}`:                 "dead-letter: /items/1/price: multipleOf: got 0.071, want 0.01",
		`{"id": 1, "items": [{"a/b~c": 2}]}`:                         "dead-letter: /items/0/a~1b~0c: enum: value must be one of 'x', 1",
		`{"id": 1, "items": [], "mail": "nobody"}`:                   "dead-letter: /mail: format: 'nobody' is not valid email: missing @",
		`{"id": "1", "items": {}, "mail": 5}`:                        "dead-letter: /id: type: got string, want integer; /items: type: got object, want array; /mail: type: got number, want string",
		`{"id": "1", "items": {}, "mail": 5, "x": 1}`:                "dead-letter: /: additionalProperties: additional properties 'x' not allowed; /id: type: got string, want integer; /items: type: got object, want array; and 1 more",
		`[]`:                 "dead-letter: /: type: got array, want object",
		``:                   "dead-letter: /: json: the value is no JSON: EOF",
		`{"id": 1`:           "dead-letter: /: json: the value is no JSON: unexpected EOF",
		`{} {}`:              "dead-letter: /: json: the value is no JSON: there is more after its end at byte 2",
		"{\"id\": \"\xff\"}": "dead-letter: /: json: the value is no JSON: it is not UTF-8",
	} {
		// A map of Go has another order each time.
		for range 20 {
			if answer := harness.RunOne(tidegate.Text(value)); answer.String() != expected {
				t.Fatalf("%s: expected %s, came %s", value, expected, answer)
			}
		}
	}
}

func TestHostileValuesCostADeadLetter(t *testing.T) {
	schema := `{"items": {"$ref": "#"}, "multipleOf": 0.01, "maximum": 5}`
	harness := tidegate.NewHarness(t, validateSchema, config(schema, ""))
	for value, expected := range map[string]string{
		strings.Repeat("[", 512) + strings.Repeat("]", 512): "pass",
		strings.Repeat("[", 513) + strings.Repeat("]", 513): "it goes deeper than 512",
		strings.Repeat("[", 1_000_000):                      "it goes deeper than 512",
		`"` + strings.Repeat("[", 1_000_000) + `"`:          "pass",
		`"` + strings.Repeat(`\"[`, 10_000) + `"`:           "pass",
		"[" + strings.Repeat("[],", 10_000) + "[]]":         "pass",
		`1e1000`:                  "the number 1e1000... has more than 1000 digits",
		`-1E+0999`:                "pass",
		`1e-99999999999999999999`: "has more than 1000 digits",
		`[[1, ` + strings.Repeat("7", 1001) + `]]`: "has more than 1000 digits",
		`0.` + strings.Repeat("0", 900) + `1`:      "multipleOf",
	} {
		answer := harness.RunOne(tidegate.Text(value))
		if !strings.Contains(answer.String(), expected) {
			t.Errorf("%.40s: expected %s, came %s", value, expected, answer)
		}
		if len(answer.Reason) > 2000 {
			t.Errorf("%.40s: the reason has %d bytes", value, len(answer.Reason))
		}
	}
}

func TestASchemaThatIsNoneIsRefused(t *testing.T) {
	for schema, expected := range map[string]string{
		`5`:                                      "config key `schema` is neither a table nor true or false",
		`{"type": "strin"}`:                      "config key `schema` is no JSON Schema: /type: enum: value must be one of",
		`{"$ref": "#/$defs/none"}`:               "config key `schema`: ",
		`{"$ref": "https://example.org/a.json"}`: "a schema refers to itself alone",
		`{"$ref": "file:///etc/passwd"}`:         "a schema refers to itself alone",
		`{"pattern": "(?=a)"}`:                   "config key `schema` is no JSON Schema: /pattern: format: ",
		`{"$schema": "https://example.org/own"}`: "config key `schema`: ",
		`{"minimum": 1e99999}`:                   "config key `schema`: the number 1e99999... has more than 1000 digits",
		`{"$ref": "#"}`:                          "",
		`false`:                                  "",
		`{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": true}, "$ref": "#/definitions/a"}`: "",
	} {
		_, err := tidegate.StartHarness(validateSchema, config(schema, ""))
		switch {
		case err == nil && expected != "":
			t.Errorf("%s is taken", schema)
		case err != nil && (expected == "" || !strings.Contains(err.Error(), expected)):
			t.Errorf("%s: expected %q, came %v", schema, expected, err)
		}
	}
	if _, err := tidegate.StartHarness(validateSchema, `{}`); err == nil || !strings.Contains(err.Error(), "`schema` is missing") {
		t.Errorf("without a schema: %v", err)
	}
}

func TestBrokenRulesAreCounted(t *testing.T) {
	harness := tidegate.NewHarness(t, validateSchema, config(order, `, "then": "mark"`))
	harness.Run(tidegate.Text(`{"id": 0, "items": []}`), tidegate.Text(`{"id": 1, "items": []}`), tidegate.Text(`x`), tidegate.Text(`[]`), tidegate.Text(`5`))
	for rule, expected := range map[string]uint64{"minimum": 1, "json": 1, "type": 2, "required": 0} {
		if counted := harness.Counted(brokenRules, rule); counted != expected {
			t.Errorf("%s: expected %d, came %d", rule, expected, counted)
		}
	}
}
