package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"godwit.dev/godwit/internal/server/metrics"
)

// names returns the set of existing metrics.
func names(known []metrics.Described) map[string]bool {
	n := make(map[string]bool, len(known))
	for _, m := range known {
		n[m.Name] = true
	}
	return n
}

// ours matches a metric of the server in an expression, with its matchers if it has some.
var ours = regexp.MustCompile(`\b((?:godwit|process|go)_[a-z0-9_]+)(\{[^}]*\})?`)

// check fails if an expression contains a metric that does not exist.
func check(known map[string]bool, expr string) error {
	for _, m := range ours.FindAllStringSubmatch(expr, -1) {
		name := m[1]
		for _, part := range []string{"_bucket", "_sum", "_count"} { // of a histogram
			if base, ok := strings.CutSuffix(name, part); ok && known[base] {
				name = base
			}
		}
		if !known[name] {
			return fmt.Errorf("%q names %s, which no part of the server describes", expr, m[1])
		}
	}
	return nil
}

// chosen restricts each of the server's metrics to the servers that the board's reader chooses.
func chosen(expr string) string {
	const servers = `job=~"$job", instance=~"$instance"`
	return ours.ReplaceAllStringFunc(expr, func(m string) string {
		if name, matchers, ok := strings.Cut(m, "{"); ok {
			return name + "{" + servers + ", " + matchers
		}
		return m + "{" + servers + "}"
	})
}

// reference returns the page of all metrics.
func reference(known []metrics.Described) []byte {
	var b bytes.Buffer
	b.WriteString(`# Metrics

What ` + "`GET /metrics`" + ` tells Prometheus, made from the server's own registry by ` + "`make generate`" + `. ` + "`godwit_postgres_…`" + ` come with PostgreSQL, ` + "`godwit_cluster_…`" + ` with several nodes,
` + "`godwit_nats_…`" + ` with a listener for NATS clients, one of a certificate with TLS, and ` + "`godwit_trace_…`" + ` and ` + "`godwit_otlp_…`" + ` with a collector of OpenTelemetry. Beside them are those of the Go runtime (` + "`go_…`" + `) and the process (` + "`process_…`" + `). What people ask most,
the board and the alerts: [Operations](../guides/operations.md#the-board).

| metric | labels | |
|---|---|---|
`)
	for _, m := range known {
		if !strings.HasPrefix(m.Name, "godwit_") {
			continue
		}
		labels := make([]string, len(m.Labels))
		for i, l := range m.Labels {
			labels[i] = "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.Name, strings.Join(labels, ", "), m.Help)
	}
	return b.Bytes()
}
