CREATE TABLE chunk (
	id   bigint PRIMARY KEY, -- of its last event
	app  text COLLATE "C" NOT NULL,
	data bytea NOT NULL      -- see eventlog.Chunk; the ids in it count from 1
);
CREATE INDEX chunk_app ON chunk (app, id);

-- One row, locked by each commit that adds events, until it ends: so ids are in the order of commits.
CREATE TABLE head (
	one    int PRIMARY KEY CHECK (one = 1),
	last   bigint NOT NULL, -- newest id given out
	before bigint NOT NULL, -- what it was before the last commit
	bytes  bigint NOT NULL  -- of all chunks
) WITH (fillfactor = 50);
INSERT INTO head VALUES (1, 0, 0, 0);

CREATE TABLE hook (
	app      text COLLATE "C" NOT NULL,
	name     text COLLATE "C" NOT NULL,
	progress text NOT NULL, -- JSON
	PRIMARY KEY (app, name)
) WITH (fillfactor = 50);
