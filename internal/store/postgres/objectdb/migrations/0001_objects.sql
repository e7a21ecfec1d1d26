-- Names are compared byte by byte, whatever the database's own order is.
CREATE TABLE object (
	app          text COLLATE "C" NOT NULL,
	grp          text COLLATE "C" NOT NULL,
	name         text COLLATE "C" NOT NULL,
	version      bigint NOT NULL,   -- of an unknown object the floor
	kind         smallint NOT NULL, -- see put.go
	updated_at   bigint NOT NULL,   -- milliseconds
	changed_at   bigint NOT NULL,   -- milliseconds by the store's clock: what other nodes look for
	source       text NOT NULL,
	content_type text NOT NULL,
	payload      bytea NOT NULL,
	PRIMARY KEY (app, grp, name)
);
CREATE INDEX object_changed_at ON object (changed_at);

-- One row for each device that has registrations, not one for each registration: 50 of them take about 1 KB.
CREATE TABLE client (
	id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	app       text COLLATE "C" NOT NULL,
	recipient text COLLATE "C" NOT NULL,
	grp       text COLLATE "C" NOT NULL,
	device    text COLLATE "C" NOT NULL,
	objects   bytea NOT NULL, -- see package regs
	UNIQUE (app, recipient, grp, device)
);
CREATE INDEX client_app ON client (app, id);

-- Progress changes often and may be lost. It has a table of its own, so that noting an acknowledgement does not rewrite
-- all the names. No index covers the columns that change with each acknowledgement, so that a new version of the row
-- finds room on its page and touches nothing else.
CREATE TABLE progress (
	client   bigint PRIMARY KEY,
	seen_day integer NOT NULL, -- of seen_at, in days since 1970
	seen_at  bigint NOT NULL,  -- milliseconds
	versions bytea NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX progress_seen_day ON progress (seen_day);
