-- How many commits of its events a server has made. A commit that the server repeats finds itself counted; a commit that a crash of the
-- database took back leaves a gap in the count before the next.
ALTER TABLE emitter ADD COLUMN batch bigint NOT NULL DEFAULT 0;
