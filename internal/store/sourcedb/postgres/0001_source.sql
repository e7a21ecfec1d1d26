-- A row holds what the feed of a source has noted, as JSON.
CREATE TABLE position (app text NOT NULL, source text NOT NULL, position bytea NOT NULL, PRIMARY KEY (app, source));
-- A row is an entry that is no notification. number grows within a source.
CREATE TABLE quarantine (
	app text NOT NULL, source text NOT NULL, number bigint NOT NULL,
	at bigint NOT NULL, -- milliseconds
	place text NOT NULL, why text NOT NULL, text bytea NOT NULL,
	PRIMARY KEY (app, source, number)
);
