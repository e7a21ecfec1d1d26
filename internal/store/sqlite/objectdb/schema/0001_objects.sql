CREATE TABLE object (
	app          TEXT NOT NULL,
	grp          TEXT NOT NULL,
	name         TEXT NOT NULL,
	version      INTEGER NOT NULL, -- of an unknown object the floor
	known        INTEGER NOT NULL,
	updated_at   INTEGER NOT NULL, -- milliseconds
	source       TEXT NOT NULL,
	content_type TEXT NOT NULL,
	payload      BLOB NOT NULL,
	PRIMARY KEY (app, grp, name)
) STRICT;

-- One row for each device that has registrations, not one for each registration: 50 of them take about 1 KB.
CREATE TABLE client (
	id        INTEGER PRIMARY KEY,
	app       TEXT NOT NULL,
	recipient TEXT NOT NULL,
	grp       TEXT NOT NULL,
	device    TEXT NOT NULL,
	objects   BLOB NOT NULL, -- see encode.go
	UNIQUE (app, recipient, grp, device)
) STRICT;

-- Progress changes often and may be lost. It has a table of its own, so that noting an acknowledgement does
-- not rewrite all the names.
CREATE TABLE progress (
	client   INTEGER PRIMARY KEY,
	seen_at  INTEGER NOT NULL, -- milliseconds
	versions BLOB NOT NULL
) STRICT;
CREATE INDEX progress_seen_at ON progress (seen_at);
