package tidegate

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadConfig reads a configuration from JSON text, as [Schema] describes it; an empty text is an empty table. What is not
// there gets its default. An error names the key, its value and what would be right.
func ReadConfig[Config any](text string) (Config, error) {
	var config Config
	if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed == "null" {
		text = "{}"
	}
	var tree any
	if err := decode(text, &tree); err != nil {
		return config, fmt.Errorf("config: %w", err)
	}
	shape, err := shapeOf(reflect.TypeFor[Config](), tags{}, nil)
	if err != nil {
		return config, err
	}
	if err := shape.hold(tree, ""); err != nil {
		return config, err
	}
	err = shape.fill(reflect.ValueOf(&config).Elem(), tree, "")
	return config, err
}

// decode reads one JSON text, with numbers as they are written.
func decode(text string, into *any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the end of the JSON")
	}
	return nil
}

// place says where a value stands in a configuration: "rules[1].output"; "" is the whole.
type place string

func (p place) key(key string) place {
	if p == "" {
		return place(key)
	}
	return p + "." + place(key)
}

func (p place) entry(index int) place { return p + place(fmt.Sprintf("[%d]", index)) }

// refuse is the error about what is here: "has 0 entries".
func (p place) refuse(format string, values ...any) error {
	why := fmt.Sprintf(format, values...)
	if p == "" {
		return errors.New("config " + why)
	}
	return fmt.Errorf("config key `%s` %s", p, why)
}

// Bytes of a value that an error shows.
const shownBytes = 200

// wrong is the error that the value here is another than was expected.
func (p place) wrong(tree any, format string, values ...any) error {
	shown := string(jsonOf(tree))
	if len(shown) > shownBytes {
		shown = cut(shown, shownBytes) + " ..."
	}
	return p.refuse("is %s, expected %s", shown, fmt.Sprintf(format, values...))
}

// fill puts what was held against the shape into a value of its type.
func (s *shape) fill(to reflect.Value, tree any, at place) error {
	switch s.kind {
	case shapeAny:
		if to.Type() == typeRaw {
			to.SetBytes(jsonOf(tree))
		} else if tree != nil {
			to.Set(reflect.ValueOf(tree))
		}
	case shapeBool:
		to.SetBool(tree.(bool))
	case shapeWhole:
		return fillWhole(to, tree.(json.Number), at)
	case shapeNumber:
		number, _ := tree.(json.Number).Float64()
		to.SetFloat(number)
	case shapeText:
		to.SetString(tree.(string))
	case shapeDuration:
		duration, _ := time.ParseDuration(tree.(string))
		to.SetInt(int64(duration))
	case shapeOwnText:
		own := to.Addr().Interface().(encoding.TextUnmarshaler)
		if err := own.UnmarshalText([]byte(tree.(string))); err != nil {
			return at.refuse("is %s: %s", jsonOf(tree), err)
		}
	case shapeList:
		return s.fillList(to, tree.([]any), at)
	case shapeMap:
		return s.fillMap(to, tree.(map[string]any), at)
	case shapeTable:
		return s.fillTable(to, tree.(map[string]any), at)
	}
	return nil
}

func fillWhole(to reflect.Value, number json.Number, at place) error {
	text, _ := wholeText(number)
	if to.CanUint() {
		whole, err := strconv.ParseUint(text, 10, 64)
		if err != nil || to.OverflowUint(whole) {
			return at.wrong(number, "a whole number from 0 to %d", uint64(1)<<to.Type().Bits()-1)
		}
		to.SetUint(whole)
		return nil
	}
	whole, err := strconv.ParseInt(text, 10, 64)
	if err != nil || to.OverflowInt(whole) {
		most := int64(1)<<(to.Type().Bits()-1) - 1
		return at.wrong(number, "a whole number from %d to %d", -most-1, most)
	}
	to.SetInt(whole)
	return nil
}

func (s *shape) fillList(to reflect.Value, list []any, at place) error {
	made := reflect.MakeSlice(to.Type(), len(list), len(list))
	for index, entry := range list {
		if err := s.each.fill(made.Index(index), entry, at.entry(index)); err != nil {
			return err
		}
	}
	to.Set(made)
	return nil
}

func (s *shape) fillMap(to reflect.Value, table map[string]any, at place) error {
	made := reflect.MakeMapWithSize(to.Type(), len(table))
	for _, key := range sortedKeys(table) {
		entry := reflect.New(to.Type().Elem()).Elem()
		if err := s.each.fill(entry, table[key], at.key(key)); err != nil {
			return err
		}
		made.SetMapIndex(reflect.ValueOf(key).Convert(to.Type().Key()), entry)
	}
	to.Set(made)
	return nil
}

func (s *shape) fillTable(to reflect.Value, table map[string]any, at place) error {
	for _, field := range s.fields {
		tree, ok := table[field.name]
		if !ok {
			tree = field.shape.fallback
		}
		if tree == nil && !ok {
			continue
		}
		target := to.Field(field.index)
		if field.isPointer {
			target.Set(reflect.New(target.Type().Elem()))
			target = target.Elem()
		}
		if err := field.shape.fill(target, tree, at.key(field.name)); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(table map[string]any) []string {
	keys := make([]string, 0, len(table))
	for key := range table {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// oneLine joins the lines of errors that were joined.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
