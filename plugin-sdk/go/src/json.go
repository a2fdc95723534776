package tidegate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// How deep lists and objects of a value go: what is deeper could cost the stack.
	maxJSONDepth = 128
	// Digits of the longest whole number that is written out: more than those of any float64.
	maxWholeDigits = 400
)

// readJSON reads the value of a record.
func readJSON(value []byte, target any) error {
	if at := invalidAt(value); at >= 0 {
		return fmt.Errorf("value is not UTF-8 text at byte %d, and so not JSON", at)
	}
	if at := tooDeepAt(value); at >= 0 {
		return fmt.Errorf("value is not JSON that can be read: it is more than %d deep at byte %d", maxJSONDepth, at)
	}
	err := json.Unmarshal(value, target)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && strings.HasPrefix(wrong.Value, "number ") {
		// encoding/json takes 1.0 and 1e3 for no integers, which they are.
		if json.Unmarshal(withWholeNumbers(value), target) == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("value is not the expected JSON: %w", err)
	}
	return nil
}

// tooDeepAt gives the byte at which a JSON text goes too deep, before anything is made of it; -1 if it does not.
func tooDeepAt(text []byte) int {
	if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) <= maxJSONDepth {
		return -1
	}
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = stringEnd(text, at) - 1
		case '[', '{':
			if depth++; depth > maxJSONDepth {
				return at
			}
		case ']', '}':
			depth--
		}
	}
	return -1
}

// stringEnd gives where a string that begins here has ended.
func stringEnd(text []byte, at int) int {
	for at++; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(text)
}

// withWholeNumbers gives a JSON text with its whole numbers in digits alone.
func withWholeNumbers(text []byte) []byte {
	made := make([]byte, 0, len(text))
	for at := 0; at < len(text); {
		end := at + 1
		switch letter := text[at]; {
		case letter == '"':
			end = stringEnd(text, at)
		case letter == '-' || '0' <= letter && letter <= '9':
			for end < len(text) && strings.IndexByte("0123456789.eE+-", text[end]) >= 0 {
				end++
			}
			if whole, ok := wholeText(json.Number(text[at:end])); ok {
				made = append(made, whole...)
				at = end
				continue
			}
		}
		made = append(made, text[at:end]...)
		at = end
	}
	return made
}

// wholeText writes a number in digits alone, exactly, if it is whole: also 1.0 and 1e3.
func wholeText(number json.Number) (string, bool) {
	text, sign := string(number), ""
	if strings.HasPrefix(text, "-") {
		text, sign = text[1:], "-"
	}
	power := 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		// Beyond what fits it is the nearest that does, and cut where no text is as long.
		power, _ = strconv.Atoi(text[at+1:])
		power = min(max(power, -1<<40), 1<<40)
		text = text[:at]
	}
	before, after, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(before+after, "0")
	// How many digits stand before the point once the power has moved it.
	point := len(before) + power - (len(before) + len(after) - len(digits))
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return "0", true
	}
	if point < len(digits) || point > maxWholeDigits {
		return "", false
	}
	return sign + digits + strings.Repeat("0", point-len(digits)), true
}
