package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	tidegate "tidegate-sdk/src"
)

type numbers struct {
	Whole int64           `json:"whole"`
	Small uint8           `json:"small"`
	Real  float64         `json:"real"`
	Text  string          `json:"text"`
	Many  []int64         `json:"many"`
	Any   any             `json:"any"`
	Raw   json.RawMessage `json:"raw"`
}

func readsJSON(t *testing.T, value string) string {
	t.Helper()
	operator := runs(func(_ *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		var read numbers
		if err := record.JSON(&read); err != nil {
			return tidegate.Outcome{}, err
		}
		read.Any = fmt.Sprint(read.Any)
		return tidegate.DeadLetter(fmt.Sprintf("%d %d %g %q %v", read.Whole, read.Small, read.Real, read.Text, read.Many)), nil
	})
	return tidegate.NewHarness(t, operator, "").RunOne(tidegate.Text(value)).Reason
}

func TestJSONIsReadByTheRulesOfTheTable(t *testing.T) {
	deep := func(depth int) string {
		return `{"any": ` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
	}
	for value, expected := range map[string]string{
		`{"whole": 1.0, "small": 2e2, "real": 1.5, "text": "1.0", "many": [1e18, -1.50e1, 9223372036854775807.0]}`: `1 200 1.5 "1.0" [1000000000000000000 -15 9223372036854775807]`,
		`{"text": "a \" 1.0", "whole": 120e-1}`: `12 0 0 "a \" 1.0" []`,
		`{"whole": -0.0}`:                       `0 0 0 "" []`,
		`{"whole": 1.5}`:                        "value is not the expected JSON: json: cannot unmarshal number 1.5",
		`{"whole": 0.99999999999999999999}`:     "value is not the expected JSON: ",
		`{"whole": 1e19}`:                       "value is not the expected JSON: json: cannot unmarshal number 1e19",
		`{"small": 256.0}`:                      "value is not the expected JSON: json: cannot unmarshal number 256.0",
		`{"real": 1e400}`:                       "value is not the expected JSON: json: cannot unmarshal number 1e400",
		`{"any": 1e400}`:                        "value is not the expected JSON: json: cannot unmarshal number 1e400",
		`{"raw": 1e400}`:                        `0 0 0 "" []`,
		`{"whole": 1, "whole": 2}`:              `2 0 0 "" []`,
		`{"text": "\ud83d"}`:                    "0 0 0 \"\uFFFD\" []",
		"{\"text\": \"\xff\"}":                  "value is not UTF-8 text at byte 10, and so not JSON",
		deep(128):                               `0 0 0 "" []`,
		deep(129):                               "value is not JSON that can be read: it is more than 128 deep at byte 135",
		strings.Repeat("[", 1_000_000):          "value is not JSON that can be read: it is more than 128 deep at byte 128",
		`{"text": "` + strings.Repeat("[", 200) + `\"{"}`: `0 0 0 "` + strings.Repeat("[", 200) + `\"{" []`,
	} {
		if came := readsJSON(t, value); !strings.HasPrefix(came, expected) {
			t.Errorf("%.100s: expected %s, came %s", value, expected, came)
		}
	}
}
