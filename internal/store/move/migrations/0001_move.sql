-- From which store the database is being filled, and how far that has come.
CREATE TABLE source (
	one      int PRIMARY KEY CHECK (one = 1),
	store    text NOT NULL,  -- id of the data folder's store
	begun_at bigint NOT NULL, -- milliseconds
	done_at  bigint NOT NULL  -- 0: not yet, and no server may use the database
);
CREATE TABLE part (
	name text PRIMARY KEY,
	last text NOT NULL,   -- JSON: key of the last row that is here
	rows bigint NOT NULL, -- that are here
	done boolean NOT NULL
);
