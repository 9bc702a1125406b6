CREATE TABLE dpcl_layout (
    version INTEGER NOT NULL,
    PRIMARY KEY (version)
);
CREATE TABLE runs (
    number INTEGER NOT NULL,
    id VARCHAR(12) NOT NULL,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    digest VARCHAR(16) NOT NULL,
    workload VARCHAR(16) NOT NULL,
    n_cells INTEGER NOT NULL,
    device VARCHAR(20) NOT NULL,
    status VARCHAR(10) NOT NULL,
    created DOUBLE NOT NULL,
    started DOUBLE,
    finished DOUBLE,
    heartbeat DOUBLE,
    deleted DOUBLE,
    machine TEXT,
    pid INTEGER,
    ticks BIGINT,
    error_kind VARCHAR(20),
    error TEXT,
    error_log TEXT,
    PRIMARY KEY (number),
    UNIQUE (id)
);
CREATE INDEX ix_runs_workload ON runs (workload);
CREATE INDEX runs_by_status ON runs (status);
CREATE UNIQUE INDEX one_run_per_device ON runs (device) WHERE status IN ('starting', 'running', 'stopping');
CREATE TABLE events (
    run_id VARCHAR(12) NOT NULL,
    seq INTEGER NOT NULL,
    kind VARCHAR(20) NOT NULL,
    at DOUBLE NOT NULL,
    payload JSON NOT NULL,
    PRIMARY KEY (run_id, seq),
    FOREIGN KEY(run_id) REFERENCES runs (id)
)
 WITHOUT ROWID;
CREATE TABLE cells (
    run_id VARCHAR(12) NOT NULL,
    epsilon DOUBLE NOT NULL,
    seed BIGINT NOT NULL,
    metrics JSON NOT NULL,
    guarantee JSON NOT NULL,
    seconds DOUBLE NOT NULL,
    PRIMARY KEY (run_id, epsilon, seed),
    FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE TABLE studies (
    id VARCHAR(12) NOT NULL,
    settings JSON NOT NULL,
    sizes JSON,
    PRIMARY KEY (id),
    FOREIGN KEY(id) REFERENCES runs (id)
);
CREATE TABLE turns (
    run_id VARCHAR(12) NOT NULL,
    study_id VARCHAR(12) NOT NULL,
    PRIMARY KEY (run_id),
    FOREIGN KEY(run_id) REFERENCES runs (id),
    FOREIGN KEY(study_id) REFERENCES studies (id)
);
CREATE INDEX ix_turns_study_id ON turns (study_id);
CREATE TABLE trials (
    study_id VARCHAR(12) NOT NULL,
    number INTEGER NOT NULL,
    payload JSON NOT NULL,
    PRIMARY KEY (study_id, number),
    FOREIGN KEY(study_id) REFERENCES studies (id)
);
