-- A name of this database: nodes that share a NATS with strangers recognise by it the nodes that share the
-- database.
CREATE TABLE shared (name text NOT NULL);
INSERT INTO shared (name) VALUES (replace(gen_random_uuid()::text, '-', ''));
