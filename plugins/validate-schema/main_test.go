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

func TestRulesAreInTheOrderOfTheirPlaces(t *testing.T) {
	const schema = `{
		"items": {"type": "object", "propertyNames": {"maxLength": 2}, "additionalProperties": {"anyOf": [{"type": "null"}, {"type": "null"}]}}
	}`
	for value, expected := range map[string]string{
		`[` + strings.Repeat("0,", 11) + `0]`: "/0: type: got number, want object; /1: type: got number, want object; " +
			"/2: type: got number, want object; /3: type: got number, want object; and 8 more",
		`[{"10": 1, "9": 1, "a": 1, "010": 1}]`: "/: propertyNames: invalid propertyName '010'; /0/010: type: got number, want null; " +
			"/0/9: type: got number, want null; /0/10: type: got number, want null; and 1 more",
		// Those beyond the first twenty are counted as often as they are broken.
		`[{` + numbered(`"%d": 1`, 30) + `}]`: "/0/0: type: got number, want null; /0/1: type: got number, want null; " +
			"/0/2: type: got number, want null; /0/3: type: got number, want null; and 36 more",
		`[{}, {"one": null, "two": null}, {}]`: "/: propertyNames: invalid propertyName 'one'; /: propertyNames: invalid propertyName 'two'",
	} {
		harness := tidegate.NewHarness(t, validateSchema, config(schema, `, "shown": 4`))
		for range 20 {
			if answer := harness.RunOne(tidegate.Text(value)); answer.Reason != expected {
				t.Fatalf("%s: expected %s, came %s", value, expected, answer.Reason)
			}
		}
	}
}

// numbered is a list of so many, each with its number.
func numbered(format string, count int) string {
	made := make([]string, count)
	for index := range made {
		made[index] = fmt.Sprintf(format, index)
	}
	return strings.Join(made, ", ")
}

func TestWhateverIsBrokenTheReasonIsShort(t *testing.T) {
	const schema = `{"propertyNames": {"pattern": "^.{0,9}$"}, "additionalProperties": {"type": ["array", "object"], "items": {"$ref": "#"}}}`
	long := strings.Repeat("\u00e4/~", 100_000)
	for value, expected := range map[string]string{
		`{"a": 1, "` + long + `": 1}`:                                                     "/: propertyNames: invalid propertyName 'ä/~",
		`{"` + long + `": 1, "b": "` + long + `"}`:                                        "/b: type: got string, want array or object; /ä~1~0ä",
		`{"b": [{"` + long + `": [{"` + long + `": [5]}]}]}`:                              "/: propertyNames: invalid propertyName 'ä/~",
		`{"` + strings.Repeat("[", 100_000) + `": 1}`:                                     "/[[[[",
		`{"a": ` + strings.Repeat(`[{"c": `, 200) + `1` + strings.Repeat(`}]`, 200) + `}`: "/a/0/c/0/c/",
		`{` + numbered(`"a name that is too long %d": 1`, 50_000) + `}`:                   "and 99997 more",
	} {
		harness := tidegate.NewHarness(t, validateSchema, config(schema, ""))
		answer := harness.RunOne(tidegate.Text(value))
		if answer.Kind != "dead-letter" || !strings.Contains(answer.Reason, expected) || len(answer.Reason) > 3*1200 {
			t.Errorf("%.40s: expected %s, came %d bytes: %.400s", value, expected, len(answer.Reason), answer.Reason)
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
