package store

import (
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/store/digestdb"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/sqlite/repair"
)

// notErased is a condition for notifications. It excludes those of recipients that are being erased, which do not count as lost.
const (
	notErased   = " AND n.recipient NOT IN (SELECT recipient FROM erasure) "
	noContent   = " n.open = 1 AND NOT EXISTS (SELECT 1 FROM content c WHERE c.pos = CASE n.body_offset WHEN -1 THEN n.pos ELSE n.pos - n.body_offset END) "
	hasPlan     = " EXISTS (SELECT 1 FROM plan p WHERE p.pos = CASE n.body_offset WHEN -1 THEN n.pos ELSE n.pos - n.body_offset END) "
	noRecipient = " NOT EXISTS (SELECT 1 FROM recipient r WHERE r.key = n.recipient AND r.app IN (SELECT key FROM app)) "
)

// Of items of digests: those that wait, and those among them whose content or digest is lost.
const (
	waits    = " i.status = 4 "
	noBody   = "AND NOT EXISTS (SELECT 1 FROM body b WHERE b.app = i.app AND b.id = i.body) "
	noDigest = "AND NOT EXISTS (SELECT 1 FROM digest d WHERE d.app = i.app AND d.id = i.digest AND d.state < 3) "
)

// The tags and attributes of active endpoints, alone and joined with the rows of their names.
const (
	tags            = " endpoint e, json_each(e.tags) j WHERE e.active = 1"
	tagsNamed       = " endpoint e, json_each(e.tags) j, tag_name n WHERE e.active = 1"
	attributes      = " endpoint e, json_each(e.attributes) j WHERE e.active = 1"
	attributesNamed = " endpoint e, json_each(e.attributes) j, attribute_name n WHERE e.active = 1"
)

// kinds holds the rules of a repair for each database.
var kinds = map[string]repair.Kind{
	fileOf(digest.Module): {
		Rules: digestRules, Differs: digestdb.Differs,
		Quiet: map[string]bool{"digest": true, "body": true},
	},
	MailboxFile: {
		Ready: mailboxReady, Differs: mailboxdb.DisagreeingInbox,
		Rules: mailboxRules,
		Tally: "SELECT max((SELECT value FROM meta WHERE name = 'last_pos'), coalesce((SELECT max(pos) FROM notification), 0))," +
			" (SELECT count(*) FROM notification n WHERE open = 1" + notErased + ")",
		GoOn:  []string{"UPDATE meta SET value = max(value, ?1) WHERE name = 'last_pos'"},
		Table: "notification", Packs: "pack", Of: "notifications that waited",
		Quiet: map[string]bool{"content": true, "slice": true, "block": true, "meta": true, "nack": true, "device_ack": true, "escalation": true, "settlement": true, "outcome": true, "attempt": true, "inbox": true, "inbox_content": true},
	},
	ObjectsFile: {
		Rules: []repair.Rule{{Remove: "DELETE FROM progress WHERE client NOT IN (SELECT id FROM client);"}},
		Tally: "SELECT count(*), count(*) FROM object", Of: "objects",
		Quiet: map[string]bool{"progress": true},
	},
	EventsFile: {Rules: []repair.Rule{{Remove: "UPDATE log SET last_id = max(last_id, coalesce((SELECT max(id) FROM chunk), 0));"}}},
	AppsFile:   {Rules: appRules, Tally: appdb.Tally, Of: "apps, API keys, channels, hooks, sources and templates", Quiet: map[string]bool{"stay": true, "version": true}},
	CampaignsFile: {
		Rules: campaignRules,
		Tally: "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'endpoint'), 0), (SELECT count(*) FROM endpoint)",
		GoOn: []string{
			"DELETE FROM sqlite_sequence WHERE name = 'endpoint' AND seq < ?1",
			"INSERT INTO sqlite_sequence(name, seq) SELECT 'endpoint', ?1 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'endpoint')",
		},
		Table: "endpoint", Of: "endpoints",
		Quiet: map[string]bool{"tag_name": true, "attribute_name": true, "endpoint_tag": true, "attribute_text": true, "attribute_number": true, "endpoint_count": true, "step_begun": true},
	},
}

