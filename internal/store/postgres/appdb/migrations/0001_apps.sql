CREATE TABLE app (
	name       text COLLATE "C" PRIMARY KEY,
	created_at bigint NOT NULL, -- milliseconds
	settings   text NOT NULL,   -- JSON
	jwt_keys   text NOT NULL    -- JSON, secrets included
);

CREATE TABLE api_key (
	id         text COLLATE "C" PRIMARY KEY,
	app        text COLLATE "C" NOT NULL REFERENCES app ON DELETE CASCADE,
	name       text NOT NULL,
	roles      bigint NOT NULL,
	created_at bigint NOT NULL,
	last_used  bigint NOT NULL, -- 0: never
	prefix     text NOT NULL,
	hash       bytea NOT NULL   -- SHA-256
);
CREATE INDEX api_key_app ON api_key (app);

CREATE TABLE channel (
	app        text COLLATE "C" NOT NULL REFERENCES app ON DELETE CASCADE,
	channel    text COLLATE "C" NOT NULL,
	enabled    boolean NOT NULL,
	settings   text NOT NULL,   -- JSON, secrets included
	updated_at bigint NOT NULL, -- milliseconds
	PRIMARY KEY (app, channel)
);

CREATE TABLE hook (
	app        text COLLATE "C" NOT NULL REFERENCES app ON DELETE CASCADE,
	name       text COLLATE "C" NOT NULL,
	settings   text NOT NULL,   -- JSON, secrets included
	created_at bigint NOT NULL, -- milliseconds
	updated_at bigint NOT NULL,
	PRIMARY KEY (app, name)
);

-- One row, changed by every transaction that changes any of this, as its last statement.
CREATE TABLE version (
	one   int PRIMARY KEY CHECK (one = 1),
	value bigint NOT NULL
);
INSERT INTO version VALUES (1, 0);
