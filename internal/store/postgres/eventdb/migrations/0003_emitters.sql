-- Who stores events, and what of theirs may be missing: what was emitted after whole, if the server has ended without taking its row away, or
-- where mended is less than lost.
CREATE TABLE emitter (
	boot   text COLLATE "C" PRIMARY KEY,
	whole  bigint NOT NULL, -- milliseconds
	since  bigint NOT NULL, -- nothing emitted after whole happened before
	lost   bigint NOT NULL, -- how many events were dropped
	mended bigint NOT NULL  -- how many of these are there again
) WITH (fillfactor = 50);
