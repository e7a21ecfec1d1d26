-- Recipients' preferences: how they may be reached.
CREATE TABLE preference (
	app       TEXT NOT NULL,
	recipient TEXT NOT NULL,
	said      TEXT NOT NULL, -- JSON
	PRIMARY KEY (app, recipient)
) STRICT, WITHOUT ROWID;

-- Steps of escalations that limits count, for as long as they do.
CREATE TABLE step_begun (
	app       TEXT NOT NULL,
	recipient TEXT NOT NULL,
	category  TEXT NOT NULL, -- that the limit is set for
	id        BLOB NOT NULL, -- 16 bytes, see escalation.ID
	at        INTEGER NOT NULL,
	PRIMARY KEY (app, recipient, category, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX step_begun_at ON step_begun(at);
