-- The servers that store events, and since when events of theirs may be missing: those emitted after whole may be, if the server has ended
-- without deleting its row, or if mended is less than lost.
CREATE TABLE emitter (
	boot   text COLLATE "C" PRIMARY KEY,
	whole  bigint NOT NULL, -- milliseconds
	since  bigint NOT NULL, -- nothing emitted after whole happened before
	lost   bigint NOT NULL, -- how many events were dropped
	mended bigint NOT NULL  -- how many of these are there again
) WITH (fillfactor = 50);
