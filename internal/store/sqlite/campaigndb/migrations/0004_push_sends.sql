-- Sends of escalations' steps: one row for each step and endpoint, and one without an endpoint for a step that reached nobody.
CREATE TABLE push_send (
	num         INTEGER PRIMARY KEY AUTOINCREMENT,
	id          BLOB NOT NULL UNIQUE, -- 16 bytes, see escalation.ID
	app         TEXT NOT NULL,
	recipient   TEXT NOT NULL,
	note        TEXT NOT NULL,    -- its notification's id
	pos         INTEGER NOT NULL, -- of the copy in the mailbox
	step        INTEGER NOT NULL,
	endpoint    INTEGER NOT NULL, -- 0: there was none
	endpoint_id BLOB NOT NULL,    -- kept for when the endpoint is gone
	channel     INTEGER NOT NULL, -- as of deliveries
	outcome     INTEGER NOT NULL, -- see dispatch.Outcome
	due         INTEGER NOT NULL, -- of pending ones
	attempts    INTEGER NOT NULL,
	flags       INTEGER NOT NULL, -- as of deliveries
	first_at    INTEGER NOT NULL, -- of the first attempt
	at          INTEGER NOT NULL, -- of the last change
	expires_at  INTEGER NOT NULL,
	external    TEXT NOT NULL,
	detail      TEXT NOT NULL
) STRICT;
CREATE INDEX push_send_of ON push_send(app, recipient, note);
CREATE INDEX push_send_due ON push_send(app, channel, due) WHERE outcome = 0;
CREATE INDEX push_send_sending ON push_send(num) WHERE outcome = 1;
CREATE INDEX push_send_accepted ON push_send(num) WHERE outcome = 2;
CREATE INDEX push_send_at ON push_send(at) WHERE outcome > 1;
