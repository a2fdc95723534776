package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	// The name under which the schema refers to itself.
	schemaName = "schema:config"
	// Digits of the longest number, and the largest power of ten: more would cost more than a record may.
	maxDigits = 1000
	// How deep a value goes: what is deeper could cost the stack.
	maxDepth = 512
	// Bytes of what is said about one rule.
	maxReason = 512
)

var english = message.NewPrinter(language.English)

type validator struct {
	schema  *jsonschema.Schema
	allowed bool // null values
}

// itself refuses every schema but the one of the configuration.
type itself struct{}

func (itself) Load(name string) (any, error) {
	return nil, fmt.Errorf("it refers to %s; a schema refers to itself alone", name)
}

func newValidator(config Config) (*validator, error) {
	tree, err := decode(config.Schema)
	if err == nil {
		err = checkNumbers(tree)
	}
	if err != nil {
		return nil, fmt.Errorf("config key `schema`: %w", err)
	}
	switch tree.(type) {
	case map[string]any, bool:
	default:
		return nil, errors.New("config key `schema` is neither a table nor true or false")
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(itself{})
	if config.Format {
		compiler.AssertFormat()
	}
	if err := compiler.AddResource(schemaName, tree); err != nil {
		return nil, fmt.Errorf("config key `schema`: %w", err)
	}
	schema, err := compiler.Compile(schemaName)
	var wrong *jsonschema.SchemaValidationError
	if errors.As(err, &wrong) {
		if broken := rules(wrong.Err); broken != nil {
			return nil, fmt.Errorf("config key `schema` is no JSON Schema: %s", shown(broken, config.Shown))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("config key `schema`: %w", err)
	}
	return &validator{schema: schema, allowed: config.Null == "pass"}, nil
}

// rule is one that a value breaks.
type rule struct{ place, rule, why string }

func (r rule) String() string { return fmt.Sprintf("%s: %s: %s", r.place, r.rule, r.why) }

// check gives the rules that a value breaks, in the order of their places; nil if it fits.
func (v *validator) check(value []byte) []rule {
	if value == nil {
		if v.allowed {
			return nil
		}
		return []rule{{"/", "null", "the value is null"}}
	}
	tree, err := decode(value)
	if err == nil {
		err = checkNumbers(tree)
	}
	if err != nil {
		return []rule{{"/", "json", "the value is no JSON: " + err.Error()}}
	}
	if err := v.schema.Validate(tree); err != nil {
		if broken := rules(err); broken != nil {
			return broken
		}
		return []rule{{"/", "schema", err.Error()}}
	}
	return nil
}

// decode reads one JSON text; numbers stay as they are written.
func decode(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	if isTooDeep(text) {
		return nil, fmt.Errorf("it goes deeper than %d", maxDepth)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	if decoder.InputOffset() < int64(len(text)) && len(bytes.TrimLeft(text[decoder.InputOffset():], " \t\r\n")) > 0 {
		return nil, fmt.Errorf("there is more after its end at byte %d", decoder.InputOffset())
	}
	return tree, nil
}

// isTooDeep tells whether lists and tables in a JSON text go too deep, before anything is made of them.
func isTooDeep(text []byte) bool {
	if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) <= maxDepth {
		return false
	}
	depth, inText := 0, false
	for at := 0; at < len(text); at++ {
		switch letter := text[at]; {
		case inText && letter == '\\':
			at++
		case letter == '"':
			inText = !inText
		case inText:
		case letter == '[' || letter == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case letter == ']' || letter == '}':
			depth--
		}
	}
	return false
}

// checkNumbers refuses numbers that are exact only at a cost beyond that of any record.
func checkNumbers(tree any) error {
	switch found := tree.(type) {
	case json.Number:
		digits, power, _ := strings.Cut(strings.ToLower(string(found)), "e")
		power = strings.TrimLeft(power, "+-0")
		if len(digits) > maxDigits || len(power) > 3 {
			return fmt.Errorf("the number %.20s... has more than %d digits", found, maxDigits)
		}
	case []any:
		for _, inner := range found {
			if err := checkNumbers(inner); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, inner := range found {
			if err := checkNumbers(inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// rules are the innermost causes of an error, always in the same order: that of a map in Go is not. Nil for another error.
func rules(err error) []rule {
	var top *jsonschema.ValidationError
	if !errors.As(err, &top) {
		return nil
	}
	var broken []rule
	gather(top, &broken)
	slices.SortFunc(broken, func(one, other rule) int {
		return strings.Compare(one.String(), other.String())
	})
	return slices.Compact(broken)
}

func gather(from *jsonschema.ValidationError, into *[]rule) {
	for _, cause := range from.Causes {
		gather(cause, into)
	}
	if len(from.Causes) > 0 {
		return
	}
	broken := keyword(from.ErrorKind)
	// Some reasons begin with the keyword themselves.
	why := strings.TrimPrefix(reason(from.ErrorKind), broken+": ")
	*into = append(*into, rule{pointer(from.InstanceLocation), broken, why})
}

// keyword is the one of the schema whose rule is broken.
func keyword(of jsonschema.ErrorKind) string {
	switch of.(type) {
	case *kind.FalseSchema:
		return "false"
	case *kind.Not:
		return "not"
	}
	if path := of.KeywordPath(); len(path) > 0 {
		return path[0]
	}
	return "schema"
}

func reason(of jsonschema.ErrorKind) string {
	// The names that are missing come in the order of the schema, those that are too many in that of a map.
	if many, ok := of.(*kind.AdditionalProperties); ok {
		slices.Sort(many.Properties)
	}
	why := of.LocalizedString(english)
	if len(why) > maxReason {
		why = strings.ToValidUTF8(why[:maxReason], "") + "..."
	}
	return why
}

// pointer is a JSON Pointer to a place; "/" is the whole value.
func pointer(path []string) string {
	if len(path) == 0 {
		return "/"
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var to strings.Builder
	for _, step := range path {
		to.WriteByte('/')
		to.WriteString(escape.Replace(step))
	}
	return to.String()
}

// shown says the first of the rules that are broken, and how many more there are.
func shown(broken []rule, most int) string {
	said := make([]string, 0, most)
	for _, one := range broken[:min(most, len(broken))] {
		said = append(said, one.String())
	}
	text := strings.Join(said, "; ")
	if more := len(broken) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
