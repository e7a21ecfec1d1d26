package main

import (
	"encoding/json"
	"fmt"
)

// row is a part of the board under a heading.
type row struct {
	title  string
	panels []panel
}

// panel is a plot, or one figure if big is set.
type panel struct {
	title, help string
	unit        string // Grafana's name of it
	big         bool
	lines       []line
}

// line is an expression, with the legend of its results.
type line struct{ expr, legend string }

const rate = "[$__rate_interval]"

// quantile returns the expression for a quantile of a histogram, by a label if there is one.
func quantile(q, histogram, by string) string {
	of := "le"
	if by != "" {
		of += ", " + by
	}
	return fmt.Sprintf("histogram_quantile(%s, sum by (%s) (rate(%s%s)))", q, of, histogram+"_bucket", rate)
}

// publishes matches the routes that publish notifications.
const publishes = `{route=~"POST /v1/(notifications.*|notify/.*)"}`

func published(q string) string {
	return fmt.Sprintf("histogram_quantile(%s, sum by (le, route) (rate(godwit_http_request_duration_seconds_bucket%s%s)))", q, publishes, rate)
}

var board = []row{
	{"Now", []panel{
		{"Sessions", "Live sessions.", "short", true, []line{{"sum(godwit_sessions)", ""}}},
		{"Waiting", "Notifications that wait for their recipient.", "short", true, []line{{"max(godwit_notifications_pending)", ""}}},
		{"Stored a second", "", "ops", true, []line{{"sum(rate(godwit_notifications_stored_total" + rate + "))", ""}}},
		{"Delivered within (99 %)", "Over connections, from publish to the first write; of recipients who were away, from publish to when they came back.", "s", true, []line{{quantile("0.99", `godwit_notification_delivered_seconds`, ""), ""}}},
		{"Errors", "Share of answers with a code of 500 or more.", "percentunit", true, []line{{`sum(rate(godwit_http_requests_total{code="5xx"}` + rate + `)) / sum(rate(godwit_http_requests_total` + rate + `))`, ""}}},
		{"Disk free", "On the smallest disk.", "bytes", true, []line{{"min(godwit_store_free_bytes)", ""}}},
	}},
	{"Notifications", []panel{
		{"Stored and settled", "Copies a second, and what ended them.", "ops", false, []line{
			{"sum(rate(godwit_notifications_stored_total" + rate + "))", "stored"},
			{"sum by (status) (rate(godwit_notifications_settled_total" + rate + "))", "{{status}}"},
		}},
		{"Backlog", "Copies that wait for their recipient.", "short", false, []line{{"max by (instance) (godwit_notifications_pending)", "{{instance}}"}}},
		{"Publish to delivered", "By channel; live: the first write to a connection, others: the provider took it.", "s", false, []line{
			{quantile("0.5", "godwit_notification_delivered_seconds", "channel"), "{{channel}} 50 %"},
			{quantile("0.99", "godwit_notification_delivered_seconds", "channel"), "{{channel}} 99 %"},
		}},
		{"Publish to acknowledged", "By channel.", "s", false, []line{
			{quantile("0.5", "godwit_notification_acked_seconds", "channel"), "{{channel}} 50 %"},
			{quantile("0.99", "godwit_notification_acked_seconds", "channel"), "{{channel}} 99 %"},
		}},
		{"By category", "Copies stored a second.", "ops", false, []line{{"topk(10, sum by (category) (rate(godwit_notifications_category_stored_total" + rate + ")))", "{{category}}"}}},
		{"Deliveries", "Written to sessions a second, again for want of an acknowledgement, and acknowledged.", "ops", false, []line{
			{"sum(rate(godwit_deliveries_total" + rate + "))", "written"},
			{"sum(rate(godwit_redeliveries_total" + rate + "))", "again"},
			{"sum(rate(godwit_acks_total" + rate + "))", "acknowledged"},
			{"sum(rate(godwit_nacks_total" + rate + "))", "refused by clients"},
		}},
	}},
	{"Publishing and the disk", []panel{
		{"Answer to a publish", "Until it is on disk.", "s", false, []line{
			{published("0.5"), "{{route}} 50 %"},
			{published("0.99"), "{{route}} 99 %"},
		}},
		{"Answers by code", "Requests a second.", "reqps", false, []line{{"sum by (code) (rate(godwit_http_requests_total" + rate + "))", "{{code}}"}}},
		{"Commits", "Transactions a second.", "ops", false, []line{{"sum by (instance) (rate(godwit_store_commits_total" + rate + "))", "{{instance}}"}}},
		{"Waiting for the disk", "Operations.", "short", false, []line{{"max by (instance) (godwit_store_queue)", "{{instance}}"}}},
		{"Disk free", "Below min_free (256 MB) publishes are refused.", "bytes", false, []line{{"min by (instance) (godwit_store_free_bytes)", "{{instance}}"}}},
		{"Refused for space", "Publishes a second.", "ops", false, []line{{"sum by (instance) (rate(godwit_store_refused_total" + rate + "))", "{{instance}}"}}},
	}},
	{"Push, steps and campaigns", []panel{
		{"Results", "Messages a second, by channel and what became of them.", "ops", false, []line{{`sum by (channel, outcome) (rate(godwit_push_results_total{outcome!="pending"}` + rate + `)) > 0`, "{{channel}} {{outcome}}"}}},
		{"Nobody can tell", "Messages of the last hour that may or may not have arrived.", "short", false, []line{{`sum by (channel) (increase(godwit_push_results_total{outcome="unknown"}[1h]))`, "{{channel}}"}}},
		{"Credentials refused", "Nothing leaves over them until a person has looked.", "short", false, []line{{"sum by (channel) (godwit_push_refused_credentials)", "{{channel}}"}}},
		{"Put off", "Attempts a second that are made again.", "ops", false, []line{{"sum by (channel) (rate(godwit_push_put_off_total" + rate + "))", "{{channel}}"}}},
		{"Steps", "Sends of escalation steps a second.", "ops", false, []line{{"sum by (channel, outcome) (rate(godwit_escalation_steps_total" + rate + "))", "{{channel}} {{outcome}}"}}},
		{"Campaigns", "Messages of the campaigns that are worked on.", "short", false, []line{{"sum by (state) (godwit_campaign_deliveries)", "{{state}}"}}},
	}},
	{"Connections", []panel{
		{"Sessions", "By node.", "short", false, []line{{"sum by (instance) (godwit_sessions)", "{{instance}}"}}},
		{"Refused", "Connections a second that were not let in.", "ops", false, []line{{"sum by (reason) (rate(godwit_connections_refused_total" + rate + "))", "{{reason}}"}}},
		{"Goodbyes", "Sessions a second that the server ended.", "ops", false, []line{{"sum by (reason) (rate(godwit_goodbyes_total" + rate + "))", "{{reason}}"}}},
		{"Traffic", "", "Bps", false, []line{
			{"sum(rate(godwit_connections_read_bytes_total" + rate + "))", "read"},
			{"sum(rate(godwit_connections_written_bytes_total" + rate + "))", "written"},
		}},
		{"Waiting for clients", "Bytes that clients do not take.", "bytes", false, []line{{"sum by (instance) (godwit_connections_queued_bytes)", "{{instance}}"}}},
		{"Certificate", "Time left.", "s", false, []line{{"min by (instance, to) (godwit_tls_certificate_expiry_timestamp_seconds) - time()", "{{instance}} to {{to}}"}}},
	}},
	{"Events and hooks", []panel{
		{"Hooks", "By state.", "short", false, []line{{"sum by (state) (godwit_hooks)", "{{state}}"}}},
		{"Hooks' lag", "How long ago the oldest event happened that has to be posted.", "s", false, []line{{"max by (instance) (godwit_hook_lag_seconds)", "{{instance}}"}}},
		{"Events", "A second.", "ops", false, []line{
			{"sum(rate(godwit_events_written_total" + rate + "))", "written"},
			{"sum(rate(godwit_events_dropped_total" + rate + "))", "lost"},
		}},
		{"Sinks' lag", "How long ago the oldest event happened that is not in ClickHouse yet.", "s", false, []line{{"max by (instance) (godwit_sink_lag_seconds)", "{{instance}}"}}},
		{"Sinks", "Events a second that they take.", "ops", false, []line{{"sum by (instance) (rate(godwit_sink_events_total" + rate + "))", "{{instance}}"}}},
		{"Sources' lag", "Age of the oldest entry that waits at a source.", "s", false, []line{{"max by (source) (godwit_source_lag_seconds)", "{{source}}"}}},
		{"Sources", "Entries a second, by what became of them.", "ops", false, []line{{"sum by (outcome) (rate(godwit_source_entries_total" + rate + "))", "{{outcome}}"}}},
		{"Traces", "Spans a second, where there is a collector: sent, failed, dropped.", "ops", false, []line{{"sum by (outcome) (rate(godwit_trace_spans_total" + rate + "))", "{{outcome}}"}}},
	}},
	{"Objects, topics and requests", []panel{
		{"Objects", "A second.", "ops", false, []line{
			{"sum(rate(godwit_object_changes_total" + rate + "))", "changes"},
			{"sum(rate(godwit_object_frames_total" + rate + "))", "frames"},
			{"sum(rate(godwit_object_acks_total" + rate + "))", "acknowledgements"},
		}},
		{"Topics", "A second.", "ops", false, []line{
			{"sum(rate(godwit_topic_publishes_total" + rate + "))", "published"},
			{"sum(rate(godwit_topic_messages_total" + rate + "))", "written"},
			{"sum(rate(godwit_topic_dropped_total" + rate + "))", "dropped"},
		}},
		{"Requests", "A second, by outcome.", "ops", false, []line{{"sum by (outcome) (rate(godwit_requests_total" + rate + "))", "{{outcome}}"}}},
	}},
	{"Nodes and processes", []panel{
		{"Memory", "Of the processes.", "bytes", false, []line{{"process_resident_memory_bytes", "{{instance}}"}}},
		{"CPU", "Cores in use.", "short", false, []line{{"rate(process_cpu_seconds_total" + rate + ")", "{{instance}}"}}},
		{"Between nodes", "Notifications a second.", "ops", false, []line{
			{"sum(rate(godwit_cluster_routed_total" + rate + "))", "sent"},
			{"sum(rate(godwit_cluster_received_total" + rate + "))", "received"},
		}},
		{"What nodes own", "Leases on work that one node at a time does for an app.", "short", false, []line{{"sum by (instance, kind) (godwit_cluster_leases)", "{{instance}} {{kind}}"}}},
		{"How late nodes are", "The oldest event or entry that a hook, sink or source of a node has still to take.", "s", false, []line{
			{"max by (instance) (godwit_hook_lag_seconds)", "{{instance}} hooks"},
			{"max by (instance) (godwit_sink_lag_seconds)", "{{instance}} sinks"},
			{"max by (instance) (godwit_source_lag_seconds)", "{{instance}} sources"},
		}},
		{"Copies a commit", "Notifications' copies that a commit stores: the more, the less a copy costs the database.", "short", false, []line{
			{"sum by (instance) (rate(godwit_notifications_stored_total" + rate + ")) / sum by (instance) (rate(godwit_store_commits_total" + rate + "))", "{{instance}}"},
		}},
		{"PostgreSQL: dead rows", "By schema.", "short", false, []line{{"max by (schema) (godwit_postgres_dead_rows)", "{{schema}}"}}},
		{"PostgreSQL: held back", "For how long somebody has kept it from removing them.", "s", false, []line{{"max by (holder) (godwit_postgres_horizon_seconds)", "{{holder}}"}}},
		{"PostgreSQL: log a notification", "Write-ahead log.", "bytes", false, []line{{"max(rate(godwit_postgres_wal_bytes_total" + rate + ")) / max(rate(godwit_postgres_copies_total" + rate + "))", "bytes"}}},
	}},
}

