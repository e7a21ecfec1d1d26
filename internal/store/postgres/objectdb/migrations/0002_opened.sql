-- When the session was opened whose node has written versions last, in milliseconds: what a node writes of an older one is late.
ALTER TABLE progress ADD COLUMN opened_at bigint NOT NULL DEFAULT 0;
