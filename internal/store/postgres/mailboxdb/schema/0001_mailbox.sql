-- Notifications are inserted and then left alone. Only narrow rows change: a counter for each recipient, and a row for
-- each copy that is not settled. The rows themselves are in tables by the hour, which the store makes and drops: see
-- tables.go. Times are milliseconds of Unix time.

CREATE TABLE app (
	key  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE
);

-- A transaction that changes a recipient's mailbox locks this row first, several in the order of their keys. No column
-- that changes is in an index and half of each page is left free, so that an update stays within its page.
CREATE TABLE recipient (
	key       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- never reused
	app       integer NOT NULL,
	shard     smallint NOT NULL, -- of a hash of app and name: whoever works in parts divides by it
	name      text COLLATE "C" NOT NULL,
	last_seq  bigint NOT NULL DEFAULT 0,
	copies    bigint NOT NULL DEFAULT 0, -- ever stored, scheduled ones too: how many may have come since a count
	last_seen bigint NOT NULL DEFAULT 0, -- 0: never
	UNIQUE (app, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1);

-- Positions are taken holding the recipient's lock, so they grow within a mailbox. No cache: sessions would mix them up.
CREATE SEQUENCE copy_pos CACHE 1;

-- One row for each copy that is not settled. The transaction that deletes the row settles the copy.
CREATE TABLE pending (
	recipient    bigint NOT NULL,
	pos          bigint NOT NULL,
	seq          bigint NOT NULL,   -- 0 while scheduled
	expires_at   bigint NOT NULL,
	send_at      bigint,            -- of one that was scheduled
	delivered_at bigint,
	bytes        integer NOT NULL,  -- of the content, so that a reader can stop in time
	attempts     integer,           -- null: 0
	collapse     integer,           -- hash of the collapse key
	flags        smallint NOT NULL, -- as in flags.go
	PRIMARY KEY (recipient, pos)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pending_expires ON pending (expires_at);
CREATE INDEX pending_due ON pending (send_at) WHERE seq = 0;

-- Which tables there are: note_, done_ and content_ for each hour, stub_ for each day.
CREATE TABLE hour (
	number bigint PRIMARY KEY,
	sealed boolean NOT NULL DEFAULT false -- of its tables done_ alone is left, for another hour
);
CREATE TABLE day (number bigint PRIMARY KEY);

-- Copies that settled before pruned_until are gone for readers; their tables are dropped when nothing else is in them.
CREATE TABLE retention (pruned_until bigint NOT NULL);
INSERT INTO retention VALUES (0);

CREATE TABLE device (
	recipient bigint NOT NULL,
	name      text COLLATE "C" NOT NULL,
	last_seen bigint NOT NULL,
	PRIMARY KEY (recipient, name)
);

-- The devices that have acknowledged a copy that all devices must acknowledge.
CREATE TABLE device_ack (
	recipient bigint NOT NULL,
	pos       bigint NOT NULL,
	device    text COLLATE "C" NOT NULL,
	PRIMARY KEY (recipient, pos, device)
);

-- How often clients could not take a copy, and why the last time. Most copies have none.
CREATE TABLE nack (
	recipient bigint NOT NULL,
	pos       bigint NOT NULL,
	count     integer NOT NULL,
	at        bigint NOT NULL,
	reason    text NOT NULL,
	PRIMARY KEY (recipient, pos)
);

-- The answers of clients to notifications that asked for a reply.
CREATE TABLE reply (
	recipient    bigint NOT NULL,
	pos          bigint NOT NULL,
	at           bigint NOT NULL,
	status       integer NOT NULL,
	content_type text NOT NULL,
	data         bytea NOT NULL,
	PRIMARY KEY (recipient, pos)
);
CREATE INDEX nack_at ON nack (at);
CREATE INDEX reply_at ON reply (at);

-- Recipients whose rows are being deleted: the recipient itself is gone already.
CREATE TABLE erasure (recipient bigint PRIMARY KEY);
