package main

import (
	"testing"

	"conformance/tidegate"
)

func TestCases(t *testing.T) { tidegate.RunCases(t, conformance, "../cases/*.json") }
