package tidegate

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shape is what a configuration, or a part of one, can be: its type with what its tags say. The schema is written from
// it, and what is read is held against it.
type shape struct {
	kind   shapeKind
	doc    string
	enum   []string
	bounds bounds
	// What it is where its key is not there, as JSON that was read, and whether there is such a default.
	fallback    any
	hasFallback bool
	// Entries of a list or map.
	each *shape
	// Keys of a table.
	fields []shapeField
}

type shapeKind int

const (
	shapeAny shapeKind = iota
	shapeBool
	shapeWhole
	shapeNumber
	shapeText
	shapeDuration
	shapeOwnText
	shapeList
	shapeMap
	shapeTable
)

type shapeField struct {
	name      string
	index     int
	isPointer bool
	shape     *shape
}

func (f shapeField) isRequired() bool { return !f.isPointer && !f.shape.hasFallback }

// bounds are the least and the most of a number or a length, as JSON numbers; "" for none.
type bounds struct{ least, most json.Number }

// tags are what a field says of itself, or of its entries.
type tags struct {
	of     reflect.StructTag
	prefix string
}

func (t tags) get(name string) (string, bool) { return t.of.Lookup(t.prefix + name) }

var (
	typeRaw      = reflect.TypeFor[json.RawMessage]()
	typeDuration = reflect.TypeFor[time.Duration]()
	typeOwnText  = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// shapeOf takes a type apart; within are the structs around it.
func shapeOf(of reflect.Type, said tags, within []reflect.Type) (*shape, error) {
	made, err := shapeOfType(of, said, within)
	if err != nil {
		return nil, err
	}
	if err := made.take(said); err != nil {
		return nil, err
	}
	return made, nil
}

func shapeOfType(of reflect.Type, said tags, within []reflect.Type) (*shape, error) {
	switch {
	case of == typeRaw:
		return &shape{kind: shapeAny}, nil
	case of == typeDuration:
		return &shape{kind: shapeDuration}, nil
	case reflect.PointerTo(of).Implements(typeOwnText):
		return &shape{kind: shapeOwnText}, nil
	}
	switch of.Kind() {
	case reflect.Bool:
		return &shape{kind: shapeBool}, nil
	case reflect.Float32, reflect.Float64:
		return &shape{kind: shapeNumber}, nil
	case reflect.String:
		return &shape{kind: shapeText}, nil
	case reflect.Interface:
		if of.NumMethod() == 0 {
			return &shape{kind: shapeAny}, nil
		}
	case reflect.Slice:
		each, err := shapeOf(of.Elem(), tags{said.of, said.prefix + "each."}, within)
		return &shape{kind: shapeList, each: each}, err
	case reflect.Map:
		if of.Key().Kind() == reflect.String {
			each, err := shapeOf(of.Elem(), tags{said.of, said.prefix + "each."}, within)
			return &shape{kind: shapeMap, each: each}, err
		}
	case reflect.Struct:
		if slices.Contains(within, of) {
			return nil, fmt.Errorf("type %s is within itself", of)
		}
		return tableOf(of, append(slices.Clone(within), of))
	default:
		if whole := wholeBounds(of.Kind()); whole != nil {
			return &shape{kind: shapeWhole, bounds: *whole}, nil
		}
	}
	return nil, fmt.Errorf("type %s cannot be configured", of)
}

// wholeBounds are those of a type of whole numbers, as far as they have to be said.
func wholeBounds(kind reflect.Kind) *bounds {
	switch kind {
	case reflect.Int, reflect.Int64:
		return &bounds{}
	case reflect.Int8:
		return &bounds{"-128", "127"}
	case reflect.Int16:
		return &bounds{"-32768", "32767"}
	case reflect.Int32:
		return &bounds{"-2147483648", "2147483647"}
	case reflect.Uint, reflect.Uint64:
		return &bounds{least: "0"}
	case reflect.Uint8:
		return &bounds{"0", "255"}
	case reflect.Uint16:
		return &bounds{"0", "65535"}
	case reflect.Uint32:
		return &bounds{"0", "4294967295"}
	}
	return nil
}

func tableOf(of reflect.Type, within []reflect.Type) (*shape, error) {
	table := &shape{kind: shapeTable}
	for index := range of.NumField() {
		field := of.Field(index)
		if field.Name == "_" {
			table.doc = field.Tag.Get("doc")
			continue
		}
		if !field.IsExported() || field.Anonymous {
			return nil, fmt.Errorf("field %s.%s is not exported or embedded", of, field.Name)
		}
		if field.Tag.Get("json") == "-" {
			// As in encoding/json it is the operator's own, and no key.
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		made := shapeField{name: name, index: index}
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			made.isPointer, inner = true, inner.Elem()
		}
		var err error
		if made.shape, err = shapeOf(inner, tags{of: field.Tag}, within); err != nil {
			return nil, fmt.Errorf("field %s of %s: %w", field.Name, of, err)
		}
		same := func(other shapeField) bool { return other.name == name }
		if slices.ContainsFunc(table.fields, same) {
			return nil, fmt.Errorf("two fields of %s have the key %q", of, name)
		}
		table.fields = append(table.fields, made)
	}
	return table, nil
}

// take takes what tags say.
func (s *shape) take(said tags) error {
	if doc, ok := said.get("doc"); ok {
		s.doc = doc
	}
	if enum, ok := said.get("enum"); ok {
		if s.kind != shapeText {
			return errors.New("the tag enum is for texts")
		}
		s.enum = strings.Split(enum, ",")
	}
	for _, tag := range boundTags {
		text, ok := said.get(tag.name)
		if !ok {
			continue
		}
		if !slices.Contains(tag.kinds, s.kind) {
			return fmt.Errorf("the tag %s does not fit its type", tag.name)
		}
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("the tag %s is %q, expected a number", tag.name, text)
		}
		if tag.isLeast {
			s.bounds.least = json.Number(text)
		} else {
			s.bounds.most = json.Number(text)
		}
	}
	text, ok := said.get("default")
	if !ok {
		return nil
	}
	s.hasFallback = true
	isText := s.kind == shapeText || s.kind == shapeDuration || s.kind == shapeOwnText
	if isText && !strings.HasPrefix(text, `"`) {
		s.fallback = text
	} else if err := decode(text, &s.fallback); err != nil {
		return fmt.Errorf("the tag default is %q: %w", text, err)
	}
	if err := s.hold(s.fallback, ""); err != nil {
		return fmt.Errorf("the tag default: %w", err)
	}
	return nil
}

var (
	numbers = []shapeKind{shapeWhole, shapeNumber}
	texts   = []shapeKind{shapeText}
	entries = []shapeKind{shapeList, shapeMap}

	boundTags = []struct {
		name    string
		isLeast bool
		kinds   []shapeKind
	}{
		{"minimum", true, numbers}, {"maximum", false, numbers},
		{"minLength", true, texts}, {"maxLength", false, texts},
		{"minItems", true, entries}, {"maxItems", false, entries},
	}
)
