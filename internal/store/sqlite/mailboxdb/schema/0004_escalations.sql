-- The steps beyond live that a publish asked for. They go with its content; most publishes have none.
CREATE TABLE plan(
  pos   INTEGER PRIMARY KEY, -- of the first copy stored, as content
  steps BLOB NOT NULL
);
-- The next step of an open copy that has a plan. Settling the copy deletes it.
CREATE TABLE escalation(
  pos    INTEGER PRIMARY KEY,
  step   INTEGER NOT NULL, -- from 0, of the plan's
  due_at INTEGER NOT NULL  -- ms; 0: all were handed over
);
