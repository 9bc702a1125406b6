ALTER TABLE runs ADD COLUMN runs_on VARCHAR(60);
DROP INDEX one_run_per_device;
CREATE UNIQUE INDEX one_run_per_device ON runs (runs_on) WHERE status IN ('starting', 'running', 'stopping');
CREATE TABLE splits (
    run_id VARCHAR(12) NOT NULL,
    n_shards INTEGER NOT NULL,
    executor VARCHAR(10) NOT NULL,
    device VARCHAR(60) NOT NULL,
    PRIMARY KEY (run_id),
    FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE TABLE shards (
    id VARCHAR(12) NOT NULL,
    run_id VARCHAR(12) NOT NULL,
    "groups" JSON NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(id) REFERENCES runs (id),
    FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE INDEX ix_shards_run_id ON shards (run_id);
CREATE TABLE machines (
    name VARCHAR(48) NOT NULL,
    devices JSON NOT NULL,
    seen DOUBLE NOT NULL,
    PRIMARY KEY (name)
);
UPDATE alembic_version SET version_num = '7';
