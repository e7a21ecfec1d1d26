-- What recipients' inboxes keep after the delivery, as package inboxrow writes it: a head for each recipient with its counts and newest entries,
-- at its key shifted by 12 bits, and parts with older entries behind it. A publish changes its recipient's head in place: there is room left in pages.
CREATE TABLE inbox (
	key  bigint PRIMARY KEY,
	due  bigint, -- of a head: minute from which something is kept no more
	data bytea NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE inbox ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX inbox_due ON inbox (due) WHERE due IS NOT NULL;

-- Their contents, once for each publish and lane. They are apart from the mailbox's, which go when their hour's copies are settled.
CREATE TABLE inbox_content (
	pos  bigint PRIMARY KEY, -- of the first copy stored
	refs integer NOT NULL,   -- entries that refer to it
	body bytea NOT NULL      -- as package content writes it
);
