ALTER TABLE kept_looks ADD COLUMN unit TEXT;
CREATE TABLE budgets (
    number INTEGER NOT NULL,
    dataset TEXT,
    marks JSON NOT NULL,
    unit TEXT NOT NULL,
    epsilon DOUBLE NOT NULL,
    delta DOUBLE NOT NULL,
    PRIMARY KEY (number)
);
UPDATE alembic_version SET version_num = '10';
