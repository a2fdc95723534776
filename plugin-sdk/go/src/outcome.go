package tidegate

import "time"

// Outcome is what becomes of a record. The zero value passes.
type Outcome struct {
	action action
	after  time.Duration
	// The output that it is routed to, or the reason.
	text    string
	changes *Changes
	pieces  []Piece
}

type action byte

// Actions of an answer.
const (
	actionPass action = iota
	actionDrop
	actionReplace
	actionSplit
	actionRoute
	actionRetry
	actionDeadLetter
)

// Piece is one record of a split: where it goes and how it differs from the record it came from.
type Piece struct {
	// Output is the name of an output; "" is the main one.
	Output string
	// Changes may be nil: the piece is as the record is.
	Changes *Changes
}

// MaxPieces is how many records one can be split into.
const MaxPieces = 4095

// Pass lets the record go on as it is.
func Pass() Outcome { return Outcome{} }

// Drop ends the record.
func Drop() Outcome { return Outcome{action: actionDrop} }

// Replace lets the record go on with these changes.
func Replace(changes *Changes) Outcome { return Outcome{action: actionReplace, changes: changes} }

// Split makes the record these, at most [MaxPieces]; none is the same as Drop.
func Split(pieces ...Piece) Outcome { return Outcome{action: actionSplit, pieces: pieces} }

// Route sends the record to a named output, with these changes or, for nil, as it is.
func Route(output string, changes *Changes) Outcome {
	return Outcome{action: actionRoute, text: output, changes: changes}
}

// Retry gives the record to this operator again after a while, as often as the pipeline file says. The host waits whole
// milliseconds, at most 10 minutes.
func Retry(after time.Duration, reason string) Outcome {
	return Outcome{action: actionRetry, after: after, text: reason}
}

// DeadLetter sends the record to the dead letters. An error that Process returns does the same, with its text.
func DeadLetter(reason string) Outcome { return Outcome{action: actionDeadLetter, text: reason} }
