package move

import (
	"context"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

func apps(s *Files) *sqlitedb.DB      { return s.Apps }
func mailbox(s *Files) *sqlitedb.DB   { return s.Mailbox }
func events(s *Files) *sqlitedb.DB    { return s.Events }
func objects(s *Files) *sqlitedb.DB   { return s.Objects }
func campaigns(s *Files) *sqlitedb.DB { return s.Campaigns }

// newParts lists the parts in the order of the copy: first those to which others refer.
func newParts() []part {
	return []part{
		&table{
			what: "apps", source: apps, schema: "godwit_app", table: "app", key: 1,
			columns: []string{"name", "created_at", "settings", "jwt_keys"},
		},
		&table{
			what: "API keys", source: apps, schema: "godwit_app", table: "api_key", key: 1,
			columns: []string{"id", "app", "name", "roles", "created_at", "last_used", "prefix", "hash"},
		},
		&table{
			what: "channels", source: apps, schema: "godwit_app", table: "channel", key: 2,
			columns: []string{"app", "channel", "enabled bool", "settings", "updated_at"},
		},
		&table{
			what: "hooks", source: apps, schema: "godwit_app", table: "hook", key: 2,
			columns: []string{"app", "name", "settings", "created_at", "updated_at"},
		},
		&table{
			what: "sources", source: apps, schema: "godwit_app", table: "source", key: 2,
			columns: []string{"app", "kind", "settings", "created_at", "updated_at"},
		},
		&table{
			what: "sinks", source: apps, schema: "godwit_app", table: "sink", key: 2,
			columns: []string{"app", "kind", "settings", "created_at", "updated_at"},
		},
		&table{
			what: "segments", source: apps, schema: "godwit_app", table: "segment", key: 2,
			columns: []string{"app", "name", "settings", "created_at", "updated_at"},
		},
		&table{
			what: "templates", source: apps, schema: "godwit_app", table: "template", key: 2,
			columns: []string{"app", "name", "revision", "content", "created_at", "updated_at"},
		},
		&table{
			what: "revisions of templates", source: apps, schema: "godwit_app", table: "template_version", key: 3,
			columns: []string{"app", "name", "revision", "content", "updated_at"},
		},
		&table{
			what: "who is signed in", source: apps, schema: "godwit_app", table: "stay", key: 1,
			columns: []string{"hash", "id", "app", "key", "subject", "email", "rules", "role", "since", "seen", "address", "browser"},
		},
		&table{
			what: "the audit log", source: apps, schema: "godwit_app", table: "deed", key: 1, number: "id",
			columns: []string{"id", "app", "at", "by", "way", "address", "deed", "object", "outcome"},
		},
		&table{
			what: "the operator key", source: apps, schema: "godwit_app", table: "operator", key: 1,
			columns: []string{"one", "id", "hash", "created_at"},
		},
		&table{
			what: "the server's audit log", source: apps, schema: "godwit_app", table: "server_deed", key: 1, number: "id",
			columns: []string{"id", "app", "at", "by", "way", "address", "deed", "object", "outcome"},
		},
		&table{what: "deleted apps", source: apps, schema: "godwit_app", table: "deleted_app", key: 1, columns: []string{"name"}},
		// Change times need not be new, since no server is watching them yet.
		&table{
			what: "objects", source: objects, schema: "godwit_object", table: "object", key: 3,
			columns:     []string{"app", "grp", "name", "version", "kind = known", "updated_at", "changed_at = updated_at", "source", "content_type", "payload"},
			backColumns: []string{"app", "grp", "name", "version", "known = (kind <> 0)::int", "updated_at", "source", "content_type", "payload"},
		},
		&table{
			what: "clients with registrations", source: objects, schema: "godwit_object", table: "client", key: 1, number: "id",
			columns: []string{"id", "app", "recipient", "grp", "device", "objects"},
		},
		&table{
			what: "clients' versions", source: objects, schema: "godwit_object", table: "progress", key: 1,
			columns: []string{"client", "seen_day = seen_at / 86400000", "seen_at", "versions"},
		},
		// The ids in a chunk are those of the encoding: the events' real ids follow from the chunk's own id.
		&table{
			what: "chunks of events", source: events, schema: "godwit_event", table: "chunk", key: 1, end: eventHead, backEnd: eventLog,
			columns: []string{"id", "app", "data"},
		},
		&table{
			what: "progress of hooks", source: events, schema: "godwit_event", table: "hook", key: 2,
			columns: []string{"app", "name", "progress"},
		},
		&table{
			what: "progress of sinks", source: events, schema: "godwit_event", table: "sink", key: 2,
			columns: []string{"app", "kind", "epoch", "progress"},
		},
		&table{
			what: "owners of hooks' progress", source: events, schema: "godwit_event", table: "hook_owner", key: 1,
			columns: []string{"app", "epoch"},
		},
		&table{
			what: "endpoints", source: campaigns, schema: "godwit_campaign", table: "endpoint", key: 1, number: "number",
			columns: []string{
				"number", "app", "id", "channel", "recipient", "address", "address_key", "tags", "attributes", "locale", "timezone", "active bool",
				"disabled_reason", "created_at", "updated_at", "last_seen_at", "token",
			},
		},
		&table{
			what: "counts of endpoints", source: campaigns, schema: "godwit_campaign", table: "endpoint_count", key: 3,
			columns: []string{"app", "channel", "active bool", "n"},
		},
		&table{
			what: "endpoints gained and lost by the day", source: campaigns, schema: "godwit_campaign", table: "endpoint_day", key: 3,
			columns: []string{"app", "day", "channel", "gained", "lost"},
		},
		&table{
			what: "names of tags", source: campaigns, schema: "godwit_campaign", table: "tag_name", key: 1, number: "id",
			columns: []string{"id", "app", "name"},
		},
		&table{
			what: "names of attributes", source: campaigns, schema: "godwit_campaign", table: "attribute_name", key: 1, number: "id",
			columns: []string{"id", "app", "name"},
		},
		&table{
			what: "tags", source: campaigns, schema: "godwit_campaign", table: "endpoint_tag", key: 2,
			columns: []string{"tag", "endpoint"},
		},
		&table{
			what: "attributes that are texts", source: campaigns, schema: "godwit_campaign", table: "attribute_text", key: 2,
			columns: []string{"endpoint", "name", "value"},
		},
		&table{
			what: "attributes that are numbers", source: campaigns, schema: "godwit_campaign", table: "attribute_number", key: 2,
			columns: []string{"endpoint", "name", "value"},
		},
		&table{
			what: "campaigns", source: campaigns, schema: "godwit_campaign", table: "campaign", key: 1, number: "num",
			columns: []string{
				"num", "id", "app", "state", "detail", "spec", "channels", "send_at", "created_at", "started_at", "finished_at", "enumerated bool",
				"cursor", "recall", "recall_from",
			},
		},
		&table{
			what: "idempotency keys of campaigns", source: campaigns, schema: "godwit_campaign", table: "campaign_key", key: 2,
			columns: []string{"app", "name", "campaign", "body", "at"},
		},
		&table{
			what: "deliveries of campaigns", source: campaigns, schema: "godwit_campaign", table: "delivery", key: 2,
			columns: []string{
				"campaign", "endpoint", "endpoint_id", "channel", "outcome", "due", "attempts", "flags", "epoch", "first_at", "at", "external", "detail",
			},
		},
		&table{
			what: "counts of campaigns", source: campaigns, schema: "godwit_campaign", table: "campaign_count", key: 3,
			columns: []string{"campaign", "channel", "what", "n"},
		},
		&table{
			what: "counts of campaigns by the day", source: campaigns, schema: "godwit_campaign", table: "campaign_day", key: 4,
			columns: []string{"app", "day", "campaign", "what", "n"},
		},
		&table{
			what: "keys of tracking tokens", source: campaigns, schema: "godwit_campaign", table: "track_key", key: 1,
			columns: []string{"app", "secret"},
		},
		&table{
			what: "owners of campaigns", source: campaigns, schema: "godwit_campaign", table: "app_owner", key: 1,
			columns: []string{"app", "epoch"},
		},
		&table{
			what: "preferences", source: campaigns, schema: "godwit_campaign", table: "preference", key: 2,
			columns: []string{"app", "recipient", "said"},
		},
		&table{
			what: "steps that limits count", source: campaigns, schema: "godwit_campaign", table: "step_begun", key: 4,
			columns: []string{"app", "recipient", "category", "id", "at"},
		},
		// The first owner to send recovers the sends that were under way: every epoch is above 0.
		&table{
			what: "sends of escalations", source: campaigns, schema: "godwit_campaign", table: "push_send", key: 1, number: "num",
			columns: []string{
				"num", "id", "app", "recipient", "note", "pos", "step", "endpoint", "endpoint_id", "channel", "outcome", "due", "attempts", "flags", "epoch = 0",
				"first_at", "at", "expires_at", "external", "detail", "target",
			},
		},
		&table{
			what: "apps of mailboxes", source: mailbox, schema: "godwit_mailbox", table: "app", key: 1, number: "key",
			columns: []string{"key", "name"},
		},
		&recipients{},
		&table{
			what: "devices", source: mailbox, schema: "godwit_mailbox", table: "device", key: 2,
			columns: []string{"recipient", "name", "last_seen"},
		},
		// Rows beside a copy name its recipient too; leftover rows of erased recipients are not copied.
		&table{
			what: "acknowledgements of single devices", source: mailbox, schema: "godwit_mailbox", table: "device_ack", key: 2, joins: beside,
			columns: []string{"pos = device_ack.pos", "device = device_ack.device", "recipient = n.recipient"},
		},
		&table{
			what: "refusals of clients", source: mailbox, schema: "godwit_mailbox", table: "nack", key: 1, joins: beside,
			columns: []string{"pos = nack.pos", "count = nack.count", "reason = nack.reason", "recipient = n.recipient", "at = " + besideAt},
		},
		&table{
			what: "attempts to deliver", source: mailbox, schema: "godwit_mailbox", table: "attempt", key: 1, joins: beside,
			columns:     []string{"pos = attempt.pos", "data = attempt.data", "node = ''", "recipient = n.recipient", "at = " + besideAt},
			backColumns: []string{"pos", "data = string_agg(data, ''::bytea ORDER BY node)"}, backGroup: "pos", // one row for each node
		},
		&table{
			what: "answers of clients", source: mailbox, schema: "godwit_mailbox", table: "reply", key: 1, joins: beside,
			columns: []string{"pos = reply.pos", "status = reply.status", "content_type = reply.content_type", "data = reply.data", "recipient = n.recipient", "at = " + besideAt},
		},
		&table{
			what: "next steps of escalations", source: mailbox, schema: "godwit_mailbox", table: "escalation", key: 1, joins: beside, where: "n.open > 0", // settling deletes it
			backColumns: []string{"pos", "step", "due_at", "steps"}, backPart: func(b *backTable) returning { return &leavingSteps{*b} },
			columns: []string{
				"pos = escalation.pos", "step", "due_at", "recipient = n.recipient", "from_at = max(n.created_at, n.send_at)",
				"steps = (SELECT p.steps FROM plan p WHERE p.pos = " + contentOf + ")",
			},
		},
		&copies{},
		&table{
			what: "contents of inboxes", source: mailbox, schema: "godwit_mailbox", table: "inbox_content", key: 1,
			columns: []string{"pos", "refs", "body"},
		},
		&table{
			what: "inboxes", source: mailbox, schema: "godwit_mailbox", table: "inbox", key: 1,
			columns: []string{"key", "due", "data"},
		},
	}
}

const (
	// contentOf is the position of the content of a copy n.
	contentOf = "CASE n.body_offset WHEN -1 THEN n.pos ELSE n.pos - n.body_offset END"

	beside = " JOIN notification n USING (pos) JOIN recipient r ON r.key = n.recipient"
	// besideAt is the time that decides how long a row is kept: as long as its copy, or longer if the copy's row does not say when it
	// ended.
	besideAt = "CASE WHEN n.settled_at > 0 THEN n.settled_at WHEN n.open = 2 THEN n.expires_at ELSE n.created_at END"
)

// eventHead makes ids of events continue after the last one assigned.
func eventHead(ctx context.Context, tx tx, c *sqlite.Conn) error {
	var last, bytes int64
	err := sqlitedb.Each(c, "SELECT last_id, (SELECT coalesce(sum(length(data)), 0) FROM chunk) FROM log", nil, func(s *sqlite.Stmt) error {
		last, bytes = s.ColumnInt64(0), s.ColumnInt64(1)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE godwit_event.head SET last = $1, before = $1, bytes = $2", last, bytes)
	return err
}

// eventLog makes ids of events continue after the last one assigned, in the file. If a server has ended without taking off its row, events
// may be missing: the next server looks for them.
func eventLog(ctx context.Context, tx tx, db *sqlitedb.DB) error {
	var last, gone int64
	if err := tx.QueryRow(ctx, "SELECT last, gone FROM godwit_event.head").Scan(&last, &gone); err != nil {
		return err
	}
	var missing int
	var whole, since int64
	err := tx.QueryRow(ctx, "SELECT count(*), coalesce(min(whole), 0), coalesce(min(since), 0) FROM godwit_event.emitter").Scan(&missing, &whole, &since)
	if err != nil {
		return err
	}
	return db.Do(ctx, func(c *sqlite.Conn) error {
		return sqlitedb.EachOnce(c, "UPDATE log SET last_id = max(last_id, ?1), gone = ?2, lost = mended + (?3 > 0), whole = ?4, since = ?5", []any{last, gone, missing, whole, since}, nil)
	})
}