// mailboxReady gives each notification a row that says whether it is pending. Copies whose settlements are lost get an unknown outcome.
// Counts of inboxes are counted anew where they differ from the items that are left.
func mailboxReady(c *sqlite.Conn, lost repair.Lost) (done repair.Readied, err error) {
	r, err := mailboxdb.Ready(c, map[string]bool{"settlement": lost.Of("settlement"), "outcome": lost.Of("outcome")})
	if err != nil {
		return done, err
	}
	if r.Ended > 0 {
		done.Losses = append(done.Losses, repair.Loss{What: "how notifications ended: they are called expired", Rows: r.Ended})
	}
	if r.Unsure > 0 {
		done.Losses = append(done.Losses, repair.Loss{What: "whether notifications had ended: they are delivered once more", Rows: r.Unsure, AtMost: true})
	}
	if lost.Of("notification") || lost.Of("pack") || lost.Of("content") { // else none of the unsure ones replaces a lost row
		done.Unsure = r.Unsure
	}
	in, err := mailboxdb.RepairInboxes(c, lost["inbox"], time.Now())
	if in.Rebuilt > 0 {
		done.Repaired = append(done.Repaired, fmt.Sprintf("%d inboxes: their counts were counted anew", in.Rebuilt))
	}
	if in.Contents > 0 {
		done.Repaired = append(done.Repaired, fmt.Sprintf("%d contents of inboxes: the items that have them were counted anew", in.Contents))
	}
	for _, l := range in.Lost {
		what := "items of an inbox, of app"
		if l.Items == 0 {
			what = "newest items of an inbox, of app"
		}
		done.Losses = append(done.Losses, repair.Loss{What: what, Key: l.App, To: l.Recipient, Rows: l.Items})
	}
	if in.Unnamed > 0 {
		done.Losses = append(done.Losses, repair.Loss{What: "newest items of inboxes, in all", Rows: in.Unnamed})
	}
	return done, err
}

