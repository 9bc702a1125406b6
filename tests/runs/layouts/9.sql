CREATE TABLE kept_turns (
    number INTEGER NOT NULL,
    owner VARCHAR(64),
    started DOUBLE NOT NULL,
    PRIMARY KEY (number)
);
UPDATE alembic_version SET version_num = '9';
