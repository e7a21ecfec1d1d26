-- The next step beyond live of each open copy that has such steps; most have none. Settling the copy deletes it. The plan is in each row: it is
-- short, and so there is nothing that copies share and somebody has to clear away.
CREATE TABLE escalation (
	recipient bigint NOT NULL,
	pos       bigint NOT NULL,
	step      smallint NOT NULL, -- from 0, of the plan's
	due_at    bigint NOT NULL,   -- 0: all were handed over
	from_at   bigint NOT NULL,   -- when the copy became or becomes deliverable, from which steps count
	steps     bytea NOT NULL,    -- the plan, as package content writes it
	PRIMARY KEY (recipient, pos)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX escalation_due ON escalation (due_at, pos) WHERE due_at > 0;
