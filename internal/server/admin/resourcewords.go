package admin

// settingWords are what people call the fields of settings.
var settingWords = map[string]string{
	"hook.url": "Where events are posted", "hook.types": "Which events", "hook.secrets": "Signing secrets",

	"category.critical": "Recipients cannot refuse it", "category.escalate_limit": "Most escalation steps for one person", "category.campaign_limit": "Most campaigns for one person",
	"category.campaign_beyond": "A campaign’s message beyond that", "category.inbox": "Inboxes keep it", "category.keep": "How long inboxes keep it",
	"category.digest_window": "Gather for", "category.digest_by": "Gather by",
	"category.digest_max": "Leave at once with", "category.digest_template": "Template of a digest",

	"service.access": "Who may call it", "service.timeout": "Time to answer", "service.split": "Share its calls between", "service.cookies": "Pass cookies on", "service.upload": "Bodies of more than 1 MiB",

	"batch.batch": "Collect signals for",

	"sink.url": "Server", "sink.keep": "Keep events for", "sink.backfill": "Begin with the events that are still kept",

	"source.url": "Server", "source.urls": "Servers", "source.ca": "Certificates of authorities", "source.slot": "Replication slot", "source.tables": "What rows become", "source.snapshot": "Begin with all rows that are there",
	"source.mark": "Mark rows instead of deleting them", "source.objects": "Rows are versions of objects", "source.path": "File", "source.consumer": "Durable consumer", "source.from": "Where a new consumer begins",
	"source.tries": "Tries before quarantine", "source.domain": "JetStream domain", "source.inbox": "Prefix of answers", "source.credentials": "Credentials file", "source.nkey": "NKey’s seed", "source.key": "Key of the certificate",
	"source.recipients": "Only these recipients", "source.subjects": "Only these subjects",
}

// settingHints explain fields whose own help is not enough in a form.
var settingHints = map[string]string{
	"hook.url":     "A program of yours at a public address over https, unless the operator allows others. It answers with 2xx within 20 seconds.",
	"hook.types":   "Without a tick: all of them.",
	"hook.secrets": "Left empty, they stay. While your program changes its secret, give the new one and then the old one, one a line; then the new one alone.",

	"category.critical":        "It is sent whatever preferences and quiet hours say. For messages that people must get.",
	"category.escalate_limit":  "Steps beyond live, like 3/m, 10/h or 20/d. Empty: no limit.",
	"category.campaign_limit":  "Like 1/8h, 3/d or 5/7d, within 30 days at most. Empty: no limit.",
	"category.campaign_beyond": "It matters only with a limit of campaigns.",
	"category.inbox":           "People find it in their inbox after its delivery, until the time is over.",
	"category.keep":            "It matters only with the inbox. Empty: 30 days; at most a year.",
	"category.digest_window":   "The first notification for a person waits so long, later ones join it, and one leaves for all. From 1s to 7d, like 10m. Empty: each leaves on its own.",
	"category.digest_by":       "A field of the data, like post: each of its values gathers on its own. Empty: all for a person gather together.",
	"category.digest_max":      "From 2 to 1000 notifications. Empty: 1000.",
	"category.digest_template": "It may say {{count}}, {{others}}, {{items}} and {{key}}. Empty: a plain text.",

	"service.timeout": "At most 1m. Empty: 10s.",
	"service.split":   "A service and its weight a line: other versions that take a part of the calls. Empty: all calls go to the service itself.",
	"service.cookies": "Cookies of callers go to the workers, and theirs to callers.",

	"batch.batch": "From 100ms to 1h, like 60s. 0s: this group collects nothing, whatever * says.",

	"sink.url":           "Where ClickHouse answers HTTP: https://host:8443, or http://host:8123.",
	"sink.user":          "Who writes the events.",
	"sink.password":      "Of the user above.",
	"sink.keep":          "ClickHouse deletes events that are older. Like 90d.",
	"sink.backfill":      "Otherwise it begins with the next event.",
	"source.password":    "Of the user in the address above.",
	"source.ca":          "PEM. Left empty, the system’s authorities vouch for the server.",
	"source.slot":        "Left empty, it is called godwit_ and the app. It is made.",
	"source.publication": "Left empty, it has the slot’s name. It is made.",
	"source.snapshot":    "Their objects are stored before what changes afterwards.",
	"source.tables":      "A list of tables as JSON. Preview shows what their first rows would become.",
}

// kindWords are what people call the kinds of sinks and sources.
var kindWords = map[string]string{
	"clickhouse": "ClickHouse", "postgres": "Changes of PostgreSQL’s tables", "postgres-outbox": "Outbox in PostgreSQL", "mysql-outbox": "Outbox in MySQL or MariaDB", "sqlite-outbox": "Outbox in SQLite",
	"jetstream": "NATS JetStream", "redisstream": "Redis streams",
}

// kindWord returns what people call a kind; a new one has its own name.
func kindWord(kind string) string {
	if word, ok := kindWords[kind]; ok {
		return word
	}
	return kind
}
