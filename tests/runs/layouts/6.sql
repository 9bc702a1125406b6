CREATE TABLE kept_looks (
    number INTEGER NOT NULL,
    marks JSON NOT NULL,
    runs INTEGER NOT NULL,
    models INTEGER NOT NULL,
    tuned INTEGER NOT NULL,
    audits INTEGER NOT NULL,
    epsilon DOUBLE NOT NULL,
    delta DOUBLE NOT NULL,
    PRIMARY KEY (number)
);
ALTER TABLE runs ADD COLUMN owner VARCHAR(64);
ALTER TABLE runs ADD COLUMN emptied DOUBLE;
CREATE TABLE checkpoints (
    run_id VARCHAR(12) NOT NULL,
    learner INTEGER NOT NULL,
    task INTEGER NOT NULL,
    events JSON NOT NULL,
    document TEXT,
    arrays BLOB,
    PRIMARY KEY (run_id, learner, task),
    FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE TABLE resumptions (
    run_id VARCHAR(12) NOT NULL,
    n_checkpoints INTEGER NOT NULL,
    n_times INTEGER NOT NULL,
    PRIMARY KEY (run_id),
    FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
UPDATE alembic_version SET version_num = '6';
