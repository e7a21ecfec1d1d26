-- What names this database among others: nodes that share a NATS with strangers tell by it who shares the database.
CREATE TABLE shared (name text NOT NULL);
INSERT INTO shared (name) VALUES (replace(gen_random_uuid()::text, '-', ''));
