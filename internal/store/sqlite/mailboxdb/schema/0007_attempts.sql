-- What was tried to bring a copy to a connection, where its outcome alone does not say it: it was written more than once, or not to who
-- acknowledged it, or nobody has acknowledged it for a second. It goes with the copy; most copies have none.
-- From now on an outcome, in settlement and outcome, may say over which gateway and to which device its copy was written.
CREATE TABLE attempt(
  pos  INTEGER PRIMARY KEY,
  data BLOB NOT NULL -- as package attempts writes it
);