// These rules restore consistency in a rebuilt database.
var (
	mailboxRules = []repair.Rule{
		{
			Find:   "SELECT 'notification: its recipient is lost', n.id, 'recipient number ' || n.recipient, 1 FROM notification n WHERE" + noRecipient + notErased,
			Remove: "DELETE FROM notification AS n WHERE" + noRecipient + notErased + ";",
		},
		{
			Find: "SELECT 'steps of a notification', n.id, r.name, 1 FROM escalation e JOIN notification n ON n.pos = e.pos JOIN recipient r ON r.key = n.recipient" +
				" WHERE n.open = 1 AND NOT" + hasPlan + "AND NOT (" + noContent + ")" + notErased,
		},
		{
			Find: "SELECT 'notification: its content is lost', n.id, r.name, 1 FROM notification n JOIN recipient r ON r.key = n.recipient WHERE" + noContent + notErased,
			Remove: "DELETE FROM notification AS n WHERE" + noContent + notErased + ";" +
				"DELETE FROM recipient WHERE app NOT IN (SELECT key FROM app);" +
				"DELETE FROM content WHERE pos NOT IN (SELECT CASE body_offset WHEN -1 THEN pos ELSE pos - body_offset END FROM notification WHERE open = 1);" +
				"DELETE FROM nack WHERE pos NOT IN (SELECT pos FROM notification);" +
				"DELETE FROM reply WHERE pos NOT IN (SELECT pos FROM notification);" +
				"DELETE FROM attempt WHERE pos NOT IN (SELECT pos FROM notification);" +
				"DELETE FROM plan WHERE pos NOT IN (SELECT pos FROM content);" +
				"DELETE FROM escalation WHERE pos NOT IN (SELECT n.pos FROM notification n JOIN plan p ON p.pos = CASE n.body_offset WHEN -1 THEN n.pos ELSE n.pos - n.body_offset END WHERE n.open = 1);" +
				// A copy that has lost its position in its plan starts the plan again: sends get the same ids as before, so none is sent
				// twice.
				"INSERT INTO escalation(pos, step, due_at) SELECT n.pos, 0, max(n.created_at, n.send_at) + json_extract(CAST(p.steps AS TEXT), '$[0].after_ms') FROM notification n" +
				" JOIN plan p ON p.pos = CASE n.body_offset WHEN -1 THEN n.pos ELSE n.pos - n.body_offset END WHERE n.open = 1 AND n.pos NOT IN (SELECT pos FROM escalation);" +
				"DELETE FROM block WHERE key >> 20 NOT IN (SELECT number FROM slice);" +
				// Counters are computed from the rows, plus a margin, so that nothing new gets a lost row's number.
				"UPDATE recipient SET last_seq = 1000 + max(last_seq, coalesce((SELECT m FROM (SELECT recipient AS k, max(seq) AS m FROM notification GROUP BY recipient) WHERE k = key), 0));" +
				"UPDATE meta SET value = 0 WHERE name = 'flushed_pos';",
		},
	}
	// A digest whose row is lost is made again from its items: it leaves at once. Counters are counted again.
	digestRules = []repair.Rule{
		{
			Find:   "SELECT 'notification that waited for a digest: its content is lost', i.id, i.recipient, 1 FROM item i WHERE" + waits + noBody,
			Remove: "DELETE FROM item AS i WHERE" + waits + noBody + ";",
		},
		{
			Find: "SELECT 'when a digest leaves, and its key: it leaves at once', i.digest, max(i.recipient), 1 FROM item i WHERE" + waits + noDigest + "GROUP BY i.app, i.digest",
			Remove: "INSERT OR REPLACE INTO digest (app, id, recipient, category, key, state, opened, due, sealed, ended, last, items, bytes)" +
				" SELECT i.app, i.digest, max(i.recipient), coalesce(max(json_extract(CAST(b.body AS TEXT), '$.category')), ''), '', 2, min(i.created), max(i.created), max(i.created), 0, max(i.n), 0, 0" +
				" FROM item i JOIN body b ON b.app = i.app AND b.id = i.body WHERE" + waits + noDigest + "GROUP BY i.app, i.digest;" +
				"UPDATE digest SET items = (SELECT count(*) FROM item i WHERE i.app = digest.app AND i.digest = digest.id AND i.status = 4)," +
				" bytes = (SELECT coalesce(sum(i.size), 0) FROM item i WHERE i.app = digest.app AND i.digest = digest.id AND i.status = 4) WHERE state < 3;" +
				"DELETE FROM digest WHERE state < 3 AND items = 0;" +
				"DELETE FROM body WHERE NOT EXISTS (SELECT 1 FROM item i WHERE i.app = body.app AND i.body = body.id AND i.status = 4);" +
				"UPDATE body SET refs = (SELECT count(*) FROM item i WHERE i.app = body.app AND i.body = body.id AND i.status = 4);",
		},
	}
	appRules = []repair.Rule{{
		Find:   "SELECT 'API key: its app is lost', id, '', 1 FROM api_key WHERE app NOT IN (SELECT name FROM app)",
		Remove: "DELETE FROM api_key WHERE app NOT IN (SELECT name FROM app);",
	}}
	campaignRules = []repair.Rule{
		{
			Find:   "SELECT 'deliveries of a campaign that is lost', campaign, '', count(*) FROM delivery WHERE campaign NOT IN (SELECT num FROM campaign) GROUP BY campaign",
			Remove: "DELETE FROM delivery WHERE campaign NOT IN (SELECT num FROM campaign);",
		},
		// Counters include every delivery of a campaign, so they show how many are lost; then they are computed again.
		{
			Find: "SELECT 'deliveries of the campaign', c.id, c.app, s.n - coalesce(d.n, 0) FROM campaign c" +
				" JOIN (SELECT campaign, sum(n) AS n FROM campaign_count WHERE what < 20 GROUP BY campaign) s ON s.campaign = c.num" +
				" LEFT JOIN (SELECT campaign, count(*) AS n FROM delivery GROUP BY campaign) d ON d.campaign = c.num WHERE s.n > coalesce(d.n, 0)",
			Remove: "DELETE FROM campaign_count WHERE what % 100 < 20;" +
				"INSERT INTO campaign_count(campaign, channel, what, n) SELECT campaign, channel, outcome, count(*) FROM delivery GROUP BY 1, 2, 3;" +
				// The counters of variants: a group's number is in two bits of the flags, and what is being sent counts as pending.
				"INSERT INTO campaign_count(campaign, channel, what, n) SELECT campaign, channel, 100 * (flags >> 9 & 3) + CASE outcome WHEN 1 THEN 0 ELSE outcome END, count(*)" +
				" FROM delivery WHERE flags >> 9 & 3 <> 0 GROUP BY 1, 2, 3;",
		},
		// Tables for finding endpoints are built again from the endpoints' rows.
		{Remove: "DELETE FROM endpoint_tag; DELETE FROM attribute_text; DELETE FROM attribute_number; DELETE FROM endpoint_count;" +
			"INSERT OR IGNORE INTO tag_name(app, name) SELECT DISTINCT e.app, j.value FROM" + tags + ";" +
			"INSERT INTO endpoint_tag(tag, endpoint) SELECT n.id, e.number FROM" + tagsNamed + " AND n.app = e.app AND n.name = j.value;" +
			"INSERT OR IGNORE INTO attribute_name(app, name) SELECT DISTINCT e.app, j.key FROM" + attributes + ";" +
			"INSERT INTO attribute_text(endpoint, name, value) SELECT e.number, n.id, j.value FROM" + attributesNamed + " AND n.app = e.app AND n.name = j.key AND j.type = 'text';" +
			"INSERT INTO attribute_number(endpoint, name, value) SELECT e.number, n.id, j.value FROM" + attributesNamed + " AND n.app = e.app AND n.name = j.key AND j.type <> 'text';" +
			"INSERT INTO endpoint_count SELECT app, channel, active, count(*) FROM endpoint GROUP BY app, channel, active;"},
	}
)
