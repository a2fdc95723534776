package main

import (
	"testing"

	"operators/validate-schema/tidegate"
)

func BenchmarkAnAccessLogLine(b *testing.B) {
	const schema = `{"type": "object", "required": ["status", "path"], "properties": {
		"status": {"type": "integer", "minimum": 100, "maximum": 599},
		"path": {"type": "string", "pattern": "^/"},
		"time": {"format": "date-time"}}}`
	const line = `{"status": 200, "path": "/a/b/c", "time": "2026-11-22T10:00:00Z", "agent": "Mozilla/5.0 (X11; Linux x86_64)",
		"referer": "https://example.org/x", "bytes": 5120, "host": "10.0.0.1"}`
	harness := tidegate.NewHarness(b, validateSchema, config(schema, ""))
	records := make([]tidegate.TestRecord, 256)
	for index := range records {
		records[index] = tidegate.Text(line)
	}
	b.ReportAllocs()
	for b.Loop() {
		harness.Run(records...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/record")
}
