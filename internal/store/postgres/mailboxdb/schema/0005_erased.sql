-- Recipients that were erased a moment ago: nodes write sightings a second late, and one from before must not bring a name back. hash is that of app
-- and name.
CREATE TABLE erased (hash bigint PRIMARY KEY, at bigint NOT NULL);
