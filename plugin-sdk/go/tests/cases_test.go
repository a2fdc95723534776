package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	tidegate "tidegate-sdk/src"
)

var asks = tidegate.NewCounter("asks_total", "", "kind")

type casesConfig struct {
	Word string `json:"word" default:"a"`
}

// answers does what cases are compared with.
var answers = tidegate.Operator[casesConfig]{
	Name:    "answer",
	Version: "1.0.0",
	Reads:   everything,
	Outputs: []string{"left"},
	Metrics: []tidegate.Metric{asks},
	Start: func(config casesConfig) (tidegate.Process, error) {
		if config.Word == "later" {
			return nil, tidegate.Transient("not-now", "later")
		}
		return func(ctx *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
			switch text := string(record.Value()); text {
			case "drop":
				asks.Add(ctx, 2, "drop")
				tidegate.Log(tidegate.LevelWarn, "it is dropped")
				return tidegate.Drop(), nil
			case "left":
				return tidegate.Route("left", tidegate.Change().AddHeader("a", "\xff").NoEventTime()), nil
			case "split":
				return tidegate.Split(tidegate.Piece{Output: "left"}, tidegate.Piece{Changes: tidegate.Change().SetText(config.Word)}), nil
			case "fail":
				return tidegate.Outcome{}, tidegate.Permanent("asked-for", "it was asked for")
			}
			return tidegate.Replace(tidegate.Change().SetText("b")), nil
		}, nil
	},
}

const right = `{
	"config": {"word": "c"},
	"cases": [
		{"name": "outcomes", "records": [{"value": "drop"}, {"value": "left", "headers": {"b": null, "c": {"base64": "/w=="}}}, {"value": "split"}, {}, {"value": {"json": [1, "a"]}}],
		 "outcomes": ["drop", {"route": {"to": "left", "headers": [["add", "a", {"base64": "/w=="}]], "event-time": null}},
			{"split": [{"to": "left"}, {"value": "c"}]}, {"replace": {"value": "b"}}, {"replace": {"value": {"repeat": "b", "times": 1}}}],
		 "log": [["warn", {"contains": ["dropped"]}]],
		 "metrics": [{"name": "asks_total", "labels": {"kind": "drop"}, "value": 2}]},
		{"name": "failed", "records": [{"value": "fail"}], "failure": {"class": "permanent", "code": "asked-for", "message": {"contains": ["asked"]}}, "metrics": []},
		{"name": "refused", "config": {"word": "later"}, "refused": {"class": "transient", "code": "not-now", "message": "later"}},
		{"name": "hostile", "sandbox": true, "records": [{"value": "nothing of it"}], "outcomes": [{"poison": {"contains": ["deadline"]}}]}
	]
}`

// inner names other cases where this program runs itself, to see how tests fail.
const inner = "TIDEGATE_INNER_CASES"

func TestCasesThatAreRightPass(t *testing.T) {
	file := os.Getenv(inner)
	if file == "" {
		file = filepath.Join(t.TempDir(), "right.json")
		if err := os.WriteFile(file, []byte(right), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tidegate.RunCases(t, answers, file)
}

func TestADifferenceIsSaidByRecordAndField(t *testing.T) {
	for text, expected := range map[string]string{
		`{"records": [{"value": "drop"}], "outcomes": ["pass"]}`:                                                                     `record 1: expected pass, came drop`,
		`{"records": [{}, {}], "outcomes": [{"replace": {"value": "b"}}, {"replace": {"value": "a"}}]}`:                              `record 2: value: expected "a", came "b"`,
		`{"records": [{}], "outcomes": [{"replace": {"key": "k", "value": "b"}}]}`:                                                   `record 1: key: expected "k", came no change`,
		`{"records": [{}], "outcomes": [{"replace": {"value": null}}]}`:                                                              `record 1: value: expected null, came "b"`,
		`{"records": [{}], "outcomes": []}`:                                                                                          `it expects 0 outcomes, there are 1 records`,
		`{"records": [{"value": "left"}], "outcomes": [{"route": {"to": "left", "headers": [["set", "a", "1"]], "event-time": 5}}]}`: `event-time: expected 5, came none`,
		`{"records": [{"value": "split"}], "outcomes": [{"split": [{}, {"value": "c"}]}]}`:                                           `record 1: piece 1: expected the output "", came "left"`,
		`{"records": [{"value": "drop"}], "outcomes": ["drop"], "log": []}`:                                                          `log: expected 0 lines`,
		`{"records": [{"value": "drop"}], "outcomes": ["drop"], "log": [["info", "it is dropped"]]}`:                                 `expected the level info, came warn`,
		`{"records": [{"value": "drop"}], "outcomes": ["drop"], "metrics": []}`:                                                      `metrics: asks_totalmap[kind:drop]: expected nothing, came 2`,
		`{"records": [{"value": "fail"}], "outcomes": ["drop"]}`:                                                                     `the batch failed: asked-for: it was asked for`,
		`{"records": [{"value": "fail"}], "failure": {"code": "another"}}`:                                                           `code: expected another, came asked-for`,
		`{"records": [{"value": "drop"}], "failure": {}}`:                                                                            `the batch was to fail, it was answered`,
		`{"config": {"word": "later"}, "refused": {"class": "bad-configuration"}}`:                                                   `class: expected bad-configuration, came transient`,
		`{"refused": {}}`: `the configuration was to be refused`,
		`{"records": []}`: `it expects neither outcomes nor a failure`,
		`{"records": [{"valeu": ""}], "outcomes": ["pass"]}`: `unknown field "valeu"`,
		`{"records": [], "outcomes": ["passes"]}`:            `unknown outcome "passes"`,
		`{"records": [{"value": 5}], "outcomes": ["pass"]}`:  `5 is no bytes: expected a text`,
		`{"records": [], "outcomes": [], "seed": "00"}`:      `seed is "00", expected 32 hexadecimal digits`,
	} {
		file := filepath.Join(t.TempDir(), "wrong.json")
		whole := `{"cases": [{"name": "one", ` + text[1:] + `]}`
		if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		command := exec.Command(os.Args[0], "-test.run=^TestCasesThatAreRightPass$")
		command.Env = append(os.Environ(), inner+"="+file)
		said, err := command.CombinedOutput()
		if err == nil || !strings.Contains(string(said), expected) {
			t.Errorf("%s: expected %s, came %v with\n%s", text, expected, err, said)
		}
	}
}
