package tidegate

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
)

// Schema gives the JSON Schema (2020-12) of a configuration, as the host is told it: it holds the pipeline file against
// it, and editors complete with it.
//
// A configuration is a struct. Its fields are bool, numbers, string, time.Duration ("1.5s"), structs, slices, maps of
// string, json.RawMessage and any for what is anything, types that implement encoding.TextUnmarshaler, and pointers to
// these. A field has to be there unless it has a default, is a pointer (nil if it is not there), or is a slice or a map
// with `default:"[]"` or `default:"{}"`. What a field says in tags:
//
//	json:"longest"     the key; without it the field's own name; "-" for a field that is none
//	doc:"..."          one line for people
//	default:"80"       JSON; a text needs no quotes
//	enum:"a,b"         the texts that it can be
//	minimum:"1" maximum:"9"              of numbers
//	minLength:"1" maxLength:"9"          of texts, in characters
//	minItems:"1" maxItems:"9"            of slices and maps
//	each.minimum:"1", each.enum:"a,b"... of each entry of a slice or map
//
// A field named _ with a tag doc documents the whole. The error says which tag or type is wrong.
func Schema[Config any]() (string, error) {
	shape, err := shapeOf(reflect.TypeFor[Config](), tags{}, nil)
	if err != nil {
		return "", err
	}
	var to schemaText
	to.member("$schema", "https://json-schema.org/draft/2020-12/schema")
	shape.describe(&to)
	return to.text(), nil
}

// schemaText is an object of JSON whose members stay in order.
type schemaText struct{ bytes.Buffer }

func (s *schemaText) name(name string) {
	if s.Len() > 0 {
		s.WriteByte(',')
	}
	s.Write(jsonOf(name))
	s.WriteByte(':')
}

func (s *schemaText) member(name string, value any) {
	s.name(name)
	s.Write(jsonOf(value))
}

// object is a member that is an object itself.
func (s *schemaText) object(name string, shape *shape) {
	var inner schemaText
	shape.describe(&inner)
	s.name(name)
	s.WriteString(inner.text())
}

func (s *schemaText) text() string { return "{" + s.String() + "}" }

// jsonOf writes a value that can be written, as people write it.
func jsonOf(value any) []byte {
	var to bytes.Buffer
	encoder := json.NewEncoder(&to)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return strconv.AppendQuote(nil, err.Error())
	}
	return bytes.TrimSpace(to.Bytes())
}

// describe writes the members of the schema of a shape.
func (s *shape) describe(to *schemaText) {
	switch s.kind {
	case shapeBool:
		to.member("type", "boolean")
	case shapeWhole:
		to.member("type", "integer")
	case shapeNumber:
		to.member("type", "number")
	case shapeText, shapeDuration, shapeOwnText:
		to.member("type", "string")
	case shapeList:
		to.member("type", "array")
	case shapeMap, shapeTable:
		to.member("type", "object")
	}
	if s.doc != "" {
		to.member("description", s.doc)
	}
	if s.enum != nil {
		to.member("enum", s.enum)
	}
	s.bounds.describe(to, s.kind)
	switch s.kind {
	case shapeList:
		to.object("items", s.each)
	case shapeMap:
		to.object("additionalProperties", s.each)
	case shapeTable:
		s.describeTable(to)
	}
	if s.hasFallback {
		to.member("default", s.fallback)
	}
}

func (s *shape) describeTable(to *schemaText) {
	var properties schemaText
	var required []string
	for _, field := range s.fields {
		properties.object(field.name, field.shape)
		if field.isRequired() {
			required = append(required, field.name)
		}
	}
	to.name("properties")
	to.WriteString(properties.text())
	if required != nil {
		to.member("required", required)
	}
	to.member("additionalProperties", false)
}

func (b bounds) describe(to *schemaText, kind shapeKind) {
	least, most := "minLength", "maxLength"
	switch kind {
	case shapeWhole, shapeNumber:
		least, most = "minimum", "maximum"
	case shapeList:
		least, most = "minItems", "maxItems"
	case shapeMap:
		least, most = "minProperties", "maxProperties"
	}
	if b.least != "" {
		to.member(least, b.least)
	}
	if b.most != "" {
		to.member(most, b.most)
	}
}
