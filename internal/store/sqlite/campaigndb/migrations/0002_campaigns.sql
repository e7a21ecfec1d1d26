-- Campaigns and their deliveries.
CREATE TABLE campaign (
	num         INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: tracking tokens refer to it
	id          TEXT NOT NULL UNIQUE,
	app         TEXT NOT NULL,
	state       TEXT NOT NULL,
	detail      TEXT NOT NULL,
	spec        TEXT NOT NULL,    -- JSON
	channels    TEXT NOT NULL,    -- JSON list
	send_at     INTEGER NOT NULL, -- milliseconds since 1970; 0: as soon as it is started
	created_at  INTEGER NOT NULL,
	started_at  INTEGER NOT NULL, -- 0: not yet, as all below
	finished_at INTEGER NOT NULL,
	enumerated  INTEGER NOT NULL, -- 1: every endpoint of the audience has its delivery
	cursor      INTEGER NOT NULL, -- the last endpoint that was looked at
	recall      INTEGER NOT NULL, -- the last delivery that the recall has come to
	recall_from TEXT NOT NULL     -- state in which the recall began
) STRICT;
CREATE INDEX campaign_app ON campaign(app, num);
CREATE INDEX campaign_state ON campaign(state);

-- Idempotency keys of requests that made campaigns.
CREATE TABLE campaign_key (
	app      TEXT NOT NULL,
	name     TEXT NOT NULL,
	campaign INTEGER NOT NULL,
	body     BLOB NOT NULL, -- SHA-256 of the request
	at       INTEGER NOT NULL,
	PRIMARY KEY (app, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX campaign_key_at ON campaign_key(at);

-- One row an endpoint, in the order of endpoints, which is the order in which they are made.
CREATE TABLE delivery (
	campaign    INTEGER NOT NULL,
	endpoint    INTEGER NOT NULL,
	endpoint_id BLOB NOT NULL,    -- kept for when the endpoint is gone
	channel     INTEGER NOT NULL, -- see channelCodes
	outcome     INTEGER NOT NULL, -- see campaign.Outcome
	due         INTEGER NOT NULL, -- of pending ones
	attempts    INTEGER NOT NULL,
	flags       INTEGER NOT NULL, -- see deliveryFlags
	epoch       INTEGER NOT NULL, -- of the queue's owner that claimed it
	first_at    INTEGER NOT NULL, -- of the first attempt
	at          INTEGER NOT NULL, -- of the last change
	external    TEXT NOT NULL,    -- the provider's name for the message
	detail      TEXT NOT NULL,
	PRIMARY KEY (campaign, endpoint)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_due ON delivery(campaign, channel, due) WHERE outcome = 0;
CREATE INDEX delivery_sending ON delivery(campaign) WHERE outcome = 1;
CREATE INDEX delivery_unknown ON delivery(campaign) WHERE outcome = 6;

-- Counters, changed in the transaction that changes what they count.
CREATE TABLE campaign_count (
	campaign INTEGER NOT NULL,
	channel  INTEGER NOT NULL,
	what     INTEGER NOT NULL, -- an outcome, or more: see tally
	n        INTEGER NOT NULL,
	PRIMARY KEY (campaign, channel, what)
) STRICT, WITHOUT ROWID;
CREATE TABLE campaign_day (
	app      TEXT NOT NULL,
	day      INTEGER NOT NULL, -- since 1970, UTC
	campaign INTEGER NOT NULL,
	what     INTEGER NOT NULL,
	n        INTEGER NOT NULL,
	PRIMARY KEY (app, day, campaign, what)
) STRICT, WITHOUT ROWID;
CREATE INDEX campaign_day_campaign ON campaign_day(campaign);

CREATE TABLE track_key (
	app    TEXT PRIMARY KEY,
	secret BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The owner of sending: a higher epoch takes over from a lower one.
CREATE TABLE delivery_owner (
	one   INTEGER PRIMARY KEY CHECK (one = 1),
	epoch INTEGER NOT NULL
) STRICT;
INSERT INTO delivery_owner VALUES (1, 0);
