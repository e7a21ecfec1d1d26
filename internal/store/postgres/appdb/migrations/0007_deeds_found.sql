-- What was done is looked for by what it is called and by who did it.
CREATE INDEX deed_deed ON deed (app, deed, id);
CREATE INDEX deed_by ON deed (app, by, id);
