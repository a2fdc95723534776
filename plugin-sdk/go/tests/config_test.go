package tests

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	tidegate "tidegate-sdk/src"
)

// own is a type with rules of its own.
type own struct{ text string }

func (o *own) UnmarshalText(text []byte) error {
	o.text = strings.ToUpper(string(text))
	if o.text == "" {
		return errEmpty
	}
	return nil
}

type errorText string

func (e errorText) Error() string { return string(e) }

const errEmpty = errorText("expected a letter")

func TestWholeNumbersAreExactHoweverTheyAreWritten(t *testing.T) {
	type whole struct {
		Signed   int64  `json:"signed" maximum:"1000000000000000000" default:"0"`
		Unsigned uint64 `json:"unsigned" default:"0"`
	}
	for text, expected := range map[string]string{
		`{"signed": 1e18}`:                     "{1000000000000000000 0}",
		`{"signed": 1.0, "unsigned": -0}`:      "{1 0}",
		`{"signed": 123456789012345678.90e1}`:  "config key `signed` is 123456789012345678.90e1, expected at most 1000000000000000000",
		`{"signed": -1234567890123456789.0}`:   "{-1234567890123456789 0}",
		`{"signed": 1000000000000000001.0}`:    "config key `signed` is 1000000000000000001.0, expected at most 1000000000000000000",
		`{"unsigned": 18446744073709551615.0}`: "{0 18446744073709551615}",
		`{"unsigned": 18446744073709551616.0}`: "config key `unsigned` is 18446744073709551616.0, expected a whole number from 0 to 18446744073709551615",
		`{"signed": 0.99999999999999999999}`:   "config key `signed` is 0.99999999999999999999, expected a whole number",
		`{"signed": 1e-400}`:                   "config key `signed` is 1e-400, expected a whole number",
		`{"signed": 1e99999999999999999999}`:   "config key `signed` is 1e99999999999999999999, expected a whole number",
	} {
		read, err := tidegate.ReadConfig[whole](text)
		came := fmt.Sprint(read)
		if err != nil {
			came = err.Error()
		}
		if came != expected {
			t.Errorf("%s: expected %s, came %s", text, expected, came)
		}
	}
}

type limits struct {
	_       struct{}        `doc:"Which values are too long."`
	Longest uint16          `json:"longest" doc:"The longest value, bytes." minimum:"1"`
	Mode    string          `json:"mode" enum:"drop,cut" default:"cut"`
	Ratio   float64         `json:"ratio" minimum:"0" maximum:"1" default:"0.5"`
	Names   []string        `json:"names" each.minLength:"1" maxItems:"3" default:"[]"`
	Sizes   map[string]int8 `json:"sizes" each.minimum:"-5" default:"{}"`
	Wait    time.Duration   `json:"wait" default:"1.5s"`
	Own     *own            `json:"own"`
	Any     json.RawMessage `json:"any" default:"null"`
	Rules   []rule          `json:"rules" default:"[]"`
	Flag    *bool           `json:"flag"`
	Big     int64           `json:"big" default:"0"`
}

type rule struct {
	Output string `json:"output"`
	On     bool   `json:"on" default:"true"`
}

func TestAConfigurationIsReadWithItsDefaults(t *testing.T) {
	type without struct {
		limits
	}
	if _, err := tidegate.Schema[without](); err == nil {
		t.Error("a struct that is embedded is taken")
	}
	flag := true
	read, err := tidegate.ReadConfig[limits](`{"longest": 80, "any": {"a": [1.50, "<"]}, "rules": [{"output": "x"}], "own": "abc",
		"sizes": {"a": -5}, "flag": true, "wait": "2m", "big": 1e3}`)
	expected := limits{
		Longest: 80, Mode: "cut", Ratio: 0.5, Names: []string{}, Sizes: map[string]int8{"a": -5}, Wait: 2 * time.Minute,
		Own: &own{"ABC"}, Any: json.RawMessage(`{"a":[1.50,"<"]}`), Rules: []rule{{"x", true}}, Flag: &flag, Big: 1000,
	}
	if err != nil || !reflect.DeepEqual(read, expected) {
		t.Errorf("%v, expected %+v, came %+v", err, expected, read)
	}
}

