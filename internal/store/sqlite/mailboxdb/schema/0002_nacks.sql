-- How often clients could not take a copy, and why the last time. It goes with the copy's row; most copies have none.
CREATE TABLE nack(
  pos    INTEGER PRIMARY KEY,
  count  INTEGER NOT NULL,
  reason TEXT NOT NULL
);
