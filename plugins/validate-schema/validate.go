package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// The name under which the schema refers to itself.
	schemaName = "schema:config"
	// Digits of the longest number, and the largest power of ten: more would cost more than a record may.
	maxDigits = 1000
	// How deep a value goes: what is deeper could cost the stack.
	maxDepth = 512
)

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
		if found := rulesOf(wrong.Err); found.rules != nil {
			return nil, fmt.Errorf("config key `schema` is no JSON Schema: %s", found.shown(config.Shown))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("config key `schema`: %w", err)
	}
	return &validator{schema: schema, allowed: config.Null == "pass"}, nil
}

// check gives the rules that a value breaks, in the order of their places; none if it fits.
func (v *validator) check(value []byte) broken {
	if value == nil {
		if v.allowed {
			return broken{}
		}
		return alone("null", "the value is null")
	}
	tree, err := decode(value)
	if err == nil {
		err = checkNumbers(tree)
	}
	if err != nil {
		return alone("json", "the value is no JSON: "+err.Error())
	}
	if err := v.schema.Validate(tree); err != nil {
		if found := rulesOf(err); found.rules != nil {
			return found
		}
		return alone("schema", err.Error())
	}
	return broken{}
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
