-- Nodes that belong to the cluster, until they end in order or are taken off the list: so a node that is lost stays known.
CREATE TABLE member (
	name  text PRIMARY KEY,
	boot  text NOT NULL,
	since bigint NOT NULL -- milliseconds
);
