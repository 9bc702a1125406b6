CREATE TABLE audits (
    id VARCHAR(12) NOT NULL,
    run_id VARCHAR(12) NOT NULL,
    results JSON NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(id) REFERENCES runs (id),
    FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE INDEX ix_audits_run_id ON audits (run_id);
