-- Settling changes no row. What a commit settles is appended as one row here, and moves to outcome when the slice of the copies is
-- sealed. Rows stored from now on have 2 in open for as long as they do not say themselves how they stand: up to position folded_pos
-- of meta such a copy has ended as outcome says, after it as settlement says, and waits if that says nothing.
CREATE TABLE settlement(
  key  INTEGER PRIMARY KEY, -- in the order of commits
  data BLOB NOT NULL        -- for each copy its position, status, times and attempts
);
CREATE TABLE outcome(
  first INTEGER PRIMARY KEY, -- the first of 512 positions
  data  BLOB NOT NULL        -- for each of them status, times and attempts; 0: its row tells, or there is none
);
INSERT INTO meta(name, value) SELECT 'folded_pos', coalesce(max(pos), 0) FROM notification;
