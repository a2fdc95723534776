package tidegate

import (
	"errors"
	"fmt"
)

// FailureClass says whether something failed for good.
type FailureClass uint8

// The classes of failures.
const (
	// ClassTransient: the same call may succeed later. All records of the batch wait and come again.
	ClassTransient FailureClass = iota
	// ClassPermanent: the same call fails again. The records come again in smaller batches, until one fails by itself
	// and is a dead letter.
	ClassPermanent
	// ClassBadConfiguration: only another configuration helps. The records wait for it.
	ClassBadConfiguration
)

func (c FailureClass) String() string {
	switch c {
	case ClassTransient:
		return "transient"
	case ClassBadConfiguration:
		return "bad-configuration"
	}
	return "permanent"
}

// Failure is an error that fails the whole batch, or keeps the operator from starting. Any other error of Process is a
// dead letter of its record alone, and any other error of Start is one of the configuration.
type Failure struct {
	Class FailureClass
	// Code is a short name that does not change: [a-z][a-z0-9-]*, at most 64 bytes.
	Code string
	// Message is for people.
	Message string
}

// Transient is a failure that may pass.
func Transient(code, message string) *Failure { return &Failure{ClassTransient, code, message} }

// Permanent is a failure that comes again.
func Permanent(code, message string) *Failure { return &Failure{ClassPermanent, code, message} }

// BadConfiguration is a failure of the configuration.
func BadConfiguration(code, message string) *Failure {
	return &Failure{ClassBadConfiguration, code, message}
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Code, f.Message) }

// asFailure takes an error as a failure, if it is one or wraps one.
func asFailure(err error) *Failure {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure
	}
	return nil
}
