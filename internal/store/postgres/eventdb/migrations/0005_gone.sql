-- The newest event that was deleted, as are all before it.
ALTER TABLE head ADD COLUMN gone bigint NOT NULL DEFAULT 0;
