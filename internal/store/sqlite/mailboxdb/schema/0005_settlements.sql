-- Settling changes no row. A commit appends the copies that it settles as one row here; they move to outcome when their slice is
-- sealed. Rows stored from now on have 2 in open for as long as they do not themselves say whether their copies wait. Such a copy,
-- up to position folded_pos of meta, has ended with the status in outcome; after that position it has ended with the status in
-- settlement, and waits if settlement has none.
CREATE TABLE settlement(
  key  INTEGER PRIMARY KEY, -- in the order of commits
  data BLOB NOT NULL        -- for each copy its position, status, times and attempts
);
CREATE TABLE outcome(
  first INTEGER PRIMARY KEY, -- the first of 512 positions
  data  BLOB NOT NULL        -- for each of them status, times and attempts; 0: its row tells, or there is none
);
INSERT INTO meta(name, value) SELECT 'folded_pos', coalesce(max(pos), 0) FROM notification;
