-- How many commits of its events a server has made. One that it makes again finds itself counted; one that a crash of the database took back
-- leaves a hole before the next.
ALTER TABLE emitter ADD COLUMN batch bigint NOT NULL DEFAULT 0;
