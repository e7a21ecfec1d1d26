-- A row holds what the feed of a source has noted, as JSON.
CREATE TABLE position (app TEXT NOT NULL, source TEXT NOT NULL, position BLOB NOT NULL, PRIMARY KEY (app, source)) STRICT, WITHOUT ROWID;
-- A row is an entry that is no notification. number grows within a source.
CREATE TABLE quarantine (
	app TEXT NOT NULL, source TEXT NOT NULL, number INTEGER NOT NULL,
	at INTEGER NOT NULL, -- milliseconds
	place TEXT NOT NULL, why TEXT NOT NULL, text BLOB NOT NULL,
	PRIMARY KEY (app, source, number)
) STRICT, WITHOUT ROWID;
