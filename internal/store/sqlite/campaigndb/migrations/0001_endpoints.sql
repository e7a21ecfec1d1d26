-- Endpoints and what finds them. The SQL is kept so that PostgreSQL can have the same tables.
CREATE TABLE endpoint (
	number          INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: deliveries refer to it
	app             TEXT NOT NULL,
	id              BLOB NOT NULL,    -- 16 bytes
	channel         TEXT NOT NULL,
	recipient       TEXT NOT NULL,    -- '': anonymous
	address         TEXT NOT NULL,    -- JSON
	address_key     BLOB NOT NULL,    -- 16 bytes, see audience.AddressKey
	tags            TEXT NOT NULL,    -- JSON list, sorted
	attributes      TEXT NOT NULL,    -- JSON object
	locale          TEXT NOT NULL,
	timezone        TEXT NOT NULL,
	active          INTEGER NOT NULL, -- 1, or 0: disabled
	disabled_reason TEXT NOT NULL,
	created_at      INTEGER NOT NULL, -- milliseconds since 1970
	updated_at      INTEGER NOT NULL,
	last_seen_at    INTEGER NOT NULL, -- 0: never
	token           BLOB              -- SHA-256 of the manage token; NULL: nobody holds one
) STRICT;
CREATE UNIQUE INDEX endpoint_id ON endpoint(app, id);
CREATE UNIQUE INDEX endpoint_address ON endpoint(app, address_key);
CREATE INDEX endpoint_active ON endpoint(app, active, number, channel);
CREATE INDEX endpoint_recipient ON endpoint(app, recipient, number) WHERE recipient <> '';

-- How many endpoints there are, so that nobody has to count them.
CREATE TABLE endpoint_count (
	app     TEXT NOT NULL,
	channel TEXT NOT NULL,
	active  INTEGER NOT NULL,
	n       INTEGER NOT NULL,
	PRIMARY KEY (app, channel, active)
) STRICT, WITHOUT ROWID;

-- Names stand here once and as numbers elsewhere.
CREATE TABLE tag_name (
	id   INTEGER PRIMARY KEY,
	app  TEXT NOT NULL,
	name TEXT NOT NULL,
	UNIQUE (app, name)
) STRICT;
CREATE TABLE attribute_name (
	id   INTEGER PRIMARY KEY,
	app  TEXT NOT NULL,
	name TEXT NOT NULL,
	UNIQUE (app, name)
) STRICT;

-- Tags and attributes of active endpoints, for finding them. Disabled endpoints have no rows here. An index entry
-- ends with the endpoint, so that those that share a tag or a value are read in the order of their numbers.
CREATE TABLE endpoint_tag (
	tag      INTEGER NOT NULL,
	endpoint INTEGER NOT NULL,
	PRIMARY KEY (tag, endpoint)
) STRICT, WITHOUT ROWID;
CREATE TABLE attribute_text (
	endpoint INTEGER NOT NULL,
	name     INTEGER NOT NULL,
	value    TEXT NOT NULL,
	PRIMARY KEY (endpoint, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX attribute_text_value ON attribute_text(name, value, endpoint);
CREATE TABLE attribute_number (
	endpoint INTEGER NOT NULL,
	name     INTEGER NOT NULL,
	value    REAL NOT NULL,           -- true is 1, false is 0
	PRIMARY KEY (endpoint, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX attribute_number_value ON attribute_number(name, value, endpoint);
