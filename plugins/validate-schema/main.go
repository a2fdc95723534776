// The operator validate-schema holds the value of each record against a JSON Schema. What does not fit goes to the dead
// letters or to an output of its own, or passes with a header, and says in which place which rule is broken.
package main

import (
	"encoding/json"

	"operators/validate-schema/tidegate"
)

// Config is the schema, and what becomes of what does not fit.
type Config struct {
	_      struct{}        `doc:"Which values are right, and what becomes of the others."`
	Schema json.RawMessage `json:"schema" doc:"The JSON Schema that values are held against: 2020-12, or the draft that its $schema names. It refers to itself alone."`
	Then   string          `json:"then" doc:"What becomes of a record that does not fit: dead-letter, with the place and the rule as reason; route, to the output invalid, with the header; mark, it goes on with the header." enum:"dead-letter,route,mark" default:"dead-letter"`
	Header string          `json:"header" doc:"The header that says what is wrong, for route and mark. On a record that fits, mark removes it." minLength:"1" maxLength:"128" default:"schema-error"`
	Null   string          `json:"null" doc:"What becomes of a value that is null, a tombstone: pass, or invalid." enum:"pass,invalid" default:"pass"`
	Format bool            `json:"format" doc:"Whether format is a rule: date-time, email, uuid and so on." default:"true"`
	Shown  int             `json:"shown" doc:"Most broken rules of a record that are said." minimum:"1" maximum:"20" default:"3"`
}

const invalid = "invalid"

var brokenRules = tidegate.NewCounter("invalid_total", "Records that do not fit, by the first rule that is broken", "rule")

var validateSchema = tidegate.Operator[Config]{
	Name:    "validate-schema",
	Version: "1.0.0",
	Reads:   tidegate.Value,
	Outputs: []string{invalid},
	Metrics: []tidegate.Metric{brokenRules},
	Start:   start,
}

func init() { tidegate.Run(validateSchema) }

func main() {}

func start(config Config) (tidegate.Process, error) {
	validator, err := newValidator(config)
	if err != nil {
		return nil, err
	}
	// What is said of a record that fits.
	fits := tidegate.Pass()
	if config.Then == "mark" {
		fits = tidegate.Replace(tidegate.Change().RemoveHeader(config.Header))
	}
	return func(ctx *tidegate.Context, record tidegate.Record) (tidegate.Outcome, error) {
		found := validator.check(record.Value())
		if len(found.rules) == 0 {
			return fits, nil
		}
		brokenRules.Add(ctx, 1, found.rules[0].rule)
		reason := found.shown(config.Shown)
		switch config.Then {
		case "route":
			return tidegate.Route(invalid, tidegate.Change().SetHeader(config.Header, reason)), nil
		case "mark":
			return tidegate.Replace(tidegate.Change().SetHeader(config.Header, reason)), nil
		}
		return tidegate.DeadLetter(reason), nil
	}, nil
}
