-- The holders of work that only one node at a time may do. Taking over changes the epoch, which the second index makes part
-- of a key: so it waits for transactions that have checked the epoch (FOR KEY SHARE), and renewing does not.
CREATE TABLE lease (
	name   text PRIMARY KEY,
	holder text NOT NULL,   -- node and boot; empty: nobody yet
	epoch  bigint NOT NULL, -- grows whenever it is taken; a time in milliseconds, so that it grows even where commits are lost
	until  bigint NOT NULL, -- milliseconds
	UNIQUE (name, epoch)
) WITH (fillfactor = 50);
