package main

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// alert is a Prometheus alert.
type alert struct {
	name     string
	expr     string
	lasts    string // how long the condition must hold; empty: alert immediately
	severity string // page: someone must act now; ticket: act today
	summary  string // may contain {{ $labels.instance }} and {{ $value }}
	remedy   string
	trial    trial
}

// trial is a promtool test of an alert: a metric's values by the minute, bad for an hour and then good.
type trial struct {
	series []string // metrics with their values, in promtool's notation
	from   string   // time when the values are bad and the alert is raised; empty: 40m
	to     string   // time when the values have long been good again; empty: 130m
}

// badly returns a trial of one series.
func badly(series, values string) trial { return trial{series: []string{at(series, values)}} }

// at returns a series of one server.
func at(series, values string) string {
	if name, labels, ok := strings.Cut(series, "{"); ok {
		series = name + `{job="godwit", instance="a", ` + labels
	} else {
		series += `{job="godwit", instance="a"}`
	}
	return series + "|" + values
}

const where = "{{ $labels.instance }}"

var alerts = []alert{
	{"GodwitDown", `up{job="godwit"} == 0`, "2m", "page", where + " does not answer Prometheus", "Look at the log of the service and at GET /readyz.", badly("up", "0x60 1x240")},
	{"GodwitDamaged", `godwit_store_damaged == 1`, "", "page", "Stored data of " + where + " is damaged; nothing more is stored", "Stop it and run godwit doctor --repair, or restore a backup.", badly("godwit_store_damaged", "1x60 0x240")},
	{"GodwitRefusesForSpace", `increase(godwit_store_refused_total[5m]) > 0`, "", "page", where + " refuses publishes for want of disk space", "Free space; it goes on by itself. Publishers try again.", badly("godwit_store_refused_total", "0+3x60 180x240")},
	{"GodwitDiskFull", `godwit_store_free_bytes < 1e9`, "5m", "ticket", where + " has {{ $value | humanize1024 }}B of disk left", "Below min_free (256 MB) it refuses publishes. Free space, or keep less (retain, events_retain).", badly("godwit_store_free_bytes", "9e8x60 2e9x240")},
	{"GodwitStoreBehind", `godwit_store_queue > 5000`, "5m", "page", "{{ $value }} operations wait for the disk of " + where, "The disk is slower than what is published: look at its latency and at who publishes.", badly("godwit_store_queue", "6000x60 10x240")},
	{"GodwitPublishesSlow", `histogram_quantile(0.99, sum by (job, instance, le) (rate(godwit_http_request_duration_seconds_bucket` + publishes + `[5m]))) > 0.5`, "10m", "ticket", "One publish in a hundred takes {{ $value | humanizeDuration }} on " + where, "Look at the store's queue and at the disk's latency.", trial{series: []string{
		at(`godwit_http_request_duration_seconds_bucket{route="POST /v1/notifications", le="0.25"}`, "0+10x60 600+100x240"),
		at(`godwit_http_request_duration_seconds_bucket{route="POST /v1/notifications", le="1"}`, "0+100x60 6000+100x240"),
		at(`godwit_http_request_duration_seconds_bucket{route="POST /v1/notifications", le="+Inf"}`, "0+100x60 6000+100x240"),
	}}},
	{"GodwitErrors", `sum by (job, instance) (rate(godwit_http_requests_total{code="5xx"}[5m])) / sum by (job, instance) (rate(godwit_http_requests_total[5m])) > 0.01`, "5m", "page", where + " answers {{ $value | humanizePercentage }} of all requests with an error of its own", "GET /readyz says whether it can store; the log says the rest.", trial{series: []string{
		at(`godwit_http_requests_total{route="GET /v1/stats", code="2xx"}`, "0+95x300"),
		at(`godwit_http_requests_total{route="GET /v1/stats", code="5xx"}`, "0+5x60 300x240"),
	}}},
	{"GodwitBacklog", `godwit_notifications_pending > 10000 and godwit_notifications_pending > 2 * (godwit_notifications_pending offset 1h)`, "15m", "ticket", "{{ $value }} notifications wait on " + where + ", twice as many as an hour ago", "godwit top shows who does not acknowledge. Are clients connected, and does a step beyond live reach the others?", trial{series: []string{at("godwit_notifications_pending", "6000x60 20000x59 9000x240")}, from: "90m"}},
	{"GodwitCredentialRefused", `sum by (job, instance, channel) (godwit_push_refused_credentials) > 0`, "", "page", "A credential of channel {{ $labels.channel }} was refused; nothing leaves over it", "godwit channel list says why. Set a new credential, or resume the campaign that was paused.", badly(`godwit_push_refused_credentials{channel="fcm"}`, "1x60 0x240")},
	{"GodwitUnknownOutcomes", `sum by (job, instance, channel) (increase(godwit_push_results_total{outcome="unknown"}[1h])) > 0`, "", "ticket", "Of {{ $value | humanize }} messages over {{ $labels.channel }} nobody can tell whether they arrived", "Look at the deliveries of the campaign; godwit campaign retry-unknown sends them again.", badly(`godwit_push_results_total{channel="telegram", outcome="unknown"}`, "0+1x60 60x240")},
	{"GodwitPushesFail", `sum by (job, instance, channel) (rate(godwit_push_results_total{outcome="failed"}[15m])) / sum by (job, instance, channel) (rate(godwit_push_results_total{outcome!="pending"}[15m])) > 0.2`, "15m", "ticket", "{{ $value | humanizePercentage }} of all messages over {{ $labels.channel }} fail", "The status of a notification, or the deliveries of a campaign, say why.", trial{series: []string{
		at(`godwit_push_results_total{channel="webpush", outcome="accepted"}`, "0+50x300"),
		at(`godwit_push_results_total{channel="webpush", outcome="failed"}`, "0+50x60 3000x240"),
	}}},
	{"GodwitHookFails", `godwit_hooks{state="failing"} > 0`, "15m", "ticket", "{{ $value }} hooks of " + where + " fail", "godwit hook list says why; events wait in order and are sent once the receiver takes them.", badly(`godwit_hooks{state="failing"}`, "1x60 0x240")},
	{"GodwitHookPaused", `godwit_hooks{state="paused"} > 0`, "", "ticket", "{{ $value }} hooks of " + where + " are paused", "The receiver wants no more, or failed for five days. Set the hook again to let it go on.", badly(`godwit_hooks{state="paused"}`, "1x60 0x240")},
	{"GodwitHookLags", `godwit_hook_lag_seconds > 300`, "5m", "ticket", "A hook of " + where + " is {{ $value | humanizeDuration }} behind", "Is its receiver slow? It gets one event a request, in order.", badly("godwit_hook_lag_seconds", "0+60x60 0x240")},
	{"GodwitSinkStopped", `godwit_sinks{state="stopped"} > 0`, "", "ticket", "{{ $value }} sinks of " + where + " have stopped", "godwit sink status says why: a password, a right, a table of another shape. Set the sink again to let it go on.", badly(`godwit_sinks{sink="clickhouse", state="stopped"}`, "1x60 0x240")},
	{"GodwitSinkLags", `godwit_sink_lag_seconds > 300`, "5m", "ticket", "A sink of " + where + " is {{ $value | humanizeDuration }} behind", "godwit sink status says why. Events wait in the log for events_retain, and publishing is not slowed.", badly(`godwit_sink_lag_seconds{sink="clickhouse"}`, "0+60x60 0x240")},
	{"GodwitSourceFails", `godwit_sources{state="failing"} > 0`, "5m", "ticket", "{{ $value }} sources of the kind {{ $labels.source }} on " + where + " fail", "godwit source status says why, and godwit doctor what to do. What is committed meanwhile waits at the source.", badly(`godwit_sources{source="postgres", state="failing"}`, "1x60 0x240")},
	{"GodwitSourceLags", `godwit_source_lag_seconds > 300`, "5m", "ticket", "A source of the kind {{ $labels.source }} on " + where + " is {{ $value | humanizeDuration }} behind", "godwit source status says which. Is the store slow or full, or does a transaction of many rows arrive?", badly(`godwit_source_lag_seconds{source="postgres"}`, "0+60x60 0x240")},
	{"GodwitSourceKeepsLog", `godwit_source_lag_bytes > 1e9`, "10m", "ticket", "A source of the kind {{ $labels.source }} on " + where + " keeps {{ $value | humanize1024 }}B of a database's log", "The database cannot remove its log before it is read, and its disk fills. godwit source status says which source it is.", badly(`godwit_source_lag_bytes{source="postgres"}`, "2e9x60 0x240")},
	{"GodwitSourceQuarantines", `sum by (job, instance, source) (increase(godwit_source_entries_total{outcome="quarantined"}[15m])) > 0`, "", "ticket", "{{ $value | humanize }} entries of sources of the kind {{ $labels.source }} went into quarantine on " + where, "godwit source quarantine NAME lists them, and why. They reach nobody.", badly(`godwit_source_entries_total{source="postgres", outcome="quarantined"}`, "0+1x60 60x240")},
	{"GodwitEventsLost", `increase(godwit_events_dropped_total[5m]) > 0`, "", "ticket", where + " lost {{ $value | humanize }} events", "The event log could not be written fast enough: look at the disk. Notifications are not touched.", badly("godwit_events_dropped_total", "0+9x60 540x240")},
	{"GodwitAuditIncomplete", `increase(godwit_audit_lost_total[5m]) > 0`, "", "ticket", where + " could not write {{ $value | humanize }} deeds to the audit log", "Look at the disk, or at PostgreSQL. The server's own log has what is missing.", badly("godwit_audit_lost_total", "0+1x60 60x240")},
	{"GodwitTracesLost", `sum by (job, instance) (increase(godwit_trace_spans_total{outcome!="sent"}[5m])) > 0`, "15m", "ticket", where + " could not send {{ $value | humanize }} spans of traces", "Is the collector away or slow? Publishing is not touched. Sample fewer (OTEL_TRACES_SAMPLER).", badly(`godwit_trace_spans_total{outcome="dropped"}`, "0+9x60 540x240")},
	{"GodwitConnectionsRefused", `sum by (job, instance) (increase(godwit_connections_refused_total{reason=~"full|files"}[5m])) > 0`, "5m", "page", where + " has no room for more connections", "Raise max_connections and LimitNOFILE, or add a node.", badly(`godwit_connections_refused_total{reason="files"}`, "0+9x60 540x240")},
	{"GodwitCertificateEnds", `godwit_tls_certificate_expiry_timestamp_seconds - time() < 21 * 86400`, "1h", "ticket", "The certificate that " + where + " shows to {{ $labels.to }} ends in {{ $value | humanizeDuration }}", "Renew it; the files are read again when they change.", trial{series: []string{at(`godwit_tls_certificate_expiry_timestamp_seconds{to="clients"}`, "1e6x90 1e7x240")}, from: "80m"}},
	{"GodwitBusDown", `godwit_bus_up == 0`, "1m", "page", where + " has lost the message bus", "Topics and requests fail meanwhile. Look at the NATS that the setting nats names.", badly("godwit_bus_up", "0x60 1x240")},
	{"GodwitNodeMissing", `godwit_cluster_nodes{state="missing"} > 0`, "2m", "page", where + " misses {{ $value }} other nodes", "godwit cluster says which, for how long and why. Start it again, mend the network, or take it off the list: godwit cluster forget NODE.", badly(`godwit_cluster_nodes{state="missing"}`, "1x60 0x240")},
	{"GodwitPostgresDown", `godwit_postgres_up == 0`, "1m", "page", "PostgreSQL does not answer " + where, "Nothing is stored meanwhile; publishers get 503 and try again.", badly("godwit_postgres_up", "0x60 1x240")},
	{"GodwitPostgresHeld", `max by (holder) (godwit_postgres_horizon_seconds) > 300`, "", "ticket", "A {{ $labels.holder }} has kept PostgreSQL from removing dead rows for {{ $value | humanizeDuration }}", "godwit doctor --postgres URL names it.", badly(`godwit_postgres_horizon_seconds{holder="backend"}`, "0+60x60 0x240")},
}

