-- Deleted apps whose data is to be erased.
CREATE TABLE deleted_app (
	name text COLLATE "C" PRIMARY KEY
);
