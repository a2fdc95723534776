// Upper-cases values; see ../../README.md for what it does. Stock Go, for WASI preview 1:
// GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared
package main

import (
	"bytes"
	"fmt"
	"os"
	"time"
)

// The last answer: its memory is used again, since the host has copied it by the time it calls again.
var last answer

const reason = "the record asks for it"

func process(batch []byte) ([]byte, *failure) {
	if !isKnown(batch) {
		return nil, failureOf(permanent, "unknown-arena", "the batch has what this operator does not know")
	}
	last = begin(last, records(batch))
	for record := range records(batch) {
		value := value(batch, record)
		switch {
		case value == nil:
			// It passes.
		case bytes.HasPrefix(value, []byte("drop")):
			last.drop(record)
		case bytes.HasPrefix(value, []byte("dead")):
			last.deadLetter(record, reason)
		case bytes.HasPrefix(value, []byte("fail")):
			return nil, failureOf(permanent, "asked-for", reason)
		case bytes.HasPrefix(value, []byte("sleep")):
			began := time.Now()
			time.Sleep(time.Hour)
			last.replaceValue(record, fmt.Appendf(nil, "SLEPT %d", int(time.Since(began).Seconds())))
		default:
			if bytes.HasPrefix(value, []byte("print")) {
				fmt.Fprintln(os.Stderr, "a line of the operator")
			}
			uppercase(value)
			last.replaceValue(record, value)
		}
	}
	last.finish()
	return last, nil
}

// uppercase changes the batch, which is this call's own.
func uppercase(value []byte) {
	for at, letter := range value {
		if 'a' <= letter && letter <= 'z' {
			value[at] = letter - 32
		}
	}
}

func main() {}