func TestAMistakeInAConfigurationIsNamedWithWhatWouldBeRight(t *testing.T) {
	for text, expected := range map[string]string{
		`{}`:                                                  "config key `longest` is missing",
		`{"longest": 0}`:                                      "config key `longest` is 0, expected at least 1",
		`{"longest": 65536}`:                                  "config key `longest` is 65536, expected at most 65535",
		`{"longest": 1.5}`:                                    "config key `longest` is 1.5, expected a whole number",
		`{"longest": "80"}`:                                   "config key `longest` is \"80\", expected a whole number",
		`{"longest": null}`:                                   "config key `longest` is null, expected a whole number",
		`{"longest": 1, "Longest": 1}`:                        "config key `Longest` is unknown, expected `longest`, `mode`, `ratio`,",
		`{"longest": 1, "mode": "x"}`:                         "config key `mode` is \"x\", expected one of \"drop\", \"cut\"",
		`{"longest": 1, "mode": 5}`:                           "config key `mode` is 5, expected one of \"drop\", \"cut\"",
		`{"longest": 1, "ratio": 1.01}`:                       "config key `ratio` is 1.01, expected at most 1",
		`{"longest": 1, "ratio": 1e999}`:                      "config key `ratio` is 1e999, expected a number",
		`{"longest": 1, "names": "a"}`:                        "config key `names` is \"a\", expected a list",
		`{"longest": 1, "names": ["a",""]}`:                   "config key `names[1]` has 0 characters, expected at least 1",
		`{"longest": 1, "names": ["a","b","c","d"]}`:          "config key `names` has 4 entries, expected at most 3",
		`{"longest": 1, "sizes": {"a": -6}}`:                  "config key `sizes.a` is -6, expected at least -5",
		`{"longest": 1, "wait": "soon"}`:                      "config key `wait` is \"soon\", expected a duration as \"1.5s\"",
		`{"longest": 1, "own": ""}`:                           "config key `own` is \"\": expected a letter",
		`{"longest": 1, "rules": [{"on": 1}]}`:                "config key `rules[0].output` is missing",
		`{"longest": 1, "rules": [{"output": "a", "on": 1}]}`: "config key `rules[0].on` is 1, expected true or false",
		`{"longest": 1, "big": 9223372036854775808}`:          "config key `big` is 9223372036854775808, expected a whole number from -9223372036854775808 to 9223372036854775807",
		`[]`:     "config is [], expected a table",
		`{} {}`:  "config: there is more after the end",
		`{"long`: "config: unexpected EOF",
		`{"longest": "` + strings.Repeat("é", 300) + `"}`: "config key `longest` is \"" + strings.Repeat("é", 99) + " ..., expected a whole number",
	} {
		if _, err := tidegate.ReadConfig[limits](text); err == nil || !strings.HasPrefix(err.Error(), expected) {
			t.Errorf("%s: expected %s, came %v", text, expected, err)
		}
	}
}

func TestTheSchemaIsThatOfTheType(t *testing.T) {
	schema, err := tidegate.Schema[limits]()
	if err != nil {
		t.Fatal(err)
	}
	expected := `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","description":"Which values are too long.",` +
		`"properties":{` +
		`"longest":{"type":"integer","description":"The longest value, bytes.","minimum":1,"maximum":65535},` +
		`"mode":{"type":"string","enum":["drop","cut"],"default":"cut"},` +
		`"ratio":{"type":"number","minimum":0,"maximum":1,"default":0.5},` +
		`"names":{"type":"array","maxItems":3,"items":{"type":"string","minLength":1},"default":[]},` +
		`"sizes":{"type":"object","additionalProperties":{"type":"integer","minimum":-5,"maximum":127},"default":{}},` +
		`"wait":{"type":"string","default":"1.5s"},` +
		`"own":{"type":"string"},` +
		`"any":{"default":null},` +
		`"rules":{"type":"array","items":{"type":"object","properties":{"output":{"type":"string"},"on":{"type":"boolean","default":true}},"required":["output"],"additionalProperties":false},"default":[]},` +
		`"flag":{"type":"boolean"},` +
		`"big":{"type":"integer","default":0}},` +
		`"required":["longest"],"additionalProperties":false}`
	if schema != expected {
		t.Errorf("expected\n%s\ncame\n%s", expected, schema)
	}
	if !json.Valid([]byte(schema)) {
		t.Error("the schema is no JSON")
	}
}

func TestATagThatIsWrongIsNamed(t *testing.T) {
	type badDefault struct {
		A int `json:"a" minimum:"5" default:"1"`
	}
	type badBound struct {
		A string `json:"a" minimum:"5"`
	}
	type badNumber struct {
		A int `json:"a" minimum:"five"`
	}
	type badEnum struct {
		A int `json:"a" enum:"1,2"`
	}
	type badType struct {
		A chan int `json:"a"`
	}
	type hidden struct {
		a int
	}
	type twice struct {
		A int `json:"B"`
		B int
	}
	type loop struct {
		A []*loop `json:"a"`
	}
	check := func(schema string, err error, expected string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("expected %q, came %v with %s", expected, err, schema)
		}
	}
	schema, err := tidegate.Schema[badDefault]()
	check(schema, err, "field A of tests.badDefault: the tag default: config is 1, expected at least 5")
	schema, err = tidegate.Schema[badBound]()
	check(schema, err, "the tag minimum does not fit its type")
	schema, err = tidegate.Schema[badNumber]()
	check(schema, err, `the tag minimum is "five", expected a number`)
	schema, err = tidegate.Schema[badEnum]()
	check(schema, err, "the tag enum is for texts")
	schema, err = tidegate.Schema[badType]()
	check(schema, err, "type chan int cannot be configured")
	schema, err = tidegate.Schema[hidden]()
	check(schema, err, "is not exported")
	schema, err = tidegate.Schema[twice]()
	check(schema, err, `two fields of tests.twice have the key "B"`)
	schema, err = tidegate.Schema[loop]()
	check(schema, err, "cannot be configured")
	_ = hidden{}.a
}

func TestAFieldOfTheOperatorsOwnIsNoKey(t *testing.T) {
	type config struct {
		Size int `json:"size" default:"3"`
		Made any `json:"-"`
	}
	read, err := tidegate.ReadConfig[config](`{}`)
	if err != nil || read.Size != 3 || read.Made != nil {
		t.Errorf("%+v, %v", read, err)
	}
	if _, err := tidegate.ReadConfig[config](`{"-": 1}`); err == nil {
		t.Error("the key - is taken")
	}
	if schema, err := tidegate.Schema[config](); err != nil || strings.Contains(schema, `"-"`) {
		t.Errorf("%s, %v", schema, err)
	}
}
