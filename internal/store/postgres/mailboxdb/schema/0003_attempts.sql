-- What was tried to bring copies to connections. Of a copy that was written once, to the connection that acknowledged it, tried says so: a row for each
-- commit, found by when its copies were settled. Of the others attempt has what each node has tried.
CREATE TABLE tried (
	last  bigint NOT NULL, -- when the last and the first of them were settled, 10 s from each other at most
	first bigint NOT NULL,
	node  text COLLATE "C" NOT NULL,
	data  bytea NOT NULL   -- as package attempts writes it
);
CREATE INDEX tried_last ON tried (last);
CREATE TABLE attempt (
	recipient bigint NOT NULL,
	pos       bigint NOT NULL,
	node      text COLLATE "C" NOT NULL,
	at        bigint NOT NULL, -- when something was added
	data      bytea NOT NULL,  -- as package attempts writes it
	PRIMARY KEY (recipient, pos, node)
);
CREATE INDEX attempt_at ON attempt (at);
