-- Attempts to write copies to connections. If a copy was written once, to the connection that acknowledged it, its attempt is in tried, which has a row
-- for each commit, found by the times at which its copies were settled. For the other copies, attempt has a row with each node's attempts.
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