// boardJSON returns the board in Grafana's import format.
func boardJSON(known map[string]bool) ([]byte, error) {
	const width = 24 // of Grafana's grid
	var panels []any
	id, y := 0, 0
	for _, r := range board {
		id++
		panels = append(panels, map[string]any{"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []any{}, "gridPos": grid(0, y, width, 1)})
		y++
		x, w, h := 0, 8, 8
		if r.panels[0].big {
			w, h = 4, 4
		}
		for i, p := range r.panels {
			id++
			one, err := p.json(known, id)
			if err != nil {
				return nil, fmt.Errorf("panel %s, %s: %w", r.title, p.title, err)
			}
			one["gridPos"] = grid(x, y, w, h)
			panels = append(panels, one)
			if x += w; x == width || i == len(r.panels)-1 {
				x, y = 0, y+h
			}
		}
	}
	b, err := json.MarshalIndent(map[string]any{
		"uid": "godwit", "title": "Godwit", "description": "Made by tools/genboard: change it there.", "tags": []string{"godwit"},
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "timezone": "browser", "refresh": "15s",
		"time":       map[string]string{"from": "now-1h", "to": "now"},
		"templating": map[string]any{"list": variables()}, "annotations": map[string]any{"list": []any{}}, "links": []any{}, "panels": panels,
	}, "", "  ")
	return append(b, '\n'), err
}

func grid(x, y, w, h int) map[string]int { return map[string]int{"x": x, "y": y, "w": w, "h": h} }

// source is the Prometheus data source that the board's reader chooses.
var source = map[string]string{"type": "prometheus", "uid": "$source"}

func variables() []any {
	list := func(name, label, query string) map[string]any {
		return map[string]any{
			"name": name, "label": label, "type": "query", "datasource": source, "query": map[string]string{"query": query, "refId": name}, "definition": query,
			"refresh": 2, "multi": true, "includeAll": true, "allValue": ".*", "sort": 1, "current": map[string]any{"selected": true, "text": "All", "value": "$__all"},
		}
	}
	return []any{
		map[string]any{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1, "current": map[string]any{}},
		list("job", "Job", "label_values(godwit_build_info, job)"),
		list("instance", "Node", `label_values(godwit_build_info{job=~"$job"}, instance)`),
	}
}

func (p *panel) json(known map[string]bool, id int) (map[string]any, error) {
	targets := make([]any, len(p.lines))
	for i, l := range p.lines {
		if err := check(known, l.expr); err != nil {
			return nil, err
		}
		target := map[string]any{"refId": string(rune('A' + i)), "datasource": source, "expr": chosen(l.expr), "legendFormat": l.legend, "editorMode": "code", "range": !p.big, "instant": p.big}
		targets[i] = target
	}
	one := map[string]any{
		"id": id, "title": p.title, "description": p.help, "datasource": source, "targets": targets,
		"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit, "min": 0}, "overrides": []any{}},
	}
	if p.big {
		one["type"] = "stat"
		one["options"] = map[string]any{"colorMode": "none", "graphMode": "none", "reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}}}
		return one, nil
	}
	one["type"] = "timeseries"
	one["options"] = map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
	return one, nil
}