// rulesYAML returns the alerts in Prometheus's format. JSON strings are valid YAML strings.
func rulesYAML(known map[string]bool) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`# Alerts on Godwit, made by tools/genboard: change them there. To try them: promtool test rules rules_test.yml
groups:
  - name: godwit
    rules:
`)
	for _, a := range alerts {
		if err := check(known, a.expr); err != nil {
			return nil, fmt.Errorf("alert %s: %w", a.name, err)
		}
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n", a.name, strconv.Quote(a.expr))
		if a.lasts != "" {
			fmt.Fprintf(&b, "        for: %s\n", a.lasts)
		}
		fmt.Fprintf(&b, "        labels: {severity: %s}\n        annotations:\n          summary: %s\n          description: %s\n", a.severity, strconv.Quote(a.summary), strconv.Quote(a.remedy))
	}
	return b.Bytes(), nil
}

// trialsYAML returns the alerts' tests for promtool: each alert is raised, alone, and ends when the values are good again.
func trialsYAML() []byte {
	var b bytes.Buffer
	b.WriteString(`# Made by tools/genboard. Each alert fires and resolves: promtool test rules rules_test.yml
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
`)
	for _, a := range alerts {
		fmt.Fprintf(&b, "  - interval: 1m\n    name: %s\n    input_series:\n", a.name)
		for _, s := range a.trial.series {
			series, values, _ := strings.Cut(s, "|")
			fmt.Fprintf(&b, "      - series: %s\n        values: %s\n", strconv.Quote(series), strconv.Quote(values))
		}
		const firing = `count by (alertname) (ALERTS{alertstate="firing"})`
		fmt.Fprintf(&b, "    promql_expr_test:\n      - expr: %s\n        eval_time: %s\n        exp_samples: [{labels: %s, value: 1}]\n",
			strconv.Quote(firing), cmp.Or(a.trial.from, "40m"), strconv.Quote(`{alertname="`+a.name+`"}`))
		fmt.Fprintf(&b, "      - expr: %s\n        eval_time: %s\n        exp_samples: []\n", strconv.Quote(firing), cmp.Or(a.trial.to, "130m"))
	}
	return b.Bytes()
}
