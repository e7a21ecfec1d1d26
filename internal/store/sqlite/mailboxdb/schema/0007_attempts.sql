-- Attempts to write a copy to a connection, where its outcome alone does not say them: the copy was written more than once, or not to
-- the connection that acknowledged it, or nobody has acknowledged it for a second. A row is deleted with the copy; most copies have
-- none. From now on an outcome, in settlement and outcome, may say over which gateway and to which device its copy was written.
CREATE TABLE attempt(
  pos  INTEGER PRIMARY KEY,
  data BLOB NOT NULL -- as package attempts writes it
);
