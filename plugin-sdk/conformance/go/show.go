package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"conformance/tidegate"
)

// show writes all of a record as JSON.
func show(ctx *tidegate.Context, record tidegate.Record) string {
	id := record.ID()
	var to strings.Builder
	fmt.Fprintf(&to, `{"id":[%q,%d,%d,"%d","%d"],"time":`, id.Origin, id.Source, id.Partition, id.Offset, id.Emit)
	if at, known := record.EventTime(); known {
		fmt.Fprint(&to, at.UnixMicro())
	} else {
		to.WriteString("null")
	}
	fmt.Fprintf(&to, `,"clock":%d,"key":%s,"value":%s`, ctx.Now().UnixMicro(), digits(record.Key()), digits(record.Value()))
	fmt.Fprintf(&to, `,"headers":[%s],"attributes":[%s]}`, pairs(record.Headers()), pairs(record.Attributes()))
	return to.String()
}

func pairs(all iter.Seq2[string, []byte]) string {
	var shown []string
	for name, value := range all {
		shown = append(shown, fmt.Sprintf("[%s,%s]", quoted(name), digits(value)))
	}
	return strings.Join(shown, ",")
}

func digits(field []byte) string {
	if field == nil {
		return "null"
	}
	return `"` + hex.EncodeToString(field) + `"`
}

func (c Config) show() string {
	words := make([]string, len(c.Words))
	for index, word := range c.Words {
		words[index] = quoted(word)
	}
	label, nested := "null", "null"
	if c.Label != nil {
		label = quoted(*c.Label)
	}
	if c.Nested != nil {
		nested = fmt.Sprintf(`{"name":%s,"on":%t}`, quoted(c.Nested.Name), c.Nested.On)
	}
	return fmt.Sprintf(`{"mode":%s,"limit":%d,"words":[%s],"ratio":%v,"label":%s,"nested":%s}`,
		quoted(c.Mode), c.Limit, strings.Join(words, ","), c.Ratio, label, nested)
}

// quoted writes a text as JSON, with no more escapes than JSON asks for.
func quoted(text string) string {
	var to bytes.Buffer
	encoder := json.NewEncoder(&to)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err)
	}
	shown := strings.TrimSuffix(to.String(), "\n")
	return strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(shown)
}
